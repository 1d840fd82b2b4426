//! "do not" is "don't", where the helper stands behind its subject.
//!
//! Before the subject the two may differ: "is not drinking harmful" asks about not drinking, "isn't drinking harmful" does
//! not. Behind "who" the helper has its subject.

use super::super::lexicon::Class;
use super::super::marks;
use super::super::token::Token;

/// "if I do not pay" → "if I don't pay", "cannot" → "can't".
pub(super) fn contracted(tokens: &mut Vec<Token<'_>>) {
    let mut at = 1;
    while at < tokens.len() {
        let subject = |before: &Token<'_>| {
            !before.ends && (before.is("who") || matches!(before.class(), Class::Word | Class::Pronoun | Class::Polar))
        };
        if tokens[at].is("cannot") && subject(&tokens[at - 1]) {
            super::replace(tokens, at, 1, &["can", "n't"]);
        } else if tokens[at].is("not")
            && at > 1
            && tokens[at - 1].has(marks::TAKES_NOT)
            && !tokens[at - 1].ends
            && subject(&tokens[at - 2])
        {
            super::replace(tokens, at, 1, &["n't"]);
        }
        at += 1;
    }
}
