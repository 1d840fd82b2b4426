//! Bytes that are not what was written.

use super::*;
use crate::frame::SegmentHead;
use crate::identity;
use crate::replay::VOID_LEAF;
use sha2::{Digest, Sha256};
use signet_lineage::tlog::{Tile, Tiles};

/// A log of 5 segments or more that was ended by a crash, all synced, and its records.
fn long_log() -> (SimFiles, Vec<Arc<Record>>) {
    let files = SimFiles::new();
    let (log, _) = open(&files);
    for n in 0..30 {
        close(&log, None, n).expect("room");
        if n % 4 == 3 {
            log.sync().expect("no fault");
        }
    }
    log.sync().expect("no fault");
    let all = read_all(&log, 0);
    files.crash();
    drop(log);
    let files = files.after_crash();
    assert!(segments(&files).len() >= 5);
    (files, all)
}

/// Where the payload of this record stands, and in which segment.
fn place(files: &SimFiles, record: &Record) -> (String, usize) {
    for name in segments(files) {
        let content = files.content(&name);
        if let Some(at) = content.windows(record.payload.len()).position(|w| *w == *record.payload) {
            return (name, at);
        }
    }
    panic!("record {} is in no segment", record.seq);
}

#[test]
fn five_segments_are_taken_up_again_with_the_same_tree() {
    let (files, all) = long_log();
    let (log, found) = open(&files);
    assert_eq!(found.head, head(&all));
    assert!(found.segments >= 5 && found.gaps.is_empty() && found.torn_bytes == 0);
    assert_eq!(read_all(&log, 0), all);
    fill(&log, 30, 31);
    log.sync().expect("no fault");
    drop(log);
    let (log, found) = open(&files);
    assert_eq!(found.head, head(&read_all(&log, 0)));
    assert_eq!(found.next_seq, 31);
}

#[test]
fn a_torn_tail_of_every_length_is_cut_and_later_records_survive_the_next_crash() {
    let files = SimFiles::new();
    let (log, _) = open(&files);
    fill(&log, 0, 2);
    log.sync().expect("no fault");
    let name = segments(&files)[0].clone();
    let before = files.content(&name).iter().rposition(|b| *b != 0).expect("frames") + 1;
    fill(&log, 2, 3);
    let after = files.content(&name).iter().rposition(|b| *b != 0).expect("frames") + 1;
    files.crash();
    drop(log);
    for (cut, zeros) in (before..after).flat_map(|cut| [(cut, false), (cut, true)]) {
        let torn = files.after_crash();
        torn.edit(&name, |bytes| {
            let len = bytes.len();
            bytes.truncate(cut);
            if zeros {
                bytes.resize(len, 0);
            }
        });
        let (log, found) = open(&torn);
        assert_eq!((found.next_seq, found.gaps.len()), (2, 0), "cut at {cut}");
        assert!(torn.content(&name).len() <= before.next_multiple_of(8), "cut off for good");
        assert_eq!(found.torn_bytes > 0, torn_is_visible(&files.content(&name)[before..cut]));
        fill(&log, 50, 53);
        torn.crash();
        drop(log);
        let (log, found) = open(&torn.after_crash());
        assert_eq!(ids(&read_all(&log, 0)), [id(0), id(1), id(50), id(51), id(52)]);
        assert_eq!(found.torn_bytes, 0);
    }
}

fn torn_is_visible(bytes: &[u8]) -> bool {
    bytes.iter().any(|b| *b != 0)
}

#[test]
fn a_flipped_bit_in_any_record_is_a_gap_of_exactly_that_record() {
    let (files, all) = long_log();
    for lost in &all[..all.len() - 1] {
        let files = files.after_crash();
        let (name, at) = place(&files, lost);
        files.edit(&name, |bytes| bytes[at + 5] ^= 1);
        let (log, found) = open(&files);
        assert_eq!(found.gaps.len(), 1);
        let gap = &found.gaps[0];
        assert_eq!((gap.first_seq, gap.last_seq), (lost.seq, lost.seq));
        assert_eq!(found.next_seq, 30);
        let rest: Vec<_> = all.iter().filter(|r| r.seq != lost.seq).cloned().collect();
        assert_eq!(read_all(&log, 0), rest, "the rest is readable");
        let batch = log.read_from(0, usize::MAX, usize::MAX).expect("readable");
        assert!(batch.iter().zip(batch[0].seq..).all(|(r, seq)| r.seq == seq), "no batch goes over the hole");
        assert_eq!(found.head, head(&all), "the tree still holds the lost record's leaf");
        let copy = name.replace("seg-", "damaged-");
        assert!(files.names().contains(&copy), "the damage is kept for inspection");
        fill(&log, 40, 41);
        drop(log);
        let (_, again) = open(&files);
        assert_eq!(again.gaps, found.gaps, "reported until the segment goes");
        assert_eq!(again.next_seq, 31);
    }
}

