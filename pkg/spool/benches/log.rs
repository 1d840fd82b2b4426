//! What one request pays for its record: OPEN and CLOSE in RAM, on tmpfs and on the disk that holds temporary files.

use criterion::{Criterion, criterion_group, criterion_main};
use signet_lineage::{Position, Record};
use signet_spool::{Config, MemoryLog, Opened, RecordLog, Spool};
use signet_types::{LineageId, LogId, SystemClock};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PAYLOAD: usize = 1400;
const FACTS: [u8; 200] = [7; 200];

fn seal(at: &Position, sign: Duration) -> Record {
    let began = Instant::now();
    let mut payload = vec![b'x'; PAYLOAD].into_boxed_slice();
    payload[..8].copy_from_slice(&at.seq.to_le_bytes());
    let id = LineageId::from_bytes(u128::from(at.seq).to_be_bytes());
    while began.elapsed() < sign {
        std::hint::spin_loop();
    }
    Record { id, log: at.log, epoch: at.epoch, seq: at.seq, payload: payload.into(), key_id: [1; 32], sig: [2; 64] }
}

fn close(log: &dyn RecordLog, opened: Option<Opened>, sign: Duration) {
    black_box(log.close(opened, &mut |at| seal(at, sign)).expect("room"));
}

fn measure(c: &mut Criterion, place: &str, log: &dyn RecordLog) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(20));
                log.shipped(log.stats().durable_seq);
            }
        });
        c.bench_function(&format!("{place}/close"), |b| b.iter(|| close(log, None, Duration::ZERO)));
        let sign = Duration::from_micros(15);
        c.bench_function(&format!("{place}/close, 15 us to sign"), |b| b.iter(|| close(log, None, sign)));
        c.bench_function(&format!("{place}/open and close"), |b| {
            b.iter(|| {
                let id = LineageId::from_bytes(u128::MAX.to_be_bytes());
                let opened = log.open(id, &FACTS).expect("room");
                close(log, Some(opened), Duration::ZERO);
            });
        });
        stop.store(true, Ordering::Relaxed);
    });
}

fn spool_in(c: &mut Criterion, place: &str, parent: &Path) {
    let dir = tempfile::tempdir_in(parent).expect("a directory");
    let config = Config { retain_bytes: 256 << 20, ..Config::new(dir.path()) };
    let (log, _) = Spool::open(config, Arc::new(SystemClock::new()), None).expect("fresh");
    measure(c, place, &log);
}

fn all(c: &mut Criterion) {
    c.bench_function("seal alone", |b| {
        let base = signet_lineage::Tree::new().head();
        let at = Position { log: LogId::from_bytes([1; 16]), epoch: 1, seq: 0, base };
        b.iter(|| seal(black_box(&at), Duration::ZERO));
    });
    measure(c, "memory", &MemoryLog::new(LogId::from_bytes([1; 16]), 1 << 30));
    spool_in(c, "disk", &std::env::temp_dir());
    let ram = Path::new("/dev/shm");
    if ram.is_dir() {
        spool_in(c, "tmpfs", ram);
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().measurement_time(Duration::from_secs(3)).warm_up_time(Duration::from_secs(1)).sample_size(30);
    targets = all
}
criterion_main!(benches);
