//! Opening a directory: lock, identity, one streaming pass over all segments, then a segment of this process's own.
//!
//! Nothing is appended to a segment of an earlier process. A torn end is cut off and made durable before the new
//! segment is begun, so nothing acknowledged later can stand behind it. There is no file that says how far a reader got:
//! the database's next seq does.

use crate::config::{Config, OpenFault, Recovered};
use crate::files::{Files, Handle};
use crate::frame::{SEGMENT_HEAD, Seed, SegmentHead, has_suffix, segment_first_seq, segment_name};
use crate::identity;
use crate::log::{Opened, Waiting};
use crate::places::Places;
use crate::published::Published;
use crate::replay::Replay;
use crate::reserve::Reserve;
use crate::scan::{Scanner, last_written, read_full};
use crate::segment::{Beginning, Segment, begin, head_of};
use crate::writer::{ThreadState, Writer};
use signet_lineage::Tree;
use signet_types::{Clock, LogId};
use std::any::Any;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Longest header: 64 peaks.
const LONGEST_HEAD: usize = SEGMENT_HEAD + 64 * 32 + 8;

pub(crate) fn lock(files: &dyn Files) -> Result<Box<dyn Any + Send + Sync>, OpenFault> {
    files.lock().map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => OpenFault::Held,
        io::ErrorKind::Unsupported => OpenFault::Network,
        _ => OpenFault::Io(e),
    })
}

/// What the directory holds, before anything in it is changed for good.
pub(crate) struct Found {
    files: Arc<dyn Files>,
    config: Config,
    log: LogId,
    /// None: there was no log.
    last_head: Option<SegmentHead>,
    segments: VecDeque<Segment>,
    replay: Replay,
    shipped: Option<u64>,
    torn_bytes: u64,
    damaged: Vec<u64>,
    leftovers: Vec<String>,
}

/// Reads the directory.
pub(crate) fn recover(
    files: Arc<dyn Files>,
    config: Config,
    clock: &dyn Clock,
    min_next_seq: Option<u64>,
) -> Result<Found, OpenFault> {
    let names = files.list()?;
    let mut firsts: Vec<u64> = names.iter().filter_map(|n| segment_first_seq(n)).collect();
    firsts.sort_unstable();
    let blank = match firsts.last() {
        Some(&newest) if is_blank(&*files, newest)? => firsts.pop(),
        _ => None,
    };
    let log = match identity::read(&*files)? {
        Some(log) => log,
        None if firsts.is_empty() && blank.is_none() => LogId::generate(clock.now_ms()),
        None => return Err(OpenFault::Damaged { file: identity::NAME.into(), what: "it is missing" }),
    };
    let heads = firsts.iter().map(|&first| head(&*files, log, first)).collect::<Result<Vec<_>, _>>()?;
    let tree = heads.first().map(|h| h.tree.clone()).unwrap_or_default();
    let mut found = Found {
        replay: Replay::new(
            log,
            tree,
            min_next_seq,
            config.gap_keys.clone(),
            Published::new(config.published, Arc::clone(&files)),
        )?,
        files,
        config,
        log,
        last_head: heads.last().cloned(),
        segments: VecDeque::with_capacity(heads.len() + 1),
        shipped: min_next_seq,
        torn_bytes: 0,
        damaged: Vec::new(),
        leftovers: names.into_iter().filter(|n| has_suffix(n, ".tmp")).collect(),
    };
    for (i, head) in heads.iter().enumerate() {
        let limit = heads.get(i + 1).map(|next| next.tree.size());
        found.read_segment(head, limit)?;
    }
    if let Some(first) = blank {
        found.drop_blank(first)?;
    }
    Ok(found)
}

/// Whether nothing was ever written to a segment. A machine that stops between a file's creation and its first bytes may
/// leave its name behind, with a size or without, although it is named only once it is synced.
pub(crate) fn is_blank(files: &dyn Files, first_seq: u64) -> io::Result<bool> {
    let file = files.open(&segment_name(first_seq))?;
    let size = file.size()?;
    let begun = last_written(&*file, 0, size.min(SEGMENT_HEAD as u64))? > 0;
    Ok(!begun && last_written(&*file, 0, size)? == 0)
}

