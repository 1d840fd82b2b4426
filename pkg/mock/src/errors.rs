//! Refusals, in the shape of the vendor.

use http::StatusCode;

use crate::route::Vendor;
use crate::template::{fixture, json_string};

fixture!(OPENAI, Template, "error.json");
fixture!(AZURE, Template, "azure_error.json");
fixture!(ANTHROPIC, Template, "anthropic_error.json");

/// A refusal; what a vendor's shape has no room for is left out.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) kind: &'static str,
    pub(crate) message: String,
    pub(crate) param: Option<&'static str>,
    pub(crate) code: Option<&'static str>,
}

impl Refusal {
    pub(crate) fn bad_request(message: impl Into<String>, param: Option<&'static str>) -> Self {
        let (status, message) = (StatusCode::BAD_REQUEST, message.into());
        Self { status, kind: "invalid_request_error", message, param, code: None }
    }

    pub(crate) fn wrong_key() -> Self {
        let code = Some("invalid_api_key");
        Self { status: StatusCode::UNAUTHORIZED, code, ..Self::bad_request("Incorrect API key provided.", None) }
    }

    pub(crate) fn unknown_url(method: &http::Method, path: &str) -> Self {
        let refusal = Self::bad_request(format!("Invalid URL ({method} {path})"), None);
        Self { status: StatusCode::NOT_FOUND, code: Some("unknown_url"), ..refusal }
    }

    /// What a scripted status says.
    pub(crate) fn scripted(status: StatusCode) -> Self {
        let (kind, code) = match status.as_u16() {
            401 => ("invalid_request_error", Some("invalid_api_key")),
            429 => ("requests", Some("rate_limit_exceeded")),
            400..=499 => ("invalid_request_error", None),
            _ => ("server_error", None),
        };
        Self { status, kind, message: format!("Mock error {}.", status.as_u16()), param: None, code }
    }

    /// `param` and `code` are JSON null where not given. Azure's own gateway answers with a shape of its own where the
    /// model was not reached.
    pub(crate) fn body(&self, vendor: Vendor, request: &str) -> Vec<u8> {
        let or_null = |value: Option<&str>| value.map_or_else(|| "null".to_owned(), json_string);
        let message = json_string(&self.message);
        let filled = match (vendor, self.status.as_u16()) {
            (Vendor::Anthropic, status) => {
                let kind = anthropic_kind(status);
                ANTHROPIC.filled(&[("type", kind), ("message", &message), ("request", request)], &[])
            }
            (Vendor::Azure, status @ (401 | 404 | 429)) => {
                AZURE.filled(&[("code", &json_string(&status.to_string())), ("message", &message)], &[])
            }
            _ => {
                let (param, code) = (or_null(self.param), or_null(self.code));
                let values = [("message", message.as_str()), ("type", self.kind), ("param", &param), ("code", &code)];
                OPENAI.filled(&values, &[])
            }
        };
        filled.into_bytes()
    }
}

/// As listed in the vendor's documentation of errors.
fn anthropic_kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        _ => "api_error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_said_in_the_vendors_bytes() {
        let said = |status, vendor| {
            let status = StatusCode::from_u16(status).expect("three digits");
            String::from_utf8(Refusal::scripted(status).body(vendor, "req_1")).expect("UTF-8")
        };
        assert_eq!(
            said(529, Vendor::Anthropic),
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Mock error 529."},"request_id":"req_1"}"#
        );
        assert_eq!(
            said(429, Vendor::OpenAi),
            r#"{"error":{"message":"Mock error 429.","type":"requests","param":null,"code":"rate_limit_exceeded"}}"#
        );
        assert_eq!(said(429, Vendor::Azure), r#"{"error":{"code":"429","message":"Mock error 429."}}"#);
    }
}
