//! Reads a keyring that offline roots signed, and says where a key counts.
//!
//! A key counts by place, never by time: a thief can make up any time, but not what others held before the theft. Nothing
//! depends on the order of entries or signatures: every entry of a key is looked at, and a revocation wins.

use super::strict;
use crate::{KeySet, KeyUse, KeyringEntry, PublicKey, hex};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, VerifyingKey};
use serde::Deserialize;
use signet_types::LogId;
use std::collections::BTreeSet;

const TYPE: &str = "application/vnd.signet.keyring+json";
/// Longest keyring that is read, in bytes: some thousand entries.
pub(super) const MAX_BYTES: usize = 1 << 20;

/// Which roots are asked, and how many of them must agree.
#[derive(Debug, Clone)]
pub struct RootPolicy {
    keys: KeySet,
    threshold: usize,
}

impl RootPolicy {
    /// `threshold` of these keys; none if it is zero or there are fewer.
    pub fn new(keys: KeySet, threshold: usize) -> Option<Self> {
        (1..=keys.iter().count()).contains(&threshold).then_some(Self { keys, threshold })
    }

    /// All of these keys.
    pub fn all(keys: KeySet) -> Self {
        Self { threshold: keys.iter().count(), keys }
    }

    /// The roots.
    pub const fn keys(&self) -> &KeySet {
        &self.keys
    }
}

/// Why a keyring proves nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyringFault {
    /// It is no keyring, or not the one way to write it.
    #[error("not a keyring: {0}")]
    Form(String),
    /// A signature under the id of a root does not fit.
    #[error("the signature of root {0} does not fit")]
    BadSignature(String),
    /// Too few roots agreed.
    #[error("signed by {found} of the {needed} roots that must agree")]
    Roots {
        /// Distinct root keys that signed.
        found: usize,
        /// How many must.
        needed: usize,
    },
}

/// What a keyring says of a key at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyVerdict {
    /// It counts.
    Good,
    /// It is in other hands there.
    Revoked,
    /// Another key signs there.
    Retired,
    /// It is not named, or not yet.
    Unknown,
}

/// A keyring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keyring {
    /// Only grows.
    pub version: u64,
    /// Where keys count.
    pub entries: Vec<KeyringEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope {
    payload: String,
    #[serde(rename = "payloadType")]
    payload_type: String,
    signatures: Vec<Line>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    keyid: String,
    sig: String,
}

/// A field that is not known could take away what the others give: refused.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Payload {
    #[serde(rename = "_type")]
    kind: String,
    entries: Vec<Named>,
    version: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    from: u64,
    key: String,
    log: Option<LogId>,
    retired: Option<u64>,
    revoked: Option<u64>,
    #[serde(rename = "use")]
    key_use: String,
}

impl Keyring {
    /// The keyring in an envelope, if enough roots signed it.
    ///
    /// # Errors
    /// As [`KeyringFault`] says.
    pub fn open(envelope: &[u8], roots: &RootPolicy) -> Result<Self, KeyringFault> {
        let (payload, lines) = unwrap(envelope)?;
        let mut message = format!("DSSEv1 {} {TYPE} {} ", TYPE.len(), payload.len()).into_bytes();
        message.extend_from_slice(&payload);
        // Keys, not signatures, are counted: one root is one voice however often it signed.
        let mut agreed = BTreeSet::new();
        for Line { keyid, sig } in lines {
            let Some(root) = roots.keys.iter().find(|root| root.key_id_text() == keyid) else { continue };
            let point = VerifyingKey::from_bytes(root.as_bytes()).expect("checked when the key was read");
            let sig = STANDARD.decode(sig).ok().and_then(|sig| Signature::from_slice(&sig).ok());
            if sig.is_none_or(|sig| point.verify_strict(&message, &sig).is_err()) {
                return Err(KeyringFault::BadSignature(keyid));
            }
            agreed.insert(*root);
        }
        if agreed.len() < roots.threshold {
            return Err(KeyringFault::Roots { found: agreed.len(), needed: roots.threshold });
        }
        read(&payload)
    }

