//! Passing a stream on while knowing what is in it.

use super::TooLong;
use super::classify::{ChatEvents, Classify, Kind};
use super::frame::Frames;
use bytes::Bytes;

/// Complete events in a row, byte for byte as they came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The bytes, with the blank line that ends the last event.
    pub raw: Bytes,
    /// What they are. Only [`Kind::Ordinary`] events are gathered; every other kind comes alone.
    pub kind: Kind,
    /// How many of the events carry data (comments do not).
    pub events: u32,
}

/// Bytes in any pieces, runs of events out. Concatenated, the runs and the unfinished rest are the bytes that came in.
#[derive(Debug)]
pub struct Splitter<C = ChatEvents> {
    frames: Frames,
    classifier: C,
    /// The special event behind a run that has just been returned: its length and kind.
    next: Option<(usize, Kind)>,
}

impl Splitter {
    /// A splitter for a chat stream of `n` choices that refuses events of more than `max_event_bytes`.
    pub fn new(max_event_bytes: usize, n: u32) -> Self {
        Self::with(max_event_bytes, ChatEvents::new(n))
    }
}

impl<C: Classify> Splitter<C> {
    /// A splitter for a stream whose events `classifier` knows.
    pub fn with(max_event_bytes: usize, classifier: C) -> Self {
        Self { frames: Frames::new(max_event_bytes), classifier, next: None }
    }

    /// Takes what arrived; then call [`Self::next_run`] until there is none.
    pub fn push(&mut self, piece: Bytes) {
        self.frames.push(piece);
    }

    /// The next run of complete events.
    ///
    /// # Errors
    /// An event is too long. What was complete before it has been returned.
    pub fn next_run(&mut self) -> Result<Option<Run>, TooLong> {
        if let Some((len, kind)) = self.next.take() {
            return Ok(Some(Run { raw: self.frames.take(len), kind, events: 1 }));
        }
        let (mut len, mut events) = (0, 0);
        loop {
            let event = match self.frames.event_len(len) {
                Err(too_long) if len == 0 => return Err(too_long),
                Ok(Some(event)) => event,
                Ok(None) | Err(_) => break,
            };
            match self.classifier.classify(&self.frames.rest()[len..len + event]) {
                None => len += event,
                Some(Kind::Ordinary) => (len, events) = (len + event, events + 1),
                Some(kind) if len == 0 => return Ok(Some(Run { raw: self.frames.take(event), kind, events: 1 })),
                Some(kind) => {
                    self.next = Some((event, kind));
                    break;
                }
            }
        }
        if len > 0 {
            return Ok(Some(Run { raw: self.frames.take(len), kind: Kind::Ordinary, events }));
        }
        self.frames.hold();
        Ok(None)
    }

    /// Whether every choice has had its finish reason: from here on a clean end is a complete answer.
    pub fn all_finished(&self) -> bool {
        self.classifier.all_finished()
    }

    /// The stream has ended: its last event, if it was complete, and the bytes of an unfinished one, which no reader of
    /// events would ever see.
    pub fn finish(&mut self) -> (Option<Run>, Bytes) {
        let (last, rest) = self.frames.finish();
        let run = last.map(|raw| {
            let kind = self.classifier.classify(&raw);
            Run { events: u32::from(kind.is_some()), kind: kind.unwrap_or(Kind::Ordinary), raw }
        });
        (run, rest)
    }
}
