//! What a spool is told, and what it says about the directory it found.

use crate::log::Opened;
use signet_lineage::TreeHead;
use signet_types::{LineageId, LogId};
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

/// Settings of a [`crate::Spool`]; all sizes in bytes.
#[derive(Debug, Clone)]
pub struct Config {
    /// The spool's own directory; made if it does not exist.
    pub dir: PathBuf,
    /// Frames and promised room together never exceed this; then new requests are refused.
    pub max_bytes: u64,
    /// Shipped segments are kept while they take at most this, so that a restored database can be shipped to again.
    pub retain_bytes: u64,
    /// Shipped segments are kept at most this long after their newest record.
    pub retain_for: Duration,
    /// Size at which a segment is ended; preallocated.
    pub segment_bytes: u64,
    /// Room promised to each open request for its record.
    pub record_bytes: u64,
    /// Bytes of newest records that are also kept in RAM. What is not on the disk yet is kept beyond it.
    pub recent_bytes: u64,
    /// How long the sync thread lets a group grow. With the time of one fdatasync it is how far the disk is behind.
    pub group_pause: Duration,
    /// With Ed25519 public keys, those that sign this log or did so: a log in which records are missing is opened only if
    /// `gap` records signed by one of them declare all of them.
    pub gap_keys: Option<Vec<[u8; 32]>>,
    /// A tree head of this log that was signed and may be known to others: what is found must contain it.
    pub published: Option<TreeHead>,
}

impl Config {
    /// The defaults for `dir`: 16 GiB at most, 2 GiB or a day retained, 64 MiB segments, 4 KiB promised a request,
    /// 16 MiB in RAM, groups of 25 ms.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            max_bytes: 16 << 30,
            retain_bytes: 2 << 30,
            retain_for: Duration::from_hours(24),
            segment_bytes: 64 << 20,
            record_bytes: 4 << 10,
            recent_bytes: 16 << 20,
            group_pause: Duration::from_millis(25),
            gap_keys: None,
            published: None,
        }
    }
}

/// What opening a spool found. The caller writes it into the log: a `log_open` or `recovery` record, a `gap` record per
/// gap, an `interrupted` record per orphan.
#[derive(Debug)]
pub struct Recovered {
    /// The log did not exist.
    pub fresh: bool,
    /// The epoch that this process writes.
    pub epoch: u32,
    /// The seq that the next record gets. Higher seqs that an earlier epoch acknowledged are lost.
    pub next_seq: u64,
    /// The tree over everything below `next_seq`.
    pub head: TreeHead,
    /// The last process ended the log properly: nothing can be missing at its end.
    pub clean: bool,
    /// The machine was not restarted since the last write, so the page cache survived: nothing can be missing at the end.
    pub same_boot: bool,
    /// Bytes of an incomplete frame that were cut off the end.
    pub torn_bytes: u64,
    /// Records that are missing between others.
    pub gaps: Vec<Gap>,
    /// The first missing record whose leaf hash nobody knows: no tile can be made over it, and so no checkpoint. Such a log
    /// should be sealed, and another one begun with [`crate::Spool::start_new_log`].
    pub untold: Option<u64>,
    /// Requests that were opened and never closed, with the facts given to `open`. Close each with a record of the same
    /// id; one that is not closed is reported again by the next recovery.
    pub orphans: Vec<(Opened, Vec<u8>)>,
    /// Bytes of their answers that had been on their way to the caller, where that was written down.
    pub progress: HashMap<LineageId, u64>,
    /// Requests that were open where records are missing. Whether they were closed cannot be told, so they are not among
    /// the orphans: a second record under the id of one that was would be false.
    pub undecided: usize,
    /// Segments found.
    pub segments: usize,
}

/// Records `first_seq..=last_seq` are unreadable. Reported at each opening while a damaged segment is kept, because the
/// process may die before it wrote the signed `gap` record; a second one for the same range does no harm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// First missing seq.
    pub first_seq: u64,
    /// Last missing seq.
    pub last_seq: u64,
    /// The leaf hashes that the tree holds for them, in order by seq, as far as they are known.
    pub leaves: Vec<(u64, [u8; 32])>,
}

impl Gap {
    /// The leaf hash that the tree holds for a missing record, if it is known.
    pub fn leaf(&self, seq: u64) -> Option<[u8; 32]> {
        let at = self.leaves.binary_search_by_key(&seq, |(known, _)| *known).ok()?;
        Some(self.leaves[at].1)
    }

    /// Whether all of them are known.
    pub const fn is_told(&self) -> bool {
        self.leaves.len() as u64 == self.last_seq - self.first_seq + 1
    }

    pub(crate) fn tell(&mut self, seq: u64, leaf: [u8; 32]) {
        if let Err(at) = self.leaves.binary_search_by_key(&seq, |(known, _)| *known) {
            self.leaves.insert(at, (seq, leaf));
        }
    }
}

/// Why a spool was not opened. Nothing was changed unless the variant says so.
#[derive(Debug, thiserror::Error)]
pub enum OpenFault {
    /// Another process has the directory. Trying again helps once it ends.
    #[error("the lineage directory is in use by another process")]
    Held,
    /// A file that nothing can replace is damaged. An operator must restore it or move the directory away.
    #[error("lineage file {file} is damaged: {what}")]
    Damaged {
        /// Its name in the directory.
        file: String,
        /// What is wrong.
        what: &'static str,
    },
    /// The database, or the checkpoint signed last, holds more of this log than the directory: it was restored or copied,
    /// or the disk lost what it had promised. Continuing would use seqs twice; call [`crate::Spool::start_new_log`].
    #[error(
        "the lineage directory of log {log} ends at seq {have}; the database or its last checkpoint holds up to {want}"
    )]
    Behind {
        /// The log.
        log: LogId,
        /// The next seq according to the directory.
        have: u64,
        /// The next seq according to the database or the checkpoint.
        want: u64,
    },
    /// Records are missing that no signed `gap` record declares, and [`Config::gap_key`] forbids to go on over them.
    #[error("records {first_seq} to {last_seq} of the lineage log are missing, and no signed record says so")]
    Undeclared {
        /// The first missing seq.
        first_seq: u64,
        /// The last one.
        last_seq: u64,
    },
    /// The records do not hash to the tree that was written beside them or signed as a checkpoint: they were changed, or
    /// memory failed. Going on would fork the log.
    #[error("the records below seq {size} do not hash to the tree that was written or signed over them")]
    Forked {
        /// Size of the tree that does not match.
        size: u64,
    },
    /// The directory is on a network file system, where a lock does not keep a second writer out.
    #[error("the lineage directory is on a network file system")]
    Network,
    /// The operating system refused.
    #[error("the lineage directory: {0}")]
    Io(#[from] std::io::Error),
}
