//! The log of `memory` mode: a bounded ring in RAM. A killed process loses what was not shipped yet.

use crate::log::{LogFault, LogStats, Mark, Opened, RecordLog, Waiting, Written};
use crate::recent::{Recent, weight};
use parking_lot::Mutex;
use signet_lineage::{Leaf, Position, Record, Tree, TreeHead};
use signet_types::{LineageId, LogId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

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
    /// The tree over what was shipped. Taken before the ring.
    published: Mutex<Tree>,
}

#[derive(Debug)]
struct Ring {
    recent: Recent,
    tree: Tree,
    base: TreeHead,
    shipped: u64,
    /// Leaf hashes from there on.
    leaves: VecDeque<[u8; 32]>,
    /// The seq that the next record gets. Those from the tree's size on are being signed.
    next_seq: u64,
    /// Signed records behind one that is not signed yet, with their leaf hashes.
    early: BTreeMap<u64, (Arc<Record>, [u8; 32])>,
    /// A record was never signed, so that none behind it can follow.
    broken: bool,
    unshipped: Waiting,
}

/// Records between two tree heads that positions refer to.
const BASE_EVERY: u64 = 64;

impl MemoryLog {
    /// An empty log that holds at most `bound` bytes of unshipped and promised records.
    pub fn new(id: LogId, bound: u64) -> Self {
        let tree = Tree::default();
        let ring = Ring {
            recent: Recent::default(),
            base: tree.head(),
            tree,
            shipped: 0,
            leaves: VecDeque::new(),
            next_seq: 0,
            early: BTreeMap::new(),
            broken: false,
            unshipped: Waiting::default(),
        };
        let published = Mutex::default();
        Self { id, bound, reserved: Arc::default(), bytes: AtomicU64::new(0), ring: Mutex::new(ring), published }
    }

    fn admit(&self) -> Result<(), LogFault> {
        let used = self.bytes.load(Ordering::Relaxed) + self.reserved.load(Ordering::Relaxed);
        let fits = used + RECORD_BYTES <= self.bound;
        fits.then_some(()).ok_or(LogFault::Full { used, bound: self.bound })
    }
}

/// A seq that was taken for a record that is being signed.
struct Place<'a> {
    log: &'a MemoryLog,
    position: Position,
    filled: bool,
}

impl MemoryLog {
    fn take_place(&self) -> Result<Place<'_>, LogFault> {
        let mut ring = self.ring.lock();
        if ring.broken {
            return Err(broken());
        }
        let position = Position { log: self.id, epoch: 1, seq: ring.next_seq, base: ring.base };
        ring.next_seq += 1;
        Ok(Place { log: self, position, filled: false })
    }
}

impl Place<'_> {
    fn fill(mut self, record: Arc<Record>, leaf_hash: [u8; 32]) {
        self.filled = true;
        let log = self.log;
        log.bytes.fetch_add(weight(&record), Ordering::Relaxed);
        let mut ring = log.ring.lock();
        if self.position.seq == ring.tree.size() {
            ring.append(record, leaf_hash);
        } else {
            ring.early.insert(self.position.seq, (record, leaf_hash));
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.filled {
            self.log.ring.lock().broken = true;
        }
    }
}

impl Ring {
    /// Takes in the next record and what now follows on.
    fn append(&mut self, record: Arc<Record>, leaf_hash: [u8; 32]) {
        let mut next = Some((record, leaf_hash));
        while let Some((record, leaf_hash)) = next {
            self.tree.push(leaf_hash);
            self.leaves.push_back(leaf_hash);
            self.recent.push(record);
            next = self.early.remove(&self.tree.size());
        }
        // A root costs a hash for each level of the tree, so it is not taken anew for every record.
        if self.tree.size() - self.base.size >= BASE_EVERY {
            self.base = self.tree.head();
        }
    }
}

