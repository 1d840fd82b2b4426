//! Brings phrases to their short form.

use super::lexicon::{Next, Rewrite};
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
        let starts = out.last().is_none_or(|before: &Token<'_>| before.ends);
        let found = if begins_phrase(&tokens[at]) { find(&tokens[at..], starts, about_words) } else { None };
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

/// The longest phrase that `tokens` begin with; `starts` if a clause does.
fn find(tokens: &[Token<'_>], starts: bool, about_words: bool) -> Option<&'static Rewrite> {
    let mut rewrites = tokens[0].slot?.rewrites.iter();
    rewrites.find(|rewrite| (rewrite.of_words || !about_words) && follows(tokens, rewrite, starts))
}

/// Whether the words of `rewrite` stand behind the first token, in one clause, and before what it asks for.
fn follows(tokens: &[Token<'_>], rewrite: &Rewrite, starts: bool) -> bool {
    let rest = &rewrite.rest;
    tokens.len() > rest.len()
        && rest.iter().zip(&tokens[1..]).all(|(word, token)| token.is(word))
        && !tokens[..rest.len()].iter().any(|token| token.ends || token.owner)
        && !tokens[..=rest.len()].iter().any(|token| token.cased.is_some())
        && (starts || !rewrite.first)
        && precedes(&tokens[rest.len()], tokens.get(rest.len() + 1), rewrite.next)
}

/// Whether `next`, behind the phrase that ends with `last`, is what the phrase needs.
fn precedes(last: &Token<'_>, next: Option<&Token<'_>>, wanted: Next) -> bool {
    if wanted == Next::Any {
        return true;
    }
    let Some(next) = next.filter(|next| !last.ends && next.cased.is_none()) else { return false };
    match wanted {
        Next::Any => true,
        Next::Does => !next.has(marks::STATIVE),
        Next::Verb => next.has(marks::VERB) && !next.owner,
        Next::Gerund => next.has(marks::GERUND) && !next.joined,
        Next::Hands => next.has(marks::HANDS),
    }
}
