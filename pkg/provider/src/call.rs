//! What is asked of a provider and what it answers.

use crate::board::Permit;
use crate::body::UpstreamBody;
use crate::error::UpstreamError;
use crate::fleet::Trail;
use crate::headers::RequestHeaders;
use async_trait::async_trait;
use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};
use signet_dialect::Api;
use signet_types::{ModelName, ProviderName};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Whose credentials go upstream.
#[derive(Clone)]
pub enum Auth {
    /// The provider's own key, or none if it has none.
    Provider,
    /// The caller's own. For the one provider it was meant for, never another.
    Caller(Credential),
}

/// A credential as the caller sent it: it is sent on in the same header.
#[derive(Clone)]
pub struct Credential {
    /// The header: `authorization`, `x-api-key`, ..
    pub name: HeaderName,
    /// Its value.
    pub value: HeaderValue,
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Provider => "Provider",
            Self::Caller { .. } => "Caller(..)",
        })
    }
}

/// One request to one provider.
#[derive(Debug, Clone)]
pub struct Call {
    /// What is asked for. Where it is at the provider is the business of the provider's kind.
    pub api: Api,
    /// The model's name there; none for APIs that name no model.
    pub model: Option<ModelName>,
    /// The method.
    pub method: Method,
    /// The caller's target, of which the query is sent on. None where the caller spoke another API than `api`.
    pub query: Option<PathAndQuery>,
    /// Whether the caller meant another provider, which could not answer: then its betas and accounts stay here.
    pub fallback: bool,
    /// The caller's end-to-end headers. Which of them this provider sees depends on its kind.
    pub headers: RequestHeaders,
    /// The whole body; a second attempt costs no copy.
    pub body: Bytes,
    /// Whose credentials.
    pub authorization: Auth,
    /// When the caller stops waiting, if that is before the provider's own total timeout.
    pub deadline: Option<Instant>,
    /// Where it is noted if the request is sent once more.
    pub trail: Option<Arc<Trail>>,
}

/// A provider's answer: the head is here, the body comes.
#[derive(Debug)]
pub struct Reply {
    /// The provider's status.
    pub status: StatusCode,
    /// Its headers, already through [`crate::filter_response_headers`].
    pub headers: HeaderMap,
    /// Its body. Dropping it ends the exchange at once.
    pub body: UpstreamBody,
    /// How long things took.
    pub timings: Timings,
    /// Whether the connection had carried a request before.
    pub reused: bool,
    /// The protocol spoken with the provider.
    pub version: Version,
}

impl Reply {
    /// The reply whose end, however it comes, is told to `permit`.
    pub(crate) fn watched(mut self, permit: Permit) -> Self {
        self.body = self.body.watched(permit);
        self
    }
}

/// Spans of one exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timings {
    /// From the call to a fresh connection; none if one was reused.
    pub connect: Option<Duration>,
    /// From the call to the response head.
    pub ttfb: Duration,
}

/// Something that answers like the API of one kind of provider.
#[async_trait]
pub trait Provider: fmt::Debug + Send + Sync + 'static {
    /// Its configured name.
    fn name(&self) -> &ProviderName;

    /// Where it lives, as configured: part of what decides whether two answers are interchangeable.
    fn base_url(&self) -> &str;

    /// What else decides how it answers, beside its URL and the model: its kind and the headers that it is always sent. None
    /// for an OpenAI-compatible one without such headers.
    fn variant(&self) -> Option<[u8; 32]> {
        None
    }

    /// Whether it has this API.
    fn speaks(&self, _api: Api) -> bool {
        true
    }

    /// Whether it would see this header (lower case) of a caller's.
    fn forwards(&self, _header: &str, _fallback: bool) -> bool {
        true
    }

    /// Sends one request and returns at the response head. Dropping the future cancels the request upstream.
    ///
    /// # Errors
    /// [`UpstreamError`]; every HTTP status is a [`Reply`].
    async fn send(&self, call: Call) -> Result<Reply, UpstreamError>;
}
