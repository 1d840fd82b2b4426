//! What becomes of the fields of a request for a completion.

use crate::translate::rules::Fate::{Hint, Mapped, Refused};
use crate::translate::rules::Fields;

/// Whichever API it is said in, in chat, in messages.
pub(crate) const LISTS: [&Fields; 3] = [ALWAYS, IN_CHAT, IN_MESSAGES];

/// Whichever API it is said in.
const ALWAYS: &Fields = &[
    ("model", Mapped("model")),
    ("stream", Mapped("stream")),
    ("stream_options.include_usage", Mapped("usage is told to who asked")),
    ("stream_options.include_obfuscation", Hint("any")),
    ("prompt", Refused("only one text, which is one message of the user")),
    ("max_tokens", Mapped("the limit of tokens; 16 if absent, as here")),
    ("top_p", Mapped("top_p")),
    ("suffix", Refused("nothing can be inserted")),
    ("echo", Refused("the prompt is not repeated; false is left out")),
    ("best_of", Refused("there is no choice among answers; 1 is left out")),
    ("logprobs", Refused("probabilities are not told")),
];

/// In chat.
const IN_CHAT: &Fields = &[
    ("n", Mapped("n")),
    ("temperature", Mapped("temperature")),
    ("stop", Refused("over 4; up to 4 they are stop")),
    ("seed", Mapped("seed")),
    ("frequency_penalty", Mapped("frequency_penalty")),
    ("presence_penalty", Mapped("presence_penalty")),
    ("logit_bias", Mapped("logit_bias")),
    ("user", Mapped("user")),
];

/// In messages.
const IN_MESSAGES: &Fields = &[
    ("n", Refused("there is one answer; 1 is left out")),
    ("temperature", Refused("over 1; up to 1 it is temperature")),
    ("stop", Refused("only white space; others are stop_sequences")),
    ("seed", Refused("sampling cannot be repeated")),
    ("frequency_penalty", Refused("there are no penalties; 0 is left out")),
    ("presence_penalty", Refused("there are no penalties; 0 is left out")),
    ("logit_bias", Refused("there is no bias")),
    ("user", Mapped("metadata.user_id")),
];
