//! What a response repeats of its request. A provider of another API does not, so it is taken from the caller's body.

use bytes::Bytes;
use signet_openai::wire::{object, present};

/// The fields that are repeated, with what they are where the caller did not say.
const REPEATED: [(&str, &str); 13] = [
    ("background", "false"),
    ("instructions", "null"),
    ("max_output_tokens", "null"),
    ("metadata", "{}"),
    ("parallel_tool_calls", "true"),
    ("previous_response_id", "null"),
    ("reasoning", "{\"effort\":null,\"summary\":null}"),
    ("temperature", "null"),
    ("text", "{\"format\":{\"type\":\"text\"}}"),
    ("tool_choice", "\"auto\""),
    ("tools", "[]"),
    ("top_p", "null"),
    ("truncation", "\"disabled\""),
];

/// Repeated only where the caller said it.
const IF_SAID: [&str; 3] = ["prompt_cache_key", "safety_identifier", "user"];

/// JSON text of the repeated fields, each with a comma before it.
#[derive(Debug, Clone)]
pub(crate) struct Echo(Vec<u8>);

impl Echo {
    /// Of the caller's body; of nothing where it is not known.
    pub(crate) fn of(body: Option<&Bytes>) -> Self {
        let members = body.and_then(|body| object(body).ok()).unwrap_or_default();
        // Nothing is kept for the caller: no response can be continued by its id.
        let mut out = b",\"store\":false".to_vec();
        let fixed = REPEATED.iter().map(|(key, value)| (*key, Some(value.as_bytes())));
        for (key, default) in fixed.chain(IF_SAID.iter().map(|key| (*key, None))) {
            let said = present(&members, key);
            if said.is_none() && default.is_none() {
                continue;
            }
            out.extend_from_slice(b",\"");
            out.extend_from_slice(key.as_bytes());
            out.extend_from_slice(b"\":");
            match said {
                // Not as it was written: an event's data has one line.
                Some(value) => value.write(&mut out),
                None => out.extend_from_slice(default.unwrap_or_default()),
            }
        }
        Self(out)
    }

    pub(crate) fn fields(&self) -> &[u8] {
        &self.0
    }
}
