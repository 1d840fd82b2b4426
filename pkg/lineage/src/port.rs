//! What shipping and reading records needs from a database.

use crate::tlog::Tile;
use crate::{Columns, Leaf, Record, TreeHead};
use async_trait::async_trait;
use signet_types::{LineageId, LogId, TenantId};
use std::sync::Arc;

/// A writer log as the database knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRow {
    /// The log.
    pub log: LogId,
    /// `<lineage.origin>`, without the log.
    pub origin: String,
    /// The epoch of the process that writes it now.
    pub epoch: u32,
    /// The raw Ed25519 public key that signs its records.
    pub attest_key: [u8; 32],
    /// The seq that the next batch starts with.
    pub next_seq: u64,
}

/// Why a batch was not appended.
#[derive(Debug, thiserror::Error)]
pub enum ShipFault {
    /// A later epoch owns the log: this writer must stop for good.
    #[error("fenced: epoch {found} owns the log, ours is {ours}")]
    Fenced {
        /// Our epoch.
        ours: u32,
        /// The epoch in the database.
        found: u32,
    },
    /// The batch starts beyond what the database expects; re-read and ship from there.
    #[error("gap: the database expects seq {expected}, the batch starts at {found}")]
    Gap {
        /// `next_seq` in the database.
        expected: u64,
        /// First seq of the batch.
        found: u64,
    },
    /// The database holds a different record at a seq that we signed: an alarm, never resolved silently.
    #[error("equivocation at seq {seq}")]
    Equivocation {
        /// The first such seq.
        seq: u64,
    },
    /// Not reachable or refused; trying again later may help. The text is for the log.
    #[error("unavailable: {0}")]
    Unavailable(String),
}

/// Appends records exactly once and finds them again.
#[async_trait]
pub trait RecordStore: Send + Sync + 'static {
    /// Makes the log known, or takes it over with a higher epoch; returns the row as it now stands.
    async fn register(&self, log: &LogRow) -> Result<LogRow, ShipFault>;
    /// Appends a contiguous batch of one log in one transaction under the fence (epoch, `next_seq`). Records below the
    /// database's `next_seq` are skipped after their leaf hashes were compared. Returns the new `next_seq`.
    async fn ship(&self, log: LogId, epoch: u32, batch: &[Record]) -> Result<u64, ShipFault>;
    /// Moves `next_seq` behind the records that `gap` declares missing, in one transaction under the fence. Refused with
    /// [`ShipFault::Gap`] unless `gap` is a record of this log, signed by its registered key, that declares a range
    /// beginning at `next_seq` ([`crate::DeclaredGap`]); passing a range again changes nothing. Returns `next_seq`.
    async fn pass_gap(&self, log: LogId, epoch: u32, gap: &Record) -> Result<u64, ShipFault>;
    /// The record with this id if it belongs to `tenant`.
    async fn find(&self, id: LineageId, tenant: Option<TenantId>) -> Result<Option<Record>, ShipFault>;
    /// Removes the payload of a stored record. Its hash stays in its place, so that the leaf can still be told, and so do
    /// the columns beside it. Whether it was there until now.
    async fn erase(&self, record: &Record) -> Result<bool, ShipFault>;
    /// Whether the payload of a record was removed, or the record itself by age.
    async fn is_erased(&self, log: LogId, seq: u64) -> Result<bool, ShipFault>;
    /// What may be searched of `tenant`'s records, or of everyone's: those with lower ids than `before`, highest first, at
    /// most `limit`.
    async fn list(
        &self,
        tenant: Option<TenantId>,
        before: Option<LineageId>,
        limit: u32,
    ) -> Result<Vec<Columns>, ShipFault>;
    /// Every log, ordered by id.
    async fn logs(&self) -> Result<Vec<LogRow>, ShipFault>;
    /// Records of one log from `from_seq` on in order, at most `limit`; with holes if rows are missing.
    async fn records(&self, log: LogId, from_seq: u64, limit: u32) -> Result<Vec<Record>, ShipFault>;
    /// As [`RecordStore::records`], but the leaves only: also those of erased records, as far as what is left tells them.
    async fn leaves(&self, log: LogId, from_seq: u64, limit: u32) -> Result<Vec<Leaf>, ShipFault>;
}

/// Keeps keyrings for all replicas. They are checked by who reads them.
#[async_trait]
pub trait KeyringStore: Send + Sync + 'static {
    /// Adds a keyring; false if there is one of this version, which stays.
    async fn publish(&self, version: u64, envelope: &[u8]) -> Result<bool, ShipFault>;
    /// Those of higher versions than `above`, highest first, at most `limit`.
    async fn keyrings(&self, above: u64, limit: u32) -> Result<Vec<Vec<u8>>, ShipFault>;
}

/// Why a database did not keep or give a part of a tree.
#[derive(Debug, thiserror::Error)]
pub enum TreeFault {
    /// It holds another tree of this size: two histories were signed. An alarm, never resolved silently.
    #[error("the database holds another checkpoint of size {size}")]
    Conflict {
        /// The size.
        size: u64,
    },
    /// It holds a checkpoint of a larger tree: this one is out of date.
    #[error("the database holds a checkpoint of size {found}, ours is of size {ours}")]
    Older {
        /// Size of the checkpoint that was refused.
        ours: u64,
        /// Size of the one that is there.
        found: u64,
    },
    /// A later epoch owns the log.
    #[error("fenced: epoch {found} owns the log, ours is {ours}")]
    Fenced {
        /// Our epoch.
        ours: u32,
        /// The epoch in the database.
        found: u32,
    },
    /// Not reachable or refused; trying again later may help.
    #[error("unavailable: {0}")]
    Unavailable(String),
}

