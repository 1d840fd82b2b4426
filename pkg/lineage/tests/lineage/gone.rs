//! Payloads that were erased and records that grew too old: gone with a signed record is good, gone without is not.

use crate::sample::{ALICE, Writer, hex, receipt, verify_with};
use signet_lineage::tlog::Tiles;
use signet_lineage::verify::{Code, Options, Report, Stored, Verifier, read_line, write_line};
use signet_lineage::{
    ControlValue, DeclaredPrune, Draft, KeySet, Kind, Leaf, LogRow, Record, TreeHead, gap_leaves, root_of,
};
use signet_types::LogId;

#[track_caller]
fn finds(report: &Report, code: u8) {
    assert_eq!(report.exit_code(), code, "{report}");
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).into()
}

/// What is left of an erased record: with or without the payload's hash.
fn left(record: &Record, with_hash: bool) -> (Record, Stored) {
    let stored = Stored {
        erased: true,
        leaf_hash: Some(Leaf::of(record).hash()),
        payload_sha256: with_hash.then(|| sha256(&record.payload)),
        ..Stored::default()
    };
    (Record { payload: [].into(), ..record.clone() }, stored)
}

fn erasure(log: &mut Writer, of: LogId, seq: u64) -> Draft {
    let basis = ControlValue::Text("request".to_owned());
    let facts = vec![("basis", basis), ("log_id", ControlValue::Text(of.to_string())), ("seq", ControlValue::Int(seq))];
    Draft::control(Kind::Erasure, &log.stamp(), facts)
}

fn judged(log: &Writer, rows: impl IntoIterator<Item = (Record, Stored)>, tell: impl FnOnce(&mut Verifier)) -> Report {
    let mut verifier = Verifier::new(&log.keys(), Options::default());
    tell(&mut verifier);
    rows.into_iter().for_each(|(record, stored)| verifier.row(record, stored));
    verifier.finish()
}

fn rows(log: &Writer) -> Vec<(Record, Stored)> {
    log.records.iter().map(|record| (record.clone(), Stored::default())).collect()
}

#[test]
fn an_erased_payload_is_good_with_a_signed_record_and_a_finding_without() {
    for with_hash in [true, false] {
        let mut log = Writer::filled(1, 8);
        let source = log.records[5].clone();
        log.hit(ALICE, &source);
        let mut gone = rows(&log);
        gone[5] = left(&log.records[5], with_hash);
        let report = judged(&log, gone, |_| {});
        finds(&report, Code::ErasedUnauth as u8);
        assert_eq!((report.findings.len(), report.findings[0].seq), (1, Some(5)), "{report}");

        let (id, at) = (log.log, 5);
        let draft = erasure(&mut log, id, at);
        log.append(&draft);
        let mut gone = rows(&log);
        gone[5] = left(&log.records[5], with_hash);
        let report = judged(&log, gone, |v| v.receipt(receipt(&log.records[5])));
        finds(&report, 0);
        assert_eq!((report.erased, report.edges, report.pins), (1, 1, 1), "{report}");
        assert!(report.to_string().contains("ERASED_OK: 1 payloads"), "{report}");
    }
}

#[test]
fn what_is_left_of_an_erased_record_must_still_fit_the_tree() {
    let mut log = Writer::filled(1, 12);
    let (id, at) = (log.log, 4);
    let draft = erasure(&mut log, id, at);
    log.append(&draft);
    for with_hash in [true, false] {
        let mut gone = rows(&log);
        gone[4] = left(&log.records[4], with_hash);
        gone[4].1.leaf_hash.iter_mut().for_each(|leaf| leaf[0] ^= 1);
        let code = if with_hash { Code::BadLeaf } else { Code::RootMismatch };
        finds(&judged(&log, gone, |_| {}), code as u8);
    }
    let mut gone = rows(&log);
    gone[4] = left(&log.records[4], true);
    gone[4].0.sig[0] ^= 1;
    finds(&judged(&log, gone, |_| {}), Code::BadLeaf as u8);
}

