//! OpenAI's legacy completions, `/v1/completions`: a prompt that is continued.
//!
//! Field names as in the API reference of 2026-11. Streams are those of chat but for the choices, which hold `text`, so the
//! splitter of chat streams serves them too.

mod choice;
mod request;

pub use choice::{Completion, CompletionsFold, TextChoice};
pub use request::CompletionsRequest;

#[cfg(test)]
mod tests;
