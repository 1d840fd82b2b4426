//! The form in which a complete answer is kept, whatever its API: the text of its JSON object.
//!
//! Values stay as the provider wrote them, unknown fields included; what every serving gets anew is left out. What is asked
//! of every answer (finish reason, usage, digest) is read once, when it is made.

use crate::json::{Json, Member, Members, get, write_str};
use crate::sse::is_failure;
use std::fmt;

/// First byte of the stored form.
const VERSION: u8 = 1;

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
        let names = ["prompt_tokens", "prompt_tokens_details", "completion_tokens", "completion_tokens_details"];
        Self::named(usage, names)
    }

    /// Reads an object that calls the counts so: input, its details, output, its details.
    pub fn named(usage: &Json<'_>, [input, input_details, output, output_details]: [&str; 4]) -> Option<Self> {
        usage.as_object()?;
        let count = |value: Option<&Json<'_>>| value.and_then(Json::as_u64).unwrap_or(0);
        let detail = |of: &str, key: &str| count(usage.get(of).and_then(|details| details.get(key)));
        Some(Self {
            input: count(usage.get(input)),
            output: count(usage.get(output)),
            cached_input: detail(input_details, "cached_tokens"),
            reasoning: detail(output_details, "reasoning_tokens"),
        })
    }
}

/// What an answer says of itself, read by the rules of its API.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Why it ended, in the provider's word; of several choices the first.
    pub finish: Option<Box<str>>,
    /// What the provider counted.
    pub usage: Option<Usage>,
    /// SHA-256 of what it says, canonical and without ids and times.
    pub digest: [u8; 32],
    /// Whether [`Layer::Exact`] may keep it; else why not.
    pub exact: Result<(), &'static str>,
    /// Whether [`Layer::Semantic`] may keep it; else why not.
    pub semantic: Result<(), &'static str>,
}

/// The kept text with its facts. Two are equal if they say the same, however they were written.
#[derive(Clone)]
pub struct KeptText {
    /// The text of one object with at least one member.
    text: Box<[u8]>,
    model: Box<str>,
    facts: Facts,
}

impl KeptText {
    /// The kept form of `members`, whose text is `text`.
    pub fn new(text: Vec<u8>, members: &[Member<'_>], facts: Facts) -> Self {
        let model = get(members, "model").and_then(Json::as_str).unwrap_or_default().into();
        Self { text: text.into_boxed_slice(), model, facts }
    }

    /// The object's text.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// The object, read again.
    pub fn tree(&self) -> Json<'_> {
        Json::parse(&self.text).expect("the text was written from a parsed answer")
    }

    /// The model that answered, empty if not told.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Why it ended, in the provider's word; of several choices the first.
    pub fn finish(&self) -> Option<&str> {
        self.facts.finish.as_deref()
    }

    /// What the provider counted.
    pub fn usage(&self) -> Option<Usage> {
        self.facts.usage
    }

    /// Whether `layer` may keep this answer.
    ///
    /// # Errors
    /// Why not, as a short constant for records and metrics.
    pub fn storable(&self, layer: Layer) -> Result<(), &'static str> {
        match layer {
            Layer::Exact => self.facts.exact,
            Layer::Semantic => self.facts.semantic,
        }
    }

    /// Makes it one that no layer may keep, for this reason unless there is one already.
    pub fn refuse(&mut self, why: &'static str) {
        let Facts { exact, semantic, .. } = &mut self.facts;
        (*exact, *semantic) = (exact.and(Err(why)), semantic.and(Err(why)));
    }

    /// SHA-256 of the canonical answer without ids and times: a replay has the digest of the original.
    pub fn content_digest(&self) -> &[u8; 32] {
        &self.facts.digest
    }

    /// Bytes of memory it takes.
    pub fn weight(&self) -> usize {
        size_of::<Self>() + self.text.len() + self.model.len() + self.finish().map_or(0, str::len)
    }

    /// The stored form: a version byte and the text.
    pub fn encode(&self) -> Box<[u8]> {
        [&[VERSION], &*self.text].concat().into_boxed_slice()
    }
}

impl PartialEq for KeptText {
    fn eq(&self, other: &Self) -> bool {
        self.facts.digest == other.facts.digest
    }
}

impl Eq for KeptText {}

/// Leaves the text out: it belongs in no log.
impl fmt::Debug for KeptText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("KeptText");
        out.field("model", &self.model).field("finish", &self.finish()).field("usage", &self.usage());
        out.field("bytes", &self.text.len()).finish_non_exhaustive()
    }
}

/// The members of a provider's whole answer.
///
/// # Errors
/// It is no JSON object, or reports a failure.
pub fn answer_members(body: &[u8]) -> Result<Members<'_>, NotStorable> {
    let tree = Json::parse(body).map_err(|_| NotStorable::Shape("not JSON"))?;
    if is_failure(&tree) {
        return Err(NotStorable::Failure);
    }
    let Json::Object(members) = tree else { return Err(NotStorable::Shape("not an object")) };
    Ok(members)
}

/// The members of a stored form's text, and the text itself.
///
/// # Errors
/// It was not made by [`KeptText::encode`] of this version.
pub fn stored_members(stored: &[u8]) -> Result<(Members<'_>, &[u8]), NotStorable> {
    let text = stored.strip_prefix(&[VERSION]).filter(|text| text.starts_with(b"{")).ok_or(NotStorable::Version)?;
    match Json::parse(text) {
        Ok(Json::Object(members)) => Ok((members, text)),
        _ => Err(NotStorable::Version),
    }
}

/// The text of these members of `body`, as it is there; their spans lie in the new text then.
pub fn text_within(body: &[u8], members: &mut [Member<'_>]) -> Vec<u8> {
    let mut text = Vec::with_capacity(body.len());
    for (i, member) in members.iter_mut().enumerate() {
        text.push(if i == 0 { b'{' } else { b',' });
        write_str(&member.key, &mut text);
        text.push(b':');
        let start = text.len();
        text.extend_from_slice(&body[member.span.clone()]);
        member.span = start..text.len();
    }
    text.push(b'}');
    text
}
