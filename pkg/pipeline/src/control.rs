//! What a caller may ask of the cache and of the answer's form, by request header. A value that cannot be read is the caller's fault, never
//! silently ignored: `no-stroe` must not store.

use crate::fault::Fault;
use crate::in_band::InBand;
use crate::pipeline::RouteRules;
use http::HeaderMap;
use signet_cache::{Mode, ReadPolicy};
use std::time::Duration;

/// Whether a stored answer will do. The later wins over the earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fetch {
    /// It will.
    IfNeeded,
    /// Read nothing, store the fresh answer.
    Refresh,
    /// Neither read, nor stored, nor coalesced.
    Bypass,
}

/// The caller's wishes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Controls {
    /// Whether a stored answer will do.
    pub(crate) fetch: Fetch,
    /// Answer from the cache or not at all.
    pub(crate) only_if_cached: bool,
    /// No semantic answers.
    pub(crate) exact_only: bool,
    /// Older answers are not wanted.
    pub(crate) max_age: Option<Duration>,
    /// How old past its lifetime an answer may be when no provider answers (RFC 5861 §4).
    pub(crate) stale_if_error: Duration,
    /// Lifetime of the entry that this answer makes.
    pub(crate) ttl: Option<Duration>,
    /// Raises the similarity floor.
    pub(crate) similarity_min: Option<f32>,
    /// Separates the caller's own caches.
    pub(crate) namespace: String,
    /// Tells the receipt inside a stream.
    pub(crate) in_band: InBand,
}

const NAMESPACE_MAX: usize = 128;

impl Controls {
    /// Reads the headers of the contract.
    ///
    /// # Errors
    /// [`Fault::Invalid`] names the header that cannot be read.
    pub(crate) fn read(headers: &HeaderMap) -> Result<Self, Fault> {
        let mut controls = Self {
            fetch: Fetch::IfNeeded,
            only_if_cached: false,
            exact_only: false,
            max_age: None,
            stale_if_error: Duration::MAX,
            ttl: one(headers, "x-cache-ttl")?.map(seconds("X-Cache-TTL")).transpose()?,
            similarity_min: one(headers, "x-cache-similarity-min")?.map(similarity).transpose()?,
            namespace: one(headers, "x-cache-namespace")?.map(namespace).transpose()?.unwrap_or_default(),
            in_band: one(headers, "lineage-want")?.map(in_band).transpose()?.unwrap_or_default(),
        };
        controls.directives(headers)?;
        match one(headers, "x-cache-mode")? {
            None | Some("semantic") => {}
            Some("exact") => controls.exact_only = true,
            Some("off") => controls.fetch = Fetch::Bypass,
            Some(_) => return Err(bad("X-Cache-Mode", "is off, exact or semantic")),
        }
        Ok(controls)
    }

