//! Swapping he and she, or his and her, asks about another person.

use crate::question::{Class, Question};

/// Whether both hold the same terms of this kind, each equally often.
pub(super) const fn agree(a: &Question, b: &Question) -> bool {
    a.sum(Class::Pronoun) == b.sum(Class::Pronoun)
}
