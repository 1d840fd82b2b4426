//! What is asked of a provider and what it answers.

use crate::board::Permit;
use crate::body::UpstreamBody;
use crate::error::UpstreamError;
use crate::headers::RequestHeaders;
use async_trait::async_trait;
use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};
use signet_types::ProviderName;
use std::fmt;
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
            Self::Caller(_) => "Caller(..)",
        })
    }
}

/// One request to one provider.
#[derive(Debug, Clone)]
pub struct Call {
    /// The method.
    pub method: Method,
    /// Appended to the path of the provider's base URL: `/chat/completions`, not `/v1/chat/completions`.
    pub path: PathAndQuery,
    /// The caller's end-to-end headers.
    pub headers: RequestHeaders,
    /// The whole body; a second attempt costs no copy.
    pub body: Bytes,
    /// Whose credentials.
    pub authorization: Auth,
    /// When the caller stops waiting, if that is before the provider's own total timeout.
    pub deadline: Option<Instant>,
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

/// Something that answers like an OpenAI-compatible API. The seam for other kinds of provider.
#[async_trait]
pub trait Provider: fmt::Debug + Send + Sync + 'static {
    /// Its configured name.
    fn name(&self) -> &ProviderName;

    /// Where it lives, as configured: part of what decides whether two answers are interchangeable.
    fn base_url(&self) -> &str;

    /// Sends one request and returns at the response head. Dropping the future cancels the request upstream.
    ///
    /// # Errors
    /// [`UpstreamError`]; every HTTP status is a [`Reply`].
    async fn send(&self, call: Call) -> Result<Reply, UpstreamError>;
}
