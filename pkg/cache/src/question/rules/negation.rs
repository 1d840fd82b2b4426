//! "do not" is "don't", where the helper stands behind its subject.
//!
//! Before the subject the two may differ: "is not drinking harmful" asks about not drinking, "isn't drinking harmful" does
//! not. Behind "who" the helper has its subject.

use super::super::lexicon::Class;
use super::super::marks;
use super::super::token::Token;

/// "if I do not pay" → "if I don't pay", "cannot" → "can't".
pub(super) fn contracted(tokens: &mut Vec<Token<'_>>) {
    behind_subject(tokens);
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

/// "why does bread not rise" → "why doesn't bread rise". The helper needs "do", since "is not bread" may be one thing.
fn behind_subject(tokens: &mut Vec<Token<'_>>) {
    let Some(at) = tokens.iter().position(|token| token.is("not")) else { return };
    let [asked, helper, subject @ ..] = &tokens[..at] else { return };
    let inverted = asked.has(marks::QUESTION_WORD) && !asked.ends && helper.is_any(&["do", "does", "did"]);
    let named = |token: &Token<'_>| {
        !token.ends && (super::noun(token) || matches!(token.class(), Class::Filler | Class::Pronoun))
    };
    if inverted && at + 1 < tokens.len() && (1..=3).contains(&subject.len()) && subject.iter().all(named) {
        tokens.remove(at);
        tokens.insert(2, Token::known("n't"));
    }
}
