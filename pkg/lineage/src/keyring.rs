//! Writes keyrings: which keys count in which logs, and from which place to which, signed by roots that are kept offline.
//!
//! A keyring is a DSSE v1 envelope like a record's, of another type, with one signature for each root that agreed. Its
//! payload is JSON in the canonical form of statements. The roots sign one after the other, each on its own machine. What
//! a keyring proves is judged in [`crate::verify::Keyring`], which shares nothing with this but the entries' type.

use crate::envelope::{Envelope, Signature};
use crate::{EnvelopeFault, KeyUse, PublicKey, Signer, hex};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use signet_types::LogId;

/// The media type that DSSE signs with a keyring.
pub const KEYRING_TYPE: &str = "application/vnd.signet.keyring+json";

/// Where a key counts. The place of a record is its seq, that of a checkpoint the seq of the last record that it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyringEntry {
    /// The key.
    pub key: PublicKey,
    /// What it signs.
    pub key_use: KeyUse,
    /// In which log; none: in any.
    pub log: Option<LogId>,
    /// The first place at which it counts.
    pub from: u64,
    /// From here on another key signs.
    pub retired: Option<u64>,
    /// From here on it is in other hands: the size of the last checkpoint that others held before that.
    pub revoked: Option<u64>,
}

#[derive(Serialize)]
struct Payload {
    #[serde(rename = "_type")]
    kind: &'static str,
    entries: Vec<Line>,
    version: u64,
}

/// Fields in ascending order, as the canonical form wants them.
#[derive(Serialize)]
struct Line {
    from: u64,
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retired: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked: Option<u64>,
    #[serde(rename = "use")]
    key_use: &'static str,
}

/// The envelope of a keyring that nobody has signed yet. `version` must be higher than that of every keyring before it.
pub fn draft_keyring(version: u64, entries: &[KeyringEntry]) -> Vec<u8> {
    let line = |entry: &KeyringEntry| Line {
        from: entry.from,
        key: hex::text(entry.key.as_bytes()),
        log: entry.log.map(|log| log.to_string()),
        retired: entry.retired,
        revoked: entry.revoked,
        key_use: entry.key_use.as_str(),
    };
    let payload = Payload { kind: "signet-keyring/v1", entries: entries.iter().map(line).collect(), version };
    let payload = serde_json::to_vec(&payload).expect("strings and integers are always JSON");
    to_json(&Envelope {
        payload: STANDARD.encode(payload),
        payload_type: KEYRING_TYPE.to_owned(),
        signatures: Vec::new(),
    })
}

/// The envelope with the signature of `root` beside those that it has. Signing twice changes nothing.
///
/// # Errors
/// It is not the envelope of a keyring.
pub fn sign_keyring(envelope: &[u8], root: &Signer) -> Result<Vec<u8>, EnvelopeFault> {
    let mut envelope: Envelope = serde_json::from_slice(envelope)?;
    if envelope.payload_type != KEYRING_TYPE {
        return Err(EnvelopeFault::Type(envelope.payload_type));
    }
    let payload = STANDARD.decode(&envelope.payload).map_err(|_| EnvelopeFault::Encoding("payload"))?;
    let mut message = format!("DSSEv1 {} {KEYRING_TYPE} {} ", KEYRING_TYPE.len(), payload.len()).into_bytes();
    message.extend_from_slice(&payload);
    let keyid = root.public_key().key_id_text();
    envelope.signatures.retain(|signature| signature.keyid != keyid);
    envelope.signatures.push(Signature { keyid, sig: STANDARD.encode(root.sign(&message)) });
    Ok(to_json(&envelope))
}

fn to_json(envelope: &Envelope) -> Vec<u8> {
    let mut json = serde_json::to_vec(envelope).expect("strings are always JSON");
    json.push(b'\n');
    json
}
