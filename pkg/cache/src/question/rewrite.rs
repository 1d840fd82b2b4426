//! Takes politeness off the edges, and brings phrases to their short form.
//!
//! Only what asks nothing in any question is taken off. "Can you generate images" may ask what the one who answers is
//! able to, so it is not "generate images"; "could you tell me what X is" is "what is X".

use super::lexicon::{self, Class};
use super::token::Token;
use std::borrow::Cow;
use std::ops::Range;

/// Greetings: they open a question only if a break follows, and then the question.
const GREETINGS: &[&str] = &["hi there", "hello there", "hey there", "hi", "hello", "hey"];

/// "Could you", "would you", "can you": polite only before a request for an answer.
const REQUESTS: &[&str] = &["could", "would", "can"];

/// Requests for an answer. "Can you list birds" without "please" or "me" may ask whether one can.
const ANSWERS: &[&str] = &["explain", "describe", "list", "summarize", "summarise"];
/// Requests for an answer to the asker.
const ANSWERS_ME: &[&str] = &["tell me", "show me", "give me", "explain to me", "describe to me"];

/// Endings that ask nothing.
const CLOSINGS: &[&str] = &[
    "please",
    "thanks",
    "thank you",
    "thank you very much",
    "thank you so much",
    "thanks a lot",
    "thanks so much",
    "many thanks",
    "thanks in advance",
    "thank you in advance",
    "thx",
];

/// Question words, before which "tell me" only asks for an answer.
const QUESTION_WORDS: &[&str] = &["what", "who", "where", "when", "why", "how", "which", "whose", "whom"];

/// The part of `tokens` that asks: without greeting, politeness and thanks.
pub(super) fn asking(tokens: &[Token<'_>]) -> Range<usize> {
    let (mut start, mut end) = (0, tokens.len());
    while let Some(used) = closing(&tokens[start..end]) {
        end -= used;
    }
    while let Some(used) = opening(&tokens[start..end]) {
        start += used;
    }
    start..end
}

/// Whether `tokens` begin with the words of `phrase`.
fn begins(tokens: &[Token<'_>], phrase: &str) -> Option<usize> {
    let mut at = 0;
    for word in phrase.split(' ') {
        tokens.get(at).filter(|token| token.cased.is_none() && token.is(word))?;
        at += 1;
    }
    Some(at)
}

/// Whether `tokens` begin with one of `phrases`, and how many tokens it takes.
fn begins_any(tokens: &[Token<'_>], phrases: &[&str]) -> Option<usize> {
    phrases.iter().find_map(|phrase| begins(tokens, phrase))
}

/// How many tokens at the start ask nothing.
fn opening(tokens: &[Token<'_>]) -> Option<usize> {
    if let Some(used) = begins_any(tokens, GREETINGS) {
        let apart = tokens[used - 1].ends && !tokens[used - 1].colon;
        return (apart && tokens.get(used).is_none_or(begins_question)).then_some(used);
    }
    if let Some(used) = begins_any(tokens, &["please", "kindly"]) {
        return tokens.get(used).filter(|next| !tokens[0].colon && begins_question(next)).map(|_| used);
    }
    if begins_any(tokens, REQUESTS).is_some() && tokens.get(1)?.is("you") {
        let please = usize::from(tokens.get(2)?.is("please"));
        let asked = &tokens[2 + please..];
        let polite = please > 0 || !tokens[0].is("can");
        let answer = begins_any(asked, ANSWERS_ME).or_else(|| begins_any(asked, ANSWERS).filter(|_| polite));
        return answer.map(|_| 2 + please);
    }
    let used = begins(tokens, "tell me").filter(|&used| !tokens[used - 1].colon)?;
    tokens.get(used)?.is_any(QUESTION_WORDS).then_some(used)
}

/// A word that a question or a request for an answer begins with.
fn begins_question(token: &Token<'_>) -> bool {
    token.cased.is_none()
        && (token.is_any(QUESTION_WORDS)
            || token.is_any(REQUESTS)
            || token.is_any(ANSWERS)
            || token.is_any(&["whats", "please", "tell", "show", "give", "is", "are", "do", "does", "did", "turn"]))
}

/// How many tokens at the end ask nothing, behind a break; behind a colon they are what is asked about.
fn closing(tokens: &[Token<'_>]) -> Option<usize> {
    let used = CLOSINGS.iter().filter_map(|phrase| {
        let words = phrase.split(' ').count();
        begins(&tokens[tokens.len().checked_sub(words)?..], phrase)
    });
    let used = used.max()?;
    let before = &tokens[..tokens.len() - used];
    let apart = before.last().is_none_or(|token| token.ends);
    (apart && !before.iter().any(|token| token.colon)).then_some(used)
}

/// Replaces phrases by what they say, and gives every word its sense.
pub(super) fn phrases<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    let mut out = Vec::with_capacity(tokens.len() + 2);
    let mut at = 0;
    while at < tokens.len() {
        let slot = if tokens[at].class.is_none() { lexicon::slot(&tokens[at].text) } else { None };
        let found = slot.and_then(|slot| slot.rewrites.iter().find(|rewrite| follows(&tokens[at..], &rewrite.rest)));
        if let Some(rewrite) = found {
            let last = at + rewrite.rest.len();
            out.extend(rewrite.with.iter().map(|&word| with_sense(Token::word(Cow::Borrowed(word)))));
            if let Some(end) = out.last_mut() {
                end.ends = tokens[last].ends;
                end.colon = tokens[last].colon;
                end.owner = tokens[last].owner;
            }
            at = last + 1;
        } else {
            let mut token = tokens[at].clone();
            token.sense = slot.and_then(|slot| slot.sense);
            out.push(token);
            at += 1;
        }
    }
    out
}

/// Whether the words of `rest` stand behind the first token, in one clause.
fn follows(tokens: &[Token<'_>], rest: &[&str]) -> bool {
    tokens.len() > rest.len()
        && !tokens[..rest.len()].iter().any(|token| token.ends || token.owner)
        && !tokens[..=rest.len()].iter().any(|token| token.cased.is_some())
        && rest.iter().zip(&tokens[1..]).all(|(word, token)| token.is(word))
}

/// The token with what the lexicon knows of it.
fn with_sense(mut token: Token<'_>) -> Token<'_> {
    token.sense = lexicon::sense(&token.text);
    token
}

/// "what a mutex is" → "what is a mutex", as a question embedded in a request reads. The subject is one noun, or starts
/// with an article: in "what colour rubies are", "colour" is not part of it.
pub(super) fn embedded(tokens: &mut [Token<'_>]) {
    let copula = |token: &Token<'_>| token.is_any(&["is", "are"]);
    let [first, subject @ .., last] = &*tokens else { return };
    let article = subject.first().is_some_and(|token| token.is_any(&["a", "an", "the"]));
    let named = |token: &Token<'_>| {
        let class = lexicon::sense(&token.text).map_or(Class::Word, |sense| sense.class);
        let filler = class == Class::Filler && !copula(token);
        !token.ends && (filler || matches!(class, Class::Word | Class::Polar | Class::Preposition | Class::Language))
    };
    if first.is_any(&["what", "who", "where"])
        && !first.ends
        && copula(last)
        && (article && subject.len() > 1 || subject.len() == 1)
        && subject.iter().all(named)
    {
        let ends = last.ends;
        tokens[1..].rotate_right(1);
        tokens[1].ends = false;
        if let Some(last) = tokens.last_mut() {
            last.ends = ends;
        }
    }
}
