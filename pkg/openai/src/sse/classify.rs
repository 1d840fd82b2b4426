//! What an event of a chat stream is, at the price of a few substring searches for nearly all of them.

use super::frame::{BOM, field, lines};
use crate::json::Json;
use memchr::memmem::Finder;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// What an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Pass it on: a part of the answer, a comment, anything unknown.
    Ordinary,
    /// With this event the last choice has its finish reason.
    Finished,
    /// Usage and no choices; not for a caller who did not ask for it.
    Usage,
    /// `[DONE]`.
    Done,
    /// The provider reports a failure inside the stream.
    Error,
}

/// The searches. In JSON text a quote inside a string is escaped, so `"error"` can only be a key or a whole string; text
/// that talks about errors costs nothing.
struct Needles {
    error: Finder<'static>,
    finish: Finder<'static>,
    choices: Finder<'static>,
}

static NEEDLES: LazyLock<Needles> = LazyLock::new(|| Needles {
    error: Finder::new(b"\"error\""),
    finish: Finder::new(b"\"finish_reason\""),
    choices: Finder::new(b"\"choices\""),
});

/// Tells what events are, each API by its own rules.
pub trait Classify {
    /// What the event is; none if it carries no data. `raw` is one complete event.
    fn classify(&mut self, raw: &[u8]) -> Option<Kind>;

    /// Whether the answer is whole: from here on a clean end of the stream is a complete answer.
    fn all_finished(&self) -> bool;
}

/// The events of a chat stream.
#[derive(Debug)]
pub struct ChatEvents {
    choices: usize,
    finished: BTreeSet<u64>,
    first: bool,
}

impl Classify for ChatEvents {
    fn classify(&mut self, raw: &[u8]) -> Option<Kind> {
        let (name, data) = name_and_data(raw, std::mem::take(&mut self.first))?;
        Some(if name == b"error" { Kind::Error } else { self.of_data(&data) })
    }

    fn all_finished(&self) -> bool {
        self.finished.len() >= self.choices
    }
}

impl ChatEvents {
    /// For a stream of `n` choices.
    pub fn new(n: u32) -> Self {
        Self { choices: n as usize, finished: BTreeSet::new(), first: true }
    }

    fn of_data(&mut self, data: &[u8]) -> Kind {
        if data.trim_ascii() == b"[DONE]" {
            return Kind::Done;
        }
        if !may_be_special(data) {
            return Kind::Ordinary;
        }
        let Ok(chunk) = Json::parse(data) else { return Kind::Ordinary };
        if is_failure(&chunk) {
            return Kind::Error;
        }
        let choices = chunk.get("choices").and_then(Json::as_array).unwrap_or_default();
        if choices.is_empty() && chunk.get("usage").is_some_and(|usage| usage.as_object().is_some()) {
            return Kind::Usage;
        }
        let before = self.all_finished();
        let ended = choices.iter().filter(|choice| finish_reason(choice).is_some());
        self.finished.extend(ended.map(|choice| choice.get("index").and_then(Json::as_u64).unwrap_or(0)));
        if !before && self.all_finished() { Kind::Finished } else { Kind::Ordinary }
    }
}

/// A complete event's name, empty where it has none, and its data lines joined by LF; none if it carries no data. Only the
/// `first` of a stream may begin with a byte order mark.
pub fn name_and_data(raw: &[u8], first: bool) -> Option<(&[u8], Cow<'_, [u8]>)> {
    let raw = raw.strip_prefix(BOM).filter(|_| first).unwrap_or(raw);
    let (mut name, mut data): (&[u8], Option<Cow<'_, [u8]>>) = (b"", None);
    for line in lines(raw) {
        match field(line) {
            (b"data", value) => match &mut data {
                None => data = Some(Cow::Borrowed(value)),
                Some(data) => {
                    data.to_mut().push(b'\n');
                    data.to_mut().extend_from_slice(value);
                }
            },
            (b"event", value) => name = value,
            _ => {}
        }
    }
    Some((name, data?))
}

/// Whether a chunk reports a failure instead of a part of an answer.
pub fn is_failure(chunk: &Json<'_>) -> bool {
    chunk.get("error").is_some_and(|error| !error.is_null())
}

/// Why a choice has ended, if it has: some providers send an empty reason with every chunk.
fn finish_reason<'c>(choice: &'c Json<'_>) -> Option<&'c str> {
    choice.get("finish_reason").and_then(Json::as_str).filter(|reason| !reason.is_empty())
}

/// False for the common chunk: choices that are not empty, no finish reason but null, no error.
fn may_be_special(data: &[u8]) -> bool {
    let needles = &*NEEDLES;
    let Some(choices) = needles.choices.find(data) else { return true };
    let empty = behind_colon(&data[choices + b"\"choices\"".len()..])
        .is_none_or(|value| !value.strip_prefix(b"[").is_some_and(|items| items.trim_ascii_start().starts_with(b"{")));
    let finish = b"\"finish_reason\"".len();
    empty
        || needles
            .finish
            .find_iter(data)
            .any(|at| behind_colon(&data[at + finish..]).is_none_or(|value| !value.starts_with(b"null")))
        || needles.error.find(data).is_some()
}

/// What follows the colon behind a key.
fn behind_colon(text: &[u8]) -> Option<&[u8]> {
    text.trim_ascii_start().strip_prefix(b":").map(<[u8]>::trim_ascii_start)
}
