//! From text to tokens: words, values (numbers, dates, times, units) and literals (ids, code, flags, quoted text).
//!
//! A word is folded to lower case to be looked up, but compared with its capitals where they tell something. What looks
//! like no word is a literal, as written: two unlike literals never match, so an odd token costs a hit and never a wrong
//! one.

use super::lexicon::{self, Class, Sense, Slot};
use super::marks::{self, Mark};
use super::{names, value};
use std::borrow::Cow;

/// One token of a question.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one token, never passed on as a set")]
pub(super) struct Token<'a> {
    /// Normalised text.
    pub(super) text: Cow<'a, str>,
    /// Set for values and literals; words get theirs from the lexicon.
    pub(super) class: Option<Class>,
    /// What the lexicon knows of the word, looked up once.
    pub(super) slot: Option<&'static Slot>,
    /// Written like a name: a capital inside the sentence, or mixed case.
    pub(super) proper: bool,
    /// A clause ends behind it.
    pub(super) ends: bool,
    /// A colon stands behind it: what follows is what it is about.
    pub(super) colon: bool,
    /// The spelling with its capitals, where they are content: "rust" is not "Rust".
    pub(super) cased: Option<Cow<'a, str>>,
    /// A hyphen joins it to the word before.
    pub(super) joined: bool,
    /// It carries a possessive `'s`.
    pub(super) owner: bool,
}

impl<'a> Token<'a> {
    /// A plain word, already in lower case.
    pub(super) fn word(text: Cow<'a, str>) -> Self {
        let slot = lexicon::slot(&text);
        Self { slot, ..Self::bare(text) }
    }

    /// A word of the rules' own.
    pub(super) fn known(word: &'static str) -> Self {
        Self::word(Cow::Borrowed(word))
    }

    /// What stands where a token was taken away.
    pub(super) const fn gone() -> Self {
        Self::bare(Cow::Borrowed(""))
    }

    /// A token that is not looked up.
    const fn bare(text: Cow<'a, str>) -> Self {
        Self {
            text,
            class: None,
            slot: None,
            proper: false,
            ends: false,
            colon: false,
            cased: None,
            joined: false,
            owner: false,
        }
    }

    /// A value or literal.
    pub(super) fn value(class: Class, text: impl Into<Cow<'a, str>>) -> Self {
        Self { class: Some(class), ..Self::bare(text.into()) }
    }

    /// The word as it is compared: with its capitals where they are content.
    pub(super) fn written(&self) -> &str {
        self.cased.as_ref().unwrap_or(&self.text)
    }

    /// Whether it is this word (not a literal that looks like it).
    pub(super) fn is(&self, word: &str) -> bool {
        self.class.is_none() && self.text == word
    }

    /// Whether it is one of these words.
    pub(super) fn is_any(&self, words: &[&str]) -> bool {
        let text = self.text.as_bytes();
        // Most words of a list differ in length or first letter: seen here, it saves a call of `memcmp` each.
        let alike = |word: &&str| word.len() == text.len() && word.as_bytes().first() == text.first();
        self.class.is_none() && words.iter().filter(|word| alike(word)).any(|word| word.as_bytes() == text)
    }

    /// Whether the word can play this part.
    pub(super) fn has(&self, mark: Mark) -> bool {
        self.marks() & mark != 0
    }

    /// All parts that the word can play.
    pub(super) fn marks(&self) -> Mark {
        if self.class.is_some() { 0 } else { self.slot.map_or(0, |slot| slot.marks) }
    }

    /// What the lexicon knows of the word.
    pub(super) fn sense(&self) -> Option<Sense> {
        if self.class.is_some() { None } else { self.slot.and_then(|slot| slot.sense) }
    }

    /// A number, right before the next token.
    pub(super) fn counts(&self) -> bool {
        self.class == Some(Class::Number) && !self.ends
    }

    /// The class it is compared under.
    pub(super) fn class(&self) -> Class {
        self.class.or_else(|| self.sense().map(|sense| sense.class)).unwrap_or(Class::Word)
    }
}

/// How a text uses capitals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// Where they tell something.
    Plain,
    /// Everywhere.
    Shouted,
    /// At the start of every word.
    Titled,
}

impl Style {
    /// The style of a text that is not all capitals.
    fn of(text: &str) -> Self {
        let starts = |word: &str| word.chars().next().is_none_or(|c| !c.is_lowercase());
        let titled =
            text.split_ascii_whitespace().take(64).all(starts) && text.split_ascii_whitespace().nth(2).is_some();
        if titled { Self::Titled } else { Self::Plain }
    }
}

