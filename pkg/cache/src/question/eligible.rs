//! Which questions may be answered from another's answer at all.
//!
//! Some questions have an answer that only this caller, this moment or this conversation knows, and some are commands
//! whose repetition must happen again. No similarity makes those safe, so they are left to the exact cache.

use super::lexicon::{Class, Slot};
use super::marks::{self, Mark};
use super::token::Token;

/// Why no other question's answer may serve a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ineligible {
    /// Nothing is asked about.
    Empty,
    /// Longer than the rules can judge ([`super::MAX_BYTES`], [`super::MAX_TOKENS`]): then only the same text is the same question.
    TooLong,
    /// It points at something said before: "and in Paris?", "do it".
    Anaphoric,
    /// A command on the world: "cancel the order".
    Action,
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
            Self::Personal => "personal",
            Self::Language => "language",
        }
    }
}

type Rule = fn(&[Token<'_>]) -> bool;

/// What makes a text ineligible, in the order asked, and the marks without which it cannot. Language comes before what only
/// English words can tell.
const RULES: [(Rule, Mark, Ineligible); 4] = [
    (anaphoric, Mark::MAX, Ineligible::Anaphoric),
    (foreign, Mark::MAX, Ineligible::Language),
    (action, marks::ACTION, Ineligible::Action),
    (personal, marks::SPEAKER, Ineligible::Personal),
];

/// Judges the asking part of a text: whether its answer changes soon.
///
/// # Errors
/// The first reason that holds.
pub(super) fn judge(tokens: &[Token<'_>]) -> Result<bool, Ineligible> {
    if tokens.is_empty() {
        return Err(Ineligible::Empty);
    }
    let all = tokens.iter().fold(0, |all, token| all | token.marks());
    let holds = |rule: &&(Rule, Mark, Ineligible)| (rule.1 == Mark::MAX || rule.1 & all != 0) && rule.0(tokens);
    match RULES.iter().find(holds) {
        Some(&(_, _, reason)) => Err(reason),
        None => Ok(all & (marks::MOMENT | marks::MOMENT_PAIR) != 0 && volatile(tokens)),
    }
}

/// Whether too few words are English function words to judge by. Letters outside Latin are never judged.
fn foreign(tokens: &[Token<'_>]) -> bool {
    let latin = |c: char| !c.is_alphabetic() || c < '\u{250}' || ('\u{1e00}'..'\u{1f00}').contains(&c);
    let (mut words, mut known, mut other) = (0, 0, 0);
    for token in tokens.iter().filter(|token| token.class.is_none()) {
        if !token.text.chars().all(latin) {
            return true;
        }
        words += 1;
        known += usize::from(token.slot.is_some_and(Slot::is_known));
        other += usize::from(!token.text.is_ascii() || token.has(marks::FOREIGN));
    }
    known == 0 || known * 5 < words || other >= known
}

/// Whether it points at something outside the text.
fn anaphoric(tokens: &[Token<'_>]) -> bool {
    let lead = tokens.iter().take_while(|token| token.has(marks::EDGE)).count();
    let Some(first) = tokens.get(lead) else { return true };
    let about = first.is_any(&["what", "how"]) && tokens.get(lead + 1).is_some_and(|next| next.is("about"));
    let short = tokens.iter().filter(|token| !token.has(marks::EDGE)).count() <= 3
        && tokens.iter().any(|token| token.has(marks::MORE));
    first.has(marks::CONTINUES) || about || short || (0..tokens.len()).any(|at| points_out(tokens, at))
}

/// Whether the token at `at` refers to something that the text does not name.
fn points_out(tokens: &[Token<'_>], at: usize) -> bool {
    let token = &tokens[at];
    if !token.has(marks::POINTS | marks::STAND_IN) {
        return false;
    }
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
    token.has(marks::STAND_IN) && !expletive(tokens, at) && !has_antecedent(&tokens[..at])
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
                || token.sense().is_none_or(|sense| matches!(sense.class, Class::Word | Class::Polar | Class::Language))
        }
        Some(class) => class == Class::Literal,
    };
    let introduced = |token: &Token<'_>| {
        token.ends
            || token.sense().is_some_and(|sense| {
                matches!(
                    sense.class,
                    Class::Filler | Class::Preposition | Class::Tense | Class::Connective | Class::Scope
                )
            })
    };
    before.windows(2).any(|pair| introduced(&pair[0]) && names(&pair[1]))
        || before.first().is_some_and(|first| names(first) && before.len() > 2)
}

/// Whether something shall be done, not explained: a command, or the wish for it.
fn action(tokens: &[Token<'_>]) -> bool {
    let commanded = |at: usize| tokens[at].has(marks::ACTION) && tokens.get(at + 1).is_none_or(|next| !next.is("of"));
    let wished = |at: usize| {
        let asks =
            at.checked_sub(1).is_some_and(|before| tokens[before].is_any(&["do", "if", "would", "when", "what"]));
        let wish = !asks
            && tokens[at].is("i")
            && tokens[at + 1..].iter().take(2).any(|token| token.is_any(&["want", "need", "like", "wish"]));
        wish && tokens[at + 1..].iter().take(5).any(|token| token.has(marks::ACTION))
    };
    let begins = |at: usize| {
        at == 0
            || tokens[at - 1].ends
            || tokens[..at].iter().all(|token| token.has(marks::EDGE))
            || tokens[at - 1].is_any(&["please", "kindly"])
    };
    (0..tokens.len()).any(|at| (begins(at) && commanded(at)) || wished(at))
}

/// Whether the answer changes within hours or days.
pub(super) fn volatile(tokens: &[Token<'_>]) -> bool {
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
    let paired = |pair: &[Token<'_>]| {
        pair[0].has(marks::MOMENT_PAIR)
            && PAIRS.iter().any(|(first, second)| pair[0].is_any(first) && pair[1].is_any(second))
    };
    tokens.iter().any(|token| token.has(marks::MOMENT)) || tokens.windows(2).any(paired)
}

/// In what sense "I" is said: by anybody, or by this caller.
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one text, never passed on as a set")]
struct Frame {
    /// "How do I", "how to": even "my order" is anybody's.
    how: bool,
    /// "If I lose my visa": anybody's case.
    conditional: bool,
    /// "Can I", "should I", "do I need", "who do I ask", "why is my": anybody's, unless about something that is kept about
    /// the asker.
    advice: bool,
    /// "Can I pay my bill by card": what is allowed is allowed to all. But "can I see my bill" asks for the bill.
    permission: bool,
}

impl Frame {
    fn of(tokens: &[Token<'_>]) -> Self {
        let pair =
            |holds: &dyn Fn(&Token<'_>, &Token<'_>) -> bool| tokens.windows(2).any(|pair| holds(&pair[0], &pair[1]));
        let do_i = |holds: &dyn Fn(&Token<'_>) -> bool| {
            tokens.windows(3).any(|three| three[0].is("do") && speaks(&three[1]) && holds(&three[2]))
        };
        let how_i = |three: &[Token<'_>]| {
            three[0].is("how") && (three[1].is("do") || three[1].has(marks::HELPER)) && speaks(&three[2])
        };
        let own_state = pair(&|first, second| speaks(first) && second.is_any(&["am", "was", "have", "had"]));
        let aim = tokens.iter().any(|token| token.is_any(&["to", "if"]));
        let way = |first: &Token<'_>, second: &Token<'_>| {
            first.is_any(&["way", "steps", "process", "procedure"]) && second.is_any(&["to", "for"])
        };
        Self {
            how: pair(&|first, second| first.is("how") && second.is("to") || way(first, second))
                || tokens.windows(3).any(how_i),
            conditional: pair(&|first, second| first.is("if") && speaks(second)) && !own_state,
            advice: pair(&|first, second| first.has(marks::HELPER) && speaks(second))
                || do_i(&|verb| verb.is("need"))
                || (aim && do_i(&|verb| verb.is_any(&["have", "do"])))
                || (tokens[0].has(marks::QUESTION_WORD) && do_i(&|verb| !verb.has(marks::STATE)))
                || generic_why(tokens),
            permission: tokens.windows(4).any(|four| {
                let looks = four[2]
                    .is_any(&["see", "check", "get", "have", "know", "view", "find", "access", "track", "expect"]);
                four[0].is_any(&["can", "could", "may"])
                    && speaks(&four[1])
                    && !four[2].is_any(&["still", "be"])
                    && !(looks && four[3].has(marks::OWN))
            }),
        }
    }
}

/// "Why is my router slow": anybody's, unless it asks about what happened, or about what is decided of the asker.
fn generic_why(tokens: &[Token<'_>]) -> bool {
    const DECIDED: &[&str] = &[
        "card",
        "cards",
        "benefit",
        "benefits",
        "pension",
        "policy",
        "membership",
        "mortgage",
        "deposit",
        "transfer",
        "request",
        "visa",
        "permit",
        "profile",
        "prescription",
        "diagnosis",
        "credit",
        "debt",
        "pay",
        "payslip",
        "wage",
        "wages",
        "rent",
    ];
    let past = |token: &Token<'_>| token.is_any(&["was", "were", "did", "has", "have", "had"]);
    tokens.iter().any(|token| token.is("why"))
        && tokens.len() > 3
        && !tokens.iter().any(|token| speaks(token) || past(token) || token.is_any(DECIDED))
}

/// "I" or "we".
fn speaks(token: &Token<'_>) -> bool {
    token.is_any(&["i", "we"])
}

/// Whether the answer depends on who asks. "How do I reset my password" does not: anybody would be told the same. Nor does
/// "can I bring my dog"; but "can I change my order" does, since it depends on the order.
fn personal(tokens: &[Token<'_>]) -> bool {
    let frame = Frame::of(tokens);
    let record = tokens.iter().any(|token| token.has(marks::RECORD));
    let anybody = frame.how || frame.conditional;
    (0..tokens.len()).any(|at| {
        let token = &tokens[at];
        if !token.has(marks::SPEAKER) {
            return false;
        }
        let before = at.checked_sub(1).map(|at| &tokens[at]);
        let behind = |words: &[&str]| before.is_some_and(|word| word.is_any(words));
        let child =
            behind(&["like", "if"]) && tokens.get(at + 1).is_some_and(|next| next.is("am")) && at + 3 >= tokens.len();
        let given = behind(&["give", "show", "teach", "tell", "to", "for", "write", "help", "let", "make"]);
        if token.is_any(&["me", "us"]) {
            return !given;
        }
        if speaks(token) {
            return !anybody && !frame.advice && !child;
        }
        !anybody && (!frame.advice || record && !frame.permission)
    })
}

#[cfg(test)]
mod tests {
    use super::Ineligible::{Action, Anaphoric, Empty, Language, Personal};
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
            ("Where is my parcel?", Personal),
            ("What is my account balance?", Personal),
            ("How many vacation days do I have left?", Personal),
            ("How much do I owe?", Personal),
            ("How long do I have left on the contract?", Personal),
            ("If I am blind, what is my pension?", Personal),
            ("Am I eligible for a refund?", Personal),
            ("Can I see my order?", Personal),
            ("Where can I track my parcel?", Personal),
            ("Why was my visa refused?", Personal),
            ("Why is my card blocked?", Personal),
            ("Why is my order late?", Personal),
            ("Wie hoch ist der Eiffelturm?", Language),
            ("Quelle est la hauteur de la tour Eiffel ?", Language),
            ("東京の人口は？", Language),
            ("Какова высота башни?", Language),
        ];
        for (text, reason) in rows {
            assert_eq!(Question::read(text).map(|_| ()), Err(reason), "{text}");
        }
    }

    #[test]
    fn what_is_about_now_or_too_long_to_be_judged_is_the_same_as_the_same_words_only() {
        let read = |text: &str| Question::read(text).expect("eligible");
        for (one, other) in [
            ("What is the weather in Lisbon?", "what's the weather in Lisbon"),
            ("Who won the match yesterday?", "so who won the match yesterday?"),
        ] {
            let (one, other) = (read(one), read(other));
            assert!(one.volatile() && one.strict());
            assert_eq!(one.same_words(), other.same_words());
        }
        // A taxi and a cab are near enough for other questions.
        let (one, other) = (read("Where can one hail a taxi today?"), read("Where can one hail a cab today?"));
        assert!(crate::gates::judge(&one, &other).is_err());

        let long = "Why is the sky blue over a sea? ".repeat(40);
        let (one, other) = (read(&long), read(&format!("\n {}\t", long.trim())));
        assert!(one.strict() && !one.volatile());
        assert_eq!((one.same_words(), one.bucket()), (other.same_words(), other.bucket()));
        for unlike in [long.replacen("blue", "Blue", 1), long.replacen("sky ", "sky  ", 1), long.replacen('?', "", 1)] {
            let unlike = read(&unlike);
            assert_ne!(one.same_words(), unlike.same_words());
            assert!(crate::gates::judge(&one, &unlike).is_err());
        }
        assert!(read(&"what is new now ".repeat(90)).volatile());
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
            "Can I bring my lunch to a zoo?",
            "Why is my router slow?",
            "Where can I charge my scooter?",
            "Is it possible to freeze milk?",
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
