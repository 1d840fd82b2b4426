//! One record byte for byte, so that a change of any format shows. Signature, key id, leaf hash and receipt were computed
//! outside of this crate (Python's `cryptography` and `hashlib`, from payload and seed); openssl verified the signature:
//! `openssl pkeyutl -verify -pubin -inkey key.pem -rawin -in pae -sigfile sig`, where `pae` holds
//! `DSSEv1 28 application/vnd.in-toto+json <len> <payload>`.

use crate::sample::{ALICE, BOB, ORIGIN, Writer, id, signer};
use signet_lineage::tlog::{Checkpoint, NoteKey};
use signet_lineage::verify::{Options, Pinned, Stored, Verifier, notes, read_line, write_line};
use signet_lineage::{ControlValue, Denials, Draft, KeySet, Kind, Leaf, Receipt, Record, root_of};

const ENVELOPE: &str = include_str!("golden/envelope.json");
const KEY: &str = include_str!("golden/key.pem");
const PAYLOAD: &str = include_str!("golden/payload.json");
const RECEIPT: &str = include_str!("golden/receipt.txt");

/// The record as it is written today: nonce and base fixed.
fn written() -> Record {
    let mut log = Writer::open(1, "spool");
    let source = Record { payload: [].into(), sig: [3; 64], ..log.records[0].clone() };
    let draft = log.hit_draft(ALICE, &source);
    let position = signet_lineage::Position { base: signet_lineage::Tree::new().head(), ..log.position() };
    draft.prepare_with([0xab; 16]).seal(&position, &signer(1))
}

#[test]
fn the_bytes_of_a_record_are_those_of_the_format() {
    let record = written();
    assert_eq!(std::str::from_utf8(&record.payload), Ok(PAYLOAD.trim_end()));
    assert_eq!(std::str::from_utf8(&record.to_envelope_json()), Ok(ENVELOPE.trim_end()));
    assert_eq!(Receipt::of(&record, ORIGIN).to_string(), RECEIPT.trim_end());
    assert_eq!(signer(1).public_key().to_pem(), KEY);
}

#[test]
fn the_literal_bytes_verify_against_the_literal_receipt() {
    let keys = KeySet::parse(KEY).expect("a key");
    let record = Record::from_envelope_json(ENVELOPE.trim_end().as_bytes()).expect("an envelope");
    let mut verifier = Verifier::new(&keys, Options::default());
    verifier.record(record, None);
    verifier.receipt(RECEIPT.trim_end().parse().expect("a receipt"));
    let report = verifier.finish();
    assert_eq!(report.pins, 1, "{report}");
    let findings: Vec<_> = report.findings.iter().map(|finding| finding.code.name()).collect();
    assert_eq!(findings, ["GAP", "LINEAGE_BROKEN"], "it is the second record of a log of which nothing else is here");
}

const LOG: &str = include_str!("golden/log.jsonl");
const LOG_KEYS: &str = include_str!("golden/log.keys");
const LOG_CHECKPOINTS: &str = include_str!("golden/log.checkpoints");
const LOG_RECEIPTS: &str = include_str!("golden/log.receipts");

fn hex(bytes: &[u8]) -> ControlValue {
    ControlValue::Text(crate::sample::hex(bytes))
}

fn text(text: &str) -> ControlValue {
    ControlValue::Text(text.to_owned())
}

/// A log with a record of every kind. Nonces and keys are fixed.
fn every_kind() -> Writer {
    let mut log = Writer::open(1, "spool");
    (log.records, log.tree) = (Vec::new(), signet_lineage::Tree::new());
    log.ids = 0;
    let opening = Draft::log_open(&log.stamp(), ORIGIN, &log.signer.public_key());
    let miss = log.request(ALICE);
    append(&mut log, &[opening, miss]);
    let source = log.records[1].clone();
    let hit = log.hit_draft(ALICE, &source);
    let other = log.request(BOB);
    let ids = vec![id(9, 1), id(9, 2), id(9, 3)];
    let denials = Denials { counts: vec![("ip_rate", 2), ("bad_key", 1)], ids, span_ms: (1, 2) };
    let denials = Draft::denials(&log.stamp(), &denials);
    let more = controls(&mut log, &source);
    append(&mut log, &[&[hit, other, denials][..], &more].concat());
    let (clock, unrecorded) = (Draft::clock(&log.stamp(), 10, 5), Draft::unrecorded(&log.stamp(), 17, "log full"));
    append(&mut log, &[clock, unrecorded]);
    log.epoch = 2;
    let found = recovery(&mut log);
    append(&mut log, &[found]);
    let rotation = rotation(&mut log);
    append(&mut log, &[rotation]);
    log.signer = signer(5);
    let (last, seal) = (log.request(ALICE), Draft::log_seal(&log.stamp()));
    append(&mut log, &[last, seal]);
    log
}

