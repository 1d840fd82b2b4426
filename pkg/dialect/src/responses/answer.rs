//! A complete response in the one form that is stored and can be served as JSON and as a stream.
//!
//! It is the text of the response object, values as the provider wrote them, unknown fields included. A response that the
//! provider keeps is named by its id: that id and its time are part of the answer. Of any other one they are given anew with
//! every serving.

use super::{item, stream};
use bytes::Bytes;
use signet_openai::wire::{Json, Member, digest, duplicate, get, is_failure, write_str};
use signet_openai::{Layer, NotStorable, Usage};
use std::fmt;
use std::ops::Range;

/// First byte of an encoded response.
const VERSION: u8 = 1;

/// Given anew with every serving of a response that the provider does not keep.
const PER_SERVING: [&str; 3] = ["id", "object", "created_at"];

/// Says nothing about the answer, so not in its digest.
const NOT_SAID: [&str; 4] = ["id", "object", "created_at", "completed_at"];

/// A complete answer. Two are equal if they say the same, however they were written.
#[derive(Clone)]
pub struct Response {
    /// The object's text, with at least `output` in it.
    text: Box<[u8]>,
    /// Whether the text has the id under which the provider keeps it.
    handle: bool,
    /// Where the time of completion lies in the text, to be given anew.
    completed_at: Option<Range<usize>>,
    model: Box<str>,
    finish: Box<str>,
    usage: Option<Usage>,
    digest: [u8; 32],
    exact: Result<(), &'static str>,
    semantic: Result<(), &'static str>,
}

impl Response {
    /// Reads a provider's response object, the body of a JSON answer or part of the last event of a stream.
    ///
    /// An answer that is cut short is one too: it has facts for the record, and [`Self::storable`] refuses it.
    ///
    /// # Errors
    /// It does not have the format, so it can be passed on but neither described nor stored.
    pub fn from_json(body: &[u8]) -> Result<Self, NotStorable> {
        let tree = Json::parse(body).map_err(|_| NotStorable::Shape("not JSON"))?;
        if is_failure(&tree) {
            return Err(NotStorable::Failure);
        }
        let Json::Object(mut members) = tree else { return Err(NotStorable::Shape("not an object")) };
        let handle = is_handle(&members);
        members.retain(|member| handle || !PER_SERVING.contains(&&*member.key));
        let mut text = Vec::with_capacity(body.len());
        for member in &mut members {
            text.push(if text.is_empty() { b'{' } else { b',' });
            write_str(&member.key, &mut text);
            text.push(b':');
            let start = text.len();
            text.extend_from_slice(&body[member.span.clone()]);
            member.span = start..text.len();
        }
        text.push(b'}');
        Self::read(text, &members)
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
        Ok(Self {
            completed_at: time.filter(|_| !handle).map(|member| member.span.clone()),
            handle,
            model: word("model").into(),
            finish: reason.and_then(Json::as_str).unwrap_or_else(|| word("status")).into(),
            usage: get(members, "usage").and_then(usage),
            digest: digest(
                b"signet/answer/responses/v1",
                members.iter().filter(|member| !NOT_SAID.contains(&&*member.key)),
            ),
            exact,
            semantic,
            text: text.into_boxed_slice(),
        })
    }

    /// The model that answered, empty if not told.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// How it ended: why it is incomplete if it is, else its status.
    pub fn finish_reason(&self) -> &str {
        &self.finish
    }

    /// What the provider counted.
    pub fn usage(&self) -> Option<Usage> {
        self.usage
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

    /// Whether `layer` may keep this answer: only one of items that both forms can say, and whole.
    ///
    /// # Errors
    /// Why not, as a short constant for records and metrics.
    pub fn storable(&self, layer: Layer) -> Result<(), &'static str> {
        match layer {
            Layer::Exact => self.exact,
            Layer::Semantic => self.semantic,
        }
    }

