//! The gates: small pure rules, each of which may only say "no".
//!
//! Similar is not the same. A pair passes only if every gate agrees, so what the rules cannot judge is refused. A gate
//! compares one class of terms; each term belongs to one class, so each gate is needed (the tests show a pair per gate
//! that only this gate stops). All gates are symmetric and pass a question with itself.

mod antonyms;
mod asked;
mod comparatives;
mod connectives;
mod dates;
mod direction;
mod entities;
mod form;
mod language;
mod literals;
mod matching;
mod modality;
mod negation;
mod numbers;
mod persona;
mod pronouns;
mod roles;
mod scope;
mod tense;
#[cfg(test)]
mod tests;
mod times;
mod units;
mod words;

use crate::question::Question;

/// A gate, in the order in which they are asked: cheap and telling ones first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Gate {
    /// Numbers and ordinals.
    Numbers,
    /// Calendar dates.
    Dates,
    /// Times of day.
    Times,
    /// Units and money.
    Units,
    /// Ids, versions, code, flags, quotations, addresses.
    Literals,
    /// Wanted form and length.
    Form,
    /// Languages, natural and programming.
    Language,
    /// Negations.
    Negation,
    /// Words with an opposite.
    Antonyms,
    /// Comparatives, superlatives, bounds.
    Comparatives,
    /// And, or, all, some.
    Connectives,
    /// Who is meant.
    Pronouns,
    /// Prepositions.
    Direction,
    /// What is asked for.
    Asked,
    /// Whom the model shall play.
    Persona,
    /// When it holds.
    Tense,
    /// Can, should, must.
    Modality,
    /// Hypothetical, general, specific.
    Scope,
    /// Names.
    Entities,
    /// Content words.
    Words,
    /// Order of the parts.
    Roles,
}

impl Gate {
    /// The gate as a metric label and in recorded decisions.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Numbers => "numbers",
            Self::Dates => "dates",
            Self::Times => "times",
            Self::Units => "units",
            Self::Literals => "literals",
            Self::Form => "form",
            Self::Language => "language",
            Self::Negation => "negation",
            Self::Antonyms => "antonyms",
            Self::Comparatives => "comparatives",
            Self::Connectives => "connectives",
            Self::Pronouns => "pronouns",
            Self::Direction => "direction",
            Self::Asked => "asked",
            Self::Persona => "persona",
            Self::Tense => "tense",
            Self::Modality => "modality",
            Self::Scope => "scope",
            Self::Entities => "entities",
            Self::Words => "words",
            Self::Roles => "roles",
        }
    }
}

/// Why a stored answer may not serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("refused by the gate for {}", gate.as_str())]
pub struct Refusal {
    /// The first gate that refused.
    pub gate: Gate,
}

type Rule = fn(&Question, &Question) -> bool;

/// Every gate with its rule.
const RULES: [(Gate, Rule); 21] = [
    (Gate::Numbers, numbers::agree),
    (Gate::Dates, dates::agree),
    (Gate::Times, times::agree),
    (Gate::Units, units::agree),
    (Gate::Literals, literals::agree),
    (Gate::Form, form::agree),
    (Gate::Language, language::agree),
    (Gate::Negation, negation::agree),
    (Gate::Antonyms, antonyms::agree),
    (Gate::Comparatives, comparatives::agree),
    (Gate::Connectives, connectives::agree),
    (Gate::Pronouns, pronouns::agree),
    (Gate::Direction, direction::agree),
    (Gate::Asked, asked::agree),
    (Gate::Persona, persona::agree),
    (Gate::Tense, tense::agree),
    (Gate::Modality, modality::agree),
    (Gate::Scope, scope::agree),
    (Gate::Entities, entities::agree),
    (Gate::Words, words::agree),
    (Gate::Roles, roles::agree),
];

/// May the answer to `stored` be served to who asked `asked`? Similarity is the caller's business. The same words pass; a
/// question about now, or one too long to be judged, passes with nothing else.
///
/// # Errors
/// The first gate that refuses.
pub fn judge(asked: &Question, stored: &Question) -> Result<(), Refusal> {
    if asked.same_words() == stored.same_words() {
        return Ok(());
    }
    if asked.strict() || stored.strict() {
        return Err(Refusal { gate: Gate::Words });
    }
    judge_by(&RULES, asked, stored)
}

/// Asks the given rules in turn.
fn judge_by(rules: &[(Gate, Rule)], asked: &Question, stored: &Question) -> Result<(), Refusal> {
    rules.iter().find(|(_, agree)| !agree(asked, stored)).map_or(Ok(()), |&(gate, _)| Err(Refusal { gate }))
}
