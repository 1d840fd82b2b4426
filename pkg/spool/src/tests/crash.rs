//! The process or the machine dies at every file call in turn.

use super::*;

/// What a caller was told before everything stopped.
#[derive(Default)]
struct Told {
    closed: Vec<LineageId>,
    open: Vec<LineageId>,
    /// Requests whose call returned an error: they may or may not be there.
    unsure: Vec<LineageId>,
    synced: usize,
    bases: Vec<TreeHead>,
}

impl Told {
    fn close(&mut self, log: &Spool, opened: Option<Opened>, n: u64) -> Result<(), LogFault> {
        let mut base = None;
        let was_open = opened.is_some();
        let done = log.close(opened, &mut |at| {
            base = Some(at.base);
            record(id(n), at)
        });
        if was_open {
            self.open.retain(|open| *open != id(n));
        }
        if done.is_err() {
            self.unsure.push(id(n));
        }
        done?;
        self.closed.push(id(n));
        self.bases.extend(base);
        Ok(())
    }

    fn open(&mut self, log: &Spool, n: u64) -> Result<Opened, LogFault> {
        let opened = log.open(id(n), b"facts").inspect_err(|_| self.unsure.push(id(n)))?;
        self.open.push(id(n));
        Ok(opened)
    }

    fn sync(&mut self, log: &Spool) -> Result<(), LogFault> {
        log.sync()?;
        self.synced = self.closed.len();
        Ok(())
    }
}

/// Requests that overlap, groups of several sizes, rolls, shipping; request 3 is never closed.
fn run(files: &SimFiles, told: &mut Told) -> Result<(), Box<dyn std::error::Error>> {
    let (log, _) = try_open(files, None)?;
    let mut held = Some(told.open(&log, 3)?);
    for n in 10..26 {
        let opened = told.open(&log, n)?;
        if n % 3 == 0 {
            told.sync(&log)?;
        }
        told.close(&log, Some(opened), n)?;
        told.close(&log, None, 100 + n)?;
        if n % 5 == 0 {
            told.sync(&log)?;
            log.shipped(told.closed.len() as u64 / 2);
        }
    }
    // The process would end here with the request still open; the promise itself is not what is under test.
    std::mem::forget(held.take());
    told.sync(&log)?;
    Ok(())
}

/// Closes what the last process left open, and one request more.
fn carry_on(files: &SimFiles) -> Result<(), Box<dyn std::error::Error>> {
    let (log, found) = try_open(files, None)?;
    for (opened, facts) in found.orphans {
        assert_eq!(facts, b"facts");
        let id = opened.id;
        log.close(Some(opened), &mut |at| record(id, at))?;
    }
    close(&log, None, 900)?;
    log.sync()?;
    Ok(())
}

/// Every acknowledged record once and in order; the tree is theirs; what was open is closed or reported.
fn check(files: &SimFiles, told: &Told) {
    let (log, found) = open(files);
    let all = read_all(&log, 0);
    assert_eq!(found.gaps, []);
    assert_eq!(found.head, head(&all));
    assert!(all.iter().zip(0..).all(|(r, seq)| r.seq == seq), "seqs are contiguous");
    let mut expected = told.closed.iter();
    let mut next = expected.next();
    for found in ids(&all) {
        if Some(&found) == next {
            next = expected.next();
        } else {
            let known = told.unsure.contains(&found) || told.open.contains(&found) || found == id(900);
            assert!(known && !told.closed.contains(&found), "{found} was not acknowledged");
        }
    }
    assert_eq!(next, None, "an acknowledged record is missing");
    for open in &told.open {
        let records = all.iter().filter(|r| r.id == *open).count();
        let orphans = found.orphans.iter().filter(|(o, _)| o.id == *open).count();
        assert_eq!(records + orphans, 1, "a request left open is reported or closed, once");
    }
    for base in &told.bases {
        let size = usize::try_from(base.size).expect("small");
        assert_eq!(*base, head(&all[..size]), "a receipt's base is a head of this log");
    }
}

fn calls_of(step: impl FnOnce(&SimFiles), files: &SimFiles) -> u64 {
    step(files);
    files.calls()
}