    /// Cache-Control of the request (RFC 9111 §5.2.1). Unknown directives are ignored, as the RFC demands.
    fn directives(&mut self, headers: &HeaderMap) -> Result<(), Fault> {
        for value in headers.get_all(http::header::CACHE_CONTROL) {
            let text = value.to_str().map_err(|_| bad("Cache-Control", "is ASCII"))?;
            for directive in text.split(',').map(str::trim) {
                let (name, argument) = directive.split_once('=').map_or((directive, None), |(n, a)| (n, Some(a)));
                match (name.to_ascii_lowercase().as_str(), argument) {
                    ("no-store", _) => self.fetch = Fetch::Bypass,
                    ("no-cache", _) => self.fetch = self.fetch.max(Fetch::Refresh),
                    ("only-if-cached", _) => self.only_if_cached = true,
                    ("max-age", Some(text)) => {
                        let age = seconds("Cache-Control")(text.trim_matches('"'))?;
                        if age.is_zero() {
                            self.fetch = self.fetch.max(Fetch::Refresh);
                        }
                        self.max_age = Some(age);
                    }
                    ("stale-if-error", Some(text)) => {
                        self.stale_if_error = seconds("Cache-Control")(text.trim_matches('"'))?;
                    }
                    ("stale-if-error", None) => return Err(bad("Cache-Control", "has stale-if-error=SECONDS")),
                    ("max-age", None) => return Err(bad("Cache-Control", "has max-age=SECONDS")),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Which layers may be read.
    pub(crate) fn read_policy(&self, rules: RouteRules) -> ReadPolicy {
        let open = self.fetch == Fetch::IfNeeded;
        ReadPolicy {
            exact: open,
            semantic: open && !self.exact_only,
            floor: rules.floor.into_iter().chain(self.similarity_min).reduce(f32::max),
            shadow: rules.mode == Mode::Shadow,
            max_age_ms: self.max_age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

fn bad(header: &'static str, reason: &str) -> Fault {
    Fault::invalid(format!("The request header {header} cannot be used: it {reason}."), Some(header))
}

/// The header's one value; more than one is ambiguous.
fn one<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a str>, Fault> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(bad(name, "is sent once"));
    }
    value.to_str().map(|text| Some(text.trim())).map_err(|_| bad(name, "is ASCII"))
}

/// Delta-seconds (RFC 9111 §1.2.2); values too large to hold are as long as can be.
fn seconds(header: &'static str) -> impl Fn(&str) -> Result<Duration, Fault> {
    move |text| {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        digits
            .then(|| Duration::from_secs(text.parse().unwrap_or(u64::from(u32::MAX))))
            .ok_or_else(|| bad(header, "has whole seconds"))
    }
}

fn similarity(text: &str) -> Result<f32, Fault> {
    let value: Option<f32> = text.parse().ok();
    value.filter(|v| (0.0..=1.0).contains(v)).ok_or_else(|| bad("X-Cache-Similarity-Min", "is a number from 0 to 1"))
}

fn namespace(text: &str) -> Result<String, Fault> {
    let good = text.len() <= NAMESPACE_MAX && text.bytes().all(|b| b.is_ascii_graphic());
    good.then(|| text.to_owned()).ok_or_else(|| bad("X-Cache-Namespace", "has up to 128 visible ASCII characters"))
}

fn in_band(text: &str) -> Result<InBand, Fault> {
    text.parse().map_err(|()| bad("Lineage-Want", "is sse-event or sse-comment"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    fn read(headers: &[(&str, &str)]) -> Result<Controls, Fault> {
        let map = headers
            .iter()
            .map(|(name, value)| {
                let name: HeaderName = name.parse().expect("a header name");
                (name, HeaderValue::from_str(value).expect("a header value"))
            })
            .fold(HeaderMap::new(), |mut map, (name, value)| {
                map.append(name, value);
                map
            });
        Controls::read(&map)
    }

    fn good(headers: &[(&str, &str)]) -> Controls {
        read(headers).expect("readable headers")
    }

    #[test]
    fn no_header_reads_every_layer() {
        let policy = good(&[]).read_policy(RouteRules::default());
        assert!(policy.exact && policy.semantic);
    }

    #[test]
    fn no_store_and_mode_off_bypass() {
        assert_eq!(good(&[("cache-control", "no-store, no-cache")]).fetch, Fetch::Bypass);
        assert_eq!(good(&[("x-cache-mode", "off")]).fetch, Fetch::Bypass);
    }

    #[test]
    fn no_cache_and_max_age_zero_refresh_but_do_not_bypass() {
        for value in ["no-cache", "max-age=0", "private, Max-Age=0"] {
            let controls = good(&[("cache-control", value)]);
            assert_eq!(controls.fetch, Fetch::Refresh, "{value}");
            assert!(!controls.read_policy(RouteRules::default()).exact, "{value}");
        }
    }

    #[test]
    fn exact_mode_leaves_the_semantic_layer_out() {
        let policy = good(&[("x-cache-mode", "exact")]).read_policy(RouteRules::default());
        assert!(policy.exact && !policy.semantic);
    }

    #[test]
    fn unreadable_values_are_the_callers_fault() {
        for (name, value) in [
            ("x-cache-mode", "on"),
            ("x-cache-ttl", "1h"),
            ("x-cache-ttl", "-1"),
            ("x-cache-similarity-min", "NaN"),
            ("x-cache-similarity-min", "1.01"),
            ("cache-control", "max-age=soon"),
            ("cache-control", "max-age"),
            ("cache-control", "stale-if-error"),
            ("cache-control", "stale-if-error=1h"),
            ("x-cache-namespace", "a b"),
            ("lineage-want", "sse"),
            ("lineage-want", ""),
        ] {
            assert!(matches!(read(&[(name, value)]), Err(Fault::Invalid { .. })), "{name}: {value}");
        }
        assert!(read(&[("x-cache-ttl", "1"), ("x-cache-ttl", "2")]).is_err(), "two values are ambiguous");
    }

    #[test]
    fn a_caller_may_bound_how_stale_an_answer_is() {
        assert_eq!(good(&[]).stale_if_error, Duration::MAX);
        assert_eq!(good(&[("cache-control", "stale-if-error=60")]).stale_if_error, Duration::from_mins(1));
        assert_eq!(good(&[("cache-control", "stale-if-error=0")]).stale_if_error, Duration::ZERO);
    }

    #[test]
    fn unknown_directives_are_ignored() {
        let controls = good(&[("cache-control", "min-fresh=5, foo")]);
        assert_eq!(controls.fetch, Fetch::IfNeeded);
    }
}
