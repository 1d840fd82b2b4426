//! A choice of a chat answer: a message, told in deltas.
//!
//! Within a `delta` and `logprobs`: strings are appended, arrays are extended, objects are merged by the same rules, `null`
//! never replaces anything, and of everything else (and of `role`, `type`, `id` and `name`, which some providers repeat) the
//! last value counts. `tool_calls` are put together by their `index`. Elsewhere the last value that is not `null` counts.

mod replay;

use crate::choices::{Choice, Choices, ChoicesFold, Chunks, Incomplete, merge, replace};
use crate::json::{Json, Member, Members, duplicate, get};
use crate::kept::{Layer, NotStorable};
use std::collections::BTreeMap;

/// A complete chat answer.
pub type Answer = Choices<ChatChoice>;

/// Takes `chat.completion.chunk` events, gives an [`Answer`].
pub type Accumulator = ChoicesFold<ChatChoice>;

/// A choice of a chat answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChatChoice {
    message: Members<'static>,
    calls: BTreeMap<u64, Members<'static>>,
    rest: Members<'static>,
    finish: Option<String>,
    out_of_order: bool,
}

impl Choice for ChatChoice {
    const OBJECT: &'static str = "chat.completion";
    const CHUNK: &'static str = "chat.completion.chunk";
    const DOMAIN: &'static [u8] = b"signet/answer/v1";
    const EVERY_CHUNK: &'static [&'static str] = &["model", "system_fingerprint", "service_tier"];

    fn check(choice: &[Member<'_>]) -> Result<(), NotStorable> {
        let message = get(choice, "message").and_then(Json::as_object).ok_or(NotStorable::Shape("no message"))?;
        if duplicate(message).is_some() {
            return Err(NotStorable::Shape("a duplicate key"));
        }
        let calls = get(message, "tool_calls").and_then(Json::as_array).unwrap_or_default();
        if calls.iter().any(|call| call.as_object().is_none()) {
            return Err(NotStorable::Shape("a tool call is not an object"));
        }
        Ok(())
    }

    /// The finish reasons are a list of what is known to be whole: whatever a provider invents is not stored.
    fn storable(choice: &Json<'_>, layer: Layer) -> Result<(), &'static str> {
        let filled = |key: &str| match choice.get("message").and_then(|message| message.get(key)) {
            None | Some(Json::Null) => false,
            Some(Json::String(text)) => !text.trim().is_empty(),
            Some(Json::Array(items)) => !items.is_empty(),
            Some(_) => true,
        };
        if choice.get("delta").is_some() {
            return Err("a delta in a whole answer");
        }
        let calls = filled("tool_calls") || filled("function_call");
        let answered = calls || filled("content") || filled("refusal") || filled("audio");
        match choice.get("finish_reason").and_then(Json::as_str).unwrap_or_default() {
            "stop" if !answered => return Err("an empty answer"),
            "tool_calls" | "function_call" if !calls => return Err("missing tool calls"),
            "stop" | "tool_calls" | "function_call" => {}
            "length" => return Err("length"),
            "content_filter" => return Err("content_filter"),
            "" => return Err("no finish reason"),
            _ => return Err("an unknown finish reason"),
        }
        match layer {
            Layer::Semantic if calls => Err("tool calls"),
            Layer::Semantic if filled("refusal") => Err("a refusal"),
            Layer::Semantic if filled("audio") || !filled("content") => Err("not text"),
            Layer::Exact | Layer::Semantic => Ok(()),
        }
    }

    fn content<'c>(choice: &'c Json<'_>) -> Option<&'c str> {
        choice.get("message")?.get("content")?.as_str()
    }

    fn replay(index: u64, choice: &[Member<'_>], chunks: &mut Chunks) {
        replay::render(index, choice, chunks);
    }

    fn only_text<'c, 'a>(chunk: &'c [Member<'a>]) -> Option<&'c Member<'a>> {
        let delta = get(chunk, "delta").and_then(Json::as_object)?;
        let extra = |field: &Member<'_>| field.key != "content" && !field.value.is_null();
        if duplicate(delta).is_some() || delta.iter().any(extra) {
            return None;
        }
        delta.iter().find(|field| field.key == "content")
    }

    fn add_text(&mut self, text: Json<'_>) -> Result<(), Incomplete> {
        merge(&mut self.message, "content", text)
    }

    fn take(&mut self, choice: Members<'_>) -> Result<(), Incomplete> {
        for member in choice {
            match (&*member.key, member.value) {
                ("index", _) | ("finish_reason" | "delta", Json::Null) => {}
                // Some providers send an empty reason with every chunk.
                ("finish_reason", Json::String(reason)) if reason.is_empty() => {}
                ("finish_reason", Json::String(reason)) => self.finish = Some(reason.into_owned()),
                ("delta", Json::Object(delta)) => self.delta(delta)?,
                ("finish_reason" | "delta", _) => return Err(Incomplete::Malformed),
                ("logprobs", value) => merge(&mut self.rest, "logprobs", value)?,
                (key, value) => replace(&mut self.rest, key, value)?,
            }
        }
        Ok(())
    }

    fn finished(&self) -> bool {
        self.finish.is_some()
    }

    fn is_out_of_order(&self) -> bool {
        self.out_of_order
    }

    fn into_json(mut self, index: u64) -> Json<'static> {
        if !self.calls.is_empty() {
            let calls = self.calls.into_values().map(Json::Object).collect();
            self.message.retain(|field| field.key != "tool_calls");
            self.message.push(Member::new("tool_calls", Json::Array(calls)));
        }
        let mut choice = vec![
            Member::new("index", Json::Number(index.to_string().into())),
            Member::new("message", Json::Object(self.message)),
        ];
        choice.extend(self.rest);
        choice.extend(self.finish.map(|reason| Member::new("finish_reason", Json::String(reason.into()))));
        Json::Object(choice)
    }
}

