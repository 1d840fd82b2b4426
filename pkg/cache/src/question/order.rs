//! The order that carries meaning. Only the two sides of "the difference between A and B" may be exchanged. All else keeps
//! its order, since order is who does what to whom, and what a phrase belongs to.

use super::lexicon::Class;
use super::token::Token;

/// Brings movable parts into their canonical place. Senses are set.
pub(super) fn canonical(tokens: &mut [Token<'_>]) {
    personas(tokens);
    symmetric(tokens);
}

/// The words behind "act as" up to the end of the clause describe the persona.
fn personas(tokens: &mut [Token<'_>]) {
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
    let words = |side: &[Token<'_>]| -> Vec<String> { side.iter().map(|token| token.written().to_owned()).collect() };
    if words(&tokens[start..middle]) > words(&tokens[middle + 1..]) {
        let ends = std::mem::take(&mut tokens[stop - 1].ends);
        let left = middle - start;
        tokens[start..stop].reverse();
        let right = stop - start - left - 1;
        tokens[start..start + right].reverse();
        tokens[start + right + 1..stop].reverse();
        tokens[stop - 1].ends = ends;
    }
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
