//! Phrases that are one thing, and those that have another wording.
//!
//! A phrase is here only if replacing it keeps the answer in every use, since the same-words tier sees the replacement as
//! well. "How do you" is not "how do I": it may ask the one who answers.

use super::lexicon::Next;

/// Wordings of "how to", with what must follow and whether they only count where a clause begins. "I" and "one" stand for
/// anybody; but "how can I be wrong" asks why, and "how do I look" for a judgement. "The way to" may lead to a place.
pub(super) const HOW_TO: &[(Next, bool, &[&str])] = &[
    (Next::Any, false, &["how to"]),
    (Next::Does, false, &["how do i", "how can i"]),
    // But "how does one cell" counts.
    (Next::Verb, false, &["how does one", "how can one"]),
    (
        Next::Verb,
        false,
        &[
            "what are the steps to",
            "what is the method to",
            "what do i do to",
            "what do i need to do to",
            "what do i have to do to",
            "what must i do to",
        ],
    ),
    (
        Next::Verb,
        true,
        &[
            "steps to",
            "the steps to",
            "instructions to",
            "explain how to",
            "show me how to",
            "teach me how to",
            "can you explain how to",
        ],
    ),
    // "What is the way to work" asks for a street.
    (Next::Object, false, &["what is the way to"]),
    (
        Next::Gerund,
        false,
        &[
            "how do i go about",
            "how can i go about",
            "how to go about",
            "what is the way of",
            "what is the method for",
            "what is the method of",
            "what are the steps for",
            "what are the steps in",
            "what are the instructions for",
        ],
    ),
    (Next::Gerund, true, &["instructions for", "steps for", "steps in"]),
];

/// Verbs that say no more than the noun behind them, as (verb, other verbs, nouns), where anybody does it: the appointment that
/// a president makes is another.
pub(super) const LIGHT_VERBS: &[(&str, &str, &str)] = &[
    ("book", "make schedule arrange", "appointment"),
    ("make", "file submit lodge raise", "complaint"),
    ("do", "perform run", "backup scan"),
    ("give", "deliver make", "speech"),
    ("make", "take", "decision"),
];

/// What has states in a row, of which an earlier one is a previous one; "the previous" is the last of them.
pub(super) const STATES: &str = "version release build revision commit snapshot backup deployment";

/// Phrases that are one thing in any question, as `(phrase, replacement)`, in lower case, words apart by single spaces.
pub(super) const COMPOUNDS: &[(&str, &str)] = &[
    // Words that belong together.
    ("how many", "how-many"),
    ("how much", "how-much"),
    ("how long", "how-long"),
    ("how often", "how-often"),
    ("how frequently", "how-often"),
    ("how far", "how-far"),
    ("instead of", "instead-of"),
    ("rather than", "rather-than"),
    ("at least", "at-least"),
    ("at most", "at-most"),
    ("used to", "used-to"),
    ("going to", "going-to"),
    ("step by step", "step-by-step"),
    ("act as", "act-as"),
    ("give me the definition of", "define"),
    ("give the definition of", "define"),
    ("what is the definition of", "define"),
    ("give me a definition of", "define"),
];

