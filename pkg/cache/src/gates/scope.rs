//! A hypothetical or general question is not the specific one.

use crate::question::{Class, Question};

/// Whether both hold the same terms of this kind, each equally often.
pub(super) const fn agree(a: &Question, b: &Question) -> bool {
    a.sum(Class::Scope) == b.sum(Class::Scope)
}
