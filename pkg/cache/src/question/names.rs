//! Where a capital tells nothing.
//!
//! Many write names in lower case. "how tall is the eiffel tower" asks for no other tower, since "eiffel" is no other word;
//! but "rust" and "Rust" are two things. So a capital is dropped from a word that has no other reading in lower case, as
//! far as a list of the words that do can tell, and from two capitals side by side, which are one name of several words.

use super::lexicon::{Class, Slot};
use super::marks;
use super::token::Token;
use std::borrow::Cow;

/// Whether `part`, in lower case `word`, is the same word without its capitals; `flat` if all words of the text have them.
pub(super) fn folds(part: &str, word: &str, slot: Option<&Slot>, flat: bool) -> bool {
    let marked = |mark| slot.is_some_and(|slot| slot.marks & mark != 0);
    if marked(marks::AMBIGUOUS_NAME) {
        return false;
    }
    if marked(marks::ACRONYM) {
        return true;
    }
    let length = part.chars().count();
    let all_upper = !part.chars().any(char::is_lowercase);
    let pronounced = word.contains(['a', 'e', 'i', 'o', 'u', 'y']);
    match slot.filter(|slot| slot.is_known()).map(|slot| slot.sense.map(|sense| sense.class)) {
        Some(Some(Class::Language | Class::Unit | Class::Time)) => length > 3,
        Some(_) => flat,
        None if all_upper && !flat => length > 4 || (length > 2 && !pronounced),
        None if all_upper => length > 3,
        None => length > 3 || (length == 3 && !part.chars().skip(1).any(char::is_uppercase)),
    }
}

/// Two capitals side by side are one name, which is known by its words. Not where every word has a capital.
pub(super) fn join(tokens: &mut [Token<'_>]) {
    if !tokens.iter().any(|token| token.cased.is_some()) {
        return;
    }
    let grammar = |token: &Token<'_>| token.class().is_grammar() || token.has(marks::ASKING);
    if tokens.iter().skip(1).any(|token| token.cased.is_some() && grammar(token)) {
        return;
    }
    let named = |token: &Token<'_>| token.class.is_none() && (token.cased.is_some() || token.proper) && !grammar(token);
    let side = |one: &Token<'_>, other: &Token<'_>| {
        !one.ends
            && !one.owner
            && !other.joined
            && named(one)
            && named(other)
            && one.text.len() > 2
            && other.text.len() > 2
    };
    let pairs: Vec<bool> = tokens.windows(2).map(|pair| side(&pair[0], &pair[1])).collect();
    for (at, pair) in pairs.into_iter().enumerate() {
        if pair {
            tokens[at].cased = None;
            tokens[at + 1].cased = None;
        }
    }
}

/// A name that is all that is asked about keeps a capital: nothing beside "Meta" tells it from "meta".
pub(super) fn alone(tokens: &mut [Token<'_>]) {
    let says = |token: &Token<'_>| {
        let frame = token.class().is_grammar() || token.has(marks::ASKING | marks::ABOUT_WORDS);
        token.class.is_some() || !frame
    };
    let mut content = tokens.iter_mut().filter(|token| says(token));
    if let (Some(name), None) = (content.next(), content.next())
        && name.proper
        && name.class.is_none()
        && name.cased.is_none()
        && !name.slot.is_some_and(|slot| slot.is_known() || slot.marks & marks::ACRONYM != 0)
    {
        let mut letters = name.text.chars();
        let first = letters.next().into_iter().flat_map(char::to_uppercase);
        name.cased = Some(Cow::Owned(first.chain(letters).collect()));
    }
}
