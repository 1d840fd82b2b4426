//! OpenAI, and the many servers that are compatible with it (<https://platform.openai.com/docs/api-reference>).

use super::{Kind, below_v1};
use crate::Api;

/// The base URL ends where `/chat/completions` begins, as in OpenAI's SDKs: usually with `/v1`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenAi;

impl Kind for OpenAi {
    fn name(&self) -> &'static str {
        "openai"
    }

    fn speaks(&self, api: Api) -> bool {
        !api.is_anthropic()
    }

    fn path(&self, api: Api, _model: &str) -> String {
        below_v1(api).to_owned()
    }

    fn credential(&self, key: &str) -> (&'static str, String) {
        ("authorization", format!("Bearer {key}"))
    }

    fn takes_bearer(&self, _token: &str) -> bool {
        true
    }

    fn is_own_header(&self, header: &str) -> bool {
        matches!(header, "openai-beta" | "openai-organization" | "openai-project" | "x-client-request-id")
    }

    fn request_id_header(&self) -> &'static str {
        "x-request-id"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_follow_the_base_url_as_in_the_sdks() {
        let paths: Vec<String> = Api::ALL.into_iter().map(|api| OpenAi.path(api, "gpt-4o")).collect();
        let expected = [
            "/chat/completions",
            "/completions",
            "/responses",
            "/embeddings",
            "/models",
            "/messages",
            "/messages/count_tokens",
        ];
        assert_eq!(paths, expected);
    }

    #[test]
    fn it_speaks_what_openai_documents() {
        let spoken: Vec<Api> = Api::ALL.into_iter().filter(|api| OpenAi.speaks(*api)).collect();
        assert_eq!(spoken, [Api::Chat, Api::Completions, Api::Responses, Api::Embeddings, Api::Models]);
    }
}
