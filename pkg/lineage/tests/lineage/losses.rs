//! Losses are excused by signed statements, and by nothing else.

use crate::sample::{ALICE, Writer, receipt, verify, verify_with};
use signet_lineage::verify::{Code, Report};
use signet_lineage::{Draft, LOST_BY_DATABASE, Leaf, Record, Recovery, Tree};

#[track_caller]
fn ends(report: &Report, code: u8) {
    assert_eq!(report.exit_code(), code, "{report}");
}

/// A log of 12 records whose last four were lost with the power; the next process found eight and went on. Returns the
/// log and what was lost.
fn power_loss(mode: &str, found: &Recovery) -> (Writer, Vec<Record>) {
    let mut log = Writer::open(1, mode);
    while log.tree.size() < 12 {
        log.ask(ALICE);
    }
    let lost = log.records.split_off(8);
    log.tree = Tree::new();
    log.records.iter().for_each(|record| log.tree.push(Leaf::of(record).hash()));
    log.base = log.tree.head();
    log.epoch = 2;
    let recovery = Draft::recovery(&log.stamp(), found);
    log.append(&recovery);
    while log.tree.size() < 14 {
        log.ask(ALICE);
    }
    (log, lost)
}

const TAIL: Recovery =
    Recovery { clean: false, same_boot: false, last_seq: Some(7), lost: None, lost_tail_possible: true };
const NAMED: Recovery = Recovery { lost: Some((8, 11)), lost_tail_possible: false, ..TAIL };
const NONE: Recovery = Recovery { same_boot: true, lost_tail_possible: false, ..TAIL };

#[test]
fn a_declared_lost_tail_answers_its_receipts_with_lost_and_not_with_tampering() {
    for found in [TAIL, NAMED] {
        let (log, lost) = power_loss("spool", &found);
        ends(&verify(&log.keys(), &log.records), 0);
        for record in &lost {
            let report = verify_with(&log.keys(), &log.records, |v| v.receipt(receipt(record)));
            ends(&report, Code::LostDeclared as u8);
        }
    }
}

#[test]
fn a_tail_that_cannot_have_been_lost_is_a_fork() {
    let (log, lost) = power_loss("spool", &NONE);
    ends(&verify(&log.keys(), &log.records), 0);
    ends(&verify_with(&log.keys(), &log.records, |v| v.receipt(receipt(&lost[0]))), Code::Fork as u8);
}

#[test]
fn a_loss_excuses_only_earlier_epochs() {
    let (log, _) = power_loss("spool", &TAIL);
    let cut = &log.records[..12];
    let report = verify_with(&log.keys(), cut, |v| v.receipt(receipt(&log.records[13])));
    ends(&report, Code::Truncated as u8);
}

#[test]
fn a_log_that_promises_strict_cannot_excuse_itself() {
    let (log, lost) = power_loss("strict", &NAMED);
    ends(&verify(&log.keys(), &log.records), Code::Truncated as u8);
    let (log, _) = power_loss("strict", &TAIL);
    ends(&verify(&log.keys(), &log.records), 0);
    ends(&verify_with(&log.keys(), &log.records, |v| v.receipt(receipt(&lost[1]))), Code::Fork as u8);
}

