//! What a semantic lookup costs: encode the prompt, search its place. And what an entry costs in memory.

#[path = "../tests/texts/mod.rs"]
mod texts;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use signet_cache::{Partition, PartitionParts, Place, VectorIndex};
use signet_types::{EntryId, TenantId};
use signet_vector::{DIMS, FlatIndex, StaticEncoder};
use std::hint::black_box;
use std::time::Instant;
use texts::Texts;

/// A prompt of thirty word pieces.
const THIRTY: &str = "please tell me how a tenant can measure the yearly budget of a rented flat in berlin before the \
                      contract is cancelled, and which receipts the manager needs";

fn encode(c: &mut Criterion) {
    let encoder = StaticEncoder::embedded();
    let words =
        ["how", "do", "i", "change", "the", "billing", "address", "of", "unaffable", "accounts", "quickly", "?"];
    for pieces in [8, 32, 128] {
        // "unaffable" is three pieces, so fourteen pieces are twelve words.
        let text = words.iter().cycle().take(pieces * 12 / 14).copied().collect::<Vec<_>>().join(" ");
        c.bench_function(&format!("encode/{pieces}_pieces"), |b| b.iter(|| encoder.encode(black_box(&text))));
    }
    c.bench_function("load/embedded", |b| b.iter(StaticEncoder::embedded));
}

fn place() -> Place {
    let parts = PartitionParts {
        tenant: TenantId::from_bytes([1; 16]),
        namespace: "",
        operation: "chat",
        targets: [0; 32],
        policy_generation: 0,
        shape: [0; 32],
    };
    Place { partition: Partition::derive(&parts), bucket: 0 }
}

fn id(number: u64) -> EntryId {
    EntryId::from_bytes(u128::from(number).to_be_bytes())
}

fn encoded(count: u64) -> (StaticEncoder, Vec<[f32; DIMS]>) {
    let (encoder, mut texts) = (StaticEncoder::embedded(), Texts(1));
    let vectors = (0..count).map(|_| encoder.encode(&texts.prompt()).expect("plain English")).collect();
    (encoder, vectors)
}

fn search(c: &mut Criterion) {
    let (encoder, vectors) = encoded(100_000);
    for rows in [1_000, 4_000, 10_000, 100_000] {
        let index = FlatIndex::new(200_000);
        for (number, vector) in (0..).zip(&vectors[..rows]) {
            index.insert(&place(), id(number), vector);
        }
        let query = encoder.encode(THIRTY).expect("plain English");
        let crowded = &vectors[5];
        c.bench_function(&format!("search/{rows}_rows"), |b| {
            b.iter(|| index.nearest(&place(), black_box(&query), 8, 0.9));
        });
        c.bench_function(&format!("search_crowded/{rows}_rows"), |b| {
            b.iter(|| index.nearest(&place(), black_box(crowded), 8, 0.9));
        });
        c.bench_function(&format!("search_every_row/{rows}_rows"), |b| {
            b.iter(|| index.nearest(&place(), black_box(&query), 100, 0.9));
        });
        if rows == 10_000 {
            c.bench_function("lookup/30_pieces_10000_rows", |b| {
                b.iter(|| {
                    let vector = encoder.encode(black_box(THIRTY)).expect("plain English");
                    index.nearest(&place(), &vector, 8, 0.97)
                });
            });
        }
    }
}

fn write(c: &mut Criterion) {
    let (_, vectors) = encoded(100_000);
    let before = resident_bytes();
    let (index, mut slowest) = (FlatIndex::new(100_000), 0);
    for (number, vector) in (0..).zip(&vectors) {
        let start = Instant::now();
        index.insert(&place(), id(number), vector);
        slowest = slowest.max(start.elapsed().as_micros());
    }
    let each = resident_bytes().saturating_sub(before) / vectors.len() as u64;
    eprintln!("100000 entries in one place: {each} bytes each, the slowest insert {slowest} µs");
    let mut next = 200_000;
    c.bench_function("insert/at_the_bound_of_100000", |b| {
        b.iter_batched(
            || {
                next += 1;
                id(next)
            },
            |id| index.insert(&place(), id, &vectors[7]),
            BatchSize::SmallInput,
        );
    });
    c.bench_function("remove_and_insert/100000_rows", |b| {
        b.iter(|| {
            next += 1;
            index.remove(&place(), id(next - 1));
            index.insert(&place(), id(next), &vectors[7]);
        });
    });
}

/// Memory of this process, from the kernel; 0 where there is no /proc.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    status.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or_default() * 4096
}

criterion_group!(benches, write, encode, search); // `write` first: it measures memory that was never used before
criterion_main!(benches);
