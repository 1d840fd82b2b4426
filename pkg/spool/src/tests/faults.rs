//! A disk that refuses, and a log that is full.

use super::*;
use crate::sim::Call;
use std::io::ErrorKind;

fn is_failed<T>(result: &Result<T, LogFault>) -> bool {
    matches!(result, Err(LogFault::Failed(_)))
}

/// All records are there after the process dies, with the same tree.
fn survives(files: &SimFiles, log: Spool, expected: &[LineageId]) {
    files.crash();
    drop(log);
    let (log, found) = open(&files.after_crash());
    let all = read_all(&log, 0);
    assert_eq!(ids(&all), expected);
    assert_eq!((found.head, found.gaps.len()), (head(&all), 0));
}

#[test]
fn a_failed_fdatasync_is_not_repeated_and_the_records_move_to_a_new_segment() {
    let files = SimFiles::new();
    let (log, _) = open(&files);
    fill(&log, 0, 2);
    log.sync().expect("no fault");
    let opened = log.open(id(9), b"facts").expect("room");
    fill(&log, 2, 4);
    files.fail_next(Call::Sync, ErrorKind::Other);
    log.sync().expect("the records went to a new segment");
    assert_eq!(segments(&files).len(), 2);
    assert_eq!(log.stats().durable_seq, 4);
    close(&log, Some(opened), 9).expect("no fault");
    let after = files.after_power_loss(|_, _| false);
    assert_eq!(ids(&read_all(&open(&after).0, 0)), [0, 1, 2, 3].map(id), "the new segment is durable");
    survives(&files, log, &[0, 1, 2, 3, 9].map(id));
}

#[test]
fn damage_to_records_that_a_later_segment_took_over_is_no_gap() {
    let files = SimFiles::new();
    let (log, _) = open(&files);
    fill(&log, 0, 2);
    log.sync().expect("no fault");
    fill(&log, 2, 5);
    files.fail_next(Call::Sync, ErrorKind::Other);
    log.sync().expect("the records went to a new segment");
    let old = segments(&files)[0].clone();
    let lost = log.find(id(3)).expect("recent").payload.clone();
    files.edit(&old, |bytes| {
        let at = bytes.windows(lost.len()).position(|w| *w == *lost).expect("the old copy");
        bytes[at] ^= 1;
    });
    survives(&files, log, &[0, 1, 2, 3, 4].map(id));
}

#[test]
fn a_failed_fdatasync_of_the_first_records_replaces_their_segment() {
    let files = SimFiles::new();
    let (log, _) = open(&files);
    std::mem::forget(log.open(id(9), b"facts").expect("room"));
    fill(&log, 0, 2);
    files.fail_next(Call::Sync, ErrorKind::Other);
    log.sync().expect("the records went to a new segment");
    assert_eq!(segments(&files).len(), 1);
    files.crash();
    drop(log);
    let (log, found) = open(&files.after_power_loss(|_, _| false));
    assert_eq!(ids(&read_all(&log, 0)), [id(0), id(1)]);
    assert_eq!(found.orphans.len(), 1, "a request in flight moves along");
}

#[test]
fn two_failed_syncs_in_a_row_fail_the_log_for_good_and_lose_nothing() {
    let files = SimFiles::new();
    let (log, _) = open(&files);
    fill(&log, 0, 2);
    files.fail_next(Call::Sync, ErrorKind::Other);
    files.fail_next(Call::Sync, ErrorKind::Other);
    assert!(is_failed(&log.sync()));
    assert!(is_failed(&log.open(id(5), b"")) && is_failed(&close(&log, None, 5)) && is_failed(&log.sync()));
    assert_eq!(log.stats().durable_seq, 0, "nothing unsynced is offered for shipping");
    survives(&files, log, &[0, 1].map(id));
}