fn broken() -> LogFault {
    LogFault::Failed("a record was not signed".to_owned())
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

    /// Signing is most of the cost, so it is done without the lock: a seq is taken, the record made, and put where it belongs.
    /// A kill loses this log anyway, so that a record need not wait for those before it.
    fn close(&self, opened: Option<Opened>, seal: &mut dyn FnMut(&Position) -> Record) -> Result<Written, LogFault> {
        if opened.is_none() {
            self.admit()?;
        }
        let place = self.take_place()?;
        let record = Arc::new(seal(&place.position));
        let leaf_hash = Leaf::of(&record).hash();
        place.fill(Arc::clone(&record), leaf_hash);
        Ok(Written { record, leaf_hash })
    }

    fn close_alone(
        &self,
        opened: Option<Opened>,
        seal: &mut dyn FnMut(&Position) -> Record,
    ) -> Result<Written, LogFault> {
        self.close(opened, seal)
    }

    fn find(&self, id: LineageId) -> Option<Arc<Record>> {
        let ring = self.ring.lock();
        let placed = ring.recent.seq_of(id).and_then(|seq| ring.recent.get(seq));
        placed.or_else(|| ring.early.values().map(|(record, _)| record).find(|record| record.id == id)).cloned()
    }

    fn read_from(&self, from_seq: u64, max_records: usize, max_bytes: usize) -> Result<Vec<Arc<Record>>, LogFault> {
        let ring = self.ring.lock();
        let first = ring.recent.front().map_or(from_seq, |r| r.seq.max(from_seq));
        Ok(ring.recent.range(first, u64::MAX, max_records, max_bytes))
    }

    fn shipped(&self, next_seq: u64) {
        let mut published = self.published.lock();
        let leaves: Vec<_> = {
            let mut guard = self.ring.lock();
            let ring = &mut *guard;
            let upto = next_seq.min(ring.tree.size());
            for seq in ring.shipped..upto {
                self.bytes.fetch_sub(ring.recent.get(seq).map_or(0, |r| weight(r)), Ordering::Relaxed);
            }
            let fresh = usize::try_from(upto.saturating_sub(ring.shipped)).expect("leaves are in memory");
            ring.shipped = ring.shipped.max(upto);
            ring.unshipped.wake();
            while ring.recent.front().is_some_and(|r| r.seq + KEPT < ring.shipped) {
                ring.recent.pop();
            }
            ring.leaves.drain(..fresh).collect()
        };
        // Hashed while no request waits for the ring.
        for leaf in leaves {
            published.push(leaf);
        }
    }

    fn mark(&self) -> Mark {
        Mark { writes: 0, records: self.ring.lock().next_seq }
    }

    fn poll_synced(&self, _mark: Mark, _cx: &mut Context<'_>) -> Poll<Result<(), LogFault>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shipped(&self, mark: Mark, cx: &mut Context<'_>) -> Poll<Result<(), LogFault>> {
        let mut ring = self.ring.lock();
        if ring.shipped >= mark.records {
            return Poll::Ready(Ok(()));
        }
        if ring.broken {
            return Poll::Ready(Err(broken()));
        }
        ring.unshipped.add(cx);
        Poll::Pending
    }

    fn published_tree(&self) -> Tree {
        self.published.lock().clone()
    }

    fn holds_from(&self) -> u64 {
        u64::MAX
    }

    fn reread_leaves(&self, from: u64, _max: usize) -> Result<Vec<[u8; 32]>, LogFault> {
        Err(LogFault::Failed(format!("a log in memory has no file with seq {from}")))
    }

    fn sync(&self) -> Result<(), LogFault> {
        Ok(())
    }

    fn check(&self) -> Result<(), LogFault> {
        if self.ring.lock().broken { Err(broken()) } else { Ok(()) }
    }

    fn stats(&self) -> LogStats {
        let ring = self.ring.lock();
        LogStats {
            next_seq: ring.next_seq,
            durable_seq: ring.tree.size(),
            shipped_seq: ring.shipped,
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }

    fn bound(&self) -> u64 {
        self.bound
    }
}
