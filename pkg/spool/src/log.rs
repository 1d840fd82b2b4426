//! The writer log as the request path sees it, whatever keeps it.

use signet_lineage::{Position, Record, Tree};
use signet_types::{LineageId, LogId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

/// Why the log took nothing.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LogFault {
    /// It has reached its bound; the request must be refused before money is spent.
    #[error("the lineage log is full ({used} of {bound} bytes)")]
    Full {
        /// Bytes held.
        used: u64,
        /// Bytes allowed.
        bound: u64,
    },
    /// The disk failed; the log takes nothing more until it is opened again.
    #[error("the lineage log failed: {0}")]
    Failed(String),
}

/// Room reserved for the record of a request that was opened. Dropping it gives the room back; the OPEN stays and becomes
/// an `interrupted` record at the next recovery, so a request that was opened must be closed.
#[derive(Debug)]
pub struct Opened {
    /// The request.
    pub id: LineageId,
    /// Bytes reserved.
    pub reserved: u64,
    _room: Option<Room>,
}

impl Opened {
    /// For control records (recovery, gap, interrupted, seal): nothing was reserved, yet closing it is never refused for
    /// lack of room. They are few, and a full log must still be able to say so.
    pub const fn control(id: LineageId) -> Self {
        Self { id, reserved: 0, _room: None }
    }

    pub(crate) fn reserve(id: LineageId, reserved: u64, room: &Arc<AtomicU64>) -> Self {
        Self { id, reserved, _room: Some(Room::reserve(reserved, room)) }
    }
}

/// Bytes that are spoken for, until it is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    bytes: u64,
    all: Arc<AtomicU64>,
}

impl Room {
    pub(crate) fn reserve(bytes: u64, all: &Arc<AtomicU64>) -> Self {
        all.fetch_add(bytes, Ordering::Relaxed);
        Self { bytes, all: Arc::clone(all) }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A record that was appended, and its leaf hash, which the log had to compute anyway.
#[derive(Debug, Clone)]
pub struct Written {
    /// The record.
    pub record: Arc<Record>,
    /// Its RFC 6962 leaf hash.
    pub leaf_hash: [u8; 32],
}

impl std::ops::Deref for Written {
    type Target = Record;

    fn deref(&self) -> &Record {
        &self.record
    }
}

/// Figures of a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogStats {
    /// The seq that the next record gets.
    pub next_seq: u64,
    /// Every record below is durable to the mode's level and may be shipped.
    pub durable_seq: u64,
    /// Every record below is in the database.
    pub shipped_seq: u64,
    /// Bytes held: RAM in `memory`, segments in `spool`.
    pub bytes: u64,
}

/// A moment in a log: everything that was written before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// Requests opened and records appended by this process.
    pub(crate) writes: u64,
    /// Records in the log.
    pub(crate) records: u64,
}

impl Mark {
    /// When the log holds the record `seq`.
    pub const fn record(seq: u64) -> Self {
        Self { writes: 0, records: seq + 1 }
    }
}

/// Tasks that wait for a log to come further.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Vec<Waker>);

impl Waiting {
    pub(crate) fn add(&mut self, cx: &Context<'_>) {
        self.0.push(cx.waker().clone());
    }

    /// Wakes all of them; each looks for itself whether its mark is reached.
    pub(crate) fn wake(&mut self) {
        self.0.drain(..).for_each(Waker::wake);
    }
}

/// One writer log. Calls are short and synchronous: the request's own thread makes them.
pub trait RecordLog: Send + Sync + 'static {
    /// The log's id.
    fn id(&self) -> LogId;
    /// The epoch that this process writes.
    fn epoch(&self) -> u32;
    /// Records that a request is about to go upstream. On return the OPEN is durable to the mode's level and room for
    /// its record is reserved. `facts` is what recovery needs to write the `interrupted` record.
    fn open(&self, id: LineageId, facts: &[u8]) -> Result<Opened, LogFault>;
    /// Appends one record. `seal` is called with the position that the record gets; it signs. Should the signing of a record
    /// before it fail, it is called again with another position, and the last one counts. On return the record is durable to
    /// the mode's level. `opened` is none for answers that went nowhere upstream.
    fn close(&self, opened: Option<Opened>, seal: &mut dyn FnMut(&Position) -> Record) -> Result<Written, LogFault>;
    /// As [`RecordLog::close`], while no other record is being signed: those before it are written, and those behind it will
    /// be signed when it is. A log in RAM makes no difference between the two.
    fn close_alone(
        &self,
        opened: Option<Opened>,
        seal: &mut dyn FnMut(&Position) -> Record,
    ) -> Result<Written, LogFault>;
    /// Notes that so many bytes of a stream's answer are on their way to its caller, so that a record that recovery writes
    /// for it says no less. Best effort: a full log leaves it out.
    fn progress(&self, _id: LineageId, _bytes: u64) {}
    /// The record with this id, if it is not shipped yet or was shipped lately.
    fn find(&self, id: LineageId) -> Option<Arc<Record>>;
    /// Durable records from `from_seq` on, in order, within both bounds (at least one record if there is any). Where
    /// records are missing it begins behind them; it never goes over them.
    fn read_from(&self, from_seq: u64, max_records: usize, max_bytes: usize) -> Result<Vec<Arc<Record>>, LogFault>;
    /// Tells the log that the database holds every record below `next_seq`, and none from there on: it may have lost some.
    fn shipped(&self, next_seq: u64);
    /// Where the log stands: what calls have written that have returned is before it.
    fn mark(&self) -> Mark;
    /// Ready once everything before `mark` would survive a power cut; at once where nothing ever does, as in RAM. The task
    /// is woken when it is to ask again.
    fn poll_synced(&self, mark: Mark, cx: &mut Context<'_>) -> Poll<Result<(), LogFault>>;
    /// Ready once the database holds every record before `mark`. The task is woken when it is to ask again.
    fn poll_shipped(&self, mark: Mark, cx: &mut Context<'_>) -> Poll<Result<(), LogFault>>;
    /// Waits for what was written to be on the disk; called at shutdown.
    fn sync(&self) -> Result<(), LogFault>;
    /// Looks whether the log still takes records, and whether its files are still where others find them: what is written
    /// to a file without a name is lost with the process. Cheap; to be called about once a second.
    fn check(&self) -> Result<(), LogFault>;
    /// The tree over the records that may be published: in `spool` the durable ones, in `memory` those that were shipped.
    fn published_tree(&self) -> Tree;
    /// Records below this seq are not in the log any more; `u64::MAX` where none can be read again.
    fn holds_from(&self) -> u64;
    /// Leaf hashes of durable records from `from` on, at most `max`, computed anew from what is in the files, not from what
    /// is in RAM: a bit that flipped in between shows. For a record that recovery found missing, what the tree holds.
    fn reread_leaves(&self, from: u64, max: usize) -> Result<Vec<[u8; 32]>, LogFault>;
    /// The log's figures.
    fn stats(&self) -> LogStats;
    /// Bytes at which the log is full.
    fn bound(&self) -> u64;
}
