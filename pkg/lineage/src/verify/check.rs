//! What can be told of one record by itself. Pure, so that it can be spread over threads.

use super::facts::{self, Facts, Usage};
use super::keyring::{KeyVerdict, Keyring};
use super::pinned::{Pinned, Revoked};
use super::report::Code;
use super::{Stored, strict};
use crate::{Columns, KeyUse, PublicKey, Record, hex};
use ed25519_dalek::{Signature, VerifyingKey};
use sha2::{Digest, Sha256};
use signet_types::LogId;
use std::collections::BTreeMap;

/// The pinned keys, decoded once, and what of the data was verified before.
#[derive(Debug)]
pub(super) struct Trust {
    keys: Vec<([u8; 32], VerifyingKey)>,
    revoked: Vec<Revoked>,
    pub(super) ring: Option<Keyring>,
    /// By log, how many records an earlier run found to be good.
    pub(super) settled: BTreeMap<LogId, u64>,
}

impl Trust {
    pub(super) fn new(pinned: &Pinned) -> Self {
        let decode = |key: &PublicKey| {
            let point = VerifyingKey::from_bytes(key.as_bytes()).expect("checked when the key was read");
            (key.key_id(), point)
        };
        let keys = pinned.attest.iter().map(decode).collect();
        Self { keys, revoked: pinned.revoked.clone(), ring: pinned.ring.clone(), settled: BTreeMap::new() }
    }

    fn find(&self, id: &[u8; 32]) -> Option<&VerifyingKey> {
        self.keys.iter().find_map(|(known, key)| (known == id).then_some(key))
    }

    /// Whether a pinned key counts at a place: the seq of a record, or of the last one that a checkpoint covers. A time can
    /// be made up by who holds a key, a place below a checkpoint that others hold cannot.
    pub(super) fn verdict(&self, log: LogId, key_use: KeyUse, key_id: &[u8; 32], at: u64) -> KeyVerdict {
        if self.revoked.iter().any(|it| it.key_id == *key_id && it.log == log && at >= it.last_good) {
            return KeyVerdict::Revoked;
        }
        self.ring.as_ref().map_or(KeyVerdict::Good, |ring| ring.judge(log, key_use, key_id, at))
    }

    pub(super) fn knows(&self, key: &[u8; 32]) -> bool {
        self.keys.iter().any(|(_, known)| known.as_bytes() == key)
    }

