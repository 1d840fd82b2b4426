//! The log of `spool` mode: what was acknowledged is in the page cache, so it survives the process; the disk follows
//! within one group.

use crate::config::{Config, Gap, OpenFault, Recovered};
use crate::files::{Disk, Files};
use crate::frame::{PROGRESS_BODY, frame_len, open_body};
use crate::log::{LogFault, LogStats, Mark, Opened, RecordLog, Written};
use crate::places::Place;
use crate::reserve::{self, Reserve};
use crate::segment::Span;
use crate::writer::Writer;
use crate::{frame, identity, recover};
use parking_lot::{Condvar, Mutex, MutexGuard};
use signet_lineage::{Leaf, Position, Record, Tree};
use signet_types::{Clock, LineageId, LogId};
use std::any::Any;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::thread::JoinHandle;

/// A writer log in a directory.
///
/// Dropping it waits for the disk and marks the log as properly ended.
#[derive(Debug)]
pub struct Spool {
    pub(crate) shared: Arc<Shared>,
    syncer: Option<JoinHandle<()>>,
    _lock: Box<dyn Any + Send + Sync>,
}

pub(crate) struct Shared {
    pub(crate) log: LogId,
    pub(crate) epoch: u32,
    pub(crate) record_bytes: u64,
    pub(crate) files: Arc<dyn Files>,
    clock: Arc<dyn Clock>,
    pub(crate) reserved: Arc<AtomicU64>,
    pub(crate) writer: Mutex<Writer>,
    /// Wakes the sync thread.
    work: Condvar,
    /// A sync ended.
    done: Condvar,
    /// Records were written, or will not be.
    pub(crate) placed: Condvar,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("log", &self.log).field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

impl Spool {
    /// The id of the log in a directory, without locking it; none if there is no log yet.
    pub fn peek(config: &Config) -> Result<Option<LogId>, OpenFault> {
        identity::read(&Disk::new(&config.dir))
    }

    /// Locks the directory, recovers the log in it or begins one, and starts the sync thread.
    ///
    /// `min_next_seq` is the database's next seq for this log (see [`Spool::peek`]); everything below it counts as
    /// shipped. Nothing in the directory is changed when this fails with anything but an I/O error.
    pub fn open(
        config: Config,
        clock: Arc<dyn Clock>,
        min_next_seq: Option<u64>,
    ) -> Result<(Self, Recovered), OpenFault> {
        let files = Arc::new(Disk::new(&config.dir));
        let (mut spool, recovered) = Self::open_on(files, config, clock, min_next_seq)?;
        spool.start()?;
        Ok((spool, recovered))
    }

    /// Moves everything in the directory aside, into `old-<log id>/`, and begins a new log. For a directory that is
    /// behind the database or damaged beyond recovery. Records there that the database does not hold stay there. If it
    /// is interrupted, calling it again goes on.
    pub fn start_new_log(config: Config, clock: Arc<dyn Clock>) -> Result<(Self, Recovered), OpenFault> {
        let files = Arc::new(Disk::new(&config.dir));
        let (mut spool, recovered) = Self::start_new_log_on(files, config, clock)?;
        spool.start()?;
        Ok((spool, recovered))
    }

    /// As [`Spool::open`] on any files, without a thread: only [`RecordLog::sync`] moves records to the disk.
    pub fn open_on(
        files: Arc<dyn Files>,
        config: Config,
        clock: Arc<dyn Clock>,
        min_next_seq: Option<u64>,
    ) -> Result<(Self, Recovered), OpenFault> {
        let lock = recover::lock(&*files)?;
        Self::build(files, config, clock, min_next_seq, lock)
    }

    /// As [`Spool::start_new_log`] on any files, without a thread.
    pub fn start_new_log_on(
        files: Arc<dyn Files>,
        config: Config,
        clock: Arc<dyn Clock>,
    ) -> Result<(Self, Recovered), OpenFault> {
        let lock = recover::lock(&*files)?;
        identity::move_aside(&*files, clock.now_ms())?;
        Self::build(files, config, clock, None, lock)
    }

