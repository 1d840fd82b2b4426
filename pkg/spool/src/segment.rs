//! Segments: what is known of each in RAM, how one is begun, and how its records are read.

use crate::files::{Files, Handle};
use crate::frame::{Kind, Seed, SegmentHead, put_close, put_open, put_progress, segment_name};
use crate::reserve;
use crate::scan::Scanner;
use signet_lineage::{Record, Tree};
use signet_types::{LineageId, LogId};
use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

/// An index entry for each such run of bytes.
const STRIDE: u64 = 64 << 10;

/// A segment in the directory.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub(crate) first_seq: u64,
    pub(crate) epoch: u32,
    /// Bytes used; the file may be longer.
    pub(crate) len: u64,
    /// Bytes used when it was begun: header and carried frames.
    pub(crate) start: u64,
    /// `(seq, offset)`, ascending: no record below `seq` stands at or behind `offset`.
    index: Vec<(u64, u64)>,
    /// Times in the ids of its records, milliseconds since the Unix epoch.
    pub(crate) oldest_ms: u64,
    pub(crate) newest_ms: u64,
}

impl Segment {
    pub(crate) fn new(head: &SegmentHead) -> Self {
        let (first_seq, start) = (head.tree.size(), head.len() as u64);
        let index = vec![(first_seq, start)];
        Self { first_seq, epoch: head.epoch, len: start, start, index, oldest_ms: u64::MAX, newest_ms: 0 }
    }

    /// A segment of which nothing but the header was read, used up to `len`.
    pub(crate) fn unread(head: &SegmentHead, len: u64) -> Self {
        Self { len, ..Self::new(head) }
    }

    /// Notes a record at `offset`.
    pub(crate) fn note(&mut self, id: LineageId, seq: u64, offset: u64) {
        self.oldest_ms = self.oldest_ms.min(id.unix_ms());
        self.newest_ms = self.newest_ms.max(id.unix_ms());
        if self.index.last().is_some_and(|&(_, last)| offset >= last + STRIDE) {
            self.index.push((seq, offset));
        }
    }

    fn offset_before(&self, seq: u64) -> u64 {
        let after = self.index.partition_point(|&(first, _)| first <= seq);
        self.index[after.saturating_sub(1)].1
    }

    /// Everything that reading its records with `from <= seq < below` needs, without the log's lock.
    pub(crate) fn span(&self, from: u64, below: u64) -> Span {
        Span {
            first_seq: self.first_seq,
            epoch: self.epoch,
            offset: self.offset_before(from),
            end: self.len,
            from,
            below,
        }
    }
}

/// A part of a segment to be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) first_seq: u64,
    epoch: u32,
    offset: u64,
    end: u64,
    from: u64,
    below: u64,
}

impl Span {
    /// Gives the records to `each` in order until it breaks. Damage is skipped: recovery reports it, and the database
    /// takes nothing behind a hole.
    pub(crate) fn read(
        &self,
        files: &dyn Files,
        log: LogId,
        mut each: impl FnMut(Record) -> ControlFlow<()>,
    ) -> io::Result<()> {
        let file = files.open(&segment_name(self.first_seq))?;
        let mut scanner = Scanner::new(file, Seed::new(log, self.first_seq), self.offset, self.end);
        loop {
            while let Some(frame) = scanner.next()? {
                if frame.kind == Kind::Close && frame.seq >= self.below {
                    return Ok(());
                }
                if frame.kind == Kind::Close && frame.seq >= self.from && each(frame.record(log, self.epoch)).is_break()
                {
                    return Ok(());
                }
            }
            let damaged_at = scanner.at();
            if !scanner.resync()? {
                return Ok(());
            }
            tracing::warn!(
                segment = self.first_seq,
                damaged_at,
                good_at = scanner.at(),
                "skipped damage while reading"
            );
        }
    }
}

/// What a new segment begins with.
pub(crate) struct Beginning<'a> {
    pub(crate) head: SegmentHead,
    /// Requests in flight: with them in every segment, no older one is needed to find orphans.
    pub(crate) live: &'a mut dyn Iterator<Item = (LineageId, &'a [u8])>,
    /// How far their answers had come.
    pub(crate) progress: &'a HashMap<LineageId, u64>,
    /// Records that the disk may not have: from seq `head.tree.size()` on.
    pub(crate) records: &'a mut dyn Iterator<Item = Arc<Record>>,
}

/// Writes a new segment and makes it durable before it gets its name, so that a named segment is always whole. On a full disk
/// it is made of the reserve, if it may; the last value says that it was.
pub(crate) fn begin(
    files: &dyn Files,
    (preallocate, from_reserve): (u64, bool),
    beginning: Beginning<'_>,
) -> io::Result<(Segment, Arc<dyn Handle>, bool)> {
    let (segment, bytes) = encode(beginning);
    let name = segment_name(segment.first_seq);
    let temporary = format!("{name}.tmp");
    let mut reserved = false;
    let written = match write_whole(files, &temporary, preallocate, &bytes) {
        Err(e) if from_reserve && reserve::is_full(&e) => {
            reserved = true;
            reserve::spend(files, &temporary, &bytes)
        }
        other => other,
    };
    let written = written.and_then(|file| {
        files.rename(&temporary, &name)?;
        files.sync_dir("")?;
        Ok(file)
    });
    match written {
        Ok(file) => Ok((segment, file, reserved)),
        Err(e) => {
            // Best effort: a leftover is removed at the next recovery.
            drop(files.unlink(&temporary));
            Err(e)
        }
    }
}

fn encode(beginning: Beginning<'_>) -> (Segment, Vec<u8>) {
    let Beginning { head, live, progress, records } = beginning;
    let mut segment = Segment::new(&head);
    let seed = Seed::new(head.log, segment.first_seq);
    let mut bytes = Vec::with_capacity(4096);
    head.put(&mut bytes);
    for (id, facts) in live {
        put_open(&mut bytes, seed, segment.first_seq, id, facts);
    }
    for (id, so_far) in progress {
        put_progress(&mut bytes, seed, segment.first_seq, *id, *so_far);
    }
    for record in records {
        segment.note(record.id, record.seq, bytes.len() as u64);
        put_close(&mut bytes, seed, &record);
    }
    segment.len = bytes.len() as u64;
    segment.start = segment.len;
    (segment, bytes)
}

fn write_whole(files: &dyn Files, name: &str, preallocate: u64, bytes: &[u8]) -> io::Result<Arc<dyn Handle>> {
    let file = files.create(name)?;
    file.preallocate(preallocate.max(bytes.len() as u64))?;
    file.write_at(bytes, 0)?;
    file.sync()?;
    Ok(file)
}

/// The header of a new segment behind `tree`.
pub(crate) fn head_of(log: LogId, epoch: u32, boot: [u8; 16], tree: &Tree) -> SegmentHead {
    SegmentHead { log, epoch, boot, tree: tree.clone() }
}
