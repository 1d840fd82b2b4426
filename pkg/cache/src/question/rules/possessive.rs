//! What is asked may stand last, and what a country has is of it.

use super::super::lexicon::Class;
use super::super::marks;
use super::super::names;
use super::super::token::Token;

/// "the capital of Chad is what" → "what is the capital of Chad".
pub(super) fn asked_last(tokens: &mut Vec<Token<'_>>) {
    let [first, .., copula, asked] = tokens.as_slice() else { return };
    let asks = asked.is_any(&["what", "who", "where"]) && copula.is_any(&["is", "are", "was", "were"]);
    if !asks || first.has(marks::QUESTION_WORD) || !super::one_clause(tokens) || first.class() == Class::Modal {
        return;
    }
    let ends = asked.ends;
    tokens.rotate_right(1);
    tokens[1..].rotate_right(1);
    tokens[0].ends = false;
    if let Some(last) = tokens.last_mut() {
        last.ends = ends;
    }
}

/// "what is Peru's capital (city)" → "what is the capital of Peru". Only for what each country has one of: Germany's invasion
/// may be done or suffered.
pub(super) fn of_country(tokens: &mut Vec<Token<'_>>) {
    if !tokens[0].is_any(&["what", "who"])
        || !tokens.get(1).is_some_and(|copula| copula.is("is"))
        || !super::one_clause(tokens)
    {
        return;
    }
    let city = |noun: &Token<'_>, city: &Token<'_>| noun.is("capital") && city.is("city");
    match &tokens[2..] {
        [the, noun, second, of, place]
            if the.is("the") && city(noun, second) && of.is("of") && names::is_place(place) =>
        {
            tokens.remove(4);
        }
        [place, noun, rest @ ..]
            if place.owner
                && names::is_place(place)
                && noun.has(marks::COUNTRY_HAS)
                && (rest.is_empty() || rest.len() == 1 && city(noun, &rest[0])) =>
        {
            let (mut place, mut noun) = (place.clone(), noun.clone());
            place.ends = tokens.last().is_some_and(|last| last.ends);
            (place.owner, noun.ends) = (false, false);
            tokens.truncate(2);
            tokens.extend([Token::known("the"), noun, Token::known("of"), place]);
        }
        _ => {}
    }
}