/// Keeps what logs publish of their trees, for replicas that did not write them. Hashes of level 0 are kept only where records
/// were dropped: else rows hold the leaf hashes.
#[async_trait]
pub trait TreeStore: Send + Sync + 'static {
    /// Adds a checkpoint of a log that `epoch` owns. One that is there already is no fault.
    async fn put_checkpoint(&self, log: LogId, epoch: u32, head: &TreeHead, note: &str) -> Result<(), TreeFault>;
    /// The checkpoint of the largest tree.
    async fn newest_checkpoint(&self, log: LogId) -> Result<Option<String>, TreeFault>;
    /// Adds tiles, or replaces partial ones by wider ones.
    async fn put_tiles(&self, log: LogId, tiles: &[(Tile, Vec<u8>)]) -> Result<(), TreeFault>;
    /// The hashes of a tile, as many as there are.
    async fn tile(&self, log: LogId, level: u8, index: u64) -> Result<Option<Vec<u8>>, TreeFault>;
    /// Level and highest index of the tiles that are there.
    async fn tile_ends(&self, log: LogId) -> Result<Vec<(u8, u64)>, TreeFault>;
    /// Leaf hashes of shipped records from `from` on, at most `limit`, up to the first that is missing; out of the tiles where
    /// records were dropped.
    async fn leaf_hashes(&self, log: LogId, from: u64, limit: u32) -> Result<Vec<[u8; 32]>, TreeFault>;
}

/// Bodies of one answer, sealed.
#[derive(Clone, PartialEq, Eq)]
pub struct CaptureRow {
    /// The answer's record.
    pub id: LineageId,
    /// Whose answer it was.
    pub tenant: TenantId,
    /// When it was completed, milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// What [`crate::BreakGlassKey::seal`] gave.
    pub sealed: Vec<u8>,
}

impl std::fmt::Debug for CaptureRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CaptureRow").field("id", &self.id).field("bytes", &self.sealed.len()).finish_non_exhaustive()
    }
}

/// Keeps sealed bodies beside the records. They are no part of any proof: what is lost here is told by the record that names it.
#[async_trait]
pub trait CaptureStore: Send + Sync + 'static {
    /// Adds rows, but for those that are there already and those that were erased meanwhile.
    async fn put_captures(&self, rows: &[Arc<CaptureRow>]) -> Result<(), ShipFault>;
    /// The sealed bodies of one answer.
    async fn capture(&self, id: LineageId) -> Result<Option<Vec<u8>>, ShipFault>;
    /// The next rows behind `after` in the order of their ids, at most `limit`.
    async fn captures(&self, after: Option<LineageId>, limit: u32) -> Result<Vec<(LineageId, Vec<u8>)>, ShipFault>;
    /// Removes the row of a record or all rows of a tenant, named by its 16 bytes, that were completed until `until_ms`; those
    /// still on their way will not be added. How many there were.
    async fn erase_captures(&self, of: [u8; 16], until_ms: u64) -> Result<u64, ShipFault>;
    /// Removes rows that were completed before `before_ms`, and again those that were erased. How many there were.
    async fn sweep_captures(&self, before_ms: u64) -> Result<u64, ShipFault>;
}

/// A log of which records were dropped, or may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrunedLog {
    /// The log.
    pub log: LogId,
    /// Records below may be gone.
    pub below_seq: u64,
    /// Log and seq of the newest `prune` record that says so.
    pub by: (LogId, u64),
}

/// Drops records by age. Nothing goes without a `prune` record that is stored.
#[async_trait]
pub trait PruneStore: Send + Sync + 'static {
    /// How many days beside today stay by the word of the tables' owner; for ever if there is none. In Postgres the owner's
    /// word is a table, which is first set to `days` if this role may; in `SQLite` it is `days`.
    async fn retained(&self, days: u32) -> Result<Option<u32>, ShipFault>;
    /// The first seq of a log from `from` on whose record is of one of the last `days` days or today; the end of what is
    /// stored where there is none. Postgres goes by the day of the row and its own clock, `SQLite` by the signed time and
    /// `now_ms`.
    async fn expired_below(&self, log: LogId, from: u64, days: u32, now_ms: u64) -> Result<u64, ShipFault>;
    /// What was noted, by log.
    async fn pruned(&self) -> Result<Vec<PrunedLog>, ShipFault>;
    /// Takes note of a `prune` record that is stored: what it names may be dropped from now on. One that goes less far than an
    /// earlier one changes nothing.
    async fn note_prune(&self, record: &Record) -> Result<(), ShipFault>;
    /// Drops what may be dropped: in Postgres each day before the last `days` of which no record has to stay, in `SQLite` each
    /// record. Returns how many days or records went.
    async fn drop_pruned(&self, days: u32) -> Result<u64, ShipFault>;
}
