//! A completion as a stream of `text_completion` events: for each choice its text in pieces, then the finish reason.

use super::answer::index_of;
use bytes::Bytes;
use signet_openai::sse::DONE;
use signet_openai::wire::{Json, Member, PIECE, get, next_piece, write_str};

/// Answer fields that every event repeats; others are only in the first.
const EVERY_EVENT: [&str; 2] = ["model", "system_fingerprint"];

/// `{"id":..,"object":"text_completion","created":..,`
pub(super) fn head(out: &mut Vec<u8>, id: &str, created: u64) {
    out.extend_from_slice(b"{\"id\":");
    write_str(id, out);
    out.extend_from_slice(b",\"object\":\"text_completion\",\"created\":");
    out.extend_from_slice(itoa::Buffer::new().format(created).as_bytes());
    out.push(b',');
}

pub(super) fn render(answer: &Json<'_>, id: &str, created: u64, include_usage: bool) -> Bytes {
    let fields = answer.as_object().expect("an answer is an object");
    let usage = get(fields, "usage").filter(|usage| include_usage && !usage.is_null());
    let mut stream = Stream::new(fields, id, created, usage.is_some());
    for (place, choice) in get(fields, "choices").and_then(Json::as_array).unwrap_or_default().iter().enumerate() {
        stream.choice(index_of(choice, place), choice.as_object().unwrap_or_default());
    }
    if let Some(usage) = usage {
        stream.out.extend_from_slice(&stream.head);
        stream.out.extend_from_slice(b"\"choices\":[],\"usage\":");
        usage.write(&mut stream.out);
        stream.out.extend_from_slice(b"}\n\n");
    }
    stream.out.extend_from_slice(DONE);
    stream.out.into()
}

struct Stream {
    out: Vec<u8>,
    /// The beginning of every event, from `data:` up to its choices.
    head: Vec<u8>,
    /// Fields that only the first event has; empty afterwards.
    once: Vec<u8>,
    /// The end of every event that carries no usage.
    tail: &'static [u8],
}

impl Stream {
    fn new(fields: &[Member<'_>], id: &str, created: u64, with_usage: bool) -> Self {
        let (mut start, mut once) = (b"data: ".to_vec(), Vec::new());
        head(&mut start, id, created);
        for field in fields {
            let to = match &*field.key {
                "choices" | "usage" => continue,
                key if EVERY_EVENT.contains(&key) => &mut start,
                _ => &mut once,
            };
            field.write(to);
            to.push(b',');
        }
        let tail: &[u8] = if with_usage { b"}],\"usage\":null}\n\n" } else { b"}]}\n\n" };
        Self { out: Vec::with_capacity(4096), head: start, once, tail }
    }

    /// A text with log probabilities stays whole, since they are counted by its tokens.
    fn choice(&mut self, index: u64, choice: &[Member<'_>]) {
        let mut rest = Vec::new();
        for field in choice.iter().filter(|field| !["text", "index", "finish_reason"].contains(&&*field.key)) {
            field.write(&mut rest);
            rest.push(b',');
        }
        let whole = get(choice, "logprobs").is_some_and(|logprobs| !logprobs.is_null());
        let mut text = get(choice, "text").and_then(Json::as_str).unwrap_or_default();
        let most = if whole { usize::MAX } else { PIECE };
        while let Some(piece) = next_piece(&mut text, most) {
            self.event(index, piece, &std::mem::take(&mut rest), &Json::Null);
        }
        self.event(index, "", &rest, get(choice, "finish_reason").unwrap_or(&Json::Null));
    }

    fn event(&mut self, index: u64, text: &str, rest: &[u8], finish: &Json<'_>) {
        let Self { out, head, once, tail } = self;
        out.extend_from_slice(head);
        out.append(once);
        out.extend_from_slice(b"\"choices\":[{\"text\":");
        write_str(text, out);
        out.extend_from_slice(b",\"index\":");
        out.extend_from_slice(itoa::Buffer::new().format(index).as_bytes());
        out.push(b',');
        out.extend_from_slice(rest);
        out.extend_from_slice(b"\"finish_reason\":");
        finish.write(out);
        out.extend_from_slice(tail);
    }
}
