//! Reading messages events.

use crate::pivot::{Delta, Opening, RawStr, Stop, Tokens};
use crate::template::{Template, raw};
use crate::translate::error::trouble_of_anthropic;
use crate::translate::{ReadEvents, Sink, Untranslatable};
use signet_openai::sse::Event;
use signet_openai::wire::{Json, Member, duplicate, get};

/// Reads messages events. Events and blocks that are not known cannot be read over: they may be part of the answer.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    started: bool,
    stopped: bool,
    done: bool,
    /// The block that is open. Its end is told even where the provider's is missing: what it says would be, too.
    open: Option<u32>,
    usage: Tokens,
    /// `input_tokens`, which are what no cache knew.
    fresh: u64,
    template: Option<Template<(u32, Growing)>>,
}

/// What a text is added to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Growing {
    Text,
    Thinking,
    Signature,
    Input,
}

const MALFORMED: Untranslatable = Untranslatable("an event is malformed");

impl ReadEvents for Reader {
    fn read(&mut self, event: &Event, sink: &mut Sink<'_>) -> Result<(), Untranslatable> {
        let data = &event.data[..];
        if self.done {
            return Ok(());
        }
        if let Some(((at, growing), text)) = self.template.as_ref().and_then(|t| Some((t.key, t.text(data)?))) {
            return grow(at, growing, text, sink);
        }
        let Ok(Json::Object(event)) = Json::parse(data) else { return Err(MALFORMED) };
        let kind = get(&event, "type").and_then(Json::as_str);
        if !self.started && !matches!(kind, Some("message_start" | "ping" | "error")) {
            return Err(MALFORMED);
        }
        match kind {
            Some("content_block_delta") => self.delta(data, &event, sink),
            // Whoever was told the stop has been told that this was all.
            Some("content_block_start") if self.stopped => Err(Untranslatable("the answer goes on behind its end")),
            Some("content_block_start") => {
                self.close(sink)?;
                self.open = Some(open(data, &event, sink)?);
                Ok(())
            }
            Some("content_block_stop") if self.open == Some(index(&event)?) => self.close(sink),
            Some("content_block_stop") => Ok(()),
            Some("message_start") => self.start(data, &event, sink),
            Some("message_delta") => self.change(&event, sink),
            Some("message_stop") if !self.stopped => Err(Untranslatable("the answer is not whole")),
            Some("message_stop") => self.end(sink),
            Some("ping") => sink(Delta::Idle),
            Some("error") => {
                self.done = true;
                let error = object(&event, "error");
                let kind = get(error, "type").and_then(Json::as_str).unwrap_or_default();
                sink(Delta::Failed { kind: trouble_of_anthropic(kind), message: text(data, error, "message") })
            }
            _ => Err(Untranslatable("an event is not known")),
        }
    }

    fn end(&mut self, sink: &mut Sink<'_>) -> Result<(), Untranslatable> {
        if self.done || !self.stopped {
            return Ok(());
        }
        self.done = true;
        sink(Delta::End)
    }
}