#[test]
fn every_acknowledged_record_survives_a_crash_at_every_file_call() {
    let whole = calls_of(|f| run(f, &mut Told::default()).expect("no fault"), &SimFiles::new());
    assert!(whole > 100, "the run is long enough to mean something");
    for call in 0..whole {
        let files = SimFiles::new();
        files.crash_at(call);
        let mut told = Told::default();
        assert!(run(&files, &mut told).is_err() || files.crashed());
        check(&files.after_crash(), &told);
    }
}

#[test]
fn a_crash_at_every_file_call_of_a_recovery_changes_nothing() {
    for first in [0, 3, 20, 41, 60, 77, 90] {
        let files = SimFiles::new();
        files.crash_at(first);
        let mut told = Told::default();
        drop(run(&files, &mut told));
        let calls = calls_of(|f| carry_on(f).expect("no fault"), &files.after_crash());
        for call in 0..calls {
            let again = files.after_crash();
            again.crash_at(call);
            drop(carry_on(&again));
            check(&again.after_crash(), &told);
            let third = again.after_crash();
            carry_on(&third).expect("no fault");
            check(&third, &told);
        }
    }
}

#[test]
fn synced_records_survive_a_power_cut_at_every_file_call() {
    let keeps: [fn(usize, usize) -> bool; 4] =
        [|_, _| false, |_, _| true, |_, sector| sector % 2 == 0, |file, sector| (file * 31 + sector * 17) % 5 < 2];
    let whole = calls_of(|f| run(f, &mut Told::default()).expect("no fault"), &SimFiles::new());
    for (call, keep) in (0..whole).flat_map(|call| keeps.map(|keep| (call, keep))) {
        let files = SimFiles::new();
        files.crash_at(call);
        let mut told = Told::default();
        drop(run(&files, &mut told));
        let after = files.after_power_loss(keep);
        let (log, found) = open(&after);
        let all = read_all(&log, 0);
        let synced = &told.closed[..told.synced];
        let kept: Vec<_> = ids(&all).into_iter().filter(|id| synced.contains(id)).collect();
        assert_eq!(kept, synced, "crash at {call}");
        assert!(!found.same_boot || found.fresh);
        for gap in &found.gaps {
            assert!((gap.first_seq..=gap.last_seq).all(|seq| all.iter().all(|r| r.seq != seq)));
        }
        let missing: u64 = found.gaps.iter().map(|g| g.last_seq - g.first_seq + 1).sum();
        assert_eq!(all.len() as u64 + missing, found.next_seq, "what is missing is declared");
        for base in &told.bases {
            let size = usize::try_from(base.size).expect("small");
            assert_eq!(*base, head(&all[..size]), "no base covers what a power cut can take");
        }
    }
}

#[test]
fn what_a_recovery_found_is_durable_before_anything_is_built_on_it() {
    let files = SimFiles::new();
    let (log, _) = open(&files);
    fill(&log, 0, 4);
    files.crash();
    drop(log);
    let files = files.after_crash();
    let (log, found) = open(&files);
    assert_eq!((found.next_seq, log.stats().durable_seq), (4, 4));
    let (log, found) = open(&files.after_power_loss(|_, _| false));
    assert_eq!((found.next_seq, found.gaps.len()), (4, 0));
    assert_eq!(read_all(&log, 0).len(), 4);
}

#[test]
fn a_long_log_is_replayed_in_small_pieces() {
    let files = SimFiles::new();
    let big = Config { segment_bytes: 1 << 20, max_bytes: 1 << 30, ..config() };
    let (log, _) = open_with(&files, big.clone(), None).expect("fresh");
    fill(&log, 0, 9000);
    log.sync().expect("no fault");
    drop(log);
    let files = files.after_crash();
    let (log, found) = open_with(&files, big, None).expect("sound");
    assert!(found.segments >= 3 && found.next_seq == 9000);
    assert_eq!(log.read_from(0, usize::MAX, 1 << 20).expect("readable")[0].seq, 0);
    assert!(files.largest_read() <= 256 << 10, "no segment is read whole");
}

