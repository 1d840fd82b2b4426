//! What the other APIs' wire formats are read and written with: the same strict tree, digests and event framing, so that no
//! two readers of one body can disagree.

pub use crate::answer::{PIECE, next_piece};
pub use crate::canon::digest;
pub use crate::json::{Json, JsonError, Member, Members, duplicate, get, write_str};
pub use crate::request::{flag, model, object, present, quoted, shape, splice, temperature};
pub use crate::turn::{take_last_text, unique_within};
