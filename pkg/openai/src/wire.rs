//! What the other APIs' wire formats are read and written with: the same strict tree, digests and event framing, so that no
//! two readers of one body can disagree.

pub use crate::canon::digest;
pub use crate::choices::{Choice, Chunks, PIECE, merge, next_piece, replace};
pub use crate::json::{Json, JsonError, Member, Members, duplicate, get, write_str};
pub use crate::kept::{Facts, answer_members, stored_members, text_within};
pub use crate::request::{
    Edit, choices, flag, integer, model, object, present, quoted, shape, split, temperature, usage_option,
};
pub use crate::sse::is_failure;
pub use crate::turn::{check_list, check_messages, take_content, take_last_text};
