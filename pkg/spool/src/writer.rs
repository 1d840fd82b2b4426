//! Everything behind the segment lock: the open segment, the tree's edge and the newest records.

use crate::config::{Config, Gap};
use crate::files::{Files, Handle};
use crate::frame::{FLAG_CLEAN, Hash, Seed, put_close, put_group_end, put_open, put_progress, segment_name};
use crate::log::{LogFault, Mark, Waiting};
use crate::places::Places;
use crate::recent::Recent;
use crate::reserve::{self, Reserve};
use crate::segment::{Beginning, Segment, begin, head_of};
use signet_lineage::{Record, Tree, TreeHead};
use signet_types::{LineageId, LogId};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) files: Arc<dyn Files>,
    pub(crate) config: Config,
    pub(crate) log: LogId,
    pub(crate) epoch: u32,
    pub(crate) boot: [u8; 16],
    /// Oldest first, never empty; the last one is written to. All but the last are durable.
    pub(crate) segments: VecDeque<Segment>,
    /// What recovery found missing.
    pub(crate) gaps: Vec<Gap>,
    pub(crate) file: Arc<dyn Handle>,
    /// Bytes that the open segment may grow to.
    pub(crate) capacity: u64,
    pub(crate) reserve: Reserve,
    /// The tree over all records.
    pub(crate) tree: Tree,
    /// The tree over the durable ones.
    pub(crate) durable: Tree,
    /// Its head: what positions are based on.
    pub(crate) base: TreeHead,
    /// Leaf hashes of the records that are not durable.
    pub(crate) leaves: Vec<Hash>,
    /// Requests in flight and their facts.
    pub(crate) live: HashMap<LineageId, Box<[u8]>>,
    /// How far the answers of those have come, where that was written down.
    pub(crate) progress: HashMap<LineageId, u64>,
    pub(crate) recent: Recent,
    pub(crate) shipped: u64,
    /// Used bytes of all segments.
    pub(crate) bytes: u64,
    /// Frames were written that no sync has begun to cover.
    pub(crate) dirty: bool,
    /// A sync of `file` is under way outside the lock.
    pub(crate) syncing: bool,
    pub(crate) thread: ThreadState,
    /// Counts the tails that were rewritten: a sync that began before one says nothing about the file now in use.
    pub(crate) rewrites: u64,
    pub(crate) failed: Option<String>,
    /// Frames of requests and records that were written; and how many of them the disk has.
    pub(crate) writes: u64,
    pub(crate) synced_writes: u64,
    /// Who waits for the disk, and who for the database.
    pub(crate) unsynced: Waiting,
    pub(crate) unshipped: Waiting,
    /// What is given out behind the last record.
    pub(crate) places: Places,
    /// The frame being written; kept for its capacity.
    pub(crate) buf: Vec<u8>,
}

/// What the sync thread and its owner tell each other.
#[derive(Debug, Default)]
pub(crate) struct ThreadState {
    /// It waits for work.
    pub(crate) idle: bool,
    /// It is to end.
    pub(crate) stop: bool,
}

/// What a sync covers.
pub(crate) struct Cut {
    pub(crate) file: Arc<dyn Handle>,
    pub(crate) tree: Tree,
    writes: u64,
    rewrites: u64,
}

impl Writer {
    pub(crate) const fn next_seq(&self) -> u64 {
        self.tree.size()
    }

    pub(crate) const fn mark(&self) -> Mark {
        Mark { writes: self.writes, records: self.next_seq() }
    }

    /// Whether the disk has what was written before `mark`.
    pub(crate) const fn has_synced(&self, mark: Mark) -> bool {
        self.synced_writes >= mark.writes && self.durable.size() >= mark.records
    }

    pub(crate) fn last(&mut self) -> &mut Segment {
        self.segments.back_mut().expect("a writer has a segment")
    }

    fn seed(&mut self) -> Seed {
        Seed::new(self.log, self.last().first_seq)
    }

    pub(crate) fn alive(&self) -> Result<(), LogFault> {
        self.failed.clone().map_or(Ok(()), |why| Err(LogFault::Failed(why)))
    }

