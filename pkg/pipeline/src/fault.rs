//! Why a request was not answered, in the pipeline's own terms. Statuses belong to the HTTP edge.

use signet_dialect::Untranslatable;
use signet_provider::{ConnectCause, UpstreamError};
use signet_types::ProviderName;
use std::sync::Arc;
use std::time::Duration;

/// A boxed cause, for the log only.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a request was not answered.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The caller's request cannot be understood.
    #[error("{message}")]
    Invalid {
        /// What is wrong, for the caller.
        message: String,
        /// The parameter or header at fault.
        param: Option<String>,
        /// A machine-readable code.
        code: Option<&'static str>,
    },
    /// The body is over the limit.
    #[error("the request body is over {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// The caller left within its own request.
    #[error("the caller left")]
    ClientGone,
    /// The caller stopped sending its own request.
    #[error("the caller sent nothing for {waited:?}")]
    RequestTimeout {
        /// The limit.
        waited: Duration,
    },
    /// The listener has as many connections as it may.
    #[error("too many connections")]
    Overloaded,
    /// There is more work than can be done in time.
    #[error("too much work")]
    Overload {
        /// Until trying again makes sense.
        retry_after: Duration,
    },
    /// The caller has used up its tokens.
    #[error("too many requests from this address")]
    RateLimited {
        /// Until the next admission.
        retry_after: Duration,
    },
    /// No credentials where some are needed.
    #[error("no credentials")]
    Unauthenticated,
    /// No route for this model.
    #[error("no route for the model {model}")]
    UnknownModel {
        /// As asked.
        model: String,
    },
    /// `only-if-cached`, and it is not.
    #[error("not in the cache")]
    NotCached,
    /// The provider failed.
    #[error("{provider}: {error}")]
    Upstream {
        /// Which one.
        provider: ProviderName,
        /// How.
        #[source]
        error: Arc<UpstreamError>,
    },
    /// The provider refused the gateway's own credentials. Its text may name them, so it stays here.
    #[error("{provider} refused our credentials")]
    ProviderRefused {
        /// Which one.
        provider: ProviderName,
    },
    /// The provider's answer cannot be said in the caller's API.
    #[error("{provider}: {source}")]
    Untranslatable {
        /// Which one.
        provider: ProviderName,
        /// What of it.
        source: Untranslatable,
    },
    /// The record cannot be written, so no answer may be given.
    #[error("the lineage log takes no records")]
    LineageUnavailable,
    /// Not here.
    #[error("no such record")]
    UnknownRecord,
    /// No such endpoint, or not in this version.
    #[error("unknown URL")]
    UnknownUrl,
    /// The endpoint does not take this method.
    #[error("wrong method")]
    WrongMethod,
    /// The process is not ready, or is leaving.
    #[error("not ready: {0}")]
    NotReady(&'static str),
    /// A fault of ours. The cause goes to the log, never to a caller.
    #[error("internal fault")]
    Internal(#[source] BoxError),
}

impl Fault {
    /// An invalid request.
    pub fn invalid(message: String, param: Option<&str>) -> Self {
        Self::Invalid { message, param: param.map(str::to_owned), code: None }
    }
}

/// Whether a limit on time ended the exchange.
pub fn is_timeout(error: &UpstreamError) -> bool {
    matches!(
        error,
        UpstreamError::Connect { cause: ConnectCause::Timeout, .. }
            | UpstreamError::FirstByteTimeout { .. }
            | UpstreamError::IdleTimeout { .. }
            | UpstreamError::DeadlineExceeded { .. }
    )
}