/// What operators and the gateway itself do to the answer of `source`, and beside it.
fn controls(log: &mut Writer, source: &Record) -> [Draft; 8] {
    let mut control = |kind, facts| Draft::control(kind, &log.stamp(), facts);
    let (of, found) = (("of", text(&source.id.to_string())), ("source", text(&source.id.to_string())));
    [
        control(
            Kind::Feedback,
            vec![of.clone(), found.clone(), ("tenant", hex(ALICE.as_bytes())), ("verdict", text("wrong"))],
        ),
        control(Kind::Purge, vec![("model", text("gpt-4o-mini")), ("stored_by_ms", ControlValue::Int(5))]),
        control(
            Kind::Label,
            vec![
                ("evidence", text("texts")),
                of,
                ("score_e6", ControlValue::Int(970_000)),
                found,
                ("verdict", text("right")),
            ],
        ),
        control(Kind::Config, vec![("semantic_off", ControlValue::Bool(true))]),
        control(Kind::Erasure, vec![("keys", ControlValue::Int(1)), ("tenant", hex(BOB.as_bytes()))]),
        control(
            Kind::Erasure,
            vec![("basis", text("request")), ("log_id", text(&source.log.to_string())), ("seq", ControlValue::Int(3))],
        ),
        control(
            Kind::Open,
            vec![("basis", text("dispute")), ("log_id", text(&source.log.to_string())), ("seq", ControlValue::Int(1))],
        ),
        control(
            Kind::Prune,
            vec![
                ("below_seq", ControlValue::Int(4)),
                ("log_id", text("02020202-0202-0202-0202-020202020202")),
                ("peaks", hex(&[8; 32])),
            ],
        ),
    ]
}

/// The first record after a crash.
fn recovery(log: &mut Writer) -> Draft {
    let facts = vec![
        ("clean", ControlValue::Bool(true)),
        ("last_seq", ControlValue::Int(log.tree.size() - 1)),
        ("lost_tail_possible", ControlValue::Bool(false)),
        ("mode", text("spool")),
        ("same_boot", ControlValue::Bool(true)),
    ];
    Draft::control(Kind::Recovery, &log.stamp(), facts)
}

/// The hand-over of records' signing to the next key.
fn rotation(log: &mut Writer) -> Draft {
    let key = signer(5).public_key();
    let digits = crate::sample::hex(key.as_bytes());
    let old = crate::sample::hex(log.signer.public_key().as_bytes());
    let agreed = format!("signet-key-rotate/v1\n{ORIGIN}/{}\nattest\n{old}\n{digits}\n", log.log);
    let agreed = signer(5).sign(agreed.as_bytes());
    let facts =
        vec![("new_key", text(&digits)), ("old_key", text(&old)), ("proof", hex(&agreed)), ("use", text("attest"))];
    Draft::control(Kind::KeyRotate, &log.stamp(), facts)
}

/// Its lines, pinned keys, checkpoints and receipts.
fn written_log() -> (String, String, String, String) {
    let log = every_kind();
    let origin = format!("{ORIGIN}/{}", log.log);
    let note_key = NoteKey::new(&origin, signer(9).public_key()).expect("a good name");
    let leaves: Vec<_> = log.records.iter().map(|record| Leaf::of(record).hash()).collect();
    let checkpoint = |size: usize| {
        let head = signet_lineage::TreeHead { size: size as u64, root: root_of(&leaves[..size]) };
        Checkpoint { origin: origin.clone(), head }.sign(&note_key, &signer(9))
    };
    let line = |record: &Record| {
        // One payload was erased, as a record says.
        let stored = Stored {
            erased: record.seq == 3,
            leaf_hash: Some(Leaf::of(record).hash()),
            payload_sha256: Some(sha256(&record.payload)),
            ..Stored::default()
        };
        String::from_utf8(write_line(record, &stored)).expect("JSON") + "\n"
    };
    let keys = KeySet::new([1, 5].map(|seed| signer(seed).public_key())).expect("two keys");
    (
        log.records.iter().map(line).collect(),
        format!("{keys}{note_key}\n"),
        [checkpoint(7), checkpoint(leaves.len())].join("\n"),
        log.records.iter().map(|record| Receipt::of(record, ORIGIN).to_string() + "\n").collect(),
    )
}

/// Appends with a nonce that is the record's place.
fn append(log: &mut Writer, drafts: &[Draft]) {
    for draft in drafts {
        let nonce = [u8::try_from(log.tree.size()).expect("small"); 16];
        let record = draft.prepare_with(nonce).seal(&log.position(), &log.signer);
        log.tree.push(Leaf::of(&record).hash());
        if log.tree.size().is_multiple_of(3) {
            log.base = log.tree.head();
        }
        log.records.push(record);
    }
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).into()
}

#[test]
fn the_bytes_of_a_log_its_keys_checkpoints_and_receipts_are_those_of_the_format() {
    let (log, keys, checkpoints, receipts) = written_log();
    assert_eq!(log, LOG);
    assert_eq!(keys, LOG_KEYS);
    assert_eq!(checkpoints, LOG_CHECKPOINTS);
    assert_eq!(receipts, LOG_RECEIPTS);
}

#[test]
fn the_literal_log_verifies_against_its_literal_checkpoints_and_receipts() {
    let mut verifier = Verifier::trusting(Pinned::parse(LOG_KEYS).expect("keys"), Options::default());
    for note in notes(LOG_CHECKPOINTS) {
        assert!(verifier.kept(&note));
    }
    LOG_RECEIPTS.lines().for_each(|receipt| verifier.receipt(receipt.parse().expect("a receipt")));
    for line in LOG.lines() {
        let (record, stored) = read_line(line.as_bytes()).expect("a line");
        verifier.row(record, stored);
    }
    let report = verifier.finish();
    assert_eq!((report.exit_code(), report.records, report.pins), (0, 19, 21), "{report}");
    assert_eq!((report.erased, report.edges, report.unrecorded), (1, 1, 17), "{report}");
}
