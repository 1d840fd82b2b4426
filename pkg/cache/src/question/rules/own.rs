//! In "how do I", "I" is anybody, and so "my router" is "the router": both name the one at hand.
//!
//! "A router" may be another's, and "your router" another one; both stay.

use super::super::marks;
use super::super::token::Token;

/// "how to reset my router" → "how to reset the router".
pub(super) fn anybodys(tokens: &mut Vec<Token<'_>>) {
    if !tokens.iter().any(|token| token.is("how-to")) {
        return;
    }
    for token in tokens.iter_mut().filter(|token| token.has(marks::OWN) && token.cased.is_none()) {
        *token = Token { ends: token.ends, ..Token::known("the") };
    }
}
