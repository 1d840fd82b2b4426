//! What is kept, for how long, and how it is found again.

use super::*;

fn with(files: &SimFiles, config: Config, now_ms: u64, shipped: Option<u64>) -> (Spool, Arc<ManualClock>, Recovered) {
    let clock = Arc::new(ManualClock::at(now_ms));
    let (log, found) = Spool::open_on(Arc::new(files.clone()), config, clock.clone(), shipped).expect("sound");
    (log, clock, found)
}

#[test]
fn unshipped_segments_are_never_removed_and_shipped_ones_only_beyond_what_is_retained() {
    let files = SimFiles::new();
    let (log, _, _) = with(&files, Config { retain_bytes: 2500, ..config() }, NOW_MS, None);
    fill(&log, 0, 30);
    log.sync().expect("no fault");
    let before = segments(&files).len();
    log.shipped(0);
    assert_eq!(segments(&files).len(), before);
    log.shipped(20);
    assert!(segments(&files).len() < before);
    let first = log.read_from(0, 1, 1000).expect("readable")[0].seq;
    assert!(first > 0 && first < 20, "some shipped records are retained, from {first}");
    assert!(ids(&read_all(&log, 20)).len() == 10, "every unshipped record is there");
}

#[test]
fn what_a_database_lost_is_kept_until_it_is_shipped_again() {
    let files = SimFiles::new();
    let (log, clock, _) = with(&files, config(), NOW_MS, None);
    fill(&log, 0, 30);
    log.sync().expect("no fault");
    log.shipped(30);
    let before = segments(&files).len();
    log.shipped(0);
    clock.advance(Duration::from_hours(25));
    log.shipped(0);
    assert_eq!((segments(&files).len(), log.stats().shipped_seq), (before, 0));
    log.shipped(30);
    assert_eq!(segments(&files).len(), 1);
}

#[test]
fn shipped_segments_go_a_day_after_their_last_record() {
    let files = SimFiles::new();
    let (log, clock, _) = with(&files, config(), NOW_MS, None);
    fill(&log, 0, 30);
    log.sync().expect("no fault");
    log.shipped(30);
    let before = segments(&files).len();
    clock.advance(Duration::from_hours(25));
    log.shipped(30);
    assert!(before > 2 && segments(&files).len() == 1);
}

#[test]
fn the_tree_is_rebuilt_when_shipped_segments_are_gone() {
    let files = SimFiles::new();
    let (log, _, _) = with(&files, Config { retain_bytes: 0, ..config() }, NOW_MS, None);
    fill(&log, 0, 30);
    log.sync().expect("no fault");
    let all = head(&read_all(&log, 0));
    log.shipped(30);
    drop(log);
    let (log, _, found) = with(&files, config(), NOW_MS, Some(30));
    assert_eq!((found.head, found.gaps.len()), (all, 0));
    assert_eq!(log.stats().shipped_seq, 30);
}

#[test]
fn records_missing_below_the_first_segment_but_not_in_the_database_are_a_gap() {
    let files = SimFiles::new();
    let (log, _, _) = with(&files, Config { retain_bytes: 0, ..config() }, NOW_MS, None);
    fill(&log, 0, 30);
    log.sync().expect("no fault");
    log.shipped(30);
    drop(log);
    let first = crate::frame::segment_first_seq(&segments(&files)[0]).expect("a segment");
    let (_, _, found) = with(&files, config(), NOW_MS, Some(first - 2));
    assert_eq!(found.gaps.iter().map(|g| (g.first_seq, g.last_seq)).collect::<Vec<_>>(), [(first - 2, first - 1)]);
}

#[test]
fn a_record_is_found_in_ram_by_its_remembered_seq_and_by_the_time_in_its_id() {
    let files = SimFiles::new();
    let (log, _) = open(&files);
    fill(&log, 0, 30);
    log.sync().expect("no fault");
    for n in 0..30 {
        assert_eq!(log.find(id(n)).expect("appended").seq, n);
        assert_eq!(log.shared_search(id(n)).expect("unshipped").seq, n, "without the remembered ids");
    }
    assert!(log.find(id(77)).is_none() && log.shared_search(id(77)).is_none());
    drop(log);
    let (log, _) = open(&files);
    assert_eq!(log.find(id(4)).expect("recovered").seq, 4);
}

