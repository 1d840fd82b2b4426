//! A caller's request, whichever API it speaks.

use crate::completions::CompletionsRequest;
use crate::messages::{CountTokensRequest, MessagesRequest};
use crate::responses::ResponsesRequest;
use crate::{Api, Defaults, Form, Refusal, translate_request};
use bytes::Bytes;
use signet_openai::{Asked, ChatRequest, EmbeddingsRequest};

/// A request that is understood, with the caller's bytes.
#[derive(Debug, Clone)]
pub enum Request {
    /// To `/v1/chat/completions`.
    Chat(ChatRequest),
    /// To `/v1/embeddings`.
    Embeddings(EmbeddingsRequest),
    /// To `/v1/messages`.
    Messages(MessagesRequest),
    /// To `/v1/messages/count_tokens`.
    CountTokens(CountTokensRequest),
    /// To `/v1/completions`.
    Completions(CompletionsRequest),
    /// To `/v1/responses`.
    Responses(ResponsesRequest),
}

impl Request {
    /// Reads a body in one pass.
    ///
    /// # Errors
    /// It is not a request of this API; the text is meant for the caller.
    pub fn parse(api: Api, body: &Bytes) -> Result<Self, Refusal> {
        match api {
            Api::Chat => ChatRequest::parse(body).map(Self::Chat),
            Api::Embeddings => EmbeddingsRequest::parse(body).map(Self::Embeddings),
            Api::Messages => MessagesRequest::parse(body).map(Self::Messages),
            Api::CountTokens => CountTokensRequest::parse(body).map(Self::CountTokens),
            Api::Completions => CompletionsRequest::parse(body).map(Self::Completions),
            Api::Responses => ResponsesRequest::parse(body).map(Self::Responses),
            Api::Models => {
                let message = format!("The gateway does not answer {} requests yet.", api.name());
                Err(Refusal { message, param: None, code: Some("unsupported_api") })
            }
        }
    }

    /// The API it speaks.
    pub const fn api(&self) -> Api {
        match self {
            Self::Chat(_) => Api::Chat,
            Self::Embeddings(_) => Api::Embeddings,
            Self::Messages(_) => Api::Messages,
            Self::CountTokens(_) => Api::CountTokens,
            Self::Completions(_) => Api::Completions,
            Self::Responses(_) => Api::Responses,
        }
    }

    /// The form that its answer has.
    pub fn form(&self) -> Form {
        let parts = match self {
            Self::Chat(request) => request.n() as usize,
            Self::Embeddings(request) => request.inputs(),
            Self::Completions(request) => request.choices() as usize,
            Self::Messages(_) | Self::CountTokens(_) | Self::Responses(_) => 1,
        };
        Form { api: self.api(), parts }
    }

    fn asked(&self) -> &Asked {
        match self {
            Self::Chat(request) => request,
            Self::Embeddings(request) => request,
            Self::Messages(request) => request,
            Self::CountTokens(request) => request,
            Self::Completions(request) => request,
            Self::Responses(request) => request,
        }
    }

    /// The bytes as the caller sent them.
    pub fn body(&self) -> &Bytes {
        &self.asked().body
    }

    /// The model as asked.
    pub fn model(&self) -> &str {
        &self.asked().model
    }

    /// Whether an event stream is wanted.
    pub fn stream(&self) -> bool {
        self.asked().stream
    }

    /// Whether the caller asked for the usage within its stream. Where an API always tells it, it is asked for.
    pub fn include_usage(&self) -> bool {
        self.asked().include_usage
    }

    /// Whether the body says all that decides the answer, so that a cache may have a part in it.
    ///
    /// # Errors
    /// Which state at the provider it rests on, as a short constant for records and metrics.
    pub fn stateless(&self) -> Result<(), &'static str> {
        match self {
            Self::Responses(request) => request.stateless(),
            Self::Messages(request) => request.stateless(),
            _ => Ok(()),
        }
    }

    /// Canonical digest of everything that decides the answer but [`Self::last_text`].
    pub fn shape(&self) -> &[u8; 32] {
        &self.asked().shape
    }

    /// The last user text, byte-exact; empty where all of the request is in its shape.
    pub fn last_text(&self) -> &str {
        &self.asked().last_text
    }

    /// What stays the same while a conversation grows, as [`Asked::prefix`] finds it. None where there is no conversation.
    pub fn prefix(&self) -> Option<[u8; 32]> {
        match self {
            Self::Embeddings(_) | Self::CountTokens(_) => None,
            _ => self.asked().prefix(),
        }
    }

    /// The text to compare with similar ones.
    ///
    /// # Errors
    /// Why this request is only for the exact cache, as a short constant for records and metrics.
    pub fn semantic_candidate(&self) -> Result<&str, &'static str> {
        self.asked().semantic_candidate()
    }

    /// The body to send upstream: the caller's bytes with another `model`, and asking for usage within a stream where
    /// `ask_usage`. If nothing changes it is the same buffer.
    pub fn with(&self, model: Option<&str>, ask_usage: bool) -> Bytes {
        self.asked().with(model, ask_usage)
    }

    /// The body that asks the same in API `to`, for the same model.
    ///
    /// # Errors
    /// It cannot be said there.
    pub fn to(&self, to: Api, defaults: &Defaults) -> Result<Bytes, Refusal> {
        if self.api() == to {
            return Ok(self.body().clone());
        }
        translate_request(self.api(), to, self.body(), defaults)
    }
}