#[test]
fn an_erasure_of_another_place_excuses_nothing() {
    let mut log = Writer::filled(1, 8);
    for (of, seq) in [(log.log, 4), (LogId::from_bytes([7; 16]), 5)] {
        let draft = erasure(&mut log, of, seq);
        log.append(&draft);
    }
    let mut gone = rows(&log);
    gone[5] = left(&log.records[5], true);
    finds(&judged(&log, gone, |_| {}), Code::ErasedUnauth as u8);
}

#[test]
fn an_erased_record_goes_through_an_export() {
    let log = Writer::filled(1, 3);
    for with_hash in [true, false] {
        let (record, stored) = left(&log.records[2], with_hash);
        let (again, read) = read_line(&write_line(&record, &stored)).expect("as written");
        assert_eq!(again, record);
        assert_eq!((read.erased, read.leaf_hash, read.payload_sha256), (true, stored.leaf_hash, stored.payload_sha256));
    }
    assert!(read_line(br#"{"erased":{}}"#).is_err());
}

/// The roots of the perfect subtrees over the first `below` records, largest first, as a `prune` names them.
fn peaks(log: &Writer, below: u64, wrong: bool) -> String {
    let leaves: Vec<_> = log.records.iter().map(|record| Leaf::of(record).hash()).collect();
    let (mut from, mut peaks) = (0, String::new());
    for level in (0..64).rev().filter(|level| below >> level & 1 == 1) {
        let end = from + (1_usize << level);
        let mut root = root_of(&leaves[from..end]);
        root[0] ^= u8::from(wrong);
        peaks.push_str(&hex(&root));
        from = end;
    }
    peaks
}

fn prune(log: &mut Writer, below: u64, peaks: String) -> Draft {
    let facts = vec![
        ("below_seq", ControlValue::Int(below)),
        ("log_id", ControlValue::Text(log.log.to_string())),
        ("peaks", ControlValue::Text(peaks)),
    ];
    Draft::control(Kind::Prune, &log.stamp(), facts)
}

#[test]
fn old_records_may_be_gone_below_a_signed_prune_and_nowhere_else() {
    for below in [1, 6, 7, 8, 11] {
        let mut log = Writer::filled(1, 20);
        let roots = peaks(&log, below, false);
        let draft = prune(&mut log, below, roots);
        log.append(&draft);
        (0..6).for_each(|_| drop(log.ask(ALICE)));
        let all = rows(&log);
        let from = usize::try_from(below).expect("small");
        let head = log.tree.head();
        let report = judged(&log, all[from..].to_vec(), |v| v.anchor(log.log, head));
        assert_eq!((report.exit_code(), report.pins), (0, 1), "{below}: {report}");
        let said = format!("not checked: the {below} records of log {} that were pruned", log.log);
        assert!(report.to_string().contains(&said), "{report}");
        // A straggler that is still there does no harm, and a receipt of what is gone is a remark.
        let some = [&all[..1], &all[from..]].concat();
        finds(&judged(&log, some, |v| v.anchor(log.log, head)), 0);
        let kept = receipt(&log.records[from - 1]);
        let report = judged(&log, all[from..].to_vec(), |v| v.receipt(kept));
        assert_eq!((report.exit_code(), report.pins), (0, 0), "{report}");
        // One more than was declared.
        finds(&judged(&log, all[from + 1..].to_vec(), |_| {}), Code::Gap as u8);
    }
}

#[test]
fn a_prune_with_wrong_roots_does_not_fit_what_stands_behind_it() {
    let mut log = Writer::filled(1, 20);
    let roots = peaks(&log, 6, true);
    let draft = prune(&mut log, 6, roots);
    log.append(&draft);
    (0..6).for_each(|_| drop(log.ask(ALICE)));
    finds(&judged(&log, rows(&log)[6..].to_vec(), |_| {}), Code::RootMismatch as u8);
    // Roots that do not cover all that is gone excuse none of it.
    let mut short = Writer::filled(1, 20);
    let roots = peaks(&short, 6, false)[64..].to_owned();
    let draft = prune(&mut short, 6, roots);
    short.append(&draft);
    finds(&judged(&short, rows(&short)[6..].to_vec(), |_| {}), Code::Gap as u8);
    let mut without = Writer::filled(1, 20);
    (0..6).for_each(|_| drop(without.ask(ALICE)));
    finds(&judged(&without, rows(&without)[6..].to_vec(), |_| {}), Code::Gap as u8);
}

#[test]
fn a_writer_prunes_as_a_verifier_reads_it_and_another_log_may_say_so_of_all_records() {
    let dead = Writer::filled(2, 300);
    let mut log = Writer::filled(1, 3);
    let (source, size) = (dead.records[299].clone(), dead.tree.size());
    let mut tiles = Tiles::default();
    dead.records.iter().for_each(|record| tiles.push(Leaf::of(record).hash(), |_, _| ()));
    let said = Draft::prune(&log.stamp(), dead.log, size, &tiles.peaks());
    let record = log.append(&said);
    assert_eq!(DeclaredPrune::read(&record), Some(DeclaredPrune { log: dead.log, below_seq: size }));
    let hit = log.hit_draft(ALICE, &source);
    log.append(&hit);
    let judge = |more: &dyn Fn(&mut Verifier)| {
        let keys = KeySet::new([log.signer.public_key(), dead.signer.public_key()]).expect("two keys");
        let mut verifier = Verifier::new(&keys, Options::default());
        verifier.log(dead.row());
        more(&mut verifier);
        log.records.iter().for_each(|record| verifier.record(record.clone(), None));
        verifier.finish()
    };
    // An anchor of its end, a receipt and a hit on what is gone.
    let report = judge(&|v| {
        v.anchor(dead.log, dead.tree.head());
        v.receipt(receipt(&source));
    });
    assert_eq!((report.exit_code(), report.pins, report.logs), (0, 1, 1), "{report}");
    let text = report.to_string();
    assert!(text.contains(&format!("the {size} records of log {} that were pruned", dead.log)), "{text}");
    assert!(text.contains("1 sources outside of this data"), "{text}");
    finds(&judge(&|v| v.anchor(dead.log, TreeHead { root: [1; 32], ..dead.tree.head() })), Code::Fork as u8);
    finds(&judge(&|v| v.anchor(dead.log, TreeHead { size: size + 1, ..dead.tree.head() })), Code::Truncated as u8);
    finds(&judge(&|v| v.log(LogRow { next_seq: size + 1, ..dead.row() })), Code::Truncated as u8);
    let nothing_said = &log.records[..3];
    let report = verify_with(&log.keys(), nothing_said, |v| v.log(dead.row()));
    finds(&report, Code::MissingLog as u8);
}

#[test]
fn a_gap_tells_the_leaves_that_it_names_and_no_others() {
    let mut log = Writer::filled(1, 3);
    let stamp = log.stamp();
    let gap = log.append(&Draft::gap(&stamp, 5, 6, "unreadable", Some(&[[5; 32], [6; 32]])));
    assert_eq!(gap_leaves(&gap, 5), Some(vec![[5; 32], [6; 32]]));
    assert_eq!(gap_leaves(&gap, 6), Some(vec![[6; 32]]));
    let without = log.append(&Draft::gap(&stamp, 5, 6, "unreadable", None));
    for (record, seq) in [(&gap, 4), (&gap, 7), (&without, 5), (&log.records[0].clone(), 5)] {
        assert_eq!(gap_leaves(record, seq), None, "{seq}");
    }
}

#[test]
fn a_record_that_an_older_shipper_filed_without_columns_is_a_remark() {
    let log = Writer::filled(1, 4);
    let mut stored = rows(&log);
    stored[3].1.unindexed = true;
    let report = judged(&log, stored, |_| {});
    assert_eq!((report.exit_code(), report.unindexed), (0, 1), "{report}");
    assert!(report.to_string().contains("not indexed: 1 records"), "{report}");
}
