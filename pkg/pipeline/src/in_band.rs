//! The receipt inside a stream, for callers that ask: `Lineage-Want: sse-event` or `sse-comment`.
//!
//! Nothing is added unasked, since comments and named events have broken readers of streams. What is added comes last but
//! for the last event (`[DONE]`), once the record is written. The record speaks of the answer, so these bytes are not in its commitment.

use crate::recorder::Attested;
use bytes::Bytes;
use serde_json::json;
use std::str::FromStr;

/// Whether and how a stream tells its receipt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum InBand {
    /// Not at all.
    #[default]
    Nothing,
    /// As an event named `lineage`. SDKs that read every event as a chunk find one without choices, as that of the usage.
    Event,
    /// As a comment, which readers of events never see.
    Comment,
}

/// Where the last event of a stream of ours begins.
fn last_event(stream: &[u8]) -> usize {
    let before = stream.strip_suffix(b"\n\n").unwrap_or(stream);
    before.windows(2).rposition(|pair| pair == b"\n\n").map_or(0, |at| at + 2)
}

impl FromStr for InBand {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "sse-event" => Ok(Self::Event),
            "sse-comment" => Ok(Self::Comment),
            _ => Err(()),
        }
    }
}

impl InBand {
    fn told(self, attested: &Attested) -> Option<String> {
        let (id, receipt) = (attested.record.id, &attested.receipt);
        match self {
            Self::Nothing => None,
            Self::Comment => Some(format!(": lineage-receipt {receipt}\n\n")),
            Self::Event => {
                let lineage = json!({"id": id.to_string(), "receipt": receipt});
                let data = json!({"object": "lineage", "choices": [], "lineage": lineage});
                Some(format!("event: lineage\ndata: {data}\n\n"))
            }
        }
    }

    /// A stream's last event with the receipt before it, if that is wanted and there is one.
    pub(crate) fn before(self, last: Bytes, attested: Option<&Attested>) -> Bytes {
        match attested.and_then(|attested| self.told(attested)) {
            Some(told) => [told.as_bytes(), &last].concat().into(),
            None => last,
        }
    }

    /// The same for a whole stream, before its last event.
    pub(crate) fn within(self, stream: Bytes, attested: Option<&Attested>) -> Bytes {
        let Some(told) = attested.and_then(|attested| self.told(attested)) else { return stream };
        let (events, last) = stream.split_at(last_event(&stream));
        [events, told.as_bytes(), last].concat().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_event_is_found_whatever_it_is_called() {
        assert_eq!(last_event(b"data: 1\n\ndata: [DONE]\n\n"), 9);
        assert_eq!(last_event(b"event: a\ndata: 1\n\nevent: message_stop\ndata: {}\n\n"), 18);
        assert_eq!(last_event(b"data: 1\n\n"), 0);
    }
}
