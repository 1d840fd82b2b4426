//! Records that are signed at once.

use super::{close, fill, head, id, ids, open, read_all, record};
use crate::frame::MAX_BODY;
use crate::log::{LogFault, Opened, RecordLog};
use crate::sim::{Call, SimFiles};
use crate::spool::Spool;
use signet_lineage::{Position, Record};
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

#[test]
fn two_records_are_signed_at_the_same_time() {
    let files = SimFiles::new();
    let (log, _) = open(&files);
    let both = Barrier::new(2);
    std::thread::scope(|scope| {
        for n in 0..2 {
            let (log, both) = (&log, &both);
            scope.spawn(move || {
                let done = log.close(None, &mut |at| {
                    both.wait(); // for the other one, who is in here too
                    record(id(n), at)
                });
                done.expect("room");
            });
        }
    });
    log.sync().expect("a disk");
    assert_eq!(read_all(&log, 0).len(), 2);
}

#[test]
fn records_that_overtake_each_other_stand_in_order_and_are_there_on_return() {
    let files = SimFiles::new();
    let (log, _) = open(&files);
    let write = |thread: u64| {
        for n in 0..60 {
            let id = id(thread * 1000 + n);
            let done = log.close(None, &mut |at| {
                (0..thread).for_each(|_| std::thread::yield_now());
                record(id, at)
            });
            let done = done.expect("room");
            assert!(log.stats().next_seq > done.seq);
            assert_eq!(log.find(id).expect("written").seq, done.seq);
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|thread| drop(scope.spawn(move || write(thread)))));
    log.sync().expect("a disk");
    let all = read_all(&log, 0);
    assert_eq!(all.iter().map(|r| r.seq).collect::<Vec<_>>(), (0..240).collect::<Vec<_>>());
    assert_eq!(log.published_tree().head(), head(&all));
    drop(log);
    assert_eq!(ids(&read_all(&open(&files).0, 0)), ids(&all));
}

/// Until it holds; whoever is waited for needs no time but the processor's.
fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        std::thread::yield_now();
    }
}

/// Whoever does not wait goes on now.
fn others_may_run() {
    (0..10_000).for_each(|_| std::thread::yield_now());
}

fn waiting(log: &Spool) -> usize {
    log.shared.writer.lock().places.waiting()
}

/// Signs the first of two records when the second is signed and waits for it.
fn first_of_two<T: Send>(
    log: &Spool,
    first: impl FnOnce(&Position) -> Record + Send,
    second: impl FnOnce() -> T,
) -> (Outcome, T) {
    let (is_in, may) = channel();
    std::thread::scope(|scope| {
        let mut first = Some(first);
        let ahead = scope.spawn(move || {
            let seal = &mut |at: &Position| {
                is_in.send(()).expect("the other thread");
                until(|| waiting(log) == 1);
                first.take().expect("signed once")(at)
            };
            catch_unwind(AssertUnwindSafe(|| log.close(None, seal).map(|written| written.seq)))
        });
        may.recv().expect("the other thread");
        let second = second();
        (ahead.join().expect("it caught the panic"), second)
    })
}

type Outcome = std::thread::Result<Result<u64, LogFault>>;

#[test]
fn a_record_behind_one_that_is_never_signed_is_signed_again_in_its_place() {
    let files = SimFiles::new();
    let (log, _) = open(&files);
    fill(&log, 0, 1);
    let mut seqs = Vec::new();
    let second = || {
        let seal = &mut |at: &Position| {
            seqs.push(at.seq);
            record(id(2), at)
        };
        log.close(None, seal).expect("room").seq
    };
    let (first, second) = first_of_two(&log, |_| panic!("no key"), second);
    assert!(first.is_err());
    assert_eq!((second, seqs), (1, vec![2, 1]));
    assert_eq!(close(&log, None, 3).expect("usable").seq, 2);
    log.sync().expect("a disk");
    assert_eq!(ids(&read_all(&log, 0)), [id(0), id(2), id(3)]);
}

