//! How faults look to callers: the only place where a failure gets a status. Internal text never reaches a caller.

use signet_dialect::{Api, Failure};
use signet_pipeline::{Face, Faces, Fault, is_timeout};
use signet_provider::{ConnectCause, UpstreamError};
use std::time::Duration;

/// Errors in the words of the API that was asked.
#[derive(Debug, Clone, Copy, Default)]
pub struct ErrorFaces;

struct Look<'a> {
    status: u16,
    kind: &'static str,
    code: Option<&'static str>,
    param: Option<&'a str>,
    message: String,
    should_retry: Option<bool>,
    retry_after: Option<Duration>,
}

impl Look<'_> {
    fn new(status: u16, kind: &'static str, code: &'static str, message: impl Into<String>) -> Self {
        let (param, should_retry, retry_after) = (None, None, None);
        Self { status, kind, code: Some(code), param, message: message.into(), should_retry, retry_after }
    }

    fn hopeless(self) -> Self {
        Self { should_retry: Some(false), ..self }
    }

    fn later(self, wait: Duration) -> Self {
        Self { should_retry: Some(true), retry_after: Some(wait), ..self }
    }
}

impl Faces for ErrorFaces {
    fn face(&self, fault: &Fault, api: Api, request_id: &str) -> Face {
        let look = look(fault);
        let failure = Failure {
            status: look.status,
            message: &look.message,
            kind: look.kind,
            param: look.param,
            code: look.code,
            request_id: Some(request_id),
        };
        Face {
            status: look.status,
            body: failure.body(api),
            should_retry: look.should_retry,
            retry_after: look.retry_after,
        }
    }
}

const REQUEST: &str = "invalid_request_error";
const SERVER: &str = "server_error";
const UPSTREAM: &str = "upstream_error";

/// No `_` arm: a new fault must be decided here.
fn look(fault: &Fault) -> Look<'_> {
    match fault {
        Fault::Invalid { message, param, code } => Look {
            status: 400,
            kind: REQUEST,
            code: *code,
            param: param.as_deref(),
            message: message.clone(),
            should_retry: Some(false),
            retry_after: None,
        },
        Fault::TooLarge { limit } => {
            let message = format!("The request body is larger than the limit of {limit} bytes.");
            Look::new(413, REQUEST, "request_too_large", message).hopeless()
        }
        Fault::ClientGone => Look::new(499, REQUEST, "client_closed_request", "The client closed the request."),
        Fault::RequestTimeout { waited } => {
            let message = format!("The rest of the request body did not come within {} s.", waited.as_secs());
            Look::new(408, REQUEST, "request_timeout", message)
        }
        Fault::Overloaded => Look::new(503, SERVER, "overloaded", "The gateway has as many connections as it may.")
            .later(Duration::from_secs(1)),
        Fault::Overload { retry_after } => {
            let message = "The gateway has more work than it can do in time. Try again after the time in Retry-After.";
            Look::new(503, SERVER, "overloaded", message).later(*retry_after)
        }
        Fault::RateLimited { retry_after } => {
            let message = "Too many requests from this address. Try again after the time in Retry-After.";
            Look::new(429, "rate_limit_error", "rate_limit_exceeded", message).later(*retry_after)
        }
        Fault::Unauthenticated => {
            let message = "No API key was sent. Send it as `Authorization: Bearer KEY` or as `x-api-key: KEY`.";
            Look::new(401, REQUEST, "invalid_api_key", message).hopeless()
        }
        Fault::UnknownModel { model } => {
            let message = format!("The model `{}` does not exist here.", shortened(model));
            Look { param: Some("model"), ..Look::new(404, REQUEST, "model_not_found", message).hopeless() }
        }
        Fault::UnknownRecord => {
            Look::new(404, REQUEST, "lineage_not_found", "There is no such lineage record.").hopeless()
        }
        Fault::UnknownUrl => {
            Look::new(404, REQUEST, "unknown_url", "This URL does not exist in this version.").hopeless()
        }
        Fault::WrongMethod => {
            Look::new(405, REQUEST, "method_not_allowed", "This URL does not take this method.").hopeless()
        }
        Fault::NotCached => Look::new(504, REQUEST, "not_cached", "The answer is not in the cache.").hopeless(),
        Fault::Upstream { provider, error } => upstream(provider.as_str(), error),
        Fault::ProviderRefused { provider } => {
            let message = format!("The provider {provider} refused the gateway's credentials.");
            Look::new(502, UPSTREAM, "provider_credentials", message).hopeless()
        }
        Fault::Untranslatable { provider, source } => {
            let message = format!("The answer of the provider {provider} cannot be said in this API: {}.", source.0);
            Look::new(502, UPSTREAM, "upstream_untranslatable", message).hopeless()
        }
        Fault::LineageUnavailable => {
            let message = "No lineage record can be written at the moment, so no answer may be given.";
            Look::new(503, SERVER, "lineage_unavailable", message).later(Duration::from_secs(1))
        }
        Fault::NotReady(why) => Look::new(503, SERVER, "not_ready", format!("The gateway is not ready: {why}."))
            .later(Duration::from_secs(1)),
        Fault::Internal(_) => Look::new(500, SERVER, "internal_error", "The gateway failed to answer this request."),
    }
}

