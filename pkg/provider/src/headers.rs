//! Which headers cross the gateway, in each direction.
//!
//! Towards a provider: first what is for no provider at all is taken out, whoever will answer; then, at the provider,
//! what is not on the list of its kind ([`Forwarding`]). Towards the caller passes what we do not know: a field that a
//! provider invents tomorrow works without a release of ours. What is taken out there is taken out for a reason:
//! hop-by-hop fields (RFC 9110 §7.6.1), cookies, the gateway's own vocabulary, statements about lengths, encodings and
//! origins that would not be true on the other side.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use signet_dialect::kinds::{Kind, is_bound_to_one_provider, is_never_forwarded};

const UPSTREAM_REQUEST_ID: HeaderName = HeaderName::from_static("x-upstream-request-id");

/// A caller's headers as some provider may see them. Made by [`filter_request_headers`] only, so that forgetting to filter
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
    let keep =
        |name: &HeaderName| !is_never_forwarded(name.as_str()) && !named.iter().any(|named| named == name.as_str());
    RequestHeaders(caller.iter().filter(|(name, _)| keep(name)).map(|(n, v)| (n.clone(), v.clone())).collect())
}

/// A provider's headers without those that are not for the caller.
///
/// Its limits and its request id, which stands in `id`, are renamed (`x-upstream-ratelimit-*`, `x-upstream-request-id`),
/// since ours stand beside them. Retry-After passes. Lengths and encodings are set by whoever writes the body; caching directives are
/// ignored by contract; Set-Cookie, CORS and transport policies speak about the provider's own origin.
pub fn filter_response_headers(provider: &HeaderMap, id: &str) -> HeaderMap {
    let named = named_by_connection(provider);
    let mut kept = HeaderMap::with_capacity(provider.keys_len() / 2); // about as many pass
    let id = if provider.contains_key(id) { id } else { "x-request-id" };
    for (name, value) in provider {
        if is_hop_by_hop(name, &named) || is_not_for_a_caller(name) {
            continue;
        }
        match name.as_str() {
            name if name == id => kept.insert(UPSTREAM_REQUEST_ID, value.clone()),
            "x-request-id" => None, // another name for what stands in `id`; ours would stand beside it
            _ => {
                kept.append(renamed(name), value.clone());
                None
            }
        };
    }
    kept
}

/// What one provider may see of a caller's headers, and what it is told beside.
#[derive(Debug, Default)]
pub(crate) struct Forwarding {
    /// Beside what its kind takes.
    pub(crate) more: Vec<HeaderName>,
    /// Sent with every request, in place of what a caller sent.
    pub(crate) fixed: HeaderMap,
}

impl Forwarding {
    pub(crate) fn passes(&self, kind: &dyn Kind, header: &str, fallback: bool) -> bool {
        let named = || self.more.iter().any(|name| name == header) && !(fallback && is_bound_to_one_provider(header));
        !self.fixed.contains_key(header) && (kind.forwards(header, fallback) || named())
    }

