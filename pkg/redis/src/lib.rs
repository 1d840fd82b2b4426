//! The shared exact layer on Redis or Valkey.
//!
//! It may fail at any time and the gateway does not notice: every call ends within its budget, a run of failures stops
//! asking for a while, and a start never waits for the server. Keys have one size and every value has an end. Values are
//! sealed before they get here; this crate knows nothing of answers.

mod counters;
mod store;
mod url;

pub use counters::{Counters, Counts};
pub use store::{Config, RedisExactStore};
pub use url::UrlError;
