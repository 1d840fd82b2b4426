//! What can be told of one record by itself. Pure, so that it can be spread over threads.

use super::facts::{self, Facts};
use super::report::Code;
use super::{Stored, strict};
use crate::{Columns, KeySet, PublicKey, Record};
use ed25519_dalek::{Signature, VerifyingKey};
use sha2::{Digest, Sha256};
use signet_types::LogId;

/// The pinned keys, decoded once.
#[derive(Debug)]
pub(super) struct Keys(Vec<([u8; 32], VerifyingKey)>);

impl Keys {
    pub(super) fn new(set: &KeySet) -> Self {
        let decode = |key: &PublicKey| {
            let point = VerifyingKey::from_bytes(key.as_bytes()).expect("checked when the key was read");
            (key.key_id(), point)
        };
        Self(set.iter().map(decode).collect())
    }

    fn find(&self, id: &[u8; 32]) -> Option<&VerifyingKey> {
        self.0.iter().find_map(|(known, key)| (known == id).then_some(key))
    }
}

/// One record, looked at.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) log: LogId,
    pub(super) seq: u64,
    pub(super) epoch: u32,
    /// RFC 6962 leaf hash of what is there.
    pub(super) leaf: [u8; 32],
    /// The key that signed; none if the record proves nothing.
    pub(super) key: Option<[u8; 32]>,
    /// What it says, if it proves anything about this place.
    pub(super) facts: Option<Facts>,
    pub(super) findings: Vec<(Code, String)>,
}

pub(super) fn check(record: &Record, stored: &Stored, keys: &Keys) -> Checked {
    let digest: [u8; 32] = Sha256::digest(&record.payload).into();
    let leaf = leaf_hash(record, &digest);
    let (log, seq, epoch) = (record.log, record.seq, record.epoch);
    let mut checked = Checked { log, seq, epoch, leaf, key: None, facts: None, findings: Vec::new() };
    match proved(record, stored, &digest, keys) {
        Ok((key, facts)) => {
            compare(record, stored, &leaf, &facts, &mut checked.findings);
            checked.key = Some(key);
            checked.facts = Some(facts);
        }
        Err(finding) => checked.findings.push(finding),
    }
    checked
}

/// The statement, once its bytes are proved, unambiguous and made for this place in this log.
fn proved(r: &Record, stored: &Stored, digest: &[u8; 32], keys: &Keys) -> Result<([u8; 32], Facts), (Code, String)> {
    if stored.payload_sha256.is_some_and(|sha| sha != *digest) {
        return Err((Code::BadLeaf, "the payload does not hash to the value stored with it".to_owned()));
    }
    let key =
        keys.find(&r.key_id).ok_or_else(|| (Code::UnknownKey, "signed by a key that is not pinned".to_owned()))?;
    key.verify_strict(&signed_bytes(&r.payload), &Signature::from_bytes(&r.sig))
        .map_err(|_| (Code::BadSig, "the signature does not fit the payload".to_owned()))?;
    strict::canonical(&r.payload).map_err(|what| (Code::BadLeaf, format!("not canonical: {what}")))?;
    let facts = facts::read(&r.payload).map_err(|what| (Code::BadLeaf, format!("not a statement of ours: {what}")))?;
    if facts.log != r.log {
        return Err((Code::WrongLog, format!("signed for log {}", facts.log)));
    }
    if facts.seq != r.seq {
        return Err((Code::BadLeaf, format!("signed for seq {}", facts.seq)));
    }
    Ok((key.to_bytes(), facts))
}

/// Differences that leave the proof whole: copies of signed facts in columns.
fn compare(r: &Record, stored: &Stored, leaf: &[u8; 32], facts: &Facts, findings: &mut Vec<(Code, String)>) {
    if stored.leaf_hash.is_some_and(|stored| stored != *leaf) {
        findings.push((Code::BadLeaf, "the stored leaf hash is not the record's".to_owned()));
    }
    let mut differs = Vec::new();
    differs.extend((r.epoch != facts.epoch).then_some("epoch"));
    differs.extend((r.id != facts.id()).then_some("id"));
    differs.extend(stored.columns.iter().flat_map(|stored| differing(stored, &facts.columns)));
    if !differs.is_empty() {
        findings.push((Code::IndexMismatch, format!("not as signed: {}", differs.join(", "))));
    }
}

fn differing(stored: &Columns, signed: &Columns) -> impl Iterator<Item = &'static str> + use<> {
    [
        ("kind", stored.kind == signed.kind),
        ("ts_ms", stored.ts_ms == signed.ts_ms),
        ("id", stored.id == signed.id),
        ("tenant", stored.tenant == signed.tenant),
        ("model", stored.model == signed.model),
        ("cache", stored.cache == signed.cache),
        ("status", stored.status == signed.status),
        ("tok_in", stored.tok_in == signed.tok_in),
        ("tok_out", stored.tok_out == signed.tok_out),
        ("parent", stored.parent == signed.parent),
    ]
    .into_iter()
    .filter_map(|(name, same)| (!same).then_some(name))
}

/// DSSE v1 pre-authentication encoding.
fn signed_bytes(payload: &[u8]) -> Vec<u8> {
    let mut message = format!("DSSEv1 28 application/vnd.in-toto+json {} ", payload.len()).into_bytes();
    message.extend_from_slice(payload);
    message
}

/// `SHA-256(0x00 | 0x01 | log | seq | SHA-256(payload) | key_id[0..8] | sig)`.
fn leaf_hash(r: &Record, digest: &[u8; 32]) -> [u8; 32] {
    let seq = r.seq.to_be_bytes();
    let parts: [&[u8]; 6] = [&[0, 1], r.log.as_bytes(), &seq, digest, &r.key_id[..8], &r.sig];
    Sha256::digest(parts.concat()).into()
}