impl ChatChoice {
    /// Whether this goes on behind what it stands before: thoughts behind text, either behind a tool call. An answer has them in one
    /// order only, and a stream translated from the provider's events in theirs.
    fn goes_back(&self, delta: &[Member<'_>]) -> bool {
        let says = |members: &[Member<'_>], keys: &[&str]| {
            let text = |key: &&str| get(members, key).and_then(Json::as_str).is_some_and(|text| !text.is_empty());
            keys.iter().any(text)
        };
        let (thoughts, text) = (&["reasoning_content", "reasoning"], &["content", "refusal"]);
        let has_calls = !self.calls.is_empty();
        (has_calls && says(delta, text)) || (says(delta, thoughts) && (has_calls || says(&self.message, text)))
    }

    fn delta(&mut self, delta: Members<'_>) -> Result<(), Incomplete> {
        if duplicate(&delta).is_some() {
            return Err(Incomplete::Malformed);
        }
        self.out_of_order |= self.goes_back(&delta);
        for member in delta {
            match (&*member.key, member.value) {
                ("tool_calls", Json::Array(calls)) if !calls.is_empty() => {
                    for call in calls {
                        let Json::Object(call) = call else { return Err(Incomplete::Malformed) };
                        self.call(call)?;
                    }
                }
                (key, value) => merge(&mut self.message, key, value)?,
            }
        }
        Ok(())
    }

    /// A fragment without an index continues the last call, unless it brings an id of its own.
    fn call(&mut self, call: Members<'_>) -> Result<(), Incomplete> {
        let id = call_id(&call);
        let other = |known: &Members<'_>| id.is_some() && call_id(known).is_some() && call_id(known) != id;
        let index = match (get(&call, "index").and_then(Json::as_u64), self.calls.last_key_value()) {
            (Some(index), _) if self.calls.get(&index).is_some_and(other) => return Err(Incomplete::Ambiguous),
            (Some(index), _) => index,
            (None, Some((last, known))) if other(known) => last.saturating_add(1),
            (None, last) => last.map_or(0, |(last, _)| *last),
        };
        let known = self.calls.entry(index).or_default();
        for member in call {
            if member.key != "index" {
                merge(known, &member.key, member.value)?;
            }
        }
        Ok(())
    }
}

fn call_id<'m>(call: &'m [Member<'_>]) -> Option<&'m str> {
    get(call, "id").and_then(Json::as_str).filter(|id| !id.is_empty())
}
