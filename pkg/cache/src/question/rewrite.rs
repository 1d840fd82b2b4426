//! Brings phrases to their short form.

use super::lexicon::{Class, Next, Rewrite};
use super::marks;
use super::token::Token;

/// Replaces phrases by what they say; few of them where words themselves are asked about.
pub(super) fn phrases(mut tokens: Vec<Token<'_>>, about_words: bool) -> Vec<Token<'_>> {
    if !tokens.iter().any(|token| begins_phrase(token)) {
        return tokens;
    }
    let mut out = Vec::with_capacity(tokens.len() + 2);
    let mut at = 0;
    while at < tokens.len() {
        let found = if begins_phrase(&tokens[at]) { find(&tokens[at..], out.last(), about_words) } else { None };
        if let Some(rewrite) = found {
            let last = at + rewrite.rest.len();
            out.extend(rewrite.with.iter().map(|&word| Token::known(word)));
            if let Some(end) = out.last_mut() {
                end.ends = tokens[last].ends;
                end.colon = tokens[last].colon;
                end.owner = tokens[last].owner;
            }
            at = last + 1;
            if rewrite.next == Next::Gerund
                && let Some(verb) = tokens[at].slot.and_then(|slot| slot.verb)
            {
                out.push(Token { ends: tokens[at].ends, ..Token::known(verb) });
                at += 1;
            }
        } else {
            out.push(std::mem::replace(&mut tokens[at], Token::gone()));
            at += 1;
        }
    }
    out
}

/// Whether phrases begin with the word.
fn begins_phrase(token: &Token<'_>) -> bool {
    token.class.is_none() && token.slot.is_some_and(|slot| !slot.rewrites.is_empty())
}

/// The longest phrase that `tokens` begin with, behind `before`.
fn find(tokens: &[Token<'_>], before: Option<&Token<'_>>, about_words: bool) -> Option<&'static Rewrite> {
    let starts = before.is_none_or(|before| before.ends);
    let done = || before.is_some_and(|before| before.is_any(&["how-to", "to", "i", "you"]));
    let mut rewrites = tokens[0].slot?.rewrites.iter();
    rewrites.find(|rewrite| {
        (rewrite.of_words || !about_words)
            && (starts || !rewrite.first)
            && follows(tokens, rewrite)
            && (!rewrite.done || done() && is_whole(&tokens[rewrite.rest.len()..]))
    })
}

/// Whether no further noun stands behind the one with which `tokens` begin: "make an appointment", but not "an appointment
/// reminder".
fn is_whole(tokens: &[Token<'_>]) -> bool {
    let ends = |next: &Token<'_>| matches!(next.class(), Class::Preposition | Class::Connective);
    tokens[0].ends || tokens.get(1).is_none_or(ends)
}

/// Whether the words of `rewrite` stand behind the first token, in one clause, and before what it asks for.
fn follows(tokens: &[Token<'_>], rewrite: &Rewrite) -> bool {
    let rest = &rewrite.rest;
    tokens.len() > rest.len()
        && rest.iter().zip(&tokens[1..]).all(|(word, token)| token.is(word))
        && !tokens[..rest.len()].iter().any(|token| token.ends || token.owner)
        && !tokens[..=rest.len()].iter().any(|token| token.cased.is_some())
        && precedes(&tokens[rest.len()..], rewrite.next)
}

/// Whether what stands behind the last token of the phrase, with which `tokens` begin, is what the phrase needs.
fn precedes(tokens: &[Token<'_>], wanted: Next) -> bool {
    if wanted == Next::Any {
        return true;
    }
    let next = tokens.get(1).filter(|next| !tokens[0].ends && next.cased.is_none());
    let Some(next) = next else { return false };
    match wanted {
        Next::Any => true,
        Next::Does => !next.has(marks::STATIVE),
        Next::Verb => next.has(marks::VERB) && !next.owner,
        Next::Gerund => next.has(marks::GERUND) && !next.joined,
        Next::Object => {
            let article = tokens.get(2).is_some_and(|token| token.is_any(&["a", "an", "the", "my"]));
            next.has(marks::VERB) && !next.owner && !next.ends && article
        }
    }
}
