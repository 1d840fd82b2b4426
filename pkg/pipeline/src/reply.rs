//! What goes back to the caller: status, headers, body.

use crate::exchange::State;
use crate::head::Head;
use crate::in_band::InBand;
use crate::live::Live;
use crate::pipeline::Face;
use crate::poured::Poured;
use crate::recorder::Attested;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{AGE, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, TRAILER};
use http::{HeaderMap, HeaderName, HeaderValue};
use sha2::{Digest, Sha256};
use signet_types::LineageId;
use std::time::Duration;

/// An answer, whole or live.
#[derive(Debug)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Headers, without lengths.
    pub headers: HeaderMap,
    /// The body.
    pub body: ReplyBody,
}

impl Reply {
    /// A refusal that no record stands for: it carries no Lineage-Id.
    pub fn unrecorded(head: &Head, face: Face) -> Self {
        let mut headers = HeaderMap::with_capacity(8);
        set(&mut headers, names::X_REQUEST_ID, head.request_id.as_str());
        refusal(&mut headers, head, &face);
        Self { status: face.status, headers, body: ReplyBody::Whole(face.body) }
    }

    /// With the `Content-Digest` of a whole body. That of a stream is known at its end: it is a trailer.
    #[must_use]
    pub fn digested(mut self) -> Self {
        if let ReplyBody::Whole(body) = &self.body {
            self.headers.insert(names::CONTENT_DIGEST, content_digest(Sha256::new_with_prefix(body)));
        }
        self
    }
}

/// `Content-Digest` (RFC 9530 §2) of what is sent. The record's commitment cannot give it: a secret stands before
/// the body in its hash.
fn content_digest(sent: Sha256) -> HeaderValue {
    let text = format!("sha-256=:{}:", STANDARD.encode(sent.finalize()));
    HeaderValue::from_str(&text).expect("base64 is visible ASCII")
}

/// Names what [`trailers`] will bring.
pub(crate) fn announce_trailers(headers: &mut HeaderMap) {
    fixed(headers, TRAILER, "lineage-receipt, content-digest");
}

/// What follows the body `sent`: the receipt, where a record was written, and the digest.
pub(crate) fn trailers(attested: Option<&Attested>, sent: Sha256) -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(2);
    receipt(&mut trailers, attested);
    trailers.insert(names::CONTENT_DIGEST, content_digest(sent));
    trailers
}

/// An answer's body.
#[derive(Debug)]
pub enum ReplyBody {
    /// At hand.
    Whole(Bytes),
    /// As it comes; its record is written at its end.
    Live(Box<Live>),
    /// As it comes, too large to be held; its record is written at its end.
    Poured(Box<Poured>),
    /// A stream at hand.
    Replay {
        /// All events.
        bytes: Bytes,
        /// What follows them, for a caller that takes trailers.
        trailers: Option<HeaderMap>,
    },
}

/// Header names of the contract.
pub(crate) mod names {
    use http::HeaderName;
    pub(crate) const X_CACHE: HeaderName = HeaderName::from_static("x-cache");
    pub(crate) const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
    pub(crate) const X_CACHE_SIMILARITY: HeaderName = HeaderName::from_static("x-cache-similarity");
    pub(crate) const X_CACHE_SOURCE: HeaderName = HeaderName::from_static("x-cache-source");
    pub(crate) const LINEAGE_ID: HeaderName = HeaderName::from_static("lineage-id");
    pub(crate) const LINEAGE_RECEIPT: HeaderName = HeaderName::from_static("lineage-receipt");
    pub(crate) const LINEAGE_OPENING: HeaderName = HeaderName::from_static("lineage-opening");
    pub(crate) const CONTENT_DIGEST: HeaderName = HeaderName::from_static("content-digest");
    pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
    pub(crate) const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");
    pub(crate) const ATTEMPTS: HeaderName = HeaderName::from_static("x-signet-attempts");
    pub(crate) const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
    pub(crate) const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
    pub(crate) const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
}

/// Writes a header from text that is visible ASCII by construction; anything else is left out rather than sent broken.
pub(crate) fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

