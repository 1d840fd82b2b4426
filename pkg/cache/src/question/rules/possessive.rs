//! "X's Y" is "the Y of X", where it is what is asked about; and what is asked may stand last.
//!
//! Only behind "is" and up to the end, so that it is plain where the two begin and end. "A picture of Ann" is not Ann's, but
//! "the picture of Ann" is said of both, and "Ann's picture" as well.

use super::super::lexicon::Class;
use super::super::marks;
use super::super::token::Token;

/// "what is Chad's capital" → "what is the capital of Chad".
pub(super) fn of(tokens: &mut Vec<Token<'_>>) {
    let mut owners = tokens.iter().enumerate().filter(|(_, token)| token.owner);
    let (Some((owner, _)), None) = (owners.next(), owners.next()) else { return };
    let Some(copula) = tokens[..owner].iter().rposition(|token| token.has(marks::COPULA)) else { return };
    let start = copula + 1;
    let article = tokens[start].is_any(&["the", "a", "an"]);
    let names = &tokens[start + usize::from(article && start < owner)..=owner];
    let thing = &tokens[owner + 1..];
    let whole = !thing.is_empty()
        && thing.iter().all(|token| (super::noun(token) || token.class() == Class::Degree) && !token.joined)
        && names.iter().all(|token| super::noun(token) && !token.joined)
        && (names.len() == 1 || article || names.iter().all(|token| token.proper))
        && super::one_clause(tokens)
        && thing.len() <= 3;
    if !whole {
        return;
    }
    let ends = tokens.last().is_some_and(|last| last.ends);
    let count = owner + 1 - start;
    tokens[owner].owner = false;
    tokens[start..].rotate_left(count);
    let joint = tokens.len() - count;
    tokens[joint - 1].ends = false;
    tokens.insert(joint, Token::known("of"));
    tokens.insert(start, Token::known("the"));
    if let Some(last) = tokens.last_mut() {
        last.ends = ends;
    }
}

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