/// Upper-case spellings that are names where the rest of the text is not shouted, and another word in lower case.
const SHOUTED_NAMES: &[&str] = &["US", "IT", "WHO", "AM", "OR", "IN", "ME", "HI", "NO", "AN", "AS", "ALL", "A"];

/// Words after which `'s` is "is", not a possessive. "Who's paid" may be "who has paid", so it stands for itself.
const IS_HOSTS: &[&str] = &["what", "where", "when", "why", "how", "that", "this", "it", "he", "she", "there", "here"];

/// Contractions written without their apostrophe, where that is no other word.
const BARE_CONTRACTIONS: &[(&str, &str, &str)] = &[
    ("whats", "what", "is"),
    ("wheres", "where", "is"),
    ("hows", "how", "is"),
    ("thats", "that", "is"),
    ("dont", "do", "n't"),
    ("doesnt", "does", "n't"),
    ("didnt", "did", "n't"),
    ("isnt", "is", "n't"),
    ("arent", "are", "n't"),
    ("wasnt", "was", "n't"),
    ("werent", "were", "n't"),
    ("couldnt", "could", "n't"),
    ("shouldnt", "should", "n't"),
    ("wouldnt", "would", "n't"),
    ("im", "i", "am"),
];

/// Possessives that lost their apostrophe, where that is no other word.
const BARE_OWNERS: &[(&str, &str)] =
    &[("childs", "child"), ("childrens", "children"), ("mens", "men"), ("womens", "women"), ("todays", "today")];

/// Splits `text`, which is in normal form C with straight apostrophes.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let style = if text.chars().any(char::is_lowercase) { Style::of(text) } else { Style::Shouted };
    let mut out = Vec::with_capacity(text.len() / 4 + 4);
    let mut rest = text;
    loop {
        let trimmed = rest.trim_start();
        if rest.as_bytes()[..rest.len() - trimmed.len()].contains(&b'\n') {
            end_clause(&mut out);
        }
        rest = trimmed;
        let Some(first) = rest.chars().next() else {
            who_is(&mut out);
            return out;
        };
        if first == '(' && rest[1..].starts_with(|c: char| c.is_alphabetic() || "\"'`“".contains(c)) {
            end_clause(&mut out);
            rest = &rest[1..];
        } else if let Some((inner, after)) = quoted(rest, first) {
            out.push(Token::value(Class::Literal, inner));
            rest = after;
        } else {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            let (chunk, after) = rest.split_at(end);
            // One mark that ends a text may stand apart, as it does in French; any other run of marks is what is asked about.
            let mark = chunk.chars().all(|c| ".,!?…:;'\"”»)]}".contains(c));
            let last = after.trim_start().is_empty()
                && (out.is_empty() || matches!(chunk, "." | "!" | "?" | "…") || stressed(chunk, &out));
            if mark && !last {
                out.push(Token::value(Class::Literal, chunk));
            } else {
                push_chunk(chunk, style, &mut out);
            }
            rest = after;
        }
    }
}

