//! A stream's chunks put together again into the answer they are parts of.
//!
//! Chunks follow `chat.completion.chunk`. Fields that nobody here knows are kept. Within a `delta` and `logprobs`: strings
//! are appended, arrays are extended, objects are merged by the same rules, `null` never replaces anything, and of
//! everything else (and of `role`, `type`, `id` and `name`, which some providers repeat) the last value counts.
//! `tool_calls` are put together by their `index`. Elsewhere the last value that is not `null` counts.

use crate::answer::{Answer, Usage};
use crate::json::{Json, Member, Members, get};
use crate::sse::is_failure;
use crate::template::Template;
use std::collections::BTreeMap;

/// Fields of a chunk that belong to the transmission, not to the answer. `obfuscation` is padding.
const TRANSMISSION: [&str; 4] = ["id", "object", "created", "obfuscation"];

/// Most fields in one object. They are searched one by one, so that a hostile stream must not bring a million of them.
const MAX_FIELDS: usize = 1024;

/// Strings that providers send whole, perhaps more than once.
const WHOLE: [&str; 4] = ["role", "type", "id", "name"];

/// Why chunks do not make an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Incomplete {
    /// The stream ended before every choice had its finish reason.
    #[error("the provider's stream ended early")]
    Cut,
    /// The provider reported a failure inside the stream.
    #[error("the provider reported a failure inside the stream")]
    Failure,
    /// A chunk is not what the format allows.
    #[error("the provider sent a malformed chunk")]
    Malformed,
    /// It came whole, but two tool calls share an index, so fragments cannot be told apart; or text or thoughts go on behind
    /// what they stand before in an answer, so their order would be lost. Passed on, never stored.
    #[error("the provider sent what cannot be told apart or loses its order")]
    Ambiguous,
}

/// Takes chunks, gives an [`Answer`].
#[derive(Debug)]
pub struct Accumulator {
    n: u32,
    head: Members<'static>,
    choices: BTreeMap<u64, Choice>,
    usage: Option<Json<'static>>,
    fault: Option<Incomplete>,
    template: Option<Template>,
}

#[derive(Debug, Default)]
struct Choice {
    message: Members<'static>,
    calls: BTreeMap<u64, Members<'static>>,
    rest: Members<'static>,
    finish: Option<String>,
}

impl Accumulator {
    /// For an answer of `n` choices.
    pub fn new(n: u32) -> Self {
        Self { n, head: Vec::new(), choices: BTreeMap::new(), usage: None, fault: None, template: None }
    }

    /// Takes the data of one event. What is wrong with it is told by [`Self::finish`].
    pub fn push(&mut self, data: &[u8]) {
        if data.trim_ascii() == b"[DONE]" {
            return;
        }
        if let Some((choice, text)) = self.template.as_ref().and_then(|t| Some((t.choice, t.text(data)?))) {
            let message = &mut self.choices.entry(choice).or_default().message;
            self.fault = self.fault.or(merge(message, "content", text).err());
            return;
        }
        let fault = match Json::parse(data) {
            Ok(chunk) if is_failure(&chunk) => Err(Incomplete::Failure),
            Ok(Json::Object(chunk)) => {
                self.template = Template::of(data, &chunk);
                self.chunk(chunk)
            }
            _ => Err(Incomplete::Malformed),
        };
        self.fault = self.fault.or(fault.err());
    }

    /// What the provider counted so far.
    pub fn usage(&self) -> Option<Usage> {
        self.usage.as_ref().and_then(Usage::read)
    }

    /// The model that answers, once it is known.
    pub fn model(&self) -> Option<&str> {
        get(&self.head, "model").and_then(Json::as_str)
    }

