//! Takes off the edges of a text what asks nothing: greetings, pauses, politeness, thanks.
//!
//! Only what asks nothing in any question is taken off. "Can you generate images" may ask what the one who answers is
//! able to, so it is not "generate images"; "could you tell me what X is" is "what is X".

use super::lexicon::Class;
use super::marks;
use super::token::Token;
use std::ops::Range;

/// Phrases that stand apart before a question.
const APART: &[&str] = &[
    "i have a question",
    "one question",
    "question",
    "sorry",
    "sorry to bother you",
    "sorry for bothering you",
    "excuse me",
    "good morning",
    "good afternoon",
    "good evening",
    "good day",
    "just wondering",
    "just curious",
    "i was wondering",
    "i am wondering",
    "i was just wondering",
    "i need help",
    "i need some help",
    "need help",
    "need some help",
    "help",
    "help please",
    "please help",
    "please help me",
    "can you help me",
    "could you help me",
    "can you help",
    "can someone help me",
    "can anyone help",
    "can anyone help me",
    "right",
    "anyway",
];

/// Requests to answer, before a question that is embedded in them.
const LEADS: &[&str] = &[
    "tell me",
    "let me know",
    "i would like to know",
    "i 'd like to know",
    "i want to know",
    "i need to know",
    "i would love to know",
    "i was wondering",
    "i am wondering",
    "i wonder",
    "just wondering",
    "wondering",
    "can anyone tell me",
    "can someone tell me",
    "could anyone tell me",
    "could someone tell me",
    "any idea",
];

/// The same, but before "how to" they may ask for a skill.
const KNOWING: &[&str] =
    &["do you know", "do you happen to know", "does anyone know", "does anybody know", "does someone know"];

/// Requests for an answer. "Can you list birds" without "please" or "me" may ask whether one can.
const ANSWERS: &[&str] = &["explain", "describe", "list", "summarize", "summarise"];
/// Requests for an answer to the asker.
const ANSWERS_ME: &[&str] = &["tell me", "show me", "give me", "write me", "explain to me", "describe to me"];

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
    "many thanks in advance",
    "thx",
    "ty",
    "cheers",
    "please help",
    "please help me",
    "help please",
    "help",
    "any help appreciated",
    "any help is appreciated",
    "any help would be appreciated",
    "thanks for your help",
    "thank you for your help",
    "thanks for any help",
    "thanks all",
    "thanks everyone",
    "kind regards",
    "best regards",
];

