//! Whatever is done to a log without its key shows, and shows as what it is.

use crate::sample::{ALICE, BOB, START_MS, Writer, receipt, signer, verify, verify_with};
use signet_lineage::verify::{Code, Options, Report, Stored, Verifier};
use signet_lineage::{AttemptFacts, Columns, Draft, KeySet, Kind, Leaf, LogRow, Record, Signer, Tree, TreeHead};
use signet_types::{LineageId, LogId, TenantId};
use std::sync::Arc;

#[track_caller]
fn finds(report: &Report, code: Code) {
    assert_eq!(report.exit_code(), code as u8, "{report}");
}

type Change = fn(&mut Columns);

#[test]
fn a_changed_payload_signature_or_column_is_told_apart() {
    let log = Writer::filled(1, 12);
    let stored = |record: &Record| Stored {
        columns: Columns::read(&record.payload).ok(),
        payload_sha256: Some(sha256(&record.payload)),
        leaf_hash: Some(Leaf::of(record).hash()),
        ..Stored::default()
    };
    let verify = |change: &dyn Fn(&mut Record, &mut Stored)| {
        let mut verifier = Verifier::new(&log.keys(), Options::default());
        for record in &log.records {
            let (mut record, mut stored) = (record.clone(), stored(record));
            if record.seq == 5 {
                change(&mut record, &mut stored);
            }
            verifier.row(record, stored);
        }
        verifier.finish()
    };
    finds(&verify(&|record, _| Arc::make_mut(&mut record.payload)[300] ^= 1), Code::BadLeaf);
    finds(&verify(&|record, _| record.sig[3] ^= 1), Code::BadSig);
    finds(&verify(&|_, stored| stored.leaf_hash = Some([0; 32])), Code::BadLeaf);
    assert_eq!(verify(&|_, _| {}).exit_code(), 0);
    let columns: [(&str, Change); 10] = [
        ("kind", |c| c.kind = Kind::Gap),
        ("ts_ms", |c| c.ts_ms += 1),
        ("id", |c| c.id = LineageId::from_bytes([0; 16])),
        ("tenant", |c| c.tenant = Some(TenantId::from_bytes([0; 16]))),
        ("model", |c| c.model = None),
        ("cache", |c| c.cache = Some("hit_exact".to_owned())),
        ("status", |c| c.status = Some(500)),
        ("tok_in", |c| c.tok_in = Some(0)),
        ("tok_out", |c| c.tok_out = None),
        ("parent", |c| c.parent = Some((LogId::from_bytes([0; 16]), 0))),
    ];
    for (name, change) in columns {
        let report = verify(&|_, stored| stored.columns.iter_mut().for_each(change));
        finds(&report, Code::IndexMismatch);
        assert!(report.to_string().contains(name), "{name}: {report}");
    }
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).into()
}

#[test]
fn a_deleted_record_is_a_gap_and_not_a_flood_of_other_findings() {
    let mut log = Writer::filled(1, 40);
    log.records.remove(17);
    let report = verify(&log.keys(), &log.records);
    finds(&report, Code::Gap);
    assert_eq!(report.findings.len(), 1, "{report}");
    assert_eq!(report.findings[0].seq, Some(17));
}

#[test]
fn a_log_without_its_beginning_is_a_gap() {
    let log = Writer::filled(1, 8);
    finds(&verify(&log.keys(), &log.records[1..]), Code::Gap);
}

#[test]
fn records_that_change_places_do_not_fit_their_rows() {
    let mut log = Writer::filled(1, 12);
    log.records.swap(4, 7);
    (log.records[4].seq, log.records[7].seq) = (4, 7);
    finds(&verify(&log.keys(), &log.records), Code::BadLeaf);
}

#[test]
fn rows_out_of_order_are_not_taken_for_a_log() {
    let mut log = Writer::filled(1, 12);
    log.records.swap(4, 5);
    finds(&verify(&log.keys(), &log.records), Code::Gap);
}

#[test]
fn a_record_that_is_there_twice_is_found() {
    let mut log = Writer::filled(1, 12);
    log.records.insert(5, log.records[4].clone());
    finds(&verify(&log.keys(), &log.records), Code::Dup);
}

#[test]
fn one_id_for_two_records_is_found() {
    let mut log = Writer::filled(1, 4);
    log.ids -= 1;
    log.ask(ALICE);
    finds(&verify(&log.keys(), &log.records), Code::Dup);
}

#[test]
fn two_signed_records_for_one_seq_are_a_fork() {
    let (mut log, mut other) = (Writer::filled(1, 6), Writer::filled(1, 6));
    log.ask(ALICE);
    other.ask(BOB);
    log.records.push(other.records.pop().expect("just written"));
    finds(&verify(&log.keys(), &log.records), Code::Fork);
}