#[test]
fn a_request_open_over_many_segments_is_an_orphan_after_they_are_gone() {
    let files = SimFiles::new();
    let (log, _, _) = with(&files, Config { retain_bytes: 0, ..config() }, NOW_MS, None);
    let opened = log.open(id(500), b"long stream").expect("room");
    fill(&log, 0, 40);
    log.sync().expect("no fault");
    log.shipped(40);
    assert_eq!(segments(&files).len(), 1);
    files.crash();
    drop((log, opened));
    let (_, found) = open(&files.after_crash());
    let orphans: Vec<_> = found.orphans.iter().map(|(o, facts)| (o.id, facts.as_slice())).collect();
    assert_eq!(orphans, [(id(500), &b"long stream"[..])]);
}

#[test]
fn reading_back_a_long_log_keeps_to_both_bounds() {
    let files = SimFiles::new();
    let (log, _) = open(&files);
    fill(&log, 0, 30);
    log.sync().expect("no fault");
    for from in 0..30 {
        let some = log.read_from(from, 4, 100_000).expect("readable");
        assert!(some.len() <= 4 && some[0].seq == from);
        let one = log.read_from(from, 100, 1).expect("readable");
        assert_eq!(one.len(), 1, "at least one record");
        let few = log.read_from(from, 100, 300).expect("readable");
        assert!(few.iter().map(|r| r.payload.len()).sum::<usize>() <= 300);
    }
}

#[test]
fn a_segment_smaller_than_a_record_or_than_what_is_in_flight_takes_it_all_the_same() {
    for (segment_bytes, record_bytes) in [(1, 1), (300, 320), (700, 320), (2048, 4096), (4096, 64)] {
        let files = SimFiles::new();
        let small = Config { segment_bytes, record_bytes, ..config() };
        let (log, _) = open_with(&files, small.clone(), None).expect("fresh");
        let large = |n: u64, at: &Position| Record { payload: vec![7; 3000].into(), ..record(id(n), at) };
        let opened: Vec<_> = (0..20).map(|n| log.open(id(n), &[b'f'; 100]).expect("room")).collect();
        for (n, opened) in (0..).zip(opened) {
            log.close(Some(opened), &mut |at| large(n, at)).expect("what was promised is taken");
            log.close(None, &mut |at| large(100 + n, at)).expect("room");
        }
        log.sync().expect("no fault");
        let all = read_all(&log, 0);
        assert_eq!(all.len(), 40);
        files.crash();
        drop(log);
        let (log, found) = open_with(&files.after_crash(), small, None).expect("sound");
        assert_eq!((found.next_seq, found.gaps.len(), found.orphans.len()), (40, 0, 0));
        assert_eq!((found.head, read_all(&log, 0)), (head(&all), all));
    }
}

#[test]
fn removed_segments_that_a_power_cut_brings_back_do_no_harm_and_neither_do_those_that_stay_away() {
    let files = SimFiles::new();
    let (log, _) = open_with(&files, Config { retain_bytes: 0, ..config() }, None).expect("fresh");
    fill(&log, 0, 30);
    log.sync().expect("no fault");
    let all = read_all(&log, 0);
    let before = segments(&files);
    // The database has committed; the process dies behind each of the removals, none of which the directory has on the disk.
    for removed in 0..=before.len() {
        let files = files.after_crash();
        let (log, _) = open_with(&files, Config { retain_bytes: 0, ..config() }, Some(0)).expect("sound");
        let calls = files.calls();
        files.crash_at(calls + removed as u64);
        log.shipped(30);
        files.crash();
        drop(log);
        let brought_back = files.after_power_loss(|_, _| true);
        assert!(before.iter().all(|name| segments(&brought_back).contains(name)));
        for files in [brought_back, files.after_crash()] {
            let (log, found) = open_with(&files, config(), Some(30)).expect("sound");
            assert_eq!((found.gaps.len(), found.next_seq, found.head), (0, 30, head(&all)), "{removed}");
            assert_eq!(log.stats().shipped_seq, 30);
            fill(&log, 40, 41);
            log.sync().expect("no fault");
            assert_eq!(ids(&read_all(&log, 30)), [id(40)]);
        }
    }
}
