//! Every rule is needed, and none goes one step too far.

use super::super::Question;
use super::RULES;

/// Whether two texts are the same words without one of the rules.
fn same(one: &str, other: &str, without: Option<&str>) -> bool {
    let read = |text| Question::without(text, without).unwrap_or_else(|reason| panic!("{text:?}: {reason:?}"));
    read(one).same_words() == read(other).same_words()
}

/// Per rule: a pair that only this rule serves, and a pair beside it that must not be served.
const ROWS: &[(&str, [&str; 2], [&str; 2])] = &[
    (
        "negation",
        ["What if a cat does not eat?", "What if a cat doesn't eat?"],
        ["Is not eating bad?", "Isn't eating bad?"],
    ),
    ("own", ["How do I sell my boat?", "How do I sell the boat?"], ["How do I sell my boat?", "How do I sell a boat?"]),
    (
        "meaning",
        ["What does ergo mean?", "What is the meaning of ergo?"],
        ["What does life mean?", "What is the definition of life?"],
    ),
    (
        "predicate",
        ["The capital of Peru is what?", "What is the capital of Peru?"],
        ["The capital of Peru is what?", "Where is the capital of Peru?"],
    ),
    (
        "owner",
        ["What is Peru's capital?", "What is the capital of Peru?"],
        ["What is Ann's photo?", "What is a photo of Ann?"],
    ),
    ("agent", ["Who was Emma written by?", "Who wrote Emma?"], ["Who was Emma written for?", "Who wrote Emma?"]),
    ("title", ["Who wrote \"Emma\"?", "Who wrote Emma?"], ["Who owns \"Emma\"?", "Who owns Emma?"]),
    ("active", ["Did Ann hire Bob?", "Was Bob hired by Ann?"], ["Did Ann hire Bob?", "Was Ann hired by Bob?"]),
    (
        "which",
        ["Which towns have a zoo?", "What towns have a zoo?"],
        ["Which is better for soup?", "What is better for soup?"],
    ),
    (
        "located",
        ["Where is Lake Baikal located?", "Where is Lake Baikal?"],
        ["Why is Baikal located there?", "Why is Baikal there?"],
    ),
    (
        "year",
        ["What year did Troy fall?", "When did Troy fall?"],
        ["What year does Troy fall?", "When does Troy fall?"],
    ),
    (
        "falls",
        ["When did the tower come down?", "When did the tower fall?"],
        ["When did the girl come down?", "When did the girl fall?"],
    ),
    (
        "requests",
        ["Name four moons of Mars", "Give me four moons of Mars"],
        ["Name the moons of Mars", "Give the moons of Mars"],
    ),
    (
        "calculated",
        ["Calculate 7 times 8", "What is 7 times 8?"],
        ["Calculate the area of Peru", "What is the area of Peru"],
    ),
    (
        "has",
        ["Is there a spa at the inn?", "Does the inn have a spa?"],
        ["Is there a spa at the inn?", "Does the spa have an inn?"],
    ),
    (
        "cost",
        ["What is the cost of a kayak?", "How much does a kayak cost?"],
        ["What is the cost of fame?", "What is fame?"],
    ),
    ("doing", ["Is eating moss safe?", "Is it safe to eat moss?"], ["Is eating moss safe?", "Is moss safe?"]),
    (
        "distance",
        ["How far is it from Bern to Basel?", "What is the distance between Basel and Bern?"],
        ["How far is Bern from Basel?", "How far is Bern in Basel?"],
    ),
    (
        "code",
        ["How do I copy a Ruby array?", "How do I copy an array in Ruby?"],
        ["How do I copy a ruby?", "How do I copy in Ruby?"],
    ),
    (
        "events",
        ["Who won the UK election of 2010?", "Who won the 2010 election in the UK?"],
        ["Where is the UK embassy?", "Where is the embassy in the UK?"],
    ),
    (
        "places",
        ["In Peru, is coca legal?", "Is coca legal in Peru?"],
        ["In Peru, how do I fly to cities?", "How do I fly to cities in Peru?"],
    ),
    (
        "differences",
        ["How do owls and hawks differ?", "Difference between owls and hawks"],
        ["How do owls and hawks differ?", "Why do owls and hawks differ?"],
    ),
    (
        "pairs",
        ["Are Ann and Bob twins?", "Are Bob and Ann twins?"],
        ["Are wild cats and dogs shy?", "Are wild dogs and cats shy?"],
    ),
    (
        "journeys",
        ["Are there trains to Bari from Rome?", "Are there trains from Rome to Bari?"],
        ["Are there trains to Bari from Rome?", "Are there trains to Rome from Bari?"],
    ),
];

#[test]
fn every_rule_serves_a_pair_that_nothing_else_serves_and_stops_beside_it() {
    assert_eq!(
        ROWS.iter().map(|row| row.0).collect::<Vec<_>>(),
        RULES.iter().map(|rule| rule.name).collect::<Vec<_>>()
    );
    for (rule, [one, other], [near, far]) in ROWS {
        assert!(same(one, other, None), "{rule}: {one} / {other}");
        assert!(!same(one, other, Some(rule)), "{rule} is not what serves {one} / {other}");
        assert!(!same(near, far, None), "{rule}: {near} / {far}");
    }
}
