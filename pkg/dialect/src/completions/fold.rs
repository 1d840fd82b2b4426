//! A stream's events put together again into the completion they are parts of.

use super::answer::Completion;
use signet_openai::wire::{Json, Member, Members, get, is_failure, merge, replace};
use signet_openai::{Incomplete, Usage};
use std::collections::BTreeMap;

/// Fields of an event that belong to the transmission, not to the answer. `obfuscation` is padding.
const TRANSMISSION: [&str; 4] = ["id", "object", "created", "obfuscation"];

/// Takes events, gives a [`Completion`]. Texts are appended, lists of log probabilities are extended, of everything else
/// the last value that is not `null` counts.
#[derive(Debug)]
pub struct CompletionsFold {
    expected: u32,
    head: Members<'static>,
    choices: BTreeMap<u64, Choice>,
    usage: Option<Json<'static>>,
    fault: Option<Incomplete>,
}

#[derive(Debug, Default)]
struct Choice {
    fields: Members<'static>,
    finished: bool,
}

impl CompletionsFold {
    /// For an answer of that many choices.
    pub fn new(choices: u32) -> Self {
        Self { expected: choices, head: Vec::new(), choices: BTreeMap::new(), usage: None, fault: None }
    }

    /// Takes the data of one event. What is wrong with it is told by [`Self::finish`].
    pub fn push(&mut self, data: &[u8]) {
        if data.trim_ascii() == b"[DONE]" {
            return;
        }
        let fault = match Json::parse(data) {
            Ok(chunk) if is_failure(&chunk) => Err(Incomplete::Failure),
            Ok(Json::Object(chunk)) => self.chunk(chunk),
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
    /// The events do not make one; `[DONE]` is not needed.
    pub fn finish(self) -> Result<Completion, Incomplete> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let all = (0..u64::from(self.expected)).all(|index| self.choices.contains_key(&index));
        if !all || !self.choices.values().all(|choice| choice.finished) {
            return Err(Incomplete::Cut);
        }
        let mut answer = self.head;
        let choices = self.choices.into_iter().map(|(index, choice)| choice.into_json(index)).collect();
        answer.push(Member::new("choices", Json::Array(choices)));
        answer.extend(self.usage.map(|usage| Member::new("usage", usage)));
        Completion::from_members(&answer, self.expected).map_err(|_| Incomplete::Malformed)
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
                ("index", _) | ("text", Json::Null) => {}
                ("text", text @ Json::String(_)) => merge(&mut self.fields, "text", text)?,
                ("text", _) => return Err(Incomplete::Malformed),
                ("logprobs", value) => merge(&mut self.fields, "logprobs", value)?,
                // Some providers send an empty reason with every event.
                ("finish_reason", Json::String(reason)) if reason.is_empty() => {}
                ("finish_reason", reason) => {
                    self.finished |= reason.as_str().is_some();
                    replace(&mut self.fields, "finish_reason", reason)?;
                }
                (key, value) => replace(&mut self.fields, key, value)?,
            }
        }
        Ok(())
    }

    fn into_json(self, index: u64) -> Json<'static> {
        let mut fields = vec![Member::new("index", Json::Number(index.to_string().into()))];
        fields.extend(self.fields);
        Json::Object(fields)
    }
}
