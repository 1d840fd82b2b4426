//! Whether a place has something is whether it is there; what it costs is asked in several ways.
//!
//! "When does the fair open" is not here: it may ask for the day, and "what time" for the hour.

use super::super::lexicon::Class;
use super::super::marks;
use super::super::token::Token;

/// "is there a pool at the hotel" → "does the hotel have a pool".
pub(super) fn has(tokens: &mut Vec<Token<'_>>) {
    there(tokens);
    swims(tokens);
}

/// What is there is had.
fn there(tokens: &mut Vec<Token<'_>>) {
    if !super::begins(tokens, &["is", "there"]) || !super::one_clause(tokens) {
        return;
    }
    let Some(at) = tokens.iter().position(|token| token.is_any(&["at", "in"])) else { return };
    let (thing, place) = (&tokens[2..at], &tokens[at + 1..]);
    let noun = |token: &Token<'_>| super::noun(token) && !token.owner;
    let named = |side: &[Token<'_>], articles: &[&str]| {
        side.len() > 1 && side[0].is_any(articles) && side[1..].iter().all(noun)
    };
    let known = |side: &[Token<'_>], mark| side.last().is_some_and(|last| last.has(mark));
    if named(thing, &["a", "an"])
        && named(place, &["the"])
        && known(thing, marks::AMENITY)
        && known(place, marks::HOUSE)
    {
        let ends = tokens.last().is_some_and(|last| last.ends);
        let mut asked = vec![Token::known("does")];
        asked.extend(place.iter().cloned());
        asked.push(Token::known("have"));
        asked.extend(thing.iter().cloned());
        for token in &mut asked {
            token.ends = false;
        }
        if let Some(last) = asked.last_mut() {
            last.ends = ends;
        }
        *tokens = asked;
    }
}

/// "is wifi available on the train" → "is there wifi on the train". Of a room or a doctor there may be one that is taken.
pub(super) fn available(tokens: &mut Vec<Token<'_>>) {
    let [is, thing, available, place, ..] = tokens.as_slice() else { return };
    let offered = thing.is_any(&["wifi", "internet", "broadband"]) && available.is("available") && !available.ends;
    if is.is("is") && offered && place.is_any(&["in", "at", "on"]) && super::one_clause(tokens) {
        tokens.remove(2);
        tokens.insert(1, Token::known("there"));
    }
}

/// A pool that a place to stay has is one to swim in.
fn swims(tokens: &mut Vec<Token<'_>>) {
    let Some(at) = tokens.len().checked_sub(4) else { return };
    let [have, article, swimming, pool] = &tokens[at..] else { return };
    let stays = ["hotel", "resort", "campsite", "villa", "motel", "hostel"];
    let place = at.checked_sub(1).is_some_and(|before| tokens[before].is_any(&stays));
    if place && have.is("have") && article.is("a") && swimming.is("swimming") && pool.is("pool") && tokens[0].is("does")
    {
        tokens.remove(at + 2);
    }
}

/// Whether it is something with a price: a kayak, delivery. Capital and freedom have other costs.
fn sold(tokens: &[Token<'_>]) -> bool {
    tokens[0].is_any(&["a", "an"]) || tokens.last().is_some_and(|last| last.has(marks::SOLD))
}

/// "what is the cost of X", "what does X cost" → "how-much does X cost".
pub(super) fn cost(tokens: &mut Vec<Token<'_>>) {
    let plain = |token: &Token<'_>| {
        !token.ends && (super::noun(token) || matches!(token.class(), Class::Filler | Class::Preposition))
    };
    let last = tokens.len() - 1;
    if super::begins(tokens, &["what", "is", "the", "cost", "of"]) {
        if sold(&tokens[5..])
            && tokens[5..last].iter().all(plain)
            && plain(&Token { ends: false, ..tokens[last].clone() })
        {
            super::replace(tokens, 0, 5, &["how-much", "does"]);
            let ends = tokens.last_mut().is_some_and(|last| std::mem::take(&mut last.ends));
            tokens.push(Token { ends, ..Token::known("cost") });
        }
    } else if tokens[last].is("cost")
        && (super::begins(tokens, &["what", "does"]) || super::begins(tokens, &["what", "do"]))
        && last > 2
        && sold(&tokens[2..last])
        && tokens[2..last].iter().all(plain)
    {
        super::replace(tokens, 0, 1, &["how-much"]);
    }
}
