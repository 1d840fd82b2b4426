//! Where events end. One unfinished event is held; complete ones are slices of what arrived, without a copy unless the
//! event came in several pieces.

use super::TooLong;
use bytes::{Bytes, BytesMut};
use memchr::memchr2;

/// Cuts bytes between events.
///
/// An event ends with its blank line. A lone CR at the end of what has arrived is not yet taken as the end of a line: the
/// LF that may follow belongs to it, and cutting there would make results depend on where the network cut.
#[derive(Debug)]
pub(super) struct Frames {
    /// The beginning of an event that came in an earlier piece.
    held: BytesMut,
    /// The rest of the newest piece; empty whenever `held` is not.
    fresh: Bytes,
    scan: Scan,
    limit: usize,
}

impl Frames {
    pub(super) fn new(limit: usize) -> Self {
        Self { held: BytesMut::new(), fresh: Bytes::new(), scan: Scan::default(), limit }
    }

    /// Takes what arrived.
    pub(super) fn push(&mut self, piece: Bytes) {
        if self.held.is_empty() && self.fresh.is_empty() {
            self.fresh = piece;
        } else {
            self.hold();
            self.held.extend_from_slice(&piece);
        }
    }

    /// The bytes not yet taken.
    pub(super) fn rest(&self) -> &[u8] {
        if self.held.is_empty() { &self.fresh } else { &self.held }
    }

    /// The length of the event that begins at `from` in [`Self::rest`]; none if it is not complete yet.
    pub(super) fn event_len(&mut self, from: usize) -> Result<Option<usize>, TooLong> {
        let rest = if self.held.is_empty() { &self.fresh[..] } else { &self.held[..] };
        let event = &rest[from..];
        let end = self.scan.end(event);
        let seen = end.unwrap_or(event.len());
        if end.is_some() {
            self.scan = Scan::default();
        }
        if seen > self.limit { Err(TooLong { limit: self.limit }) } else { Ok(end) }
    }

    /// Takes the first `len` bytes.
    pub(super) fn take(&mut self, len: usize) -> Bytes {
        if self.held.is_empty() { self.fresh.split_to(len) } else { self.held.split_to(len).freeze() }
    }

    /// Keeps the unfinished event until more arrives.
    pub(super) fn hold(&mut self) {
        if !self.fresh.is_empty() {
            self.held.extend_from_slice(&self.fresh);
            self.fresh = Bytes::new();
        }
    }

    /// The end of the stream: the last event if only the LF of its last CR was awaited, and what is left.
    pub(super) fn finish(&mut self) -> (Option<Bytes>, Bytes) {
        let rest = self.rest().len();
        let complete = rest > 0 && self.scan.at_blank_line(self.rest());
        let rest = self.take(rest);
        self.scan = Scan::default();
        if complete { (Some(rest), Bytes::new()) } else { (None, rest) }
    }
}

/// How far the unfinished event has been looked at.
#[derive(Debug, Default, Clone, Copy)]
struct Scan {
    /// Where its current line begins.
    line: usize,
    /// How far no line end is.
    seen: usize,
}

impl Scan {
    /// Behind the blank line, if there is one.
    fn end(&mut self, event: &[u8]) -> Option<usize> {
        while let Some(found) = memchr2(b'\n', b'\r', &event[self.seen..]) {
            let at = self.seen + found;
            let next = match (event[at], event.get(at + 1)) {
                (b'\r', None) => {
                    self.seen = at;
                    return None;
                }
                (b'\r', Some(b'\n')) => at + 2,
                _ => at + 1,
            };
            let blank = at == self.line;
            *self = Self { line: next, seen: next };
            if blank {
                return Some(next);
            }
        }
        self.seen = event.len();
        None
    }

    fn at_blank_line(self, event: &[u8]) -> bool {
        event.get(self.line) == Some(&b'\r') && self.line + 1 == event.len()
    }
}

/// The lines of a complete event, without their ends.
pub(super) fn lines(event: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = event;
    std::iter::from_fn(move || {
        let at = memchr2(b'\n', b'\r', rest)?;
        let line = &rest[..at];
        let end = if rest[at..].starts_with(b"\r\n") { at + 2 } else { at + 1 };
        rest = &rest[end..];
        Some(line)
    })
}

/// A line as field name and value; one space behind the colon is not part of the value.
pub(super) fn field(line: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b':', line) {
        Some(colon) => {
            let value = &line[colon + 1..];
            (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
        }
        None => (line, b""),
    }
}

/// A stream may begin with a byte order mark, which belongs to no line.
pub(super) const BOM: &[u8] = b"\xEF\xBB\xBF";
