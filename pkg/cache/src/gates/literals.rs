//! An id, version, flag, address or quotation names one thing; one character makes it another (#A-17 and #A-18).

use crate::question::{Class, Question};

/// Whether both hold the same terms of this kind, each equally often.
pub(super) const fn agree(a: &Question, b: &Question) -> bool {
    a.sum(Class::Literal) == b.sum(Class::Literal)
}
