//! "Flights from Oslo" and "flights to Oslo" differ by one preposition.

use crate::question::{Class, Question};

/// Whether both hold the same terms of this kind, each equally often.
pub(super) const fn agree(a: &Question, b: &Question) -> bool {
    a.sum(Class::Preposition) == b.sum(Class::Preposition)
}
