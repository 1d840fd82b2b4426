//! Events that differ from the one before in their text alone, which is nearly all of a stream.
//!
//! Such an event is recognised by its bytes: the same prefix up to the text's opening quote, the same suffix from its
//! closing quote on, and between them what may stand in one JSON string. Everything else in it says what the event before
//! said, so that only the text needs reading, and not even that: it is copied with its escapes. Some providers pad their
//! events by a second string that says nothing; it may differ too.

use crate::pivot::RawStr;
use std::ops::Range;

/// The bytes around the text of the event that was last read whole, and what that text is.
#[derive(Debug)]
pub(crate) struct Template<K> {
    /// Up to and with the opening quote.
    prefix: Box<[u8]>,
    /// Behind the closing quote, up to and with the padding's opening quote.
    suffix: Box<[u8]>,
    /// Behind the padding's closing quote.
    padded: Option<Box<[u8]>>,
    /// What the text is.
    pub(crate) key: K,
}

impl<K> Template<K> {
    /// The template of an event whose text lies at `span`, quotes included.
    pub(crate) fn of(data: &[u8], span: &Range<usize>, key: K) -> Option<Self> {
        quoted(data, span)?;
        let (prefix, suffix) = (data[..=span.start].into(), data[span.end..].into());
        Some(Self { prefix, suffix, padded: None, key })
    }

    /// The template of an event that has padding at `padding`, somewhere behind its text.
    pub(crate) fn padded(data: &[u8], span: &Range<usize>, padding: &Range<usize>, key: K) -> Option<Self> {
        quoted(data, span)?;
        quoted(data, padding)?;
        let suffix = data.get(span.end..=padding.start)?.into();
        let padded = Some(data[padding.end..].into());
        Some(Self { prefix: data[..=span.start].into(), suffix, padded, key })
    }

    /// The text of an event that fits; none for any other.
    pub(crate) fn text<'d>(&self, data: &'d [u8]) -> Option<RawStr<'d>> {
        let (text, rest) = RawStr::before_quote(data.strip_prefix(&*self.prefix)?)?;
        let fits = match &self.padded {
            None => rest == &*self.suffix,
            Some(end) => RawStr::before_quote(rest.strip_prefix(&*self.suffix)?)?.1 == &**end,
        };
        fits.then_some(text)
    }
}

/// What stands between the quotes at `span`.
fn quoted<'d>(data: &'d [u8], span: &Range<usize>) -> Option<&'d [u8]> {
    data.get(span.clone())?.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

/// What stands between the quotes at `span` of `data`, if that is a string.
pub(crate) fn raw<'d>(data: &'d [u8], span: &Range<usize>) -> Option<RawStr<'d>> {
    RawStr::between_quotes(quoted(data, span)?)
}
