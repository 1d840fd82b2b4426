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
        "verbs",
        ["How do I purchase a tent?", "How do I buy a tent?"],
        ["What is a purchase order?", "What is a buy order?"],
    ),
    (
        "negation",
        ["What if a cat does not eat?", "What if a cat doesn't eat?"],
        ["Is not eating bad?", "Isn't eating bad?"],
    ),
    (
        "predicate",
        ["The capital of Peru is what?", "What is the capital of Peru?"],
        ["The capital of Peru is what?", "Where is the capital of Peru?"],
    ),
    (
        "country",
        ["What is Kenya's capital city?", "What is the capital of Kenya?"],
        ["What is Kenya's invasion?", "What is the invasion of Kenya?"],
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
        "requests",
        ["Name four reasons to fast", "Give me four reasons to fast"],
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
        "available",
        ["Is internet available on the ferry?", "Is there internet on the ferry?"],
        ["Is a doctor available on the ferry?", "Is there a doctor on the ferry?"],
    ),
    (
        "cost",
        ["What is the cost of a kayak?", "How much does a kayak cost?"],
        ["What is the cost of fame?", "What is fame?"],
    ),
    (
        "distance",
        ["How far is it from Bern to Basel?", "What is the distance between Basel and Bern?"],
        ["How far is Bern from Basel?", "How far is Bern in Basel?"],
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
        "journeys",
        ["Are there trains to Bari from Rome?", "Are there trains from Rome to Bari?"],
        ["Are there trains to Bari from Rome?", "Are there trains to Rome from Bari?"],
    ),
    (
        "own",
        ["How do I descale my kettle?", "How do I descale a kettle?"],
        ["How do I find my phone?", "How do I find a phone?"],
    ),
    (
        "unwilling",
        ["Why won't my printer scan?", "Why doesn't my printer scan?"],
        ["Why won't the tenant pay?", "Why doesn't the tenant pay?"],
    ),
    (
        "switched",
        ["How do I turn off subtitles?", "How do I disable subtitles?"],
        ["How do I turn on voters?", "How do I enable voters?"],
    ),
    (
        "programmed",
        ["Shuffle an array in Ruby", "How do I shuffle a Ruby array?"],
        ["Shuffle a deck in Ruby", "How do I shuffle a Ruby deck?"],
    ),
    (
        "checked",
        ["How do I find out whether a gem is real?", "How do I check if a gem is real?"],
        ["What should I find out if a gem is real?", "What should I check if a gem is real?"],
    ),
    (
        "claimed",
        ["How do I lodge a claim on a warranty?", "How do I make a claim on a warranty?"],
        ["How do I lodge a claim in court?", "How do I make a claim in court?"],
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
