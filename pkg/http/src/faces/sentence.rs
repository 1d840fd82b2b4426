//! What callers are told, in whole sentences.

use std::fmt::Display;
use std::time::Duration;

pub(super) const CLIENT_GONE: &str = "The client closed the request.";
pub(super) const CONNECTIONS: &str = "The gateway has as many connections as it may.";
pub(super) const INTERNAL: &str = "The gateway failed to answer this request.";
pub(super) const METHOD: &str = "This URL does not take this method.";
pub(super) const NOT_CACHED: &str = "The answer is not in the cache.";
pub(super) const NO_KEY: &str = "No API key was sent. Send it as `Authorization: Bearer KEY` or as `x-api-key: KEY`.";
pub(super) const NO_LINEAGE: &str = "No lineage record can be written at the moment, so no answer may be given.";
pub(super) const NO_RECORD: &str = "There is no such lineage record.";
pub(super) const NO_URL: &str = "This URL does not exist in this version.";
pub(super) const RATE: &str = "Too many requests from this address. Try again after the time in Retry-After.";
pub(super) const WORK: &str =
    "The gateway has more work than it can do in time. Try again after the time in Retry-After.";

pub(super) fn too_large(limit: u64) -> String {
    format!("The request body is larger than the limit of {limit} bytes.")
}

pub(super) fn request_timeout(waited: Duration) -> String {
    format!("The rest of the request body did not come within {} s.", waited.as_secs())
}

/// A model's name is the caller's text: shortened, without what a terminal would obey.
pub(super) fn no_model(name: &str) -> String {
    let clean = |c: char| if c.is_control() { '?' } else { c };
    let name: String = name.chars().take(128).map(clean).collect();
    format!("The model `{name}` does not exist here.")
}

pub(super) fn refused(provider: &str) -> String {
    format!("The provider {provider} refused the gateway's credentials.")
}

pub(super) fn untranslatable(provider: &str, why: &impl Display) -> String {
    format!("The answer of the provider {provider} cannot be said in this API: {why}.")
}

pub(super) fn not_ready(why: &impl Display) -> String {
    format!("The gateway is not ready: {why}.")
}
