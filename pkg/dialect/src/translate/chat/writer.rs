//! Writing chat events.

use crate::pivot::{Delta, Opening, RawStr, Stop, Tokens, Trouble};
use crate::translate::error::openai_type;
use crate::translate::{Untranslatable, Wanted, WriteEvents};
use bytes::{BufMut, BytesMut};
use signet_openai::sse::DONE;

/// Writes `chat.completion.chunk` events of a single choice.
///
/// Thoughts are `reasoning_content`. Seals over thoughts, and thoughts that only the provider can read, have no place in
/// the API and are left out.
#[derive(Debug)]
pub(crate) struct Writer {
    wanted: Wanted<'static>,
    /// Every chunk up to its delta's braces.
    head: Vec<u8>,
    block: Option<Block>,
    /// How many tool calls have begun.
    calls: u32,
    usage: Option<Tokens>,
    done: bool,
}

#[derive(Debug)]
struct Block {
    at: u32,
    /// The key of the text that it adds to; none for a call.
    key: Option<&'static [u8]>,
    /// Whether a call has had arguments.
    filled: bool,
}

/// The end of a chunk behind its delta.
const TAIL: &[u8] = b"},\"logprobs\":null,\"finish_reason\":null}]}\n\n";

impl Writer {
    pub(crate) fn new(wanted: Wanted<'_>) -> Self {
        let wanted = Wanted { usage: wanted.usage, created: wanted.created, asked: None };
        Self { wanted, head: Vec::new(), block: None, calls: 0, usage: None, done: false }
    }

    fn start(&mut self, id: RawStr<'_>, model: RawStr<'_>) {
        let head = &mut self.head;
        put(
            head,
            &[b"data: {\"id\":\"", id.as_str().as_bytes(), b"\",\"object\":\"chat.completion.chunk\",\"created\":"],
        );
        head.put(itoa::Buffer::new().format(self.wanted.created).as_bytes());
        put(head, &[b",\"model\":\"", model.as_str().as_bytes(), b"\",\"choices\":"]);
    }

    /// A chunk whose delta has these members.
    fn chunk(&self, delta: &[&[u8]], out: &mut BytesMut) {
        put(out, &[&self.head, b"[{\"index\":0,\"delta\":{"]);
        put(out, delta);
        out.extend_from_slice(TAIL);
    }

    fn open(&mut self, at: u32, what: Opening<'_>, out: &mut BytesMut) {
        let key: Option<&[u8]> = match what {
            Opening::Text => Some(b"\"content\":\""),
            Opening::Refusal => Some(b"\"refusal\":\""),
            Opening::Thinking | Opening::Sealed(_) => Some(b"\"reasoning_content\":\""),
            Opening::Call { id, name } => {
                let mut index = itoa::Buffer::new();
                let index = index.format(self.calls).as_bytes();
                self.calls += 1;
                let (id, name) = (id.as_str().as_bytes(), name.as_str().as_bytes());
                let kind = b"\",\"type\":\"function\",\"function\":{\"name\":\"";
                let delta =
                    [b"\"tool_calls\":[{\"index\":", index, b",\"id\":\"", id, kind, name, b"\",\"arguments\":\"\"}}]"];
                self.chunk(&delta, out);
                None
            }
        };
        self.block = Some(Block { at, key, filled: false });
    }

    fn arguments(&mut self, json: RawStr<'_>, out: &mut BytesMut) {
        let mut index = itoa::Buffer::new();
        let index = index.format(self.calls.saturating_sub(1)).as_bytes();
        let json = json.as_str().as_bytes();
        let function = b",\"function\":{\"arguments\":\"";
        self.chunk(&[b"\"tool_calls\":[{\"index\":", index, function, json, b"\"}}]"], out);
    }

    fn end(&mut self, out: &mut BytesMut) {
        if let Some(usage) = self.usage.filter(|_| self.wanted.usage) {
            put(out, &[&self.head, b"[],\"usage\":"]);
            write_usage(&usage, out);
            out.extend_from_slice(b"}\n\n");
        }
        out.extend_from_slice(DONE);
    }
}

