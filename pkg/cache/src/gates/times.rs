//! 2pm is not 2am, and both look alike to a tokeniser.

use crate::question::{Class, Question};

/// Whether both hold the same terms of this kind, each equally often.
pub(super) const fn agree(a: &Question, b: &Question) -> bool {
    a.sum(Class::Time) == b.sum(Class::Time)
}