#[test]
fn a_refused_write_goes_to_a_new_segment_and_is_acknowledged_from_there() {
    for kind in [ErrorKind::Other, ErrorKind::StorageFull] {
        let files = SimFiles::new();
        let (log, _) = open(&files);
        fill(&log, 0, 2);
        files.fail_next(Call::Write, kind);
        close(&log, None, 2).expect("written to a new segment");
        files.fail_next(Call::Write, kind);
        let opened = log.open(id(3), b"facts").expect("written to a new segment");
        close(&log, Some(opened), 3).expect("no fault");
        survives(&files, log, &[0, 1, 2, 3].map(id));
    }
}

#[test]
fn a_sync_that_began_before_the_tail_was_rewritten_says_nothing_about_the_new_file() {
    for result in [Ok(()), Err(ErrorKind::Other.into())] {
        let files = SimFiles::new();
        let (log, _) = open(&files);
        fill(&log, 0, 2);
        let cut = log.writer().cut();
        files.fail_next(Call::Write, ErrorKind::Other);
        fill(&log, 2, 3);
        let calls = files.calls();
        let head = cut.tree.head();
        log.writer().synced(cut, head, &result).expect("no news");
        assert_eq!((files.calls(), log.stats().durable_seq), (calls, 3));
        survives(&files, log, &[0, 1, 2].map(id));
    }
}

#[test]
fn a_refused_write_and_no_new_segment_fail_the_log() {
    let files = SimFiles::new();
    let (log, _) = open(&files);
    fill(&log, 0, 2);
    files.fail_next(Call::Write, ErrorKind::Other);
    files.fail_next(Call::Create, ErrorKind::Other);
    assert!(is_failed(&close(&log, None, 2)));
    assert!(is_failed(&close(&log, None, 3)));
    survives(&files, log, &[0, 1].map(id));
}

#[test]
fn a_full_disk_refuses_new_requests_while_open_ones_end() {
    let files = SimFiles::new();
    let (log, _) = open(&files);
    let mut open_ones = Vec::new();
    let mut n = 0;
    files.fail_next(Call::Preallocate, ErrorKind::StorageFull);
    let refusal = loop {
        match log.open(id(n), b"facts") {
            Ok(opened) => open_ones.push((opened, n)),
            Err(fault) => break fault,
        }
        n += 1;
    };
    assert!(matches!(refusal, LogFault::Full { .. }));
    assert!(open_ones.len() > 2);
    for (opened, n) in open_ones {
        files.fail_next(Call::Preallocate, ErrorKind::StorageFull);
        close(&log, Some(opened), n).expect("its room was kept");
    }
    let closed: Vec<_> = (0..n).map(id).collect();
    survives(&files, log, &closed);
}

#[test]
fn a_full_log_refuses_before_money_is_spent_and_keeps_its_promises() {
    let files = SimFiles::new();
    let small = Config { max_bytes: 4000, ..config() };
    let (log, _) = open_with(&files, small, None).expect("fresh");
    let promised = [0, 1, 2].map(|n| log.open(id(n), b"facts").expect("room"));
    let mut n = 10;
    while close(&log, None, n).is_ok() {
        n += 1;
    }
    assert!(matches!(log.open(id(99), b""), Err(LogFault::Full { bound: 4000, .. })));
    for (opened, n) in promised.into_iter().zip(0..) {
        close(&log, Some(opened), n).expect("promised");
    }
    close(&log, Some(Opened::control(id(98))), 98).expect("a full log can still say so");
    log.sync().expect("no fault");
    log.shipped(log.stats().next_seq);
    assert!(log.open(id(99), b"").is_ok(), "shipped segments make room");
}

#[test]
fn room_promised_to_a_request_that_was_dropped_is_given_back() {
    let files = SimFiles::new();
    let small = Config { max_bytes: 1100, ..config() };
    let (log, _) = open_with(&files, small, None).expect("fresh");
    let first = log.open(id(0), b"").expect("room");
    let second = log.open(id(1), b"").expect("room");
    assert!(log.open(id(2), b"").is_err());
    drop((first, second));
    assert!(log.open(id(2), b"").is_ok());
}

