//! How a failed provider looks.

use super::{Look, UPSTREAM};
use signet_pipeline::is_timeout;
use signet_provider::{ConnectCause, UpstreamError};

/// Trying again helps only where nothing can have been billed.
pub(super) fn look<'a>(provider: &str, error: &UpstreamError) -> Look<'a> {
    let status = match error {
        UpstreamError::NoCredentials => 403,
        UpstreamError::NotSpoken { .. } => 400,
        error if is_timeout(error) => 504,
        _ => 502,
    };
    let look = Look::new(status, UPSTREAM, error.class(), sentence(provider, error));
    Look { should_retry: Some(error.is_unbilled() && status >= 500), ..look }
}

fn sentence(provider: &str, error: &UpstreamError) -> String {
    let what = match error {
        UpstreamError::NotSpoken { .. } => {
            return format!("The provider {provider} does not have this API, nor one that can stand for it.");
        }
        UpstreamError::Connect { cause: ConnectCause::Dns, .. } => "its name cannot be resolved",
        UpstreamError::Connect { cause: ConnectCause::Tls, .. } => "the TLS handshake failed",
        UpstreamError::Connect { cause: ConnectCause::Proxy, .. } => "the proxy before it opened no tunnel",
        UpstreamError::Connect { cause: ConnectCause::Timeout, .. } => "no connection within the time allowed",
        UpstreamError::Connect { .. } => "it cannot be reached",
        UpstreamError::FirstByteTimeout { waited } => &format!("it did not answer within {} ms", waited.as_millis()),
        UpstreamError::IdleTimeout { waited } => &format!("it sent nothing for {} ms", waited.as_millis()),
        UpstreamError::DeadlineExceeded { waited } => &format!("it was not done after {} ms", waited.as_millis()),
        UpstreamError::Closed { .. } => "it closed the connection",
        UpstreamError::Protocol(_) => "it sent something that is not HTTP",
        UpstreamError::TooLarge { .. } => "its answer is larger than the limit",
        UpstreamError::UnsupportedEncoding { .. } => "it sent an encoding that was not accepted",
        UpstreamError::Undecodable(_) => "its answer cannot be decoded",
        UpstreamError::NoCredentials => "the caller's credentials are not for it",
    };
    format!("The provider {provider} failed: {what}.")
}
