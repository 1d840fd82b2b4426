//! OpenAI's responses: its requests to the pivot, and events from there.

mod ask;
mod echo;
pub(crate) mod rules;
mod writer;

pub(crate) use ask::read;
pub(crate) use writer::Writer;

#[cfg(test)]
mod tests;
