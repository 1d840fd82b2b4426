//! A choice of chat in chunks: one with the role and everything that is null, then reasoning, then the rest of the message,
//! its tool calls last, then the finish reason.

use crate::choices::{Chunks, PIECE, next_piece};
use crate::json::{Json, Member, get, write_str};

/// Texts that may be cut into pieces.
const TEXTS: [&str; 4] = ["reasoning_content", "reasoning", "content", "refusal"];

/// What comes before the answer proper.
const REASONING: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_details"];

pub(super) fn render(index: u64, choice: &[Member<'_>], chunks: &mut Chunks) {
    let message = get(choice, "message").and_then(Json::as_object).unwrap_or_default();
    let logprobs = get(choice, "logprobs").is_some_and(|logprobs| !logprobs.is_null());
    let mut rest = Vec::new();
    for field in choice.iter().filter(|field| !["index", "message", "finish_reason"].contains(&&*field.key)) {
        rest.push(b',');
        field.write(&mut rest);
    }
    let mut deltas = Deltas { chunks, index, rest, piece: if logprobs { usize::MAX } else { PIECE } };
    deltas.role(message);
    for turn in 0..3 {
        message.iter().filter(|field| turn_of(&field.key) == turn).for_each(|field| deltas.field(field));
    }
    deltas.finish(get(choice, "finish_reason").unwrap_or(&Json::Null));
}

/// In JSON the order of fields says nothing; in a stream a text behind a tool call is one that was said after it.
fn turn_of(key: &str) -> u8 {
    match key {
        key if REASONING.contains(&key) => 0,
        "tool_calls" => 2,
        _ => 1,
    }
}

struct Deltas<'s> {
    chunks: &'s mut Chunks,
    index: u64,
    /// The choice's other fields, such as `logprobs`, for the first chunk behind the role; empty afterwards.
    rest: Vec<u8>,
    piece: usize,
}

impl Deltas<'_> {
    /// One chunk whose delta and finish reason `write` appends.
    fn chunk(&mut self, rest: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        self.chunks.chunk(|out| {
            out.extend_from_slice(b"\"index\":");
            out.extend_from_slice(itoa::Buffer::new().format(self.index).as_bytes());
            out.extend_from_slice(b",\"delta\":{");
            write(out);
            out.extend_from_slice(rest);
        });
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
