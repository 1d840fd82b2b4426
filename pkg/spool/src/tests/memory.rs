//! The log in RAM.

use super::*;
use crate::memory::MemoryLog;
use signet_types::LogId;

fn log(bound: u64) -> MemoryLog {
    MemoryLog::new(LogId::from_bytes([7; 16]), bound)
}

#[test]
fn it_is_full_at_its_bound_and_shipping_makes_room() {
    let log = log(20_000);
    let mut n = 0;
    while close(&log, None, n).is_ok() {
        n += 1;
    }
    assert!(n > 10);
    assert!(matches!(log.open(id(900), b""), Err(LogFault::Full { bound: 20_000, .. })));
    let held = log.stats().bytes;
    log.shipped(n);
    assert_eq!(log.stats().bytes, 0);
    assert!(held > 0 && log.open(id(900), b"").is_ok());
    assert_eq!(log.find(id(0)).expect("lately shipped").seq, 0);
}

#[test]
fn what_was_promised_is_never_refused_and_dropping_gives_the_room_back() {
    let log = log(9000);
    let first = log.open(id(1), b"").expect("room");
    let second = log.open(id(2), b"").expect("room");
    assert!(log.open(id(3), b"").is_err());
    close(&log, Some(first), 1).expect("promised");
    drop(second);
    assert!(log.open(id(3), b"").is_ok());
}

#[test]
fn its_bases_are_heads_of_the_records_before() {
    let log = log(1 << 20);
    let mut bases = Vec::new();
    for n in 0..40 {
        let done = log.close(None, &mut |at| {
            bases.push(at.base);
            record(id(n), at)
        });
        done.expect("room");
    }
    let all = read_all(&log, 0);
    for (base, seq) in bases.into_iter().zip(0_u64..) {
        let size = usize::try_from(base.size).expect("small");
        assert!(base.size <= seq && base == head(&all[..size]));
    }
}

#[test]
fn records_that_are_signed_at_once_stand_in_order_and_are_found_at_once() {
    let log = log(1 << 30);
    let write = |thread: u64| {
        for n in 0..500 {
            let id = id(thread * 1000 + n);
            let done = log.close(None, &mut |at| {
                (0..thread).for_each(|_| std::thread::yield_now()); // so that they overtake each other
                record(id, at)
            });
            let done = done.expect("room");
            assert_eq!(log.find(id).expect("written").seq, done.seq);
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|thread| drop(scope.spawn(move || write(thread)))));
    let all = read_all(&log, 0);
    assert_eq!(all.iter().map(|record| record.seq).collect::<Vec<_>>(), (0..2000).collect::<Vec<_>>());
    assert_eq!((log.stats().next_seq, log.stats().durable_seq), (2000, 2000));
}

#[test]
fn a_record_that_is_never_signed_stops_the_log_and_none_behind_it_is_read() {
    let log = log(1 << 20);
    close(&log, None, 0).expect("room");
    let unsigned = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        log.close(None, &mut |_| panic!("no signature")).map(drop)
    }));
    assert!(unsigned.is_err());
    assert!(matches!(close(&log, None, 2), Err(LogFault::Failed(_))));
    assert!(log.check().is_err());
    assert_eq!(read_all(&log, 0).len(), 1);
}