    fn build(
        files: Arc<dyn Files>,
        config: Config,
        clock: Arc<dyn Clock>,
        min_next_seq: Option<u64>,
        lock: Box<dyn Any + Send + Sync>,
    ) -> Result<(Self, Recovered), OpenFault> {
        let reserved = Arc::default();
        let record_bytes = config.record_bytes;
        let found = recover::recover(Arc::clone(&files), config, &*clock, min_next_seq)?;
        let (writer, recovered) = found.finish(&reserved)?;
        let shared = Shared {
            log: writer.log,
            epoch: writer.epoch,
            record_bytes,
            files,
            clock,
            reserved,
            writer: Mutex::new(writer),
            work: Condvar::new(),
            done: Condvar::new(),
            placed: Condvar::new(),
        };
        shared.keep_reserve();
        Ok((Self { shared: Arc::new(shared), syncer: None, _lock: lock }, recovered))
    }

    fn start(&mut self) -> std::io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name("lineage-sync".into());
        self.syncer = Some(thread.spawn(move || shared.run())?);
        Ok(())
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.shared.writer.lock().thread.stop = true;
        self.shared.work.notify_all();
        if let Some(thread) = self.syncer.take()
            && thread.join().is_err()
        {
            tracing::error!(log = %self.shared.log, "the lineage sync thread panicked");
        }
        if let Err(e) = self.shared.quiet().finish() {
            tracing::warn!(log = %self.shared.log, error = %e, "the lineage log was not ended properly");
        }
        drop(self.shared.files.unlink(reserve::NAME));
    }
}

impl Shared {
    /// The sync thread: one fdatasync a group, as long as there is work; no timer when there is none.
    fn run(&self) {
        let mut writer = self.writer.lock();
        loop {
            writer.thread.idle = true;
            while !writer.dirty && !writer.thread.stop {
                self.work.wait(&mut writer);
            }
            writer.thread.idle = false;
            if writer.thread.stop {
                return;
            }
            let pause = writer.config.group_pause;
            self.work.wait_while_for(&mut writer, |w| !w.thread.stop, pause);
            MutexGuard::unlocked(&mut writer, || {
                // The fault is kept in the writer, where every caller meets it.
                drop(self.sync_group());
            });
            if writer.failed.is_some() {
                return;
            }
        }
    }

