//! A content word without a counterpart (the same word, its other spelling, or a near synonym) may turn the question around,
//! and rules cannot tell whether it does. So it refuses.

use super::matching::unmatched;
use crate::question::{Class, Question};

/// Whether every ordinary content word of one has a counterpart in the other.
pub(super) fn agree(a: &Question, b: &Question) -> bool {
    let alone = |a, b| unmatched(a, b).any(|term| term.is(Class::Word) && !term.is_proper());
    a.sum(Class::Word) == b.sum(Class::Word) || !(alone(a, b) || alone(b, a))
}
