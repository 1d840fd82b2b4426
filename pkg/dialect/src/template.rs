//! Events that differ from the one before in their text alone, which is nearly all of a stream.
//!
//! Such an event is recognised by its bytes: the same prefix up to the text's opening quote, the same suffix from its
//! closing quote on, and between them what may stand in one JSON string. Everything else in it says what the event before
//! said, so that only the text needs reading, and not even that: it is copied with its escapes.

use crate::pivot::RawStr;
use std::ops::Range;

/// The bytes around the text of the event that was last read whole, and what that text is.
#[derive(Debug)]
pub(crate) struct Template<K> {
    /// Up to and with the opening quote.
    prefix: Box<[u8]>,
    /// From the closing quote on.
    suffix: Box<[u8]>,
    /// What the text is.
    pub(crate) key: K,
}

impl<K> Template<K> {
    /// The template of an event whose text lies at `span`, quotes included.
    pub(crate) fn of(data: &[u8], span: &Range<usize>, key: K) -> Option<Self> {
        let (prefix, suffix) = (data.get(..=span.start)?, data.get(span.end.checked_sub(1)?..)?);
        let quoted = span.len() >= 2 && prefix.ends_with(b"\"") && suffix.starts_with(b"\"");
        quoted.then(|| Self { prefix: prefix.into(), suffix: suffix.into(), key })
    }

    /// The text of an event that fits; none for any other.
    pub(crate) fn text<'d>(&self, data: &'d [u8]) -> Option<RawStr<'d>> {
        let text = data.strip_prefix(&*self.prefix)?.strip_suffix(&*self.suffix)?;
        RawStr::between_quotes(text)
    }
}

/// What stands between the quotes at `span` of `data`, if that is a string.
pub(crate) fn raw<'d>(data: &'d [u8], span: &Range<usize>) -> Option<RawStr<'d>> {
    let text = data.get(span.clone())?.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    RawStr::between_quotes(text)
}
