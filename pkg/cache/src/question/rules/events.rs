//! An event takes place in a country and at a time, on whichever side of it they are named.
//!
//! "The US election" is "the election in the US", but the US embassy is not in the US: only what happens is here.

use super::super::lexicon::Class;
use super::super::marks;
use super::super::names;
use super::super::token::Token;

/// "the US election of 2024", "the 2024 election in the US" → "the election of 2024 in US".
pub(super) fn event(tokens: &mut Vec<Token<'_>>) {
    let mut events = tokens.iter().enumerate().filter(|(_, token)| token.has(marks::EVENT));
    let (Some((at, _)), None) = (events.next(), events.next()) else { return };
    if !super::one_clause(tokens) {
        return;
    }
    let (mut start, mut time, mut place) = (at, None, None);
    while start > 0 && at - start < 3 && !tokens[start - 1].is("the") {
        start -= 1;
        let slot = if timed(&tokens[start]) { &mut time } else { &mut place };
        if slot.is_some() || !(timed(&tokens[start]) || placed(&tokens[start])) {
            return;
        }
        *slot = Some(start);
    }
    if start == 0 || !tokens[start - 1].is("the") {
        return;
    }
    let mut stop = at + 1;
    while let Some((used, inner)) = tail(&tokens[stop..]) {
        let slot = if timed(&tokens[stop + inner]) { &mut time } else { &mut place };
        if slot.is_some() {
            return;
        }
        *slot = Some(stop + inner);
        stop += used;
    }
    let ends = tokens[stop - 1].ends;
    let mut whole = vec![tokens[at].clone()];
    for (relation, part) in [("of", time), ("in", place)] {
        if let Some(part) = part {
            whole.extend([Token::known(relation), tokens[part].clone()]);
        }
    }
    for token in &mut whole {
        token.ends = false;
    }
    if let Some(last) = whole.last_mut() {
        last.ends = ends;
    }
    tokens.splice(start..stop, whole);
}

/// "of 2024", "in the US" behind an event: how many tokens, and at which of them the time or place stands.
fn tail(tokens: &[Token<'_>]) -> Option<(usize, usize)> {
    let relation = tokens.first()?;
    let article = usize::from(tokens.get(1)?.is("the"));
    let part = tokens.get(1 + article)?;
    let fits = match relation.text.as_ref() {
        "of" | "on" => timed(part) && article == 0,
        "in" => placed(part) || timed(part) && article == 0,
        _ => false,
    };
    fits.then_some((2 + article, 1 + article))
}

/// A date or a year.
fn timed(token: &Token<'_>) -> bool {
    let year = || token.text.parse().is_ok_and(|year| (1000..3000).contains(&year));
    token.class == Some(Class::Date) || token.class == Some(Class::Number) && year()
}

/// A country or a city.
fn placed(token: &Token<'_>) -> bool {
    token.class.is_none()
        && (names::is_place(token) || token.has(marks::PLACE) || token.is("US"))
        && !token.owner
        && !token.joined
}

/// "in Spain, is ivory legal" → "is ivory legal in Spain", "to fly to Peru, what does one need" likewise. Only if no other
/// relation is named that the place could then belong to: in "how do I book flights to cities in Spain", the cities are
/// there.
pub(super) fn leading_place(tokens: &mut Vec<Token<'_>>) {
    let Some(stop) = tokens.iter().position(|token| token.ends) else { return };
    let (lead, rest) = tokens.split_at(stop + 1);
    if lead[0].colon || lead[stop].colon || rest.len() < 2 || !(leads(lead) || aims(lead)) {
        return;
    }
    let relation = |token: &Token<'_>| token.class() == Class::Preposition;
    let bound =
        |token: &Token<'_>| matches!(token.class(), Class::Scope | Class::Date | Class::Connective | Class::Persona);
    // "By card" at the end takes no place, nor does "for students" behind "is there".
    let takes_none = |last: usize| rest[last].is("by") || rest[last].is("for") && rest[1].is("there");
    let relations = rest.iter().filter(|token| relation(token)).count();
    let free = rest
        .iter()
        .rposition(relation)
        .is_none_or(|last| takes_none(last) && last + 2 == rest.len() && (relations == 1 || rest[last].is("by")));
    if free && attaches(lead, rest) && super::one_clause(rest) && !rest.iter().any(bound) {
        super::move_to_end(tokens, 0, stop + 1);
    }
}

/// Whether the lead belongs to the same thing on either side: to a state ("is ivory legal"), to a verb without an object ("when do
/// shops open"), to a need. "In Spain, can I call a friend" leaves open where the friend is.
fn attaches(lead: &[Token<'_>], rest: &[Token<'_>]) -> bool {
    let [.., before, last] = rest else { return false };
    if lead[0].is("to") {
        let needs = rest[0].is("what") && rest.iter().any(|token| token.is_any(&["need", "needed", "required"]));
        return needs || before.is("it") && last.is_any(&["cost", "take"]);
    }
    let how = usize::from(rest[0].is("how"));
    let state = rest.iter().take(2 + how).any(|token| token.has(marks::COPULA)) || rest[0].is("where");
    let plain = last.has(marks::VERB) && matches!(before.class(), Class::Word | Class::Polar);
    let whole = last.is_any(&["open", "close"]) || before.is("you") && last.is("have") || before.is("by");
    state || plain || whole || written(&lead[lead.len() - 1])
}

/// Where what is worked on is, too: a document, a program, a language.
fn written(token: &Token<'_>) -> bool {
    token.class() == Class::Language || token.has(marks::DOCUMENT)
}

/// "in the shower", "on Mondays".
fn leads(lead: &[Token<'_>]) -> bool {
    lead[0].is_any(&["in", "on", "at", "near", "for", "during"])
        && (2..=6).contains(&lead.len())
        && lead[1..].iter().all(|token| {
            timed(token)
                || (super::noun(token) || matches!(token.class(), Class::Filler | Class::Unit)) && !token.joined
        })
}

/// "to replace a window".
fn aims(lead: &[Token<'_>]) -> bool {
    lead.len() > 2 && lead[0].is("to") && lead[1].has(marks::VERB) && lead[1].cased.is_none()
}
