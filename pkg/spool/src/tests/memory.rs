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
