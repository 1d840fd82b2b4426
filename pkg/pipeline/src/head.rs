//! What the pipeline knows of a request before its body.

use http::HeaderMap;
use signet_dialect::Api;
use signet_types::{LineageId, RequestId};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The head of a request, as the HTTP edge hands it in.
#[derive(Debug)]
pub struct Head {
    /// The id that the answer will carry.
    pub id: LineageId,
    /// The caller's request id, or one equal to `id`.
    pub request_id: RequestId,
    /// The API whose path was asked, or whose callers it concerns: errors are said in its words.
    pub api: Api,
    /// The query of the URL, if it has one that is not empty.
    pub query: Option<String>,
    /// The TCP peer.
    pub peer: IpAddr,
    /// All headers as received.
    pub headers: HeaderMap,
    /// When the head had arrived: milliseconds since the Unix epoch.
    pub received_ms: u64,
    /// The same moment on the monotonic clock.
    pub received: Instant,
    /// Whether the caller takes trailers (`TE: trailers`).
    pub takes_trailers: bool,
}

/// Why a body did not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFault {
    /// Over this many bytes.
    TooLarge(u64),
    /// The caller left within it.
    Gone,
    /// The caller stayed and sent nothing for this long.
    Silent(Duration),
    /// Its chunks cannot be told apart.
    Malformed,
}
