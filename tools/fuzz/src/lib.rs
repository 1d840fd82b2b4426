//! What the targets share: the pairs of APIs that one translates for the other, and changes that leave JSON to be JSON, so
//! that more of what is tried gets past the parser (Aschermann et al., "NAUTILUS", 2019, on why that matters).

mod json;

pub use json::{mutate, mutate_stream};

use signet_dialect::Api;

/// From and to.
pub const PAIRS: [(Api, Api); 6] = [
    (Api::Messages, Api::Chat),
    (Api::Chat, Api::Messages),
    (Api::Chat, Api::Responses),
    (Api::Messages, Api::Responses),
    (Api::Chat, Api::Completions),
    (Api::Messages, Api::Completions),
];

/// Whether all of `part` stands in `whole`, in this order.
pub fn stands_in(part: &str, whole: &str) -> bool {
    let mut rest = whole.chars();
    part.chars().all(|char| rest.any(|next| next == char))
}
