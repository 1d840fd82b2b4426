//! "What does X mean" asks for the meaning of X. A definition is another matter, as of life.

use super::super::lexicon::Class;
use super::super::token::Token;

/// "what does X mean" → "what-means X".
pub(super) fn meaning(tokens: &mut Vec<Token<'_>>) {
    let asks = super::begins(tokens, &["what", "does"]) || super::begins(tokens, &["what", "do"]);
    let Some(last) = tokens.last().filter(|last| asks && last.is("mean")) else { return };
    let subject = &tokens[2..tokens.len() - 1];
    let named = |token: &Token<'_>| {
        !token.ends && !matches!(token.class(), Class::Negation | Class::Intent | Class::Connective | Class::Pronoun)
    };
    if subject.is_empty() || !subject.iter().all(named) {
        return;
    }
    let ends = last.ends;
    tokens.pop();
    super::replace(tokens, 0, 2, &["what-means"]);
    if let Some(last) = tokens.last_mut() {
        last.ends = ends;
    }
}
