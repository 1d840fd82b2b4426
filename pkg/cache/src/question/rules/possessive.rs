//! What is asked may stand last.

use super::super::lexicon::Class;
use super::super::marks;
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
