//! An honest log verifies, and the report says what was not looked at.

use crate::sample::{ALICE, BOB, Writer, receipt, verify, verify_with};
use signet_lineage::verify::{Code, Options, Verifier};
use signet_lineage::{Draft, Kind, Recovery};

#[test]
fn an_honest_log_verifies_and_names_what_was_not_checked() {
    let log = Writer::filled(1, 40);
    let report = verify_with(&log.keys(), &log.records, |v| v.log(log.row()));
    assert_eq!((report.exit_code(), report.records, report.logs), (0, 40, 1), "{report}");
    assert!(report.to_string().contains("not checked: truncation\n"), "{report}");
}

#[test]
fn a_kept_receipt_moves_what_is_not_checked_behind_it() {
    let log = Writer::filled(1, 40);
    let report = verify_with(&log.keys(), &log.records, |v| v.receipt(receipt(&log.records[20])));
    assert_eq!((report.exit_code(), report.pins), (0, 1), "{report}");
    let lines = report.to_string();
    assert!(!lines.contains("not checked: truncation\n"), "{report}");
    assert!(lines.contains(&format!("not checked: truncation of log {} behind seq 20\n", log.log)), "{report}");
}

#[test]
fn an_anchor_is_found_again_and_satisfies_require_anchor() {
    let log = Writer::filled(1, 10);
    let options = Options { require_anchor: true, ..Options::default() };
    for (anchored, code) in [(true, 0), (false, Code::Unanchored as u8)] {
        let mut verifier = Verifier::new(&log.keys(), options);
        log.records.iter().for_each(|record| verifier.record(record.clone(), None));
        if anchored {
            verifier.anchor(log.log, log.tree.head());
        }
        assert_eq!(verifier.finish().exit_code(), code);
    }
}

#[test]
fn hits_are_followed_to_their_sources_across_logs_in_any_order_of_logs() {
    let (mut early, mut late) = (Writer::filled(1, 3), Writer::filled(2, 3));
    let source = late.ask(ALICE);
    early.hit(ALICE, &source);
    let local = early.ask(BOB);
    early.hit(BOB, &local);
    let keys = signet_lineage::KeySet::new([early.signer.public_key(), late.signer.public_key()]).expect("two keys");
    let records = [early.records, late.records].concat();
    let report = verify(&keys, &records);
    assert_eq!((report.exit_code(), report.edges, report.logs), (0, 2, 2), "{report}");
}

#[test]
fn a_source_outside_of_the_data_is_named_as_not_checked() {
    let (mut here, mut elsewhere) = (Writer::filled(1, 3), Writer::filled(2, 3));
    let source = elsewhere.ask(ALICE);
    here.hit(ALICE, &source);
    let report = verify(&here.keys(), &here.records);
    assert_eq!(report.exit_code(), 0, "{report}");
    assert!(report.to_string().contains("not checked: 1 sources outside"), "{report}");
}

#[test]
fn nothing_to_verify_is_never_success() {
    let log = Writer::filled(1, 4);
    assert_eq!(verify(&log.keys(), &[]).exit_code(), 32);
    assert_eq!(verify_with(&log.keys(), &[], |v| v.log(log.row())).exit_code(), 32);
}

#[test]
fn the_report_does_not_depend_on_the_number_of_threads() {
    let mut log = Writer::filled(1, 1200);
    log.records[700].sig[0] ^= 1;
    log.records[1100].key_id[0] ^= 1;
    let reports = [1, 2, 5].map(|threads| {
        let mut verifier = Verifier::new(&log.keys(), Options { threads, ..Options::default() });
        log.records.iter().for_each(|record| verifier.record(record.clone(), None));
        verifier.finish()
    });
    assert_eq!(reports[0].findings.len(), 2, "{}", reports[0]);
    assert_eq!(reports[0], reports[1]);
    assert_eq!(reports[0], reports[2]);
}

#[test]
fn a_restart_in_good_order_verifies() {
    let mut log = Writer::filled(1, 5);
    log.epoch = 2;
    let last_seq = Some(4);
    let found = Recovery { clean: true, same_boot: true, last_seq, lost: None, lost_tail_possible: false };
    let draft = Draft::recovery(&log.stamp(), &found);
    log.append(&draft);
    log.ask(ALICE);
    let seal = Draft::log_seal(&log.stamp());
    assert_eq!(seal.kind, Kind::LogSeal);
    log.append(&seal);
    let report = verify(&log.keys(), &log.records);
    assert_eq!(report.exit_code(), 0, "{report}");
}
