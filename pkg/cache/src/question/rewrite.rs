//! Says the same question in one way: politeness off the edges, phrases to their short form, "X's Y" to "Y of X".

use super::lexicon::{self, Class};
use super::token::Token;
use std::borrow::Cow;
use std::ops::Range;

/// Greetings and fillers: they open a question only if a break or the question itself follows ("Good morning in Dutch").
const GREETINGS: &[&str] = &[
    "hi there",
    "hello there",
    "hey there",
    "hi",
    "hello",
    "hey",
    "greetings",
    "good morning",
    "good afternoon",
    "good evening",
    "excuse me",
    "sorry to bother you",
    "sorry",
    "thank you",
    "thanks",
    "ok",
    "okay",
    "OK",
    "HI",
    "well",
    "so",
    "um",
    "quick question",
    "question",
    "i have a question",
    "my question is",
    "just curious",
    "i am curious",
];

/// Openings that ask for an answer and nothing else.
const OPENINGS: &[&str] = &[
    "please",
    "kindly",
    "i would like to know",
    "i want to know",
    "i need to know",
    "i would like you to",
    "i want you to",
    "i was wondering",
    "i am wondering",
    "i wonder",
    "do you know",
    "can i ask",
    "may i ask",
    "let me know",
    "tell me",
    "help me understand",
    "can you help me understand",
];

/// "Could you", "can you", "would you", "will you": polite only before a request.
const REQUESTS: [&str; 4] = ["could", "can", "would", "will"];

/// Verbs of requests; "can you eat raw eggs" asks something else.
const REQUEST_VERBS: &[&str] = &[
    "please",
    "kindly",
    "tell",
    "explain",
    "describe",
    "list",
    "show",
    "give",
    "write",
    "summarize",
    "summarise",
    "translate",
    "compare",
    "define",
    "help",
    "name",
    "suggest",
    "recommend",
    "provide",
    "convert",
    "calculate",
    "find",
    "create",
    "generate",
    "let",
    "cancel",
    "delete",
    "send",
    "book",
    "transfer",
    "order",
    "turn",
    "set",
    "remind",
];

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
    "cheers",
];

/// Question words, before which "explain" and "do you know" only ask for an answer.
const QUESTION_WORDS: &[&str] = &["what", "who", "where", "when", "why", "how", "which", "whose", "whom"];

