//! What `strict` promises: an answer that waited for its mark survives a power cut.

use super::*;
use crate::log::Mark;
use crate::sim::Call;
use proptest::prelude::*;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Woken {
    fn times(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

fn synced(log: &Spool, mark: Mark) -> Poll<Result<(), LogFault>> {
    log.poll_synced(mark, &mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_mark_is_reached_when_the_disk_has_what_was_before_it_and_not_earlier() {
    let files = SimFiles::new();
    let (log, _) = open(&files);
    assert!(matches!(synced(&log, log.mark()), Poll::Ready(Ok(()))), "nothing was written");
    let opened = log.open(id(0), b"facts").expect("room");
    let asked = log.mark();
    assert!(synced(&log, asked).is_pending());
    log.sync().expect("no fault");
    assert!(matches!(synced(&log, asked), Poll::Ready(Ok(()))));
    close(&log, Some(opened), 0).expect("no fault");
    let answered = log.mark();
    assert!(synced(&log, answered).is_pending() && synced(&log, Mark::record(0)).is_pending());
    assert!(matches!(synced(&log, asked), Poll::Ready(Ok(()))), "an earlier mark stays reached");
    log.sync().expect("no fault");
    assert!(matches!(synced(&log, answered), Poll::Ready(Ok(()))));
    assert!(matches!(synced(&log, Mark::record(0)), Poll::Ready(Ok(()))));
    let (log, found) = open(&files.after_power_loss(|_, _| false));
    assert_eq!((read_all(&log, 0).len(), found.orphans.len()), (1, 0));
}

#[test]
fn whoever_waits_is_woken_by_a_sync_by_a_new_segment_and_by_the_end_of_the_log() {
    let files = SimFiles::new();
    let (log, _) = open(&files);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let mut cx = Context::from_waker(&waker);
    fill(&log, 0, 1);
    assert!(log.poll_synced(log.mark(), &mut cx).is_pending() && log.poll_shipped(log.mark(), &mut cx).is_pending());
    log.sync().expect("no fault");
    assert_eq!(woken.times(), 1);
    log.shipped(1);
    assert_eq!(woken.times(), 2);
    assert!(log.poll_shipped(log.mark(), &mut cx).is_ready());

    fill(&log, 1, 2);
    assert!(log.poll_synced(log.mark(), &mut cx).is_pending());
    files.fail_next(Call::Sync, ErrorKind::Other);
    log.sync().expect("the record went to a new segment");
    assert_eq!(woken.times(), 3);
    assert!(log.poll_synced(log.mark(), &mut cx).is_ready());

    fill(&log, 2, 3);
    assert!(log.poll_synced(log.mark(), &mut cx).is_pending() && log.poll_shipped(log.mark(), &mut cx).is_pending());
    files.fail_next(Call::Sync, ErrorKind::Other);
    files.fail_next(Call::Create, ErrorKind::Other);
    assert!(log.sync().is_err());
    assert_eq!(woken.times(), 5);
    let failed = |poll| matches!(poll, Poll::Ready(Err(LogFault::Failed(_))));
    assert!(failed(log.poll_synced(log.mark(), &mut cx)) && failed(log.poll_shipped(log.mark(), &mut cx)));
}

/// Several requests in flight, answered in groups; an answer counts once its mark is reached.
fn serve(files: &SimFiles, told: &mut Vec<LineageId>) -> Result<(), LogFault> {
    let (log, _) = try_open(files, None).map_err(|fault| LogFault::Failed(fault.to_string()))?;
    let (mut waiting, mut open) = (Vec::new(), Vec::new());
    for n in 0..30 {
        open.push((log.open(id(n), b"facts")?, n));
        if n % 3 == 2 {
            for (opened, n) in open.drain(..) {
                close(&log, Some(opened), n)?;
                waiting.push((log.mark(), id(n)));
            }
        }
        if n % 4 == 3 {
            log.sync()?;
        }
        waiting.retain(|(mark, id)| {
            let reached = matches!(synced(&log, *mark), Poll::Ready(Ok(())));
            told.extend(reached.then_some(*id));
            !reached
        });
    }
    Ok(())
}

/// A process's end: after so many file calls, and, if the machine's power goes with it, which unsynced sectors are lost.
#[derive(Debug, Clone)]
struct Death {
    at: u64,
    lost: Option<u64>,
}

impl Death {
    fn any() -> impl Strategy<Value = Self> {
        (any::<u64>(), any::<Option<u64>>()).prop_map(|(at, lost)| Self { at, lost })
    }

    /// What the next process finds.
    fn leaves(&self, files: &SimFiles) -> SimFiles {
        let Some(lost) = self.lost else { return files.after_crash() };
        files.after_power_loss(|file, sector| {
            let mixed = lost ^ (file as u64 * 0x9e37_79b9 + sector as u64).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (mixed ^ (mixed >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 63 == 0
        })
    }
}

/// A process that takes the log up: it ends what it finds open and answers one request of its own. What it found is as good as
/// acknowledged, since it builds on it.
fn take_up(files: &SimFiles, n: u64, told: &mut Vec<LineageId>) -> Result<(), LogFault> {
    let (log, found) = try_open(files, None).map_err(|fault| LogFault::Failed(fault.to_string()))?;
    told.extend(ids(&read_all(&log, 0)));
    for (opened, _) in found.orphans {
        let id = opened.id;
        log.close(Some(opened), &mut |at| record(id, at))?;
    }
    let opened = log.open(id(n), b"facts")?;
    close(&log, Some(opened), n)?;
    log.sync()?;
    told.extend(synced(&log, log.mark()).is_ready().then(|| id(n)));
    Ok(())
}

/// More than a recovery makes; a death behind its end comes after it.
const RECOVERY_CALLS: u64 = 48;

proptest! {
    /// As often as it likes, within recoveries too. PROPTEST_CASES says how many such lives are tried, each of up to four deaths;
    /// one that fails is printed and kept.
    #[test]
    fn what_was_acknowledged_survives_deaths_and_power_cuts_within_recoveries_too(
        first in Death::any(),
        later in prop::collection::vec(Death::any(), 0..4),
    ) {
        let whole = {
            let files = SimFiles::new();
            serve(&files, &mut Vec::new()).expect("no fault");
            files.calls()
        };
        let mut files = SimFiles::new();
        files.crash_at(first.at % whole);
        let mut told = Vec::new();
        drop(serve(&files, &mut told));
        files = first.leaves(&files);
        for (death, n) in later.iter().zip(1_000..) {
            files.crash_at(death.at % RECOVERY_CALLS);
            drop(take_up(&files, n, &mut told));
            files = death.leaves(&files);
        }
        let (log, found) = open(&files);
        let kept = ids(&read_all(&log, 0));
        for id in told {
            prop_assert_eq!(kept.iter().filter(|kept| **kept == id).count(), 1, "{} was acknowledged", id);
        }
        let missing: u64 = found.gaps.iter().map(|gap| gap.last_seq - gap.first_seq + 1).sum();
        prop_assert_eq!(kept.len() as u64 + missing, found.next_seq);
    }

    /// Unsynced sectors are kept or lost one by one, whatever the order in which they were written.
    #[test]
    fn what_waited_for_its_mark_survives_a_power_cut_at_any_moment(at in any::<u64>(), lost in any::<u64>()) {
        let whole = {
            let files = SimFiles::new();
            serve(&files, &mut Vec::new()).expect("no fault");
            files.calls()
        };
        let files = SimFiles::new();
        files.crash_at(at % whole);
        let mut told = Vec::new();
        drop(serve(&files, &mut told));
        let (log, found) = open(&Death { at, lost: Some(lost) }.leaves(&files));
        let kept = ids(&read_all(&log, 0));
        for id in told {
            prop_assert!(kept.contains(&id), "{} was acknowledged", id);
        }
        let missing: u64 = found.gaps.iter().map(|gap| gap.last_seq - gap.first_seq + 1).sum();
        prop_assert_eq!(kept.len() as u64 + missing, found.next_seq);
    }
}

#[test]
fn a_gap_is_gone_over_only_once_a_signed_record_declares_it() {
    use signet_lineage::{ControlStamp, Draft, Gateway, Signer};
    let files = SimFiles::new();
    let (log, _) = open(&files);
    fill(&log, 0, 4);
    log.sync().expect("no fault");
    let lost = log.find(id(2)).expect("recent").payload.clone();
    let name = segments(&files)[0].clone();
    drop(log);
    files.edit(&name, |bytes| {
        let at = bytes.windows(lost.len()).position(|w| *w == *lost).expect("it is there");
        bytes[at] ^= 1;
    });
    let signer = Signer::generate();
    let strict = Config { gap_keys: Some(vec![[1; 32], *signer.public_key().as_bytes()]), ..config() };
    let refused = open_with(&files, strict.clone(), None);
    assert!(matches!(refused, Err(OpenFault::Undeclared { first_seq: 2, last_seq: 2 })));
    let before: Vec<_> =
        files.names().iter().filter(|name| name.starts_with("seg-")).map(|n| files.content(n)).collect();

    let (log, found) = open(&files);
    assert_eq!(before.len(), 1, "a refusal leaves the directory as it was");
    let gateway =
        Gateway { version: "0".into(), config_sha256: [0; 32], instance: "test".into(), durability: "strict".into() };
    let stamp = ControlStamp { id: id(90), at_ms: NOW_MS, gateway: Arc::new(gateway) };
    let gap = Draft::gap(&stamp, found.gaps[0].first_seq, found.gaps[0].last_seq, "unreadable", None);
    let mut prepared = Some(gap.prepare());
    log.close(None, &mut |at| prepared.take().expect("once").seal(at, &signer)).expect("room");
    drop(log);
    open_with(&files, strict.clone(), None).expect("declared");
    let other = Config { gap_keys: Some(vec![*Signer::generate().public_key().as_bytes()]), ..config() };
    assert!(open_with(&files, other, None).is_err(), "declared by someone else");
}

#[test]
fn a_record_whose_caller_was_never_told_is_there_beside_that_of_the_retry() {
    let files = SimFiles::new();
    let (log, _) = open(&files);
    let opened = log.open(id(1), b"facts").expect("room");
    close(&log, Some(opened), 1).expect("room");
    log.sync().expect("no fault");
    // The disk has it; the process dies before whoever waits is woken.
    files.crash();
    drop(log);
    let files = files.after_power_loss(|_, _| false);
    let (log, found) = open(&files);
    assert!(found.orphans.is_empty(), "it was answered, as far as the log knows");
    let again = log.open(id(2), b"facts").expect("room");
    close(&log, Some(again), 2).expect("room");
    log.sync().expect("no fault");
    assert_eq!(ids(&read_all(&log, 0)), [id(1), id(2)]);
}
