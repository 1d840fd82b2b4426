//! A complete response in the one form that is stored and can be served as JSON and as a stream.
//!
//! It is the text of the response object. A response that the provider keeps is named by its id: that id and its time are
//! part of the answer. Of any other one they are given anew with every serving.

use super::{item, stream};
use bytes::Bytes;
use signet_openai::wire::{
    Facts, Json, Member, answer_members, digest, duplicate, get, stored_members, text_within, write_str,
};
use signet_openai::{KeptText, Layer, NotStorable, Usage};
use std::ops::{Deref, Range};

/// Given anew with every serving of a response that the provider does not keep.
const PER_SERVING: [&str; 3] = ["id", "object", "created_at"];

/// Says nothing about the answer, so not in its digest.
const NOT_SAID: [&str; 4] = ["id", "object", "created_at", "completed_at"];

/// A complete answer. Two are equal if they say the same, however they were written.
#[derive(Debug, Clone)]
pub struct Response {
    kept: KeptText,
    /// Whether the text has the id under which the provider keeps it.
    handle: bool,
    /// Where the time of completion lies in the text, to be given anew.
    completed_at: Option<Range<usize>>,
}

impl Response {
    /// Reads a provider's response object, the body of a JSON answer or part of the last event of a stream.
    ///
    /// An answer that is cut short is one too: it has facts for the record, and [`KeptText::storable`] refuses it.
    ///
    /// # Errors
    /// It does not have the format, so it can be passed on but neither described nor stored.
    pub fn from_json(body: &[u8]) -> Result<Self, NotStorable> {
        let mut members = answer_members(body)?;
        let handle = is_handle(&members);
        members.retain(|member| handle || !PER_SERVING.contains(&&*member.key));
        Self::read(text_within(body, &mut members), &members)
    }

