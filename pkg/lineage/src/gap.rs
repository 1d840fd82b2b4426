//! What a `gap` record gives leave to pass. A shipper stops at missing records unless a signed record of the same log names
//! exactly those: then the loss is on record, and what stands behind it must not wait for ever.

use crate::envelope::push_pae_head;
use crate::{Kind, Record};
use ed25519_dalek::{Signature, VerifyingKey};
use serde::Deserialize;
use signet_types::LogId;

/// Seqs of a log, both included, that a signed record of the same log declares missing.
///
/// Invariant: `from <= to`, and the record that says so stands behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeclaredGap {
    /// The log.
    pub log: LogId,
    /// The first missing seq.
    pub from: u64,
    /// The last one.
    pub to: u64,
}

impl DeclaredGap {
    /// What `record` declares missing; none unless it is a `gap` record over a range, stands where its payload says, and
    /// was signed by the raw Ed25519 public key `key`.
    pub fn read(record: &Record, key: &[u8; 32]) -> Option<Self> {
        let mut signed = Vec::with_capacity(record.payload.len() + 64);
        push_pae_head(&mut signed, record.payload.len());
        signed.extend_from_slice(&record.payload);
        VerifyingKey::from_bytes(key).ok()?.verify_strict(&signed, &Signature::from_bytes(&record.sig)).ok()?;
        let Predicate { kind, log, control: Range { from, to } } =
            serde_json::from_slice::<Statement>(&record.payload).ok()?.predicate;
        let placed = (log.id, log.epoch, log.seq) == (record.log, record.epoch, record.seq);
        let range = from <= to && to < record.seq;
        (kind == Kind::Gap && placed && range).then_some(Self { log: log.id, from, to })
    }
}

#[derive(Deserialize)]
struct Statement {
    predicate: Predicate,
}

#[derive(Deserialize)]
struct Predicate {
    kind: Kind,
    log: Place,
    control: Range,
}

#[derive(Deserialize)]
struct Place {
    id: LogId,
    epoch: u32,
    seq: u64,
}

#[derive(Deserialize)]
struct Range {
    from: u64,
    to: u64,
}
