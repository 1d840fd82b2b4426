//! What the events of a messages stream are.

use signet_openai::sse::{Classify, Kind, Splitter, name_and_data};
use signet_openai::wire::Json;

/// The event that ends a messages stream. Where it is missing behind a `message_delta` with a stop reason, the answer is
/// complete all the same, and this is what its reader still lacks.
pub const STOP: &[u8] = b"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

/// A splitter for messages streams that refuses events of more than `max_event_bytes`.
pub fn splitter(max_event_bytes: usize) -> Splitter<Classifier> {
    Splitter::with(max_event_bytes, Classifier::default())
}

/// [`Classify`] for messages streams: `message_delta` with a stop reason is [`Kind::Finished`], `message_stop` is
/// [`Kind::Done`], `error` is [`Kind::Error`], everything else (blocks, `ping`, unknown events) is [`Kind::Ordinary`].
#[derive(Debug, Default)]
pub struct Classifier {
    begun: bool,
    finished: bool,
}

impl Classifier {
    fn of(&mut self, event: &[u8], data: &[u8]) -> Kind {
        match event {
            b"content_block_delta" | b"content_block_start" | b"content_block_stop" | b"message_start" | b"ping" => {
                Kind::Ordinary
            }
            b"message_stop" => Kind::Done,
            b"error" => Kind::Error,
            b"message_delta" => self.delta(&Json::parse(data).unwrap_or(Json::Null)),
            // Without a name that we know, the data has it too.
            _ => match Json::parse(data) {
                Ok(data) => match data.get("type").and_then(Json::as_str) {
                    Some("message_stop") => Kind::Done,
                    Some("error") => Kind::Error,
                    Some("message_delta") => self.delta(&data),
                    _ => Kind::Ordinary,
                },
                Err(_) => Kind::Ordinary,
            },
        }
    }

    fn delta(&mut self, data: &Json<'_>) -> Kind {
        let reason = data.get("delta").and_then(|delta| delta.get("stop_reason")).and_then(Json::as_str);
        let before = self.finished;
        self.finished |= reason.is_some_and(|reason| !reason.is_empty());
        if self.finished && !before { Kind::Finished } else { Kind::Ordinary }
    }
}

impl Classify for Classifier {
    fn classify(&mut self, raw: &[u8]) -> Option<Kind> {
        let first = !std::mem::replace(&mut self.begun, true);
        let (name, data) = name_and_data(raw, first)?;
        Some(self.of(name, &data))
    }

    fn all_finished(&self) -> bool {
        self.finished
    }
}