#[test]
fn a_record_of_another_log_does_not_fit_though_its_signature_does() {
    let (mut log, other) = (Writer::filled(1, 12), Writer::filled(2, 12));
    let keys = KeySet::new([log.signer.public_key(), other.signer.public_key()]).expect("two keys");
    log.records[6] = Record { log: log.log, ..other.records[6].clone() };
    finds(&verify(&keys, &log.records), Code::WrongLog);
}

#[test]
fn a_pinned_key_of_another_log_proves_nothing_here() {
    let mut log = Writer::filled(1, 6);
    let foreign = signer(2);
    let keys = KeySet::new([log.signer.public_key(), foreign.public_key()]).expect("two keys");
    let draft = log.request(ALICE);
    log.records.push(draft.seal(&log.position(), &foreign));
    finds(&verify(&keys, &log.records), Code::UnknownKey);
}

#[test]
fn a_cut_tail_shows_against_a_receipt_an_anchor_or_the_row_and_else_is_said_to_be_unchecked() {
    let log = Writer::filled(1, 40);
    let cut = &log.records[..30];
    finds(&verify_with(&log.keys(), cut, |v| v.receipt(receipt(&log.records[33]))), Code::Truncated);
    finds(&verify_with(&log.keys(), cut, |v| v.anchor(log.log, log.tree.head())), Code::Truncated);
    finds(&verify_with(&log.keys(), cut, |v| v.log(log.row())), Code::Truncated);
    let blind = verify(&log.keys(), cut);
    assert_eq!(blind.exit_code(), 0);
    assert!(blind.not_checked.contains(&"truncation".to_owned()), "{blind}");
}

#[test]
fn a_log_that_is_gone_shows_against_its_row_or_a_receipt() {
    let (log, gone) = (Writer::filled(1, 5), Writer::filled(2, 5));
    finds(&verify_with(&log.keys(), &log.records, |v| v.log(gone.row())), Code::MissingLog);
    finds(&verify_with(&log.keys(), &log.records, |v| v.receipt(receipt(&gone.records[2]))), Code::MissingLog);
}

#[test]
fn a_log_row_that_contradicts_the_signed_beginning_is_found() {
    let log = Writer::filled(1, 5);
    let wrong: [fn(&mut LogRow); 2] = [|row| row.attest_key[0] ^= 1, |row| row.origin.push('x')];
    for change in wrong {
        let mut row = log.row();
        change(&mut row);
        finds(&verify_with(&log.keys(), &log.records, |v| v.log(row)), Code::IndexMismatch);
    }
}

/// The whole history again from `from` on, as its key holder could write it.
fn rewritten(log: &Writer, from: usize, key: &Signer) -> Vec<Record> {
    let mut other = Writer::open(log.name, "spool");
    other.signer = signer(log.name);
    other.records.clear();
    other.tree = Tree::new();
    other.base = other.tree.head();
    other.ids = 0;
    for (at, record) in log.records.iter().enumerate() {
        if at < from {
            other.tree.push(Leaf::of(record).hash());
            other.records.push(record.clone());
            other.ids += 1;
        } else {
            let draft = if at == 0 {
                Draft::log_open(&other.stamp(), crate::sample::ORIGIN, &key.public_key())
            } else {
                other.request(BOB)
            };
            let sealed = draft.seal(&other.position(), key);
            other.tree.push(Leaf::of(&sealed).hash());
            other.records.push(sealed);
        }
        if other.tree.size().is_multiple_of(3) {
            other.base = other.tree.head();
        }
    }
    other.records
}

#[test]
fn a_history_signed_again_with_the_same_key_is_a_fork_against_any_receipt_from_there_on() {
    let log = Writer::filled(1, 20);
    let forged = rewritten(&log, 8, &log.signer);
    assert_eq!(verify(&log.keys(), &forged).exit_code(), 0, "it is a log like any other");
    for at in [8, 13, 19] {
        let report = verify_with(&log.keys(), &forged, |v| v.receipt(receipt(&log.records[at])));
        finds(&report, Code::Fork);
    }
    let anchor = TreeHead { size: 20, root: log.tree.root() };
    finds(&verify_with(&log.keys(), &forged, |v| v.anchor(log.log, anchor)), Code::Fork);
    let before = verify_with(&log.keys(), &forged, |v| v.receipt(receipt(&log.records[7])));
    assert_eq!(before.exit_code(), 0, "what it pins was not changed");
}

