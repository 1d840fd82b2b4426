//! A verb that says the same as a commoner one, where it is a verb.

use super::super::marks;
use super::super::synonyms::OF_VERBS;
use super::super::token::Token;

/// "how do I purchase a ticket" → "how do I buy a ticket", "when does the term begin" → "when does the term start". "The right to
/// buy" is a name.
#[expect(clippy::ptr_arg, reason = "the signature of a rule")]
pub(super) fn usual(tokens: &mut Vec<Token<'_>>) {
    for at in 1..tokens.len() {
        let (before, verb) = (&tokens[at - 1], &tokens[at]);
        if !verb.has(marks::OTHER_VERB) || verb.cased.is_some() || before.ends || verb.joined {
            continue;
        }
        let done = before.is_any(&["how-to", "i", "we", "you"])
            || before.is("to") && at > 1 && !tokens[at - 2].is("right")
            || at > 3 && at + 1 == tokens.len() && verb.is("begin") && tokens[0].has(marks::QUESTION_WORD);
        let usual = OF_VERBS.iter().find(|(_, other)| verb.is(other)).map(|&(usual, _)| usual);
        if let Some(usual) = usual.filter(|_| done) {
            tokens[at] = Token { ends: verb.ends, ..Token::known(usual) };
        }
    }
}