#[test]
fn a_seal_that_panics_uses_no_seq_and_leaves_the_log_usable() {
    let files = SimFiles::new();
    let (log, _) = open(&files);
    fill(&log, 0, 1);
    let attempt = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        drop(log.close(None, &mut |_| panic!("no key")));
    }));
    assert!(attempt.is_err());
    assert_eq!(close(&log, None, 1).expect("usable").seq, 1);
    survives(&files, log, &[id(0), id(1)]);
}

#[test]
fn a_failure_to_create_the_first_segment_leaves_a_directory_that_opens_later() {
    for call in [Call::Create, Call::Write, Call::Sync, Call::Rename, Call::SyncDir, Call::Preallocate] {
        let files = SimFiles::new();
        files.fail_next(call, ErrorKind::StorageFull);
        assert!(matches!(try_open(&files, None), Err(OpenFault::Io(_))));
        let (_, found) = open(&files);
        assert_eq!(found.next_seq, 0);
    }
}

#[test]
fn on_a_full_disk_requests_in_flight_end_and_the_log_still_speaks_until_there_is_room_again() {
    let files = SimFiles::new();
    let (log, _) = open(&files);
    let mut expected = Vec::new();
    let in_flight: Vec<_> = (0..3).map(|n| (log.open(id(n), b"facts").expect("room"), n)).collect();
    files.full(true);
    let refusal = (100..).find_map(|n| match log.open(id(n), b"facts") {
        Ok(opened) => {
            close(&log, Some(opened), n).expect("promised");
            expected.push(id(n));
            None
        }
        Err(fault) => Some(fault),
    });
    assert!(matches!(refusal, Some(LogFault::Full { .. })));
    for (opened, n) in in_flight {
        close(&log, Some(opened), n).expect("promised");
        expected.push(id(n));
    }
    // More than the open segment holds: it ends in the reserve.
    let begun = segments(&files).len();
    for n in 200..204 {
        close(&log, Some(Opened::control(id(n))), n).expect("the log can say what happened");
        expected.push(id(n));
    }
    assert_eq!(segments(&files).len(), begun + 1, "the reserve has become a segment");
    assert!(!files.names().contains(&"reserve.tmp".to_owned()));
    log.sync().expect("no fault");
    assert!(matches!(log.open(id(300), b""), Err(LogFault::Full { .. })), "it is not for new requests");
    assert!(close(&log, None, 300).is_err(), "nor for answers that nobody promised");
    assert!(is_failed(&log.check()), "and it is told");
    files.full(false);
    log.check().expect("there is room");
    let opened = log.open(id(301), b"facts").expect("room");
    close(&log, Some(opened), 301).expect("room");
    expected.push(id(301));
    assert!(files.names().contains(&"reserve.tmp".to_owned()), "there is a reserve again");
    survives(&files, log, &expected);
}

#[test]
fn a_failed_fdatasync_on_a_full_disk_moves_the_records_into_the_reserve() {
    let files = SimFiles::new();
    let (log, _) = open(&files);
    fill(&log, 0, 3);
    files.full(true);
    files.fail_next(Call::Sync, ErrorKind::Other);
    log.sync().expect("the records went to the reserve");
    assert_eq!(log.stats().durable_seq, 3);
    let after = files.after_power_loss(|_, _| false);
    assert_eq!(ids(&read_all(&open(&after).0, 0)), [0, 1, 2].map(id));
    survives(&files, log, &[0, 1, 2].map(id));
}

#[test]
fn a_start_on_a_full_disk_takes_the_room_that_was_kept() {
    let files = SimFiles::new();
    let (log, _) = open(&files);
    fill(&log, 0, 3);
    files.crash();
    drop(log);
    let files = files.after_crash();
    assert!(files.names().contains(&"reserve.tmp".to_owned()));
    files.full(true);
    assert!(matches!(try_open(&files, None), Err(OpenFault::Io(_))), "this disk gives nothing back");
    assert!(!files.names().contains(&"reserve.tmp".to_owned()), "but what was kept is free");
    files.full(false);
    assert_eq!(open(&files).1.next_seq, 3);
}
