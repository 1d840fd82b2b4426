//! Writing messages events.

use crate::messages::STOP;
use crate::pivot::{Delta, Opening, RawStr, Stop, Tokens, Trouble};
use crate::translate::error::anthropic_type;
use crate::translate::{Untranslatable, WriteEvents};
use bytes::BytesMut;

/// Writes messages events. `message_delta` waits for the end, since it has the usage, which other APIs tell last.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    block: Option<Block>,
    /// How many blocks have begun.
    blocks: u32,
    called: bool,
    refused: bool,
    why: Option<Stop>,
    usage: Tokens,
    done: bool,
}

#[derive(Debug)]
struct Block {
    at: u32,
    /// A delta of its text up to the opening quote.
    head: Vec<u8>,
}

impl Writer {
    fn open(&mut self, at: u32, what: Opening<'_>, out: &mut BytesMut) -> Result<(), Untranslatable> {
        if self.block.is_some() {
            return Err(Untranslatable("blocks overlap"));
        }
        let mut index = itoa::Buffer::new();
        let index = index.format(self.blocks).as_bytes();
        let start = b"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":";
        put(out, &[start, index, b",\"content_block\":{\"type\":\""]);
        let (kind, key) = match what {
            Opening::Text | Opening::Refusal => {
                out.extend_from_slice(b"text\",\"text\":\"\"");
                ("text_delta", "text")
            }
            Opening::Thinking => {
                out.extend_from_slice(b"thinking\",\"thinking\":\"\",\"signature\":\"\"");
                ("thinking_delta", "thinking")
            }
            Opening::Sealed(data) => {
                put(out, &[b"redacted_thinking\",\"data\":\"", data.as_str().as_bytes(), b"\""]);
                ("", "")
            }
            Opening::Call { id, name } => {
                let (id, name) = (id.as_str().as_bytes(), name.as_str().as_bytes());
                put(out, &[b"tool_use\",\"id\":\"", id, b"\",\"name\":\"", name, b"\",\"input\":{}"]);
                ("input_json_delta", "partial_json")
            }
        };
        out.extend_from_slice(b"}}\n\n");
        self.called |= matches!(what, Opening::Call { .. });
        self.refused |= what == Opening::Refusal;
        let mut head = b"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":".to_vec();
        for piece in [index, b",\"delta\":{\"type\":\"", kind.as_bytes(), b"\",\"", key.as_bytes(), b"\":\""] {
            head.extend_from_slice(piece);
        }
        self.blocks += 1;
        self.block = Some(Block { at, head });
        Ok(())
    }

    fn grow(&self, at: u32, text: RawStr<'_>, out: &mut BytesMut) -> Result<(), Untranslatable> {
        let block = self.block.as_ref().filter(|block| block.at == at).ok_or(Untranslatable("blocks overlap"))?;
        put(out, &[&block.head, text.as_str().as_bytes(), b"\"}}\n\n"]);
        Ok(())
    }

    fn seal(&self, at: u32, seal: RawStr<'_>, out: &mut BytesMut) -> Result<(), Untranslatable> {
        self.block.as_ref().filter(|block| block.at == at).ok_or(Untranslatable("blocks overlap"))?;
        let mut index = itoa::Buffer::new();
        let index = index.format(self.blocks - 1).as_bytes();
        let head = b"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":";
        let delta = b",\"delta\":{\"type\":\"signature_delta\",\"signature\":\"";
        put(out, &[head, index, delta, seal.as_str().as_bytes(), b"\"}}\n\n"]);
        Ok(())
    }

    fn close(&mut self, at: u32, out: &mut BytesMut) -> Result<(), Untranslatable> {
        self.block.take().filter(|block| block.at == at).ok_or(Untranslatable("blocks overlap"))?;
        let mut index = itoa::Buffer::new();
        let index = index.format(self.blocks - 1).as_bytes();
        let stop = b"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":";
        put(out, &[stop, index, b"}\n\n"]);
        Ok(())
    }

    fn end(&self, why: Stop, out: &mut BytesMut) {
        let why: &[u8] = match why {
            Stop::End if self.refused => b"refusal",
            // A call that was asked for by name ends with `stop` elsewhere; here whoever reads a call waits for `tool_use`.
            Stop::End if self.called => b"tool_use",
            Stop::End => b"end_turn",
            Stop::Length => b"max_tokens",
            Stop::Calls => b"tool_use",
            Stop::Refusal => b"refusal",
        };
        let delta = b"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"";
        put(out, &[delta, why, b"\",\"stop_sequence\":null},\"usage\":"]);
        write_usage(&self.usage, out);
        out.extend_from_slice(b"}\n\n");
        out.extend_from_slice(STOP);
    }
}

impl WriteEvents for Writer {
    fn write(&mut self, delta: Delta<'_>, out: &mut BytesMut) -> Result<(), Untranslatable> {
        if self.done {
            return Ok(());
        }
        match delta {
            Delta::Text { at, text } | Delta::Thinking { at, text } | Delta::Arguments { at, json: text } => {
                self.grow(at, text, out)?;
            }
            Delta::Seal { at, seal } => self.seal(at, seal, out)?,
            Delta::Start { id, model } => {
                let start = b"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"";
                put(
                    out,
                    &[start, id.as_str().as_bytes(), b"\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\""],
                );
                put(
                    out,
                    &[
                        model.as_str().as_bytes(),
                        b"\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":",
                    ],
                );
                write_usage(&Tokens::default(), out);
                out.extend_from_slice(b"}}\n\n");
            }
            Delta::Open { choice: 0, at, what } => self.open(at, what, out)?,
            Delta::Open { .. } | Delta::Stop { choice: 1.., .. } => {
                return Err(Untranslatable("there are several choices"));
            }
            Delta::Close { at } => self.close(at, out)?,
            Delta::Stop { why, .. } => self.why = Some(why),
            Delta::Usage(usage) => self.usage = usage,
            Delta::Failed { kind, message } => {
                self.done = true;
                write_failure(kind, message, out);
            }
            Delta::End => {
                self.done = true;
                self.end(self.why.ok_or(Untranslatable("there is no finish reason"))?, out);
            }
            Delta::Idle => {}
        }
        Ok(())
    }
}

fn put(out: &mut BytesMut, pieces: &[&[u8]]) {
    for piece in pieces {
        out.extend_from_slice(piece);
    }
}

fn write_usage(usage: &Tokens, out: &mut BytesMut) {
    let fresh = usage.input.saturating_sub(usage.cache_read).saturating_sub(usage.cache_written);
    let mut number = itoa::Buffer::new();
    for (key, count) in [
        ("{\"input_tokens\":", fresh),
        (",\"cache_creation_input_tokens\":", usage.cache_written),
        (",\"cache_read_input_tokens\":", usage.cache_read),
        (",\"output_tokens\":", usage.output),
    ] {
        put(out, &[key.as_bytes(), number.format(count).as_bytes()]);
    }
    if let Some(thinking) = usage.thinking {
        let key = b",\"output_tokens_details\":{\"thinking_tokens\":";
        put(out, &[key, number.format(thinking).as_bytes(), b"}"]);
    }
    out.extend_from_slice(b"}");
}

/// The error event; nothing follows it.
fn write_failure(kind: Trouble, message: RawStr<'_>, out: &mut BytesMut) {
    let message = if message.is_empty() { "The provider failed inside the stream." } else { message.as_str() };
    let kind = anthropic_type(kind).as_bytes();
    put(out, &[b"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"", kind, b"\",\"message\":\""]);
    put(out, &[message.as_bytes(), b"\"}}\n\n"]);
}
