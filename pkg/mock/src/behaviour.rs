//! How an answer is delayed, cut, bent or refused.
//!
//! Three sources, the later winning field by field: the mock's own [`Behaviour`] (flags), the next matching entry of
//! the script (`POST /_mock/script`), the request's `x-mock-*` headers. The script exists for callers behind a gateway
//! that strips headers.

use std::fmt;
use std::str::FromStr;

use http::HeaderMap;
use serde::{Deserialize, Serialize};

use crate::encoding::Encoding;

/// Names a value that cannot be read; it is the fault of whoever set the flag, header or script.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{name}: `{value}` is not {expected}")]
pub struct BadBehaviour {
    name: String,
    value: String,
    expected: &'static str,
}

/// What to do instead of answering well. Counts are in events for streams and in bytes for JSON answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Fault {
    /// The connection is closed after the request was read, before a response head.
    CloseBeforeHead,
    /// As before, with a TCP reset (over HTTP/2 the stream is reset).
    Reset,
    /// This much is sent, then the connection is closed without the end of the body.
    CutAfter(usize),
    /// As before, with a TCP reset. What the client has not read yet may be lost, as it is in life.
    RstAfter(usize),
    /// No response head ever.
    Hang,
    /// This much is sent, then nothing more.
    HangAfter(usize),
    /// This many events and half of the next are sent, then nothing more.
    HalfEventAfter(usize),
    /// The stream goes on until the client leaves.
    NeverEnding,
    /// This many events, then the vendor's error event (for a response two: the error and the failed response) and a
    /// clean end.
    ErrorEvent(usize),
    /// Writes end inside multi-byte characters, inside field names and between `\r` and `\n`.
    SplitUtf8,
    /// A clean end without the last event: `[DONE]`, `message_stop`, `response.completed`.
    NoDone,
    /// The limit of tokens ended the answer: `length`, `max_tokens`, `incomplete`.
    Length,
    /// The body is gzip, asked for or not; a name for the encoding where nothing else goes wrong.
    Gzip,
    /// As before, with Brotli.
    Brotli,
    /// All is sent, but the end of the body comes so many milliseconds later.
    LateClose(usize),
    /// A chunk whose `choices` is null comes second (chat only).
    ChoicesNull,
    /// 200 with a body that is not JSON.
    NotJson,
}

