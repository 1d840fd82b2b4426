//! Which of a caller's headers may change its answer, and so are part of the cache key.

use sha2::{Digest, Sha256};
use signet_provider::filter_request_headers;

/// Headers that reach the provider and do not change what it answers. Every other one may, so it is part of the key.
const NEUTRAL_HEADERS: [&str; 18] = [
    "accept",
    "accept-charset",
    "accept-language",
    "baggage",
    "content-type",
    "dnt",
    "idempotency-key",
    "origin",
    "pragma",
    "priority",
    "referer",
    "traceparent",
    "tracestate",
    "user-agent",
    "x-client-request-id",
    "x-request-id",
    "x-requested-with",
    "x-trace-id",
];

/// The same for whole families: SDK telemetry and browsers.
const NEUTRAL_PREFIXES: [&str; 2] = ["x-stainless-", "sec-"];

/// Headers of nearly every request that never reach the provider; a request with none but these needs no closer look.
const UNSENT_HEADERS: [&str; 14] = [
    "accept-encoding",
    "authorization",
    "cache-control",
    "connection",
    "content-length",
    "host",
    "lineage-want",
    "te",
    "x-api-key",
    "x-cache-mode",
    "x-cache-namespace",
    "x-cache-similarity-min",
    "x-cache-ttl",
    "x-forwarded-for",
];

/// What a header says that says nothing: the one version of Anthropic's API, which callers of other APIs do not name.
const NEUTRAL_VALUES: [(&str, &[u8]); 1] = [("anthropic-version", b"2023-06-01")];

/// Binds the request's digest to the headers that may change its answer (an organisation, a beta, a route of the
/// provider's own), in the order of their names, and to the query of the URL. `forwards` tells whether a header reaches
/// any provider of the route.
pub(crate) fn bound(
    shape: [u8; 32],
    headers: &http::HeaderMap,
    query: Option<&str>,
    forwards: &dyn Fn(&str) -> bool,
) -> [u8; 32] {
    let neutral =
        |name: &str| NEUTRAL_HEADERS.contains(&name) || NEUTRAL_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    if query.is_none() && headers.keys().all(|name| neutral(name.as_str()) || UNSENT_HEADERS.contains(&name.as_str())) {
        return shape;
    }
    let forwarded = filter_request_headers(headers);
    let mut binding: Vec<(&str, &[u8])> = forwarded
        .as_map()
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .filter(|pair| !neutral(pair.0) && !NEUTRAL_VALUES.contains(pair) && forwards(pair.0))
        .collect();
    // No header has this name.
    binding.extend(query.map(|query| ("?", query.as_bytes())));
    if binding.is_empty() {
        return shape;
    }
    binding.sort_by_key(|(name, _)| *name);
    let mut hash = Sha256::new_with_prefix(shape);
    for part in binding.iter().flat_map(|(name, value)| [name.as_bytes(), *value]) {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, HeaderName, HeaderValue};

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let typed = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(typed).collect()
    }

    fn bind(headers: &HeaderMap, query: Option<&str>) -> [u8; 32] {
        bound([1; 32], headers, query, &|name| name != "x-unsent")
    }

    #[test]
    fn what_reaches_no_provider_and_what_all_say_is_not_bound() {
        let none = bind(&headers(&[]), None);
        assert_eq!(bind(&headers(&[("x-unsent", "a")]), None), none);
        assert_eq!(bind(&headers(&[("anthropic-version", "2023-06-01")]), None), none);
        assert_ne!(bind(&headers(&[("anthropic-version", "2099-01-01")]), None), none);
    }

    #[test]
    fn headers_that_may_change_the_answer_are_bound_to_the_key() {
        let plain = bind(&headers(&[("host", "a"), ("user-agent", "b"), ("x-stainless-lang", "c")]), None);
        assert_eq!(plain, [1; 32]);
        let beta = bind(&headers(&[("host", "a"), ("openai-beta", "x")]), None);
        let other = bind(&headers(&[("openai-beta", "y")]), None);
        let unknown = bind(&headers(&[("x-portkey", "x")]), None);
        assert_ne!(beta, plain);
        assert_ne!(beta, other);
        assert_ne!(beta, unknown);
        assert_eq!(beta, bind(&headers(&[("openai-beta", "x"), ("traceparent", "t"), ("authorization", "k")]), None));
        let queried = bind(&headers(&[]), Some("beta=true"));
        assert_ne!(queried, plain);
        assert_ne!(queried, bind(&headers(&[]), Some("beta=false")));
    }
}
