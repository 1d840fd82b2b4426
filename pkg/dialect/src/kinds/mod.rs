//! The kinds of provider: where each has its APIs, how it knows its customers, which of a caller's headers it may see.
//!
//! One file a kind. A kind is words only: no socket, no retry and no body is its business.
//!
//! Headers pass by a list of what is allowed, not of what is not: a beta flag, an organisation or a credential that one
//! vendor invents must not reach another because nobody here had heard of it.

mod anthropic;
mod azure;
mod openai;

use crate::Api;
use std::fmt;

pub use anthropic::Anthropic;
pub use azure::{Azure, NoApiVersion};
pub use openai::OpenAi;

/// What is particular to one kind of provider.
pub trait Kind: fmt::Debug + Send + Sync {
    /// Its name in the configuration.
    fn name(&self) -> &'static str;

    /// Whether providers of this kind have `api`, unless the configuration knows better.
    fn speaks(&self, api: Api) -> bool;

    /// What follows the base URL's path, perhaps with a query. Defined for every API, since a compatible server may have
    /// one that the vendor has not.
    fn path(&self, api: Api, model: &str) -> String;

    /// The header in which a key stands, lower case, and its value.
    fn credential(&self, key: &str) -> (&'static str, String);

    /// Whether a caller's `Authorization: Bearer {token}` is understood as it is. Else the token is taken for a key and said by
    /// [`Kind::credential`].
    fn takes_bearer(&self, token: &str) -> bool;

    /// Headers that every request needs, for callers who sent none of that name.
    fn fixed_headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Whether the caller's `header` (lower case) is one of this kind's own, beside those that pass to all.
    fn is_own_header(&self, header: &str) -> bool;

    /// Where the provider's id of a request stands in its answer, lower case.
    fn request_id_header(&self) -> &'static str;

    /// Whether the caller's `header` (lower case) passes: to the provider that the caller means, or to a fallback, which
    /// sees neither the caller's betas nor its accounts.
    fn forwards(&self, header: &str, fallback: bool) -> bool {
        (passes_to_all(header) || self.is_own_header(header)) && !(fallback && is_bound_to_one_provider(header))
    }
}

/// What says how to answer, who asks by which program, and where the request belongs in a trace. `x-stainless-*` is what
/// both vendors' SDKs say about themselves.
fn passes_to_all(header: &str) -> bool {
    matches!(header, "accept" | "content-type" | "idempotency-key" | "traceparent" | "tracestate" | "user-agent")
        || header.starts_with("x-stainless-")
}

/// Whether `header` (lower case) means something at the provider it was sent to only, so that no fallback may see it.
pub fn is_bound_to_one_provider(header: &str) -> bool {
    matches!(header, "anthropic-beta" | "openai-beta" | "openai-organization" | "openai-project")
}

/// Whether `header` (lower case) never passes to any provider, whatever the configuration says: hop-by-hop fields (RFC
/// 9110 §7.6.1), credentials and cookies, the gateway's own words, statements about the body, its length and its way.
pub fn is_never_forwarded(header: &str) -> bool {
    let hop = ["connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings"];
    let body = ["content-length", "content-encoding", "content-digest", "repr-digest", "digest", "content-md5"];
    let credentials = ["authorization", "cookie", "x-api-key", "api-key", "x-goog-api-key"];
    let ours = ["host", "expect", "accept-encoding", "cache-control", "pragma", "forwarded", "x-real-ip", "via"];
    let families = ["proxy-", "x-cache-", "x-forwarded-", "x-signet-", "lineage-"];
    [&hop[..], &body, &credentials, &ours].iter().any(|names| names.contains(&header))
        || families.iter().any(|family| header.starts_with(family))
}

/// `path` without the `/v1` with which callers' paths begin.
fn below_v1(api: Api) -> &'static str {
    api.route().strip_prefix("/v1").expect("every route begins with /v1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Box<dyn Kind>> {
        let azure = |base| Azure::new(base, Some("2024-10-21")).expect("a version");
        vec![
            Box::new(OpenAi),
            Box::new(azure("/")),
            Box::new(azure("/openai/v1")),
            Box::new(Anthropic::new("/")),
            Box::new(Anthropic::new("/v1")),
        ]
    }

