//! Which headers cross the gateway, in each direction.
//!
//! Both directions pass what they do not know: a field that a provider invents tomorrow works without a release of
//! ours. What is taken out is taken out for a reason: hop-by-hop fields (RFC 9110 §7.6.1), credentials and cookies that
//! are not for the other side, the gateway's own vocabulary, statements about lengths, encodings and origins that would
//! not be true on the other side.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// A caller's headers as a provider may see them. Made by [`filter_request_headers`] only, so that forgetting to filter
/// does not compile.
#[derive(Debug, Clone, Default)]
pub struct RequestHeaders(HeaderMap);

impl RequestHeaders {
    /// Sets a header of the gateway's own making.
    pub fn insert(&mut self, name: HeaderName, value: HeaderValue) {
        self.0.insert(name, value);
    }

    /// The headers.
    pub fn as_map(&self) -> &HeaderMap {
        &self.0
    }
}

/// A caller's headers without those that are not for a provider.
///
/// Taken out: hop-by-hop fields and those that Connection names, Host, Content-Length, Content-Encoding and digests
/// (they are set anew for the body that is really sent), Accept-Encoding (the gateway reads what comes back), Expect (the
/// body has been received), every credential and Cookie, the wishes meant for us, and the client addresses that
/// proxies before us noted. `traceparent` passes unchanged.
pub fn filter_request_headers(caller: &HeaderMap) -> RequestHeaders {
    let named = named_by_connection(caller);
    let keep = |name: &HeaderName| !is_hop_by_hop(name, &named) && !is_not_for_a_provider(name);
    RequestHeaders(caller.iter().filter(|(name, _)| keep(name)).map(|(n, v)| (n.clone(), v.clone())).collect())
}

/// A provider's headers without those that are not for the caller.
///
/// Its limits and its request id are renamed (`x-upstream-ratelimit-*`, `x-upstream-request-id`), since ours stand
/// beside them. Retry-After passes. Lengths and encodings are set by whoever writes the body; caching directives are
/// ignored by contract; Set-Cookie, CORS and transport policies speak about the provider's own origin.
pub fn filter_response_headers(provider: &HeaderMap) -> HeaderMap {
    let named = named_by_connection(provider);
    let mut kept = HeaderMap::with_capacity(provider.keys_len());
    for (name, value) in provider {
        if is_hop_by_hop(name, &named) || is_not_for_a_caller(name) {
            continue;
        }
        kept.append(renamed(name), value.clone());
    }
    kept
}

/// The field names listed in Connection, lower case.
fn named_by_connection(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(|name| name.trim().to_ascii_lowercase()).collect()
}

fn is_hop_by_hop(name: &HeaderName, named: &[String]) -> bool {
    let name = name.as_str();
    matches!(name, "connection" | "keep-alive" | "te" | "trailer" | "transfer-encoding" | "upgrade" | "http2-settings")
        || name.starts_with("proxy-")
        || named.iter().any(|named| named == name)
}

fn is_about_the_body(name: &str) -> bool {
    matches!(name, "content-length" | "content-encoding" | "content-digest" | "repr-digest" | "digest" | "content-md5")
}

fn is_not_for_a_provider(name: &HeaderName) -> bool {
    let name = name.as_str();
    is_about_the_body(name)
        || matches!(name, "host" | "expect" | "accept-encoding" | "cache-control" | "pragma")
        || matches!(name, "authorization" | "cookie" | "x-api-key" | "api-key" | "x-goog-api-key")
        || matches!(name, "forwarded" | "x-real-ip" | "via")
        || ["x-cache-", "x-forwarded-", "x-signet-", "lineage-"].iter().any(|prefix| name.starts_with(prefix))
}

fn is_not_for_a_caller(name: &HeaderName) -> bool {
    let name = name.as_str();
    is_about_the_body(name)
        || matches!(name, "cache-control" | "expires" | "pragma" | "age" | "vary" | "cache-status" | "x-cache")
        || matches!(
            name,
            "date" | "server-timing" | "via" | "set-cookie" | "set-cookie2" | "alt-svc" | "nel" | "report-to"
        )
        || matches!(name, "strict-transport-security" | "clear-site-data")
        || ["x-cache-", "x-upstream-", "x-signet-", "lineage-", "access-control-"].iter().any(|p| name.starts_with(p))
}

