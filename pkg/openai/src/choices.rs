//! Answers that are made of choices: those of chat and of the legacy completions.
//!
//! Both keep, replay and put together their answers alike. What a choice is made of, each says for itself ([`Choice`]).

mod fold;
mod replay;

pub use fold::{ChoicesFold, Incomplete, merge, replace};
pub use replay::{Chunks, PIECE, next_piece};

use crate::canon;
use crate::json::{Json, MAX_VALUES, Member, Members, duplicate, get, write_str};
use crate::kept::{Facts, KeptText, Layer, NotStorable, Usage, answer_members, stored_members, text_within};
use bytes::Bytes;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::ops::Deref;

/// Given anew with every serving, so not part of the answer.
const PER_SERVING: [&str; 3] = ["id", "object", "created"];

/// One choice: how an API's chunks make it grow, and what that API says of it when it is whole.
pub trait Choice: Debug + Clone + PartialEq + Default {
    /// What the body of a whole answer calls itself.
    const OBJECT: &'static str;
    /// What a chunk of a stream calls itself.
    const CHUNK: &'static str;
    /// The domain of an answer's digest.
    const DOMAIN: &'static [u8];
    /// The answer's fields that every chunk repeats; others are only in the first.
    const EVERY_CHUNK: &'static [&'static str];

    /// Whether these are the fields of a whole choice.
    ///
    /// # Errors
    /// What is wrong with them.
    fn check(choice: &[Member<'_>]) -> Result<(), NotStorable>;

    /// Whether `layer` may keep a whole choice.
    ///
    /// # Errors
    /// Why not, as a short constant for records and metrics.
    fn storable(choice: &Json<'_>, layer: Layer) -> Result<(), &'static str>;

    /// The text of a whole choice, if it has one.
    fn content<'c>(choice: &'c Json<'_>) -> Option<&'c str>;

    /// Says a whole choice in chunks.
    fn replay(index: u64, choice: &[Member<'_>], chunks: &mut Chunks);

    /// The text that a chunk's part of the choice adds, if it adds no more than that, however often it comes.
    fn only_text<'c, 'a>(chunk: &'c [Member<'a>]) -> Option<&'c Member<'a>>;

    /// Takes the text of such a chunk.
    ///
    /// # Errors
    /// There are too many fields.
    fn add_text(&mut self, text: Json<'_>) -> Result<(), Incomplete>;

    /// Takes a chunk's part of the choice.
    ///
    /// # Errors
    /// It is not what the format allows.
    fn take(&mut self, chunk: Members<'_>) -> Result<(), Incomplete>;

    /// Whether its finish reason has come.
    fn finished(&self) -> bool;

    /// Whether its chunks came in an order that a whole choice cannot tell.
    fn is_out_of_order(&self) -> bool {
        false
    }

    /// The whole choice.
    fn into_json(self, index: u64) -> Json<'static>;
}

/// A complete answer. Two are equal if they say the same, however they were written.
#[derive(Debug, Clone, PartialEq)]
pub struct Choices<C> {
    /// Has at least one choice.
    kept: KeptText,
    of: PhantomData<C>,
}

impl<C: Choice> Choices<C> {
    /// Reads a provider's JSON answer to a request for that many choices.
    ///
    /// An answer that is cut short or lacks choices is one too: it has facts for the record, and [`KeptText::storable`]
    /// refuses it.
    ///
    /// # Errors
    /// It does not have the format, so it can be passed on but neither described nor stored.
    pub fn from_json(body: &[u8], choices: u32) -> Result<Self, NotStorable> {
        let mut members = answer_members(body)?;
        members.retain(is_kept);
        Self::read(text_within(body, &mut members), &members, Some(choices))
    }

    /// The answer with these fields, to a request for that many choices.
    fn from_members(members: Members<'_>, choices: u32) -> Result<Self, NotStorable> {
        let (tree, mut text) = (Json::Object(members), Vec::new());
        tree.write(&mut text);
        // Each chunk was within the bounds of what is read; all of them together need not be. A value has two bytes or more.
        if text.len() > 2 * MAX_VALUES && Json::parse(&text).is_err() {
            return Err(NotStorable::Shape("too many values"));
        }
        Self::read(text, tree.as_object().unwrap_or_default(), Some(choices))
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// It was not made by [`KeptText::encode`] of this version.
    pub fn decode(stored: &[u8]) -> Result<Self, NotStorable> {
        let (members, text) = stored_members(stored)?;
        if !members.iter().all(is_kept) {
            return Err(NotStorable::Version);
        }
        Self::read(text.to_vec(), &members, None)
    }

    /// Finds the facts in `members`, whose text is `text`. What was stored has as many choices as were wanted.
    fn read(text: Vec<u8>, members: &[Member<'_>], wanted: Option<u32>) -> Result<Self, NotStorable> {
        if duplicate(members).is_some() {
            return Err(NotStorable::Shape("a duplicate key"));
        }
        let choices = get(members, "choices").and_then(Json::as_array).unwrap_or_default();
        let first = choices.first().ok_or(NotStorable::Shape("no choices"))?;
        let numbered = numbered(&indices(choices)?, wanted);
        choices.iter().try_for_each(check::<C>)?;
        let all = |layer| numbered.and_then(|()| choices.iter().try_for_each(|choice| C::storable(choice, layer)));
        let facts = Facts {
            finish: Some(first.get("finish_reason").and_then(Json::as_str).unwrap_or_default().into()),
            usage: get(members, "usage").and_then(Usage::read),
            digest: canon::digest(C::DOMAIN, members.iter()),
            exact: all(Layer::Exact),
            semantic: all(Layer::Semantic),
        };
        Ok(Self { kept: KeptText::new(text, members, facts), of: PhantomData })
    }

    /// The text of the first choice, if it has one.
    pub fn content(&self) -> Option<String> {
        let tree = self.tree();
        C::content(tree.get("choices")?.as_array()?.first()?).map(str::to_owned)
    }

    /// The body of a whole answer. `created` is in seconds since the Unix epoch.
    pub fn to_json(&self, id: &str, created: u64) -> Bytes {
        let mut out = Vec::with_capacity(self.text().len() + id.len() + 80);
        head(&mut out, id, C::OBJECT, created);
        out.extend_from_slice(&self.text()[1..]);
        out.into()
    }

    /// The whole event stream, `[DONE]` included; the usage chunk only for a caller who asked for it.
    pub fn to_sse(&self, id: &str, created: u64, include_usage: bool) -> Bytes {
        replay::render::<C>(self.tree().as_object().unwrap_or_default(), id, created, include_usage)
    }
}

/// What is asked of every kept answer.
impl<C> Deref for Choices<C> {
    type Target = KeptText;

    fn deref(&self) -> &KeptText {
        &self.kept
    }
}

/// Whether a field of the body belongs to the answer. A usage of null says no more than none.
fn is_kept(member: &Member<'_>) -> bool {
    let says_nothing = member.key == "usage" && member.value.is_null();
    !says_nothing && !PER_SERVING.contains(&&*member.key)
}

fn check<C: Choice>(choice: &Json<'_>) -> Result<(), NotStorable> {
    let fields = choice.as_object().ok_or(NotStorable::Shape("a choice is not an object"))?;
    C::check(fields)?;
    if duplicate(fields).is_some() { Err(NotStorable::Shape("a duplicate key")) } else { Ok(()) }
}

/// The choice's number: as given, else its place.
fn index_of(choice: &Json<'_>, place: usize) -> u64 {
    choice.get("index").and_then(Json::as_u64).unwrap_or(place as u64)
}

/// The choices' numbers, in order.
fn indices(choices: &[Json<'_>]) -> Result<Vec<u64>, NotStorable> {
    let mut indices: Vec<u64> = choices.iter().enumerate().map(|(place, choice)| index_of(choice, place)).collect();
    indices.sort_unstable();
    let shared = indices.windows(2).any(|pair| pair[0] == pair[1]);
    if shared { Err(NotStorable::Shape("two choices share an index")) } else { Ok(indices) }
}

/// Whether they are the numbers from 0 to `wanted` - 1: a reader of the stream waits for those, so that others would replay
/// as a stream that never ends.
fn numbered(indices: &[u64], wanted: Option<u32>) -> Result<(), &'static str> {
    if wanted.is_some_and(|wanted| indices.len() != wanted as usize) {
        return Err("wrong number of choices");
    }
    let from_0 = indices.iter().zip(0..).all(|(index, place)| *index == place);
    if from_0 { Ok(()) } else { Err("choices are not numbered from 0") }
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