    /// Makes it one that no layer may keep.
    pub(super) fn refuse(&mut self, why: &'static str) {
        (self.exact, self.semantic) = (self.exact.and(Err(why)), self.semantic.and(Err(why)));
    }

    /// SHA-256 of the canonical answer without ids and times: a replay has the digest of the original.
    pub fn content_digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// Bytes of memory it takes.
    pub fn weight(&self) -> usize {
        size_of::<Self>() + self.text.len() + self.model.len() + self.finish.len()
    }

    /// Whether the provider keeps it under its id, so that every serving has that id.
    pub fn is_handle(&self) -> bool {
        self.handle
    }

    /// The response object. `id` and `created` (seconds since the Unix epoch) are those of this serving; they do not count
    /// where [`Self::is_handle`].
    pub fn to_json(&self, id: &str, created: u64) -> Bytes {
        if self.handle {
            return Bytes::copy_from_slice(&self.text);
        }
        let mut number = itoa::Buffer::new();
        let created = number.format(created).as_bytes();
        let mut out = Vec::with_capacity(self.text.len() + id.len() + 80);
        out.extend_from_slice(b"{\"id\":");
        write_str(id, &mut out);
        out.extend_from_slice(b",\"object\":\"response\",\"created_at\":");
        out.extend_from_slice(created);
        out.push(b',');
        match &self.completed_at {
            Some(span) => {
                out.extend_from_slice(&self.text[1..span.start]);
                out.extend_from_slice(created);
                out.extend_from_slice(&self.text[span.end..]);
            }
            None => out.extend_from_slice(&self.text[1..]),
        }
        out.into()
    }

    /// The whole event stream, from `response.created` to the event that has the response in full.
    pub fn to_sse(&self, id: &str, created: u64) -> Bytes {
        stream::render(&self.to_json(id, created))
    }

    /// The stored form: a version byte and the text.
    pub fn encode(&self) -> Box<[u8]> {
        [&[VERSION], &*self.text].concat().into_boxed_slice()
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// It was not made by [`Self::encode`] of this version.
    pub fn decode(stored: &[u8]) -> Result<Self, NotStorable> {
        let text = stored.strip_prefix(&[VERSION]).ok_or(NotStorable::Version)?;
        let Ok(Json::Object(members)) = Json::parse(text) else { return Err(NotStorable::Version) };
        let named = members.iter().any(|member| PER_SERVING.contains(&&*member.key));
        if !text.starts_with(b"{") || named != is_handle(&members) {
            return Err(NotStorable::Version);
        }
        Self::read(text.to_vec(), &members)
    }

    fn tree(&self) -> Json<'_> {
        Json::parse(&self.text).expect("the text was written from a parsed answer")
    }
}

impl PartialEq for Response {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Response {}

/// Leaves the text out: it belongs in no log.
impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Response");
        out.field("model", &self.model).field("finish", &self.finish).field("usage", &self.usage);
        out.field("handle", &self.handle).field("bytes", &self.text.len()).finish_non_exhaustive()
    }
}

/// Whether the provider keeps the response: it does unless it says that it does not.
fn is_handle(members: &[Member<'_>]) -> bool {
    get(members, "id").is_some_and(|id| id.as_str().is_some()) && get(members, "store") != Some(&Json::Bool(false))
}

/// Reads the `usage` object of a response; what is missing in it is 0.
pub(super) fn usage(usage: &Json<'_>) -> Option<Usage> {
    usage.as_object()?;
    let count = |value: Option<&Json<'_>>| value.and_then(Json::as_u64).unwrap_or(0);
    let detail = |of: &str, key: &str| count(usage.get(of).and_then(|details| details.get(key)));
    Some(Usage {
        input: count(usage.get("input_tokens")),
        output: count(usage.get("output_tokens")),
        cached_input: detail("input_tokens_details", "cached_tokens"),
        reasoning: detail("output_tokens_details", "reasoning_tokens"),
    })
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
