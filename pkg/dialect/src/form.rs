//! The form that a request's answer has, and what an answer in it says.

use crate::completions::Completion;
use crate::messages::{Message, is_count};
use crate::responses::Response;
use crate::{Api, Kept};
use bytes::Bytes;
use sha2::{Digest, Sha256};
use signet_openai::{Answer, Embeddings, Layer, Usage};

/// The form of an answer: whose, and of how many parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// The API it comes in.
    pub api: Api,
    /// Choices of a chat, vectors of embeddings; 1 where an API knows one only.
    pub parts: usize,
}

/// What an answer says of itself, and what may be kept of it.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// The answer, in the one form that serves every way of asking for it; none where it cannot be understood.
    pub kept: Option<Kept>,
    /// Whether a cache may keep it.
    pub exact: bool,
    /// Whether it may serve similar questions too.
    pub semantic: bool,
    /// SHA-256 of what it says: a replay has the digest of the original.
    pub digest: Option<[u8; 32]>,
    /// Why it ended, in the provider's word.
    pub finish: Option<String>,
    /// The model that gave it.
    pub served: Option<String>,
    /// What it cost.
    pub usage: Option<Usage>,
}

impl Form {
    /// Reads a provider's good answer; what cannot be read says nothing, is passed on and never kept.
    pub fn read(self, body: &[u8]) -> Reading {
        match self.api {
            Api::Chat => {
                let choices = u32::try_from(self.parts).unwrap_or(u32::MAX);
                Answer::from_json(body, choices).map(|answer| Reading::of(Kept::Chat(answer))).unwrap_or_default()
            }
            Api::Embeddings => {
                let found = Embeddings::from_json(body, self.parts);
                found.map(|found| Reading::embeddings(&found)).unwrap_or_default()
            }
            Api::Messages => {
                Message::from_json(body).map(|message| Reading::of(Kept::Message(message))).unwrap_or_default()
            }
            Api::CountTokens if is_count(body) => Reading {
                digest: Some(Sha256::digest(body).into()),
                kept: Some(Kept::Json(Bytes::copy_from_slice(body))),
                exact: true,
                ..Reading::default()
            },
            Api::Completions => {
                let choices = u32::try_from(self.parts).unwrap_or(u32::MAX);
                let answer = Completion::from_json(body, choices);
                answer.map(|answer| Reading::of(Kept::Completion(answer))).unwrap_or_default()
            }
            Api::Responses => {
                Response::from_json(body).map(|response| Reading::of(Kept::Response(response))).unwrap_or_default()
            }
            Api::Models | Api::CountTokens => Reading::default(),
        }
    }
}

impl Reading {
    /// What a complete answer says.
    pub fn of(kept: Kept) -> Self {
        Self {
            semantic: kept.storable(Layer::Semantic).is_ok(),
            digest: kept.digest(),
            finish: kept.finish().map(str::to_owned),
            served: kept.model().map(str::to_owned),
            usage: kept.usage(),
            exact: kept.storable(Layer::Exact).is_ok(),
            kept: Some(kept),
        }
    }

    /// What a cache may keep; none of an answer that must not be served again.
    pub fn storable(&self) -> Option<&Kept> {
        self.kept.as_ref().filter(|_| self.exact)
    }

    fn embeddings(found: &Embeddings) -> Self {
        Self {
            digest: Some(Sha256::digest(found.to_json()).into()),
            served: Some(found.model().to_owned()).filter(|model| !model.is_empty()),
            usage: found.usage(),
            kept: Some(Kept::Json(found.to_json().clone())),
            exact: true,
            ..Self::default()
        }
    }
}