    #[test]
    fn no_kind_forwards_what_is_never_forwarded() {
        let never = [
            "authorization",
            "x-api-key",
            "api-key",
            "x-goog-api-key",
            "cookie",
            "connection",
            "te",
            "transfer-encoding",
            "proxy-authorization",
            "content-length",
            "accept-encoding",
            "lineage-want",
            "x-cache-mode",
            "x-forwarded-for",
            "x-signet-timeout-ms",
            "host",
        ];
        for kind in all() {
            for header in never {
                assert!(is_never_forwarded(header), "{header}");
                assert!(!kind.forwards(header, false) && !kind.forwards(header, true), "{} {header}", kind.name());
            }
        }
    }

    #[test]
    fn a_header_that_nobody_listed_reaches_no_provider() {
        for kind in all() {
            for header in ["x-something-new", "x-portkey-config", "baggage", "openai-something", "anthropic-something"]
            {
                assert!(!kind.forwards(header, false), "{} {header}", kind.name());
            }
        }
    }

    #[test]
    fn betas_and_accounts_reach_their_own_kind_and_never_a_fallback() {
        let rows = [
            ("openai", "openai-beta"),
            ("openai", "openai-organization"),
            ("openai", "openai-project"),
            ("anthropic", "anthropic-beta"),
        ];
        for kind in all() {
            for (owner, header) in rows {
                assert_eq!(kind.forwards(header, false), kind.name() == owner, "{} {header}", kind.name());
                assert!(!kind.forwards(header, true), "{} {header}", kind.name());
            }
            for header in ["content-type", "traceparent", "user-agent", "x-stainless-lang"] {
                assert!(kind.forwards(header, false) && kind.forwards(header, true), "{} {header}", kind.name());
            }
        }
    }

    #[test]
    fn what_a_kind_sends_by_itself_a_caller_may_send_too() {
        for kind in all() {
            for (header, _) in kind.fixed_headers() {
                assert!(kind.forwards(header, false) && kind.forwards(header, true), "{} {header}", kind.name());
            }
        }
    }

    #[test]
    fn a_credential_stands_in_a_header_that_no_caller_can_reach() {
        for kind in all() {
            let (header, value) = kind.credential("sk-1");
            assert!(is_never_forwarded(header) && value.ends_with("sk-1"), "{}", kind.name());
        }
    }

    /// The rows of the table under this heading, each as its cells.
    fn table(heading: &str) -> Vec<Vec<String>> {
        let text = include_str!("../../../../docs/providers.md");
        let section = text.split("\n## ").find(|section| section.starts_with(heading)).expect("the heading is there");
        let rows = section.lines().filter(|line| line.starts_with("| `"));
        let cells = |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect();
        rows.map(cells).collect()
    }

    fn documented() -> [Box<dyn Kind>; 3] {
        let azure = Azure::new("/", Some("{api_version}")).expect("a version");
        [Box::new(OpenAi), Box::new(azure), Box::new(Anthropic::new("/"))]
    }

    #[test]
    fn the_documents_paths_are_those_of_the_code() {
        let braces = |path: String| path.replace("%7B", "{").replace("%7D", "}").replace("%5F", "_");
        let row = |kind: &dyn Kind, api: Api| {
            vec![kind.name().to_owned(), api.name().to_owned(), braces(kind.path(api, "{model}"))]
        };
        let kinds = documented();
        let spoken = |kind: &'_ dyn Kind| Api::ALL.into_iter().filter(|api| kind.speaks(*api)).collect::<Vec<_>>();
        let rows: Vec<_> =
            kinds.iter().flat_map(|kind| spoken(&**kind).into_iter().map(|api| row(&**kind, api))).collect();
        assert_eq!(table("Kinds and paths"), rows);
    }

    #[test]
    fn the_documents_headers_are_those_of_the_code() {
        let (credentials, headers) = (table("Credentials and ids"), table("Headers"));
        for kind in documented() {
            let row = credentials.iter().find(|row| row[0] == kind.name()).expect("a row");
            assert_eq!((row[1].as_str(), row[3].as_str()), (kind.credential("k").0, kind.request_id_header()));
            let fixed: Vec<String> =
                kind.fixed_headers().iter().map(|(name, value)| format!("{name}: {value}")).collect();
            assert_eq!(row[4], fixed.join(", "));
            let row = headers.iter().find(|row| row[0] == kind.name()).expect("a row");
            for listed in headers.iter().flat_map(|row| row[1].split(", ")).filter(|name| !name.contains(' ')) {
                let own = row[1].split(", ").any(|name| name == listed);
                assert_eq!(kind.is_own_header(listed), own, "{} {listed}", kind.name());
            }
        }
    }
}