    /// The whole answer.
    ///
    /// # Errors
    /// The chunks do not make one; `[DONE]` is not needed.
    pub fn finish(self) -> Result<Answer, Incomplete> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let finished = |choice: &Choice| choice.finish.is_some();
        let all = (0..u64::from(self.n)).all(|index| self.choices.get(&index).is_some_and(finished));
        if !all || !self.choices.values().all(finished) {
            return Err(Incomplete::Cut);
        }
        let mut answer = self.head;
        let choices = self.choices.into_iter().map(|(index, choice)| choice.into_json(index)).collect();
        answer.push(Member::new("choices", Json::Array(choices)));
        answer.extend(self.usage.map(|usage| Member::new("usage", usage)));
        Answer::from_members(&answer).map_err(|_| Incomplete::Malformed)
    }

    fn chunk(&mut self, chunk: Members<'_>) -> Result<(), Incomplete> {
        for member in chunk {
            match (&*member.key, member.value) {
                ("choices", Json::Array(choices)) => {
                    for choice in choices {
                        let Json::Object(choice) = choice else { return Err(Incomplete::Malformed) };
                        let index = get(&choice, "index").and_then(Json::as_u64).unwrap_or(0);
                        self.choices.entry(index).or_default().take(choice)?;
                    }
                }
                ("choices" | "usage", Json::Null) => {}
                ("choices", _) => return Err(Incomplete::Malformed),
                ("usage", usage) => self.usage = Some(usage.into_owned()),
                (key, _) if TRANSMISSION.contains(&key) => {}
                (key, value) => replace(&mut self.head, key, value)?,
            }
        }
        Ok(())
    }
}

impl Choice {
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

    /// What goes on behind what it stands before: thoughts behind text, either behind a tool call. An answer has them in one
    /// order only, and a stream translated from the provider's events in theirs.
    fn is_out_of_order(&self, delta: &[Member<'_>]) -> bool {
        let says = |members: &[Member<'_>], keys: &[&str]| {
            let text = |key: &&str| get(members, key).and_then(Json::as_str).is_some_and(|text| !text.is_empty());
            keys.iter().any(text)
        };
        let (thoughts, text) = (&["reasoning_content", "reasoning"], &["content", "refusal"]);
        let has_calls = !self.calls.is_empty();
        (has_calls && says(delta, text)) || (says(delta, thoughts) && (has_calls || says(&self.message, text)))
    }

    fn delta(&mut self, delta: Members<'_>) -> Result<(), Incomplete> {
        if self.is_out_of_order(&delta) {
            return Err(Incomplete::Ambiguous);
        }
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

fn call_id<'m>(call: &'m [Member<'_>]) -> Option<&'m str> {
    get(call, "id").and_then(Json::as_str).filter(|id| !id.is_empty())
}

/// Puts `value` under `key`: the last value that is not null counts.
///
/// # Errors
/// The object has too many fields.
pub fn replace(members: &mut Members<'static>, key: &str, value: Json<'_>) -> Result<(), Incomplete> {
    match members.iter_mut().find(|member| member.key == key) {
        Some(_) if value.is_null() => {}
        Some(known) => known.value = value.into_owned(),
        None => add(members, key, value)?,
    }
    Ok(())
}

/// Adds a delta's `value` under `key`: strings are appended, arrays are extended, objects are merged, of everything else the
/// last value that is not null counts.
///
/// # Errors
/// The object has too many fields.
pub fn merge(members: &mut Members<'static>, key: &str, value: Json<'_>) -> Result<(), Incomplete> {
    let Some(known) = members.iter_mut().find(|member| member.key == key) else {
        return add(members, key, value);
    };
    match (&mut known.value, value) {
        (_, Json::Null) => {}
        (Json::String(_), Json::String(text)) if text.is_empty() => {}
        (Json::String(known), Json::String(text)) if !WHOLE.contains(&key) => known.to_mut().push_str(&text),
        (Json::Array(known), Json::Array(items)) => known.extend(items.into_iter().map(Json::into_owned)),
        (Json::Object(known), Json::Object(fields)) => {
            fields.into_iter().try_for_each(|field| merge(known, &field.key, field.value))?;
        }
        (slot, value) => *slot = value.into_owned(),
    }
    Ok(())
}

fn add(members: &mut Members<'static>, key: &str, value: Json<'_>) -> Result<(), Incomplete> {
    if members.len() >= MAX_FIELDS {
        return Err(Incomplete::Malformed);
    }
    members.push(Member::new(key.to_owned(), value.into_owned()));
    Ok(())
}
