//! URLs: those of stores may hold a password, those of providers never do.

use crate::section::Section;
use crate::settings::StoreLocation;
use crate::tree::Source;
use signet_types::Secret;
use url::Url;

const DEFAULT_STORE: &str = "sqlite://signet.db";
const POSTGRES: [&str; 2] = ["postgres", "postgresql"];
const REDIS: [&str; 7] = ["redis", "rediss", "redis+unix", "unix", "valkey", "redis-cluster", "redis-sentinel"];

/// `[store] url`, `url_env` or `url_file`.
pub(crate) fn store_location(section: &mut Section<'_>) -> StoreLocation {
    let text = secret_url(section, "url").unwrap_or_else(|| Secret::new(DEFAULT_STORE.to_owned()));
    match sqlite_path(text.expose()) {
        Some(path) if path.is_empty() || path.starts_with(':') || path.contains('?') => {
            section.fault("url", "is not the path of a database file: sqlite://signet.db, without parameters");
        }
        Some(path) => {
            section.reader.holds(&section.at("url"), text.expose());
            return StoreLocation::Sqlite(section.reader.resolve(path));
        }
        None => check_scheme(section, "url", &text, &POSTGRES, "sqlite or postgres"),
    }
    StoreLocation::Postgres(text)
}

/// `[store] direct_url` and its kin.
pub(crate) fn direct_url(section: &mut Section<'_>) -> Option<Secret<String>> {
    let text = secret_url(section, "direct_url")?;
    check_scheme(section, "direct_url", &text, &POSTGRES, "postgres");
    Some(text)
}

/// `[redis] url` and its kin.
pub(crate) fn redis(section: &mut Section<'_>) -> Option<Secret<String>> {
    let text = secret_url(section, "url")?;
    check_scheme(section, "url", &text, &REDIS, &REDIS.join(", "));
    Some(text)
}

/// `[[provider]] proxy_url` and its kin.
pub(crate) fn proxy_url(section: &mut Section<'_>) -> Option<Secret<String>> {
    let text = secret_url(section, "proxy_url")?;
    check_scheme(section, "proxy_url", &text, &["http"], "http");
    Some(text)
}

fn sqlite_path(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("sqlite:")?;
    Some(rest.strip_prefix("//").unwrap_or(rest))
}

/// A URL that may be secret: `<stem>` itself if it holds no password, else by `<stem>_env` or `<stem>_file`.
fn secret_url(section: &mut Section<'_>, stem: &str) -> Option<Secret<String>> {
    let named = section.has(&format!("{stem}_env")) || section.has(&format!("{stem}_file"));
    if named && section.has(stem) {
        section.fault(stem, format!("cannot be set together with {stem}_env or {stem}_file"));
    }
    let plain = section.take(stem);
    if named {
        return section.secret(stem, None);
    }
    let leaf = plain?;
    let Some(text) = leaf.value.as_str() else {
        section.reader.fault(&section.at(stem), "is not a text", Some(&leaf.source));
        return None;
    };
    if leaf.source == Source::File && holds_password(text) {
        let reason = format!("a password must not stand in the file: use {stem}_env or {stem}_file");
        section.fault(stem, reason);
    }
    (!text.is_empty()).then(|| Secret::new(text.to_owned()))
}

fn holds_password(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        let named = |key: &str| key.to_ascii_lowercase().contains("pass");
        url.password().is_some() || url.query_pairs().any(|(key, _)| named(&key))
    })
}

fn check_scheme(section: &Section<'_>, key: &str, text: &Secret<String>, schemes: &[&str], expected: &str) {
    match Url::parse(text.expose()) {
        Ok(url) if schemes.contains(&url.scheme()) => section.reader.holds(&section.at(key), &redacted(url)),
        _ => section.fault(key, format!("is not a URL of one of these schemes: {expected}")),
    }
}

/// What may be shown of a URL: neither credentials nor parameters.
fn redacted(mut url: Url) -> Url {
    // These refuse only where a URL cannot have a user or password to begin with.
    let _ = (url.set_password(None), url.set_username(""));
    url.set_query(None);
    url
}

/// A base URL to which paths are appended. It must be set.
pub(crate) fn base_url(section: &mut Section<'_>, key: &str) -> Option<Url> {
    let Some(leaf) = section.take(key) else {
        section.fault(key, "must be set");
        return None;
    };
    let usable = |url: &Url| {
        let plain = url.username().is_empty() && url.password().is_none();
        plain && matches!(url.scheme(), "http" | "https") && url.query().is_none() && url.fragment().is_none()
    };
    let Some(url) = leaf.value.as_str().and_then(|text| Url::parse(text).ok()).filter(usable) else {
        let reason = "is not an http or https URL without credentials, query and fragment";
        section.reader.fault(&section.at(key), reason, Some(&leaf.source));
        return None;
    };
    section.reader.holds(&section.at(key), &url);
    Some(url)
}
