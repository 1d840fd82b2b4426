//! DSSE v1: the signed envelope around a statement.
//!
//! The signature covers the pre-authentication encoding `DSSEv1 <len> <type> <len> <payload>`: type and length are signed
//! with the bytes, so nothing has to be parsed before it is proved.

use crate::{Record, hex};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use signet_types::{LineageId, LogId};
use std::sync::Arc;

/// The media type that DSSE signs with every statement.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// Why bytes are not an envelope of ours. The fault is with whoever made or moved the file.
#[derive(Debug, thiserror::Error)]
pub enum EnvelopeFault {
    /// Not the JSON of an envelope.
    #[error("not a DSSE envelope: {0}")]
    Json(#[from] serde_json::Error),
    /// The payload is of another type.
    #[error("the payload type is `{0}`, not `{PAYLOAD_TYPE}`")]
    Type(String),
    /// A record has one signature.
    #[error("{0} signatures where one was expected")]
    Signatures(usize),
    /// A field is not encoded as it must be.
    #[error("`{0}` is not encoded as DSSE demands")]
    Encoding(&'static str),
}

/// DSSE v1 as JSON, whatever its payload is.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Envelope {
    pub(crate) payload: String,
    #[serde(rename = "payloadType")]
    pub(crate) payload_type: String,
    pub(crate) signatures: Vec<Signature>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Signature {
    pub(crate) keyid: String,
    pub(crate) sig: String,
}

/// Where a statement says it stands: all of it that an envelope needs.
#[derive(Deserialize)]
struct Place {
    predicate: PlacePredicate,
}

#[derive(Deserialize)]
struct PlacePredicate {
    id: LineageId,
    log: PlaceLog,
}

#[derive(Deserialize)]
struct PlaceLog {
    id: LogId,
    epoch: u32,
    seq: u64,
}

impl Record {
    /// The record as a DSSE envelope in JSON.
    pub fn to_envelope_json(&self) -> Vec<u8> {
        let envelope = Envelope {
            payload: STANDARD.encode(&self.payload),
            payload_type: PAYLOAD_TYPE.to_owned(),
            signatures: vec![Signature { keyid: hex::text(&self.key_id), sig: STANDARD.encode(self.sig) }],
        };
        serde_json::to_vec(&envelope).expect("strings are always JSON")
    }

    /// Reads an envelope back. Nothing is proved by this: it takes the statement's word for where it stands.
    ///
    /// # Errors
    /// What is wrong with the envelope or the statement's `predicate.id` and `predicate.log`.
    pub fn from_envelope_json(json: &[u8]) -> Result<Self, EnvelopeFault> {
        let envelope: Envelope = serde_json::from_slice(json)?;
        if envelope.payload_type != PAYLOAD_TYPE {
            return Err(EnvelopeFault::Type(envelope.payload_type));
        }
        let [signature] = envelope.signatures.as_slice() else {
            return Err(EnvelopeFault::Signatures(envelope.signatures.len()));
        };
        let payload = STANDARD.decode(&envelope.payload).map_err(|_| EnvelopeFault::Encoding("payload"))?;
        let sig = STANDARD.decode(&signature.sig).ok().and_then(|sig| sig.try_into().ok());
        Self::from_signed(
            payload.into(),
            hex::array(&signature.keyid).ok_or(EnvelopeFault::Encoding("keyid"))?,
            sig.ok_or(EnvelopeFault::Encoding("sig"))?,
        )
    }

    /// A record of a payload and its signature, placed where the payload says. Nothing is proved by this.
    ///
    /// # Errors
    /// The payload has no `predicate.id` and `predicate.log`.
    pub fn from_signed(payload: Arc<[u8]>, key_id: [u8; 32], sig: [u8; 64]) -> Result<Self, EnvelopeFault> {
        let PlacePredicate { id, log } = serde_json::from_slice::<Place>(&payload)?.predicate;
        Ok(Self { id, log: log.id, epoch: log.epoch, seq: log.seq, payload, key_id, sig })
    }
}

/// Appends the pre-authentication encoding of a payload of `length` bytes, up to where the payload itself begins.
pub(crate) fn push_pae_head(out: &mut Vec<u8>, length: usize) {
    let mut digits = itoa::Buffer::new();
    out.extend_from_slice(b"DSSEv1 ");
    out.extend_from_slice(digits.format(PAYLOAD_TYPE.len()).as_bytes());
    out.push(b' ');
    out.extend_from_slice(PAYLOAD_TYPE.as_bytes());
    out.push(b' ');
    out.extend_from_slice(digits.format(length).as_bytes());
    out.push(b' ');
}