#[test]
fn the_leaf_of_a_lost_record_is_known_from_its_group() {
    let (files, all) = long_log();
    // The last record of a segment has its group's end in the same segment.
    let (name, at) = place(&files, &all[1]);
    files.edit(&name, |bytes| bytes[at] ^= 1);
    let (_, found) = open(&files);
    assert_eq!(found.gaps[0].leaves, [(1, Leaf::of(&all[1]).hash())]);
}

#[test]
fn a_hole_over_records_and_group_ends_keeps_the_tree_and_the_exact_range() {
    let (files, all) = long_log();
    let (name, first) = place(&files, &all[1]);
    let (same, last) = place(&files, &all[4]);
    assert_eq!(name, same);
    files.edit(&name, |bytes| bytes[first..last].fill(0));
    let (log, found) = open(&files);
    assert_eq!(found.gaps.iter().map(|g| (g.first_seq, g.last_seq)).collect::<Vec<_>>(), [(1, 4)]);
    assert_eq!(found.head, head(&all), "the next segment's header carries the tree over");
    assert_eq!(read_all(&log, 0).len(), 26);
}

#[test]
fn stale_bytes_of_another_segment_are_not_taken_for_records() {
    let (files, all) = long_log();
    let (from, start) = place(&files, &all[0]);
    let (_, end) = place(&files, &all[1]);
    let stale = files.content(&from)[start - 132..end - 132].to_vec();
    let last = segments(&files).pop().expect("segments");
    files.edit(&last, |bytes| {
        let at = bytes.iter().rposition(|b| *b != 0).map_or(0, |i| (i + 1).next_multiple_of(8));
        bytes.truncate(at);
        bytes.extend_from_slice(&stale);
    });
    let (log, found) = open(&files);
    assert_eq!((found.next_seq, found.gaps.len()), (30, 0));
    assert!(found.torn_bytes > 0);
    assert_eq!(read_all(&log, 0), all);
}

#[test]
fn a_lost_middle_segment_is_a_gap_of_its_records() {
    let (files, all) = long_log();
    let names = segments(&files);
    crate::files::Files::unlink(&files, &names[2]).expect("it exists");
    let first = crate::frame::segment_first_seq(&names[2]).expect("a segment");
    let next = crate::frame::segment_first_seq(&names[3]).expect("a segment");
    let (log, found) = open(&files);
    assert_eq!(found.gaps.iter().map(|g| (g.first_seq, g.last_seq)).collect::<Vec<_>>(), [(first, next - 1)]);
    assert_eq!(found.head, head(&all));
    assert_eq!(read_all(&log, 0).len() as u64, 30 - (next - first));
}

#[test]
fn an_unsynced_record_lost_before_a_readable_one_is_declared_and_no_head_covered_it() {
    let files = SimFiles::new();
    let (log, _) = open(&files);
    fill(&log, 0, 2);
    log.sync().expect("no fault");
    fill(&log, 2, 5);
    let lost = log.find(id(3)).expect("recent");
    files.crash();
    drop(log);
    let files = files.after_crash();
    let (name, at) = place(&files, &lost);
    files.edit(&name, |bytes| bytes[at] ^= 1);
    let (log, found) = open(&files);
    assert_eq!(found.gaps.len(), 1);
    assert_eq!(VOID_LEAF, <[u8; 32]>::from(Sha256::digest([0])));
    assert_eq!(found.gaps[0].leaves, [(3, VOID_LEAF)]);
    assert_eq!(ids(&read_all(&log, 0)), [id(0), id(1), id(2), id(4)]);
    assert!(found.untold.is_none());
    drop(log);
    let (_, again) = open(&files);
    assert_eq!((again.gaps, again.untold), (found.gaps, None));
}