/// The part of `tokens` that asks, and whether something before it was a request that the question is embedded in.
pub(super) fn asking(tokens: &[Token<'_>]) -> (Range<usize>, bool) {
    let (mut start, mut end, mut embedded) = (0, tokens.len(), false);
    loop {
        let before = (start, end);
        while let Some((used, lead)) = opening(&tokens[start..end]) {
            start += used;
            embedded |= lead;
        }
        while let Some(used) = closing(&tokens[start..end]) {
            end -= used;
        }
        if before == (start, end) {
            return (start..end, embedded);
        }
    }
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

/// The longest of `phrases` that `tokens` begin with, as the number of its tokens.
fn begins_any(tokens: &[Token<'_>], phrases: &[&str]) -> Option<usize> {
    phrases.iter().filter_map(|phrase| begins(tokens, phrase)).max()
}

/// How many tokens at the start ask nothing, and whether what follows is embedded in them.
fn opening(tokens: &[Token<'_>]) -> Option<(usize, bool)> {
    let first = tokens.first().filter(|first| first.has(marks::OPENS) && first.cased.is_none())?;
    let rest = |used: usize| tokens.get(used);
    if first.has(marks::GREETING) {
        let used = 1 + usize::from(rest(1).is_some_and(|next| next.has(marks::GREETED) && !first.ends));
        return greeted(tokens, used).then_some((used, false));
    }
    let asks_soon = |next: &Token<'_>| begins_question(next) || next.has(marks::OPENS) && next.cased.is_none();
    if first.has(marks::PAUSE)
        && !first.colon
        && rest(1).is_some_and(|next| begins_question(next) || next.has(marks::PAUSE))
    {
        return Some((1, false));
    }
    if first.is_any(&["please", "kindly"]) {
        return rest(1).filter(|next| !first.colon && begins_question(next)).map(|_| (1, false));
    }
    if let Some(used) = polite(tokens) {
        return Some(used);
    }
    if let Some(used) = announced(tokens).or_else(|| begins_any(tokens, APART)) {
        let but = usize::from(rest(used).is_some_and(|next| next.is("but") && !next.ends));
        if (tokens[used - 1].ends || but > 0) && rest(used + but).is_some_and(asks_soon) {
            return Some((used + but, false));
        }
    }
    let asks = |used: usize| rest(used).is_some_and(|next| next.has(marks::QUESTION_WORD) && next.cased.is_none());
    // "Let me know when it rings" asks for a call, not for the time.
    let called = |used: usize| rest(used).is_some_and(|next| next.is("when")) && first.is_any(&["let", "tell"]);
    let lead = begins_any(tokens, LEADS).filter(|&used| !tokens[used - 1].colon && asks(used) && !called(used));
    let skill = |used: usize| {
        rest(used + 1).is_some_and(|next| next.is("to")) || rest(used).is_some_and(|next| next.sense().is_none())
    };
    lead.or_else(|| begins_any(tokens, KNOWING).filter(|&used| asks(used) && !skill(used))).map(|used| (used, true))
}

/// "a quick question", "silly question", "quick one": a question is announced.
fn announced(tokens: &[Token<'_>]) -> Option<usize> {
    const KINDS: &[&str] =
        &["quick", "silly", "stupid", "dumb", "random", "simple", "short", "basic", "weird", "odd", "easy"];
    let lead = begins_any(tokens, &["i have a", "just a", "a", "just"]).unwrap_or(0);
    let kind = tokens.get(lead).filter(|kind| kind.is_any(KINDS) && kind.cased.is_none() && !kind.ends)?;
    let noun = tokens.get(lead + 1)?;
    (noun.is("question") || noun.is("one") && kind.is("quick")).then_some(lead + 2)
}

/// Whether a greeting of `used` tokens stands apart from what follows, or a question follows at once.
fn greeted(tokens: &[Token<'_>], used: usize) -> bool {
    let last = &tokens[used - 1];
    let Some(next) = tokens.get(used) else { return last.ends && !last.colon };
    let asks = begins_question(next) || next.has(marks::OPENS) && next.cased.is_none();
    (last.ends && !last.colon && asks) || (next.has(marks::QUESTION_WORD) && next.cased.is_none())
}

/// "Could you (please) tell me", "please can you explain": how many tokens, up to the request itself.
fn polite(tokens: &[Token<'_>]) -> Option<(usize, bool)> {
    if !tokens[0].is_any(&["could", "would", "can"]) || !tokens.get(1)?.is("you") {
        return None;
    }
    let please = usize::from(tokens.get(2)?.is_any(&["please", "kindly"]));
    let asked = &tokens[2 + please..];
    let polite = please > 0 || !tokens[0].is("can") || asked.iter().any(|token| token.ends && token.is("please"));
    let answer = begins_any(asked, ANSWERS_ME).or_else(|| begins_any(asked, ANSWERS).filter(|_| polite));
    answer.map(|_| (2 + please, false))
}

/// A word that a question or a request for an answer begins with.
fn begins_question(token: &Token<'_>) -> bool {
    token.cased.is_none()
        && (token.has(marks::QUESTION_WORD | marks::COPULA | marks::HELPER)
            || token.is_any(&[
                "whats", "please", "tell", "show", "give", "do", "does", "did", "turn", "have", "has", "will",
            ])
            || token.is_any(ANSWERS))
}

/// How many tokens at the end ask nothing, behind a break; behind a colon they are what is asked about.
fn closing(tokens: &[Token<'_>]) -> Option<usize> {
    let last = tokens.last()?;
    let rest = |used: usize| &tokens[..tokens.len() - used];
    if !last.has(marks::CLOSES) || last.cased.is_some() {
        return None;
    }
    let used = CLOSINGS.iter().filter_map(|phrase| {
        let words = phrase.split(' ').count();
        begins(&tokens[tokens.len().checked_sub(words)?..], phrase)
    });
    let used = used.max()?;
    let before = rest(used);
    let apart = before.last().is_none_or(|token| token.ends);
    let plain = used == 1 && last.is("please") && trails(before);
    // "How do you say, thank you?"
    let asked = before.last().is_some_and(|token| {
        token.class() == Class::Preposition
            || token.is_any(&[
                "say",
                "write",
                "spell",
                "answer",
                "reply",
                "respond",
                "type",
                "pronounce",
                "translate",
                "or",
            ])
    });
    ((apart || plain) && !asked && !before.iter().any(|token| token.colon)).then_some(used)
}

/// Whether "please" without a comma can only be politeness: a whole question of a common frame stands before it,
/// which ends with a noun.
fn trails(before: &[Token<'_>]) -> bool {
    const FRAMES: &[&str] =
        &["how do i", "how can i", "how to", "what is", "where is", "where can i", "can i", "do you"];
    let noun = before.last().is_some_and(|token| {
        matches!(token.class(), Class::Word | Class::Language) && token.class.is_none() && !token.has(marks::VERB)
    });
    noun && before.len() > 4
        && begins_any(before, FRAMES).is_some()
        && !before.iter().any(|token| token.has(marks::ABOUT_WORDS) || token.ends)
}

/// "what a mutex is" → "what is a mutex", "how tall the tower is" → "how tall is the tower", as a question embedded in a
/// request reads. The subject is one noun, or starts with an article or a name: in "what colour rubies are", "colour" is
/// not part of it.
pub(super) fn direct(tokens: &mut Vec<Token<'_>>) {
    speaker(tokens);
    inner_copula(tokens);
    let copula = |token: &Token<'_>| token.is_any(&["is", "are", "was", "were"]);
    let Some(last) = tokens.last().filter(|last| copula(last)) else { return };
    let ends = last.ends;
    let Some(start) = subject(tokens) else { return };
    let inner = &tokens[start..tokens.len() - 1];
    let article = inner.first().is_some_and(|token| token.is_any(&["a", "an", "the", "my", "our"]) || token.proper);
    let named = |token: &Token<'_>| {
        let class = token.class();
        let filler = matches!(class, Class::Filler | Class::Pronoun) && !copula(token);
        !token.ends && (filler || matches!(class, Class::Word | Class::Polar | Class::Preposition | Class::Language))
    };
    if (article && inner.len() > 1 || inner.len() == 1) && inner.iter().all(named) {
        tokens[start..].rotate_right(1);
        tokens[start].ends = false;
        if let Some(last) = tokens.last_mut() {
            last.ends = ends;
        }
    }
}

/// "why the sky is blue" → "why is the sky blue", "when the tower was built" → "when was the tower built".
fn inner_copula(tokens: &mut [Token<'_>]) {
    let Some(first) = tokens.first().filter(|first| first.is_any(&["when", "where", "why", "how"]) && !first.ends)
    else {
        return;
    };
    let copulas = tokens.iter().filter(|token| token.has(marks::COPULA)).count();
    let Some(at) = tokens.iter().position(|token| token.has(marks::COPULA)).filter(|_| copulas == 1) else { return };
    let subject = &tokens[1..at];
    let led = subject.first().is_some_and(|token| token.is_any(&["a", "an", "the"]) || token.proper);
    let named = |token: &Token<'_>| {
        !token.ends && matches!(token.class(), Class::Filler | Class::Word | Class::Polar | Class::Language)
    };
    if led && first.cased.is_none() && at + 1 < tokens.len() && !tokens[at].ends && subject.iter().all(named) {
        tokens[1..=at].rotate_right(1);
    }
}

/// "how I register" → "how do I register", "where I can park" → "where can I park".
fn speaker(tokens: &mut Vec<Token<'_>>) {
    let how = tokens.first().is_some_and(|first| first.is("how") && !first.ends);
    let measured = usize::from(how && tokens.get(1).is_some_and(|next| next.is_any(&["long", "often", "far"])));
    let Some([asked, .., speaker, verb]) = tokens.get(..3 + measured) else { return };
    if !asked.has(marks::QUESTION_WORD) || asked.ends || speaker.ends {
        return;
    }
    let several =
        speaker.slot.is_none() && speaker.text.ends_with('s') && !speaker.text.ends_with("ss") && !speaker.owner;
    if asked.is_any(&["how", "why", "when", "where"]) && several && verb.has(marks::VERB | marks::STATIVE) {
        tokens.insert(1 + measured, Token::known("do")); // how magnets work
        return;
    }
    if !speaker.is_any(&["i", "we", "you"]) {
        return;
    }
    if verb.has(marks::HELPER) {
        tokens.swap(1 + measured, 2 + measured);
    } else if verb.has(marks::VERB) && !speaker.is("you") {
        tokens.insert(1 + measured, Token::known("do"));
    }
}

/// Where the subject of an embedded question begins: behind "what", "who" or "where", or behind "how" and its adjective.
fn subject(tokens: &[Token<'_>]) -> Option<usize> {
    let first = tokens.first().filter(|first| !first.ends && first.cased.is_none())?;
    if first.is_any(&["what", "who", "where"]) {
        return (tokens.len() > 2).then_some(1);
    }
    let adjective = tokens.get(1).filter(|next| !next.ends && next.slot.is_some_and(|slot| slot.degrees))?;
    (first.is("how") && adjective.cased.is_none() && tokens.len() > 3).then_some(2)
}