pub(crate) fn head(files: &dyn Files, log: LogId, first_seq: u64) -> Result<SegmentHead, OpenFault> {
    let name = segment_name(first_seq);
    let mut bytes = vec![0; LONGEST_HEAD];
    let got = read_full(&*files.open(&name)?, &mut bytes, 0)?;
    let damaged = |what| OpenFault::Damaged { file: name.clone(), what };
    let head = SegmentHead::parse(&bytes[..got]).map_err(damaged)?;
    if head.log != log {
        return Err(damaged("it belongs to another log"));
    }
    if head.tree.size() != first_seq {
        return Err(damaged("its name does not fit its header"));
    }
    Ok(head)
}

impl Found {
    fn read_segment(&mut self, head: &SegmentHead, limit: Option<u64>) -> Result<(), OpenFault> {
        self.replay.enter(&head.tree, limit.unwrap_or(u64::MAX))?;
        let mut segment = Segment::new(head);
        let file = self.files.open(&segment_name(segment.first_seq))?;
        let size = file.size()?;
        let seed = Seed::new(self.log, segment.first_seq);
        let mut scanner = Scanner::new(Arc::clone(&file), seed, segment.start, size);
        loop {
            let mut offset = scanner.at();
            while let Some(frame) = scanner.next()? {
                self.replay.take(&frame, &mut segment, offset)?;
                offset = scanner.at();
            }
            if !scanner.resync()? {
                break;
            }
            tracing::warn!(log = %self.log, segment = segment.first_seq, from = offset, to = scanner.at(), "a lineage segment is damaged in the middle");
            self.replay.clean = false;
            self.damaged.push(segment.first_seq);
        }
        segment.len = scanner.at().min(size);
        let torn = last_written(&*file, segment.len, size)? - segment.len;
        if torn > 0 {
            tracing::warn!(log = %self.log, segment = segment.first_seq, at = segment.len, torn, "a lineage segment ends in an incomplete frame");
            self.replay.clean = false;
        }
        // The end of an older segment may hold what was written again into the next one; it is left as it is.
        if limit.is_none() {
            self.torn_bytes = torn;
        }
        self.segments.push_back(segment);
        Ok(())
    }

    /// Takes a blank newest segment for one that was never begun: it is removed, if the log really ends where it would begin.
    fn drop_blank(&mut self, first_seq: u64) -> Result<(), OpenFault> {
        let file = segment_name(first_seq);
        if self.replay.next_seq() != first_seq {
            return Err(OpenFault::Damaged { file, what: "it is empty, and so is the place before it" });
        }
        tracing::warn!(log = %self.log, file, "the newest lineage segment is empty; it is taken for one never begun");
        self.replay.clean = false;
        self.leftovers.push(file);
        Ok(())
    }

    /// Makes the directory this process's own: the old end durable, a new segment behind it.
    pub(crate) fn finish(mut self, reserved: &Arc<AtomicU64>) -> Result<(Writer, Recovered), OpenFault> {
        let tree = self.replay.finish()?;
        let promised = self.shipped.max(self.config.published.map(|head| head.size));
        if let Some(want) = promised.filter(|&want| want > tree.size()) {
            return Err(OpenFault::Behind { log: self.log, have: tree.size(), want });
        }
        if let Some(gap) = self.replay.undeclared() {
            return Err(OpenFault::Undeclared { first_seq: gap.first_seq, last_seq: gap.last_seq });
        }
        self.quarantine()?;
        self.end_old()?;
        let boot = self.files.boot_id();
        let epoch = self.last_head.as_ref().map_or(1, |h| h.epoch + 1);
        let recovered = self.report(&tree, epoch, boot, reserved);
        let (segment, file) = self.begin_own(&tree, epoch, boot)?;
        self.segments.pop_back_if(|old| old.first_seq == segment.first_seq);
        self.segments.push_back(segment);
        Ok((self.writer(file, tree, epoch, boot), recovered))
    }

    /// Copies segments that are damaged in the middle, once, for whoever looks into it.
    fn quarantine(&self) -> io::Result<()> {
        let names = self.files.list()?;
        for first_seq in &self.damaged {
            let copy = format!("damaged-{first_seq:020}.lsp");
            if names.contains(&copy) {
                continue;
            }
            let temporary = format!("{copy}.tmp");
            copy_file(&*self.files.open(&segment_name(*first_seq))?, &*self.files.create(&temporary)?)?;
            self.files.rename(&temporary, &copy)?;
            self.files.sync_dir("")?;
        }
        Ok(())
    }