#[test]
fn a_loss_is_judged_by_what_the_epoch_before_it_promised() {
    // Opened in one mode, continued in `now`, and then the tail of that is lost.
    let judged = |opened: &str, now: &str| {
        let (mut log, _) = power_loss(opened, &NONE);
        let seq = 8;
        let modes = |log: &mut Writer, seq: usize, epoch: u32, mode: &str, found: &Recovery| {
            log.records.truncate(seq);
            log.tree = Tree::new();
            log.records.iter().for_each(|record| log.tree.push(Leaf::of(record).hash()));
            log.base = log.tree.head();
            log.epoch = epoch;
            let mut draft = Draft::recovery(&log.stamp(), found);
            draft.control.retain(|(name, _)| *name != "mode");
            draft.control.push(("mode", signet_lineage::ControlValue::Text(mode.to_owned())));
            log.append(&draft);
        };
        modes(&mut log, seq, 2, now, &NONE);
        let lost: Vec<_> = (0..3).map(|_| log.ask(ALICE)).collect();
        let found = Recovery { last_seq: Some(8), lost: Some((9, 11)), lost_tail_possible: false, ..TAIL };
        modes(&mut log, 9, 3, "spool", &found);
        verify_with(&log.keys(), &log.records, |v| v.receipt(receipt(&lost[2])))
    };
    ends(&judged("spool", "spool"), Code::LostDeclared as u8);
    ends(&judged("strict", "spool"), Code::LostDeclared as u8);
    assert_ne!(judged("spool", "strict").exit_code(), Code::LostDeclared as u8);
    ends(&judged("strict", "strict"), judged("spool", "strict").exit_code());
}

#[test]
fn a_recovery_does_not_excuse_the_deletion_of_what_was_written_over_the_loss() {
    for found in [TAIL, NAMED, Recovery { lost_tail_possible: true, ..NAMED }] {
        let (mut log, _) = power_loss("spool", &found);
        log.records.drain(9..11);
        ends(&verify(&log.keys(), &log.records), Code::Gap as u8);
    }
}

#[test]
fn an_anchor_behind_lost_leaves_is_said_to_be_unchecked() {
    let (log, _) = damaged_middle(Some((4, 5)), false);
    let report = verify_with(&log.keys(), &log.records, |v| v.anchor(log.log, log.tree.head()));
    assert_eq!((report.exit_code(), report.pins), (0, 0), "{report}");
    assert!(report.to_string().contains(&format!("not checked: an anchor of log {} at size", log.log)), "{report}");
}

#[test]
fn a_receipt_of_a_later_epoch_for_the_same_seq_is_found() {
    let (log, _) = power_loss("spool", &TAIL);
    ends(&verify_with(&log.keys(), &log.records, |v| v.receipt(receipt(&log.records[9]))), 0);
    let mut wrong = receipt(&log.records[9]);
    wrong.epoch = 7;
    ends(&verify_with(&log.keys(), &log.records, |v| v.receipt(wrong)), Code::Fork as u8);
}

#[test]
fn an_epoch_begins_with_its_recovery_and_does_not_fall() {
    let mut log = Writer::filled(1, 4);
    log.epoch = 2;
    log.ask(ALICE);
    ends(&verify(&log.keys(), &log.records), Code::Gap as u8);

    let (mut log, _) = power_loss("spool", &TAIL);
    log.epoch = 1;
    log.ask(ALICE);
    ends(&verify(&log.keys(), &log.records), Code::Fork as u8);
}

/// A log of 9 records of which 4 and 5 became unreadable; the next process declared `declared` and went on.
fn damaged_middle(declared: Option<(u64, u64)>, leaves: bool) -> (Writer, Vec<Record>) {
    let mut log = Writer::filled(1, 9);
    let missing = log.records[4..6].to_vec();
    let hashes: Vec<_> = missing.iter().map(|record| Leaf::of(record).hash()).collect();
    log.records.drain(4..6);
    log.epoch = 2;
    let found = Recovery { last_seq: Some(8), ..NONE };
    let recovery = Draft::recovery(&log.stamp(), &found);
    log.append(&recovery);
    if let Some((from, to)) = declared {
        let gap = Draft::gap(&log.stamp(), from, to, "unreadable", leaves.then_some(hashes.as_slice()));
        log.append(&gap);
    }
    log.ask(ALICE);
    (log, missing)
}