#[test]
fn a_history_signed_again_with_another_key_is_not_believed() {
    let log = Writer::filled(1, 20);
    finds(&verify(&log.keys(), &rewritten(&log, 0, &signer(9))), Code::UnknownKey);
    let claims_ours: Vec<_> = rewritten(&log, 0, &signer(9))
        .into_iter()
        .map(|record| Record { key_id: *log.signer.key_id(), ..record })
        .collect();
    finds(&verify(&log.keys(), &claims_ours), Code::BadSig);
}

#[test]
fn one_record_signed_again_breaks_the_heads_behind_it() {
    let mut log = Writer::filled(1, 20);
    let mut draft = log.request(BOB);
    draft.id = log.records[8].id;
    let base = TreeHead { size: 0, root: Tree::new().root() };
    let position = signet_lineage::Position { log: log.log, epoch: 1, seq: 8, base };
    log.records[8] = draft.seal(&position, &log.signer);
    let report = verify(&log.keys(), &log.records);
    finds(&report, Code::RootMismatch);
    assert_eq!(report.findings.len(), 1, "{report}");
}

#[test]
fn a_head_over_records_that_do_not_precede_it_is_refused() {
    let mut log = Writer::filled(1, 5);
    log.base = TreeHead { size: 6, root: [0; 32] };
    log.ask(ALICE);
    finds(&verify(&log.keys(), &log.records), Code::RootMismatch);
}

#[test]
fn a_broken_source_is_found_whatever_is_wrong_with_it() {
    let wrong: [fn(&mut Writer, &mut Draft); 7] = [
        |_, draft| parent_of(draft).leaf_hash[0] ^= 1,
        |_, draft| parent_of(draft).seq = 99,
        |log, draft| parent_of(draft).seq = log.tree.size(),
        |_, draft| parent_of(draft).response_fp = Some([1; 16]),
        |_, draft| draft.exchange.as_mut().expect("a request").response.fp = Some([1; 16]),
        |_, draft| draft.exchange.as_mut().expect("a request").caller.tenant = BOB,
        |_, draft| {
            parent_of(draft).response_fp = Some([1; 16]);
            draft.exchange.as_mut().expect("a request").response.fp = Some([1; 16]);
        },
    ];
    for (case, change) in wrong.into_iter().enumerate() {
        let mut log = Writer::filled(1, 5);
        let source = log.records[3].clone();
        let mut draft = log.hit_draft(ALICE, &source);
        change(&mut log, &mut draft);
        log.append(&draft);
        let report = verify(&log.keys(), &log.records);
        assert_eq!(report.exit_code(), Code::LineageBroken as u8, "case {case}: {report}");
    }
}

fn parent_of(draft: &mut Draft) -> &mut signet_lineage::Parent {
    &mut draft.exchange.as_mut().expect("a request").parents[0]
}

#[test]
fn a_source_behind_the_end_of_its_log_is_a_finding_unless_the_data_is_live() {
    let (mut here, mut there) = (Writer::filled(1, 3), Writer::filled(2, 3));
    let source = there.ask(ALICE);
    here.hit(ALICE, &source);
    there.records.pop();
    let keys = KeySet::new([here.signer.public_key(), there.signer.public_key()]).expect("two keys");
    for (live, code) in [(false, Code::LineageBroken as u8), (true, 0)] {
        let mut verifier = Verifier::new(&keys, Options { live, ..Options::default() });
        here.records.iter().chain(&there.records).for_each(|record| verifier.record(record.clone(), None));
        assert_eq!(verifier.finish().exit_code(), code);
    }
}

