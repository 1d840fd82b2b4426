//! Where a record stands in its log.

use signet_types::LogId;

/// The size and RFC 6962 root of a log's tree at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeHead {
    /// Number of leaves.
    pub size: u64,
    /// Merkle tree hash over them (RFC 6962 §2.1).
    pub root: [u8; 32],
}

/// A record's place: the log, the writer's epoch, the sequence number and a tree head that the log held before it.
///
/// `base` lets any receipt pin the whole history before it: a later tree must be consistent with it.
/// Invariant: `base.size <= seq`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The writer log.
    pub log: LogId,
    /// Raised at each opening of the log by a process.
    pub epoch: u32,
    /// 0-based, contiguous, never reused within an epoch.
    pub seq: u64,
    /// An earlier tree head of the same log.
    pub base: TreeHead,
}
