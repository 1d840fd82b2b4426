//! What the other APIs' wire formats are read and written with: the same strict tree, digests and event framing, so that no
//! two readers of one body can disagree.

pub use crate::accumulator::{merge, replace};
pub use crate::answer::{PIECE, next_piece};
pub use crate::canon::digest;
pub use crate::json::{Json, JsonError, Member, Members, duplicate, get, write_str};
pub use crate::request::{
    Edit, choices, flag, model, object, present, quoted, shape, splice, temperature, usage_option,
};
pub use crate::sse::is_failure;
pub use crate::turn::{BETWEEN_PARTS, take_last_text, unique_within};