#[test]
fn a_hole_is_excused_by_the_gap_record_that_covers_all_of_it() {
    let (log, missing) = damaged_middle(Some((4, 5)), true);
    let report = verify(&log.keys(), &log.records);
    assert_eq!((report.exit_code(), report.declared_missing), (0, 2), "{report}");
    let kept = verify_with(&log.keys(), &log.records, |v| v.receipt(receipt(&missing[0])));
    ends(&kept, Code::LostDeclared as u8);
    for declared in [None, Some((4, 4)), Some((5, 5))] {
        let (log, _) = damaged_middle(declared, false);
        ends(&verify(&log.keys(), &log.records), Code::Gap as u8);
    }
}

#[test]
fn heads_over_a_declared_hole_are_checked_where_its_leaves_are_known() {
    let (mut log, _) = damaged_middle(Some((4, 5)), true);
    ends(&verify_with(&log.keys(), &log.records, |v| v.anchor(log.log, log.tree.head())), 0);
    log.base.root[0] ^= 1;
    log.ask(ALICE);
    ends(&verify(&log.keys(), &log.records), Code::RootMismatch as u8);

    let (mut blind, _) = damaged_middle(Some((4, 5)), false);
    blind.base.root[0] ^= 1;
    blind.ask(ALICE);
    let report = verify(&blind.keys(), &blind.records);
    ends(&report, 0);
    assert!(
        report.to_string().contains(&format!("not checked: tree heads of log {} behind seq 4", blind.log)),
        "{report}"
    );
}

#[test]
fn a_gap_record_does_not_excuse_what_comes_after_it() {
    let mut log = Writer::filled(1, 4);
    let gap = Draft::gap(&log.stamp(), 6, 7, "made up", None);
    log.append(&gap);
    while log.tree.size() < 10 {
        log.ask(ALICE);
    }
    log.records.drain(6..8);
    ends(&verify(&log.keys(), &log.records), Code::Gap as u8);
}

#[test]
fn a_head_over_what_did_not_survive_is_excused_by_a_later_epoch_only() {
    // A head of epoch 1 over leaves that the disk lost, kept by a record that was written behind them.
    let forked = |epoch_of_excuse: Option<u32>| {
        let mut log = Writer::filled(1, 8);
        log.base = signet_lineage::TreeHead { size: 8, root: [9; 32] };
        log.ask(ALICE);
        log.base = log.tree.head();
        if let Some(epoch) = epoch_of_excuse {
            log.epoch = epoch;
            let recovery = Draft::recovery(&log.stamp(), &TAIL_FROM_SIX);
            log.append(&recovery);
        }
        verify(&log.keys(), &log.records)
    };
    ends(&forked(None), Code::RootMismatch as u8);
    ends(&forked(Some(1)), Code::RootMismatch as u8);
    ends(&forked(Some(2)), 0);
}

const TAIL_FROM_SIX: Recovery = Recovery { last_seq: Some(6), ..TAIL };

#[test]
fn answers_without_a_record_are_counted_in_the_report() {
    let mut log = Writer::filled(1, 4);
    let gap = Draft::unrecorded(&log.stamp(), 17, "log full");
    log.append(&gap);
    let report = verify(&log.keys(), &log.records);
    assert_eq!((report.exit_code(), report.unrecorded), (0, 17), "{report}");
    assert!(report.to_string().contains("declared: 17 answers were given without a record"), "{report}");
}

#[test]
fn records_that_a_database_lost_are_a_finding_though_they_are_declared() {
    let (mut log, missing) = damaged_middle(None, true);
    let leaves: Vec<_> = missing.iter().map(|record| Leaf::of(record).hash()).collect();
    let gap = Draft::gap(&log.stamp(), 4, 5, LOST_BY_DATABASE, Some(&leaves));
    log.append(&gap);
    log.ask(ALICE);
    let report = verify(&log.keys(), &log.records);
    ends(&report, Code::DbRegression as u8);
    assert!(report.to_string().contains("the database lost seq 4 to 5"), "{report}");
    // A database that was restored from a better copy holds them: nothing is lost.
    log.records.splice(4..4, missing);
    ends(&verify(&log.keys(), &log.records), 0);
}
