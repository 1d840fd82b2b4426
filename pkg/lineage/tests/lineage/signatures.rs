//! Signatures that some libraries take and others do not: the strict rules of RFC 8032 §5.1.7 refuse them all, so that what
//! is a record does not depend on who looks.

use crate::sample::{Writer, signer, verify};
use curve25519_dalek::constants::{ED25519_BASEPOINT_POINT as B, EIGHT_TORSION};
use curve25519_dalek::{EdwardsPoint, Scalar};
use sha2::{Digest, Sha512};
use signet_lineage::verify::Code;
use signet_lineage::{PublicKey, Record};
use std::sync::Arc;

/// The order of the base point, 2^252 + 27742317777372353535851937790883648493, little-endian.
const ORDER: [u8; 32] = [
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
];

fn hash(parts: &[&[u8]]) -> [u8; 64] {
    parts.iter().fold(Sha512::new(), Sha512::chain_update).finalize().into()
}

/// What a record's signature covers, written out.
fn signed(record: &Record) -> Vec<u8> {
    let mut text = format!("DSSEv1 28 application/vnd.in-toto+json {} ", record.payload.len()).into_bytes();
    text.extend_from_slice(&record.payload);
    text
}

/// A signature by the key of [`signer`]`(seed)` whose point has `torsion` in it: all is well with it for a verifier that
/// multiplies by the cofactor, as batch verification does.
fn twisted(seed: u8, message: &[u8], torsion: EdwardsPoint) -> [u8; 64] {
    let expanded = hash(&[&[seed; 32]]);
    let (mut secret, public) = ([0; 32], *signer(seed).public_key().as_bytes());
    secret.copy_from_slice(&expanded[..32]);
    secret[0] &= 0b1111_1000;
    secret[31] = secret[31] & 0b0011_1111 | 0b0100_0000;
    let (a, r) = (Scalar::from_bytes_mod_order(secret), Scalar::from_bytes_mod_order_wide(&hash(&[message])));
    assert_eq!((B * a).compress().to_bytes(), public, "the secret is that of the key");
    let point = (B * r + torsion).compress().to_bytes();
    let s = r + Scalar::from_bytes_mod_order_wide(&hash(&[&point, &public, message])) * a;
    let mut sig = [0; 64];
    sig[..32].copy_from_slice(&point);
    sig[32..].copy_from_slice(s.as_bytes());
    sig
}

fn with_signature(log: &Writer, sig: [u8; 64]) -> Vec<Record> {
    let mut records = log.records.clone();
    records.last_mut().expect("a record").sig = sig;
    records
}

#[test]
fn a_signature_whose_point_is_of_mixed_order_is_none() {
    let log = Writer::filled(1, 5);
    let message = signed(log.records.last().expect("a record"));
    let good = twisted(1, &message, EIGHT_TORSION[0]);
    assert!(verify(&log.keys(), &with_signature(&log, good)).findings.is_empty(), "without torsion it is one of many");
    for torsion in &EIGHT_TORSION[1..] {
        let report = verify(&log.keys(), &with_signature(&log, twisted(1, &message, *torsion)));
        assert_eq!(report.exit_code(), Code::BadSig as u8, "{report}");
    }
}

#[test]
fn a_signature_has_one_form() {
    let log = Writer::filled(1, 5);
    let mut sig = log.records.last().expect("a record").sig;
    let mut carry = 0;
    for (digit, order) in sig[32..].iter_mut().zip(ORDER) {
        let sum = u16::from(*digit) + u16::from(order) + carry;
        [*digit, _] = sum.to_le_bytes();
        carry = sum >> 8;
    }
    assert_eq!(carry, 0, "it still fits");
    let report = verify(&log.keys(), &with_signature(&log, sig));
    assert_eq!(report.exit_code(), Code::BadSig as u8, "{report}");
}

#[test]
fn no_point_of_small_order_is_a_key() {
    for point in EIGHT_TORSION {
        assert!(PublicKey::from_bytes(point.compress().to_bytes()).is_none(), "{:?}", point.compress());
    }
}

#[test]
fn a_text_in_another_normal_form_of_unicode_is_another_text() {
    let mut log = Writer::filled(1, 5);
    let mut draft = log.request(crate::sample::ALICE);
    draft.exchange.as_mut().expect("a request").model.asked = "caf\u{e9}".into();
    log.append(&draft);
    assert!(verify(&log.keys(), &log.records).findings.is_empty());
    let mut records = log.records.clone();
    let record = records.last_mut().expect("a record");
    let text = String::from_utf8(record.payload.to_vec()).expect("JSON");
    record.payload = Arc::from(text.replace('\u{e9}', "e\u{301}").into_bytes());
    let report = verify(&log.keys(), &records);
    assert_eq!(report.exit_code(), Code::BadSig as u8, "{report}");
}
