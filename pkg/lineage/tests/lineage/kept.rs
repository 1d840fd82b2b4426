//! What others keep: checkpoints as anchors, what an earlier run ended with, keys that change or fall into other hands.

use crate::sample::{ALICE, BOB, ORIGIN, Writer, hex, signer};
use signet_lineage::tlog::{Checkpoint, NoteKey};
use signet_lineage::verify::{Code, Options, Pinned, Report, Revoked, Verifier, notes};
use signet_lineage::{
    ControlValue, Draft, KeyFault, KeyRotation, KeySet, KeyUse, Kind, Leaf, LogRow, Record, TreeHead, root_of,
};
use signet_types::LogId;

/// The seed of the key that signs checkpoints here.
const CHECKPOINT_KEY: u8 = 9;

fn note_key(log: LogId) -> NoteKey {
    NoteKey::new(&format!("{ORIGIN}/{log}"), signer(CHECKPOINT_KEY).public_key()).expect("a good name")
}

fn head(records: &[Record]) -> TreeHead {
    let leaves: Vec<_> = records.iter().map(|record| Leaf::of(record).hash()).collect();
    TreeHead { size: leaves.len() as u64, root: root_of(&leaves) }
}

/// The checkpoint over these records.
fn note(log: LogId, records: &[Record]) -> String {
    let key = note_key(log);
    Checkpoint { origin: key.name().to_owned(), head: head(records) }.sign(&key, &signer(CHECKPOINT_KEY))
}

fn pinned(logs: &[&Writer]) -> Pinned {
    let attest = signet_lineage::KeySet::new(logs.iter().map(|log| log.signer.public_key())).expect("keys");
    Pinned { notes: logs.iter().map(|log| note_key(log.log)).collect(), ..attest.into() }
}

fn judged(pinned: Pinned, records: &[Record], tell: impl FnOnce(&mut Verifier)) -> Report {
    let mut verifier = Verifier::trusting(pinned, Options { require_anchor: true, ..Options::default() });
    tell(&mut verifier);
    for record in records {
        verifier.record(record.clone(), None);
    }
    verifier.finish()
}

#[track_caller]
fn finds(report: &Report, code: Code) {
    assert_eq!(report.exit_code(), code as u8, "{report}");
}

#[test]
fn an_anchor_pins_a_log_up_to_its_size() {
    let log = Writer::filled(1, 20);
    let report = judged(pinned(&[&log]), &log.records, |v| assert!(v.kept(&note(log.log, &log.records[..15]))));
    assert_eq!((report.exit_code(), report.pins), (0, 1), "{report}");
    assert!(report.to_string().contains(&format!("truncation of log {} behind seq 14", log.log)), "{report}");
}

#[test]
fn a_cut_tail_a_new_history_and_a_lost_log_show_against_an_anchor() {
    let (log, mut other) = (Writer::filled(1, 20), Writer::filled(1, 12));
    let anchor = note(log.log, &log.records);
    finds(&judged(pinned(&[&log]), &log.records[..15], |v| assert!(v.kept(&anchor))), Code::Truncated);
    while other.tree.size() < 20 {
        other.ask(BOB);
    }
    finds(&judged(pinned(&[&log]), &other.records, |v| assert!(v.kept(&anchor))), Code::Fork);
    let here = Writer::filled(2, 5);
    let both = |v: &mut Verifier| {
        assert!(v.kept(&anchor) && v.kept(&note(here.log, &here.records)));
    };
    finds(&judged(pinned(&[&log, &here]), &here.records, both), Code::MissingLog);
}

#[test]
fn an_anchor_is_believed_only_under_the_pinned_key_of_its_own_log() {
    let (log, other) = (Writer::filled(1, 20), Writer::filled(2, 5));
    let anchor = note(log.log, &log.records);
    finds(&judged(log.keys().into(), &log.records, |v| assert!(v.kept(&anchor))), Code::UnknownKey);
    let changed = anchor.replacen("\n20\n", "\n19\n", 1);
    finds(&judged(pinned(&[&log]), &log.records, |v| assert!(v.kept(&changed))), Code::BadSig);
    // The rest of a write that was cut short pins nothing, and accuses nobody.
    for cut in ["no checkpoint", &anchor[..20], &anchor[..anchor.len() - 9]] {
        let report = judged(pinned(&[&log]), &log.records, |v| assert!(!v.kept(cut)));
        finds(&report, Code::Unanchored);
        assert!(report.to_string().contains("among the anchors"), "{report}");
    }
    // The other log's key is pinned, and signs in its own name what it says of this log.
    let origin = note_key(log.log).name().to_owned();
    let foreign = Checkpoint { origin, head: head(&log.records) }.sign(&note_key(other.log), &signer(CHECKPOINT_KEY));
    finds(&judged(pinned(&[&log, &other]), &log.records, |v| assert!(v.kept(&foreign))), Code::UnknownKey);
}

