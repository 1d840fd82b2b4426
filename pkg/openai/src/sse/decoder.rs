//! Reading events.

use super::TooLong;
use super::frame::{BOM, Frames, field, lines};
use bytes::Bytes;

/// An event with data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The `event` field; empty means `message`.
    pub event: Bytes,
    /// The `data` lines joined by LF. A single line is a slice of what arrived.
    pub data: Bytes,
    /// The last event id that was sent so far; empty for none.
    pub id: Bytes,
}

/// Bytes in any pieces, events out.
#[derive(Debug)]
pub struct Decoder {
    frames: Frames,
    first: bool,
    id: Bytes,
}

impl Decoder {
    /// A decoder that refuses events of more than `max_event_bytes`.
    pub fn new(max_event_bytes: usize) -> Self {
        Self { frames: Frames::new(max_event_bytes), first: true, id: Bytes::new() }
    }

    /// Takes what arrived; then call [`Self::next_event`] until there is none.
    pub fn push(&mut self, piece: Bytes) {
        self.frames.push(piece);
    }

    /// The next complete event.
    ///
    /// # Errors
    /// An event is too long; the decoder is of no more use.
    pub fn next_event(&mut self) -> Result<Option<Event>, TooLong> {
        while let Some(len) = self.frames.event_len(0)? {
            let raw = self.frames.take(len);
            if let Some(event) = self.read(&raw) {
                return Ok(Some(event));
            }
        }
        self.frames.hold();
        Ok(None)
    }

    /// The stream has ended: its last event, if it was complete. An unfinished one is dropped, as the standard says.
    pub fn finish(mut self) -> Option<Event> {
        let raw = self.frames.finish().0?;
        self.read(&raw)
    }

    fn read(&mut self, raw: &Bytes) -> Option<Event> {
        let raw =
            if std::mem::take(&mut self.first) && raw.starts_with(BOM) { raw.slice(BOM.len()..) } else { raw.clone() };
        let (mut event, mut data) = (Bytes::new(), Data::None);
        for line in lines(&raw) {
            match field(line) {
                (b"data", value) => data.push(&raw, value),
                (b"event", value) => event = raw.slice_ref(value),
                (b"id", value) if !value.contains(&0) => self.id = raw.slice_ref(value),
                _ => {}
            }
        }
        Some(Event { event, data: data.into_bytes()?, id: self.id.clone() })
    }
}

/// The data lines seen so far; only a second one costs a copy.
enum Data {
    None,
    One(Bytes),
    Many(Vec<u8>),
}

impl Data {
    fn push(&mut self, raw: &Bytes, line: &[u8]) {
        *self = match std::mem::replace(self, Self::None) {
            Self::None => Self::One(raw.slice_ref(line)),
            Self::One(first) => Self::Many([&first[..], b"\n", line].concat()),
            Self::Many(mut all) => {
                all.push(b'\n');
                all.extend_from_slice(line);
                Self::Many(all)
            }
        };
    }

    fn into_bytes(self) -> Option<Bytes> {
        match self {
            Self::None => None,
            Self::One(line) => Some(line),
            Self::Many(all) => Some(all.into()),
        }
    }
}

/// The data of the events in `raw`, which holds complete events such as a [`super::Run`].
pub fn events(raw: &Bytes) -> impl Iterator<Item = Bytes> {
    complete(raw).map(|event| event.data)
}

/// The events in `raw`, which holds complete events such as a [`super::Run`].
pub fn complete(raw: &Bytes) -> impl Iterator<Item = Event> {
    let mut decoder = Decoder::new(usize::MAX);
    decoder.push(raw.clone());
    let mut decoder = Some(decoder);
    std::iter::from_fn(move || match decoder.as_mut()?.next_event() {
        Ok(Some(event)) => Some(event),
        // An event that ends with a lone CR: no LF follows, since what is here is complete.
        _ => decoder.take()?.finish(),
    })
}
