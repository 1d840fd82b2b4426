//! How faults look to callers: the only place where a failure gets a status. Internal text never reaches a caller.

mod sentence;
mod upstream;

use signet_dialect::{Api, Failure};
use signet_pipeline::{Face, Faces, Fault};
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

/// When to try again what may be good at any moment.
const SECOND: Duration = Duration::from_secs(1);

/// No `_` arm: a new fault must be decided here.
fn look(fault: &Fault) -> Look<'_> {
    match fault {
        Fault::Invalid { message, param, code } => {
            Look { code: *code, param: param.as_deref(), ..Look::new(400, REQUEST, "", message.as_str()).hopeless() }
        }
        Fault::TooLarge { limit } => {
            Look::new(413, REQUEST, "request_too_large", sentence::too_large(*limit)).hopeless()
        }
        Fault::ClientGone => Look::new(499, REQUEST, "client_closed_request", sentence::CLIENT_GONE),
        Fault::RequestTimeout { waited } => {
            Look::new(408, REQUEST, "request_timeout", sentence::request_timeout(*waited))
        }
        Fault::Overloaded => Look::new(503, SERVER, "overloaded", sentence::CONNECTIONS).later(SECOND),
        Fault::Overload { retry_after } => Look::new(503, SERVER, "overloaded", sentence::WORK).later(*retry_after),
        Fault::RateLimited { retry_after } => {
            Look::new(429, "rate_limit_error", "rate_limit_exceeded", sentence::RATE).later(*retry_after)
        }
        Fault::Unauthenticated => Look::new(401, REQUEST, "invalid_api_key", sentence::NO_KEY).hopeless(),
        Fault::UnknownModel { model } => {
            let look = Look::new(404, REQUEST, "model_not_found", sentence::no_model(model));
            Look { param: Some("model"), ..look.hopeless() }
        }
        Fault::UnknownRecord => Look::new(404, REQUEST, "lineage_not_found", sentence::NO_RECORD).hopeless(),
        Fault::UnknownUrl => Look::new(404, REQUEST, "unknown_url", sentence::NO_URL).hopeless(),
        Fault::WrongMethod => Look::new(405, REQUEST, "method_not_allowed", sentence::METHOD).hopeless(),
        Fault::NotCached => Look::new(504, SERVER, "not_cached", sentence::NOT_CACHED).hopeless(),
        Fault::Upstream { provider, error } => upstream::look(provider.as_str(), error),
        Fault::ProviderRefused { provider } => {
            Look::new(502, UPSTREAM, "provider_credentials", sentence::refused(provider.as_str())).hopeless()
        }
        Fault::Untranslatable { provider, source } => {
            let said = sentence::untranslatable(provider.as_str(), &source.0);
            Look::new(502, UPSTREAM, "upstream_untranslatable", said).hopeless()
        }
        Fault::LineageUnavailable => Look::new(503, SERVER, "lineage_unavailable", sentence::NO_LINEAGE).later(SECOND),
        Fault::NotReady(why) => Look::new(503, SERVER, "not_ready", sentence::not_ready(why)).later(SECOND),
        Fault::Internal(_) => Look::new(500, SERVER, "internal_error", sentence::INTERNAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signet_provider::UpstreamError;

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
        let said = b"The provider openai failed: it did not answer within 1000 ms.";
        assert!(face.body.windows(said.len()).any(|part| part == said));
    }
}
