//! Events in the form of `/v1/completions`.
//!
//! The API has nothing but text: what the model thought on the way is not said, since it is not of the text; a call of a
//! tool cannot be said at all.

use crate::pivot::{Delta, Opening, RawStr, Stop, Tokens, Trouble};
use crate::translate::error::openai_type;
use crate::translate::{Untranslatable, Wanted, WriteEvents};
use bytes::{BufMut as _, BytesMut};
use signet_openai::sse::DONE;

/// Writes one stream.
#[derive(Debug)]
pub(crate) struct Writer {
    usage_wanted: bool,
    created: u64,
    /// The beginning of every event, from `data:` up to its choices.
    head: Vec<u8>,
    /// The choice of each block that is text.
    texts: Vec<(u32, u32)>,
    usage: Tokens,
}

impl Writer {
    pub(crate) fn new(wanted: Wanted<'_>) -> Self {
        Self {
            usage_wanted: wanted.usage,
            created: wanted.created,
            head: Vec::new(),
            texts: Vec::new(),
            usage: Tokens::default(),
        }
    }

    fn start(&mut self, id: RawStr<'_>, model: RawStr<'_>) {
        let head = &mut self.head;
        head.extend_from_slice(b"data: {\"id\":\"cmpl-");
        head.extend_from_slice(id.as_str().as_bytes());
        head.extend_from_slice(b"\",\"object\":\"text_completion\",\"created\":");
        head.extend_from_slice(itoa::Buffer::new().format(self.created).as_bytes());
        head.extend_from_slice(b",\"model\":\"");
        head.extend_from_slice(model.as_str().as_bytes());
        head.extend_from_slice(b"\",\"choices\":[");
    }

    fn event(&self, choice: u32, text: RawStr<'_>, finish: &str, out: &mut BytesMut) {
        out.reserve(self.head.len() + text.as_str().len() + 96);
        out.put_slice(&self.head);
        out.put_slice(b"{\"text\":\"");
        out.put_slice(text.as_str().as_bytes());
        out.put_slice(b"\",\"index\":");
        out.put_slice(itoa::Buffer::new().format(choice).as_bytes());
        out.put_slice(b",\"logprobs\":null,\"finish_reason\":");
        out.put_slice(finish.as_bytes());
        out.put_slice(if self.usage_wanted { b"}],\"usage\":null}\n\n" } else { b"}]}\n\n" });
    }

    fn end(&self, out: &mut BytesMut) {
        if self.usage_wanted {
            let Tokens { input, output, cache_read, thinking, .. } = self.usage;
            let thinking = thinking.unwrap_or(0);
            let total = input.saturating_add(output);
            out.put_slice(&self.head);
            let usage = format!(
                "],\"usage\":{{\"prompt_tokens\":{input},\"completion_tokens\":{output},\"total_tokens\":{total},\
                 \"prompt_tokens_details\":{{\"cached_tokens\":{cache_read}}},\
                 \"completion_tokens_details\":{{\"reasoning_tokens\":{thinking}}}}}}}\n\n"
            );
            out.put_slice(usage.as_bytes());
        }
        out.put_slice(DONE);
    }
}

impl WriteEvents for Writer {
    fn write(&mut self, delta: Delta<'_>, out: &mut BytesMut) -> Result<(), Untranslatable> {
        match delta {
            Delta::Start { id, model } => self.start(id, model),
            Delta::Open { what: Opening::Call { .. }, .. } | Delta::Stop { why: Stop::Calls, .. } => {
                return Err(Untranslatable("a call of a tool"));
            }
            Delta::Open { at, choice, what: Opening::Text | Opening::Refusal } => self.texts.push((at, choice)),
            Delta::Text { at, text } if !text.is_empty() => {
                let known = self.texts.iter().rfind(|(block, _)| *block == at);
                let (_, choice) = known.ok_or(Untranslatable("a text outside of its block"))?;
                self.event(*choice, text, "null", out);
            }
            Delta::Close { at } => self.texts.retain(|(block, _)| *block != at),
            Delta::Stop { choice, why } => {
                let reason = match why {
                    Stop::End | Stop::Calls => "\"stop\"",
                    Stop::Length => "\"length\"",
                    Stop::Refusal => "\"content_filter\"",
                };
                self.event(choice, RawStr::EMPTY, reason, out);
            }
            Delta::Usage(tokens) => self.usage = tokens,
            Delta::Failed { kind, message } => failed(kind, message, out),
            Delta::End => self.end(out),
            Delta::Open { .. }
            | Delta::Text { .. }
            | Delta::Thinking { .. }
            | Delta::Seal { .. }
            | Delta::Arguments { .. }
            | Delta::Idle => {}
        }
        Ok(())
    }
}

fn failed(kind: Trouble, message: RawStr<'_>, out: &mut BytesMut) {
    let ((kind, code), message) = (openai_type(kind), message.as_str());
    let code = code.map_or("null".to_owned(), |code| format!("\"{code}\""));
    let event = format!(
        "data: {{\"error\":{{\"message\":\"{message}\",\"type\":\"{kind}\",\"param\":null,\"code\":{code}}}}}\n\n"
    );
    out.put_slice(event.as_bytes());
}
