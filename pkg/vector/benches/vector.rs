//! What a semantic lookup costs: encode the prompt, scan its place.

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use signet_cache::{Partition, PartitionParts, Place, VectorIndex};
use signet_types::{EntryId, TenantId};
use signet_vector::{DIMS, FlatIndex, StaticEncoder};
use std::hint::black_box;

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

fn vector(seed: u64) -> Vec<f32> {
    let mut x = seed;
    let noise = std::iter::repeat_with(|| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (x >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    });
    noise.take(DIMS).collect()
}

fn scan(c: &mut Criterion) {
    let place = Place {
        partition: Partition::derive(&PartitionParts {
            tenant: TenantId::from_bytes([1; 16]),
            namespace: "",
            operation: "chat",
            targets: [0; 32],
            policy_generation: 0,
            shape: [0; 32],
        }),
        bucket: 0,
    };
    for rows in [1_000u64, 10_000] {
        let index = FlatIndex::new(20_000);
        for id in 0..rows {
            index.insert(&place, EntryId::from_bytes(u128::from(id).to_be_bytes()), &vector(id));
        }
        let query = vector(5);
        c.bench_function(&format!("scan/{rows}_rows"), |b| {
            b.iter(|| index.nearest(&place, black_box(&query), 3, 0.9));
        });
    }
    c.bench_function("insert/at_the_bound", |b| {
        let (index, row, mut next) = (FlatIndex::new(1_000), vector(1), 0u128);
        b.iter_batched(
            || {
                next += 1;
                EntryId::from_bytes(next.to_be_bytes())
            },
            |id| index.insert(&place, id, &row),
            BatchSize::SmallInput,
        );
    });
}

criterion_group!(benches, encode, scan);
criterion_main!(benches);
