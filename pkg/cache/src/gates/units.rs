//! The same figure in another unit or currency is another amount. Names and symbols of one unit are equal.

use crate::question::{Class, Question};

/// Whether both hold the same terms of this kind, each equally often.
pub(super) const fn agree(a: &Question, b: &Question) -> bool {
    a.sum(Class::Unit) == b.sum(Class::Unit)
}