#[test]
fn a_flipped_bit_in_the_identity_refuses_to_open_and_makes_no_new_log() {
    let (files, _) = long_log();
    let names = files.names();
    for at in 0..32 {
        let files = files.after_crash();
        files.edit(identity::NAME, |bytes| bytes[at] ^= 1);
        let fault = try_open(&files, None).expect_err("damaged");
        assert!(matches!(&fault, OpenFault::Damaged { file, .. } if file == "identity"), "{fault}");
        assert_eq!(files.names(), names);
    }
}

#[test]
fn a_missing_identity_beside_segments_refuses_to_open() {
    let (files, _) = long_log();
    crate::files::Files::unlink(&files, identity::NAME).expect("it exists");
    assert!(matches!(try_open(&files, None), Err(OpenFault::Damaged { .. })));
}

#[test]
fn a_flipped_bit_in_a_segment_header_refuses_to_open() {
    let (files, _) = long_log();
    for name in segments(&files) {
        let len = SegmentHead::parse(&files.content(&name)).expect("sound").len();
        for at in 0..len - 4 {
            let files = files.after_crash();
            files.edit(&name, |bytes| bytes[at] ^= 1);
            let fault = try_open(&files, None).expect_err("damaged");
            assert!(matches!(&fault, OpenFault::Damaged { file, .. } if *file == name), "{at}: {fault}");
        }
    }
}

#[test]
fn a_segment_of_another_log_is_refused() {
    let (files, _) = long_log();
    let (other, _) = long_log();
    let name = segments(&files)[1].clone();
    files.edit(&name, |bytes| *bytes = other.content(&name));
    assert!(matches!(try_open(&files, None), Err(OpenFault::Damaged { .. })));
}

#[test]
fn records_changed_together_with_their_checksum_do_not_pass_for_the_log() {
    let (files, all) = long_log();
    let (name, at) = place(&files, &all[0]);
    let first = crate::frame::segment_first_seq(&name).expect("a segment");
    let log = identity::read(&files).expect("sound").expect("a log");
    let mut forged = (*all[0]).clone();
    std::sync::Arc::make_mut(&mut forged.payload)[0] ^= 1;
    let mut frame = Vec::new();
    crate::frame::put_close(&mut frame, crate::frame::Seed::new(log, first), &forged);
    let start = at - (frame.len() - (frame.len() - 20 - 112));
    files.edit(&name, |bytes| bytes[start..start + frame.len()].copy_from_slice(&frame));
    assert!(matches!(try_open(&files, None), Err(OpenFault::Forked { .. })));
}

#[test]
fn a_directory_behind_the_database_is_refused_and_a_new_log_sets_it_aside() {
    let (files, all) = long_log();
    let old = all[0].log;
    let fault = try_open(&files, Some(31)).expect_err("behind");
    assert!(matches!(fault, OpenFault::Behind { have: 30, want: 31, .. }), "{fault}");
    let clock = Arc::new(ManualClock::at(NOW_MS));
    let (log, found) = Spool::start_new_log_on(Arc::new(files.clone()), config(), clock).expect("no fault");
    assert!(found.fresh && log.id() != old);
    assert_eq!(found.next_seq, 0);
    assert!(files.names().contains(&format!("old-{old}/identity")));
    assert_eq!(segments(&files).len(), 1);
    drop(log);
    assert!(!open(&files).1.fresh, "the new log is taken up again");
}

#[test]
fn a_move_aside_that_is_interrupted_anywhere_can_be_repeated() {
    let (files, all) = long_log();
    for call in 0..30 {
        let files = files.after_crash();
        files.crash_at(call);
        let start = |files: &SimFiles| {
            Spool::start_new_log_on(Arc::new(files.clone()), config(), Arc::new(ManualClock::at(NOW_MS)))
        };
        drop(start(&files));
        let files = files.after_crash();
        let looks_new = try_open(&files.after_crash(), Some(31)).is_ok();
        assert!(!looks_new, "an interrupted move never passes for the log that the database knows");
        let (log, found) = start(&files).expect("no fault");
        assert!(found.fresh && log.id() != all[0].log);
    }
}

