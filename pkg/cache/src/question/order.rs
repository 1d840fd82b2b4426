//! The order that carries meaning. What may be moved is brought into one place: a phrase in front ("In Rust, how ..."),
//! "to Y from X", the two sides of "between" and "versus". All else keeps its order, since order is who does what to whom.

use super::lexicon::Class;
use super::token::Token;

/// Brings movable parts into their canonical place. Senses are set.
pub(super) fn canonical(tokens: &mut Vec<Token<'_>>) {
    personas(tokens);
    means(tokens);
    inverted(tokens);
    front_to_end(tokens);
    from_before_to(tokens);
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

/// "using Perl" and "with Perl" are "in Perl": one language is written in, whatever the preposition.
fn means(tokens: &mut [Token<'_>]) {
    for at in 1..tokens.len() {
        if tokens[at].class() == Class::Language && tokens[at - 1].is_any(&["using", "with"]) {
            tokens[at - 1] = Token { class: Some(Class::Preposition), ..Token::word("in".into()) };
        }
    }
}

/// "how penguins can swim" → "how can penguins swim", as a question embedded in a request reads.
fn inverted(tokens: &mut [Token<'_>]) {
    if tokens.first().is_some_and(|token| token.is_any(&["how", "why", "when", "where"])) {
        let modal = tokens.iter().take(5).position(|token| matches!(token.class(), Class::Modal));
        let subject = |token: &Token<'_>| matches!(token.class(), Class::Word | Class::Filler) && !token.ends;
        if let Some(modal) = modal.filter(|&at| at > 1 && tokens[1..at].iter().all(subject)) {
            tokens[1..=modal].rotate_right(1);
        }
    }
}

/// A prepositional phrase before the question moves behind it.
fn front_to_end(tokens: &mut [Token<'_>]) {
    let fronted = tokens.first().is_some_and(|token| token.is_any(&["in", "at", "on", "for", "with"]));
    let comma = tokens.iter().take(5).position(|token| token.ends).map(|at| at + 1);
    let asked = tokens.iter().take(5).position(|token| token.class() == Class::Intent);
    let Some(length) = comma.into_iter().chain(asked).min().filter(|&at| fronted && at > 1 && at < tokens.len()) else {
        return;
    };
    if tokens[1].is_any(&["what", "which", "whom", "whose"]) {
        return;
    }
    tokens[length - 1].ends = false;
    let one_clause = tokens.iter().filter(|token| token.ends).count() <= usize::from(tokens[tokens.len() - 1].ends);
    if one_clause {
        tokens.rotate_left(length);
    } else {
        tokens[length - 1].ends = true;
    }
}

/// "to Y from X" at the end of a clause → "from X to Y".
fn from_before_to(tokens: &mut [Token<'_>]) {
    let Some(from) = tokens.iter().position(|token| token.is("from")) else { return };
    let Some(to) = tokens[..from].iter().rposition(|token| token.class() == Class::Preposition) else { return };
    let noun = |token: &Token<'_>| !matches!(token.class(), Class::Preposition | Class::Connective | Class::Intent);
    let length = tokens[from + 1..].iter().take_while(|token| noun(token)).count();
    let stop = from + 1 + length;
    let whole = from > to + 1 && length > 0 && (stop == tokens.len() || tokens[stop - 1].ends);
    if tokens[to].is("to") && whole && !tokens[to..stop - 1].iter().any(|token| token.ends) {
        let ends = std::mem::take(&mut tokens[stop - 1].ends);
        tokens[to..stop].rotate_left(from - to);
        tokens[stop - 1].ends = ends;
    }
}

/// The sides of "between A and B", "compare A and B" and "A versus B" stand in the order of their text.
fn symmetric(tokens: &mut [Token<'_>]) {
    let joint = |class: Class| matches!(class, Class::Connective | Class::Preposition | Class::Intent);
    if tokens.iter().any(|token| token.is_any(&["ratio", "proportion", "quotient", "conversion"])) {
        return; // these are of the first to the second
    }
    let middle = tokens.iter().position(|token| token.is_any(&["versus", "vs"]));
    let (start, middle) = if let Some(middle) = middle {
        let left = tokens[..middle].iter().rev().take_while(|token| !joint(token.class()) && !token.ends).count();
        (middle - left, middle)
    } else {
        let Some(lead) = tokens.iter().position(|token| token.is_any(&["between", "compare"])) else { return };
        let linked =
            |token: &Token<'_>| token.is("and") || (tokens[lead].is("compare") && token.is_any(&["with", "to"]));
        let Some(length) = tokens[lead + 1..].iter().position(linked) else { return };
        (lead + 1, lead + 1 + length)
    };
    let right = tokens[middle + 1..].iter().take_while(|token| !joint(token.class())).count();
    let clause = tokens[middle + 1..].iter().position(|token| token.ends).map_or(right, |at| right.min(at + 1));
    let stop = middle + 1 + clause;
    let one_sided = start > 0 && tokens[middle].is_any(&["versus", "vs"]); // "advantages of A versus B"
    if start == middle
        || clause == 0
        || one_sided
        || tokens[start..middle].iter().any(|token| joint(token.class()) || token.ends)
    {
        return;
    }
    if tokens[middle].is_any(&["with", "to"]) {
        tokens[middle] = Token::word("and".into());
        tokens[middle].class = Some(Class::Connective);
    }
    let words = |side: &[Token<'_>]| -> Vec<String> {
        side.iter().filter(|token| token.class() != Class::Filler).map(|token| token.text.to_string()).collect()
    };
    if words(&tokens[start..middle]) > words(&tokens[middle + 1..stop]) {
        let ends = std::mem::take(&mut tokens[stop - 1].ends);
        let left = middle - start;
        tokens[start..stop].reverse();
        let right = stop - start - left - 1;
        tokens[start..start + right].reverse();
        tokens[start + right + 1..stop].reverse();
        tokens[stop - 1].ends = ends;
    }
}
