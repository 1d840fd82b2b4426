//! The receipt inside a stream, for callers that ask: `Lineage-Want: sse-event` or `sse-comment`.
//!
//! Nothing is added unasked, since comments and named events have broken readers of streams. What is added comes last but
//! for `[DONE]`, once the record is written. The record speaks of the answer, so these bytes are not in its commitment.

use crate::recorder::Attested;
use bytes::Bytes;
use serde_json::json;
use std::str::FromStr;

const DONE: &[u8] = b"data: [DONE]\n\n";

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

    /// The same for a whole stream that ends with `[DONE]`.
    pub(crate) fn within(self, stream: Bytes, attested: Option<&Attested>) -> Bytes {
        let told = attested.and_then(|attested| self.told(attested));
        match (told, stream.strip_suffix(DONE)) {
            (Some(told), Some(events)) => [events, told.as_bytes(), DONE].concat().into(),
            _ => stream,
        }
    }
}