#[test]
fn an_anchor_of_another_origin_is_of_another_log() {
    let log = Writer::filled(1, 5);
    let key = NoteKey::new(&format!("elsewhere/{}", log.log), signer(CHECKPOINT_KEY).public_key()).expect("a name");
    let head = head(&log.records);
    let anchor = Checkpoint { origin: key.name().to_owned(), head }.sign(&key, &signer(CHECKPOINT_KEY));
    let pinned = Pinned { notes: vec![key], ..log.keys().into() };
    finds(&judged(pinned, &log.records, |v| assert!(v.kept(&anchor))), Code::WrongLog);
}

#[test]
fn a_checkpoint_of_the_data_must_agree_with_it_and_pins_nothing() {
    let log = Writer::filled(1, 20);
    let held = |records: &[Record], note: &str, pinned: Pinned| {
        let mut verifier = Verifier::trusting(pinned, Options::default());
        verifier.held(note);
        for record in records {
            verifier.record(record.clone(), None);
        }
        verifier.finish()
    };
    let good = held(&log.records, &note(log.log, &log.records[..9]), pinned(&[&log]));
    assert_eq!((good.exit_code(), good.checkpoints, good.pins), (0, 1, 0), "{good}");
    assert!(good.to_string().contains("not checked: truncation\n"), "{good}");
    finds(&held(&log.records[..15], &note(log.log, &log.records), pinned(&[&log])), Code::Truncated);
    let mut other = Writer::filled(1, 5);
    (0..15).for_each(|_| drop(other.ask(BOB)));
    finds(&held(&other.records, &note(log.log, &log.records[..9]), pinned(&[&log])), Code::Fork);
    let unpinned = held(&log.records, &note(log.log, &log.records), log.keys().into());
    assert_eq!(unpinned.exit_code(), 0, "{unpinned}");
    assert!(unpinned.to_string().contains("for which no key is pinned"), "{unpinned}");
    let forged = note(log.log, &log.records).replacen("\n20\n", "\n19\n", 1);
    finds(&held(&log.records, &forged, pinned(&[&log])), Code::BadSig);
}

#[test]
fn notes_are_cut_apart_with_and_without_empty_lines_between_them() {
    let log = Writer::filled(1, 3);
    let each: Vec<_> = (1..=3).map(|size| note(log.log, &log.records[..size])).collect();
    assert_eq!(notes(&each.concat()), each);
    assert_eq!(notes(&each.join("\n")), each);
    assert_eq!(notes(&format!("\n\n{}\n\n", each[0])), each[..1]);
    assert_eq!(notes("\n"), Vec::<String>::new());
    assert_eq!(notes("junk"), ["junk"]);
    // What a stopped writer left, and what the next one put behind it.
    for at in 1..each[0].len() {
        if each[0].is_char_boundary(at) && !each[0][..at].trim().is_empty() {
            let found = notes(&format!("{}\n\n{}\n", &each[0][..at], each[1]));
            assert_eq!(found.last(), Some(&each[1]), "cut at {at}");
        }
    }
}

#[test]
fn what_an_earlier_run_checked_is_compared_as_a_whole() {
    let log = Writer::filled(1, 20);
    let saved = note(log.log, &log.records[..15]);
    let since = |records: &[Record]| judged(pinned(&[&log]), records, |v| v.since(&saved).expect("it is signed"));
    let report = since(&log.records);
    assert_eq!((report.exit_code(), report.pins), (0, 1), "{report}");
    let said = format!("not checked: signatures of log {} before seq 15, which an earlier run checked", log.log);
    assert!(report.to_string().contains(&said), "{report}");
    for changed in [3, 14, 15, 19] {
        for field in 0..3 {
            let mut records = log.records.clone();
            match field {
                0 => records[changed].sig[5] ^= 1,
                1 => records[changed].key_id[0] ^= 1,
                _ => std::sync::Arc::make_mut(&mut records[changed].payload)[300] ^= 1,
            }
            assert_ne!(since(&records).exit_code(), 0, "seq {changed} field {field}");
        }
    }
    let mut records = log.records.clone();
    records.remove(7);
    assert_ne!(since(&records).exit_code(), 0);
    finds(&since(&log.records[..12]), Code::Truncated);
    let mut verifier = Verifier::trusting(log.keys().into(), Options::default());
    assert!(verifier.since(&saved).is_err(), "no pinned key signed it");
}

