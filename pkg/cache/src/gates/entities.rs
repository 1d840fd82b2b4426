//! A name on one side that the other lacks is another subject: "who founded A" and "who founded B".
//!
//! A name is told by its capitals; a name in lower case is caught as a word without counterpart.

use super::matching::unmatched;
use crate::question::{Class, Question};

/// Whether neither names something that the other does not.
pub(super) fn agree(a: &Question, b: &Question) -> bool {
    let named = |a, b| unmatched(a, b).any(|term| term.is(Class::Word) && term.is_proper());
    a.sum(Class::Word) == b.sum(Class::Word) || !(named(a, b) || named(b, a))
}