/// The part of `tokens` that asks: without greeting, politeness and thanks.
pub(super) fn asking(tokens: &[Token<'_>]) -> Range<usize> {
    let (mut start, mut end) = (0, tokens.len());
    while let Some(used) = opening(&tokens[start..end]) {
        start += used;
    }
    while let Some(used) = closing(&tokens[start..end]) {
        end -= used;
    }
    start..end
}

/// Whether `tokens` begin with the words of `phrase`.
fn begins(tokens: &[Token<'_>], phrase: &str) -> Option<usize> {
    let mut at = 0;
    for word in phrase.split(' ') {
        if !tokens.get(at)?.is(word) {
            return None;
        }
        at += 1;
    }
    Some(at)
}

/// How many tokens at the start ask nothing.
fn opening(tokens: &[Token<'_>]) -> Option<usize> {
    let first = tokens.first()?;
    if REQUESTS.iter().any(|word| first.is(word)) {
        let polite = tokens.get(1)?.is("you") && tokens.get(2)?.is_any(REQUEST_VERBS);
        return polite.then_some(2);
    }
    if first.is_any(&["explain", "describe"]) {
        return tokens.get(1)?.is_any(QUESTION_WORDS).then_some(1).filter(|_| !begins_how_to(&tokens[1..]));
    }
    if let Some(used) = GREETINGS.iter().find_map(|phrase| begins(tokens, phrase)) {
        let asks = |at: usize| tokens.get(at).is_some_and(begins_question);
        let name = usize::from(named(&tokens[used - 1..]));
        let polite = tokens.len() > used && tokens[used - 1].ends && !tokens[used - 1].colon;
        let alone = tokens.len() == used;
        return (alone || polite || asks(used) || name > 0 && asks(used + name)).then_some(used + name);
    }
    let used = OPENINGS.iter().find_map(|phrase| begins(tokens, phrase)).filter(|&used| !tokens[used - 1].colon)?;
    let embedded = first.is_any(&["tell", "let", "do", "i"])
        && tokens.get(used).is_some_and(|next| next.is_any(&["if", "whether"]));
    Some(used + usize::from(embedded))
}

/// A word that a question or request begins with.
fn begins_question(token: &Token<'_>) -> bool {
    token.is_any(QUESTION_WORDS)
        || token.is_any(&REQUESTS)
        || token.is_any(&["i", "please", "is", "are", "do", "does", "did", "tell"])
}

/// `how to`, which the phrase table handles.
fn begins_how_to(tokens: &[Token<'_>]) -> bool {
    begins(tokens, "how to").is_some()
}

/// A greeting with a name behind it: "Hi Anna, ...".
fn named(tokens: &[Token<'_>]) -> bool {
    tokens.len() > 2
        && !tokens[0].ends
        && tokens[1].ends
        && tokens[1].class.is_none()
        && lexicon::sense(&tokens[1].text).is_none()
}

/// How many tokens at the end ask nothing. Without a break before it, only "please" is politeness, and not where it is
/// the thing asked about ("how do you say please").
fn closing(tokens: &[Token<'_>]) -> Option<usize> {
    const NAMES_A_WORD: &[&str] =
        &["say", "word", "words", "for", "of", "to", "with", "write", "spell", "translate", "is", "mean"];
    let used = CLOSINGS.iter().filter_map(|phrase| {
        let words = phrase.split(' ').count();
        begins(&tokens[tokens.len().checked_sub(words)?..], phrase)
    });
    let used = used.max()?;
    let before = tokens.len().checked_sub(used + 1).map(|at| &tokens[at]);
    let apart = before.is_none_or(|token| token.ends && !token.colon);
    let polite = tokens[tokens.len() - used].is("please")
        && before.is_some_and(|token| !token.colon && !token.is_any(NAMES_A_WORD));
    (apart || polite).then_some(used)
}

/// Replaces phrases by what they say, and gives every word its sense.
pub(super) fn phrases(mut tokens: Vec<Token<'_>>) -> Vec<Token<'_>> {
    split_frames(&mut tokens);
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
        && rest.iter().zip(&tokens[1..]).all(|(word, token)| token.is(word))
}

/// The token with what the lexicon knows of it.
fn with_sense(mut token: Token<'_>) -> Token<'_> {
    token.sense = lexicon::sense(&token.text);
    token
}

/// Frames whose words stand around their subject: "what does X mean", "how much does X cost", "turn X on".
fn split_frames(tokens: &mut Vec<Token<'_>>) {
    const AROUND: [(&[&str], &str, &[&str]); 5] = [
        (&["what", "does", "the", "word"], "mean", &["what", "is", "meaning", "of"]),
        (&["what", "does"], "mean", &["what", "is", "meaning", "of"]),
        (&["what", "do"], "mean", &["what", "is", "meaning", "of"]),
        (&["how", "much", "does"], "cost", &["what", "is", "cost", "of"]),
        (&["how", "much", "does"], "weigh", &["what", "is", "weight", "of"]),
    ];
    if tokens.len() > 2 && tokens[0].is_any(QUESTION_WORDS) && tokens[1].is_any(&["exactly", "actually"]) {
        tokens.remove(1); // adds stress, not meaning
    }
    let Some(last) = tokens.last() else { return };
    let fitting = AROUND.into_iter().find(|(front, back, _)| {
        last.is(back)
            && tokens.len() > front.len() + 1
            && front.iter().zip(tokens.iter()).all(|(word, token)| token.is(word))
    });
    if let Some((front, _, with)) = fitting {
        tokens.pop();
        tokens.splice(..front.len(), with.iter().map(|&word| Token::word(Cow::Borrowed(word))));
    }
    particles(tokens);
}

/// "turn X on" → "turn on X", likewise off, for turn and switch.
fn particles(tokens: &mut [Token<'_>]) {
    let Some(verb) = tokens.iter().position(|token| token.is_any(&["turn", "switch"])) else { return };
    let clause = tokens[verb..].iter().position(|token| token.ends).map_or(tokens.len(), |at| verb + at + 1);
    let particle = (verb + 1..clause).find(|&at| tokens[at].is("off") || (tokens[at].is("on") && at + 1 == clause));
    if let Some(at) = particle.filter(|&at| at > verb + 1) {
        let ends = std::mem::take(&mut tokens[at].ends);
        tokens[verb + 1..=at].rotate_right(1);
        tokens[at].ends = ends;
    }
}

/// A bare noun phrase with "of" ("boiling point of water") asks what it is.
pub(super) fn bare(tokens: &mut Vec<Token<'_>>) {
    let names = |token: &Token<'_>| {
        !token.ends
            && matches!(token.class(), Class::Word | Class::Filler | Class::Preposition)
            && !token.is_any(&["is", "are", "am", "do", "does"])
    };
    let Some((last, body)) = tokens.split_last() else { return };
    let article = usize::from(tokens[0].is_any(&["the", "a", "an"]));
    let noun = tokens.get(article).is_some_and(|first| first.class.is_none() && first.sense.is_none());
    let plain = Token { ends: false, ..last.clone() };
    if noun && tokens.iter().any(|token| token.is("of")) && body.iter().all(names) && names(&plain) {
        let asked = ["what", "is"].into_iter().map(|word| with_sense(Token::word(Cow::Borrowed(word))));
        tokens.splice(..0, asked);
    }
}

/// In a how-to question "my router" is any router.
pub(super) fn anybodys(tokens: &mut [Token<'_>]) {
    if tokens.iter().any(|token| token.class() == Class::Intent && token.is("how-to")) {
        for token in tokens.iter_mut().filter(|token| token.is_any(&["my", "your", "our"])) {
            *token = Token { ends: token.ends, ..with_sense(Token::word(Cow::Borrowed("a"))) };
        }
    }
}

/// "france's capital" → "capital of france", where one possessive stands before one or two nouns at a clause's end.
pub(super) fn possessive(tokens: &mut Vec<Token<'_>>) {
    let mut owners = tokens.iter().enumerate().filter(|(_, token)| token.owner).map(|(at, _)| at);
    let (Some(owner), None) = (owners.next(), owners.next()) else { return };
    let noun = |token: &Token<'_>| matches!(token.class(), Class::Word | Class::Polar | Class::Language);
    if !noun(&tokens[owner]) || tokens[owner].ends {
        return;
    }
    let start = (0..owner).rev().take_while(|&at| noun(&tokens[at]) && !tokens[at].ends).last().unwrap_or(owner);
    let taken = tokens[owner + 1..].iter().take_while(|token| noun(token)).count();
    let stop = owner + 1 + taken;
    if !(1..=2).contains(&taken) || tokens[owner + 1..stop - 1].iter().any(|token| token.ends) {
        return;
    }
    let closed = stop == tokens.len() || tokens[stop - 1].ends || tokens[stop].class() == Class::Preposition;
    if closed {
        let ends = std::mem::take(&mut tokens[stop - 1].ends);
        tokens[owner].owner = false;
        tokens[start..stop].rotate_left(owner + 1 - start);
        tokens.insert(start + taken, with_sense(Token::word(Cow::Borrowed("of"))));
        tokens[stop].ends = ends;
    }
}
