//! One record byte for byte, so that a change of any format shows. Signature, key id, leaf hash and receipt were computed
//! outside of this crate (Python's `cryptography` and `hashlib`, from payload and seed); openssl verified the signature:
//! `openssl pkeyutl -verify -pubin -inkey key.pem -rawin -in pae -sigfile sig`, where `pae` holds
//! `DSSEv1 28 application/vnd.in-toto+json <len> <payload>`.

use crate::sample::{ALICE, ORIGIN, Writer, signer};
use signet_lineage::verify::{Options, Verifier};
use signet_lineage::{KeySet, Receipt, Record};

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
