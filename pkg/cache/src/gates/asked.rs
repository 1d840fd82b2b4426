//! Who, when, where and why about one subject have different answers.

use crate::question::{Class, Question};

/// Whether both hold the same terms of this kind, each equally often.
pub(super) const fn agree(a: &Question, b: &Question) -> bool {
    a.sum(Class::Intent) == b.sum(Class::Intent)
}