/// Whether `chunk` at the end only stresses the question before it: "how do I boil an egg ??". In "what does a move with ??", and
/// wherever marks or code are asked about, it is what is asked.
fn stressed(chunk: &str, out: &[Token<'_>]) -> bool {
    let (Some(first), Some(last)) = (out.first(), out.last()) else { return false };
    let plain = last.class() == Class::Word
        && last.text.len() > 2
        && last.class.is_none()
        && last.cased.is_none()
        && !last.ends;
    (2..5).contains(&chunk.len())
        && chunk.bytes().all(|byte| matches!(byte, b'?' | b'!'))
        && out.len() > 4
        && first.has(marks::QUESTION_WORD | marks::HELPER | marks::COPULA | marks::DOES)
        && plain
        && !(last.has(marks::VERB) || last.text.ends_with("ed"))
        && !out.iter().any(|token| {
            token.has(marks::ABOUT_WORDS | marks::CODE)
                || token.class() == Class::Language
                || token.is_any(&[
                    "mark",
                    "marks",
                    "sign",
                    "symbol",
                    "symbols",
                    "emoji",
                    "regex",
                    "notation",
                    "syntax",
                    "annotation",
                    "factorial",
                    "move",
                    "chess",
                ])
        })
}

/// "who's the king" is "who is the king"; "who's paid" may be "who has paid".
fn who_is(tokens: &mut Vec<Token<'_>>) {
    let is = |pair: &[Token<'_>]| pair[0].owner && pair[0].is("who") && pair[1].is_any(&["the", "a", "an"]);
    if let Some(at) = tokens.windows(2).position(is) {
        tokens[at].owner = false;
        tokens.insert(at + 1, Token::known("is"));
    }
}

/// The clause ends behind the last token.
fn end_clause(out: &mut [Token<'_>]) {
    if let Some(last) = out.last_mut() {
        last.ends = true;
    }
}

/// Quoted or back-ticked text at the start with its marks, since `x` is code and "x" is text, and what follows it.
fn quoted(rest: &str, open: char) -> Option<(&str, &str)> {
    if let Some(body) = rest.strip_prefix("```") {
        let end = body.find("```")? + 6;
        return Some(rest.split_at(end));
    }
    let close = match open {
        '"' | '`' | '\'' => open,
        '“' => '”',
        '«' => '»',
        _ => return None,
    };
    let body = &rest[open.len_utf8()..];
    let stands_free = |at: usize| !body[at + close.len_utf8()..].starts_with(char::is_alphanumeric);
    let (at, _) = body.match_indices(close).find(|&(at, _)| open != '\'' || stands_free(at))?;
    (at > 0).then(|| rest.split_at(open.len_utf8() + at + close.len_utf8()))
}

/// Adds the tokens of one run without white space.
fn push_chunk<'a>(chunk: &'a str, style: Style, out: &mut Vec<Token<'a>>) {
    if let Some(half) = day_half(chunk) {
        out.push(Token::word(Cow::Borrowed(half)));
        return;
    }
    let core = trim_end(chunk);
    if core.is_empty() {
        return end_clause(out);
    }
    if (core.len() == 1 || core.ends_with(|c: char| c.is_ascii_digit()))
        && chunk[core.len()..].starts_with(['!', '\'', '"'])
    {
        out.push(Token::value(Class::Literal, chunk)); // a factorial, feet, inches
        return;
    }
    let tail = &chunk[core.len()..];
    if tail.contains(']') || tail.contains(')') && core.contains(|c: char| c.is_ascii_digit()) {
        out.push(Token::value(Class::Literal, chunk)); // the end of an interval, closed or open
        return;
    }
    let owner = core.ends_with(['s', 'S']) && chunk[core.len()..].starts_with('\'');
    if !owner && core.bytes().all(|byte| byte.is_ascii_lowercase()) {
        push_plain(Cow::Borrowed(core), out); // most words: nothing below would find anything in them
    } else if !core.contains(char::is_alphanumeric) {
        push_symbol(core, out);
    } else if core.contains(|c: char| c.is_numeric()) {
        value::push_digits(core, out);
    } else if core == "Wi-Fi" {
        out.push(Token::known("wifi"));
    } else if core.starts_with(char::is_alphabetic) && core.chars().all(in_word) {
        for (nth, part) in core.split('-').filter(|part| !part.is_empty()).enumerate() {
            let at = out.len();
            push_word(part, style, out);
            out[at].joined = nth > 0;
        }
        if let (true, Some(last)) = (owner, out.last_mut()) {
            last.owner = true;
        }
    } else if let Some(acronym) = acronym(core) {
        let cased = Some(Cow::Owned(acronym.to_uppercase()));
        out.push(Token { proper: true, cased, ..Token::word(Cow::Owned(acronym)) });
    } else if let Some(unit) = lexicon::unit(core).filter(|_| out.last().is_some_and(Token::counts)) {
        out.push(Token::value(Class::Unit, unit)); // °C
    } else {
        out.push(Token::value(Class::Literal, core));
    }
    let tail = &chunk[core.len()..];
    let abbreviated = tail == "." && matches!(core, "vs" | "approx" | "Mr" | "Mrs" | "Dr");
    if let (true, Some(last)) = (!abbreviated && tail.contains(|c| c != '\''), out.last_mut()) {
        last.ends = true;
        last.colon = tail.contains(':');
    }
}

/// `a.m.` and `p.m.`, whose dots are not ends of sentences.
fn day_half(chunk: &str) -> Option<&'static str> {
    if !chunk.starts_with(['a', 'p', 'A', 'P']) {
        return None;
    }
    let bare = chunk.trim_end_matches([',', '?', '!']);
    ["am", "pm"]
        .into_iter()
        .zip(["a.m.", "p.m."])
        .find(|(_, dotted)| bare.eq_ignore_ascii_case(dotted))
        .map(|(half, _)| half)
}

/// Without sentence punctuation at the end; a bracket stays if it was opened inside.
fn trim_end(chunk: &str) -> &str {
    let mut core = chunk;
    while let Some(last) = core.chars().next_back() {
        let open = match last {
            ',' | '.' | ';' | ':' | '!' | '?' | '…' | '\'' | '"' | '”' | '»' => None,
            ')' => Some('('),
            ']' => Some('['),
            '}' => Some('{'),
            _ => return core,
        };
        if open.is_some_and(|open| core.matches(open).count() >= core.matches(last).count()) {
            return core;
        }
        core = &core[..core.len() - last.len_utf8()];
    }
    core
}

/// A run without letters or digits: a dash between words ends a clause, as does a bullet at a line's start;
/// everything else is an operator and a literal, since `6 / 3` is not `6 * 3`.
fn push_symbol<'a>(core: &'a str, out: &mut Vec<Token<'a>>) {
    let long_dash = matches!(core, "–" | "—");
    let behind_value = out.last().is_some_and(|last| last.class.is_some() && !last.ends);
    let bullet = matches!(core, "-" | "*" | "•") && out.last().is_none_or(|last| last.ends);
    let apart = core == "-" && out.last().is_some_and(|last| last.class.is_none() && last.ends);
    if bullet || apart || (long_dash && !behind_value) {
        end_clause(out);
    } else {
        out.push(Token::value(Class::Literal, core));
    }
}

