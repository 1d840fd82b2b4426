//! An answer as a stream of `chat.completion.chunk` events.
//!
//! For each choice: a chunk with the role and everything that is null, then reasoning, then the rest of the message, then
//! the finish reason. Long texts come in pieces, since readers of a stream expect several deltas.

use super::{head, index_of};
use crate::json::{Json, Member, get, write_str};
use crate::sse::DONE;
use bytes::Bytes;

/// Most bytes of text in one delta.
pub const PIECE: usize = 128;

/// Texts that may be cut into pieces.
const TEXTS: [&str; 4] = ["reasoning_content", "reasoning", "content", "refusal"];

/// What comes before the answer proper.
const REASONING: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_details"];

/// Answer fields that every chunk repeats; others are only in the first.
const EVERY_CHUNK: [&str; 3] = ["model", "system_fingerprint", "service_tier"];

pub(super) fn render(answer: &Json<'_>, id: &str, created: u64, include_usage: bool) -> Bytes {
    let fields = answer.as_object().expect("an answer is an object");
    let usage = get(fields, "usage").filter(|usage| include_usage && !usage.is_null());
    let mut stream = Stream::new(fields, id, created, usage.is_some());
    for (position, choice) in get(fields, "choices").and_then(Json::as_array).unwrap_or_default().iter().enumerate() {
        stream.choice(index_of(choice, position), choice.as_object().unwrap_or_default());
    }
    if let Some(usage) = usage {
        stream.usage(usage);
    }
    stream.out.extend_from_slice(DONE);
    stream.out.into()
}

struct Stream {
    out: Vec<u8>,
    /// The beginning of every chunk, from `data:` up to its choices.
    head: Vec<u8>,
    /// Fields that only the first chunk has; empty afterwards.
    once: Vec<u8>,
    /// The end of every chunk that carries no usage.
    tail: &'static [u8],
}

impl Stream {
    fn new(fields: &[Member<'_>], id: &str, created: u64, with_usage: bool) -> Self {
        let (mut start, mut once) = (b"data: ".to_vec(), Vec::new());
        head(&mut start, id, "chat.completion.chunk", created);
        for field in fields {
            let to = match &*field.key {
                "choices" | "usage" => continue,
                key if EVERY_CHUNK.contains(&key) => &mut start,
                _ => &mut once,
            };
            field.write(to);
            to.push(b',');
        }
        let tail: &[u8] = if with_usage { b"}],\"usage\":null}\n\n" } else { b"}]}\n\n" };
        Self { out: Vec::with_capacity(4096), head: start, once, tail }
    }

    fn choice(&mut self, index: u64, choice: &[Member<'_>]) {
        let message = get(choice, "message").and_then(Json::as_object).unwrap_or_default();
        let logprobs = get(choice, "logprobs").is_some_and(|logprobs| !logprobs.is_null());
        let mut rest = Vec::new();
        for field in choice.iter().filter(|field| !["index", "message", "finish_reason"].contains(&&*field.key)) {
            rest.push(b',');
            field.write(&mut rest);
        }
        let mut deltas = Deltas { stream: self, index, rest, piece: if logprobs { usize::MAX } else { PIECE } };
        deltas.role(message);
        let reasoning = |field: &&Member<'_>| REASONING.contains(&&*field.key);
        message.iter().filter(reasoning).for_each(|field| deltas.field(field));
        message.iter().filter(|field| !reasoning(field)).for_each(|field| deltas.field(field));
        deltas.finish(get(choice, "finish_reason").unwrap_or(&Json::Null));
    }

    fn usage(&mut self, usage: &Json<'_>) {
        self.out.extend_from_slice(&self.head);
        self.out.extend_from_slice(b"\"choices\":[],\"usage\":");
        usage.write(&mut self.out);
        self.out.extend_from_slice(b"}\n\n");
    }
}

struct Deltas<'s> {
    stream: &'s mut Stream,
    index: u64,
    /// The choice's other fields, such as `logprobs`, for the first chunk behind the role; empty afterwards.
    rest: Vec<u8>,
    piece: usize,
}

impl Deltas<'_> {
    /// One chunk whose delta and finish reason `write` appends.
    fn chunk(&mut self, rest: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        let Stream { out, head, once, tail } = &mut *self.stream;
        out.extend_from_slice(head);
        out.append(once);
        out.extend_from_slice(b"\"choices\":[{\"index\":");
        out.extend_from_slice(itoa::Buffer::new().format(self.index).as_bytes());
        out.extend_from_slice(b",\"delta\":{");
        write(out);
        out.extend_from_slice(rest);
        out.extend_from_slice(tail);
    }

    fn delta(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let rest = std::mem::take(&mut self.rest);
        self.chunk(&rest, |out| {
            write(out);
            out.extend_from_slice(b"},\"finish_reason\":null");
        });
    }

    fn role(&mut self, message: &[Member<'_>]) {
        self.chunk(b"", |out| {
            out.extend_from_slice(b"\"role\":");
            get(message, "role").unwrap_or(&Json::String("assistant".into())).write(out);
            for field in message {
                match (&*field.key, &field.value) {
                    ("role", _) => {}
                    ("content", Json::String(_)) => out.extend_from_slice(b",\"content\":\"\""),
                    (_, Json::Null) => {
                        out.push(b',');
                        field.write(out);
                    }
                    _ => {}
                }
            }
            out.extend_from_slice(b"},\"finish_reason\":null");
        });
    }

    fn field(&mut self, field: &Member<'_>) {
        match (&*field.key, &field.value) {
            ("role", _) | (_, Json::Null) => {}
            ("content", Json::String(text)) if text.is_empty() => {}
            (key, Json::String(text)) if TEXTS.contains(&key) && !text.is_empty() => {
                let mut rest: &str = text;
                while let Some(piece) = next_piece(&mut rest, self.piece) {
                    self.delta(|out| {
                        write_str(key, out);
                        out.push(b':');
                        write_str(piece, out);
                    });
                }
            }
            ("tool_calls", Json::Array(calls)) if !calls.is_empty() => {
                for (index, call) in calls.iter().enumerate() {
                    self.delta(|out| write_call(index, call.as_object().unwrap_or_default(), out));
                }
            }
            _ => self.delta(|out| field.write(out)),
        }
    }

    fn finish(&mut self, reason: &Json<'_>) {
        let rest = std::mem::take(&mut self.rest);
        self.chunk(&rest, |out| {
            out.extend_from_slice(b"},\"finish_reason\":");
            reason.write(out);
        });
    }
}

fn write_call(index: usize, call: &[Member<'_>], out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"tool_calls\":[{\"index\":");
    out.extend_from_slice(itoa::Buffer::new().format(index).as_bytes());
    for field in call.iter().filter(|field| field.key != "index") {
        out.push(b',');
        field.write(out);
    }
    out.extend_from_slice(b"}]");
}

/// Takes at most `most` bytes off the front, up to a space if there is one, never within a character.
pub fn next_piece<'t>(rest: &mut &'t str, most: usize) -> Option<&'t str> {
    if rest.is_empty() {
        return None;
    }
    let text = *rest;
    let end = text.floor_char_boundary(most);
    let end = match text[..end].rfind(' ') {
        Some(space) if end < text.len() => space + 1,
        _ => end,
    };
    let (piece, behind) = text.split_at(end);
    *rest = behind;
    Some(piece)
}
