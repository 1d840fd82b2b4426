//! Who wants an answer "as a lawyer" does not want one as a pirate.

use crate::question::{Class, Question};

/// Whether both hold the same terms of this kind, each equally often.
pub(super) const fn agree(a: &Question, b: &Question) -> bool {
    a.sum(Class::Persona) == b.sum(Class::Persona)
}
