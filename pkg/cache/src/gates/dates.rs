//! What holds on one day need not hold on another. Common writings of one date are equal.

use crate::question::{Class, Question};

/// Whether both hold the same terms of this kind, each equally often.
pub(super) const fn agree(a: &Question, b: &Question) -> bool {
    a.sum(Class::Date) == b.sum(Class::Date)
}
