//! An answer as it is kept: in the provider's API, in the one form that serves every way of asking for it.

use crate::completions::Completion;
use crate::messages::Message;
use crate::responses::Response;
use bytes::Bytes;
use signet_openai::{Answer, KeptText, Layer, NotStorable, Usage};
use std::fmt::Display;

/// A kept answer.
#[derive(Debug, Clone)]
pub enum Kept {
    /// A chat completion, which serves JSON and event streams.
    Chat(Answer),
    /// A message, which serves JSON and event streams.
    Message(Message),
    /// A completion, which serves JSON and event streams.
    Completion(Completion),
    /// A response, which serves JSON and event streams.
    Response(Response),
    /// A JSON body that is served as it is (embeddings, counts of tokens).
    Json(Bytes),
}

/// The first byte of the stored form. Never given anew: stores outlive releases.
const CHAT: u8 = 0;
const JSON: u8 = 1;
const MESSAGE: u8 = 2;
const COMPLETION: u8 = 3;
const RESPONSE: u8 = 4;

impl Kept {
    /// Which of the stored forms [`Self::encode`] makes.
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Chat(_) => CHAT,
            Self::Message(_) => MESSAGE,
            Self::Completion(_) => COMPLETION,
            Self::Response(_) => RESPONSE,
            Self::Json(_) => JSON,
        }
    }

    /// Whether this version makes stored forms of this kind.
    pub const fn is_kind(kind: u8) -> bool {
        matches!(kind, CHAT | JSON | MESSAGE | COMPLETION | RESPONSE)
    }

    /// The stored form, without its kind.
    pub fn encode(&self) -> Box<[u8]> {
        self.answer().map_or_else(|body| Box::from(&body[..]), KeptText::encode)
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// The kind is of another version, or `stored` was not made by [`Self::encode`] of this one.
    pub fn decode(kind: u8, stored: &[u8]) -> Result<Self, NotStorable> {
        match kind {
            CHAT => Answer::decode(stored).map(Self::Chat),
            MESSAGE => Message::decode(stored).map(Self::Message),
            COMPLETION => Completion::decode(stored).map(Self::Completion),
            RESPONSE => Response::decode(stored).map(Self::Response),
            JSON => Ok(Self::Json(Bytes::copy_from_slice(stored))),
            _ => Err(NotStorable::Version),
        }
    }

    /// The answer's text with its facts, else the body that is served as it is.
    fn answer(&self) -> Result<&KeptText, &Bytes> {
        match self {
            Self::Chat(answer) => Ok(answer),
            Self::Message(message) => Ok(message),
            Self::Completion(answer) => Ok(answer),
            Self::Response(response) => Ok(response),
            Self::Json(body) => Err(body),
        }
    }

    /// Bytes of memory it takes beside itself.
    pub fn weight(&self) -> usize {
        self.answer().map_or_else(Bytes::len, KeptText::weight)
    }

    /// The whole body. `unique` makes the answer's id; `created` is in seconds since the Unix epoch.
    pub fn to_json(&self, unique: impl Display, created: u64) -> Bytes {
        match self {
            Self::Chat(answer) => answer.to_json(&format!("chatcmpl-{unique}"), created),
            Self::Message(message) => message.to_json(&format!("msg_{unique}")),
            Self::Completion(answer) => answer.to_json(&format!("cmpl-{unique}"), created),
            Self::Response(response) => response.to_json(&format!("resp_{unique}"), created),
            Self::Json(body) => body.clone(),
        }
    }

    /// The whole event stream, its last event included; the usage only for a caller who asked for it.
    pub fn to_sse(&self, unique: impl Display, created: u64, include_usage: bool) -> Bytes {
        match self {
            Self::Chat(answer) => answer.to_sse(&format!("chatcmpl-{unique}"), created, include_usage),
            Self::Message(message) => message.to_sse(&format!("msg_{unique}")),
            Self::Completion(answer) => answer.to_sse(&format!("cmpl-{unique}"), created, include_usage),
            Self::Response(response) => response.to_sse(&format!("resp_{unique}"), created),
            Self::Json(body) => body.clone(),
        }
    }

    /// What it cost.
    pub fn usage(&self) -> Option<Usage> {
        self.answer().ok()?.usage()
    }

    /// Why it ended, in the provider's word.
    pub fn finish(&self) -> Option<&str> {
        self.answer().ok()?.finish()
    }

    /// SHA-256 of what it says; none for a body that is served as it is, whose commitment says as much.
    pub fn digest(&self) -> Option<[u8; 32]> {
        self.answer().ok().map(|answer| *answer.content_digest())
    }

    /// The model that gave it, if it is told.
    pub fn model(&self) -> Option<&str> {
        self.answer().ok().map(KeptText::model).filter(|model| !model.is_empty())
    }

    /// What it says in words, where that can be compared with another answer.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Chat(answer) => answer.content(),
            Self::Message(message) => message.content(),
            Self::Completion(answer) => answer.content(),
            Self::Response(response) => response.content(),
            Self::Json(_) => None,
        }
    }

    /// Whether `layer` may keep it.
    ///
    /// # Errors
    /// Why not, as a short constant for records and metrics.
    pub fn storable(&self, layer: Layer) -> Result<(), &'static str> {
        match (self.answer(), layer) {
            (Ok(answer), _) => answer.storable(layer),
            (Err(_), Layer::Exact) => Ok(()),
            (Err(_), Layer::Semantic) => Err("operation"),
        }
    }
}