    /// The writer while no sync is under way.
    fn quiet(&self) -> MutexGuard<'_, Writer> {
        let mut writer = self.writer.lock();
        while writer.syncing {
            self.done.wait(&mut writer);
        }
        writer
    }

    /// Makes durable what was written before the call. The root is computed while nobody waits for it.
    fn sync_group(&self) -> Result<(), LogFault> {
        let mut writer = self.quiet();
        writer.alive()?;
        if !writer.dirty {
            return Ok(());
        }
        let cut = writer.cut();
        let (result, head) = MutexGuard::unlocked(&mut writer, || (cut.file.sync(), cut.tree.head()));
        let outcome = writer.synced(cut, head, &result);
        drop(writer);
        self.done.notify_all();
        outcome
    }

    /// The writer with room for a frame of `need` bytes in its segment. What was promised is never refused; anything
    /// else must leave room, under the bound and in the segment, for everything that was promised.
    pub(crate) fn admit(&self, need: u64, promised: bool) -> Result<MutexGuard<'_, Writer>, LogFault> {
        let mut writer = self.writer.lock();
        loop {
            writer.alive()?;
            let others = if promised { 0 } else { self.reserved.load(Ordering::Relaxed) };
            if !promised {
                if writer.reserve == Reserve::Spent {
                    return Err(full(&writer, others));
                }
                self.keep_within_bound(&mut writer, need + others)?;
            }
            let promise = others.min(writer.config.segment_bytes / 2);
            let fresh = writer.last().len == writer.last().start;
            if writer.room() >= need + promise || fresh {
                return Ok(writer);
            }
            if writer.syncing {
                self.done.wait(&mut writer);
                continue;
            }
            match writer.roll(promised) {
                Ok(done) => done?,
                // In-flight requests end in the segment at hand; it may grow a little.
                Err(_) if promised => return Ok(writer),
                Err(e) => {
                    tracing::warn!(log = %self.log, error = %e, "no new lineage segment; refusing new requests");
                    return Err(full(&writer, others));
                }
            }
        }
    }

    fn keep_within_bound(&self, writer: &mut Writer, extra: u64) -> Result<(), LogFault> {
        let bound = writer.config.max_bytes;
        let over = (writer.bytes + extra).saturating_sub(bound);
        if over > 0 {
            let names = writer.release(over, self.clock.now_ms());
            self.unlink(&names);
        }
        if writer.bytes + extra > bound { Err(full(writer, extra)) } else { Ok(()) }
    }

    fn unlink(&self, names: &[String]) {
        for name in names {
            if let Err(e) = self.files.unlink(name) {
                tracing::warn!(log = %self.log, name, error = %e, "a shipped lineage segment was not removed");
            }
        }
        // Without a sync the names may come back after a power cut; recovery and the database watermark bear that.
    }

    fn append(
        &self,
        promised: bool,
        alone: bool,
        seal: &mut dyn FnMut(&Position) -> Record,
    ) -> Result<Written, LogFault> {
        loop {
            let place = Place::take(self, promised, alone)?;
            let Position { log, epoch, seq, .. } = place.position;
            let record = Arc::new(seal(&place.position));
            let fits = (record.log, record.epoch, record.seq) == (log, epoch, seq);
            assert!(fits, "a seal must use the position that it is given");
            // Here it costs this record and no other one.
            assert!(frame::fits(&record), "a record of {} bytes", record.payload.len());
            let leaf_hash = Leaf::of(&record).hash();
            if place.fill(&record, leaf_hash)? {
                return Ok(Written { record, leaf_hash });
            }
        }
    }

    pub(crate) fn wake(&self, writer: MutexGuard<'_, Writer>) {
        let idle = writer.thread.idle;
        drop(writer);
        if idle {
            self.work.notify_one();
        }
    }

    /// The parts of segments that may hold records with `from <= seq < below`, in order.
    fn spans(writer: &Writer, from: u64, below: u64) -> Vec<Span> {
        let ends = writer.segments.iter().skip(1).map(|s| s.first_seq).chain([u64::MAX]);
        let parts = writer.segments.iter().zip(ends);
        parts.filter(|(_, end)| *end > from).map(|(s, end)| s.span(from, below.min(end))).collect()
    }

    fn read_spans(&self, spans: &[Span], max_records: usize, max_bytes: usize) -> Result<Vec<Arc<Record>>, LogFault> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        for span in spans {
            let read = span.read(&*self.files, self.log, |record| {
                bytes += record.payload.len();
                // Nobody takes a batch with a hole in it; the next one begins behind the hole.
                let hole = taken.last().is_some_and(|last: &Arc<Record>| record.seq != last.seq + 1);
                if hole || taken.len() == max_records || (bytes > max_bytes && !taken.is_empty()) {
                    return ControlFlow::Break(());
                }
                taken.push(Arc::new(record));
                ControlFlow::Continue(())
            });
            match read {
                // Released since the spans were taken: the database has it.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                other => other.map_err(|e| LogFault::Failed(format!("reading back: {e}")))?,
            }
            if !taken.is_empty() {
                break;
            }
        }
        Ok(taken)
    }

    /// Looks through the segments of unshipped records whose ids are of this one's time.
    fn search(&self, id: LineageId) -> Option<Arc<Record>> {
        let spans = {
            let writer = self.writer.lock();
            let of_its_time = |s: &&crate::segment::Segment| (s.oldest_ms..=s.newest_ms).contains(&id.unix_ms());
            let ends = writer.segments.iter().skip(1).map(|s| s.first_seq).chain([u64::MAX]);
            let unshipped = writer.segments.iter().zip(ends).filter(|(_, end)| *end > writer.shipped);
            unshipped.filter(|(s, _)| of_its_time(s)).map(|(s, end)| s.span(0, end)).collect::<Vec<_>>()
        };
        let mut found = None;
        for span in spans {
            let read = span.read(&*self.files, self.log, |record| {
                if record.id != id {
                    return ControlFlow::Continue(());
                }
                found = Some(Arc::new(record));
                ControlFlow::Break(())
            });
            if let Err(e) = read {
                tracing::warn!(log = %self.log, segment = span.first_seq, error = %e, "a lineage segment was not searched");
            }
            if found.is_some() {
                break;
            }
        }
        found
    }
}