    /// The headers of a request, but for the credential.
    pub(crate) fn headers(&self, kind: &dyn Kind, caller: &RequestHeaders, fallback: bool) -> HeaderMap {
        let mut sent = HeaderMap::with_capacity(caller.0.len() + self.fixed.len() + 4);
        for (name, value) in caller.0.iter().filter(|(name, _)| self.passes(kind, name.as_str(), fallback)) {
            sent.append(name.clone(), value.clone());
        }
        for (name, value) in kind.fixed_headers() {
            sent.entry(*name).or_insert(HeaderValue::from_static(value));
        }
        for (name, value) in &self.fixed {
            sent.insert(name.clone(), value.clone());
        }
        sent
    }
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
    let renamed = name.as_str().strip_prefix("x-ratelimit-").map(|rest| format!("x-upstream-ratelimit-{rest}"));
    // None where it has become longer than a name may be.
    renamed.and_then(|renamed| HeaderName::try_from(renamed).ok()).unwrap_or_else(|| name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use signet_dialect::kinds::Anthropic;

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
    fn what_is_for_no_provider_is_taken_out_whoever_will_answer() {
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
            ("x-something-new", "judged later"),
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
                ("x-something-new", "judged later"),
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
            &filter_response_headers(&provider, "x-request-id"),
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
    fn a_name_that_has_no_room_for_ours_passes_as_it_is() {
        let long = HeaderName::try_from(format!("x-ratelimit-{}", "a".repeat(65_520))).expect("a name");
        let provider = HeaderMap::from_iter([(long.clone(), HeaderValue::from_static("1"))]);
        assert!(filter_response_headers(&provider, "x-request-id").contains_key(long));
    }

    #[test]
    fn repeated_headers_keep_all_their_values() {
        let mut caller = headers(&[("x-tag", "a")]);
        caller.append("x-tag", HeaderValue::from_static("b"));
        assert_is(filter_request_headers(&caller).as_map(), &[("x-tag", "a"), ("x-tag", "b")]);
        assert_is(&filter_response_headers(&caller, "x-request-id"), &[("x-tag", "a"), ("x-tag", "b")]);
    }

    #[test]
    fn the_providers_id_is_found_where_its_kind_has_it_and_no_other_id_looks_like_ours() {
        let provider = headers(&[("apim-request-id", "a"), ("x-request-id", "b"), ("request-id", "c")]);
        let seen = |id| filter_response_headers(&provider, id);
        assert_is(&seen("apim-request-id"), &[("x-upstream-request-id", "a"), ("request-id", "c")]);
        assert_is(
            &seen("x-request-id"),
            &[("x-upstream-request-id", "b"), ("apim-request-id", "a"), ("request-id", "c")],
        );
        let usual = headers(&[("x-request-id", "b")]);
        assert_is(&filter_response_headers(&usual, "request-id"), &[("x-upstream-request-id", "b")]);
    }

    #[test]
    fn configured_headers_are_sent_beside_the_list_and_betas_still_reach_no_fallback() {
        let more = ["x-team", "openai-beta"].map(HeaderName::from_static).to_vec();
        let forwarding = Forwarding { more, fixed: headers(&[("x-site", "ours")]) };
        let caller =
            [("x-team", "red"), ("openai-beta", "b"), ("x-site", "theirs"), ("x-else", "1"), ("accept", "*/*")];
        let caller = filter_request_headers(&headers(&caller));
        let anthropic = Anthropic::new("/");
        let sent = |fallback| forwarding.headers(&anthropic, &caller, fallback);
        let always = [("x-team", "red"), ("x-site", "ours"), ("accept", "*/*"), ("anthropic-version", "2023-06-01")];
        assert_is(&sent(true), &always);
        assert_is(&sent(false), &[&always[..], &[("openai-beta", "b")]].concat());
        let passes = |header| forwarding.passes(&anthropic, header, false);
        assert_eq!((passes("x-team"), passes("x-site")), (true, false), "the gateway's own stands in its place");
    }

    #[test]
    fn the_callers_version_of_an_api_stands_before_the_usual_one() {
        let caller = filter_request_headers(&headers(&[("anthropic-version", "2099-01-01")]));
        let sent = Forwarding::default().headers(&Anthropic::new("/"), &caller, true);
        assert_is(&sent, &[("anthropic-version", "2099-01-01")]);
    }

    #[test]
    fn each_request_keeps_its_own_traceparent() {
        let first = headers(&[("traceparent", "00-11111111111111111111111111111111-1111111111111111-01")]);
        let second = headers(&[("traceparent", "00-22222222222222222222222222222222-2222222222222222-01")]);
        assert_eq!(filter_request_headers(&first).as_map(), &first);
        assert_eq!(filter_request_headers(&second).as_map(), &second);
    }
}
