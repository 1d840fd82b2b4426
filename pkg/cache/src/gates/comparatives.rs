//! "Cheaper", "cheapest" and "cheap" ask for different things, as do "more" and "less", "at least" and "at most".

use crate::question::{Class, Question};

/// Whether both hold the same terms of this kind, each equally often.
pub(super) const fn agree(a: &Question, b: &Question) -> bool {
    a.sum(Class::Degree) == b.sum(Class::Degree)
}
