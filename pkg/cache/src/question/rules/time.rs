//! When something happened is told with its year, and what is built falls when it comes down.

use super::super::marks;
use super::super::token::Token;

/// "what year did X end" → "when did X end". Only of the past: what will happen or happens each year has no one year.
pub(super) fn year(tokens: &mut Vec<Token<'_>>) {
    if super::begins(tokens, &["what", "year"]) && tokens[2].has(marks::PAST_HELPER) {
        super::replace(tokens, 0, 2, &["when"]);
    }
}

/// "when did the wall come down" → "when did the wall fall". A boy who comes down does not fall, so it must be built.
pub(super) fn come_down(tokens: &mut Vec<Token<'_>>) {
    let Some(at) = tokens.len().checked_sub(2) else { return };
    let built = at.checked_sub(1).is_some_and(|before| tokens[before].has(marks::BUILT));
    if built && tokens[at].is_any(&["come", "came"]) && tokens[at + 1].is("down") && !tokens[at].ends {
        let verb = if tokens[at].is("come") { "fall" } else { "fell" };
        super::replace(tokens, at, 2, &[verb]);
    }
}
