//! Anthropic's messages API as it is: requests, event streams, whole answers.
//!
//! The format is that of the vendor's API reference for `POST /v1/messages`, version 2023-06-01, as of November 2026.

mod classify;
mod fold;
mod message;
mod render;
mod request;

pub use classify::{Classifier, STOP, splitter};
pub use fold::MessageFold;
pub use message::Message;
pub(crate) use message::{is_count, usage_of};
pub use request::{CountTokensRequest, MessagesRequest};