    /// Gives the log up if the open segment is no longer the file of its name: the folder was deleted, moved or replaced.
    pub(crate) fn check_place(&mut self) -> Result<(), LogFault> {
        let name = segment_name(self.last().first_seq);
        let found = self.files.open(&name).and_then(|file| file.identity());
        let lost = match (found, self.file.identity()) {
            (Ok(found), Ok(ours)) if found == ours => return Ok(()),
            (Ok(_), Ok(_)) => io::Error::other("another file has its place"),
            (Err(e), _) | (_, Err(e)) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                e
            }
            // Out of descriptors, for instance: nothing is known, and the next look may tell.
            (Err(e), _) | (_, Err(e)) => {
                tracing::warn!(log = %self.log, error = %e, "the open lineage segment was not looked at");
                return Ok(());
            }
        };
        Err(self.fail(&format!("{name} is gone from its folder"), &lost))
    }

    /// Gives the log up; it takes nothing until it is opened again.
    fn fail(&mut self, what: &str, error: &io::Error) -> LogFault {
        let why = format!("{what}: {error}");
        tracing::error!(log = %self.log, why, "the lineage log failed");
        self.failed = Some(why.clone());
        self.unsynced.wake();
        self.unshipped.wake();
        LogFault::Failed(why)
    }

    /// Bytes left in the open segment.
    pub(crate) fn room(&mut self) -> u64 {
        self.capacity.saturating_sub(self.last().len)
    }

    /// Not counted as a write: nobody waits for it.
    pub(crate) fn append_progress(&mut self, id: LineageId, bytes: u64) -> Result<(), LogFault> {
        if !self.live.contains_key(&id) {
            return Ok(());
        }
        let (seed, seq) = (self.seed(), self.next_seq());
        self.buf.clear();
        put_progress(&mut self.buf, seed, seq, id, bytes);
        self.progress.insert(id, bytes);
        self.write_buf()
    }

    pub(crate) fn append_open(&mut self, id: LineageId, facts: &[u8]) -> Result<(), LogFault> {
        let (seed, seq) = (self.seed(), self.next_seq());
        self.buf.clear();
        put_open(&mut self.buf, seed, seq, id, facts);
        self.live.insert(id, facts.into());
        self.dirty = true;
        self.writes += 1;
        self.write_buf()
    }

    /// Appends records with the next seqs, in one write.
    pub(crate) fn append_closes(&mut self, records: &[(Arc<Record>, Hash)]) -> Result<(), LogFault> {
        let seed = self.seed();
        let start = self.last().len;
        self.buf.clear();
        for (record, leaf) in records {
            let offset = start + self.buf.len() as u64;
            put_close(&mut self.buf, seed, record);
            self.recent.push(Arc::clone(record));
            self.live.remove(&record.id);
            self.progress.remove(&record.id);
            self.leaves.push(*leaf);
            self.tree.push(*leaf);
            self.last().note(record.id, record.seq, offset);
        }
        self.dirty = true;
        self.writes += records.len() as u64;
        self.write_buf()?;
        self.trim_recent();
        Ok(())
    }

    /// Drops the oldest records from RAM that the disk has.
    fn trim_recent(&mut self) {
        while self.recent.bytes() > self.config.recent_bytes
            && self.recent.front().is_some_and(|r| r.seq < self.durable.size())
        {
            self.recent.pop();
        }
    }

    /// Writes the prepared frame at the end. A file that refused a write is not written to again: what the disk may not
    /// have goes to a new segment, with this frame's record or request, which the caller has entered.
    fn write_buf(&mut self) -> Result<(), LogFault> {
        let (file, offset) = (Arc::clone(&self.file), self.last().len);
        if let Err(e) = file.write_at(&self.buf, offset) {
            tracing::warn!(log = %self.log, error = %e, "a lineage segment refused a write; going on in a new one");
            return self.rewrite_tail();
        }
        let written = self.buf.len() as u64;
        self.last().len += written;
        self.bytes += written;
        Ok(())
    }

    /// Begins a sync: everything so far.
    pub(crate) fn cut(&mut self) -> Cut {
        self.dirty = false;
        self.syncing = true;
        Cut { file: Arc::clone(&self.file), tree: self.tree.clone(), writes: self.writes, rewrites: self.rewrites }
    }

    /// Takes a sync's result in.
    pub(crate) fn synced(&mut self, cut: Cut, head: TreeHead, result: &io::Result<()>) -> Result<(), LogFault> {
        self.syncing = false;
        if cut.rewrites != self.rewrites || self.failed.is_some() {
            return self.alive();
        }
        if let Err(e) = result {
            // After a failed fdatasync the kernel may have dropped the pages and call the next one a success.
            tracing::warn!(log = %self.log, error = %e, "fdatasync failed; writing the unsynced records to a new segment");
            return self.rewrite_tail();
        }
        self.synced_writes = cut.writes;
        self.unsynced.wake(); // they look at the log once its lock is free
        if cut.tree.size() == self.durable.size() {
            return Ok(());
        }
        let group: Vec<Hash> = self.leaves.drain(..self.group_len(&cut.tree)).collect();
        self.durable = cut.tree;
        self.base = head;
        self.append_group_end(0, &group)
    }

    fn group_len(&self, tree: &Tree) -> usize {
        usize::try_from(tree.size() - self.durable.size()).expect("leaves are in memory")
    }

    /// Writes the durable tree beside the records, so that recovery can check and continue it.
    fn append_group_end(&mut self, flags: u8, leaves: &[Hash]) -> Result<(), LogFault> {
        let (seed, seq) = (self.seed(), self.next_seq());
        self.buf.clear();
        put_group_end(&mut self.buf, seed, flags, seq, &self.durable, leaves);
        self.write_buf()
    }

    /// Ends the segment and begins the next one. No sync may be under way.
    ///
    /// An error of the outer result leaves the segment in use as it was.
    pub(crate) fn roll(&mut self, promised: bool) -> io::Result<Result<(), LogFault>> {
        debug_assert!(!self.syncing);
        let cut = self.cut();
        let synced = cut.file.sync();
        let head = cut.tree.head();
        let failed = synced.is_err();
        let done = self.synced(cut, head, &synced);
        if failed || done.is_err() {
            return Ok(done); // the tail was rewritten, which began a segment
        }
        let (old, used) = (Arc::clone(&self.file), self.last().len);
        self.begin_segment(promised)?;
        // Only gives back room that was preallocated; recovery would do it too.
        if let Err(e) = old.truncate(used) {
            tracing::warn!(log = %self.log, error = %e, "an ended lineage segment was not cut to its length");
        }
        Ok(Ok(()))
    }

    /// Puts everything that the disk may not have into a new segment and makes that durable.
    pub(crate) fn rewrite_tail(&mut self) -> Result<(), LogFault> {
        self.rewrites += 1;
        self.begin_segment(true).map_err(|e| self.fail("a new segment", &e))?;
        self.leaves.clear();
        self.durable = self.tree.clone();
        self.base = self.durable.head();
        self.dirty = false;
        self.synced_writes = self.writes;
        self.unsynced.wake();
        Ok(())
    }

    /// Begins a segment behind the last durable record. It replaces the open one if that has no durable record.
    /// On a full disk it is made of the reserve, for what was promised.
    fn begin_segment(&mut self, promised: bool) -> io::Result<()> {
        let from = self.durable.size();
        let recent = &self.recent;
        let beginning = Beginning {
            head: head_of(self.log, self.epoch, self.boot, &self.durable),
            live: &mut self.live.iter().map(|(id, facts)| (*id, &**facts)),
            progress: &self.progress,
            records: &mut (from..self.tree.size()).map(|seq| Arc::clone(recent.get(seq).expect("kept until durable"))),
        };
        let may_spend = promised && self.reserve == Reserve::Kept;
        let whole = self.config.segment_bytes;
        let (segment, file, spent) = begin(&*self.files, (whole, may_spend), beginning)?;
        self.capacity = if spent { whole.min(reserve::BYTES) } else { whole };
        if spent {
            tracing::error!(log = %self.log, "the disk is full; the log ends its requests in the room that it kept");
            self.reserve = Reserve::Spent;
        }
        if let Some(replaced) = self.segments.pop_back_if(|old| old.first_seq == from) {
            self.bytes -= replaced.len;
        }
        self.bytes += segment.len;
        self.segments.push_back(segment);
        self.file = file;
        Ok(())
    }

    /// Forgets shipped segments beyond what is retained, and more of them if `over` bytes must be freed. Returns their
    /// names, oldest first, for unlinking.
    pub(crate) fn release(&mut self, over: u64, now_ms: u64) -> Vec<String> {
        let shipped = |w: &Self| w.segments.len() > 1 && w.segments[1].first_seq <= w.shipped;
        let wholly = self.segments.partition_point(|s| s.first_seq <= self.shipped).saturating_sub(1);
        let mut kept: u64 = self.segments.iter().take(wholly).map(|s| s.len).sum();
        let retain_ms = u64::try_from(self.config.retain_for.as_millis()).unwrap_or(u64::MAX);
        let (mut freed, mut names) = (0, Vec::new());
        while shipped(self) {
            let oldest = &self.segments[0];
            let aged = oldest.newest_ms.saturating_add(retain_ms) < now_ms;
            if kept <= self.config.retain_bytes && freed >= over && !aged {
                break;
            }
            kept -= oldest.len;
            freed += oldest.len;
            self.bytes -= oldest.len;
            names.push(segment_name(oldest.first_seq));
            self.segments.pop_front();
        }
        names
    }

    /// Ends the log properly: everything synced, then a mark that says so.
    pub(crate) fn finish(&mut self) -> Result<(), LogFault> {
        self.alive()?;
        if self.dirty {
            let (cut, synced) = (self.cut(), self.file.sync());
            let head = cut.tree.head();
            self.synced(cut, head, &synced)?;
        }
        self.append_group_end(FLAG_CLEAN, &[])?;
        self.file.sync().map_err(|e| self.fail("the last sync", &e))
    }
}