    /// Cuts the last segment behind its last good frame and makes it durable: it was perhaps only in the page cache.
    fn end_old(&self) -> io::Result<()> {
        for name in &self.leftovers {
            // A quarantine copy may have renamed it since.
            drop(self.files.unlink(name));
        }
        let Some(last) = self.segments.back() else { return identity::create(&*self.files, self.log) };
        let file = self.files.open(&segment_name(last.first_seq))?;
        if file.size()? > last.len {
            file.truncate(last.len)?;
        }
        file.sync()?;
        self.files.sync_dir("")
    }

    fn begin_own(&self, tree: &Tree, epoch: u32, boot: [u8; 16]) -> io::Result<(Segment, Arc<dyn Handle>)> {
        let beginning = Beginning {
            head: head_of(self.log, epoch, boot, tree),
            live: &mut self.replay.live.iter().map(|(id, facts)| (*id, &**facts)),
            progress: &self.replay.progress,
            records: &mut std::iter::empty(),
        };
        begin(&*self.files, (self.config.segment_bytes, false), beginning).map(|(segment, file, _)| (segment, file))
    }

    fn report(&self, tree: &Tree, epoch: u32, boot: [u8; 16], reserved: &Arc<AtomicU64>) -> Recovered {
        let same_boot = self.last_head.as_ref().is_none_or(|h| h.boot == boot && boot != [0; 16]);
        let promise = |id| Opened::reserve(id, self.config.record_bytes, reserved);
        let mut orphans: Vec<_> = self.replay.live.iter().map(|(id, facts)| (promise(*id), facts.to_vec())).collect();
        orphans.sort_by_key(|(opened, _)| opened.id);
        let fresh = self.last_head.is_none();
        let recovered = Recovered {
            fresh,
            epoch,
            next_seq: tree.size(),
            head: tree.head(),
            clean: fresh || self.replay.clean,
            same_boot,
            torn_bytes: self.torn_bytes,
            gaps: self.replay.gaps.clone(),
            untold: self.untold(),
            orphans,
            progress: self.replay.progress.clone(),
            undecided: self.replay.undecided.len(),
            segments: self.segments.len(),
        };
        if !recovered.clean {
            tracing::warn!(
                log = %self.log,
                epoch,
                next_seq = recovered.next_seq,
                same_boot,
                torn_bytes = recovered.torn_bytes,
                gaps = recovered.gaps.len(),
                orphans = recovered.orphans.len(),
                "recovered a lineage log that was not ended properly"
            );
        }
        recovered
    }

    /// What the database holds can be told from there, and what is older than the segments from tiles.
    fn untold(&self) -> Option<u64> {
        let told_elsewhere = self.shipped.max(self.segments.front().map(|segment| segment.first_seq)).unwrap_or(0);
        let gaps = self.replay.gaps.iter().filter(|gap| !gap.is_told());
        let mut missing =
            gaps.flat_map(|gap| (gap.first_seq.max(told_elsewhere)..=gap.last_seq).map(move |seq| (gap, seq)));
        missing.find(|(gap, seq)| gap.leaf(*seq).is_none()).map(|(_, seq)| seq)
    }

    fn writer(self, file: Arc<dyn Handle>, tree: Tree, epoch: u32, boot: [u8; 16]) -> Writer {
        let first_seq = self.segments.front().map_or(0, |s| s.first_seq);
        Writer {
            capacity: self.config.segment_bytes,
            reserve: Reserve::None,
            files: self.files,
            config: self.config,
            log: self.log,
            epoch,
            boot,
            bytes: self.segments.iter().map(|s| s.len).sum(),
            segments: self.segments,
            gaps: self.replay.gaps,
            file,
            base: tree.head(),
            durable: tree.clone(),
            tree,
            leaves: Vec::new(),
            live: self.replay.live,
            progress: self.replay.progress,
            recent: self.replay.recent,
            shipped: self.shipped.unwrap_or(first_seq),
            dirty: false,
            syncing: false,
            thread: ThreadState::default(),
            rewrites: 0,
            failed: None,
            writes: 0,
            synced_writes: 0,
            unsynced: Waiting::default(),
            unshipped: Waiting::default(),
            places: Places::default(),
            buf: Vec::new(),
        }
    }
}

fn copy_file(from: &dyn Handle, to: &dyn Handle) -> io::Result<()> {
    let mut buf = vec![0; 256 << 10];
    let mut at = 0;
    loop {
        let got = read_full(from, &mut buf, at)?;
        if got == 0 {
            return to.sync();
        }
        to.write_at(&buf[..got], at)?;
        at += got as u64;
    }
}
