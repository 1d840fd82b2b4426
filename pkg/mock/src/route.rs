//! Which API a request speaks, by its path and, where two vendors share one, by its headers.

use http::request::Parts;
use http::{HeaderMap, Method, header};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    Chat,
    Completions,
    Responses,
    Embeddings,
    Models,
    Messages,
    CountTokens,
}

/// Whose ways of keys, errors and request ids apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vendor {
    OpenAi,
    Azure,
    Anthropic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route<'a> {
    pub(crate) vendor: Vendor,
    pub(crate) api: Api,
    /// Azure's name for a model in the path, which stands over the body's.
    pub(crate) deployment: Option<&'a str>,
}

pub(crate) const ANTHROPIC_VERSION: &str = "anthropic-version";

/// The route of a path alone: `GET /v1/models` is OpenAI's.
pub(crate) fn of_path(path: &str) -> Option<Route<'_>> {
    if let Some((deployment, rest)) = path.strip_prefix("/openai/deployments/").and_then(|rest| rest.split_once('/')) {
        let api = openai(rest).filter(|api| matches!(api, Api::Chat | Api::Completions | Api::Embeddings))?;
        return Some(Route { vendor: Vendor::Azure, api, deployment: Some(deployment) });
    }
    if let Some(rest) = path.strip_prefix("/openai/v1/") {
        return openai(rest).map(|api| Route { vendor: Vendor::Azure, api, deployment: None });
    }
    let (vendor, api) = match path.strip_prefix("/v1/")? {
        "messages" => (Vendor::Anthropic, Api::Messages),
        "messages/count_tokens" => (Vendor::Anthropic, Api::CountTokens),
        rest => (Vendor::OpenAi, openai(rest)?),
    };
    Some(Route { vendor, api, deployment: None })
}

fn openai(rest: &str) -> Option<Api> {
    Some(match rest {
        "chat/completions" => Api::Chat,
        "completions" => Api::Completions,
        "responses" => Api::Responses,
        "embeddings" => Api::Embeddings,
        "models" => Api::Models,
        _ => return None,
    })
}

/// The route of a request; the vendor whose refusal it gets if it has none. Azure's dated paths need their
/// `api-version`.
pub(crate) fn of(head: &Parts) -> Result<Route<'_>, Vendor> {
    let asks_anthropic = head.headers.contains_key(ANTHROPIC_VERSION);
    let path = head.uri.path();
    let unknown = match path {
        _ if path.starts_with("/openai/") => Vendor::Azure,
        _ if asks_anthropic => Vendor::Anthropic,
        _ => Vendor::OpenAi,
    };
    let mut route = of_path(path).ok_or(unknown)?;
    if route.api == Api::Models && route.vendor == Vendor::OpenAi && asks_anthropic {
        route.vendor = Vendor::Anthropic;
    }
    let method = if route.api == Api::Models { Method::GET } else { Method::POST };
    let dated = head.uri.query().is_some_and(|query| query.split('&').any(|pair| pair.starts_with("api-version=")));
    if head.method != method || (route.deployment.is_some() && !dated) {
        return Err(route.vendor);
    }
    Ok(route)
}

impl Vendor {
    /// Whether the request carries the key in a header in which this vendor takes it.
    pub(crate) fn has_key(self, headers: &HeaderMap, key: &str) -> bool {
        let sent = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let bearer = || sent(header::AUTHORIZATION.as_str()).and_then(|value| value.strip_prefix("Bearer "));
        match self {
            Self::OpenAi => bearer() == Some(key),
            Self::Azure => sent("api-key") == Some(key) || bearer() == Some(key),
            // The vendor's newer SDKs send their key as a bearer.
            Self::Anthropic => sent("x-api-key") == Some(key) || bearer() == Some(key),
        }
    }

    /// The header that names the request in an answer.
    pub(crate) const fn request_id(self) -> &'static str {
        match self {
            Self::OpenAi => "x-request-id",
            Self::Azure => "apim-request-id",
            Self::Anthropic => "request-id",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(request: &str, headers: &[(&str, &str)]) -> Parts {
        let (method, uri) = request.split_once(' ').expect("a method and a URI");
        let mut builder = http::Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        builder.body(()).expect("valid").into_parts().0
    }

    #[test]
    fn a_path_names_the_api_and_the_vendor() {
        let of =
            |request: &str| super::of(&head(request, &[])).map(|r| (r.vendor, r.api, r.deployment.map(str::to_owned)));
        let ok = |vendor, api| Ok((vendor, api, None));
        assert_eq!(of("POST /v1/messages?beta=true"), ok(Vendor::Anthropic, Api::Messages));
        assert_eq!(of("POST /v1/messages/count_tokens"), ok(Vendor::Anthropic, Api::CountTokens));
        assert_eq!(of("POST /v1/responses"), ok(Vendor::OpenAi, Api::Responses));
        assert_eq!(of("POST /openai/v1/chat/completions"), ok(Vendor::Azure, Api::Chat));
        let dated = "POST /openai/deployments/d-1/chat/completions?api-version=2024-10-21";
        assert_eq!(of(dated), Ok((Vendor::Azure, Api::Chat, Some("d-1".to_owned()))));
        assert_eq!(of("POST /openai/deployments/d-1/chat/completions"), Err(Vendor::Azure));
        assert_eq!(of("GET /v1/messages"), Err(Vendor::Anthropic));
        assert_eq!(of("POST /v2/messages"), Err(Vendor::OpenAi));
    }

    #[test]
    fn a_version_header_asks_for_the_other_list_of_models() {
        let vendor = |headers: &[(&str, &str)]| of(&head("GET /v1/models", headers)).map(|route| route.vendor);
        assert_eq!(vendor(&[]), Ok(Vendor::OpenAi));
        assert_eq!(vendor(&[("anthropic-version", "2023-06-01")]), Ok(Vendor::Anthropic));
    }

    #[test]
    fn each_vendor_wants_the_key_in_its_own_header() {
        let has = |vendor: Vendor, name, value| vendor.has_key(&head("GET /", &[(name, value)]).headers, "k");
        assert!(has(Vendor::OpenAi, "authorization", "Bearer k") && !has(Vendor::OpenAi, "x-api-key", "k"));
        assert!(has(Vendor::Anthropic, "x-api-key", "k") && has(Vendor::Anthropic, "authorization", "Bearer k"));
        assert!(!has(Vendor::Anthropic, "api-key", "k") && !has(Vendor::Anthropic, "x-api-key", "other"));
        assert!(has(Vendor::Azure, "api-key", "k") && !has(Vendor::Azure, "api-key", "other"));
    }
}