#[test]
fn a_request_that_was_open_where_records_are_missing_is_not_called_an_orphan() {
    let files = SimFiles::new();
    let (log, _) = open(&files);
    let opens = |n| log.open(id(n), b"facts").expect("room");
    let (closed, before) = (opens(1), opens(2));
    let lost = close(&log, Some(closed), 1).expect("room");
    let after = opens(3);
    fill(&log, 10, 11);
    log.sync().expect("no fault");
    files.crash();
    drop((before, after, log));
    let files = files.after_crash();
    let (name, at) = place(&files, &lost);
    files.edit(&name, |bytes| bytes[at] ^= 1);
    for _ in 0..2 {
        let (log, found) = open(&files);
        assert_eq!((found.gaps.len(), found.undecided), (1, 2), "the one of the lost record, and one more");
        assert_eq!(found.orphans.iter().map(|(o, _)| o.id).collect::<Vec<_>>(), [id(3)], "opened behind the hole");
        fill(&log, 20, 21);
    }
    let (log, found) = with_retention(&files, 0);
    for (orphan, _) in found.orphans {
        log.close(Some(orphan), &mut |at| record(id(3), at)).expect("room");
    }
    log.sync().expect("no fault");
    log.shipped(log.stats().durable_seq);
    assert!(!segments(&files).contains(&name), "the damaged segment has gone");
    drop(log);
    let (_, found) = open(&files);
    assert_eq!((found.gaps.len(), found.undecided, found.orphans.len()), (0, 0, 0), "and what it left undecided too");
}

fn with_retention(files: &SimFiles, retain_bytes: u64) -> (Spool, Recovered) {
    open_with(files, Config { retain_bytes, ..config() }, None).expect("sound")
}

#[test]
fn a_request_carried_into_a_segment_behind_the_hole_is_an_orphan() {
    let files = SimFiles::new();
    let (log, _) = open(&files);
    let opened = log.open(id(1), b"facts").expect("room");
    fill(&log, 10, 30);
    log.sync().expect("no fault");
    let lost = log.find(id(10)).expect("held");
    assert!(segments(&files).len() > 2);
    files.crash();
    drop((opened, log));
    let files = files.after_crash();
    let (name, at) = place(&files, &lost);
    files.edit(&name, |bytes| bytes[at] ^= 1);
    let (_, found) = open(&files);
    assert_eq!((found.gaps.len(), found.undecided, found.orphans.len()), (1, 0, 1));
}

/// An empty file of a segment's name behind the last record, as a crash between its creation and its header leaves it.
fn with_blank(files: &SimFiles, first_seq: u64, len: usize) -> String {
    let name = crate::frame::segment_name(first_seq);
    let file = crate::files::Files::create(files, &name).expect("no fault");
    file.write_at(&vec![0; len], 0).expect("no fault");
    name
}

#[test]
fn a_newest_segment_that_was_never_begun_is_removed_and_the_log_goes_on() {
    for len in [0, 1, 100, 4096] {
        let (files, all) = long_log();
        let name = with_blank(&files, 30, len);
        let (log, found) = open(&files);
        assert_eq!((found.next_seq, found.gaps.len(), found.clean), (30, 0, false), "{len} bytes");
        assert_eq!(found.head, head(&all));
        assert_eq!(read_all(&log, 0), all);
        assert_eq!(segments(&files).iter().filter(|n| **n == name).count(), 1, "begun anew");
        fill(&log, 40, 41);
        drop(log);
        assert_eq!(open(&files).1.next_seq, 31);
    }
}

#[test]
fn a_first_segment_that_was_never_begun_is_a_new_log() {
    let files = SimFiles::new();
    drop(open(&files));
    let name = segments(&files).remove(0);
    for len in [0, 300] {
        files.edit(&name, |bytes| *bytes = vec![0; len]);
        let (log, found) = open(&files);
        assert!(found.fresh && found.next_seq == 0);
        drop(log);
    }
}

#[test]
fn an_empty_segment_that_stands_for_records_is_refused_and_left_alone() {
    let behind = |files: &SimFiles| drop(with_blank(files, 31, 0));
    let last = |files: &SimFiles| {
        let name = segments(files).pop().expect("segments");
        files.edit(&name, Vec::clear);
        let first = crate::frame::segment_first_seq(&name).expect("a segment");
        // What it held is missing before the next one's place too.
        with_blank(files, first + 1, 0);
    };
    let middle = |files: &SimFiles| files.edit(&segments(files)[1].clone(), Vec::clear);
    let only = |files: &SimFiles| {
        let names = segments(files);
        names[..names.len() - 1].iter().for_each(|n| crate::files::Files::unlink(files, n).expect("it exists"));
        files.edit(&names[names.len() - 1], Vec::clear);
    };
    for (what, spoil) in
        [("behind", &behind as &dyn Fn(&SimFiles)), ("last", &last), ("middle", &middle), ("only", &only)]
    {
        let (files, _) = long_log();
        spoil(&files);
        let names = files.names();
        let fault = try_open(&files, None).expect_err(what);
        assert!(matches!(fault, OpenFault::Damaged { .. }), "{what}: {fault}");
        assert_eq!(files.names(), names, "{what}");
    }
}