/// The statement by which the log's next records are signed by another key.
fn rotation(log: &mut Writer, to: u8, signed_by: u8, usage: &str) -> Draft {
    let key = signer(to).public_key();
    let (old, new) = (hex(log.signer.public_key().as_bytes()), hex(key.as_bytes()));
    let old = if usage == "attest" { old } else { String::new() };
    let text = format!("signet-key-rotate/v1\n{ORIGIN}/{}\n{usage}\n{old}\n{new}\n", log.log);
    let proof = hex(&signer(signed_by).sign(text.as_bytes()));
    let mut facts = vec![
        ("new_key", ControlValue::Text(new)),
        ("proof", ControlValue::Text(proof)),
        ("use", ControlValue::Text(usage.to_owned())),
    ];
    if usage == "attest" {
        facts.push(("old_key", ControlValue::Text(old)));
    }
    Draft::control(Kind::KeyRotate, &log.stamp(), facts)
}

#[test]
fn behind_a_rotation_that_both_keys_signed_only_the_new_one_counts() {
    let mut log = Writer::filled(1, 6);
    let both = signet_lineage::KeySet::new([1, 5].map(|seed| signer(seed).public_key())).expect("two keys");
    let draft = rotation(&mut log, 5, 5, "attest");
    log.append(&draft);
    let late = log.request(ALICE).seal(&log.position(), &signer(1));
    let mut good = Writer { signer: signer(5), records: log.records.clone(), ..Writer::filled(1, 7) };
    (good.tree, good.base, good.ids) = (log.tree.clone(), log.base, log.ids);
    good.ask(ALICE);
    let verify = |records: &[Record]| crate::sample::verify(&both, records);
    assert_eq!(verify(&good.records).exit_code(), 0, "{}", verify(&good.records));
    log.records.push(late);
    finds(&verify(&log.records), Code::UnknownKey);
    // The new key must be pinned too: an old one that was stolen must not name its heir.
    finds(&crate::sample::verify(&log.keys(), &good.records), Code::UnknownKey);
}

#[test]
fn a_rotation_that_the_new_key_did_not_sign_is_none() {
    let mut log = Writer::filled(1, 6);
    let draft = rotation(&mut log, 5, 1, "attest");
    log.append(&draft);
    finds(&crate::sample::verify(&log.keys(), &log.records), Code::BadSig);
    let mut checkpoints = Writer::filled(1, 6);
    let draft = rotation(&mut checkpoints, 5, 5, "checkpoint");
    checkpoints.append(&draft);
    checkpoints.ask(ALICE);
    assert_eq!(crate::sample::verify(&checkpoints.keys(), &checkpoints.records).exit_code(), 0);
}

#[test]
fn a_checkpoint_key_that_the_log_itself_names_need_not_be_pinned() {
    let mut log = Writer::filled(1, 6);
    let draft = rotation(&mut log, CHECKPOINT_KEY, CHECKPOINT_KEY, "checkpoint");
    log.append(&draft);
    let checkpoint = note(log.log, &log.records);
    let judged = |records: &[Record], note: &str| {
        judged(log.keys().into(), records, |v| {
            v.held(note);
            assert!(v.kept(note));
        })
    };
    let report = judged(&log.records, &checkpoint);
    assert_eq!((report.exit_code(), report.pins, report.checkpoints), (0, 1, 1), "{report}");
    finds(&judged(&log.records[..6], &checkpoint), Code::UnknownKey);
    let forged = checkpoint.replacen("\n7\n", "\n6\n", 1);
    finds(&judged(&log.records, &forged), Code::BadSig);
}

#[test]
fn a_revoked_key_counts_below_the_last_good_place_and_nowhere_behind_it_whatever_the_time() {
    let log = Writer::filled(1, 20);
    let revoked = |last_good| Revoked { key_id: *log.signer.key_id(), log: log.log, last_good };
    let judged = |last_good| {
        let pinned = Pinned { revoked: vec![revoked(last_good)], ..log.keys().into() };
        let mut verifier = Verifier::trusting(pinned, Options::default());
        log.records.iter().for_each(|record| verifier.record(record.clone(), None));
        verifier.finish()
    };
    assert_eq!(judged(20).exit_code(), 0);
    let report = judged(12);
    finds(&report, Code::RevokedKey);
    assert_eq!(
        report.findings.iter().map(|finding| finding.seq).collect::<Vec<_>>(),
        (12..20).map(Some).collect::<Vec<_>>()
    );
}