impl WriteEvents for Writer {
    fn write(&mut self, delta: Delta<'_>, out: &mut BytesMut) -> Result<(), Untranslatable> {
        if self.done {
            return Ok(());
        }
        match delta {
            Delta::Text { at, text } | Delta::Thinking { at, text } => {
                let Some(Block { key: Some(key), .. }) = self.block.as_ref().filter(|block| block.at == at) else {
                    return Err(Untranslatable("blocks overlap"));
                };
                self.chunk(&[key, text.as_str().as_bytes(), b"\""], out);
            }
            Delta::Arguments { at, json } => {
                let Some(block) = self.block.as_mut().filter(|block| block.at == at && block.key.is_none()) else {
                    return Err(Untranslatable("blocks overlap"));
                };
                block.filled = true;
                self.arguments(json, out);
            }
            Delta::Start { id, model } => {
                self.start(id, model);
                self.chunk(&[b"\"role\":\"assistant\",\"content\":null,\"refusal\":null"], out);
            }
            Delta::Open { choice: 0, at, what } => self.open(at, what, out),
            Delta::Open { .. } | Delta::Stop { choice: 1.., .. } => {
                return Err(Untranslatable("there are several choices"));
            }
            Delta::Close { at } => {
                let call = |block: &Block| block.at == at && block.key.is_none() && !block.filled;
                if self.block.take().as_ref().is_some_and(call) {
                    // A call without arguments says so in JSON: its reader parses what it is given.
                    self.arguments(RawStr::NO_ARGUMENTS, out);
                }
            }
            Delta::Stop { why, .. } => {
                let why = match why {
                    Stop::End => b"stop".as_slice(),
                    Stop::Length => b"length",
                    Stop::Calls => b"tool_calls",
                    Stop::Refusal => b"content_filter",
                };
                let delta = b"[{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"";
                put(out, &[&self.head, delta, why, b"\"}]}\n\n"]);
            }
            Delta::Usage(usage) => self.usage = Some(usage),
            Delta::Failed { kind, message } => {
                self.done = true;
                write_failure(kind, message, out);
            }
            Delta::End => {
                self.done = true;
                self.end(out);
            }
            Delta::Seal { .. } | Delta::Idle => {}
        }
        Ok(())
    }
}

fn put(out: &mut impl BufMut, pieces: &[&[u8]]) {
    for piece in pieces {
        out.put_slice(piece);
    }
}

fn write_usage(usage: &Tokens, out: &mut BytesMut) {
    let mut number = itoa::Buffer::new();
    for (key, count) in [
        ("{\"prompt_tokens\":", usage.input),
        (",\"completion_tokens\":", usage.output),
        (",\"total_tokens\":", usage.input.saturating_add(usage.output)),
        (",\"prompt_tokens_details\":{\"cached_tokens\":", usage.cache_read),
    ] {
        put(out, &[key.as_bytes(), number.format(count).as_bytes()]);
    }
    out.extend_from_slice(b"}");
    if let Some(thinking) = usage.thinking {
        let key = b",\"completion_tokens_details\":{\"reasoning_tokens\":";
        put(out, &[key, number.format(thinking).as_bytes(), b"}"]);
    }
    out.extend_from_slice(b"}");
}

/// The error event; no `[DONE]` follows it.
fn write_failure(kind: Trouble, message: RawStr<'_>, out: &mut BytesMut) {
    let message = if message.is_empty() { "The provider failed inside the stream." } else { message.as_str() };
    let (kind, code) = openai_type(kind);
    let code = code.map_or("null".to_owned(), |code| format!("\"{code}\""));
    put(out, &[b"data: {\"error\":{\"message\":\"", message.as_bytes(), b"\",\"type\":\"", kind.as_bytes()]);
    put(out, &[b"\",\"param\":null,\"code\":", code.as_bytes(), b"}}\n\n"]);
}
