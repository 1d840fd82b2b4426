//! Reading chat events.

use crate::pivot::{Delta, Opening, RawStr, Stop, Tokens, Trouble};
use crate::template::{Template, raw};
use crate::translate::error::trouble_of_openai;
use crate::translate::{ReadEvents, Sink, Untranslatable};
use signet_openai::sse::Event;
use signet_openai::wire::{Json, Member, duplicate, get};
use std::collections::BTreeMap;

/// Reads `chat.completion.chunk` events.
///
/// What stands beside `delta`, such as `logprobs` and `system_fingerprint`, tells of the transmission and is left out. In
/// a delta, what is neither known nor empty cannot be read over.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    started: bool,
    done: bool,
    /// The number of the next block.
    next: u32,
    choices: BTreeMap<u32, Choice>,
    template: Option<Template<(u32, Growing)>>,
}

#[derive(Debug, Default)]
struct Choice {
    /// The block that is open.
    open: Option<(u32, Growing)>,
    /// The newest tool call's index, and its id.
    call: Option<(u64, String)>,
    stopped: bool,
}

/// What a text is added to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Growing {
    Text,
    Refusal,
    Thinking,
    Arguments,
}

/// Fields of a delta that are read, or say nothing of their own.
const KNOWN: [&str; 7] =
    ["role", "content", "refusal", "reasoning_content", "reasoning", "reasoning_details", "tool_calls"];

/// The texts of a delta in the order in which they are read. `reasoning` is the same again under another name.
const TEXTS: [(&str, Growing); 4] = [
    ("reasoning_content", Growing::Thinking),
    ("reasoning", Growing::Thinking),
    ("content", Growing::Text),
    ("refusal", Growing::Refusal),
];

impl ReadEvents for Reader {
    fn read(&mut self, event: &Event, sink: &mut Sink<'_>) -> Result<(), Untranslatable> {
        let data = &event.data[..];
        if self.done {
            return Ok(());
        }
        if let Some(((at, growing), text)) = self.template.as_ref().and_then(|t| Some((t.key, t.text(data)?))) {
            return grow(at, growing, text, sink);
        }
        if data.trim_ascii() == b"[DONE]" {
            self.end(sink)?;
            return if self.done { Ok(()) } else { Err(Untranslatable("the answer is not whole")) };
        }
        let Ok(Json::Object(chunk)) = Json::parse(data) else { return Err(Untranslatable("a chunk is not JSON")) };
        if let Some(error) = chunk.iter().find(|member| member.key == "error" && !member.value.is_null()) {
            self.done = true;
            return sink(failure(data, error));
        }
        if event.event == "error" {
            self.done = true;
            return sink(Delta::Failed { kind: Trouble::Server, message: RawStr::EMPTY });
        }
        self.template = None;
        self.chunk(data, &chunk, sink)?;
        self.template = self.template_of(data, &chunk);
        Ok(())
    }

    fn end(&mut self, sink: &mut Sink<'_>) -> Result<(), Untranslatable> {
        let complete = !self.choices.is_empty() && self.choices.values().all(|choice| choice.stopped);
        if self.done || !complete {
            return Ok(());
        }
        self.done = true;
        sink(Delta::End)
    }
}

