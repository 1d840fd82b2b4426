//! Asking for a number of things is one request, whatever its verb; and who asks is the one to be answered.

use super::super::lexicon::Class;
use super::super::token::Token;

/// What is only ever told.
const THOUGHTS: &[&str] =
    &["example", "examples", "reason", "reasons", "fact", "facts", "tip", "tips", "idea", "ideas"];

/// "name three rivers" → "list three rivers", "give me three reasons" → "list three reasons"; "write me a poem" → "write a poem". Without a number
/// the verbs differ: one names a ship otherwise than one lists it.
pub(super) fn listed(tokens: &mut Vec<Token<'_>>) {
    addressed(tokens);
    let Some(verb) = tokens.first().filter(|verb| verb.is_any(&["list", "name", "give", "tell", "provide"])) else {
        return;
    };
    let me = usize::from(tokens.get(1).is_some_and(|next| next.is("me")));
    let counted = tokens.get(1 + me).is_some_and(|next| next.class() == Class::Number && !next.text.ends_with('.'));
    // Three jokes that are given are told; "name two cats after poets" gives names, "list a car for sale" offers it.
    let asked = verb.is_any(&["list", "name"]) || tokens.iter().any(|token| token.is_any(THOUGHTS));
    let offered = tokens.iter().any(|token| token.is_any(&["after", "on", "sale"]));
    if counted && asked && !offered && !verb.ends && tokens.len() > 2 + me {
        super::replace(tokens, 0, 1 + me, &["list"]);
    }
}

/// "write me a poem" → "write a poem". A poem for me may be one about me.
fn addressed(tokens: &mut Vec<Token<'_>>) {
    if tokens.len() > 3 && tokens[0].is("write") && tokens[1].is("me") && tokens[2].is_any(&["a", "an"]) {
        tokens.remove(1);
    }
}

/// "calculate 15 % of 40" → "what is 15 % of 40": a bare term has one value, however it is asked for.
pub(super) fn calculated(tokens: &mut Vec<Token<'_>>) {
    let term = |token: &Token<'_>| {
        token.class == Some(Class::Number)
            || token.class() == Class::Unit
            || token.is_any(&["of", "times", "plus", "minus", "squared", "cubed"])
            || token.class == Some(Class::Literal)
    };
    let Some((verb, rest)) = tokens.split_first() else { return };
    let asks = verb.is_any(&["calculate", "compute", "evaluate"]) && !verb.ends && verb.cased.is_none();
    if asks && rest.len() > 1 && rest[0].class == Some(Class::Number) && rest.iter().all(term) {
        super::replace(tokens, 0, 1, &["what", "is"]);
    }
}
