//! The part of every request's target that the provider's base URL fixes.

use crate::provider::ProviderConfigError;
use http::{HeaderValue, Uri};
use url::{Position, Url};

#[derive(Debug)]
pub(crate) struct Address {
    pub(crate) authority: HeaderValue,
    origin: String,
    path: String,
    query: Option<String>,
}

impl Address {
    pub(crate) fn new(base: &Url) -> Result<Self, ProviderConfigError> {
        if !base.username().is_empty() || base.password().is_some() {
            return Err(ProviderConfigError::BaseUrl);
        }
        let authority = &base[Position::BeforeHost..Position::AfterPort];
        Ok(Self {
            authority: HeaderValue::from_str(authority).map_err(|_| ProviderConfigError::BaseUrl)?,
            origin: format!("{}://{authority}", base.scheme()),
            path: base.path().trim_end_matches('/').to_owned(),
            query: base.query().map(str::to_owned),
        })
    }

    /// The target in a request line: `tail` below the base URL's path, with all queries there are.
    pub(crate) fn origin_form(&self, tail: &str, query: Option<&str>) -> Uri {
        self.joined("", tail, query)
    }

    /// The same with scheme and host.
    pub(crate) fn absolute_form(&self, tail: &str, query: Option<&str>) -> Uri {
        self.joined(&self.origin, tail, query)
    }

    fn joined(&self, origin: &str, tail: &str, query: Option<&str>) -> Uri {
        let (path, own) = tail.split_once('?').map_or((tail, None), |(path, own)| (path, Some(own)));
        let mut uri = format!("{origin}{}{path}", self.path);
        for (at, part) in [self.query.as_deref(), own, query].into_iter().flatten().enumerate() {
            uri.push(if at == 0 { '?' } else { '&' });
            uri.push_str(part);
        }
        uri.parse().expect("the parts of valid URIs make a valid URI")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_and_no_query_is_lost() {
        let address = |base: &str| Address::new(&base.parse().expect("a URL")).expect("a base URL");
        let rows = [
            ("http://h:81/v1/", "/chat/completions", None, "/v1/chat/completions"),
            ("http://h", "/v1/messages", Some("beta=true"), "/v1/messages?beta=true"),
            ("http://h/?a=1", "/x?api-version=2", Some("c=3&d"), "/x?a=1&api-version=2&c=3&d"),
        ];
        for (base, tail, query, expected) in rows {
            assert_eq!(address(base).origin_form(tail, query), expected);
        }
        assert_eq!(address("https://h:81/v1").absolute_form("/models", None), "https://h:81/v1/models");
    }
}
