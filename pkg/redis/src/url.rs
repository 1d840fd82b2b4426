//! From a URL to a client configuration.

use fred::types::config::Config;
use std::borrow::Cow;

/// The schemes we take, beside `unix`. The client library takes any other word for a plain TCP address.
const SCHEMES: [&str; 14] = [
    "redis",
    "rediss",
    "valkey",
    "valkeys",
    "redis-cluster",
    "rediss-cluster",
    "valkey-cluster",
    "valkeys-cluster",
    "redis-sentinel",
    "rediss-sentinel",
    "valkey-sentinel",
    "valkeys-sentinel",
    "redis+unix",
    "valkey+unix",
];

/// A Redis URL that cannot be used: the operator's to mend. It does not repeat the URL, which may hold a password.
#[derive(Debug, thiserror::Error)]
pub enum UrlError {
    /// Not one of ours.
    #[error("a Redis URL begins with redis, rediss, redis+unix, unix, valkey, redis-cluster or redis-sentinel")]
    Scheme,
    /// Host, port, database, sentinel service or socket path cannot be read.
    #[error("the Redis URL cannot be read: {0}")]
    Form(&'static str),
}

pub(crate) fn parse(url: &str) -> Result<Config, UrlError> {
    let (scheme, rest) = url.split_once("://").ok_or(UrlError::Scheme)?;
    let url = match scheme {
        "unix" => Cow::Owned(format!("redis+unix://{rest}")),
        scheme if SCHEMES.contains(&scheme) => Cow::Borrowed(url),
        _ => return Err(UrlError::Scheme),
    };
    // The library's own words may quote parts of the URL.
    Config::from_url(&url).map_err(|e| UrlError::Form(e.kind().to_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_promised_scheme_leads_to_its_kind_of_server() {
        let server = |url: &str| parse(url).unwrap_or_else(|e| panic!("{url}: {e}")).server;
        for url in ["redis://h:1/3", "rediss://u:p@h:1", "valkey://h:1", "redis://h"] {
            assert!(server(url).is_centralized(), "{url}");
        }
        for url in ["unix:///run/redis.sock", "redis+unix:///run/redis.sock"] {
            assert!(server(url).is_unix_socket(), "{url}");
        }
        assert!(server("redis-cluster://h:1?node=i:2").is_clustered());
        assert!(server("redis-sentinel://h:1?sentinelServiceName=main").is_sentinel());
    }

    #[test]
    fn tls_is_used_where_the_scheme_says_so() {
        assert!(parse("rediss://h:1").expect("a good URL").tls.is_some());
        assert!(parse("redis://h:1").expect("a good URL").tls.is_none());
    }

    #[test]
    fn what_can_never_work_is_refused_without_repeating_a_password() {
        for url in ["", "h:6379", "http://h", "redis://", "redis://u:hunter2@h:port", "redis-sentinel://u:hunter2@h:1"]
        {
            let error = parse(url).expect_err(url);
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
    }
}
