//! What a record costs on the path of an answer, and what an auditor pays for it.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;

#[path = "../tests/lineage/sample.rs"]
#[expect(dead_code, reason = "shared with the tests, which use all of it")]
mod sample;

use sample::{ALICE, START_MS, Writer, receipt};
use signet_lineage::TenantKey;
use signet_lineage::verify::{Options, Verifier};

fn write(c: &mut Criterion) {
    let mut log = Writer::filled(1, 64);
    let source = log.records[9].clone();
    let (miss, hit) = (log.request(ALICE), log.hit_draft(ALICE, &source));
    let position = log.position();
    c.bench_function("prepare miss", |b| b.iter(|| black_box(&miss).prepare()));
    c.bench_function("prepare hit", |b| b.iter(|| black_box(&hit).prepare()));
    let prepared = miss.prepare();
    c.bench_function("seal", |b| b.iter(|| black_box(&prepared).clone().seal(&position, &log.signer)));
    let message = [7; 1700];
    c.bench_function("signature alone", |b| b.iter(|| log.signer.sign(black_box(&message))));
    let record = miss.seal(&position, &log.signer);
    let kept = receipt(&record);
    let mut header = Vec::with_capacity(256);
    c.bench_function("receipt", |b| {
        b.iter(|| {
            header.clear();
            black_box(&kept).write_to(&mut header);
        });
    });
}

fn commit(c: &mut Criterion) {
    let (key, body) = (TenantKey::generate(), vec![b'x'; 1024]);
    let id = sample::id(1, START_MS);
    c.bench_function("opening and three commitment keys", |b| {
        b.iter(|| {
            let opening = key.opening(black_box(id));
            ["request", "forwarded", "response"].map(|label| opening.commitment_key(label))
        });
    });
    c.bench_function("commitment of 1 KiB", |b| b.iter(|| key.commitment(id, "request", black_box(&body))));
    c.bench_function("fingerprint of 1 KiB", |b| b.iter(|| key.fingerprint("answer", black_box(&body))));
}

fn audit(c: &mut Criterion) {
    let log = Writer::filled(1, 4096);
    let mut group = c.benchmark_group("verify 4096 records");
    group.throughput(Throughput::Elements(4096)).sample_size(10);
    for threads in [1, 2] {
        group.bench_function(format!("{threads} threads"), |b| {
            b.iter(|| {
                let mut verifier = Verifier::new(&log.keys(), Options { threads, ..Options::default() });
                log.records.iter().for_each(|record| verifier.record(record.clone(), None));
                assert_eq!(verifier.finish().exit_code(), 0);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, write, commit, audit);
criterion_main!(benches);