pub(crate) fn fixed(headers: &mut HeaderMap, name: HeaderName, value: &'static str) {
    headers.insert(name, HeaderValue::from_static(value));
}

/// Headers that every answer carries, known before its record.
pub(crate) fn common(headers: &mut HeaderMap, state: &State, request_id: &str, stream: bool) {
    if state.x_cache != "NONE" {
        fixed(headers, names::X_CACHE, state.x_cache);
    }
    set(headers, names::LINEAGE_ID, &state.id.to_string());
    set(headers, names::X_REQUEST_ID, request_id);
    set(headers, names::LINEAGE_OPENING, &state.opening().to_string());
    if let Some(tried) = &state.tried {
        headers.insert(names::ATTEMPTS, tried.clone());
    }
    set(headers, names::SERVER_TIMING, &state.timing.header(state.elapsed()));
    if stream {
        fixed(headers, CONTENT_TYPE, "text/event-stream; charset=utf-8");
        fixed(headers, CACHE_CONTROL, "no-cache");
        fixed(headers, names::X_ACCEL_BUFFERING, "no");
    } else {
        fixed(headers, CACHE_CONTROL, "private, no-store");
    }
}

/// What a refusal says beside its body.
pub(crate) fn refusal(headers: &mut HeaderMap, head: &Head, face: &Face) {
    fixed(headers, CONTENT_TYPE, "application/json");
    if let Some(retry) = face.should_retry {
        fixed(headers, names::SHOULD_RETRY, if retry { "true" } else { "false" });
    }
    if let Some(wait) = face.retry_after {
        let (seconds, millis) = spread(wait, head.id);
        set(headers, RETRY_AFTER, &seconds.to_string());
        set(headers, names::RETRY_AFTER_MS, &millis.to_string());
    }
}

/// A wait in whole seconds and in milliseconds. Never less than what is due: a client that obeys must not be refused again
/// for coming too early. Up to a tenth more, by the random bits of the id, so that those who were refused together do not
/// come back together.
fn spread(wait: Duration, id: LineageId) -> (u64, u64) {
    let due = u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX).max(1);
    let permille = id.as_uuid().as_u64_pair().1 % 101;
    let millis = due.saturating_add(due.saturating_mul(permille) / 1000);
    ((millis / 1000).max(due.div_ceil(1000)), millis)
}

/// The receipt of a record that was written before the head.
pub(crate) fn receipt(headers: &mut HeaderMap, attested: Option<&Attested>) {
    if let Some(attested) = attested {
        set(headers, names::LINEAGE_RECEIPT, &attested.receipt);
    }
}

/// A stored answer as a stream, behind its record.
pub(crate) fn replayed(
    mut headers: HeaderMap,
    (events, in_band): (Bytes, InBand),
    head: &Head,
    attested: Option<&Attested>,
) -> Reply {
    let bytes = in_band.within(events, attested);
    let trailers = head.takes_trailers.then(|| trailers(attested, Sha256::new_with_prefix(&bytes)));
    if trailers.is_some() {
        announce_trailers(&mut headers);
    }
    Reply { status: 200, headers, body: ReplyBody::Replay { bytes, trailers } }
}

/// What stands on a hit (RFC 9211 §2).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hit {
    pub(crate) detail: &'static str,
    pub(crate) similarity: f32,
    pub(crate) source: LineageId,
    pub(crate) age_ms: u64,
    pub(crate) ttl_ms: u64,
    /// Since it ended.
    pub(crate) past_ms: u64,
}

pub(crate) fn hit(headers: &mut HeaderMap, hit: &Hit) {
    let (detail, ttl, past) = (hit.detail, hit.ttl_ms / 1000, hit.past_ms / 1000);
    let sign = if past > 0 { "-" } else { "" };
    set(headers, names::CACHE_STATUS, &format!("signet; hit; detail={detail}; ttl={sign}{}", ttl.max(past)));
    set(headers, AGE, &(hit.age_ms / 1000).to_string());
    // Rounded down, so that the figure never claims more than was found.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and a thousand")]
    let thousandths = (hit.similarity.clamp(0.0, 1.0) * 1000.0) as u32;
    set(headers, names::X_CACHE_SIMILARITY, &format!("{}.{:03}", thousandths / 1000, thousandths % 1000));
    set(headers, names::X_CACHE_SOURCE, &hit.source.to_string());
}

