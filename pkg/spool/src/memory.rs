//! The log of `memory` mode: a bounded ring in RAM. A killed process loses what was not shipped yet.

use crate::log::{LogFault, LogStats, Opened, RecordLog, Written};
use crate::recent::{Recent, weight};
use parking_lot::Mutex;
use signet_lineage::{Leaf, Position, Record, Tree, TreeHead};
use signet_types::{LineageId, LogId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of the bound that one record is taken to need before its size is known.
const RECORD_BYTES: u64 = 4096;
/// Shipped records that stay findable.
const KEPT: u64 = 4096;

/// A writer log in RAM. Each process starts a new one, so its epoch is always 1.
#[derive(Debug)]
pub struct MemoryLog {
    id: LogId,
    bound: u64,
    reserved: Arc<AtomicU64>,
    /// Bytes of records that are not shipped; changed under the ring's lock, read without it.
    bytes: AtomicU64,
    ring: Mutex<Ring>,
}

#[derive(Debug)]
struct Ring {
    recent: Recent,
    tree: Tree,
    base: TreeHead,
    shipped: u64,
}

/// Records between two tree heads that positions refer to.
const BASE_EVERY: u64 = 64;

impl MemoryLog {
    /// An empty log that holds at most `bound` bytes of unshipped and promised records.
    pub fn new(id: LogId, bound: u64) -> Self {
        let tree = Tree::default();
        let ring = Ring { recent: Recent::default(), base: tree.head(), tree, shipped: 0 };
        Self { id, bound, reserved: Arc::default(), bytes: AtomicU64::new(0), ring: Mutex::new(ring) }
    }

    fn admit(&self) -> Result<(), LogFault> {
        let used = self.bytes.load(Ordering::Relaxed) + self.reserved.load(Ordering::Relaxed);
        let fits = used + RECORD_BYTES <= self.bound;
        fits.then_some(()).ok_or(LogFault::Full { used, bound: self.bound })
    }
}

impl RecordLog for MemoryLog {
    fn id(&self) -> LogId {
        self.id
    }

    fn epoch(&self) -> u32 {
        1
    }

    /// The facts are not kept: nothing reads them after the process is gone.
    fn open(&self, id: LineageId, _facts: &[u8]) -> Result<Opened, LogFault> {
        self.admit()?;
        Ok(Opened::reserve(id, RECORD_BYTES, &self.reserved))
    }

    fn close(&self, opened: Option<Opened>, seal: &mut dyn FnMut(&Position) -> Record) -> Result<Written, LogFault> {
        let mut ring = self.ring.lock();
        if opened.is_none() {
            self.admit()?;
        }
        let position = Position { log: self.id, epoch: 1, seq: ring.tree.size(), base: ring.base };
        let record = Arc::new(seal(&position));
        let leaf_hash = Leaf::of(&record).hash();
        ring.tree.push(leaf_hash);
        // A root costs a hash for each level of the tree, so it is not taken anew for every record.
        if ring.tree.size() - ring.base.size >= BASE_EVERY {
            ring.base = ring.tree.head();
        }
        self.bytes.fetch_add(weight(&record), Ordering::Relaxed);
        ring.recent.push(Arc::clone(&record));
        Ok(Written { record, leaf_hash })
    }

    fn find(&self, id: LineageId) -> Option<Arc<Record>> {
        let ring = self.ring.lock();
        ring.recent.get(ring.recent.seq_of(id)?).cloned()
    }

    fn read_from(&self, from_seq: u64, max_records: usize, max_bytes: usize) -> Result<Vec<Arc<Record>>, LogFault> {
        let ring = self.ring.lock();
        let first = ring.recent.front().map_or(from_seq, |r| r.seq.max(from_seq));
        Ok(ring.recent.range(first, u64::MAX, max_records, max_bytes))
    }

    fn shipped(&self, next_seq: u64) {
        let mut guard = self.ring.lock();
        let ring = &mut *guard;
        let upto = next_seq.min(ring.tree.size());
        for seq in ring.shipped..upto {
            self.bytes.fetch_sub(ring.recent.get(seq).map_or(0, |r| weight(r)), Ordering::Relaxed);
        }
        ring.shipped = ring.shipped.max(upto);
        while ring.recent.front().is_some_and(|r| r.seq + KEPT < ring.shipped) {
            ring.recent.pop();
        }
    }

    fn sync(&self) -> Result<(), LogFault> {
        Ok(())
    }

    fn check(&self) -> Result<(), LogFault> {
        Ok(())
    }

    fn stats(&self) -> LogStats {
        let ring = self.ring.lock();
        let next_seq = ring.tree.size();
        LogStats {
            next_seq,
            durable_seq: next_seq,
            shipped_seq: ring.shipped,
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }

    fn bound(&self) -> u64 {
        self.bound
    }
}
