//! A complete completion in the one form that is stored and can be served as JSON and as a stream.
//!
//! As [`signet_openai::Answer`], whose words it shares: the object's text without `id`, `object` and `created`, values as
//! the provider wrote them, unknown fields included.

use super::stream;
use bytes::Bytes;
use signet_openai::wire::{Json, Member, digest, duplicate, get, is_failure, write_str};
use signet_openai::{Layer, NotStorable, Usage};
use std::fmt;

/// First byte of an encoded completion.
const VERSION: u8 = 1;

/// Given anew with every serving, so not part of the answer.
const PER_SERVING: [&str; 3] = ["id", "object", "created"];

/// A complete answer. Two are equal if they say the same, however they were written.
#[derive(Clone)]
pub struct Completion {
    /// The object's text, with at least `choices` in it.
    text: Box<[u8]>,
    model: Box<str>,
    finish: Box<[Box<str>]>,
    usage: Option<Usage>,
    digest: [u8; 32],
    exact: Result<(), &'static str>,
    semantic: Result<(), &'static str>,
}

impl Completion {
    /// Reads a provider's JSON answer of that many choices.
    ///
    /// An answer that is cut short or lacks choices is one too: it has facts for the record, and [`Self::storable`]
    /// refuses it.
    ///
    /// # Errors
    /// It does not have the format, so it can be passed on but neither described nor stored.
    pub fn from_json(body: &[u8], choices: u32) -> Result<Self, NotStorable> {
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
        Ok(Self::read(text, &members)?.of(choices))
    }

    /// The answer with these fields.
    pub(super) fn from_members(members: &[Member<'_>], choices: u32) -> Result<Self, NotStorable> {
        let mut text = Vec::new();
        for member in members {
            text.push(if text.is_empty() { b'{' } else { b',' });
            member.write(&mut text);
        }
        text.push(b'}');
        Ok(Self::read(text, members)?.of(choices))
    }

    /// Not to be stored if it does not have that many choices.
    fn of(mut self, choices: u32) -> Self {
        if self.finish.len() != choices as usize {
            self.exact = Err("wrong number of choices");
            self.semantic = self.exact;
        }
        self
    }

    /// Finds the facts in `members`, whose text is `text`.
    fn read(text: Vec<u8>, members: &[Member<'_>]) -> Result<Self, NotStorable> {
        let choices = get(members, "choices").and_then(Json::as_array).unwrap_or_default();
        if choices.is_empty() {
            return Err(NotStorable::Shape("no choices"));
        }
        if duplicate(members).is_some() {
            return Err(NotStorable::Shape("a duplicate key"));
        }
        let mut indices: Vec<u64> = choices.iter().enumerate().map(|(at, choice)| index_of(choice, at)).collect();
        indices.sort_unstable();
        if indices.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(NotStorable::Shape("two choices share an index"));
        }
        let finish = choices.iter().map(finish_of).collect::<Result<_, _>>()?;
        // A reader of the stream waits for the choices 0 to n - 1.
        let numbered = indices.iter().zip(0..).all(|(index, at)| *index == at);
        let numbered = numbered.then_some(()).ok_or("choices are not numbered from 0");
        let exact = numbered.and_then(|()| choices.iter().try_for_each(storable));
        let plain = |choice: &Json<'_>| choice.get("logprobs").is_none_or(Json::is_null);
        Ok(Self {
            text: text.into_boxed_slice(),
            model: get(members, "model").and_then(Json::as_str).unwrap_or_default().into(),
            finish,
            usage: get(members, "usage").and_then(Usage::read),
            digest: digest(b"signet/answer/completions/v1", members.iter()),
            exact,
            semantic: exact.and(if choices.iter().all(plain) { Ok(()) } else { Err("logprobs") }),
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
        tree.get("choices")?.as_array()?.first()?.get("text")?.as_str().map(str::to_owned)
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

    /// The `text_completion` body. `created` is in seconds since the Unix epoch.
    pub fn to_json(&self, id: &str, created: u64) -> Bytes {
        let mut out = Vec::with_capacity(self.text.len() + id.len() + 80);
        stream::head(&mut out, id, created);
        out.extend_from_slice(&self.text[1..]);
        out.into()
    }

    /// The whole event stream, `[DONE]` included; the usage chunk only for a caller who asked for it.
    pub fn to_sse(&self, id: &str, created: u64, include_usage: bool) -> Bytes {
        stream::render(&self.tree(), id, created, include_usage)
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
        if !text.starts_with(b"{") || !members.iter().all(kept) {
            return Err(NotStorable::Version);
        }
        Self::read(text.to_vec(), &members)
    }

    fn tree(&self) -> Json<'_> {
        Json::parse(&self.text).expect("the text was written from a parsed answer")
    }
}

impl PartialEq for Completion {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Completion {}

/// Leaves the text out: it belongs in no log.
impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Completion");
        out.field("model", &self.model).field("finish", &self.finish).field("usage", &self.usage);
        out.field("bytes", &self.text.len()).finish_non_exhaustive()
    }
}

/// Whether a field of the body belongs to the answer. A usage of null says no more than none.
fn kept(member: &Member<'_>) -> bool {
    let says_nothing = member.key == "usage" && member.value.is_null();
    !says_nothing && !PER_SERVING.contains(&&*member.key)
}

/// The choice's number: as given, else its place.
pub(super) fn index_of(choice: &Json<'_>, place: usize) -> u64 {
    choice.get("index").and_then(Json::as_u64).unwrap_or(place as u64)
}

fn finish_of(choice: &Json<'_>) -> Result<Box<str>, NotStorable> {
    let fields = choice.as_object().ok_or(NotStorable::Shape("a choice is not an object"))?;
    if duplicate(fields).is_some() {
        return Err(NotStorable::Shape("a duplicate key"));
    }
    get(fields, "text").and_then(Json::as_str).ok_or(NotStorable::Shape("no text"))?;
    Ok(get(fields, "finish_reason").and_then(Json::as_str).unwrap_or_default().into())
}

/// The finish reasons are a list of what is known to be whole: whatever a provider invents is not stored.
fn storable(choice: &Json<'_>) -> Result<(), &'static str> {
    let blank = choice.get("text").and_then(Json::as_str).is_none_or(|text| text.trim().is_empty());
    match choice.get("finish_reason").and_then(Json::as_str).unwrap_or_default() {
        "stop" if blank => Err("an empty answer"),
        "stop" => Ok(()),
        "length" => Err("length"),
        "content_filter" => Err("content_filter"),
        "" => Err("no finish reason"),
        _ => Err("an unknown finish reason"),
    }
}
