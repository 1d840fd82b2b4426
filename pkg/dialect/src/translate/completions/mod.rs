//! OpenAI's legacy completions: its requests to the pivot, and events from there.

mod ask;
pub(crate) mod rules;
mod writer;

pub(crate) use ask::read;
pub(crate) use writer::Writer;
