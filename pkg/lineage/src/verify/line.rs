//! The lines of an export: a DSSE envelope each, or what is left of a record whose payload was erased.

use super::Stored;
use crate::{EnvelopeFault, Record, hex};
use serde::{Deserialize, Serialize};
use signet_types::{LineageId, LogId};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ErasedLine {
    erased: Erased,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Erased {
    epoch: u32,
    id: LineageId,
    key_id: String,
    leaf_hash: String,
    log_id: LogId,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_sha256: Option<String>,
    seq: u64,
    sig: String,
}

/// The line of a record as it is stored, without a line end.
pub fn write_line(record: &Record, stored: &Stored) -> Vec<u8> {
    if !stored.erased {
        return record.to_envelope_json();
    }
    let erased = Erased {
        epoch: record.epoch,
        id: record.id,
        key_id: hex::text(&record.key_id),
        leaf_hash: hex::text(&stored.leaf_hash.unwrap_or_default()),
        log_id: record.log,
        payload_sha256: stored.payload_sha256.as_ref().map(|digest| hex::text(digest)),
        seq: record.seq,
        sig: hex::text(&record.sig),
    };
    serde_json::to_vec(&ErasedLine { erased }).expect("strings and numbers are always JSON")
}

/// Reads a line back. Nothing is proved by this.
///
/// # Errors
/// It is neither an envelope of ours nor what is left of one.
pub fn read_line(line: &[u8]) -> Result<(Record, Stored), EnvelopeFault> {
    if !line.starts_with(b"{\"erased\":") {
        return Ok((Record::from_envelope_json(line)?, Stored::default()));
    }
    let it = serde_json::from_slice::<ErasedLine>(line)?.erased;
    let bad = EnvelopeFault::Encoding;
    let digest = it.payload_sha256.map(|text| hex::array(&text).ok_or(bad("payload_sha256"))).transpose()?;
    let record = Record {
        id: it.id,
        log: it.log_id,
        epoch: it.epoch,
        seq: it.seq,
        payload: [].into(),
        key_id: hex::array(&it.key_id).ok_or(bad("key_id"))?,
        sig: hex::array(&it.sig).ok_or(bad("sig"))?,
    };
    let leaf_hash = Some(hex::array(&it.leaf_hash).ok_or(bad("leaf_hash"))?);
    Ok((record, Stored { erased: true, payload_sha256: digest, leaf_hash, ..Stored::default() }))
}
