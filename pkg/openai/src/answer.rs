//! A complete chat answer in the one form that is stored and can be served as JSON and as a stream.
//!
//! It is the text of the answer's JSON object without `id`, `object` and `created`, which every serving gets anew. Values
//! stay as the provider wrote them, unknown fields included. What is asked of every answer (finish reasons, usage, digest)
//! is read once, when it is made.

mod stream;

pub use stream::{PIECE, next_piece};

use crate::canon;
use crate::json::{Json, Member, duplicate, get, write_str};
use crate::sse::is_failure;
use bytes::Bytes;
use std::fmt;

/// First byte of an encoded answer.
const VERSION: u8 = 1;

/// Given anew with every serving, so not part of the answer.
const PER_SERVING: [&str; 3] = ["id", "object", "created"];

/// Which cache an answer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// Served to the same request only.
    Exact,
    /// Served to similar questions too.
    Semantic,
}

/// A body is not an answer in the expected format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotStorable {
    /// It does not have the format's shape.
    #[error("the provider's answer has an unexpected shape: {0}")]
    Shape(&'static str),
    /// It reports a failure.
    #[error("the provider's answer reports a failure")]
    Failure,
    /// A stored answer of another version, or none at all.
    #[error("not a stored answer of this version")]
    Version,
}

/// Token counts as the provider gave them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// `prompt_tokens`, cached ones included.
    pub input: u64,
    /// `completion_tokens`, reasoning included.
    pub output: u64,
    /// `prompt_tokens_details.cached_tokens`.
    pub cached_input: u64,
    /// `completion_tokens_details.reasoning_tokens`.
    pub reasoning: u64,
}

impl Usage {
    /// Reads a `usage` object; what is missing in it is 0.
    pub fn read(usage: &Json<'_>) -> Option<Self> {
        usage.as_object()?;
        let count = |value: Option<&Json<'_>>| value.and_then(Json::as_u64).unwrap_or(0);
        let detail = |of: &str, key: &str| count(usage.get(of).and_then(|details| details.get(key)));
        Some(Self {
            input: count(usage.get("prompt_tokens")),
            output: count(usage.get("completion_tokens")),
            cached_input: detail("prompt_tokens_details", "cached_tokens"),
            reasoning: detail("completion_tokens_details", "reasoning_tokens"),
        })
    }
}

/// A complete answer. Two are equal if they say the same, however they were written.
#[derive(Clone)]
pub struct Answer {
    /// The object's text, with at least `choices` in it.
    text: Box<[u8]>,
    model: Box<str>,
    finish: Box<[Box<str>]>,
    usage: Option<Usage>,
    digest: [u8; 32],
    exact: Result<(), &'static str>,
    semantic: Result<(), &'static str>,
}

impl Answer {
    /// Reads a provider's JSON answer to a request for `n` choices.
    ///
    /// An answer that is cut short or lacks choices is one too: it has facts for the record, and [`Self::storable`]
    /// refuses it.
    ///
    /// # Errors
    /// It does not have the format, so it can be passed on but neither described nor stored.
    pub fn from_json(body: &[u8], n: u32) -> Result<Self, NotStorable> {
        let tree = Json::parse(body).map_err(|_| NotStorable::Shape("not JSON"))?;
        if is_failure(&tree) {
            return Err(NotStorable::Failure);
        }
        let Json::Object(mut members) = tree else { return Err(NotStorable::Shape("not an object")) };
        members.retain(kept);
        let mut text = Vec::with_capacity(body.len());
        for member in &members {
            text.push(if text.is_empty() { b'{' } else { b',' });
            write_str(&member.key, &mut text);
            text.push(b':');
            text.extend_from_slice(&body[member.span.clone()]);
        }
        text.push(b'}');
        let mut answer = Self::read(text, &members)?;
        if answer.finish.len() != n as usize {
            answer.exact = Err("wrong number of choices");
            answer.semantic = answer.exact;
        }
        Ok(answer)
    }

    /// The answer with these fields.
    pub(crate) fn from_members(members: &[Member<'_>]) -> Result<Self, NotStorable> {
        let mut text = Vec::new();
        for member in members {
            text.push(if text.is_empty() { b'{' } else { b',' });
            member.write(&mut text);
        }
        text.push(b'}');
        Self::read(text, members)
    }

    /// Finds the facts in `members`, whose text is `text`.
    fn read(text: Vec<u8>, members: &[Member<'_>]) -> Result<Self, NotStorable> {
        if duplicate(members).is_some() {
            return Err(NotStorable::Shape("a duplicate key"));
        }
        let choices = get(members, "choices").and_then(Json::as_array).unwrap_or_default();
        if choices.is_empty() {
            return Err(NotStorable::Shape("no choices"));
        }
        let mut indices: Vec<u64> = choices.iter().enumerate().map(|(at, choice)| index_of(choice, at)).collect();
        indices.sort_unstable();
        if indices.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(NotStorable::Shape("two choices share an index"));
        }
        let finish = choices.iter().map(finish_of).collect::<Result<_, _>>()?;
        // A reader of the stream waits for the choices 0 to n - 1: other numbers would replay as a stream that never ends.
        let numbered = indices.iter().zip(0..).all(|(index, at)| *index == at);
        let numbered = numbered.then_some(()).ok_or("choices are not numbered from 0");
        let all = |layer| numbered.and_then(|()| choices.iter().try_for_each(|choice| storable(choice, layer)));
        Ok(Self {
            text: text.into_boxed_slice(),
            model: get(members, "model").and_then(Json::as_str).unwrap_or_default().into(),
            finish,
            usage: get(members, "usage").and_then(Usage::read),
            digest: canon::digest(b"signet/answer/v1", members.iter()),
            exact: all(Layer::Exact),
            semantic: all(Layer::Semantic),
        })
    }

    /// The model that answered, empty if not told.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Why each choice ended, in order; empty where the provider did not say.
    pub fn finish_reasons(&self) -> impl Iterator<Item = &str> {
        self.finish.iter().map(|reason| &**reason)
    }

    /// What the provider counted.
    pub fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// The text of the first choice, if it has one.
    pub fn content(&self) -> Option<String> {
        let tree = self.tree();
        let first = tree.get("choices")?.as_array()?.first()?;
        first.get("message")?.get("content")?.as_str().map(str::to_owned)
    }

    /// Whether `layer` may keep this answer.
    ///
    /// # Errors
    /// Why not, as a short constant for records and metrics.
    pub fn storable(&self, layer: Layer) -> Result<(), &'static str> {
        match layer {
            Layer::Exact => self.exact,
            Layer::Semantic => self.semantic,
        }
    }