/// Wordings that may stand for each other unless words themselves are asked about ("what does turn on mean").
pub(super) const REWRITES: &[(&str, &str)] = &[
    // A hyphen or a space inside one word.
    ("e mail", "email"),
    ("e mails", "emails"),
    ("wi fi", "wifi"),
    ("per cent", "percent"),
    ("cell phone", "mobile phone"),
    ("cell phones", "mobile phones"),
    ("phone nr", "phone number"),
    ("US dollars", "usd"),
    ("US dollar", "usd"),
    ("us dollars", "usd"),
    ("american dollars", "usd"),
    ("us dollar", "usd"),
    ("two factor authentication", "two-factor-authentication"),
    ("two factor auth", "two-factor-authentication"),
    ("end to end", "end-to-end"),
    ("peer to peer", "peer-to-peer"),
    ("waiting time", "wait time"),
    ("waiting times", "wait times"),
    ("zip code", "zipcode"),
    ("post code", "postcode"),
    ("web site", "website"),
    // To have got is to have, and "any" asks no more than "is there".
    ("have you got", "do you have"),
    ("have i got", "do i have"),
    ("have we got", "do we have"),
    ("have they got", "do they have"),
    // The door to an account has many names; "sign in ink" is something else, so "to" must follow.
    ("sign in to", "log-in to"),
    ("sign into", "log-in to"),
    ("log in to", "log-in to"),
    ("log into", "log-in to"),
    ("log on to", "log-in to"),
    ("log onto", "log-in to"),
    ("login to", "log-in to"),
    ("sign out of", "log-out of"),
    ("log out of", "log-out of"),
    ("log off from", "log-out of"),
    // In a case that may be, to fail to do is not to do; who failed to do a thing has tried.
    ("if i fail to", "if i do n't"),
    ("if we fail to", "if we do n't"),
    ("if you fail to", "if you do n't"),
    ("if they fail to", "if they do n't"),
    // Where something can be had, it is had.
    ("where do i find", "where can i find"),
    ("where do i buy", "where can i buy"),
    ("where do i get", "where can i get"),
    ("where do i download", "where can i download"),
    // Whom one asks is whom one should ask.
    ("who should i contact", "who do i contact"),
    ("who should i call", "who do i call"),
    ("who should i ask", "who do i ask"),
    ("who should i tell", "who do i tell"),
    ("who should i notify", "who do i notify"),
    ("who should i inform", "who do i inform"),
    ("who should i speak to", "who do i speak to"),
    ("who should i talk to", "who do i talk to"),
    ("what should i do if", "what do i do if"),
    ("what should i do when", "what do i do when"),
    ("degrees celsius", "celsius"),
    ("degree celsius", "celsius"),
    ("degrees fahrenheit", "fahrenheit"),
    ("degree fahrenheit", "fahrenheit"),
    // The reason and the causes; "the cause of" may be what somebody stands for.
    ("what are the causes of", "what causes"),
    ("what are the causes of action", "what are the causes-of-action"),
    ("for what reason", "why"),
    ("for which reason", "why"),
    ("for what reasons", "why"),
    // Time.
    ("at what time", "what time"),
    ("at which time", "what time"),
    ("which time", "what time"),
    ("in what year", "what year"),
    ("in which year", "what year"),
    ("which year", "what year"),
    ("on what date", "what date"),
    ("on which date", "what date"),
    ("which date", "what date"),
    // A kind is a sort; alone "kind" is good-natured, and a type is printed.
    ("what kind of", "what-kind-of"),
    ("what kinds of", "what-kinds-of"),
    ("what sort of", "what-kind-of"),
    ("what sorts of", "what-kinds-of"),
    ("what type of", "what-kind-of"),
    ("what types of", "what-kinds-of"),
    ("which kind of", "what-kind-of"),
    ("which kinds of", "what-kinds-of"),
    ("which sort of", "what-kind-of"),
    ("which type of", "what-kind-of"),
    ("which types of", "what-kinds-of"),
    // Whether there is any is whether there is.
    ("do you have any", "do you have"),
    ("have you got any", "do you have"),
    ("are there any", "are there"),
    ("is there any", "is there"),
    ("when is the deadline for", "what is the deadline for"),
    // What an agent is called, and what it did. "The director of a bank directed" nothing, so it is not here.
    ("who is the author of", "who wrote"),
    ("who was the author of", "who wrote"),
    ("who is the writer of", "who wrote"),
    ("who was the writer of", "who wrote"),
    ("who is the inventor of", "who invented"),
    ("who was the inventor of", "who invented"),
    ("who is the founder of", "who founded"),
    ("who was the founder of", "who founded"),
    ("who is the discoverer of", "who discovered"),
    ("who was the discoverer of", "who discovered"),
    ("who is the composer of", "who composed"),
    ("who was the composer of", "who composed"),
    ("who is the painter of", "who painted"),
    ("who was the painter of", "who painted"),
    ("who is the creator of", "who created"),
    ("who was the creator of", "who created"),
    ("who is the designer of", "who designed"),
    ("who was the designer of", "who designed"),
    ("who is the sculptor of", "who sculpted"),
    ("who was the sculptor of", "who sculpted"),
];
