//! The one programming language of a question is what it is written in, wherever it is named.
//!
//! With two languages each has a role. A list in Python is a Python list; a python is no language, so its capital counts.

use super::super::lexicon::Class;
use super::super::marks;
use super::super::token::Token;

/// "in Python, how to sort a list", "how to sort a Python list", "sort a list in Python" → "how to sort a list in Python".
pub(super) fn language(tokens: &mut Vec<Token<'_>>) {
    let mut named = tokens.iter().enumerate().filter(|(_, token)| token.has(marks::CODE_LANGUAGE));
    let (Some((at, _)), None) = (named.next(), named.next()) else { return };
    let by = |token: &Token<'_>| token.is_any(&["in", "using", "with"]) && !token.ends;
    if at == 1 && by(&tokens[0]) && tokens.len() > 3 && tokens[2..].iter().any(|token| token.is("how-to")) {
        if one_task(&tokens[2..]) {
            tokens[1].ends = false;
            super::move_to_end(tokens, 0, 2);
        }
    } else if at > 1
        && at + 1 < tokens.len()
        && tokens[at - 1].is_any(&["a", "an", "the"])
        && tokens[at + 1].has(marks::CODE_THING)
        && !tokens[at].ends
        && one_task(&tokens[at + 1..])
    {
        let ends = tokens.last().is_some_and(|last| last.ends);
        let mut language = tokens.remove(at);
        language.ends = ends;
        if tokens[at - 1].is("an") {
            tokens[at - 1] = Token::known("a");
        }
        if let Some(last) = tokens.last_mut() {
            last.ends = false;
        }
        tokens.extend([Token::known("in"), language]);
    }
    let last = tokens.len() - 1;
    if last > 2 && tokens[last].has(marks::CODE_LANGUAGE) && by(&tokens[last - 1]) {
        tokens[last - 1] = Token::known("in");
        let indefinite = tokens[1].is_any(&["a", "an"]);
        let tells = tokens[0]
            .is_any(&["explain", "describe", "define", "name", "list", "compare", "give", "show", "tell", "suggest"]);
        if tokens[0].has(marks::VERB)
            && !tells
            && tokens[0].cased.is_none()
            && indefinite
            && one_task(&tokens[..last - 1])
        {
            tokens.insert(0, Token::known("how-to"));
        }
    }
}

/// Whether no preposition in `tokens` could be what the language belongs to.
fn one_task(tokens: &[Token<'_>]) -> bool {
    !tokens.iter().any(|token| token.class() == Class::Preposition) && super::one_clause(tokens)
}