    /// Whether the leaf alone proves the record, by the tree head that an earlier run ended with. The first record names
    /// the log's key, and is always looked at as a whole.
    fn is_settled(&self, r: &Record) -> bool {
        r.seq > 0 && self.settled.get(&r.log).is_some_and(|size| r.seq < *size)
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
    /// Its payload is gone, and nothing but its leaf can be told.
    pub(super) erased: bool,
    /// A database holds it without its columns, as an older version left it.
    pub(super) unindexed: bool,
    pub(super) findings: Vec<(Code, String)>,
}

pub(super) fn check(record: &Record, stored: &Stored, trust: &Trust) -> Checked {
    let digest: [u8; 32] = match stored.payload_sha256 {
        Some(kept) if stored.erased => kept,
        _ => Sha256::digest(&record.payload).into(),
    };
    let leaf = leaf_hash(record, &digest);
    let Record { log, seq, epoch, .. } = *record;
    let (erased, unindexed) = (stored.erased, stored.unindexed);
    let mut checked =
        Checked { log, seq, epoch, leaf, key: None, facts: None, erased, unindexed, findings: Vec::new() };
    if erased {
        checked.leaf_of_what_is_left(stored);
        return checked;
    }
    match proved(record, stored, &digest, trust) {
        Ok((key, facts)) => {
            compare(record, stored, &leaf, &facts, &mut checked.findings);
            checked.key = Some(key);
            checked.facts = Some(facts);
        }
        Err(finding) => checked.findings.push(finding),
    }
    checked
}

impl Checked {
    /// Where not even the payload's hash was kept, the stored leaf hash stands for the record; the heads over it tell
    /// whether it is the true one.
    fn leaf_of_what_is_left(&mut self, stored: &Stored) {
        match (stored.payload_sha256, stored.leaf_hash) {
            (None, Some(leaf)) => self.leaf = leaf,
            (Some(_), Some(leaf)) if leaf == self.leaf => {}
            (Some(_), None) => {}
            _ => self.findings.push((Code::BadLeaf, "the stored leaf hash is not that of what is left".to_owned())),
        }
    }
}

/// The statement, once its bytes are proved, unambiguous and made for this place in this log.
fn proved(r: &Record, stored: &Stored, digest: &[u8; 32], trust: &Trust) -> Result<([u8; 32], Facts), (Code, String)> {
    if stored.payload_sha256.is_some_and(|sha| sha != *digest) {
        return Err((Code::BadLeaf, "the payload does not hash to the value stored with it".to_owned()));
    }
    let key =
        trust.find(&r.key_id).ok_or_else(|| (Code::UnknownKey, "signed by a key that is not pinned".to_owned()))?;
    let wrong = match trust.verdict(r.log, KeyUse::Attest, &r.key_id, r.seq) {
        KeyVerdict::Good => None,
        KeyVerdict::Revoked => Some((Code::RevokedKey, "signed by a key that is revoked for this place")),
        KeyVerdict::Retired => Some((Code::RevokedKey, "signed by a key that is retired at this place")),
        KeyVerdict::Unknown => {
            Some((Code::UnknownKey, "signed by a key that the keyring does not name for this place"))
        }
    };
    if let Some((code, why)) = wrong {
        return Err((code, why.to_owned()));
    }
    if !trust.is_settled(r) {
        key.verify_strict(&signed_bytes(&r.payload), &Signature::from_bytes(&r.sig))
            .map_err(|_| (Code::BadSig, "the signature does not fit the payload".to_owned()))?;
        strict::canonical(&r.payload).map_err(|what| (Code::BadLeaf, format!("not canonical: {what}")))?;
    }
    let facts = facts::read(&r.payload).map_err(|what| (Code::BadLeaf, format!("not a statement of ours: {what}")))?;
    if facts.log != r.log {
        return Err((Code::WrongLog, format!("signed for log {}", facts.log)));
    }
    if facts.seq != r.seq {
        return Err((Code::BadLeaf, format!("signed for seq {}", facts.seq)));
    }
    Ok((key.to_bytes(), facts))
}

/// Whether the key that takes over agreed to sign for the log: without that, someone else's key could be named.
pub(super) fn takes_over(name: &str, usage: Usage, old: Option<&[u8; 32]>, new: &[u8; 32], proof: &[u8; 64]) -> bool {
    let word = if usage == Usage::Attest { "attest" } else { "checkpoint" };
    let old = old.map(|key| hex::text(key)).unwrap_or_default();
    let text = format!("signet-key-rotate/v1\n{name}\n{word}\n{old}\n{}\n", hex::text(new));
    let point = VerifyingKey::from_bytes(new).ok();
    point.is_some_and(|key| key.verify_strict(text.as_bytes(), &Signature::from_bytes(proof)).is_ok())
}

/// What leaves the proof whole: copies of signed facts in columns that differ, and an answer by somebody who was not asked last.
fn compare(r: &Record, stored: &Stored, leaf: &[u8; 32], facts: &Facts, findings: &mut Vec<(Code, String)>) {
    if stored.leaf_hash.is_some_and(|stored| stored != *leaf) {
        findings.push((Code::BadLeaf, "the stored leaf hash is not the record's".to_owned()));
    }
    let mut differs = Vec::new();
    differs.extend((r.epoch != facts.epoch).then_some("epoch"));
    differs.extend((r.id != facts.id()).then_some("id"));
    differs.extend(stored.columns.iter().flat_map(|stored| differing(stored, &facts.columns)));
    findings.extend(facts.broken.map(|what| (Code::LineageBroken, what.to_owned())));
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
