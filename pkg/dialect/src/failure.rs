//! Errors as each API says them.

use crate::Api;
use bytes::Bytes;
use signet_openai::wire::Json;
use signet_openai::{ErrorBody, quoted, sse};

/// A failure that a caller is told of, before it is said in anyone's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure<'a> {
    /// The HTTP status; inside a stream the one it would have had.
    pub status: u16,
    /// For people.
    pub message: &'a str,
    /// OpenAI's `type`: `invalid_request_error`, `server_error`, ..
    pub kind: &'a str,
    /// The field at fault.
    pub param: Option<&'a str>,
    /// For programs.
    pub code: Option<&'a str>,
    /// What the caller may quote, where the API says it in the body.
    pub request_id: Option<&'a str>,
}

impl Failure<'_> {
    /// The JSON body.
    pub fn body(&self, api: Api) -> Bytes {
        if api.is_anthropic() { self.anthropic().into() } else { self.openai().to_json() }
    }

    /// The same as an event, for a stream whose status is already gone. Nothing may follow it. `before` are the events that
    /// were sent last, for the API that numbers them.
    pub fn event(&self, api: Api, before: &Bytes) -> Bytes {
        match api {
            Api::Messages | Api::CountTokens => {
                [b"event: error\ndata: ", &self.anthropic()[..], b"\n\n"].concat().into()
            }
            Api::Responses => {
                [b"event: error\ndata: ", &self.response_error(number_behind(before))[..], b"\n\n"].concat().into()
            }
            _ => self.openai().to_event(),
        }
    }

    /// The flat `error` event of OpenAI's responses (API reference, "Streaming events").
    fn response_error(&self, number: u64) -> Vec<u8> {
        let text = |text: Option<&str>| text.map_or_else(|| b"null".to_vec(), quoted);
        let mut out = b"{\"type\":\"error\",\"code\":".to_vec();
        out.extend_from_slice(&text(self.code));
        out.extend_from_slice(b",\"message\":");
        out.extend_from_slice(&quoted(self.message));
        out.extend_from_slice(b",\"param\":");
        out.extend_from_slice(&text(self.param));
        out.extend_from_slice(format!(",\"sequence_number\":{number}}}").as_bytes());
        out
    }

    fn openai(&self) -> ErrorBody<'_> {
        ErrorBody { message: self.message, kind: self.kind, param: self.param, code: self.code }
    }

    /// `{"type":"error","error":{"type","message"},"request_id"}` (docs.anthropic.com, "Errors"). There is no code and no
    /// field at fault.
    fn anthropic(&self) -> Vec<u8> {
        let kind = anthropic_type(self.status).as_bytes();
        let mut out = [b"{\"type\":\"error\",\"error\":{\"type\":\"", kind, b"\",\"message\":"].concat();
        out.extend_from_slice(&quoted(self.message));
        out.push(b'}');
        if let Some(id) = self.request_id {
            out.extend_from_slice(b",\"request_id\":");
            out.extend_from_slice(&quoted(id));
        }
        out.push(b'}');
        out
    }
}

/// The number of the response event that follows these.
fn number_behind(before: &Bytes) -> u64 {
    let number = |data: Bytes| Json::parse(&data).ok()?.get("sequence_number")?.as_u64();
    sse::events(before).filter_map(number).last().map_or(0, |last| last.saturating_add(1))
}

/// Anthropic's `error.type` for a status.
const fn anthropic_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 | 529 => "overloaded_error",
        504 => "timeout_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILURE: Failure<'static> = Failure {
        status: 404,
        message: "There is no \"m\".",
        kind: "invalid_request_error",
        param: Some("model"),
        code: Some("model_not_found"),
        request_id: Some("req_1"),
    };

    #[test]
    fn openai_callers_read_type_param_and_code() {
        let body = r#"{"error":{"message":"There is no \"m\".","type":"invalid_request_error","param":"model","code":"model_not_found"}}"#;
        assert_eq!(FAILURE.body(Api::Chat), body);
        let none = Bytes::new();
        assert_eq!(FAILURE.event(Api::Completions, &none), format!("data: {body}\n\n"));
        let flat = r#"{"type":"error","code":"model_not_found","message":"There is no \"m\".","param":"model","sequence_number":0}"#;
        assert_eq!(FAILURE.event(Api::Responses, &none), format!("event: error\ndata: {flat}\n\n"));
    }

    #[test]
    fn the_error_event_of_a_response_has_the_number_behind_the_last_one() {
        let before = "event: a\ndata: {\"type\":\"a\",\"sequence_number\":6}\n\n\
                      event: b\ndata: {\"type\":\"b\",\"sequence_number\":7}\n\n: ping\n\n";
        let event = FAILURE.event(Api::Responses, &Bytes::from_static(before.as_bytes()));
        assert!(event.ends_with(b",\"sequence_number\":8}\n\n"), "{event:?}");
        let last = Bytes::from(format!("data: {{\"sequence_number\":{}}}\n\n", u64::MAX));
        assert!(FAILURE.event(Api::Responses, &last).ends_with(format!("{}}}\n\n", u64::MAX).as_bytes()));
    }

    #[test]
    fn anthropic_callers_read_a_type_by_the_status_and_the_request_id() {
        let body = r#"{"type":"error","error":{"type":"not_found_error","message":"There is no \"m\"."},"request_id":"req_1"}"#;
        assert_eq!(FAILURE.body(Api::CountTokens), body);
        assert_eq!(FAILURE.event(Api::Messages, &Bytes::new()), format!("event: error\ndata: {body}\n\n"));
        let cut = Failure { status: 502, request_id: None, message: "Cut.", ..FAILURE };
        assert_eq!(cut.body(Api::Messages), r#"{"type":"error","error":{"type":"api_error","message":"Cut."}}"#);
    }
}
