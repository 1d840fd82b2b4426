//! Order is who does what to whom: "convert A to B" is not "convert B to A", "can cats eat dogs" not "can dogs eat cats".
//!
//! Terms that both hold must stand in the same canonical order; what may be moved without a change of meaning (the sides
//! of "the difference between") was brought into one order when the question was read.

use super::matching::matched;
use crate::question::Question;

/// Whether the terms that both hold stand in the same order.
pub(super) fn agree(a: &Question, b: &Question) -> bool {
    if a.terms().len() == b.terms().len() && a.terms().iter().zip(b.terms()).all(|(x, y)| x.id() == y.id()) {
        return true;
    }
    let (in_a, in_b) = (matched(a, b), matched(b, a));
    let shared_a = a.terms().iter().zip(in_a).filter(|&(_, shared)| shared).map(|(term, _)| term.id());
    let shared_b = b.terms().iter().zip(in_b).filter(|&(_, shared)| shared).map(|(term, _)| term.id());
    shared_a.eq(shared_b)
}