    /// Finds the facts in `members`, whose text is `text`.
    fn read(text: Vec<u8>, members: &[Member<'_>]) -> Result<Self, NotStorable> {
        if duplicate(members).is_some() {
            return Err(NotStorable::Shape("a duplicate key"));
        }
        let word = |key: &str| get(members, key).and_then(Json::as_str).unwrap_or_default();
        if word("status") == "failed" {
            return Err(NotStorable::Failure);
        }
        let output = get(members, "output").and_then(Json::as_array).ok_or(NotStorable::Shape("no output"))?;
        let handle = is_handle(members);
        let exact = storable(members, output, Layer::Exact);
        let semantic = if handle { Err("a stored response") } else { storable(members, output, Layer::Semantic) };
        let reason = get(members, "incomplete_details").and_then(|details| details.get("reason"));
        let time = members.iter().find(|member| member.key == "completed_at" && !member.value.is_null());
        let finish = reason.and_then(Json::as_str).unwrap_or_else(|| word("status"));
        let said = members.iter().filter(|member| !NOT_SAID.contains(&&*member.key));
        let facts = Facts {
            finish: Some(finish).filter(|finish| !finish.is_empty()).map(Box::from),
            usage: get(members, "usage").and_then(usage),
            digest: digest(b"signet/answer/responses/v1", said),
            exact,
            semantic,
        };
        let completed_at = time.filter(|_| !handle).map(|member| member.span.clone());
        Ok(Self { kept: KeptText::new(text, members, facts), handle, completed_at })
    }

    /// The texts of all messages, one behind the other, if there is one.
    pub fn content(&self) -> Option<String> {
        let tree = self.tree();
        let items = tree.get("output")?.as_array()?;
        let parts = items.iter().filter_map(|item| item.get("content")?.as_array()).flatten();
        let said = parts.filter(|part| part.get("type").and_then(Json::as_str) == Some("output_text"));
        let texts: Vec<&str> = said.filter_map(|part| part.get("text")?.as_str()).collect();
        (!texts.is_empty()).then(|| texts.concat())
    }

    /// Makes it one that no layer may keep, unless it is one already.
    pub(super) fn refuse(&mut self, why: &'static str) {
        self.kept.refuse(why);
    }

    /// Whether the provider keeps it under its id, so that every serving has that id.
    pub fn is_handle(&self) -> bool {
        self.handle
    }

    /// The response object. `id` and `created` (seconds since the Unix epoch) are those of this serving; they do not count
    /// where [`Self::is_handle`].
    pub fn to_json(&self, id: &str, created: u64) -> Bytes {
        if self.handle {
            return Bytes::copy_from_slice(self.text());
        }
        let mut number = itoa::Buffer::new();
        let created = number.format(created).as_bytes();
        let text = self.text();
        let mut out = Vec::with_capacity(text.len() + id.len() + 80);
        out.extend_from_slice(b"{\"id\":");
        write_str(id, &mut out);
        out.extend_from_slice(b",\"object\":\"response\",\"created_at\":");
        out.extend_from_slice(created);
        out.push(b',');
        match &self.completed_at {
            Some(span) => {
                out.extend_from_slice(&text[1..span.start]);
                out.extend_from_slice(created);
                out.extend_from_slice(&text[span.end..]);
            }
            None => out.extend_from_slice(&text[1..]),
        }
        out.into()
    }

    /// The whole event stream, from `response.created` to the event that has the response in full.
    pub fn to_sse(&self, id: &str, created: u64) -> Bytes {
        stream::render(&self.to_json(id, created))
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// It was not made by [`KeptText::encode`] of this version.
    pub fn decode(stored: &[u8]) -> Result<Self, NotStorable> {
        let (members, text) = stored_members(stored)?;
        let named = members.iter().any(|member| PER_SERVING.contains(&&*member.key));
        if named != is_handle(&members) {
            return Err(NotStorable::Version);
        }
        Self::read(text.to_vec(), &members)
    }
}

impl PartialEq for Response {
    fn eq(&self, other: &Self) -> bool {
        self.kept == other.kept
    }
}

impl Eq for Response {}

/// What is asked of every kept answer.
impl Deref for Response {
    type Target = KeptText;

    fn deref(&self) -> &KeptText {
        &self.kept
    }
}

/// Whether the provider keeps the response: it does unless it says that it does not.
fn is_handle(members: &[Member<'_>]) -> bool {
    get(members, "id").is_some_and(|id| id.as_str().is_some()) && get(members, "store") != Some(&Json::Bool(false))
}

/// Reads the `usage` object of a response; what is missing in it is 0.
pub(super) fn usage(usage: &Json<'_>) -> Option<Usage> {
    Usage::named(usage, ["input_tokens", "input_tokens_details", "output_tokens", "output_tokens_details"])
}

fn storable(members: &[Member<'_>], output: &[Json<'_>], layer: Layer) -> Result<(), &'static str> {
    let word = |key: &str| get(members, key).and_then(Json::as_str).unwrap_or_default();
    let there = |key: &str| get(members, key).is_some_and(|value| !matches!(value, Json::Null | Json::Bool(false)));
    let state = [
        ("background", "background"),
        ("conversation", "a conversation"),
        ("previous_response_id", "a previous response"),
    ];
    if let Some((_, why)) = state.into_iter().find(|(key, _)| there(key)) {
        return Err(why);
    }
    match word("status") {
        "completed" => {}
        "incomplete" => {
            let reason = get(members, "incomplete_details").and_then(|details| details.get("reason"));
            return Err(match reason.and_then(Json::as_str) {
                Some("max_output_tokens") => "length",
                Some("content_filter") => "content_filter",
                _ => "an unknown finish reason",
            });
        }
        "" => return Err("no finish reason"),
        _ => return Err("an unknown finish reason"),
    }
    // Readers of the stream tell items apart by their ids.
    let mut ids: Vec<&str> = output.iter().filter_map(|item| item.get("id")?.as_str()).collect();
    ids.sort_unstable();
    if ids.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err("items share an id");
    }
    let mut answered = false;
    for item in output {
        answered |= item::storable(item, layer)?;
    }
    if answered { Ok(()) } else { Err("an empty answer") }
}