#[test]
fn a_record_that_waits_for_another_is_written_with_it() {
    let files = SimFiles::new();
    let (log, _) = open(&files);
    let (first, second) = first_of_two(&log, |at| record(id(0), at), || close(&log, None, 1).expect("room").seq);
    assert_eq!((first.expect("signed").expect("room"), second), (0, 1));
    drop(log);
    assert_eq!(ids(&read_all(&open(&files).0, 0)), [id(0), id(1)]);
}

#[test]
fn a_record_that_waits_for_another_is_not_acknowledged_when_the_disk_refuses_both() {
    let files = SimFiles::new();
    let (log, _) = open(&files);
    let refused = |at: &Position| {
        files.fail_next(Call::Write, ErrorKind::StorageFull);
        files.fail_next(Call::Create, ErrorKind::Other);
        record(id(0), at)
    };
    let (first, second) = first_of_two(&log, refused, || close(&log, None, 1).map(drop));
    assert!(matches!(first.expect("signed"), Err(LogFault::Failed(_))));
    assert!(matches!(second, Err(LogFault::Failed(_))));
}

#[test]
fn one_that_is_signed_alone_waits_for_those_before_it_and_those_behind_wait_for_it() {
    let files = SimFiles::new();
    let (log, _) = open(&files);
    let (signed, barrier) = (AtomicUsize::new(0), Barrier::new(2));
    let (log, barrier, sign) = (&log, &barrier, &|| signed.fetch_add(1, Ordering::SeqCst));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let seal = &mut |at: &Position| {
                until(|| log.shared.writer.lock().places.barred());
                others_may_run();
                assert_eq!(sign(), 0);
                record(id(0), at)
            };
            log.close(None, seal).expect("room");
        });
        until(|| log.shared.writer.lock().places.given() == 1);
        scope.spawn(move || {
            barrier.wait();
            let seal = &mut |at: &Position| {
                assert_eq!(sign(), 2);
                record(id(2), at)
            };
            log.close(None, seal).expect("room");
        });
        let alone = log.close_alone(Some(Opened::control(id(1))), &mut |at| {
            assert_eq!(log.stats().next_seq, at.seq);
            barrier.wait();
            others_may_run();
            assert_eq!(sign(), 1);
            record(id(1), at)
        });
        assert_eq!(alone.expect("room").seq, 1);
    });
    assert_eq!(log.stats().next_seq, 3);
}

#[test]
fn one_that_panics_alone_does_not_bar_the_others() {
    let files = SimFiles::new();
    let (log, _) = open(&files);
    let sealed = &mut |_: &_| panic!("no key");
    let control = Opened::control(id(9));
    catch_unwind(AssertUnwindSafe(|| log.close_alone(Some(control), sealed).map(drop))).expect_err("the seal panics");
    assert_eq!(close(&log, None, 0).expect("usable").seq, 0);
}

#[test]
fn a_record_that_fits_no_frame_costs_those_that_are_written_with_it_nothing() {
    let files = SimFiles::new();
    let (log, _) = open(&files);
    let given_up = AtomicUsize::new(0);
    let (is_in, may) = channel();
    std::thread::scope(|scope| {
        let (log, given_up) = (&log, &given_up);
        let ahead = scope.spawn(move || {
            let seal = &mut |at: &Position| {
                is_in.send(()).expect("the other thread");
                until(|| waiting(log) == 1 || given_up.load(Ordering::SeqCst) == 1);
                record(id(1), at)
            };
            log.close(None, seal).map(|written| written.seq)
        });
        may.recv().expect("the other thread");
        let giant = |at: &Position| Record { payload: vec![b' '; MAX_BODY].into(), ..record(id(2), at) };
        let giant = catch_unwind(AssertUnwindSafe(|| log.close(None, &mut |at| giant(at)).map(drop)));
        given_up.store(1, Ordering::SeqCst);
        assert!(giant.is_err());
        assert!(matches!(ahead.join(), Ok(Ok(0))));
    });
    assert_eq!(close(&log, None, 3).expect("usable").seq, 1);
    drop(log);
    assert_eq!(ids(&read_all(&open(&files).0, 0)), [id(1), id(3)]);
}
