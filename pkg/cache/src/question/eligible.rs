//! Which questions may be answered from another's answer at all.
//!
//! Some questions have an answer that only this caller, this moment or this conversation knows, and some are commands
//! whose repetition must happen again. No similarity makes those safe, so they are left to the exact cache.

use super::lexicon::{self, Class};
use super::token::{Token, WordSet};
use std::sync::LazyLock;

/// Why no other question's answer may serve a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ineligible {
    /// Nothing is asked about.
    Empty,
    /// Longer than the rules can judge ([`super::MAX_BYTES`], [`super::MAX_TOKENS`]).
    TooLong,
    /// It points at something said before: "and in Paris?", "do it".
    Anaphoric,
    /// A command on the world: "cancel the order".
    Action,
    /// Its answer changes within a cache's lifetime: today, latest, weather.
    Volatile,
    /// It asks about the asker's own state: "where is my order?".
    Personal,
    /// Not English, so that its negations, commands and names cannot be told apart.
    Language,
}

impl Ineligible {
    /// The reason as a metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::TooLong => "too_long",
            Self::Anaphoric => "anaphoric",
            Self::Action => "action",
            Self::Volatile => "volatile",
            Self::Personal => "personal",
            Self::Language => "language",
        }
    }
}

type Rule = fn(&[Token<'_>]) -> bool;

/// What makes a text ineligible, in the order asked. Language comes before what only English words can tell.
const RULES: [(Rule, Ineligible); 5] = [
    (anaphoric, Ineligible::Anaphoric),
    (foreign, Ineligible::Language),
    (action, Ineligible::Action),
    (volatile, Ineligible::Volatile),
    (personal, Ineligible::Personal),
];

/// Judges the asking part of a text.
///
/// # Errors
/// The first reason that holds.
pub(super) fn judge(tokens: &[Token<'_>]) -> Result<(), Ineligible> {
    if tokens.is_empty() {
        return Err(Ineligible::Empty);
    }
    RULES.iter().find(|(holds, _)| holds(tokens)).map_or(Ok(()), |&(_, reason)| Err(reason))
}

/// Function words of other languages that English does not use, names of places aside.
const FOREIGN: &[&str] = &[
    "der", "das", "und", "ist", "nicht", "ein", "eine", "einen", "wie", "wer", "wo", "warum", "wann", "welche", "von",
    "für", "mit", "auf", "ich", "sie", "wir", "im", "zu", "le", "la", "les", "est", "une", "du", "que", "qui", "quel",
    "quelle", "quoi", "pourquoi", "où", "je", "vous", "dans", "avec", "sont", "el", "los", "las", "es", "una", "por",
    "qué", "como", "cómo", "cuál", "cual", "dónde", "quién", "para", "il", "che", "è", "di", "perché", "gli", "della",
    "não", "você", "uma", "são", "het", "een", "wat", "hoe", "de", "och", "jak", "jest", "co", "nie",
];

static FOREIGN_SET: LazyLock<WordSet> = LazyLock::new(|| FOREIGN.iter().copied().collect());

/// Whether too few words are English function words to judge by. Letters outside Latin are never judged.
fn foreign(tokens: &[Token<'_>]) -> bool {
    let latin = |c: char| !c.is_alphabetic() || c < '\u{250}' || ('\u{1e00}'..'\u{1f00}').contains(&c);
    let (mut words, mut known, mut other) = (0, 0, 0);
    for token in tokens.iter().filter(|token| token.class.is_none()) {
        if !token.text.chars().all(latin) {
            return true;
        }
        words += 1;
        known += usize::from(lexicon::slot(&token.text).is_some());
        other += usize::from(!token.text.is_ascii() || FOREIGN_SET.contains(token.text.as_ref()));
    }
    known == 0 || known * 5 < words || other >= known
}

/// Starts that go on from something said before.
const CONTINUATIONS: &[&str] =
    &["and", "but", "or", "then", "also", "yes", "yeah", "yep", "nope", "sure", "continue", "elaborate", "otherwise"];

/// Words that make a very short text a request about what was said before.
const MORE: &[&str] =
    &["more", "again", "another", "else", "instead", "further", "it", "so", "no", "on", "ahead", "next"];

/// Words that may stand before a question and ask nothing, whatever they are worth to the wording.
const EDGES: &[&str] = &[
    "hi", "hello", "hey", "there", "thanks", "thank", "you", "sorry", "ok", "okay", "well", "so", "um", "please",
    "kindly", "could", "can", "would", "will", "just", "now",
];

/// Pronouns that stand for something named.
const STAND_INS: &[&str] = &[
    "it",
    "its",
    "itself",
    "they",
    "them",
    "their",
    "theirs",
    "he",
    "him",
    "his",
    "she",
    "her",
    "hers",
    "himself",
    "herself",
    "themselves",
];

/// Whether it points at something outside the text.
fn anaphoric(tokens: &[Token<'_>]) -> bool {
    let lead = tokens.iter().take_while(|token| token.is_any(EDGES)).count();
    let Some(first) = tokens.get(lead) else { return true };
    let about = first.is_any(&["what", "how"]) && tokens.get(lead + 1).is_some_and(|next| next.is("about"));
    let short = tokens.iter().filter(|token| !token.is_any(EDGES)).count() <= 3
        && tokens.iter().any(|token| token.is_any(MORE));
    first.is_any(CONTINUATIONS) || about || short || (0..tokens.len()).any(|at| points_out(tokens, at))
}

/// Whether the token at `at` refers to something that the text does not name.
fn points_out(tokens: &[Token<'_>], at: usize) -> bool {
    let token = &tokens[at];
    let before = at.checked_sub(1).map(|at| &tokens[at]);
    let after = tokens.get(at + 1);
    let quoted_after = || tokens[at..].iter().any(|token| token.class == Some(Class::Literal));
    if token.is_any(&["this", "these", "those"]) {
        return !quoted_after();
    }
    if token.is("that") {
        let last = token.ends || after.is_none_or(|next| next.is_any(&["one", "is", "was"]));
        return last
            || before
                .is_none_or(|word| word.is_any(&["is", "was", "about", "like", "do", "of", "does", "with", "for"]));
    }
    if token.is("one") {
        return before
            .is_some_and(|word| word.is_any(&["which", "other", "another", "first", "second", "last", "next"]))
            && after.is_none_or(|next| !next.is("of"));
    }
    if token.is_any(&["above", "previous", "aforementioned", "latter", "mentioned"]) {
        return before.is_some_and(|word| word.is_any(&["the", "your"])) && !quoted_after();
    }
    token.is_any(STAND_INS) && !expletive(tokens, at) && !has_antecedent(&tokens[..at])
}

/// "Is it safe to ...", "how long does it take": an "it" that stands for nothing.
fn expletive(tokens: &[Token<'_>], at: usize) -> bool {
    let helped = at.checked_sub(1).is_some_and(|before| {
        tokens[before].is_any(&["is", "was", "does", "did", "will", "would", "can", "could", "should", "may", "might"])
    });
    let after = &tokens[at + 1..];
    let takes = after.first().is_some_and(|next| next.is_any(&["take", "cost", "matter"]));
    let clause = after.iter().skip(1).take(3).any(|token| token.is_any(&["to", "that", "for", "if", "when"]));
    let able = after.first().is_some_and(|next| next.is_any(&["going", "able", "supposed", "used"]));
    tokens[at].is("it") && helped && !able && (takes || clause)
}

/// Whether a noun was named: an ordinary word or literal behind a determiner, a preposition, "is" or "do".
fn has_antecedent(before: &[Token<'_>]) -> bool {
    let names = |token: &Token<'_>| match token.class {
        None => {
            token.is_any(&["someone", "somebody", "anyone", "everyone"])
                || lexicon::sense(&token.text)
                    .is_none_or(|sense| matches!(sense.class, Class::Word | Class::Polar | Class::Language))
        }
        Some(class) => class == Class::Literal,
    };
    let introduced = |token: &Token<'_>| {
        token.ends
            || lexicon::sense(&token.text).is_some_and(|sense| {
                matches!(
                    sense.class,
                    Class::Filler | Class::Preposition | Class::Tense | Class::Connective | Class::Scope
                )
            })
    };
    before.windows(2).any(|pair| introduced(&pair[0]) && names(&pair[1]))
        || before.first().is_some_and(|first| names(first) && before.len() > 2)
}

/// Verbs that act on the world when said as a command. Writing and explaining are not among them.
const ACTIONS: &[&str] = &[
    "cancel",
    "delete",
    "erase",
    "send",
    "book",
    "transfer",
    "pay",
    "refund",
    "buy",
    "order",
    "purchase",
    "schedule",
    "reschedule",
    "call",
    "dial",
    "text",
    "email",
    "play",
    "pause",
    "resume",
    "stop",
    "start",
    "restart",
    "reboot",
    "shutdown",
    "turn",
    "switch",
    "enable",
    "disable",
    "activate",
    "deactivate",
    "set",
    "remind",
    "unsubscribe",
    "subscribe",
    "submit",
    "approve",
    "reject",
    "deploy",
    "execute",
    "run",
    "install",
    "uninstall",
    "update",
    "upgrade",
    "downgrade",
    "renew",
    "block",
    "unblock",
    "reset",
    "lock",
    "unlock",
    "open",
    "close",
    "post",
    "publish",
    "upload",
    "download",
    "register",
    "withdraw",
    "deposit",
    "reserve",
    "drop",
    "kill",
    "mute",
    "unmute",
    "forward",
    "reply",
    "archive",
    "invite",
    "revoke",
    "grant",
    "charge",
    "ship",
    "return",
    "shut",
    "confirm",
    "terminate",
    "wipe",
];

static ACTION_SET: LazyLock<WordSet> = LazyLock::new(|| ACTIONS.iter().copied().collect());

/// Whether something shall be done, not explained: a command, or the wish for it.
fn action(tokens: &[Token<'_>]) -> bool {
    let commanded = |at: usize| tokens[at].is_in(&ACTION_SET) && tokens.get(at + 1).is_none_or(|next| !next.is("of"));
    let wished = |at: usize| {
        let wish = tokens[at].is("i")
            && tokens[at + 1..].iter().take(2).any(|token| token.is_any(&["want", "need", "like", "wish"]));
        wish && tokens[at + 1..].iter().take(5).any(|token| token.is_in(&ACTION_SET))
    };
    let begins = |at: usize| {
        at == 0
            || tokens[at - 1].ends
            || tokens[..at].iter().all(|token| token.is_any(EDGES))
            || tokens[at - 1].is_any(&["please", "kindly"])
    };
    (0..tokens.len()).any(|at| (begins(at) && commanded(at)) || wished(at))
}

/// Words that make the answer depend on when it is asked.
const MOMENTS: &[&str] = &[
    "today",
    "tonight",
    "tomorrow",
    "yesterday",
    "now",
    "currently",
    "current",
    "latest",
    "newest",
    "recent",
    "recently",
    "nowadays",
    "lately",
    "upcoming",
    "ongoing",
    "trending",
    "weather",
    "forecast",
    "news",
];

/// Whether the answer changes within hours or days.
fn volatile(tokens: &[Token<'_>]) -> bool {
    const PAIRS: &[(&[&str], &[&str])] = &[
        (
            &["this", "last", "next", "past", "coming"],
            &[
                "week",
                "month",
                "year",
                "morning",
                "afternoon",
                "evening",
                "night",
                "weekend",
                "season",
                "quarter",
                "hour",
            ],
        ),
        (&["so"], &["far"]),
        (&["these"], &["days"]),
        (&["as"], &["of"]),
        (&["the"], &["moment"]),
        (&["stock", "share", "gold", "oil", "bitcoin", "crypto"], &["price", "prices", "market"]),
        (&["exchange", "interest", "mortgage"], &["rate", "rates"]),
        (&["price", "prices"], &["of", "for"]),
        (&["time", "day", "date"], &["is"]),
    ];
    let paired =
        |pair: &[Token<'_>]| PAIRS.iter().any(|(first, second)| pair[0].is_any(first) && pair[1].is_any(second));
    tokens.iter().any(|token| token.is_any(MOMENTS)) || tokens.windows(2).any(paired)
}

/// Verbs of one's own state, which nobody else can answer: "how much do I owe".
const STATES: &[&str] =
    &["have", "owe", "own", "get", "earn", "pay", "live", "work", "look", "feel", "weigh", "know", "still"];

/// In what sense "I" is said: by anybody, or by this caller.
struct Frame {
    /// "How do I", "how to": even "my router" is anybody's.
    how: bool,
    /// "If I lose my visa": anybody's case.
    conditional: bool,
    /// "Can I", "should I", "do I need", "how long do I": anybody's, unless about "my".
    advice: bool,
}

impl Frame {
    fn of(tokens: &[Token<'_>]) -> Self {
        const HELPERS: &[&str] = &["can", "should", "could", "would", "must", "may"];
        let pair =
            |holds: &dyn Fn(&Token<'_>, &Token<'_>) -> bool| tokens.windows(2).any(|pair| holds(&pair[0], &pair[1]));
        let do_i = |holds: &dyn Fn(&Token<'_>) -> bool| {
            tokens.windows(3).any(|three| three[0].is("do") && speaks(&three[1]) && holds(&three[2]))
        };
        let how_i = |three: &[Token<'_>]| {
            three[0].is("how") && (three[1].is("do") || three[1].is_any(HELPERS)) && speaks(&three[2])
        };
        let own_state = pair(&|first, second| speaks(first) && second.is_any(&["am", "was", "have", "had"]));
        let aim = tokens.iter().any(|token| token.is_any(&["to", "if"]));
        Self {
            how: pair(&|first, second| first.is("how") && second.is("to")) || tokens.windows(3).any(how_i),
            conditional: pair(&|first, second| first.is("if") && speaks(second)) && !own_state,
            advice: pair(&|first, second| first.is_any(HELPERS) && speaks(second))
                || do_i(&|verb| verb.is("need"))
                || (aim && do_i(&|verb| verb.is_any(&["have", "do"])))
                || (tokens[0].is("how") && do_i(&|verb| !verb.is_any(STATES))),
        }
    }
}

/// "I" or "we".
fn speaks(token: &Token<'_>) -> bool {
    token.is_any(&["i", "we"])
}

/// Whether the answer depends on who asks. "How do I reset my password" does not: anybody would be told the same.
fn personal(tokens: &[Token<'_>]) -> bool {
    let speaker = |token: &Token<'_>| token.is_any(&["i", "we", "my", "mine", "our", "ours", "myself", "me", "us"]);
    if !tokens.iter().any(speaker) {
        return false;
    }
    let frame = Frame::of(tokens);
    (0..tokens.len()).any(|at| {
        let token = &tokens[at];
        let before = at.checked_sub(1).map(|at| &tokens[at]);
        let behind = |words: &[&str]| before.is_some_and(|word| word.is_any(words));
        let child =
            behind(&["like", "if"]) && tokens.get(at + 1).is_some_and(|next| next.is("am")) && at + 3 >= tokens.len();
        let given = behind(&["give", "show", "teach", "tell", "to", "for", "write", "help", "let", "make"]);
        let anybody = frame.how || frame.conditional;
        (token.is_any(&["my", "mine", "our", "ours", "myself"]) && !anybody)
            || (speaks(token) && !anybody && !frame.advice && !child)
            || (token.is_any(&["me", "us"]) && !given)
    })
}

#[cfg(test)]
mod tests {
    use super::Ineligible::{Action, Anaphoric, Empty, Language, Personal, TooLong, Volatile};
    use crate::question::Question;

    #[test]
    fn what_only_the_caller_the_moment_or_the_conversation_knows_is_not_eligible() {
        let rows = [
            ("", Empty),
            ("Hi! Thanks", Empty),
            ("?!", Empty),
            ("and in Oslo?", Anaphoric),
            ("yes, do it", Anaphoric),
            ("what about that one?", Anaphoric),
            ("How do I fix it?", Anaphoric),
            ("Tell me more", Anaphoric),
            ("Why is this happening?", Anaphoric),
            ("Is she older than the prime minister?", Anaphoric),
            ("Cancel the subscription", Action),
            ("Could you please book a table for four?", Action),
            ("Hello! Turn off the lights, please.", Action),
            ("I want to cancel the reservation", Action),
            ("What is the weather in Lisbon?", Volatile),
            ("Who won the match yesterday?", Volatile),
            ("What's the latest version of Debian?", Volatile),
            ("What happened in politics last week?", Volatile),
            ("Where is my parcel?", Personal),
            ("What is my account balance?", Personal),
            ("How many vacation days do I have left?", Personal),
            ("How much do I owe?", Personal),
            ("How long do I have left on the contract?", Personal),
            ("If I am blind, what is my pension?", Personal),
            ("Am I eligible for a refund?", Personal),
            ("Wie hoch ist der Eiffelturm?", Language),
            ("Quelle est la hauteur de la tour Eiffel ?", Language),
            ("東京の人口は？", Language),
            ("Какова высота башни?", Language),
        ];
        for (text, reason) in rows {
            assert_eq!(Question::read(text).map(|_| ()), Err(reason), "{text}");
        }
        assert_eq!(Question::read(&"why is it so ".repeat(100)).map(|_| ()), Err(TooLong));
    }

    #[test]
    fn what_anybody_would_be_told_is_eligible() {
        let rows = [
            "How do I reset my VPN client?",
            "How do I cancel a subscription?",
            "Is it safe to eat raw eggs?",
            "How long does it take to boil an egg?",
            "What is photosynthesis and how does it work?",
            "Can I freeze cooked rice?",
            "How long do I roast a duck?",
            "What happens if I lose my visa?",
            "Explain recursion like I'm five",
            "Give me three synonyms for brave",
            "Translate this sentence into Dutch: \"The train is late\"",
            "Who wrote the book that inspired Blade Runner?",
            "What is the population of Rio de Janeiro?",
        ];
        for text in rows {
            assert!(Question::read(text).is_ok(), "{text}: {:?}", Question::read(text));
        }
    }
}
