//! An answer in another language, natural or programming, is of no use to who named one.

use crate::question::{Class, Question};

/// Whether both hold the same terms of this kind, each equally often.
pub(super) const fn agree(a: &Question, b: &Question) -> bool {
    a.sum(Class::Language) == b.sum(Class::Language)
}
