//! The order that carries no meaning: the two sides of "the difference between A and B" and of a comparison. "A and B" keep
//! theirs: the product of two vectors, a join and many a pair of names are said in an order.
//! All else keeps its order, since order is who does what to whom, and what a phrase belongs to.

use super::super::lexicon::Class;
use super::super::token::Token;

/// The words behind "act as" up to the end of the clause describe the persona.
pub(super) fn personas(tokens: &mut [Token<'_>]) {
    if tokens.len() > 2 && tokens[0].is("as") && tokens[1].class() == Class::Filler {
        tokens[0].class = Some(Class::Persona);
    }
    let mut inside = false;
    for token in tokens {
        inside |= token.class() == Class::Persona;
        if inside && !matches!(token.class(), Class::Filler) {
            token.class = Some(Class::Persona);
        }
        inside &= !token.ends;
    }
}

/// Other wordings of a difference: "how do A and B differ", "how is A different from B", "differences between A and B", "A vs
/// B", "compare A with B".
pub(super) fn differences(tokens: &mut Vec<Token<'_>>) {
    reworded(tokens);
    compared(tokens);
    symmetric(tokens);
}

/// Brings the wordings of a difference to "what is the difference between A and B".
fn reworded(tokens: &mut Vec<Token<'_>>) {
    const DIFFERENCE: [&str; 5] = ["what", "is", "the", "difference", "between"];
    let (Some(last), true) = (tokens.len().checked_sub(1), super::one_clause(tokens)) else { return };
    if super::begins(tokens, &["how", "do"]) && tokens[last].is("differ") && pair(&tokens[2..last]).is_some() {
        let ends = tokens[last].ends;
        tokens.truncate(last);
        tokens[last - 1].ends = ends;
        super::replace(tokens, 0, 2, &DIFFERENCE);
    } else if super::begins(tokens, &["how", "is"]) || super::begins(tokens, &["how", "are"]) {
        let Some(at) = tokens.windows(2).position(|two| two[0].is("different") && two[1].is("from")) else { return };
        if at > 2 && at + 2 <= last && apart(&tokens[2..at]) && apart(&tokens[at + 2..]) {
            super::replace(tokens, at, 2, &["and"]);
            super::replace(tokens, 0, 2, &DIFFERENCE);
        }
    } else if super::begins(tokens, &["difference", "between"]) || super::begins(tokens, &["differences", "between"]) {
        super::replace(tokens, 0, 2, &DIFFERENCE);
    } else if super::begins(tokens, &["what", "are", "the", "differences", "between"]) {
        super::replace(tokens, 0, 5, &DIFFERENCE);
    }
}

/// The sides of "compare A with B" and of a bare "A vs B" are joined by "and" and "vs", in the order of their text.
fn compared(tokens: &mut Vec<Token<'_>>) {
    let Some(joint) = tokens.iter().position(|token| token.is_any(&["and", "to", "with", "versus", "vs"])) else {
        return;
    };
    let compare = super::begins(tokens, &["compare"]);
    let versus = tokens[joint].is_any(&["versus", "vs"]);
    let start = usize::from(compare);
    let sides =
        joint > start && joint + 1 < tokens.len() && apart(&tokens[start..joint]) && apart(&tokens[joint + 1..]);
    // A case and a match are named in their order.
    let names = versus && tokens.iter().any(|token| token.proper && token.class() != Class::Language);
    if sides && compare != versus && !names && super::one_clause(tokens) {
        tokens[joint] = Token::known(if compare { "and" } else { "versus" });
        let stop = tokens.len();
        ordered(tokens, start, joint, stop);
    }
}

/// Where the sides of "A and B" part.
fn pair(tokens: &[Token<'_>]) -> Option<usize> {
    let middle = tokens.iter().position(|token| token.is("and"))?;
    (apart(&tokens[..middle]) && apart(&tokens[middle + 1..])).then_some(middle)
}

/// A word that may name something.
fn named(token: &Token<'_>) -> bool {
    super::noun(token) && token.class.is_none() && !token.owner && !token.joined
}

/// "to A from B" is "from B to A", between two names.
#[expect(clippy::ptr_arg, reason = "the signature of a rule")]
pub(super) fn journeys(tokens: &mut Vec<Token<'_>>) {
    let Some(at) = tokens.len().checked_sub(4) else { return };
    let place = |token: &Token<'_>| token.proper && named(token);
    let [to, one, from, other] = &tokens[at..] else { return };
    if to.is("to") && from.is("from") && place(one) && place(other) && ![to, one, from].iter().any(|token| token.ends) {
        let ends = other.ends;
        tokens[at..].rotate_left(2);
        tokens[at + 1].ends = false;
        tokens[at + 3].ends = ends;
    }
}

/// "how far is it from A to B", "how far is A from B" and "what is the distance between A and B" ask for one distance, and it
/// is the same both ways.
pub(super) fn distance(tokens: &mut Vec<Token<'_>>) {
    const LEADS: [(&[&str], &str); 5] = [
        (&["how-far", "is", "it", "from"], "to"),
        (&["what", "is", "the", "distance", "between"], "and"),
        (&["what", "is", "the", "distance", "from"], "to"),
        (&["distance", "between"], "and"),
        (&["how-far", "is"], "from"),
    ];
    let Some((lead, joint)) = LEADS.into_iter().find(|(lead, _)| super::begins(tokens, lead)) else { return };
    let sides = &tokens[lead.len()..];
    let Some(middle) = sides.iter().position(|token| token.is(joint)) else { return };
    let place = |side: &[Token<'_>]| {
        let article = usize::from(side.first().is_some_and(|token| token.is("the")));
        side.len() > article
            && (side.len() == 1 + article || side[article..].iter().all(|token| token.proper))
            && side[article..].iter().all(named)
    };
    if place(&sides[..middle]) && place(&sides[middle + 1..]) && super::one_clause(tokens) {
        super::replace(tokens, lead.len() + middle, 1, &["from"]);
        super::replace(tokens, 0, lead.len(), &["how-far", "is"]);
        let stop = tokens.len();
        ordered(tokens, 2, 2 + middle, stop);
    }
}

/// The sides of "the difference between A and B" stand in the order of their text.
fn symmetric(tokens: &mut [Token<'_>]) {
    let Some(lead) = tokens.iter().position(|token| token.is("between")) else { return };
    if !unordered(&tokens[..lead]) {
        return;
    }
    let start = lead + 1;
    let Some(middle) = tokens[start..].iter().position(|token| token.is("and")).map(|at| start + at) else { return };
    let stop = tokens.len();
    if !(apart(&tokens[start..middle]) && apart(&tokens[middle + 1..]))
        || tokens[start..stop - 1].iter().any(|token| token.ends)
    {
        return;
    }
    ordered(tokens, start, middle, stop);
}

/// Exchanges the sides around `middle` if they are not in the order of their text.
fn ordered(tokens: &mut [Token<'_>], start: usize, middle: usize, stop: usize) {
    let (one, other) = (&tokens[start..middle], &tokens[middle + 1..stop]);
    if one.iter().map(Token::written).le(other.iter().map(Token::written)) {
        return;
    }
    let (left, right) = (one.len(), other.len());
    let ends = std::mem::take(&mut tokens[stop - 1].ends);
    tokens[start..stop].reverse();
    tokens[start..start + right].reverse();
    tokens[stop - left..stop].reverse();
    tokens[stop - 1].ends = ends;
}

/// Whether what stands before "between" is a difference of two things, not one from the first to the second: "the time
/// difference", "the increase".
fn unordered(before: &[Token<'_>]) -> bool {
    const NOUNS: &[&str] = &["difference", "differences", "similarity", "similarities", "distinction", "distinctions"];
    let Some((noun, rest)) = before.split_last() else { return false };
    let asked = rest.iter().rposition(|token| !token.is_any(&["the", "a", "main", "key", "biggest", "any"]));
    noun.is_any(NOUNS)
        && !before.iter().any(|token| token.ends)
        && asked.is_none_or(|at| rest[at].is_any(&["is", "are", "explain", "describe", "list"]))
}

/// Whether a side stands for itself: one word, or an article and its noun. In "red cats and dogs" the dogs may be red too.
/// Numbers are subtracted, so they have an order.
fn apart(side: &[Token<'_>]) -> bool {
    let article = side.first().is_some_and(|token| token.is_any(&["a", "an", "the"]));
    let nouns = &side[usize::from(article)..];
    (nouns.len() == 1 || article && !nouns.is_empty())
        && nouns.iter().all(|token| matches!(token.class(), Class::Word | Class::Polar | Class::Language | Class::Form))
}