type Counted = (&'static str, fn(usize) -> Fault);
const COUNTED: [Counted; 6] = [
    ("cut-after", Fault::CutAfter),
    ("rst-after", Fault::RstAfter),
    ("hang-after", Fault::HangAfter),
    ("half-event-after", Fault::HalfEventAfter),
    ("error-event", Fault::ErrorEvent),
    ("late-close", Fault::LateClose),
];
const PLAIN: [(&str, Fault); 11] = [
    ("close-before-head", Fault::CloseBeforeHead),
    ("reset", Fault::Reset),
    ("hang", Fault::Hang),
    ("never-ending", Fault::NeverEnding),
    ("split-utf8", Fault::SplitUtf8),
    ("no-done", Fault::NoDone),
    ("length", Fault::Length),
    ("gzip", Fault::Gzip),
    ("brotli", Fault::Brotli),
    ("choices-null", Fault::ChoicesNull),
    ("not-json", Fault::NotJson),
];

impl Fault {
    /// Every fault; those that count do so from 2.
    pub fn all() -> impl Iterator<Item = Self> {
        PLAIN.iter().map(|(_, fault)| *fault).chain(COUNTED.iter().map(|(_, make)| make(2)))
    }
}

impl FromStr for Fault {
    type Err = BadBehaviour;

    /// `name` or `name=COUNT`; a count left out is 2.
    fn from_str(text: &str) -> Result<Self, BadBehaviour> {
        let (name, count) = text.split_once('=').map_or((text, None), |(name, count)| (name, Some(count)));
        if let (Some((_, fault)), None) = (PLAIN.iter().find(|(n, _)| *n == name), count) {
            return Ok(*fault);
        }
        let counted = COUNTED.iter().find(|(n, _)| *n == name);
        match (counted, count.unwrap_or("2").parse()) {
            (Some((_, fault)), Ok(count)) => Ok(fault(count)),
            _ => Err(bad("fault", text, "a known fault, with =COUNT where it takes one")),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = PLAIN.iter().find(|(_, fault)| fault == self) {
            return f.write_str(name);
        }
        let (Self::CutAfter(n)
        | Self::RstAfter(n)
        | Self::HangAfter(n)
        | Self::HalfEventAfter(n)
        | Self::ErrorEvent(n)
        | Self::LateClose(n)) = *self
        else {
            unreachable!("every other fault is in PLAIN")
        };
        let name = COUNTED.iter().find(|(_, make)| make(n) == *self).expect("every counted fault is in COUNTED").0;
        write!(f, "{name}={n}")
    }
}

impl TryFrom<String> for Fault {
    type Error = BadBehaviour;
    fn try_from(text: String) -> Result<Self, BadBehaviour> {
        text.parse()
    }
}

impl From<Fault> for String {
    fn from(fault: Fault) -> Self {
        fault.to_string()
    }
}

/// How one request is answered; what is `None` is left to the source below.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Behaviour {
    /// Wait before the response head.
    pub latency_ms: Option<u64>,
    /// Wait between the response head, which is sent at once, and the first byte of the body.
    pub first_byte_ms: Option<u64>,
    /// Wait between the events of a stream; those that only close it (usage, `[DONE]`, `message_stop`) come at once.
    pub chunk_ms: Option<u64>,
    /// Events of a chat stream before `[DONE]`, role and finish included; 74 when nobody says. Other APIs bring their
    /// text in as many pieces as such a stream.
    pub chunks: Option<usize>,
    /// Wait inside the event that `half-event-after` halves.
    pub pause_ms: Option<u64>,
    /// All events in one write.
    pub burst: Option<bool>,
    /// Answer with this status; an error body from 400 on.
    pub status: Option<u16>,
    /// `Retry-After` as it stands.
    pub retry_after: Option<String>,
    /// What goes wrong.
    pub fault: Option<Fault>,
    /// Call the request's first tool.
    pub tool_call: Option<bool>,
    /// Think before the answer (messages and responses), asked for or not.
    pub thinking: Option<bool>,
    /// The stop reason in the API's own words, e.g. `content_filter`, `refusal`, `stop_sequence`.
    pub stop: Option<String>,
    /// Content encoding of the body, asked for or not; each event can be decoded when it comes.
    pub encoding: Option<Encoding>,
    /// Prompt tokens read from the provider's cache, beside those of the prompt.
    pub cached_tokens: Option<u64>,
    /// Prompt tokens written to it.
    pub cache_write_tokens: Option<u64>,
    /// Pad the answer text to at least this many bytes.
    pub answer_bytes: Option<usize>,
    /// Script only: answer with this text.
    pub text: Option<String>,
    /// Script only: wait for a request to this path.
    pub path: Option<String>,
    /// Script only: wait for a prompt that contains this.
    pub when: Option<String>,
    /// In a script: apply to this many requests; 1 when nobody says. In headers: apply to the first so many requests
    /// with this path and prompt, so that a client's own retries can succeed; to all when nobody says.
    pub times: Option<u64>,
}

impl Behaviour {
    /// A behaviour that only injects a fault.
    pub fn fault(fault: Fault) -> Self {
        Self { fault: Some(fault), ..Self::default() }
    }

    /// A behaviour that only answers with a status.
    pub fn status(status: u16) -> Self {
        Self { status: Some(status), ..Self::default() }
    }

    /// A pace by name; `chunks64` is 64 chunks 20 ms apart.
    ///
    /// # Errors
    /// When there is no pace of this name.
    pub fn profile(name: &str) -> Result<Self, BadBehaviour> {
        match name {
            "chunks64" => Ok(Self { chunks: Some(64), chunk_ms: Some(20), ..Self::default() }),
            _ => Err(bad("profile", name, "`chunks64`")),
        }
    }

    /// `self` where it says something, `below` elsewhere.
    #[must_use]
    pub fn over(self, below: &Self) -> Self {
        Self {
            latency_ms: self.latency_ms.or(below.latency_ms),
            first_byte_ms: self.first_byte_ms.or(below.first_byte_ms),
            pause_ms: self.pause_ms.or(below.pause_ms),
            thinking: self.thinking.or(below.thinking),
            stop: self.stop.or_else(|| below.stop.clone()),
            encoding: self.encoding.or(below.encoding),
            cached_tokens: self.cached_tokens.or(below.cached_tokens),
            cache_write_tokens: self.cache_write_tokens.or(below.cache_write_tokens),
            chunk_ms: self.chunk_ms.or(below.chunk_ms),
            chunks: self.chunks.or(below.chunks),
            burst: self.burst.or(below.burst),
            status: self.status.or(below.status),
            retry_after: self.retry_after.or_else(|| below.retry_after.clone()),
            fault: self.fault.or(below.fault),
            tool_call: self.tool_call.or(below.tool_call),
            answer_bytes: self.answer_bytes.or(below.answer_bytes),
            text: self.text.or_else(|| below.text.clone()),
            path: self.path,
            when: self.when,
            times: self.times,
        }
    }

    /// Reads the `x-mock-*` headers of a request.
    ///
    /// # Errors
    /// Names the first header that is unknown or cannot be read, so that a typing mistake does not pass as "no fault".
    pub fn from_headers(headers: &HeaderMap) -> Result<Self, BadBehaviour> {
        let mut found = Self::default();
        for (name, value) in headers {
            let Some(name) = name.as_str().strip_prefix("x-mock-") else { continue };
            found.set(name, value.to_str().unwrap_or(""))?;
        }
        Ok(found)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), BadBehaviour> {
        match name {
            "latency-ms" => self.latency_ms = Some(number(name, value)?),
            "first-byte-ms" => self.first_byte_ms = Some(number(name, value)?),
            "pause-ms" => self.pause_ms = Some(number(name, value)?),
            "thinking" => self.thinking = Some(flag(name, value)?),
            "stop" => self.stop = Some(value.to_owned()),
            "encoding" => self.encoding = Some(encoding(name, value)?),
            "cached-tokens" => self.cached_tokens = Some(number(name, value)?),
            "cache-write-tokens" => self.cache_write_tokens = Some(number(name, value)?),
            "times" => self.times = Some(number(name, value)?),
            "profile" => *self = std::mem::take(self).over(&Self::profile(value)?),
            "chunk-ms" => self.chunk_ms = Some(number(name, value)?),
            "chunks" => self.chunks = Some(number(name, value)?),
            "burst" => self.burst = Some(flag(name, value)?),
            "status" => self.status = Some(number(name, value)?),
            "retry-after" => self.retry_after = Some(value.to_owned()),
            "fault" => self.fault = Some(value.parse()?),
            "tool-call" => self.tool_call = Some(flag(name, value)?),
            "answer-bytes" => self.answer_bytes = Some(number(name, value)?),
            _ => return Err(bad(name, value, "a behaviour that this mock knows")),
        }
        Ok(())
    }
}

fn bad(name: &str, value: &str, expected: &'static str) -> BadBehaviour {
    BadBehaviour { name: name.to_owned(), value: value.to_owned(), expected }
}

fn number<T: FromStr>(name: &str, value: &str) -> Result<T, BadBehaviour> {
    value.parse().map_err(|_| bad(name, value, "a whole number"))
}

fn encoding(name: &str, value: &str) -> Result<Encoding, BadBehaviour> {
    [Encoding::Gzip, Encoding::Brotli]
        .into_iter()
        .find(|encoding| encoding.name() == value)
        .ok_or_else(|| bad(name, value, "`gzip` or `br`"))
}

fn flag(name: &str, value: &str) -> Result<bool, BadBehaviour> {
    match value {
        "" | "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => Err(bad(name, value, "1 or 0")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_read_back_from_its_own_name() {
        let faults = PLAIN.iter().map(|(_, fault)| *fault).chain(COUNTED.iter().map(|(_, make)| make(7)));
        for fault in faults {
            assert_eq!(fault.to_string().parse(), Ok(fault));
        }
        assert_eq!("cut-after".parse(), Ok(Fault::CutAfter(2)));
        assert!("hang=3".parse::<Fault>().is_err());
        assert!("cut-after=x".parse::<Fault>().is_err());
    }

    #[test]
    fn headers_win_over_the_script_and_the_script_over_flags() {
        let flags = Behaviour { latency_ms: Some(1), chunks: Some(5), chunk_ms: Some(9), ..Behaviour::default() };
        let script = Behaviour { latency_ms: Some(2), chunks: Some(6), ..Behaviour::default() };
        let headers =
            HeaderMap::from_iter([(http::HeaderName::from_static("x-mock-latency-ms"), "3".parse().expect("value"))]);
        let merged = Behaviour::from_headers(&headers).expect("a number").over(&script.over(&flags));
        assert_eq!((merged.latency_ms, merged.chunks, merged.chunk_ms), (Some(3), Some(6), Some(9)));
    }

    #[test]
    fn a_profile_leaves_what_is_said_beside_it() {
        let header =
            |name, value: &'static str| (http::HeaderName::from_static(name), http::HeaderValue::from_static(value));
        let headers = [header("x-mock-profile", "chunks64"), header("x-mock-chunk-ms", "1")];
        for order in [headers.clone(), {
            let [a, b] = headers;
            [b, a]
        }] {
            let read = Behaviour::from_headers(&HeaderMap::from_iter(order)).expect("known");
            assert_eq!((read.chunks, read.chunk_ms), (Some(64), Some(1)));
        }
    }

    #[test]
    fn a_misspelt_header_is_an_error_and_not_the_default() {
        let headers =
            HeaderMap::from_iter([(http::HeaderName::from_static("x-mock-latancy"), "3".parse().expect("value"))]);
        assert!(Behaviour::from_headers(&headers).is_err());
    }
}
