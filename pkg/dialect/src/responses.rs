//! OpenAI's `/v1/responses`: items in, items out, and events that name what they change.
//!
//! Field and event names as in the API reference of 2026-11. The API keeps state: a response may be continued by its id, put
//! into a conversation, or run in the background. A request that rests on such state passes untouched and is never cached
//! ([`ResponsesRequest::stateless`]); an answer that others may rest on keeps its own id when it is served again.

mod answer;
mod classify;
mod fold;
mod item;
mod request;
mod stream;

pub use answer::Response;
pub use classify::Classifier;
pub use fold::ResponsesFold;
pub use request::ResponsesRequest;

#[cfg(test)]
mod tests;
