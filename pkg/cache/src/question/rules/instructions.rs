//! How something is done does not depend on whose it is, and hardly on how it is called.
//!
//! Only for closed lists: "how do I find my phone" is not "how do I find a phone", nor "clean my mouse" "clean a mouse".

use super::super::lexicon::Class;
use super::super::marks::{self, Mark};
use super::super::token::Token;

/// Whether the noun phrase at the start of `tokens` is short and ends with a word of `mark`; one that says little needs
/// another before it: a washing machine, dark mode, a VPN client.
fn names(tokens: &[Token<'_>], mark: Mark) -> bool {
    let noun = |token: &&Token<'_>| super::noun(token) && token.class.is_none() && !token.owner;
    let length = tokens.iter().take_while(noun).count();
    let Some(head) = length.checked_sub(1).map(|at| &tokens[at]) else { return false };
    let vague = head.is_any(&["machine", "mode"]) && length == 1;
    let person = head.is("client") && !(length == 2 && tokens[0].is("vpn"));
    let owner = tokens.get(length).is_some_and(|next| next.owner);
    length < 4 && head.has(mark) && !vague && !person && !owner && !tokens[..length - 1].iter().any(|token| token.ends)
}

/// "how do I reset my router", "a router" → "the router": who asks how to handle one has one. To find, get or buy one is not
/// here.
pub(super) fn own(tokens: &mut Vec<Token<'_>>) {
    let [first, verb, next, ..] = tokens.as_slice() else { return };
    if !first.is("how-to") || !verb.has(marks::HANDLES) || verb.ends {
        return;
    }
    let at = 2 + usize::from(verb.is_any(&["turn", "switch"]) && next.is_any(&["on", "off"]));
    let whose = tokens.get(at).is_some_and(|token| token.is_any(&["my", "a", "an"]) && token.cased.is_none());
    if whose && names(&tokens[at + 1..], marks::DEVICE) {
        tokens[at] = Token::known("the");
    }
}

/// "why won't my laptop start" → "why doesn't my laptop start": a device wills nothing.
pub(super) fn unwilling(tokens: &mut Vec<Token<'_>>) {
    let [why, will, not, whose, rest @ ..] = tokens.as_slice() else { return };
    let Some(verb) = (1..4).find(|&at| rest.get(at).is_some_and(|next| next.has(marks::VERB | marks::HANDLES))) else {
        return;
    };
    if why.is("why")
        && will.is("will")
        && not.is("n't")
        && whose.is_any(&["my", "the"])
        && names(&rest[..verb], marks::DEVICE)
    {
        tokens[1] = Token::known("does");
    }
}

/// "how do I turn off cookies", "turn cookies off" → "disable cookies". For settings only: people turn on dictators.
pub(super) fn switched(tokens: &mut Vec<Token<'_>>) {
    let [first, verb, next, ..] = tokens.as_slice() else { return };
    if !first.is("how-to") || !verb.is_any(&["turn", "switch"]) || verb.ends || tokens.len() < 4 {
        return;
    }
    let way = |token: &Token<'_>| token.is_any(&["on", "off"]);
    let at = if way(next) { Some(2) } else { tokens.iter().position(way) };
    let Some(at) = at.filter(|&at| at == 2 || tokens[at].ends || at + 1 == tokens.len()) else { return };
    let start = if at == 2 { 3 } else { 2 };
    let article = usize::from(tokens[start].is("the"));
    let stop = if at == 2 { tokens.len() } else { at };
    let Some(setting) = tokens.get(start + article..stop).filter(|setting| !setting.is_empty()) else { return };
    if !names(setting, marks::SETTING) {
        return;
    }
    let usual = if tokens[at].is("on") { "enable" } else { "disable" };
    let ends = tokens[at].ends;
    tokens.remove(at);
    tokens[at - 1].ends |= ends;
    tokens[1] = Token { ends: tokens[1].ends && at > 2, ..Token::known(usual) };
}

/// "reverse a list in Python", "how to reverse a Python list" → "how to reverse a list in Python". Nothing may follow: in "a
/// Python list to a Java array" each has its own.
pub(super) fn programmed(tokens: &mut Vec<Token<'_>>) {
    const LANGUAGES: &[&str] = &[
        "python",
        "java",
        "javascript",
        "typescript",
        "rust",
        "go",
        "ruby",
        "php",
        "kotlin",
        "swift",
        "haskell",
        "perl",
        "bash",
    ];
    let how = usize::from(tokens[0].is("how-to"));
    let language = |token: &Token<'_>| token.class() == Class::Language && token.is_any(LANGUAGES);
    let article = |token: &Token<'_>| token.is_any(&["a", "an"]);
    if !tokens.get(how).is_some_and(|verb| verb.has(marks::ARRANGES) && verb.cased.is_none())
        || !super::one_clause(tokens)
    {
        return;
    }
    let at = how + 1;
    match &tokens[at..] {
        [first, one, data] if article(first) && language(one) && data.has(marks::DATA) && !data.owner => {
            let ends = data.ends;
            tokens.swap(at + 1, at + 2);
            tokens.insert(at + 2, Token::known("in"));
            for token in &mut tokens[at + 1..] {
                token.ends = false;
            }
            tokens[at + 3].ends = ends;
        }
        [first, data, relation, one]
            if article(first) && data.has(marks::DATA) && relation.is("in") && language(one) && !data.owner => {}
        _ => return,
    }
    if how == 0 {
        tokens.insert(0, Token::known("how-to"));
    }
}

/// "how to find out whether", "how to determine if", "how to check whether" → "how to check if". Behind "how to" there is no
/// condition, as there is in "what should I check if".
pub(super) fn checked(tokens: &mut Vec<Token<'_>>) {
    let [first, verb, rest @ ..] = tokens.as_slice() else { return };
    let out = usize::from(verb.is("find") && rest.first().is_some_and(|next| next.is("out")));
    let asks = rest.get(out).is_some_and(|token| token.is_any(&["if", "whether"]));
    let finds = out > 0 || verb.is_any(&["check", "determine"]);
    if first.is("how-to") && asks && (finds || verb.is_any(&["tell", "see"])) && !verb.ends && !rest[out].ends {
        let verb = if finds { Token::known("check") } else { verb.clone() };
        tokens.splice(1..3 + out, [verb, Token::known("if")]);
    }
}

/// "how do I file a claim on my insurance" → "make a claim". In an essay one makes another kind of claim.
pub(super) fn claimed(tokens: &mut Vec<Token<'_>>) {
    let [first, verb, article, .., last] = tokens.as_slice() else { return };
    let insures = |token: &Token<'_>| token.is_any(&["insurance", "warranty", "guarantee", "policy"]);
    let claim = tokens[3..].iter().position(|token| token.is("claim"));
    let covered = match claim {
        Some(0) => insures(last) && tokens.get(4).is_some_and(|next| next.is_any(&["on", "under", "against"])),
        Some(1) => insures(&tokens[3]),
        _ => false,
    };
    let files = verb.is_any(&["make", "file", "submit", "lodge"]) && article.is_any(&["a", "an"]);
    if first.is("how-to") && files && covered {
        tokens[1] = Token::known("make");
    }
}
