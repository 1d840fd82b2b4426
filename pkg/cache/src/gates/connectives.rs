//! "A and B" is not "A or B", "all" is not "some": they change which parts are asked about.

use crate::question::{Class, Question};

/// Whether both hold the same terms of this kind, each equally often.
pub(super) const fn agree(a: &Question, b: &Question) -> bool {
    a.sum(Class::Connective) == b.sum(Class::Connective)
}
