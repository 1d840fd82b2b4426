//! Chunks that differ from the one before in their text alone, which is nearly all of a stream.
//!
//! Such a chunk is recognised by its bytes: the same prefix up to the text's opening quote, the same suffix from its
//! closing quote on, one JSON string between them. Everything else in it is equal, and taking equal values again changes
//! nothing by a fold's rules, so only the text needs reading.

use crate::choices::Choice;
use crate::json::{Json, Member, duplicate, get};

/// The bytes around the text of the chunk that was last read whole.
#[derive(Debug)]
pub(crate) struct Template {
    /// Up to and with the opening quote.
    prefix: Box<[u8]>,
    /// From the closing quote on.
    suffix: Box<[u8]>,
    /// The choice that the text belongs to.
    pub(crate) choice: u64,
}

impl Template {
    /// The template of a chunk; none where it does more than add text to one choice.
    pub(crate) fn of<C: Choice>(data: &[u8], chunk: &[Member<'_>]) -> Option<Self> {
        let [Json::Object(choice)] = get(chunk, "choices")?.as_array()? else { return None };
        if duplicate(chunk).is_some() || duplicate(choice).is_some() {
            return None;
        }
        let silent = |members: &[Member<'_>], key| get(members, key).is_none_or(Json::is_null);
        if !silent(chunk, "usage") || !silent(choice, "finish_reason") || !silent(choice, "logprobs") {
            return None;
        }
        let text = C::only_text(choice).filter(|text| text.value.as_str().is_some())?;
        let index = get(choice, "index").and_then(Json::as_u64).unwrap_or(0);
        let (prefix, suffix) = (data.get(..=text.span.start)?, data.get(text.span.end - 1..)?);
        (prefix.ends_with(b"\"") && suffix.starts_with(b"\"")).then(|| Self {
            prefix: prefix.into(),
            suffix: suffix.into(),
            choice: index,
        })
    }

    /// The text of a chunk that fits; none for any other.
    pub(crate) fn text<'d>(&self, data: &'d [u8]) -> Option<Json<'d>> {
        let fits = data.len() >= self.prefix.len() + self.suffix.len()
            && data.starts_with(&self.prefix)
            && data.ends_with(&self.suffix);
        let literal = data.get(self.prefix.len() - 1..=data.len().checked_sub(self.suffix.len())?).filter(|_| fits)?;
        Json::parse(literal).ok().filter(|text| text.as_str().is_some())
    }
}