/// A failed provider. Trying again helps only where nothing can have been billed.
fn upstream<'a>(provider: &str, error: &UpstreamError) -> Look<'a> {
    let status = match error {
        UpstreamError::NoCredentials => 403,
        UpstreamError::NotSpoken { .. } => 400,
        error if is_timeout(error) => 504,
        _ => 502,
    };
    let what = match error {
        UpstreamError::Connect { cause: ConnectCause::Dns, .. } => "its name cannot be resolved",
        UpstreamError::Connect { cause: ConnectCause::Tls, .. } => "the TLS handshake failed",
        UpstreamError::Connect { cause: ConnectCause::Proxy, .. } => "the proxy before it opened no tunnel",
        UpstreamError::Connect { cause: ConnectCause::Timeout, .. } => "no connection within the time allowed",
        UpstreamError::Connect { .. } => "it cannot be reached",
        UpstreamError::FirstByteTimeout { .. } => "it did not answer within the time allowed",
        UpstreamError::IdleTimeout { .. } => "it stopped in the middle of its answer",
        UpstreamError::DeadlineExceeded { .. } => "its answer did not end within the time allowed",
        UpstreamError::Closed { .. } => "it closed the connection",
        UpstreamError::Protocol(_) => "it sent something that is not HTTP",
        UpstreamError::TooLarge { .. } => "its answer is larger than the limit",
        UpstreamError::UnsupportedEncoding { .. } => "it sent an encoding that was not accepted",
        UpstreamError::Undecodable(_) => "its answer cannot be decoded",
        UpstreamError::NotSpoken { .. } => "it was not asked",
        UpstreamError::NoCredentials => "the caller's credentials are not for it",
    };
    let said = match error {
        UpstreamError::NotSpoken { .. } => {
            format!("The provider {provider} does not have this API, nor one that can stand for it.")
        }
        _ => format!("The provider {provider} failed: {what}."),
    };
    let look = Look::new(status, UPSTREAM, error.class(), said);
    Look { should_retry: Some(error.is_unbilled() && status >= 500), ..look }
}

fn shortened(name: &str) -> String {
    let clean = |c: char| if c.is_control() { '?' } else { c };
    name.chars().take(128).map(clean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn face(fault: &Fault) -> Face {
        ErrorFaces.face(fault, Api::Chat, "req")
    }

    #[test]
    fn callers_of_anthropics_api_get_its_errors_under_the_same_status() {
        let fault = Fault::UnknownModel { model: "m".to_owned() };
        let (theirs, ours) = (ErrorFaces.face(&fault, Api::Messages, "req_7"), face(&fault));
        assert_eq!((theirs.status, ours.status), (404, 404));
        let body = r#"{"type":"error","error":{"type":"not_found_error","message":"The model `m` does not exist here."},"request_id":"req_7"}"#;
        assert_eq!(theirs.body, body);
        assert!(ours.body.starts_with(b"{\"error\":{"));
    }

    #[test]
    fn an_internal_cause_never_reaches_the_caller() {
        let face = face(&Fault::Internal("password=hunter2 SELECT * FROM x".into()));
        let text = String::from_utf8(face.body.to_vec()).expect("JSON is text");
        assert_eq!(face.status, 500);
        assert!(!text.contains("hunter2") && !text.contains("SELECT"), "{text}");
    }

    #[test]
    fn a_rate_limit_says_when_to_come_back() {
        let face = face(&Fault::RateLimited { retry_after: Duration::from_millis(20) });
        assert_eq!((face.status, face.should_retry), (429, Some(true)));
        assert_eq!(face.retry_after, Some(Duration::from_millis(20)));
    }

    #[test]
    fn a_provider_that_may_have_worked_is_not_to_be_asked_again() {
        let error = UpstreamError::FirstByteTimeout { waited: Duration::from_secs(1) };
        let provider = "openai".parse().expect("a name");
        let face = face(&Fault::Upstream { provider, error: std::sync::Arc::new(error) });
        assert_eq!((face.status, face.should_retry), (504, Some(false)));
    }
}