#[test]
fn one_file_pins_both_kinds_of_keys_and_names_revoked_ones() {
    let log = Writer::filled(1, 2);
    let key_id = hex(log.signer.key_id());
    let (pem, note) = (log.signer.public_key().to_pem(), note_key(log.log).to_string());
    let text = format!("# mine\n{note}\n{pem}\nrevoked {key_id} {} 7\n", log.log);
    let pinned = Pinned::parse(&text).expect("a good file");
    assert_eq!((pinned.attest, pinned.notes), (log.keys(), vec![note_key(log.log)]));
    assert_eq!(pinned.revoked, [Revoked { key_id: *log.signer.key_id(), log: log.log, last_good: 7 }]);
    assert_eq!(Pinned::parse(&note), Err(KeyFault::Empty), "checkpoints alone prove no record");
    for (bad, line) in
        [(format!("{pem}{note}x\n"), 4), (format!("{pem}\nrevoked x y\n"), 5), (format!("{pem}junk\n"), 4)]
    {
        assert_eq!(Pinned::parse(&bad), Err(KeyFault::Line { line }), "{bad}");
    }
}

fn rotate(log: &mut Writer, old: u8, new: u8) -> u64 {
    let name = format!("{ORIGIN}/{}", log.log);
    let (old, new) = (signer(old).public_key(), signer(new));
    let rotation = KeyRotation { key_use: KeyUse::Checkpoint, old: Some(old), new: &new };
    let draft = Draft::key_rotate(&log.stamp(), &name, &rotation);
    log.append(&draft).seq
}

fn note_by(log: &Writer, size: u64, seed: u8) -> String {
    let key = NoteKey::new(&format!("{ORIGIN}/{}", log.log), signer(seed).public_key()).expect("a good name");
    let below = usize::try_from(size).expect("small");
    Checkpoint { origin: key.name().to_owned(), head: head(&log.records[..below]) }.sign(&key, &signer(seed))
}

#[test]
fn a_checkpoint_is_good_under_the_key_that_its_last_record_left_in_force_and_under_no_other() {
    let mut log = Writer::filled(1, 6);
    let turn = rotate(&mut log, CHECKPOINT_KEY, 8);
    while log.tree.size() < 12 {
        log.ask(ALICE);
    }
    let both: Vec<_> = [CHECKPOINT_KEY, 8]
        .map(|seed| NoteKey::new(&format!("{ORIGIN}/{}", log.log), signer(seed).public_key()).expect("a name"))
        .to_vec();
    for (size, seed, good) in [
        (turn, CHECKPOINT_KEY, true),
        (turn + 1, CHECKPOINT_KEY, false),
        (turn, 8, false),
        (turn + 1, 8, true),
        (12, 8, true),
        (12, CHECKPOINT_KEY, false),
    ] {
        for notes in [both.clone(), Vec::new()] {
            let pinned = Pinned { notes, ..log.keys().into() };
            let report = judged(pinned, &log.records, |v| assert!(v.kept(&note_by(&log, size, seed))));
            let known = report.findings.iter().all(|it| it.code != Code::UnknownKey);
            assert_eq!(known, good, "size {size} by {seed}: {report}");
        }
    }
}

#[test]
fn right_after_a_rotation_what_is_still_on_its_way_to_the_database_is_no_finding() {
    let mut log = Writer::filled(1, 6);
    rotate(&mut log, CHECKPOINT_KEY, 8);
    let note = note_by(&log, 7, 8);
    let live = |records: &[Record], row: LogRow, pinned: &[u8]| {
        let keys = KeySet::new(pinned.iter().map(|seed| signer(*seed).public_key())).expect("keys");
        let mut verifier = Verifier::new(&keys, Options { live: true, ..Options::default() });
        verifier.log(row);
        verifier.held(&note);
        for record in records {
            verifier.record(record.clone(), None);
        }
        verifier.finish()
    };
    // The checkpoint is there, and the record that names its key is not.
    let row =
        |epoch, seed: u8| LogRow { epoch, attest_key: *signer(seed).public_key().as_bytes(), next_seq: 6, ..log.row() };
    let report = live(&log.records[..6], row(1, 1), &[1]);
    assert_eq!(report.exit_code(), 0, "{report}");
    assert!(report.to_string().contains("which covers more than its first 6 records"), "{report}");
    assert_eq!(live(&log.records, row(1, 1), &[1]).exit_code(), 0);
    // The next process has made itself known with the key that a record to come lets in.
    assert_eq!(live(&log.records, row(2, 5), &[1, 5]).exit_code(), 0);
    finds(&live(&log.records, row(2, 5), &[1]), Code::IndexMismatch);
    finds(&live(&log.records, row(1, 5), &[1, 5]), Code::IndexMismatch);
}
