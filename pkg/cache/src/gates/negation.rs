//! "Which snakes are venomous" and "... are not venomous" differ by the word that encoders weigh least. Each kind of
//! negation must occur equally often: "not locked" is not "unlocked".

use crate::question::{Class, Question};

/// Whether both hold the same terms of this kind, each equally often.
pub(super) const fn agree(a: &Question, b: &Question) -> bool {
    a.sum(Class::Negation) == b.sum(Class::Negation)
}
