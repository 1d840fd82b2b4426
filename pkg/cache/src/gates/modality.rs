//! What one can do, should do and must do are three questions.

use crate::question::{Class, Question};

/// Whether both hold the same terms of this kind, each equally often.
pub(super) const fn agree(a: &Question, b: &Question) -> bool {
    a.sum(Class::Modal) == b.sum(Class::Modal)
}
