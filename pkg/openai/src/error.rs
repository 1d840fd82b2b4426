//! Errors in OpenAI's shape.

use crate::json::{JsonError, write_str};
use bytes::Bytes;

/// The caller's body cannot be accepted: HTTP 400, `invalid_request_error`. The text is meant for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BadRequest {
    /// What is wrong, in a sentence; never quotes more of the body than a key.
    pub message: String,
    /// Which field, such as `messages[0]`.
    pub param: Option<String>,
    /// OpenAI's code, such as `invalid_type`.
    pub code: Option<&'static str>,
}

impl BadRequest {
    /// It is not JSON.
    pub fn syntax(error: &JsonError) -> Self {
        let message = format!("We could not parse the JSON body of your request: {error}.");
        Self { message, param: None, code: None }
    }

    /// A field is not there.
    pub fn missing(param: &str) -> Self {
        Self::about(param, "missing_required_parameter", format!("Missing required parameter: '{param}'."))
    }

    /// A field is of another type.
    pub fn wrong_type(param: &str, expected: &str) -> Self {
        Self::about(param, "invalid_type", format!("Invalid type for '{param}': expected {expected}."))
    }

    /// A field has a value that is not allowed.
    pub fn wrong_value(param: &str, expected: &str) -> Self {
        Self::about(param, "invalid_value", format!("Invalid value for '{param}': expected {expected}."))
    }

    /// A key occurs twice. `place` is the object, empty for the body itself; `key` is cut, since it may be as long as the body.
    pub fn duplicate(place: &str, key: &str) -> Self {
        let key: String = key.chars().take(64).collect();
        let param = if place.is_empty() { key } else { format!("{place}.{key}") };
        Self::about(&param, "duplicate_key", format!("Duplicate key: '{param}' occurs more than once."))
    }

    /// What is wrong with `param`.
    pub fn about(param: &str, code: &'static str, message: String) -> Self {
        Self { message, param: Some(param.to_owned()), code: Some(code) }
    }

    /// The body to answer with.
    pub fn body(&self) -> ErrorBody<'_> {
        ErrorBody {
            message: &self.message,
            kind: "invalid_request_error",
            param: self.param.as_deref(),
            code: self.code,
        }
    }
}

/// `{"error":{"message","type","param","code"}}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorBody<'a> {
    /// For people.
    pub message: &'a str,
    /// `type`: `invalid_request_error`, `server_error`, ..
    pub kind: &'a str,
    /// The field at fault.
    pub param: Option<&'a str>,
    /// For programs.
    pub code: Option<&'a str>,
}

impl ErrorBody<'_> {
    /// The JSON body.
    pub fn to_json(&self) -> Bytes {
        let mut out = Vec::with_capacity(96 + self.message.len());
        self.write(&mut out);
        out.into()
    }

    /// The same as an event, for a stream whose status is already gone. No `[DONE]` may follow it.
    pub fn to_event(&self) -> Bytes {
        let mut out = Vec::with_capacity(104 + self.message.len());
        out.extend_from_slice(b"data: ");
        self.write(&mut out);
        out.extend_from_slice(b"\n\n");
        out.into()
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"error\":{\"message\":");
        write_str(self.message, out);
        out.extend_from_slice(b",\"type\":");
        write_str(self.kind, out);
        for (key, value) in [("param", self.param), ("code", self.code)] {
            out.push(b',');
            write_str(key, out);
            out.push(b':');
            match value {
                Some(value) => write_str(value, out),
                None => out.extend_from_slice(b"null"),
            }
        }
        out.extend_from_slice(b"}}");
    }
}
