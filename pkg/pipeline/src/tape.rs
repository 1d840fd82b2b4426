//! What a provider has streamed so far, for those who share the stream.
//!
//! Runs are copied: as hyper hands them out they are slices of a read buffer of 8 KB and more, which a short run would keep
//! alive. From its first byte on the whole stream is kept, so that one more may join at any time, up to a bound for each
//! stream and one for all; beyond either nobody may join any more, and what everyone has had is dropped.

use bytes::{Bytes, BytesMut};
use signet_dialect::sse::Run;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Copies share allocations that grow from the first of these sizes to the second: many streams are short, and of each the
/// last allocation is half empty.
const SEGMENT: (usize, usize) = (1 << 10, 4 << 10);

/// The bounds of a tape, in bytes.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    pub(crate) tape: usize,
    /// Of all tapes of the process together, and how much they hold now.
    pub(crate) total: usize,
    pub(crate) held: Arc<AtomicUsize>,
}

/// Runs of a stream, numbered from 0.
#[derive(Debug)]
pub(crate) struct Tape {
    bounds: Bounds,
    /// The number of the first run that is still here.
    first: u64,
    runs: VecDeque<Run>,
    segment: BytesMut,
    segment_size: usize,
    /// Bytes that have come, and that are still here.
    came: u64,
    held: usize,
    /// Whether runs were or may be dropped.
    closed: bool,
}

impl Tape {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let (first, runs, segment) = (0, VecDeque::new(), BytesMut::new());
        Self { bounds, first, runs, segment, segment_size: SEGMENT.0, came: 0, held: 0, closed: false }
    }

    /// One for a single reader: each run goes when that has had it.
    pub(crate) fn unshared(bounds: Bounds) -> Self {
        let mut tape = Self::new(bounds);
        tape.closed = true;
        tape
    }

    /// How many runs have come.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.runs.len() as u64
    }

    /// How many bytes have come.
    pub(crate) fn came(&self) -> u64 {
        self.came
    }

    /// The run with this number. One that was dropped is asked for by nobody: everyone who may still ask has had it.
    pub(crate) fn run(&self, number: u64) -> Option<&Run> {
        self.runs.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// Whether someone who has had nothing could still be given all of it.
    pub(crate) fn is_whole(&self) -> bool {
        !self.closed
    }

    /// Keeps a run.
    pub(crate) fn push(&mut self, run: &Run) {
        let raw = self.copied(&run.raw);
        self.came += raw.len() as u64;
        self.held += raw.len();
        let total = self.bounds.held.fetch_add(raw.len(), Ordering::Relaxed) + raw.len();
        self.closed |= self.held > self.bounds.tape || total > self.bounds.total;
        self.runs.push_back(Run { raw, kind: run.kind, events: run.events });
    }

    /// Drops what is before `from`, if nobody may join any more.
    pub(crate) fn drop_before(&mut self, from: u64) {
        while self.closed && self.first < from {
            let Some(run) = self.runs.pop_front() else { return };
            self.first += 1;
            self.held -= run.raw.len();
            self.bounds.held.fetch_sub(run.raw.len(), Ordering::Relaxed);
        }
    }

    fn copied(&mut self, raw: &[u8]) -> Bytes {
        if self.segment.capacity() < raw.len() {
            self.segment.reserve(self.segment_size.max(raw.len())); // takes the old one again, if all of it was dropped
            self.segment_size = (self.segment_size * 2).min(SEGMENT.1);
        }
        self.segment.extend_from_slice(raw);
        self.segment.split().freeze()
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        self.bounds.held.fetch_sub(self.held, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signet_dialect::sse::Kind;

    fn run(text: &str) -> Run {
        Run { raw: Bytes::copy_from_slice(text.as_bytes()), kind: Kind::Ordinary, events: 1 }
    }

    fn tape(tape: usize, total: usize) -> (Tape, Arc<AtomicUsize>) {
        let held = Arc::new(AtomicUsize::new(0));
        (Tape::new(Bounds { tape, total, held: held.clone() }), held)
    }

    #[test]
    fn what_came_is_kept_from_the_first_byte_while_someone_may_join() {
        let (mut tape, held) = tape(100, 100);
        (0..40).for_each(|i| tape.push(&run(&format!("{i:02}"))));
        tape.drop_before(40);
        assert!((0..40).all(|i| tape.run(i).expect("kept").raw == format!("{i:02}")));
        assert_eq!(tape.end(), 40);
        assert!(tape.is_whole() && tape.run(40).is_none());
        assert_eq!(held.load(Ordering::Relaxed), 80);
        drop(tape);
        assert_eq!(held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn beyond_its_own_bound_or_that_of_all_it_is_closed_and_drops_what_everyone_has_had() {
        for (own, total) in [(9, 100), (100, 9)] {
            let (mut tape, held) = tape(own, total);
            (0..4).for_each(|_| tape.push(&run("abc")));
            assert!(!tape.is_whole());
            tape.drop_before(3);
            assert!(tape.run(2).is_none() && tape.run(3).is_some());
            assert_eq!((tape.end(), held.load(Ordering::Relaxed)), (4, 3));
        }
    }

    #[test]
    fn an_unshared_tape_holds_what_its_reader_has_not_had_and_writes_over_the_rest() {
        let (_, held) = tape(1 << 20, 1 << 20);
        let mut tape = Tape::unshared(Bounds { tape: 1 << 20, total: 1 << 20, held: held.clone() });
        let mut places = std::collections::HashSet::new();
        for number in 0..10_000 {
            tape.push(&run("as long as an event"));
            let (from, held) =
                (tape.run(number).expect("not had yet").raw.as_ptr() as usize, held.load(Ordering::Relaxed));
            places.insert(from >> 12);
            tape.drop_before(number + 1);
            assert_eq!((held, tape.run(number).is_some()), (19, false));
        }
        assert!(places.len() <= 8, "three allocations, which lie on {} pages", places.len());
    }

    #[test]
    fn a_run_longer_than_a_segment_is_kept_too() {
        let (mut tape, _) = tape(1 << 20, 1 << 20);
        let long = "x".repeat(3 * SEGMENT.1);
        tape.push(&run("a"));
        tape.push(&run(&long));
        assert_eq!(tape.run(1).map(|run| run.raw.len()), Some(long.len()));
    }
}
