//! Small pure rules, each of which brings two wordings of one question to one form.
//!
//! A rule is here only if the two wordings have the same answer in every natural question; its file says why. What no rule
//! covers stays as it was written, and then only the same words match. A rule runs only where a word that it needs occurs.

mod events;
mod instructions;
mod negation;
mod order;
mod places;
mod possessive;
mod requests;
#[cfg(test)]
mod tests;
mod title;
mod verbs;
mod voice;
mod which;

use super::marks::{self, Mark};
use super::token::Token;

/// A rule: what it is called, the marks of which at least one word must have one, and what it does.
pub(super) struct Rule {
    /// Its name.
    pub(super) name: &'static str,
    needs: Mark,
    apply: for<'a> fn(&mut Vec<Token<'a>>),
}

/// All rules, in the order in which they are applied.
pub(super) const RULES: &[Rule] = &[
    Rule { name: "verbs", needs: marks::OTHER_VERB, apply: verbs::usual },
    Rule { name: "negation", needs: marks::NOT, apply: negation::contracted },
    Rule { name: "predicate", needs: marks::QUESTION_WORD, apply: possessive::asked_last },
    Rule { name: "country", needs: marks::COUNTRY_HAS, apply: possessive::of_country },
    Rule { name: "agent", needs: marks::BY, apply: voice::agent },
    Rule { name: "title", needs: marks::QUESTION_WORD, apply: title::unquoted },
    Rule { name: "active", needs: marks::PAST_HELPER | marks::DOES, apply: voice::active },
    Rule { name: "which", needs: marks::WHICH, apply: which::what },
    Rule { name: "located", needs: marks::LOCATED, apply: which::located },
    Rule { name: "requests", needs: marks::ENUMERATES | marks::ME, apply: requests::listed },
    Rule { name: "calculated", needs: marks::ASKING, apply: requests::calculated },
    Rule { name: "has", needs: marks::THERE, apply: places::has },
    Rule { name: "available", needs: marks::AVAILABLE, apply: places::available },
    Rule { name: "cost", needs: marks::COSTS, apply: places::cost },
    Rule { name: "distance", needs: marks::DISTANCE, apply: order::distance },
    Rule { name: "events", needs: marks::EVENT, apply: events::event },
    Rule { name: "places", needs: marks::LEADS, apply: events::leading_place },
    Rule { name: "differences", needs: marks::PAIRS, apply: order::differences },
    Rule { name: "journeys", needs: marks::TO, apply: order::journeys },
    Rule { name: "own", needs: marks::DEVICE, apply: instructions::own },
    Rule { name: "unwilling", needs: marks::DEVICE, apply: instructions::unwilling },
    Rule { name: "switched", needs: marks::SETTING, apply: instructions::switched },
    Rule { name: "programmed", needs: marks::DATA, apply: instructions::programmed },
    Rule { name: "checked", needs: marks::WHETHER, apply: instructions::checked },
    Rule { name: "claimed", needs: marks::CLAIM, apply: instructions::claimed },
];

/// Rules that hold where words themselves are asked about as well.
const OF_WORDS: [&str; 3] = ["predicate", "requests", "differences"];

/// Applies all rules but the one called `without`.
pub(super) fn apply(tokens: &mut Vec<Token<'_>>, about_words: bool, without: Option<&str>) {
    let all = tokens.iter().fold(0, |all, token| all | token.marks());
    for rule in RULES.iter().filter(|rule| rule.needs & all != 0) {
        if without != Some(rule.name) && (!about_words || OF_WORDS.contains(&rule.name)) {
            (rule.apply)(tokens);
        }
    }
    order::personas(tokens);
}

/// Whether `tokens` begin with these words, none of them a name, in one clause.
fn begins(tokens: &[Token<'_>], words: &[&str]) -> bool {
    tokens.len() > words.len()
        && words
            .iter()
            .zip(tokens)
            .all(|(word, token)| token.is(word) && token.cased.is_none() && !token.ends && !token.owner)
}

/// Replaces `count` tokens at `at`; the break behind the last one stays.
fn replace(tokens: &mut Vec<Token<'_>>, at: usize, count: usize, with: &[&'static str]) {
    let ends = tokens[at + count - 1].ends;
    tokens.splice(at..at + count, with.iter().map(|&word| Token::known(word)));
    if let Some(last) = (at + with.len()).checked_sub(1) {
        tokens[last].ends |= ends;
    }
}

/// Moves `count` tokens at `from` to the end, which ends as it did.
fn move_to_end(tokens: &mut Vec<Token<'_>>, from: usize, count: usize) {
    let Some(ends) = tokens.last().map(|last| last.ends) else { return };
    tokens[from..].rotate_left(count);
    let joint = tokens.len() - count;
    for at in [joint.checked_sub(1), tokens.len().checked_sub(1)].into_iter().flatten() {
        tokens[at].ends = false;
    }
    if let Some(last) = tokens.last_mut() {
        last.ends = ends;
    }
}

/// A word that may be a noun: no grammar, no value but a literal.
fn noun(token: &Token<'_>) -> bool {
    use super::lexicon::Class::{Form, Language, Literal, Polar, Word};
    matches!(token.class(), Word | Polar | Language | Form | Literal)
}

/// Whether the clauses of the text are one.
fn one_clause(tokens: &[Token<'_>]) -> bool {
    tokens.split_last().is_none_or(|(_, before)| !before.iter().any(|token| token.ends))
}
