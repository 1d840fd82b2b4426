//! The signed record and its leaf.

use sha2::{Digest, Sha256};
use signet_types::{LineageId, LogId};
use std::sync::Arc;

/// One signed statement, as it is stored, shipped and verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The statement's own id, equal to the `Lineage-Id` header.
    pub id: LineageId,
    /// The log it belongs to.
    pub log: LogId,
    /// The writer's epoch.
    pub epoch: u32,
    /// Its place in the log.
    pub seq: u64,
    /// The exact bytes that were signed: an in-toto statement in JSON.
    pub payload: Arc<[u8]>,
    /// SHA-256 of the signing key's SubjectPublicKeyInfo (DER); a hint, never a proof.
    pub key_id: [u8; 32],
    /// Ed25519 over the DSSE pre-authentication encoding of `payload`.
    pub sig: [u8; 64],
}

/// What enters the tree: 129 bytes, `0x01 | log[16] | seq u64be | SHA-256(payload) | key_id[0..8] | sig`.
///
/// It holds no personal data and has a fixed size below the u16 entry limit of C2SP tlog-tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaf([u8; Leaf::LEN]);

impl Leaf {
    /// The length of a leaf in bytes.
    pub const LEN: usize = 129;

    /// The leaf of `record`.
    pub fn of(record: &Record) -> Self {
        Self::with_digest(record, &Sha256::digest(&record.payload).into())
    }

    /// The leaf of a record of whose payload only the SHA-256 is left.
    pub fn with_digest(record: &Record, payload_sha256: &[u8; 32]) -> Self {
        let mut leaf = [0_u8; Self::LEN];
        leaf[0] = 1;
        leaf[1..17].copy_from_slice(record.log.as_bytes());
        leaf[17..25].copy_from_slice(&record.seq.to_be_bytes());
        leaf[25..57].copy_from_slice(payload_sha256);
        leaf[57..65].copy_from_slice(&record.key_id[..8]);
        leaf[65..].copy_from_slice(&record.sig);
        Self(leaf)
    }

    /// Its place in the log.
    pub fn seq(&self) -> u64 {
        u64::from_be_bytes(self.0[17..25].try_into().expect("8 bytes"))
    }

    /// The SHA-256 of the record's payload.
    pub fn payload_sha256(&self) -> [u8; 32] {
        self.0[25..57].try_into().expect("32 bytes")
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    /// RFC 6962 §2.1 leaf hash: `SHA-256(0x00 | leaf)`.
    pub fn hash(&self) -> [u8; 32] {
        Sha256::new().chain_update([0]).chain_update(self.0).finalize().into()
    }
}