impl Reader {
    fn chunk(&mut self, data: &[u8], chunk: &[Member<'_>], sink: &mut Sink<'_>) -> Result<(), Untranslatable> {
        if !std::mem::replace(&mut self.started, true) {
            sink(Delta::Start { id: text(data, chunk, "id"), model: text(data, chunk, "model") })?;
        }
        for choice in get(chunk, "choices").and_then(Json::as_array).unwrap_or_default() {
            let choice = choice.as_object().ok_or(Untranslatable("a choice is not an object"))?;
            let index = get(choice, "index").and_then(Json::as_u64).unwrap_or(0);
            let index = u32::try_from(index).map_err(|_| Untranslatable("a choice has no sound index"))?;
            self.choice(index, data, choice, sink)?;
        }
        match get(chunk, "usage") {
            Some(usage @ Json::Object(_)) => sink(Delta::Usage(tokens(usage))),
            _ => Ok(()),
        }
    }

    fn choice(
        &mut self,
        index: u32,
        data: &[u8],
        fields: &[Member<'_>],
        sink: &mut Sink<'_>,
    ) -> Result<(), Untranslatable> {
        let delta = get(fields, "delta").and_then(Json::as_object).unwrap_or_default();
        let said = |value: &Json<'_>| match value {
            Json::Null => false,
            Json::String(text) => !text.is_empty(),
            Json::Array(items) => !items.is_empty(),
            _ => true,
        };
        if delta.iter().any(|field| !KNOWN.contains(&&*field.key) && said(&field.value)) {
            return Err(Untranslatable("a chunk holds what is not known"));
        }
        self.choices.entry(index).or_default();
        for (key, growing) in TEXTS {
            let field = delta.iter().find(|field| field.key == key && said(&field.value));
            let again = key == "reasoning" && get(delta, "reasoning_content").is_some_and(said);
            let Some(field) = field.filter(|_| !again) else { continue };
            let text = raw(data, &field.span).ok_or(Untranslatable("a text is not a string"))?;
            let at = self.open(index, growing, sink)?;
            grow(at, growing, text, sink)?;
        }
        for call in get(delta, "tool_calls").and_then(Json::as_array).unwrap_or_default() {
            let call = call.as_object().ok_or(Untranslatable("a tool call is not an object"))?;
            self.call(index, data, call, sink)?;
        }
        let reason = get(fields, "finish_reason").and_then(Json::as_str).unwrap_or_default();
        if reason.is_empty() { Ok(()) } else { self.stop(index, reason, sink) }
    }

    /// The block for a text of this kind: the open one if it is of the kind, else a new one.
    fn open(&mut self, index: u32, growing: Growing, sink: &mut Sink<'_>) -> Result<u32, Untranslatable> {
        if let Some((at, known)) = self.choices.entry(index).or_default().open
            && known == growing
        {
            return Ok(at);
        }
        let what = match growing {
            Growing::Refusal => Opening::Refusal,
            Growing::Thinking => Opening::Thinking,
            Growing::Text | Growing::Arguments => Opening::Text,
        };
        self.begin(index, growing, what, sink)
    }

    fn begin(
        &mut self,
        index: u32,
        growing: Growing,
        what: Opening<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<u32, Untranslatable> {
        let at = self.next;
        let choice = self.choices.entry(index).or_default();
        if choice.stopped {
            return Err(Untranslatable("a choice goes on behind its finish reason"));
        }
        self.next += 1;
        if let Some((before, _)) = choice.open.replace((at, growing)) {
            sink(Delta::Close { at: before })?;
        }
        sink(Delta::Open { at, choice: index, what })?;
        Ok(at)
    }

    /// A fragment without an index continues the newest call, unless it brings an id of its own. An older call cannot be
    /// continued: its block is closed.
    fn call(
        &mut self,
        index: u32,
        data: &[u8],
        call: &[Member<'_>],
        sink: &mut Sink<'_>,
    ) -> Result<(), Untranslatable> {
        let id = get(call, "id").and_then(Json::as_str).unwrap_or_default();
        let function: &[Member<'_>] = get(call, "function").and_then(Json::as_object).unwrap_or_default();
        let newest = self.choices.entry(index).or_default().call.as_ref();
        let other = newest.is_some_and(|(_, known)| !id.is_empty() && id != known);
        let place = match (get(call, "index").and_then(Json::as_u64), newest) {
            (Some(place), _) => place,
            (None, Some((place, _))) => place + u64::from(other),
            (None, None) => 0,
        };
        let at = match newest {
            Some((known, _)) if place == *known && other => {
                return Err(Untranslatable("two tool calls share an index"));
            }
            Some((known, _)) if place < *known => return Err(Untranslatable("tool calls are interleaved")),
            Some((known, _)) if place == *known => match self.choices.entry(index).or_default().open {
                Some((at, Growing::Arguments)) => at,
                _ => return Err(Untranslatable("a tool call is interleaved with text")),
            },
            _ => {
                let (id_text, name) = (text(data, call, "id"), text(data, function, "name"));
                if id_text.is_empty() || name.is_empty() {
                    return Err(Untranslatable("a tool call has no id or no name"));
                }
                let at = self.begin(index, Growing::Arguments, Opening::Call { id: id_text, name }, sink)?;
                self.choices.entry(index).or_default().call = Some((place, id.to_owned()));
                at
            }
        };
        grow(at, Growing::Arguments, text(data, function, "arguments"), sink)
    }

    fn stop(&mut self, index: u32, reason: &str, sink: &mut Sink<'_>) -> Result<(), Untranslatable> {
        let why = match reason {
            "stop" => Stop::End,
            "length" => Stop::Length,
            "tool_calls" => Stop::Calls,
            "content_filter" => Stop::Refusal,
            _ => return Err(Untranslatable("a finish reason is not known")),
        };
        let choice = self.choices.entry(index).or_default();
        if std::mem::replace(&mut choice.stopped, true) {
            return Ok(());
        }
        if let Some((at, _)) = choice.open.take() {
            sink(Delta::Close { at })?;
        }
        sink(Delta::Stop { choice: index, why })
    }

    /// The template of a chunk that has just been read; none where it did more than add one text to an open block.
    fn template_of(&self, data: &[u8], chunk: &[Member<'_>]) -> Option<Template<(u32, Growing)>> {
        let [Json::Object(choice)] = get(chunk, "choices")?.as_array()? else { return None };
        let silent = |members: &[Member<'_>], key| get(members, key).is_none_or(Json::is_null);
        if !silent(chunk, "usage") || !silent(choice, "finish_reason") {
            return None;
        }
        let delta = get(choice, "delta")?.as_object()?;
        let index = get(choice, "index").and_then(Json::as_u64).unwrap_or(0);
        let (at, growing) = self.choices.get(&u32::try_from(index).ok()?)?.open?;
        let (fields, key) = match growing {
            Growing::Arguments => {
                let [Json::Object(call)] = get(delta, "tool_calls")?.as_array()? else { return None };
                let function = get(call, "function")?.as_object()?;
                let new = !silent(call, "id") || !silent(function, "name") || duplicate(call).is_some();
                (function, if new { return None } else { "arguments" })
            }
            Growing::Text => (delta, "content"),
            Growing::Refusal => (delta, "refusal"),
            Growing::Thinking if silent(delta, "reasoning_content") => (delta, "reasoning"),
            Growing::Thinking => (delta, "reasoning_content"),
        };
        if [chunk, choice, delta, fields].into_iter().any(|members| duplicate(members).is_some()) {
            return None;
        }
        let alone = delta.iter().all(|field| match &field.value {
            Json::Null => true,
            Json::String(text) => field.key == key || field.key == "role" || text.is_empty(),
            Json::Array(items) => growing == Growing::Arguments && field.key == "tool_calls" || items.is_empty(),
            _ => false,
        });
        let text = fields.iter().find(|field| field.key == key)?;
        let padding = chunk.iter().find(|field| field.key == "obfuscation" && field.value.as_str().is_some());
        match padding.filter(|padding| padding.span.start > text.span.end) {
            _ if !alone => None,
            Some(padding) => Template::padded(data, &text.span, &padding.span, (at, growing)),
            None => Template::of(data, &text.span, (at, growing)),
        }
    }
}

fn grow(at: u32, growing: Growing, text: RawStr<'_>, sink: &mut Sink<'_>) -> Result<(), Untranslatable> {
    match growing {
        _ if text.is_empty() => Ok(()),
        Growing::Text | Growing::Refusal => sink(Delta::Text { at, text }),
        Growing::Thinking => sink(Delta::Thinking { at, text }),
        Growing::Arguments => sink(Delta::Arguments { at, json: text }),
    }
}

/// A text field with its escapes; empty if there is none.
fn text<'d>(data: &'d [u8], members: &[Member<'_>], key: &str) -> RawStr<'d> {
    let member = members.iter().find(|member| member.key == key);
    member.and_then(|member| raw(data, &member.span)).unwrap_or(RawStr::EMPTY)
}

fn failure<'d>(data: &'d [u8], error: &Member<'_>) -> Delta<'d> {
    let fields = error.value.as_object().unwrap_or_default();
    let message = match &error.value {
        Json::String(_) => raw(data, &error.span).unwrap_or(RawStr::EMPTY),
        _ => text(data, fields, "message"),
    };
    let word = |key: &str| get(fields, key).and_then(Json::as_str).unwrap_or_default();
    Delta::Failed { kind: trouble_of_openai(word("type"), word("code")), message }
}

/// Reads a chat `usage`.
fn tokens(usage: &Json<'_>) -> Tokens {
    let count = |value: Option<&Json<'_>>| value.and_then(Json::as_u64);
    let detail = |of: &str, key: &str| count(usage.get(of).and_then(|details| details.get(key)));
    Tokens {
        input: count(usage.get("prompt_tokens")).unwrap_or(0),
        output: count(usage.get("completion_tokens")).unwrap_or(0),
        cache_read: detail("prompt_tokens_details", "cached_tokens").unwrap_or(0),
        cache_written: 0,
        thinking: detail("completion_tokens_details", "reasoning_tokens"),
    }
}