/// Writes the tiles of the tree over these records, as whoever signs checkpoints does; its head.
fn publish(files: &SimFiles, records: &[Arc<Record>]) -> TreeHead {
    let mut tiles = Tiles::default();
    let write = |tile: Tile, hashes: &[[u8; 32]]| {
        let file = crate::files::Files::create(files, &tile.to_string()).expect("no fault");
        file.write_at(hashes.as_flattened(), 0).expect("no fault");
    };
    for record in records {
        tiles.push(Leaf::of(record).hash(), write);
    }
    tiles.partial().for_each(|(tile, hashes)| write(tile, hashes));
    tiles.head()
}

fn try_published(files: &SimFiles, head: TreeHead, shipped: Option<u64>) -> Result<(Spool, Recovered), OpenFault> {
    open_with(files, Config { published: Some(head), ..config() }, shipped)
}

/// As [`long_log`], with a record behind the end of its last group; that group's end is spoiled.
fn published_log() -> (SimFiles, Vec<Arc<Record>>) {
    let files = SimFiles::new();
    let (log, _) = open_with(&files, Config { segment_bytes: 4096, ..config() }, None).expect("fresh");
    for n in 0..30 {
        close(&log, None, n).expect("room");
        if n % 4 == 3 {
            log.sync().expect("no fault");
        }
    }
    log.sync().expect("no fault");
    let mut all = read_all(&log, 0);
    all.push(close(&log, None, 30).expect("room"));
    files.crash();
    drop(log);
    let files = files.after_crash();
    let (name, at) = place(&files, &all[29]);
    files.edit(&name, |bytes| bytes[at + all[29].payload.len()..][..80].fill(0xee));
    (files, all)
}

/// Spoils everything between two records, both included, in each segment that holds any of them.
fn spoil(files: &SimFiles, lost: &[Arc<Record>]) {
    let places: Vec<_> = lost.iter().map(|record| place(files, record)).collect();
    for (at, (name, from)) in places.iter().enumerate() {
        let next = places.get(at + 1).filter(|(other, _)| other == name);
        let end = next.map_or(from + lost[at].payload.len(), |(_, next)| *next);
        files.edit(name, |bytes| bytes[*from..end].fill(0xee));
    }
}

#[test]
fn damage_to_records_and_group_ends_under_a_checkpoint_is_a_gap_with_their_leaf_hashes() {
    let (files, all) = published_log();
    for (from, to) in (0..30).flat_map(|from| (from..30).map(move |to| (from, to))) {
        let files = files.after_crash();
        let signed = publish(&files, &all[..30]);
        let lost = &all[from..=to];
        spoil(&files, lost);
        let (log, found) = try_published(&files, signed, None).unwrap_or_else(|e| panic!("{from} to {to}: {e}"));
        let ranges: Vec<_> = found.gaps.iter().flat_map(|gap| gap.first_seq..=gap.last_seq).collect();
        assert!(ranges.iter().copied().eq(from as u64..=to as u64), "{from} to {to}: {ranges:?}");
        let told: Vec<_> = found.gaps.iter().flat_map(|gap| gap.leaves.clone()).collect();
        let true_leaves: Vec<_> = lost.iter().map(|record| (record.seq, Leaf::of(record).hash())).collect();
        assert_eq!(told, true_leaves);
        assert_eq!((found.head, found.untold), (head(&all), None));
        assert_eq!(log.reread_leaves(0, 31).expect("all are known").len(), 31, "checkpoints go on");
        fill(&log, 90, 91);
        drop(log);
        assert_eq!(try_published(&files, signed, None).expect("sound").1.gaps, found.gaps);
    }
}

#[test]
fn a_log_that_contradicts_its_checkpoint_is_refused_though_records_are_missing() {
    let (files, all) = published_log();
    let mut other = all[..30].to_vec();
    let mut forged = (*all[29]).clone();
    forged.sig[0] ^= 1;
    other[29] = Arc::new(forged);
    let signed = publish(&files, &other);
    spoil(&files, &all[27..29]);
    assert!(matches!(try_published(&files, signed, None), Err(OpenFault::Forked { .. })));
}

