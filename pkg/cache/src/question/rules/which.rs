//! "Which" before a noun is "what", "whom" at the start is "who", and a thing is where it is located.

use super::super::lexicon::Class;
use super::super::marks;
use super::super::token::Token;

/// "which city has" → "what city has". Before a verb "which" chooses from what was named: "which is better".
#[expect(clippy::ptr_arg, reason = "the signature of a rule")]
pub(super) fn what(tokens: &mut Vec<Token<'_>>) {
    for at in 0..tokens.len() - 1 {
        let next = &tokens[at + 1];
        let noun =
            matches!(next.class(), Class::Word | Class::Language) && !next.has(marks::VERB) && next.class.is_none();
        let one = !tokens[at].ends && tokens[at].cased.is_none();
        if tokens[at].is("which")
            && noun
            && one
            && !chooses(&tokens[at + 1..])
            && (at == 0 || tokens[at - 1].class() == Class::Preposition)
        {
            tokens[at] = Token::known("what");
        } else if tokens[at].is("whom")
            && at == 0
            && one
            && next.is_any(&["did", "do", "does", "will", "can", "should"])
        {
            tokens[at] = Token::known("who");
        }
    }
}

/// Whether what follows "which" may be a verb: "which lasts longer", "which came first".
fn chooses(tokens: &[Token<'_>]) -> bool {
    let degree = |token: &Token<'_>| {
        token.class() == Class::Degree
            || token.class() == Class::Number
            || token.sense().is_some_and(|sense| sense.degree.is_some())
            || token.is_any(&["better", "best", "worse", "worst", "last", "longer", "longest", "sooner"])
    };
    tokens[0].ends || tokens.get(1).is_none_or(degree)
}

/// "where is X located" → "where is X".
pub(super) fn located(tokens: &mut Vec<Token<'_>>) {
    let asks = super::begins(tokens, &["where", "is"]) || super::begins(tokens, &["where", "are"]);
    if asks
        && tokens.len() > 3
        && tokens.last().is_some_and(|last| last.has(marks::LOCATED))
        && super::one_clause(tokens)
    {
        let ends = tokens.pop().is_some_and(|last| last.ends);
        if let Some(last) = tokens.last_mut() {
            last.ends = ends;
        }
    }
}