#[test]
fn nothing_is_read_for_shipping_before_it_is_durable() {
    let files = SimFiles::new();
    let (log, _) = open(&files);
    fill(&log, 0, 3);
    assert_eq!(log.read_from(0, 10, 10_000).expect("readable").len(), 0);
    assert_eq!(log.stats().durable_seq, 0);
    log.sync().expect("no fault");
    assert_eq!(log.read_from(0, 10, 10_000).expect("readable").len(), 3);
    fill(&log, 3, 4);
    assert_eq!(ids(&read_all(&log, 0)), [id(0), id(1), id(2)]);
}

#[test]
fn a_log_that_was_ended_properly_says_so_and_one_that_was_killed_does_not() {
    let files = SimFiles::new();
    let (log, found) = open(&files);
    assert!(found.fresh && found.epoch == 1 && found.next_seq == 0);
    fill(&log, 0, 20);
    drop(log);
    let (log, found) = open(&files);
    assert!(found.clean && found.same_boot && !found.fresh);
    assert_eq!((found.epoch, found.next_seq), (2, 20));
    files.crash();
    drop(log);
    // Nothing was written since, yet after a power cut nobody could know that.
    let (_, found) = open(&files.after_power_loss(|_, _| false));
    assert!(!found.clean && !found.same_boot);
    assert_eq!((found.epoch, found.next_seq), (3, 20));
}

#[test]
fn the_last_progress_of_a_request_comes_back_with_its_orphan_from_any_segment_and_after_any_crash() {
    let files = SimFiles::new();
    let (log, _) = open(&files);
    let (running, ended) = (log.open(id(1), b"facts").expect("room"), log.open(id(2), b"facts").expect("room"));
    log.progress(id(1), 10);
    log.progress(id(2), 20);
    log.progress(id(3), 30);
    close(&log, Some(ended), 2).expect("room");
    log.progress(id(1), 700);
    fill(&log, 10, 30);
    log.sync().expect("no fault");
    log.shipped(log.stats().next_seq);
    assert!(segments(&files).len() > 2);
    // Only the newest segments are left.
    let names = segments(&files);
    files.crash();
    drop((running, log));
    let files = files.after_crash();
    for name in &names[..names.len() - 1] {
        crate::files::Files::unlink(&files, name).expect("it exists");
    }
    for _ in 0..3 {
        let (log, found) = open(&files);
        assert_eq!(found.progress.into_iter().collect::<Vec<_>>(), [(id(1), 700)]);
        assert_eq!(found.orphans.len(), 1);
        fill(&log, 40, 45);
    }
}

#[test]
fn a_frame_of_a_type_that_is_not_known_costs_no_record_and_no_request() {
    let files = SimFiles::new();
    let (log, _) = open_with(&files, Config { segment_bytes: 1 << 16, ..config() }, None).expect("fresh");
    fill(&log, 0, 2);
    let opened = log.open(id(5), b"facts").expect("room");
    let name = segments(&files).remove(0);
    let at = files.content(&name).iter().rposition(|byte| *byte != 0).map_or(0, |last| (last + 1).next_multiple_of(8));
    log.progress(id(5), 77);
    fill(&log, 2, 4);
    files.crash();
    drop((opened, log));
    let files = files.after_crash();
    let first = crate::frame::segment_first_seq(&name).expect("a segment");
    let log_id = crate::identity::read(&files).expect("sound").expect("a log");
    let mut frame = Vec::new();
    crate::frame::put_progress(&mut frame, crate::frame::Seed::new(log_id, first), 2, id(5), 77);
    assert_eq!(files.content(&name)[at..at + frame.len()], frame);
    // With another type its checksum does not hold either, which is as unreadable as a type of a later build.
    files.edit(&name, |bytes| bytes[at + 8] = 5);
    let (log, found) = open(&files);
    assert_eq!((found.gaps.len(), found.next_seq, found.orphans.len(), found.progress.len()), (0, 4, 1, 0));
    assert_eq!(ids(&read_all(&log, 0)), [0, 1, 2, 3].map(id));
}
