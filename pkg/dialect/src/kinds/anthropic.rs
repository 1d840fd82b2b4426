//! Anthropic's API (<https://docs.anthropic.com/en/api/overview>), and servers that are compatible with it.

use super::{Kind, below_v1};
use crate::Api;

/// The base URL is that of Anthropic's SDKs, without `/v1`; one that ends in `/v1` works too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anthropic {
    /// The base URL has the version already.
    versioned: bool,
}

impl Anthropic {
    /// For a provider whose base URL has this path.
    pub fn new(base_path: &str) -> Self {
        Self { versioned: base_path.trim_end_matches('/').ends_with("/v1") }
    }
}

impl Kind for Anthropic {
    fn name(&self) -> &'static str {
        "anthropic"
    }

    fn speaks(&self, api: Api) -> bool {
        matches!(api, Api::Messages | Api::CountTokens | Api::Models)
    }

    fn path(&self, api: Api, _model: &str) -> String {
        if self.versioned { below_v1(api) } else { api.route() }.to_owned()
    }

    fn credential(&self, key: &str) -> (&'static str, String) {
        ("x-api-key", key.to_owned())
    }

    /// Keys have a prefix of their own. What else stands in Authorization is a token of OAuth or of a compatible server.
    fn takes_bearer(&self, token: &str) -> bool {
        !token.starts_with("sk-ant-api")
    }

    fn fixed_headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("anthropic-version", "2023-06-01")]
    }

    fn is_own_header(&self, header: &str) -> bool {
        matches!(header, "anthropic-version" | "anthropic-beta")
    }

    fn request_id_header(&self) -> &'static str {
        "request-id"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_stands_in_the_path_once_whatever_the_base_url() {
        for base in ["", "/", "/proxy/"] {
            assert_eq!(Anthropic::new(base).path(Api::Messages, "m"), "/v1/messages", "{base:?}");
        }
        for base in ["/v1", "/v1/", "/proxy/v1"] {
            assert_eq!(Anthropic::new(base).path(Api::CountTokens, "m"), "/messages/count_tokens", "{base:?}");
        }
    }

    #[test]
    fn a_key_in_authorization_is_told_from_a_token() {
        let kind = Anthropic::new("/");
        assert!(!kind.takes_bearer("sk-ant-api03-x"));
        assert!(kind.takes_bearer("sk-ant-oat01-x") && kind.takes_bearer("other"));
        assert_eq!(kind.credential("sk-ant-api03-x"), ("x-api-key", "sk-ant-api03-x".to_owned()));
    }
}