/// Letters, and what may stand inside a word.
fn in_word(c: char) -> bool {
    c.is_alphabetic() || c == '\'' || c == '-' || ('\u{300}'..='\u{36f}').contains(&c)
}

/// `U.S.A` → `usa`; a name that would read as another word keeps its capitals.
fn acronym(core: &str) -> Option<String> {
    let single = core.split('.').all(|part| part.chars().count() == 1 && part.starts_with(char::is_uppercase));
    if !single || core.len() < 3 {
        return None;
    }
    let joined: String = core.chars().filter(|&c| c != '.').flat_map(char::to_uppercase).collect();
    Some(if SHOUTED_NAMES.contains(&joined.as_str()) { joined } else { joined.to_lowercase() })
}

/// Lower case; borrows if nothing changes.
pub(super) fn lower(text: &str) -> Cow<'_, str> {
    let unchanged = |c: char| if c.is_ascii() { !c.is_ascii_uppercase() } else { c.to_lowercase().eq([c]) };
    if text.chars().all(unchanged) { Cow::Borrowed(text) } else { Cow::Owned(text.to_lowercase()) }
}

/// Adds a word, or the words of a contraction.
fn push_word<'a>(part: &'a str, style: Style, out: &mut Vec<Token<'a>>) {
    let starts_sentence = out.last().is_none_or(|last| last.ends);
    let shouting = style == Style::Shouted;
    if !shouting && keeps_case(part, starts_sentence, out.last()) {
        out.push(Token { proper: true, ..Token::word(Cow::Borrowed(part)) });
        return;
    }
    let inner_capital = part.chars().skip(1).any(char::is_uppercase);
    let proper = !shouting && (inner_capital || (!starts_sentence && part.starts_with(char::is_uppercase)));
    let text = lower(part);
    let head = part.find('\'').map_or(part, |at| &part[..at]);
    let cased = case_is_content(head, starts_sentence, style).then_some(Cow::Borrowed(head));
    match text.find('\'').map(|at| (text[..at].to_owned(), text[at + 1..].to_owned())) {
        None if cased.is_none() && !proper => push_plain(text, out),
        None => out.push(Token { proper, cased, ..Token::word(text) }),
        Some((head, tail)) => push_contraction(&Token { proper, cased, ..Token::word(head.into()) }, &tail, out),
    }
}

/// Adds a word in lower case without an apostrophe, or the words of a contraction that lost its own.
fn push_plain<'a>(text: Cow<'a, str>, out: &mut Vec<Token<'a>>) {
    let token = Token::word(text);
    let whole = |token: &Token<'_>| BARE_CONTRACTIONS.iter().find(|(bare, _, _)| token.is(bare));
    if !token.has(marks::BARE) {
        out.push(token);
    } else if let Some(&(_, first, second)) = whole(&token) {
        out.extend([first, second].map(Token::known));
    } else if let Some(&(_, noun)) = BARE_OWNERS.iter().find(|(bare, _)| token.is(bare)) {
        out.push(Token { owner: true, ..Token::known(noun) });
    }
}

