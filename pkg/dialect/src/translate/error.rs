//! Errors of providers, said as the caller's API says them.

use crate::Api;
use crate::pivot::Trouble;
use bytes::Bytes;
use signet_openai::ErrorBody;
use signet_openai::wire::Json;

use super::object::Writer;

/// A provider's error of API `from` for a caller who speaks `to`: its status and its body.
///
/// Between APIs of one vendor nothing changes. Otherwise the class of the failure is taken from its type, else from the
/// status; the message is the provider's own. 529, which only one vendor has, becomes 503 for the other's callers.
pub fn translate_error(from: Api, to: Api, status: u16, body: &[u8]) -> (u16, Bytes) {
    if from.is_anthropic() == to.is_anthropic() {
        return (status, Bytes::copy_from_slice(body));
    }
    let tree = Json::parse(body).unwrap_or(Json::Null);
    let error = tree.get("error").unwrap_or(&Json::Null);
    let word = |key: &str| error.get(key).and_then(Json::as_str);
    let told = format!("The provider answered with status {status}.");
    let message = word("message").or_else(|| error.as_str()).unwrap_or(&told);
    let kind = word("type").unwrap_or_default();
    if to.is_anthropic() {
        let trouble = match trouble_of_openai(kind, word("code").unwrap_or_default()) {
            Trouble::Server => of_status(status),
            told => told,
        };
        (status, anthropic_body(trouble, message))
    } else {
        let trouble = match trouble_of_anthropic(kind) {
            Trouble::Server => of_status(status),
            told => told,
        };
        let (kind, code) = openai_type(trouble);
        let status = if status == 529 { 503 } else { status };
        (status, ErrorBody { message, kind, param: None, code }.to_json())
    }
}

fn anthropic_body(trouble: Trouble, message: &str) -> Bytes {
    let mut out = Vec::with_capacity(message.len() + 80);
    let mut body = Writer::object(&mut out);
    body.text("type", "error");
    let mut error = Writer::object(body.key("error"));
    error.text("type", anthropic_type(trouble)).text("message", message);
    error.end();
    body.end();
    out.into()
}

fn of_status(status: u16) -> Trouble {
    match status {
        401 => Trouble::Authentication,
        403 => Trouble::Permission,
        404 => Trouble::NotFound,
        413 => Trouble::TooLarge,
        429 => Trouble::RateLimit,
        408 | 504 => Trouble::Timeout,
        503 | 529 => Trouble::Overloaded,
        400..=499 => Trouble::Invalid,
        _ => Trouble::Server,
    }
}

/// The class of one of Anthropic's types.
pub(crate) fn trouble_of_anthropic(kind: &str) -> Trouble {
    match kind {
        "invalid_request_error" => Trouble::Invalid,
        "authentication_error" => Trouble::Authentication,
        "permission_error" | "billing_error" => Trouble::Permission,
        "not_found_error" => Trouble::NotFound,
        "request_too_large" => Trouble::TooLarge,
        "rate_limit_error" => Trouble::RateLimit,
        "overloaded_error" => Trouble::Overloaded,
        "timeout_error" => Trouble::Timeout,
        _ => Trouble::Server,
    }
}

/// Anthropic's type for a class.
pub(crate) const fn anthropic_type(trouble: Trouble) -> &'static str {
    match trouble {
        Trouble::Invalid => "invalid_request_error",
        Trouble::Authentication => "authentication_error",
        Trouble::Permission => "permission_error",
        Trouble::NotFound => "not_found_error",
        Trouble::TooLarge => "request_too_large",
        Trouble::RateLimit => "rate_limit_error",
        Trouble::Overloaded => "overloaded_error",
        Trouble::Timeout => "timeout_error",
        Trouble::Server => "api_error",
    }
}

/// The class of one of OpenAI's types and codes. Types are coarse, so that a code that is known goes first.
pub(crate) fn trouble_of_openai(kind: &str, code: &str) -> Trouble {
    match (code, kind) {
        ("invalid_api_key", _) | (_, "authentication_error") => Trouble::Authentication,
        ("model_not_found", _) | (_, "not_found_error") => Trouble::NotFound,
        ("rate_limit_exceeded", _) | (_, "rate_limit_error" | "tokens" | "requests" | "rate_limit_exceeded") => {
            Trouble::RateLimit
        }
        ("insufficient_quota", _) | (_, "insufficient_quota") => Trouble::RateLimit,
        (_, "permission_error" | "insufficient_permissions") => Trouble::Permission,
        ("server_overloaded", _) | (_, "service_unavailable_error" | "overloaded_error") => Trouble::Overloaded,
        (_, "timeout" | "timeout_error") => Trouble::Timeout,
        (_, "invalid_request_error") => Trouble::Invalid,
        _ => Trouble::Server,
    }
}

/// OpenAI's type and code for a class.
pub(crate) const fn openai_type(trouble: Trouble) -> (&'static str, Option<&'static str>) {
    match trouble {
        Trouble::Invalid => ("invalid_request_error", None),
        Trouble::Authentication => ("invalid_request_error", Some("invalid_api_key")),
        Trouble::Permission => ("invalid_request_error", Some("insufficient_permissions")),
        Trouble::NotFound => ("invalid_request_error", Some("model_not_found")),
        Trouble::TooLarge => ("invalid_request_error", Some("request_too_large")),
        Trouble::RateLimit => ("rate_limit_error", Some("rate_limit_exceeded")),
        Trouble::Overloaded => ("server_error", Some("server_overloaded")),
        Trouble::Timeout => ("server_error", Some("timeout")),
        Trouble::Server => ("server_error", None),
    }
}
