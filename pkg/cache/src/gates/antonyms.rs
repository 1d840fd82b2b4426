//! Opposites are used alike, so encoders put them side by side. A word with an opposite is matched only by itself or
//! by a synonym of the same pole.

use crate::question::{Class, Question};

/// Whether both hold the same terms of this kind, each equally often.
pub(super) const fn agree(a: &Question, b: &Question) -> bool {
    a.sum(Class::Polar) == b.sum(Class::Polar)
}