#[test]
fn wrong_tiles_tell_nothing_and_without_any_a_damaged_end_under_a_checkpoint_is_refused() {
    let (files, all) = published_log();
    let signed = publish(&files, &all[..30]);
    let tile = Tile::partial(30).next().expect("a tile").to_string();
    files.edit(&tile, |bytes| bytes[5] ^= 1);
    let middle = files.after_crash();
    spoil(&middle, &all[1..5]);
    let (_, found) = try_published(&middle, signed, None).expect("a later group's end carries the tree over");
    assert!(found.gaps[0].leaf(1).is_none() && found.untold == Some(1));
    let (_, found) = try_published(&middle, signed, Some(5)).expect("sound");
    assert!(found.untold.is_none(), "the database has them");
    spoil(&files, &all[27..29]);
    let fault = try_published(&files, signed, None).expect_err("nobody knows the tree");
    assert!(matches!(&fault, OpenFault::Damaged { file, .. } if file == "checkpoint"), "{fault}");
}

/// A record with what it was signed over, as in a statement.
fn statement(id: LineageId, at: &Position) -> Record {
    let payload = format!("{{\"log\":{{\"base_size\":{},\"seq\":{}}}}}", at.base.size, at.seq);
    Record { payload: payload.into_bytes().into(), ..record(id, at) }
}

#[test]
fn no_void_leaf_stands_for_a_record_that_a_readable_one_was_signed_over() {
    let files = SimFiles::new();
    let (log, _) = open_with(&files, Config { segment_bytes: 1 << 16, ..config() }, None).expect("fresh");
    let add = |n| log.close(None, &mut |at| statement(id(n), at)).expect("room").record;
    let mut all: Vec<_> = (0..3).map(add).collect();
    log.sync().expect("no fault");
    all.push(add(3));
    files.crash();
    drop(log);
    for (lost, untold) in [(1..3, true), (1..2, false)] {
        let files = files.after_crash();
        let (name, at) = place(&files, &all[2]);
        spoil(&files, &all[lost.clone()]);
        if untold {
            // The group's end too, which stands behind its last record.
            files.edit(&name, |bytes| bytes[at + all[2].payload.len()..][..80].fill(0xee));
        }
        let (log, found) = open(&files);
        assert_eq!((found.gaps.len(), found.next_seq, found.untold), (1, 4, untold.then_some(1)), "{lost:?}");
        assert_eq!(found.gaps[0].is_told(), !untold);
        assert_eq!(log.reread_leaves(0, 4).is_err(), untold);
    }
}

#[test]
fn a_hole_of_4_kib_at_each_place_of_what_was_not_synced_is_declared_or_cut_and_later_records_survive() {
    let files = SimFiles::new();
    let large = || Config { segment_bytes: 1 << 16, ..config() };
    let (log, _) = open_with(&files, large(), None).expect("fresh");
    fill(&log, 0, 3);
    log.sync().expect("no fault");
    let name = segments(&files).remove(0);
    let end = |files: &SimFiles| files.content(&name).iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let synced = end(&files);
    fill(&log, 3, 40);
    let written = end(&files);
    assert!(written - synced > 2 * 4096);
    files.crash();
    drop(log);
    for hole in (synced..written).step_by(56) {
        let files = files.after_crash();
        files.edit(&name, |bytes| bytes[hole..written.min(hole + 4096)].fill(0));
        let (log, found) = open_with(&files, large(), None).expect("sound");
        let there = ids(&read_all(&log, 0));
        let lost: u64 = found.gaps.iter().map(|gap| gap.last_seq - gap.first_seq + 1).sum();
        assert_eq!(there.len() as u64 + lost, found.next_seq, "hole at {hole}");
        assert_eq!(there[..3], [0, 1, 2].map(id), "what was synced is there");
        assert!(found.next_seq < 40 || found.gaps.len() == 1, "cut, or a gap before what is still readable");
        assert!(found.untold.is_none(), "no head was over them");
        close(&log, None, 90).expect("room");
        files.crash();
        drop(log);
        let (log, again) = open_with(&files.after_crash(), large(), None).expect("sound");
        assert_eq!((again.next_seq, ids(&read_all(&log, 0)).last()), (found.next_seq + 1, Some(&id(90))));
    }
}