#[test]
fn what_is_signed_but_not_canonical_is_refused() {
    let cases: [(&str, &str); 6] = [
        (r#""v":1}"#, r#""v": 1}"#),
        (r#""v":1}"#, r#""v":1,"v":1}"#),
        (r#""bytes":120"#, r#""bytes":9007199254740993"#),
        (r#""bytes":120"#, r#""bytes":120.0"#),
        (r#""asked":"fast""#, r#""asked":"\u0066ast""#),
        (r#""asked":"fast""#, r#""asked":"\ud800""#),
    ];
    for (good, bad) in cases {
        let mut log = Writer::filled(1, 5);
        let text = std::str::from_utf8(&log.records[4].payload).expect("JSON").to_owned();
        assert!(text.contains(good), "{good}");
        log.records[4].payload = text.replace(good, bad).into_bytes().into();
        resign(&log.signer, &mut log.records[4]);
        let report = verify(&log.keys(), &log.records);
        assert_eq!(report.exit_code(), Code::BadLeaf as u8, "{bad}: {report}");
    }
}

#[test]
fn a_statement_of_another_version_is_not_judged_by_this_one() {
    let mut log = Writer::filled(1, 5);
    let text = std::str::from_utf8(&log.records[4].payload).expect("JSON").replace(r#""v":1}"#, r#""v":2}"#);
    log.records[4].payload = text.into_bytes().into();
    resign(&log.signer, &mut log.records[4]);
    finds(&verify(&log.keys(), &log.records), Code::BadLeaf);
}

fn resign(signer: &Signer, record: &mut Record) {
    let mut message = format!("DSSEv1 28 application/vnd.in-toto+json {} ", record.payload.len()).into_bytes();
    message.extend_from_slice(&record.payload);
    record.sig = signer.sign(&message);
}

#[test]
fn a_log_is_opened_once_first_and_not_continued_behind_its_seal() {
    let mut twice = Writer::filled(1, 3);
    let again = Draft::log_open(&twice.stamp(), crate::sample::ORIGIN, &twice.signer.public_key());
    twice.append(&again);
    finds(&verify(&twice.keys(), &twice.records), Code::Fork);

    let mut sealed = Writer::filled(1, 3);
    let seal = Draft::log_seal(&sealed.stamp());
    sealed.append(&seal);
    sealed.ask(ALICE);
    finds(&verify(&sealed.keys(), &sealed.records), Code::Fork);

    let mut headless = Writer::open(1, "spool");
    (headless.records, headless.tree) = (Vec::new(), Tree::new());
    headless.ask(ALICE);
    finds(&verify(&headless.keys(), &headless.records), Code::Gap);
}

#[test]
fn the_key_that_a_log_names_is_the_key_that_signs_it() {
    let mut log = Writer::open(1, "spool");
    (log.records, log.tree) = (Vec::new(), Tree::new());
    let stamp = log.stamp();
    assert_eq!(stamp.at_ms, START_MS);
    log.append(&Draft::log_open(&stamp, crate::sample::ORIGIN, &signer(2).public_key()));
    finds(&verify(&log.keys(), &log.records), Code::UnknownKey);
}

#[test]
fn a_receipt_of_another_origin_is_of_another_log() {
    let log = Writer::filled(1, 5);
    let mut kept = receipt(&log.records[3]);
    kept.origin = "elsewhere.example/lineage".to_owned();
    finds(&verify_with(&log.keys(), &log.records, |v| v.receipt(kept)), Code::WrongLog);
}

#[test]
fn attempts_that_do_not_lead_to_the_answer_are_a_broken_edge() {
    let attempt = |provider: &str, model: &str, status| AttemptFacts {
        provider: provider.to_owned(),
        model: model.to_owned(),
        status,
        ms: 3,
        reason: (status == 0).then_some("connect_refused"),
        wait_ms: None,
    };
    let (first, last) = (attempt("first", "a", 0), attempt("main", "gpt-4o-mini", 200));
    let found = |attempts: &[&AttemptFacts], change: fn(&mut signet_lineage::Exchange)| {
        let mut log = Writer::filled(1, 3);
        let mut draft = log.request(ALICE);
        let exchange = draft.exchange.as_mut().expect("a request");
        let provider = exchange.provider.as_mut().expect("it went upstream");
        provider.attempts = attempts.iter().map(|&attempt| attempt.clone()).collect();
        change(exchange);
        log.append(&draft);
        let report = verify(&log.keys(), &log.records);
        report.findings.iter().map(|it| (it.code, it.seq)).collect::<Vec<_>>()
    };
    let broken = [(Code::LineageBroken, Some(3))];
    let keep = |_: &mut signet_lineage::Exchange| {};
    assert_eq!(found(&[&last], keep), []);
    assert_eq!(found(&[&first, &last], keep), []);
    assert_eq!(found(&[&attempt("first", "a", 503), &last], keep), []);
    let again = AttemptFacts { wait_ms: Some(1500), ..last.clone() };
    assert_eq!(found(&[&attempt("main", "gpt-4o-mini", 429), &again], keep), [], "the same one after a pause");
    assert_eq!(found(&[], keep), [], "nobody could be asked");
    assert_eq!(found(&[&first, &last], |it| it.provider = None), [], "it stands on another's call");
    assert_eq!(found(&[&attempt("first", "a", 200), &last], keep), broken);
    assert_eq!(found(&[&last, &first], keep), broken);
    assert_eq!(found(&[&first, &last], |it| it.model.routed = Some("a".to_owned())), broken);
    assert_eq!(found(&[&first, &last], |it| it.model.routed = None), broken);
    assert_eq!(found(&[&first, &attempt("other", "gpt-4o-mini", 200)], keep), broken);
}
