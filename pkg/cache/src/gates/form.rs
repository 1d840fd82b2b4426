//! An answer as JSON or in one sentence does not serve who asked for a table or a page.

use crate::question::{Class, Question};

/// Whether both hold the same terms of this kind, each equally often.
pub(super) const fn agree(a: &Question, b: &Question) -> bool {
    a.sum(Class::Form) == b.sum(Class::Form)
}