    /// SHA-256 of the canonical answer without `id` and `created`: a replay has the digest of the original.
    pub fn content_digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// Bytes of memory it takes.
    pub fn weight(&self) -> usize {
        let finish: usize = self.finish.iter().map(|reason| size_of::<Box<str>>() + reason.len()).sum();
        size_of::<Self>() + self.text.len() + self.model.len() + finish
    }

    /// The `chat.completion` body. `created` is in seconds since the Unix epoch.
    pub fn to_json(&self, id: &str, created: u64) -> Bytes {
        let mut out = Vec::with_capacity(self.text.len() + id.len() + 80);
        head(&mut out, id, "chat.completion", created);
        out.extend_from_slice(&self.text[1..]);
        out.into()
    }

    /// The whole event stream, `[DONE]` included; the usage chunk only for a caller who asked for it.
    pub fn to_sse(&self, id: &str, created: u64, include_usage: bool) -> Bytes {
        stream::render(&self.tree(), id, created, include_usage)
    }

    /// The stored form: a version byte and the text.
    pub fn encode(&self) -> Box<[u8]> {
        let mut out = Vec::with_capacity(self.text.len() + 1);
        out.push(VERSION);
        out.extend_from_slice(&self.text);
        out.into_boxed_slice()
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// It was not made by [`Self::encode`] of this version.
    pub fn decode(stored: &[u8]) -> Result<Self, NotStorable> {
        let text = stored.strip_prefix(&[VERSION]).ok_or(NotStorable::Version)?;
        let Ok(Json::Object(members)) = Json::parse(text) else { return Err(NotStorable::Version) };
        if !text.starts_with(b"{") || !members.iter().all(kept) {
            return Err(NotStorable::Version);
        }
        Self::read(text.to_vec(), &members)
    }

    fn tree(&self) -> Json<'_> {
        Json::parse(&self.text).expect("the text was written from a parsed answer")
    }
}

impl PartialEq for Answer {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Answer {}

/// Leaves the text out: it belongs in no log.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Answer");
        out.field("model", &self.model).field("finish", &self.finish).field("usage", &self.usage);
        out.field("bytes", &self.text.len()).finish_non_exhaustive()
    }
}

/// Whether a field of the body belongs to the answer. A usage of null says no more than none.
fn kept(member: &Member<'_>) -> bool {
    let says_nothing = member.key == "usage" && member.value.is_null();
    !says_nothing && !PER_SERVING.contains(&&*member.key)
}

/// `{"id":..,"object":..,"created":..,`
fn head(out: &mut Vec<u8>, id: &str, object: &str, created: u64) {
    out.extend_from_slice(b"{\"id\":");
    write_str(id, out);
    out.extend_from_slice(b",\"object\":\"");
    out.extend_from_slice(object.as_bytes());
    out.extend_from_slice(b"\",\"created\":");
    out.extend_from_slice(itoa::Buffer::new().format(created).as_bytes());
    out.push(b',');
}

fn finish_of(choice: &Json<'_>) -> Result<Box<str>, NotStorable> {
    let fields = choice.as_object().ok_or(NotStorable::Shape("a choice is not an object"))?;
    let message = get(fields, "message").and_then(Json::as_object).ok_or(NotStorable::Shape("no message"))?;
    if duplicate(fields).is_some() || duplicate(message).is_some() {
        return Err(NotStorable::Shape("a duplicate key"));
    }
    let calls = get(message, "tool_calls").and_then(Json::as_array).unwrap_or_default();
    if calls.iter().any(|call| call.as_object().is_none()) {
        return Err(NotStorable::Shape("a tool call is not an object"));
    }
    Ok(get(fields, "finish_reason").and_then(Json::as_str).unwrap_or_default().into())
}

/// The choice's number: as given, else its place.
fn index_of(choice: &Json<'_>, place: usize) -> u64 {
    choice.get("index").and_then(Json::as_u64).unwrap_or(place as u64)
}

/// The finish reasons are a list of what is known to be whole: whatever a provider invents is not stored.
fn storable(choice: &Json<'_>, layer: Layer) -> Result<(), &'static str> {
    let field = |key: &str| choice.get("message").and_then(|message| message.get(key));
    let filled = |key: &str| match field(key) {
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