impl Reader {
    fn start(&mut self, data: &[u8], event: &[Member<'_>], sink: &mut Sink<'_>) -> Result<(), Untranslatable> {
        let message = object(event, "message");
        let empty = get(message, "content").is_none_or(|content| content.as_array().is_some_and(<[_]>::is_empty));
        if std::mem::replace(&mut self.started, true) || !empty {
            return Err(MALFORMED);
        }
        self.count(object(message, "usage"));
        sink(Delta::Start { id: text(data, message, "id"), model: text(data, message, "model") })
    }

    fn close(&mut self, sink: &mut Sink<'_>) -> Result<(), Untranslatable> {
        self.template = None;
        self.open.take().map_or(Ok(()), |at| sink(Delta::Close { at }))
    }

    fn delta(&mut self, data: &[u8], event: &[Member<'_>], sink: &mut Sink<'_>) -> Result<(), Untranslatable> {
        let (at, delta) = (index(event)?, object(event, "delta"));
        if self.open != Some(at) {
            return Err(Untranslatable("blocks overlap"));
        }
        let (growing, key) = match get(delta, "type").and_then(Json::as_str) {
            Some("text_delta") => (Growing::Text, "text"),
            Some("thinking_delta") => (Growing::Thinking, "thinking"),
            Some("signature_delta") => (Growing::Signature, "signature"),
            Some("input_json_delta") => (Growing::Input, "partial_json"),
            Some("citations_delta") => return Err(Untranslatable("there are citations")),
            _ => return Err(Untranslatable("a delta is not known")),
        };
        let member = delta.iter().find(|member| member.key == key).ok_or(MALFORMED)?;
        let text = raw(data, &member.span).ok_or(MALFORMED)?;
        let unique = duplicate(event).is_none() && duplicate(delta).is_none();
        self.template = unique.then(|| Template::of(data, &member.span, (at, growing))).flatten();
        grow(at, growing, text, sink)
    }

    fn change(&mut self, event: &[Member<'_>], sink: &mut Sink<'_>) -> Result<(), Untranslatable> {
        self.count(object(event, "usage"));
        let why = match get(object(event, "delta"), "stop_reason").and_then(Json::as_str).unwrap_or_default() {
            "" => return Ok(()),
            "end_turn" | "stop_sequence" => Stop::End,
            "max_tokens" | "model_context_window_exceeded" => Stop::Length,
            "tool_use" => Stop::Calls,
            "refusal" => Stop::Refusal,
            "pause_turn" => return Err(Untranslatable("a turn was paused")),
            _ => return Err(Untranslatable("a stop reason is not known")),
        };
        if !std::mem::replace(&mut self.stopped, true) {
            self.close(sink)?;
            sink(Delta::Stop { choice: 0, why })?;
        }
        sink(Delta::Usage(self.usage))
    }

    /// Counts are cumulative: the last one that is told counts.
    fn count(&mut self, usage: &[Member<'_>]) {
        let told = |key: &str, count: &mut u64| {
            *count = get(usage, key).and_then(Json::as_u64).unwrap_or(*count);
        };
        told("input_tokens", &mut self.fresh);
        told("cache_read_input_tokens", &mut self.usage.cache_read);
        told("cache_creation_input_tokens", &mut self.usage.cache_written);
        told("output_tokens", &mut self.usage.output);
        let thinking = get(object(usage, "output_tokens_details"), "thinking_tokens").and_then(Json::as_u64);
        self.usage.thinking = thinking.or(self.usage.thinking);
        let cached = self.usage.cache_read.saturating_add(self.usage.cache_written);
        self.usage.input = self.fresh.saturating_add(cached);
    }
}

/// A block may begin with some of its text. Returns its number.
fn open(data: &[u8], event: &[Member<'_>], sink: &mut Sink<'_>) -> Result<u32, Untranslatable> {
    let (at, block) = (index(event)?, object(event, "content_block"));
    let (what, grows) = match get(block, "type").and_then(Json::as_str) {
        Some("text") if get(block, "citations").and_then(Json::as_array).is_some_and(|cites| !cites.is_empty()) => {
            return Err(Untranslatable("there are citations"));
        }
        Some("text") => (Opening::Text, Some((Growing::Text, "text"))),
        Some("thinking") => (Opening::Thinking, Some((Growing::Thinking, "thinking"))),
        Some("redacted_thinking") => (Opening::Sealed(text(data, block, "data")), None),
        Some("tool_use") => (Opening::Call { id: text(data, block, "id"), name: text(data, block, "name") }, None),
        _ => return Err(Untranslatable("a block is not known")),
    };
    sink(Delta::Open { at, choice: 0, what })?;
    if let Some((growing, key)) = grows {
        grow(at, growing, text(data, block, key), sink)?;
    }
    if let Some(input) = get(block, "input").filter(|input| input.as_object().is_some_and(|input| !input.is_empty())) {
        let (mut json, mut escaped) = (Vec::new(), Vec::new());
        input.write(&mut json);
        RawStr::escape(&String::from_utf8_lossy(&json), &mut escaped);
        grow(at, Growing::Input, RawStr::between_quotes(&escaped).ok_or(MALFORMED)?, sink)?;
    }
    grow(at, Growing::Signature, text(data, block, "signature"), sink)?;
    Ok(at)
}

fn grow(at: u32, growing: Growing, text: RawStr<'_>, sink: &mut Sink<'_>) -> Result<(), Untranslatable> {
    match growing {
        _ if text.is_empty() => Ok(()),
        Growing::Text => sink(Delta::Text { at, text }),
        Growing::Thinking => sink(Delta::Thinking { at, text }),
        Growing::Signature => sink(Delta::Seal { at, seal: text }),
        Growing::Input => sink(Delta::Arguments { at, json: text }),
    }
}

fn index(event: &[Member<'_>]) -> Result<u32, Untranslatable> {
    let index = get(event, "index").and_then(Json::as_u64);
    index.and_then(|index| u32::try_from(index).ok()).ok_or(MALFORMED)
}

fn object<'m, 'a>(members: &'m [Member<'a>], key: &str) -> &'m [Member<'a>] {
    get(members, key).and_then(Json::as_object).unwrap_or_default()
}

/// A text field with its escapes; empty if there is none.
fn text<'d>(data: &'d [u8], members: &[Member<'_>], key: &str) -> RawStr<'d> {
    let member = members.iter().find(|member| member.key == key);
    member.and_then(|member| raw(data, &member.span)).unwrap_or(RawStr::EMPTY)
}
