//! Who is and who was, does and did, used to and still: the time that is asked about decides the answer.

use crate::question::{Class, Question};

/// Whether both hold the same terms of this kind, each equally often.
pub(super) const fn agree(a: &Question, b: &Question) -> bool {
    a.sum(Class::Tense) == b.sum(Class::Tense)
}