/// Leaf hashes from `from` on, as they are read.
struct Leaves {
    from: u64,
    gaps: Vec<Gap>,
    hashes: Vec<[u8; 32]>,
}

impl Leaves {
    fn take(&mut self, seq: u64, leaf: [u8; 32]) -> Result<(), LogFault> {
        self.fill(seq)?;
        if self.from + self.hashes.len() as u64 == seq {
            self.hashes.push(leaf);
        }
        Ok(())
    }

    /// Puts what the tree holds for missing records in their place, up to `below`.
    fn fill(&mut self, below: u64) -> Result<(), LogFault> {
        for seq in self.from + self.hashes.len() as u64..below {
            let gap = self.gaps.iter().find(|gap| (gap.first_seq..=gap.last_seq).contains(&seq));
            let known = gap.and_then(|gap| gap.leaf(seq));
            self.hashes.push(known.ok_or_else(|| LogFault::Failed(format!("no readable file holds seq {seq}")))?);
        }
        Ok(())
    }
}

fn full(writer: &Writer, promised: u64) -> LogFault {
    LogFault::Full { used: writer.bytes + promised, bound: writer.config.max_bytes }
}

impl RecordLog for Spool {
    fn id(&self) -> LogId {
        self.shared.log
    }

    fn epoch(&self) -> u32 {
        self.shared.epoch
    }

    fn open(&self, id: LineageId, facts: &[u8]) -> Result<Opened, LogFault> {
        let shared = &*self.shared;
        let need = frame_len(open_body(facts.len())) as u64 + shared.record_bytes;
        let mut writer = shared.admit(need, false)?;
        writer.append_open(id, facts)?;
        let opened = Opened::reserve(id, shared.record_bytes, &shared.reserved);
        shared.wake(writer);
        Ok(opened)
    }

    fn progress(&self, id: LineageId, bytes: u64) {
        let noted = self.shared.admit(frame_len(PROGRESS_BODY) as u64, false);
        if let Err(fault) = noted.and_then(|mut writer| writer.append_progress(id, bytes)) {
            tracing::debug!(%fault, "the progress of a stream was not noted");
        }
    }

    /// Nothing is locked while `seal` runs (see [`crate::places`]). If it panics, no seq was used.
    fn close(&self, opened: Option<Opened>, seal: &mut dyn FnMut(&Position) -> Record) -> Result<Written, LogFault> {
        self.shared.append(opened.is_some(), false, seal)
    }

    fn close_alone(
        &self,
        opened: Option<Opened>,
        seal: &mut dyn FnMut(&Position) -> Record,
    ) -> Result<Written, LogFault> {
        self.shared.append(opened.is_some(), true, seal)
    }

    fn find(&self, id: LineageId) -> Option<Arc<Record>> {
        let writer = self.shared.writer.lock();
        let Some(seq) = writer.recent.seq_of(id) else {
            drop(writer);
            return self.shared.search(id);
        };
        if let Some(record) = writer.recent.get(seq) {
            return Some(Arc::clone(record));
        }
        let spans = Shared::spans(&writer, seq, seq + 1);
        drop(writer);
        self.shared.read_spans(&spans, 1, usize::MAX).ok()?.pop()
    }