    /// What an envelope says, whoever signed it; to be looked at before it is signed, and never to be believed.
    ///
    /// # Errors
    /// It is no keyring.
    pub fn unproved(envelope: &[u8]) -> Result<Self, KeyringFault> {
        read(&unwrap(envelope)?.0)
    }

    /// Whether a key counts in a log at a place: the seq of a record, or of the last record that a checkpoint covers.
    pub fn judge(&self, log: LogId, key_use: KeyUse, key_id: &[u8; 32], at: u64) -> KeyVerdict {
        let of = |entry: &&KeyringEntry| entry.key_use == key_use && entry.log.is_none_or(|it| it == log);
        let mut verdict = KeyVerdict::Unknown;
        for entry in self.entries.iter().filter(of).filter(|entry| entry.key.key_id() == *key_id) {
            if entry.revoked.is_some_and(|good| at >= good) {
                return KeyVerdict::Revoked;
            }
            match (verdict, entry.retired) {
                _ if at < entry.from => {}
                (_, None) => verdict = KeyVerdict::Good,
                (_, Some(retired)) if at < retired => verdict = KeyVerdict::Good,
                (KeyVerdict::Unknown, _) => verdict = KeyVerdict::Retired,
                _ => {}
            }
        }
        verdict
    }

    /// The keys of one use in a log, or in all.
    pub fn keys(&self, key_use: KeyUse, log: Option<LogId>) -> BTreeSet<PublicKey> {
        let of = |entry: &&KeyringEntry| entry.log.is_none() || log.is_none() || entry.log == log;
        let named = self.entries.iter().filter(|entry| entry.key_use == key_use).filter(of);
        named.map(|entry| entry.key).collect()
    }
}

fn unwrap(envelope: &[u8]) -> Result<(Vec<u8>, Vec<Line>), KeyringFault> {
    let form = |what: &str| KeyringFault::Form(what.to_owned());
    if envelope.len() > MAX_BYTES {
        return Err(form("longer than a keyring may be"));
    }
    let envelope: Envelope =
        serde_json::from_slice(envelope).map_err(|error| KeyringFault::Form(format!("no DSSE envelope: {error}")))?;
    if envelope.payload_type != TYPE {
        return Err(form("an envelope of another type"));
    }
    let payload = STANDARD.decode(&envelope.payload).map_err(|_| form("its payload is not base64"))?;
    Ok((payload, envelope.signatures))
}

fn read(payload: &[u8]) -> Result<Keyring, KeyringFault> {
    strict::canonical(payload).map_err(|what| KeyringFault::Form(format!("not canonical: {what}")))?;
    let said: Payload = serde_json::from_slice(payload).map_err(|error| KeyringFault::Form(error.to_string()))?;
    if said.kind != "signet-keyring/v1" || said.version == 0 {
        return Err(KeyringFault::Form("another version of the form".to_owned()));
    }
    let entries = said.entries.iter().map(entry).collect::<Option<Vec<_>>>();
    let entries = entries.ok_or_else(|| KeyringFault::Form("an entry without key or use".to_owned()))?;
    let ring = Keyring { version: said.version, entries };
    let attest = ring.keys(KeyUse::Attest, None);
    if attest.is_empty() {
        return Err(KeyringFault::Form("no key signs records".to_owned()));
    }
    if let Some(key) = attest.intersection(&ring.keys(KeyUse::Checkpoint, None)).next() {
        let id = hex::text(&key.key_id());
        return Err(KeyringFault::Form(format!("the key {id} is to sign both records and checkpoints")));
    }
    Ok(ring)
}

fn entry(said: &Named) -> Option<KeyringEntry> {
    let key_use = match said.key_use.as_str() {
        "attest" => KeyUse::Attest,
        "checkpoint" => KeyUse::Checkpoint,
        _ => return None,
    };
    let (key, log) = (PublicKey::from_hex(&said.key)?, said.log);
    Some(KeyringEntry { key, key_use, log, from: said.from, retired: said.retired, revoked: said.revoked })
}
