//! What is wrong with a head that hyper takes.
//!
//! hyper refuses what it cannot read (names with spaces, folded lines, lengths that differ) and reads a body by its chunks
//! where a length stands beside them, after which it ends the connection (RFC 9112 §6.3). What is left is what could be read
//! in another way by whatever stands before us, and what RFC 9110 and 9112 have a server refuse.

use crate::body::Inbound;
use crate::pace::Patience;
use axum::body::Body;
use axum::response::Response;
use http::header::{CONNECTION, EXPECT, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Request, StatusCode, Version};

/// Bytes of a head.
pub(crate) const HEAD_MAX: usize = 64 << 10;

/// The status with which a request is refused for its head alone; none for a sound one.
pub(crate) fn flaw<B>(request: &Request<B>) -> Option<StatusCode> {
    let headers = request.headers();
    if head_size(request) > HEAD_MAX {
        return Some(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    }
    if !names_one_host(headers, request.version()) {
        return Some(StatusCode::BAD_REQUEST);
    }
    // A coding that is not undone here leaves another body than was sent (RFC 9112 §6.1).
    if !only(headers, &TRANSFER_ENCODING, b"chunked") {
        return Some(StatusCode::NOT_IMPLEMENTED);
    }
    // RFC 9110 §10.1.1.
    (!only(headers, &EXPECT, b"100-continue")).then_some(StatusCode::EXPECTATION_FAILED)
}

/// As hyper refuses what it cannot read: without a body, and with the end of the connection.
pub(crate) fn refused(status: StatusCode, request: Request<Body>, patience: Patience) -> Response {
    let (head, body) = request.into_parts();
    // Thrown away behind the refusal: its sender may not look before it has sent everything.
    drop(Inbound::new(&head.headers, body, 0, patience));
    let mut refusal = Response::new(Body::empty());
    *refusal.status_mut() = status;
    refusal.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    refusal
}

/// hyper's bound is on what it has read before it looks whether the head is whole, which may be twice as much.
fn head_size<B>(request: &Request<B>) -> usize {
    let fields = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    fields.sum::<usize>() + request.uri().path_and_query().map_or(0, |target| target.as_str().len())
}

/// RFC 9112 §3.2: one `Host`, and a host in it or nothing. HTTP/1.0 may do without.
fn names_one_host(headers: &HeaderMap, version: Version) -> bool {
    let mut named = headers.get_all(HOST).iter();
    match (named.next(), named.next()) {
        (None, _) => version != Version::HTTP_11,
        (Some(host), None) => host.as_bytes().iter().all(|byte| may_stand_in_a_host(*byte)),
        (Some(_), Some(_)) => false,
    }
}

/// `host [ ":" port ]` of RFC 3986 §3.2.2: no user, no path, no list of several.
const fn may_stand_in_a_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b':' | b'[' | b']' | b'%')
}

/// Whether the field is absent, or there once with this value and nothing else.
fn only(headers: &HeaderMap, name: &http::HeaderName, wanted: &[u8]) -> bool {
    let mut values = headers.get_all(name).iter();
    values.next().is_none_or(|value| value.as_bytes().eq_ignore_ascii_case(wanted)) && values.next().is_none()
}