    fn read_from(&self, from_seq: u64, max_records: usize, max_bytes: usize) -> Result<Vec<Arc<Record>>, LogFault> {
        let writer = self.shared.writer.lock();
        let below = writer.durable.size();
        if from_seq >= below {
            return Ok(Vec::new());
        }
        let held = writer.recent.range(from_seq, below, max_records, max_bytes);
        if !held.is_empty() {
            return Ok(held);
        }
        let spans = Shared::spans(&writer, from_seq, below);
        drop(writer);
        self.shared.read_spans(&spans, max_records, max_bytes)
    }

    fn shipped(&self, next_seq: u64) {
        let mut writer = self.shared.writer.lock();
        writer.shipped = next_seq.min(writer.durable.size());
        let names = writer.release(0, self.shared.clock.now_ms());
        writer.unshipped.wake();
        drop(writer);
        self.shared.unlink(&names);
    }

    fn mark(&self) -> Mark {
        self.shared.writer.lock().mark()
    }

    fn poll_synced(&self, mark: Mark, cx: &mut Context<'_>) -> Poll<Result<(), LogFault>> {
        let mut writer = self.shared.writer.lock();
        if writer.has_synced(mark) {
            return Poll::Ready(Ok(()));
        }
        if let Err(fault) = writer.alive() {
            return Poll::Ready(Err(fault));
        }
        writer.unsynced.add(cx);
        Poll::Pending
    }

    fn poll_shipped(&self, mark: Mark, cx: &mut Context<'_>) -> Poll<Result<(), LogFault>> {
        let mut writer = self.shared.writer.lock();
        if writer.shipped >= mark.records {
            return Poll::Ready(Ok(()));
        }
        if let Err(fault) = writer.alive() {
            return Poll::Ready(Err(fault));
        }
        writer.unshipped.add(cx);
        Poll::Pending
    }

    fn sync(&self) -> Result<(), LogFault> {
        self.shared.sync_group()
    }

    fn check(&self) -> Result<(), LogFault> {
        {
            let mut writer = self.shared.writer.lock();
            writer.alive()?;
            writer.check_place()?;
        }
        if self.shared.keep_reserve() {
            return Err(LogFault::Failed("the disk is full; only requests in flight are ended".to_owned()));
        }
        Ok(())
    }

    fn published_tree(&self) -> Tree {
        self.shared.writer.lock().durable.clone()
    }

    fn holds_from(&self) -> u64 {
        self.shared.writer.lock().segments[0].first_seq
    }

    fn reread_leaves(&self, from: u64, max: usize) -> Result<Vec<[u8; 32]>, LogFault> {
        let (spans, gaps, below) = {
            let writer = self.shared.writer.lock();
            let below = writer.durable.size().min(from.saturating_add(max as u64));
            (Shared::spans(&writer, from, below), writer.gaps.clone(), below)
        };
        let mut leaves = Leaves { from, gaps, hashes: Vec::new() };
        for span in &spans {
            let mut done = Ok(());
            let read = span.read(&*self.shared.files, self.shared.log, |record| {
                done = leaves.take(record.seq, Leaf::of(&record).hash());
                if done.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            read.map_err(|e| LogFault::Failed(format!("reading back: {e}")))?;
            done?;
        }
        leaves.fill(below)?;
        Ok(leaves.hashes)
    }

    fn stats(&self) -> LogStats {
        let writer = self.shared.writer.lock();
        LogStats {
            next_seq: writer.next_seq(),
            durable_seq: writer.durable.size(),
            shipped_seq: writer.shipped,
            bytes: writer.bytes,
        }
    }

    fn bound(&self) -> u64 {
        self.shared.writer.lock().config.max_bytes
    }
}

#[cfg(test)]
impl Spool {
    /// [`RecordLog::find`] as if the id had been forgotten.
    pub(crate) fn shared_search(&self, id: LineageId) -> Option<Arc<Record>> {
        self.shared.search(id)
    }

    pub(crate) fn writer(&self) -> MutexGuard<'_, Writer> {
        self.shared.writer.lock()
    }
}
