//! "Top 5" and "top 10" share every other word and lie close in any encoder; a number is often the whole question.
//! Number words and digits are the same number, an ordinal is not its cardinal.

use crate::question::{Class, Question};

/// Whether both hold the same terms of this kind, each equally often.
pub(super) const fn agree(a: &Question, b: &Question) -> bool {
    a.sum(Class::Number) == b.sum(Class::Number)
}