/// Whether capitals tell something: inside a sentence and at its start alike, unless the word only asks, or has no
/// other reading in lower case.
fn case_is_content(part: &str, starts_sentence: bool, style: Style) -> bool {
    if part == "I" || !part.contains(char::is_uppercase) {
        return false;
    }
    let word = lower(part);
    let slot = lexicon::slot(&word);
    let grammar = slot.is_some_and(|slot| {
        let verb = starts_sentence && slot.marks & (marks::VERB | marks::AMBIGUOUS_NAME) == marks::VERB;
        verb || slot.marks & marks::ASKING != 0 || slot.sense.is_some_and(|sense| sense.class.is_grammar())
    });
    let capital_only = !part.chars().skip(1).any(char::is_uppercase);
    let flat = style != Style::Plain;
    if grammar {
        let article = matches!(part, "The" | "An");
        return !(article || starts_sentence && capital_only || flat && !SHOUTED_NAMES.contains(&part));
    }
    !names::folds(part, &word, slot, flat)
}

/// Where case makes another word: `US` and `us`, the symbols `Co` and `CO`, the units `mW` and `MW` behind a number.
fn keeps_case(part: &str, starts_sentence: bool, before: Option<&Token<'_>>) -> bool {
    if !part.starts_with(char::is_uppercase) && part.len() > 4 {
        return false;
    }
    let mut chars = part.chars();
    let symbol = part.len() == 2 && chars.next().is_some_and(char::is_uppercase) && chars.all(char::is_lowercase);
    let known = || lexicon::slot(&lower(part)).is_some_and(|slot| slot.is_known() || slot.marks & marks::ACRONYM != 0);
    let counted = before.is_some_and(Token::counts);
    let capital_only = part.len() > 2 && !part.chars().skip(1).any(char::is_uppercase); // July
    let unit = counted
        && part.len() <= 4
        && part.contains(char::is_uppercase)
        && (!capital_only || part.starts_with(char::is_lowercase));
    let half = part == "AM"
        && before.is_some_and(|last| matches!(last.class, Some(Class::Number | Class::Time)) && !last.ends);
    (SHOUTED_NAMES.contains(&part) && !(starts_sentence && part.len() == 1) && !half)
        || (symbol && !starts_sentence && !known())
        || (unit
            && (part.ends_with('b')
                || part.starts_with('M') && matches!(part, "Mg" | "MG" | "Ml" | "ML" | "Ms" | "MS")
                || lexicon::unit(&lower(part)).is_none() && !known() && !matches!(part, "AM" | "PM")))
}

/// `what's` → `what is`, `don't` → `do n't`, `france's` → a possessive. "Isn't drinking harmful" is not "is not drinking
/// harmful", and `'d` may be would, had or did, so these stay a word of their own.
fn push_contraction<'a>(head: &Token<'a>, tail: &str, out: &mut Vec<Token<'a>>) {
    let irregular = match (head.text.as_ref(), tail) {
        ("can", "t") => Some("can"),
        ("won", "t") => Some("will"),
        ("shan", "t") => Some("shall"),
        _ => None,
    };
    let stem = head.text.strip_suffix('n').map(str::to_owned);
    let (first, second) = match (tail, irregular, stem) {
        ("t", Some(verb), _) => (Some(verb.to_owned()), "n't"),
        ("t", None, Some(stem)) => (Some(stem), "n't"),
        ("s", ..) if IS_HOSTS.contains(&head.text.as_ref()) => (None, "is"),
        ("s" | "", ..) => {
            out.push(Token { owner: tail == "s", ..head.clone() });
            return;
        }
        ("re", ..) => (None, "are"),
        ("ve", ..) => (None, "have"),
        ("ll", ..) => (None, "will"),
        ("m", ..) => (None, "am"),
        ("d", ..) => (None, "'d"),
        _ => {
            let text = format!("{}'{tail}", head.text);
            let cased = head.cased.as_ref().map(|cased| Cow::Owned(format!("{cased}'{tail}")));
            out.push(Token { proper: head.proper, cased, ..Token::word(text.into()) });
            return;
        }
    };
    let text = first.map_or_else(|| head.text.clone(), Cow::Owned);
    out.push(Token { proper: head.proper, cased: head.cased.clone(), ..Token::word(text) });
    out.push(Token::known(second));
}
