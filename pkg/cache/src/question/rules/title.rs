//! The title of a work is the same with and without quotation marks, behind who made it.

use super::super::lexicon::Class;
use super::super::token::{self, Token};
use std::borrow::Cow;

/// `who wrote "The Trial"` → `who wrote the trial`.
pub(super) fn unquoted(tokens: &mut Vec<Token<'_>>) {
    const MADE: &[&str] =
        &["wrote", "composed", "painted", "directed", "sang", "sculpted", "illustrated", "translated"];
    let [who, made, title] = tokens.as_slice() else { return };
    if !who.is("who") || !made.is_any(MADE) || title.class != Some(Class::Literal) {
        return;
    }
    let Cow::Borrowed(text) = title.text else { return };
    let inner = [('"', '"'), ('“', '”'), ('\'', '\'')]
        .into_iter()
        .find_map(|(open, close)| text.strip_prefix(open).and_then(|text| text.strip_suffix(close)));
    let plain = |text: &&str| text.chars().all(|c| c.is_alphabetic() || c == ' ') && !text.trim().is_empty();
    let Some(inner) = inner.filter(plain) else { return };
    let mut words = token::tokens(inner);
    if words.iter().all(|word| word.class() == Class::Language) {
        return; // "Go" is a book, Go is not
    }
    tokens.pop();
    for word in words.iter_mut().skip(1).filter(|word| word.class().is_grammar()) {
        word.cased = None;
    }
    tokens.extend(words);
}
