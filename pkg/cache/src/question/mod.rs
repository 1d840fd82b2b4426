//! What a question asks, as far as rules can tell.
//!
//! A question is read once, into what the gates compare: its canonical terms in order, a digest that is equal only for
//! questions that say the same, and a bucket outside of which no gate can pass. Who cannot be judged is not eligible:
//! the exact cache still serves it.

mod antonyms;
mod edges;
mod eligible;
mod lexicon;
mod marks;
mod names;
mod phrases;
mod rewrite;
mod rules;
mod spelling;
mod stem;
mod synonyms;
mod tables;
mod terms;
mod token;
mod value;
mod verbatim;

pub use eligible::Ineligible;
pub(crate) use lexicon::Class;
pub(crate) use terms::{MAX_TERMS, Term};

use std::borrow::Cow;
use terms::Features;
use unicode_normalization::{UnicodeNormalization, is_nfc};

/// Longest text that is judged, in bytes: one changed word in a long prompt hardly moves a vector.
pub const MAX_BYTES: usize = 1024;
/// Most tokens that are judged.
pub const MAX_TOKENS: usize = 64;

/// A question that may be answered from another's answer.
///
/// A text that is too long to be judged, or in which each letter and space may count, is the same as itself only, apart from
/// white space around it.
///
/// Kept per cache entry: 208 bytes and 8 per canonical term, about 290 for a question of 12 words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    features: Features,
    volatile: bool,
    /// Only the same words are the same question, however similar another is.
    strict: bool,
}

impl Question {
    /// Reads `text`. Linear in its length, which is bounded.
    ///
    /// # Errors
    /// Why no other question's answer may serve it.
    pub fn read(text: &str) -> Result<Self, Ineligible> {
        let read = if text.len() > MAX_BYTES { Err(Ineligible::TooLong) } else { Self::without(text, None) };
        match read {
            Err(Ineligible::TooLong) => {
                let volatile = Self::is_volatile(text);
                Ok(Self { features: Features::verbatim(text.trim()), volatile, strict: true })
            }
            read => read,
        }
    }

    /// Whether the answer changes within hours or days, so that it may be kept for a short time only.
    pub const fn volatile(&self) -> bool {
        self.volatile
    }

    /// Whether only the same words are the same question: it is about now, too long to be judged, or compared as written.
    pub const fn strict(&self) -> bool {
        self.strict
    }

    /// Whether the answer to `text` changes within hours or days: today's weather, the latest version, a price. Only the
    /// first [`MAX_BYTES`] are looked at.
    pub fn is_volatile(text: &str) -> bool {
        let text = straightened(&text[..text.floor_char_boundary(MAX_BYTES)]);
        eligible::volatile(&token::tokens(&text))
    }

    /// Reads `text` without one of the rules, so that tests can show what it is for.
    fn without(written: &str, rule: Option<&str>) -> Result<Self, Ineligible> {
        let text = straightened(written);
        let mut tokens = token::tokens(&text);
        if tokens.len() > MAX_TOKENS {
            return Err(Ineligible::TooLong);
        }
        let (asking, embedded) = edges::asking(&tokens);
        tokens.truncate(asking.end);
        tokens.drain(..asking.start);
        if embedded || asking.start > 0 {
            edges::direct(&mut tokens);
        }
        let volatile = eligible::judge(&tokens)?;
        if verbatim::holds(written, &tokens) {
            return Ok(Self { features: Features::verbatim(written.trim()), volatile, strict: true });
        }
        names::alone(&mut tokens);
        let about_words = terms::about_words(&tokens);
        let as_spelt = about_words || verbatim::spelt(&tokens);
        if !about_words {
            terms::identifiers(&mut tokens);
        }
        if !as_spelt {
            spelling::corrected(&mut tokens);
        }
        let mut tokens = rewrite::phrases(tokens, about_words);
        if !as_spelt {
            tokens = value::merge(tokens);
        }
        rules::apply(&mut tokens, about_words, rule);
        Features::of(&tokens, as_spelt, volatile).map(|features| Self { features, volatile, strict: volatile })
    }

    /// Equal for questions that say the same: the same words in the same order, apart from politeness, spelling, writings of
    /// one value, and the wordings that the rules bring to one form. SHA-256, stable until a rule changes.
    pub const fn same_words(&self) -> [u8; 32] {
        self.features.same_words
    }

    /// Digest of what the equality gates compare: numbers, dates, times, units, literals, form and language. Questions
    /// in different buckets never pass the gates. Stable.
    pub const fn bucket(&self) -> u64 {
        self.features.bucket
    }

    /// Canonical terms, in order.
    pub(crate) fn terms(&self) -> &[Term] {
        &self.features.terms
    }

    /// Digest of the multiset of terms of one class, whatever their order.
    pub(crate) const fn sum(&self, class: Class) -> u64 {
        self.features.sums[class as usize]
    }
}

/// Normal form C, with straight apostrophes.
fn straightened(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let straight = |c: char| if matches!(c, '’' | '‘' | 'ʼ') { '\'' } else { c };
    if is_nfc(text) && !text.contains(['’', '‘', 'ʼ']) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.nfc().map(straight).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_of_twelve_words_takes_less_than_400_bytes() {
        let question =
            Question::read("How do I convert 25 miles to kilometres in a spreadsheet formula?").expect("eligible");
        assert!(size_of::<Question>() + size_of_val(question.terms()) <= 400);
    }
}
