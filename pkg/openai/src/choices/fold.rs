//! A stream's chunks put together again into the answer they are parts of.
//!
//! Fields that nobody here knows are kept. Of most the last value that is not `null` counts ([`replace`]); what comes in
//! pieces is added up ([`merge`]).

use super::{Choice, Choices};
use crate::json::{Json, Member, Members, duplicate, get};
use crate::kept::Usage;
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
    /// what they stand before in an answer, so their order would be lost; or a field came as text and as parts, and one of
    /// both would be. Passed on, never stored.
    #[error("the provider sent what cannot be told apart or loses its order")]
    Ambiguous,
}

/// Takes chunks, gives an answer of [`Choices`].
#[derive(Debug)]
pub struct ChoicesFold<C> {
    wanted: u32,
    head: Members<'static>,
    /// In boxes: a node of the tree has room for eleven, and most streams have one.
    choices: BTreeMap<u64, Box<C>>,
    usage: Option<Json<'static>>,
    fault: Option<Incomplete>,
    template: Option<Template>,
}

impl<C: Choice> ChoicesFold<C> {
    /// For an answer to a request for that many choices.
    pub fn new(wanted: u32) -> Self {
        Self { wanted, head: Vec::new(), choices: BTreeMap::new(), usage: None, fault: None, template: None }
    }

    /// Takes the data of one event. What is wrong with it is told by [`Self::finish`].
    pub fn push(&mut self, data: &[u8]) {
        if data.trim_ascii() == b"[DONE]" {
            return;
        }
        let alike = self.template.as_ref().and_then(|template| Some((template.choice, template.text(data)?)));
        let fault = match alike {
            Some((choice, text)) => self.choices.entry(choice).or_default().add_text(text),
            None => self.read(data),
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
    pub fn finish(mut self) -> Result<Choices<C>, Incomplete> {
        let lost = self.choices.values().any(|choice| choice.is_out_of_order());
        self.fault = self.fault.or(lost.then_some(Incomplete::Ambiguous));
        self.finish_unordered()
    }

    /// The whole answer, in which the order between a choice's fields may be lost: for whom it is said to, not to be kept.
    ///
    /// # Errors
    /// As [`Self::finish`].
    pub fn finish_unordered(self) -> Result<Choices<C>, Incomplete> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let all = (0..u64::from(self.wanted)).all(|index| self.choices.contains_key(&index));
        if !all || !self.choices.values().all(|choice| choice.finished()) {
            return Err(Incomplete::Cut);
        }
        let mut answer = self.head;
        let choices = self.choices.into_iter().map(|(index, choice)| (*choice).into_json(index)).collect();
        answer.push(Member::new("choices", Json::Array(choices)));
        answer.extend(self.usage.map(|usage| Member::new("usage", usage)));
        Choices::from_members(answer, self.wanted).map_err(|_| Incomplete::Malformed)
    }

    fn read(&mut self, data: &[u8]) -> Result<(), Incomplete> {
        match Json::parse(data) {
            Ok(chunk) if is_failure(&chunk) => Err(Incomplete::Failure),
            // Readers differ in which of two fields of one name they take.
            Ok(Json::Object(chunk)) if duplicate(&chunk).is_none() => {
                self.template = Template::of::<C>(data, &chunk);
                self.chunk(chunk)
            }
            _ => Err(Incomplete::Malformed),
        }
    }

    fn chunk(&mut self, chunk: Members<'_>) -> Result<(), Incomplete> {
        for member in chunk {
            match (&*member.key, member.value) {
                ("choices", Json::Array(choices)) => {
                    for choice in choices {
                        let Json::Object(choice) = choice else { return Err(Incomplete::Malformed) };
                        if duplicate(&choice).is_some() {
                            return Err(Incomplete::Malformed);
                        }
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
/// last value that is not null counts. What is empty says nothing where something is known.
///
/// # Errors
/// The object has too many fields; or the value is of another kind than what is known and cannot stand beside it, as where a
/// provider sends thoughts as an array of parts and then text as a string: one of both would be lost.
pub fn merge(members: &mut Members<'static>, key: &str, value: Json<'_>) -> Result<(), Incomplete> {
    let Some(known) = members.iter_mut().find(|member| member.key == key) else {
        return add(members, key, value);
    };
    match (&mut known.value, value) {
        (_, Json::Null) => {}
        (Json::String(_) | Json::Array(_) | Json::Object(_), value) if is_empty(&value) => {}
        (Json::String(known), Json::String(text)) if !WHOLE.contains(&key) => known.to_mut().push_str(&text),
        (Json::Array(known), Json::Array(items)) => known.extend(items.into_iter().map(Json::into_owned)),
        (Json::Object(known), Json::Object(fields)) => {
            fields.into_iter().try_for_each(|field| merge(known, &field.key, field.value))?;
        }
        (slot, value) if loses(slot, &value) => return Err(Incomplete::Ambiguous),
        (slot, value) => *slot = value.into_owned(),
    }
    Ok(())
}

fn is_empty(value: &Json<'_>) -> bool {
    match value {
        Json::String(text) => text.is_empty(),
        Json::Array(items) => items.is_empty(),
        Json::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// Whether something that was said piece by piece would be replaced by something of another kind.
fn loses(known: &Json<'_>, value: &Json<'_>) -> bool {
    let grows = matches!(known, Json::String(_) | Json::Array(_) | Json::Object(_)) && !is_empty(known);
    grows && std::mem::discriminant(known) != std::mem::discriminant(value)
}

fn add(members: &mut Members<'static>, key: &str, value: Json<'_>) -> Result<(), Incomplete> {
    if members.len() >= MAX_FIELDS {
        return Err(Incomplete::Malformed);
    }
    members.push(Member::new(key.to_owned(), value.into_owned()));
    Ok(())
}