/// What stands on an answer that went upstream.
pub(crate) fn forwarded(x_cache: &str, stored: bool) -> &'static str {
    match (x_cache, stored) {
        ("BYPASS", _) => "signet; fwd=bypass",
        ("REFRESH", true) => "signet; fwd=request; stored",
        ("REFRESH", false) => "signet; fwd=request",
        ("COALESCED", _) => "signet; fwd=miss; collapsed",
        (_, true) => "signet; fwd=miss; stored",
        (_, false) => "signet; fwd=miss",
    }
}

/// What stands on an answer of which a part went upstream (RFC 9211 §2.2).
pub(crate) fn forwarded_part(x_cache: &str, stored: bool) -> &'static str {
    match (x_cache, stored) {
        ("COALESCED", _) => "signet; fwd=partial; collapsed",
        (_, true) => "signet; fwd=partial; stored",
        (_, false) => "signet; fwd=partial",
    }
}

/// Where the time went, for `Server-Timing`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Timing {
    pub(crate) cache: Duration,
    pub(crate) upstream: Duration,
}

impl Timing {
    fn header(&self, total: Duration) -> String {
        let ms = |d: Duration| (d.as_micros() / 1000, d.as_micros() % 1000);
        let (cache, upstream, own) = (ms(self.cache), ms(self.upstream), ms(total.saturating_sub(self.upstream)));
        format!(
            "cache;dur={}.{:03}, upstream;dur={}.{:03}, signet;dur={}.{:03}",
            cache.0, cache.1, upstream.0, upstream.1, own.0, own.1
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_status_tells_why_the_answer_was_fetched() {
        assert_eq!(forwarded("MISS", true), "signet; fwd=miss; stored");
        assert_eq!(forwarded("BYPASS", false), "signet; fwd=bypass");
        assert_eq!(forwarded("REFRESH", true), "signet; fwd=request; stored");
        assert_eq!(forwarded("COALESCED", false), "signet; fwd=miss; collapsed");
    }

    #[test]
    fn a_wait_is_never_shortened_and_at_most_a_tenth_longer() {
        let ids: Vec<_> = (0..200).map(LineageId::generate).collect();
        let waits = |ms| ids.iter().map(move |id| spread(Duration::from_millis(ms), *id)).collect::<Vec<_>>();
        assert!(waits(20).iter().all(|(seconds, millis)| *seconds == 1 && (20..=22).contains(millis)));
        assert!(waits(1000).iter().all(|(seconds, millis)| *seconds == 1 && (1000..=1100).contains(millis)));
        let long = waits(60_000);
        assert!(long.iter().all(|(s, ms)| (60..=66).contains(s) && (60_000..=66_000).contains(ms)), "{long:?}");
        assert!(long.iter().any(|wait| wait.0 != long[0].0), "they do not come back together");
        assert_eq!(spread(Duration::ZERO, ids[0]), (1, 1));
        for wait in [Duration::from_nanos(1), Duration::from_nanos(20_000_001), Duration::new(59, 999_999_999)] {
            let (seconds, millis) = spread(wait, ids[0]);
            assert!(Duration::from_millis(millis) >= wait && Duration::from_secs(seconds) >= wait, "{wait:?}");
        }
    }

    #[test]
    fn a_shown_similarity_never_rounds_up() {
        let mut headers = HeaderMap::new();
        let source = LineageId::generate(0);
        hit(
            &mut headers,
            &Hit { detail: "vector", similarity: 0.9799, source, age_ms: 1999, ttl_ms: 5500, past_ms: 0 },
        );
        assert_eq!(headers["x-cache-similarity"], "0.979");
        assert_eq!(headers["age"], "1");
        assert_eq!(headers["cache-status"], "signet; hit; detail=vector; ttl=5");
    }
}
