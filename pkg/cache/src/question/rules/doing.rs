//! What is said of doing something: "is eating moss safe" is "is it safe to eat moss", and what takes time takes it to do.

use super::super::marks;
use super::super::token::Token;

/// Brings an -ing form as the subject behind "it".
pub(super) fn subject(tokens: &mut Vec<Token<'_>>) {
    let takes = super::begins(tokens, &["how-long", "does"]);
    if !(takes || super::begins(tokens, &["is"])) || !super::one_clause(tokens) {
        return;
    }
    let at = 1 + usize::from(takes);
    let Some((last, inner)) = tokens.split_last() else { return };
    let verb = inner.get(at).filter(|verb| verb.has(marks::GERUND) && verb.cased.is_none() && !verb.joined);
    let Some(verb) = verb.and_then(|verb| verb.slot).and_then(|slot| slot.verb) else { return };
    let object = &inner[at + 1..];
    let said = last.has(marks::SAID_OF_DOING) && last.is("take") == takes;
    let plain = |token: &Token<'_>| {
        use super::super::lexicon::Class::{Filler, Negation, Number, Unit};
        super::noun(token) && !token.has(marks::VERB | marks::GERUND)
            || matches!(token.class(), Filler | Number | Unit | Negation)
    };
    if !said
        || object.is_empty()
        || !object.iter().all(|token| plain(token) && !token.is_any(&["is", "are", "do", "does"]))
    {
        return;
    }
    let (ends, said) = (last.ends, last.clone());
    let mut asked = tokens[..at].to_vec();
    asked.extend([Token::known("it"), Token { ends: false, ..said }, Token::known("to"), Token::known(verb)]);
    asked.extend(tokens[at + 1..tokens.len() - 1].iter().cloned());
    if let Some(last) = asked.last_mut() {
        last.ends = ends;
    }
    *tokens = asked;
}
