//! What an event of a stream of responses is, told by its name.

use signet_openai::sse::{Classify, Kind, name_and_data};
use signet_openai::wire::{Json, is_failure};

/// Tells the last event and failures from all others. The last event is [`Kind::Done`]: a stream without one was cut.
/// Events that nobody here knows are [`Kind::Ordinary`].
#[derive(Debug, Default)]
pub struct Classifier {
    begun: bool,
}

impl Classifier {
    /// For one stream.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Classify for Classifier {
    /// Never: only the last event says that all is said.
    fn all_finished(&self) -> bool {
        false
    }

    fn classify(&mut self, raw: &[u8]) -> Option<Kind> {
        let (name, data) = name_and_data(raw, !std::mem::replace(&mut self.begun, true))?;
        Some(match name {
            b"response.completed" | b"response.incomplete" => Kind::Done,
            b"response.failed" | b"error" => Kind::Error,
            b"" | b"message" => of_data(&data),
            _ => Kind::Ordinary,
        })
    }
}

/// Some servers send the data alone, which has the name too.
fn of_data(data: &[u8]) -> Kind {
    let Ok(event) = Json::parse(data) else { return Kind::Ordinary };
    match event.get("type").and_then(Json::as_str) {
        Some("response.completed" | "response.incomplete") => Kind::Done,
        Some("response.failed" | "error") => Kind::Error,
        _ if is_failure(&event) => Kind::Error,
        _ => Kind::Ordinary,
    }
}
