//! Azure OpenAI (<https://learn.microsoft.com/azure/ai-services/openai/reference>): OpenAI's bodies under other paths.
//!
//! Two shapes. The older one has the deployment in the path and a dated `api-version` behind it; the body's model does not
//! matter there. The newer one, for base URLs that end in `/openai/v1`, has OpenAI's own paths.

use super::{Kind, below_v1};
use crate::Api;
use std::fmt::Write;

/// A resource of Azure OpenAI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Azure {
    shape: Shape,
    /// `?api-version=…`, or nothing.
    query: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    V1,
    Deployments {
        /// What the base URL lacks.
        prefix: &'static str,
    },
}

/// Only base URLs that end in `/openai/v1` do without an `api-version`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an api_version is needed, unless the base URL ends in /openai/v1")]
pub struct NoApiVersion;

impl Azure {
    /// For a provider whose base URL has this path: that of the resource, with or without `/openai` or `/openai/v1`.
    ///
    /// # Errors
    /// [`NoApiVersion`].
    pub fn new(base_path: &str, api_version: Option<&str>) -> Result<Self, NoApiVersion> {
        let path = base_path.trim_end_matches('/');
        let shape = if path.ends_with("/openai/v1") {
            Shape::V1
        } else {
            Shape::Deployments { prefix: if path.ends_with("/openai") { "" } else { "/openai" } }
        };
        if api_version.is_none() && shape != Shape::V1 {
            return Err(NoApiVersion);
        }
        let query = api_version.map_or_else(String::new, |version| format!("?api-version={}", escaped(version)));
        Ok(Self { shape, query })
    }
}

impl Kind for Azure {
    fn name(&self) -> &'static str {
        "azure"
    }

    /// Of the older shape, what depends on a deployment. What it lists as models are not the deployments.
    fn speaks(&self, api: Api) -> bool {
        match self.shape {
            Shape::V1 => !api.is_anthropic(),
            Shape::Deployments { .. } => matches!(api, Api::Chat | Api::Completions | Api::Embeddings),
        }
    }

    fn path(&self, api: Api, model: &str) -> String {
        let (tail, query) = (below_v1(api), &self.query);
        match self.shape {
            Shape::Deployments { prefix } if self.speaks(api) => {
                format!("{prefix}/deployments/{}{tail}{query}", escaped(model))
            }
            Shape::Deployments { prefix } => format!("{prefix}{tail}{query}"),
            Shape::V1 => format!("{tail}{query}"),
        }
    }

    fn credential(&self, key: &str) -> (&'static str, String) {
        ("api-key", key.to_owned())
    }

    /// Tokens of Entra ID are JSON Web Tokens, which begin with the base64 of `{"`.
    fn takes_bearer(&self, token: &str) -> bool {
        token.starts_with("eyJ")
    }

    fn is_own_header(&self, header: &str) -> bool {
        matches!(header, "x-client-request-id" | "x-ms-client-request-id")
    }

    fn request_id_header(&self) -> &'static str {
        "apim-request-id"
    }
}

/// Percent-encoded but for the unreserved characters (RFC 3986 §2.3), so that a name stays one segment of a path.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("a String takes everything");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(base: &str, version: Option<&str>, api: Api, model: &str) -> String {
        Azure::new(base, version).expect("a good shape").path(api, model)
    }

    #[test]
    fn the_deployment_stands_in_the_path_and_the_version_behind_it() {
        let version = Some("2024-10-21");
        for base in ["", "/", "/team-a"] {
            let expected = "/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21";
            assert_eq!(path(base, version, Api::Chat, "gpt-4o"), expected, "{base:?}");
        }
        let expected = "/deployments/embed/embeddings?api-version=2024-10-21";
        assert_eq!(path("/openai/", version, Api::Embeddings, "embed"), expected);
        assert_eq!(path("/", version, Api::Responses, "gpt-4o"), "/openai/responses?api-version=2024-10-21");
    }

    #[test]
    fn the_newer_shape_has_openais_paths_and_needs_no_version() {
        assert_eq!(path("/openai/v1", None, Api::Chat, "gpt-4o"), "/chat/completions");
        assert_eq!(path("/openai/v1/", Some("preview"), Api::Responses, "m"), "/responses?api-version=preview");
        assert_eq!(Azure::new("/openai", None), Err(NoApiVersion));
    }

    #[test]
    fn a_models_name_cannot_leave_its_place_in_the_path() {
        let made = path("/", Some("1&x=2"), Api::Chat, "../admin?a#b é/");
        let expected = "/openai/deployments/..%2Fadmin%3Fa%23b%20%C3%A9%2F/chat/completions?api-version=1%26x%3D2";
        assert_eq!(made, expected);
    }

    #[test]
    fn models_and_responses_of_the_older_shape_are_spoken_only_if_configured() {
        let kind = Azure::new("/", Some("2024-10-21")).expect("a version");
        let spoken: Vec<Api> = Api::ALL.into_iter().filter(|api| kind.speaks(*api)).collect();
        assert_eq!(spoken, [Api::Chat, Api::Completions, Api::Embeddings]);
        let kind = Azure::new("/openai/v1", None).expect("needs no version");
        assert!(kind.speaks(Api::Models) && kind.speaks(Api::Responses) && !kind.speaks(Api::Messages));
    }

    #[test]
    fn tokens_of_entra_id_stay_in_authorization_and_keys_do_not() {
        let kind = Azure::new("/openai/v1", None).expect("needs no version");
        assert!(kind.takes_bearer("eyJhbGciOiJSUzI1NiJ9.e30.x") && !kind.takes_bearer("0123abcd"));
        assert_eq!(kind.credential("0123abcd"), ("api-key", "0123abcd".to_owned()));
    }
}
