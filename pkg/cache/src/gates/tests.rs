//! Pairs that must miss and pairs that should hit, and that every gate is needed.

use super::*;

/// Reads a text that the tests know to be eligible.
fn read(text: &str) -> Question {
    Question::read(text).unwrap_or_else(|reason| panic!("{text:?} is {}", reason.as_str()))
}

/// All gates but one.
fn judge_without(gate: Gate, asked: &Question, stored: &Question) -> Result<(), Refusal> {
    let rest: Vec<(Gate, Rule)> = RULES.into_iter().filter(|&(other, _)| other != gate).collect();
    judge_by(&rest, asked, stored)
}

#[test]
fn every_gate_stops_a_pair_that_nothing_else_stops() {
    let rows = [
        (Gate::Numbers, "Name the top 5 rivers of Asia", "Name the top 10 rivers of Asia"),
        (Gate::Dates, "What happened on 5 November 2024?", "What happened on 6 November 2024?"),
        (Gate::Times, "Is 2pm a common hour for tea?", "Is 2am a common hour for tea?"),
        (Gate::Units, "How far is 5 km in steps?", "How far is 5 miles in steps?"),
        (Gate::Literals, "What does error E4012 say?", "What does error E4013 say?"),
        (Gate::Form, "Explain gravity as JSON", "Explain gravity as YAML"),
        (Gate::Language, "How do I sort an array in Ruby?", "How do I sort an array in Kotlin?"),
        (Gate::Negation, "Which mushrooms are edible?", "Which mushrooms are not edible?"),
        (Gate::Antonyms, "How do I enable IPv6 on a router?", "How do I disable IPv6 on a router?"),
        (Gate::Comparatives, "Which metals are more common than gold?", "Which metals are less common than gold?"),
        (Gate::Connectives, "Do cats eat rice and fish?", "Do cats eat rice or fish?"),
        (Gate::Pronouns, "When a nurse retires, who pays his pension?", "When a nurse retires, who pays her pension?"),
        (Gate::Direction, "Are there ferries to Malta?", "Are there ferries from Malta?"),
        (Gate::Asked, "When did the Roman Empire collapse?", "Why did the Roman Empire collapse?"),
        (Gate::Persona, "Act as a lawyer. Who owns the moon?", "Act as a pirate. Who owns the moon?"),
        (Gate::Tense, "Who is the chancellor of Austria?", "Who was the chancellor of Austria?"),
        (Gate::Modality, "Can a landlord enter a flat?", "Should a landlord enter a flat?"),
        (Gate::Scope, "Do dogs bite?", "Do dogs usually bite?"),
        (Gate::Entities, "Who founded Zalando?", "Who founded Klarna?"),
        (Gate::Words, "How do I boil rice?", "How do I steam rice?"),
        (Gate::Roles, "Can spiders eat wasps?", "Can wasps eat spiders?"),
    ];
    assert_eq!(rows.len(), RULES.len());
    for (gate, one, other) in rows {
        let (one, other) = (read(one), read(other));
        assert_eq!(judge(&one, &other), Err(Refusal { gate }), "{gate:?}");
        assert_eq!(judge_without(gate, &one, &other), Ok(()), "{gate:?} is not the only gate that stops its pair");
        assert_ne!(one.same_words(), other.same_words(), "{gate:?}");
    }
}