fn renamed(name: &HeaderName) -> HeaderName {
    let renamed = match name.as_str() {
        "x-request-id" => return HeaderName::from_static("x-upstream-request-id"),
        other => other.strip_prefix("x-ratelimit-").map(|rest| format!("x-upstream-ratelimit-{rest}")),
    };
    renamed.map_or_else(|| name.clone(), |name| HeaderName::try_from(name).expect("a prefix keeps a name a name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines.iter().map(|&(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v))).collect()
    }

    #[track_caller]
    fn assert_is(map: &HeaderMap, expected: &[(&'static str, &'static str)]) {
        let lines = |map: &HeaderMap| {
            let mut lines: Vec<_> = map.iter().map(|(n, v)| format!("{n}: {}", v.to_str().expect("text"))).collect();
            lines.sort();
            lines
        };
        assert_eq!(lines(map), lines(&headers(expected)));
    }

    #[test]
    fn a_provider_sees_the_callers_end_to_end_headers_and_nothing_else() {
        let caller = headers(&[
            ("accept", "application/json"),
            ("accept-encoding", "gzip, br"),
            ("api-key", "gw-2"),
            ("authorization", "Bearer gw-key"),
            ("cache-control", "no-cache"),
            ("connection", "keep-alive, X-Internal-Hop"),
            ("content-digest", "sha-256=:AAAA:"),
            ("content-encoding", "identity"),
            ("content-length", "12"),
            ("content-type", "application/json"),
            ("cookie", "session=1"),
            ("expect", "100-continue"),
            ("forwarded", "for=203.0.113.7"),
            ("host", "gateway.internal"),
            ("http2-settings", "AAMAAABkAAQ"),
            ("idempotency-key", "abc"),
            ("keep-alive", "timeout=5"),
            ("lineage-want", "sse-event"),
            ("openai-organization", "org-1"),
            ("pragma", "no-cache"),
            ("proxy-authorization", "Basic eA=="),
            ("proxy-connection", "keep-alive"),
            ("te", "trailers"),
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            ("tracestate", "a=1"),
            ("trailer", "x-sum"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("user-agent", "sdk/1.0"),
            ("x-api-key", "gw-3"),
            ("x-cache-mode", "semantic"),
            ("x-forwarded-for", "203.0.113.7"),
            ("x-internal-hop", "1"),
            ("x-real-ip", "203.0.113.7"),
            ("x-something-new", "passes"),
        ]);
        assert_is(
            filter_request_headers(&caller).as_map(),
            &[
                ("accept", "application/json"),
                ("content-type", "application/json"),
                ("idempotency-key", "abc"),
                ("openai-organization", "org-1"),
                ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
                ("tracestate", "a=1"),
                ("user-agent", "sdk/1.0"),
                ("x-something-new", "passes"),
            ],
        );
    }

    #[test]
    fn a_caller_sees_the_providers_limits_and_id_under_names_of_their_own() {
        let provider = headers(&[
            ("access-control-allow-origin", "*"),
            ("age", "3"),
            ("alt-svc", "h3=\":443\""),
            ("cache-control", "max-age=60"),
            ("cache-status", "signet; hit"),
            ("cf-ray", "1"),
            ("connection", "close, x-hop"),
            ("content-encoding", "identity"),
            ("content-length", "2"),
            ("content-type", "text/event-stream"),
            ("date", "Mon, 30 Nov 2026 12:00:00 GMT"),
            ("lineage-id", "forged"),
            ("openai-processing-ms", "12"),
            ("retry-after", "7"),
            ("retry-after-ms", "6500"),
            ("set-cookie", "__cf=1"),
            ("strict-transport-security", "max-age=1"),
            ("transfer-encoding", "chunked"),
            ("x-cache", "EXACT"),
            ("x-hop", "1"),
            ("x-ratelimit-limit-requests", "60"),
            ("x-ratelimit-reset-tokens", "20ms"),
            ("x-request-id", "req_1"),
            ("x-should-retry", "true"),
            ("x-upstream-request-id", "forged"),
        ]);
        assert_is(
            &filter_response_headers(&provider),
            &[
                ("cf-ray", "1"),
                ("content-type", "text/event-stream"),
                ("openai-processing-ms", "12"),
                ("retry-after", "7"),
                ("retry-after-ms", "6500"),
                ("x-should-retry", "true"),
                ("x-upstream-ratelimit-limit-requests", "60"),
                ("x-upstream-ratelimit-reset-tokens", "20ms"),
                ("x-upstream-request-id", "req_1"),
            ],
        );
    }

    #[test]
    fn repeated_headers_keep_all_their_values() {
        let mut caller = headers(&[("x-tag", "a")]);
        caller.append("x-tag", HeaderValue::from_static("b"));
        assert_is(filter_request_headers(&caller).as_map(), &[("x-tag", "a"), ("x-tag", "b")]);
        assert_is(&filter_response_headers(&caller), &[("x-tag", "a"), ("x-tag", "b")]);
    }

    #[test]
    fn each_request_keeps_its_own_traceparent() {
        let first = headers(&[("traceparent", "00-11111111111111111111111111111111-1111111111111111-01")]);
        let second = headers(&[("traceparent", "00-22222222222222222222222222222222-2222222222222222-01")]);
        assert_eq!(filter_request_headers(&first).as_map(), &first);
        assert_eq!(filter_request_headers(&second).as_map(), &second);
    }
}
