//! OpenAI's chat completions: its requests and events to the pivot and back.
//!
//! The format is that of the vendor's API reference as of November 2026, with `reasoning_content` and `reasoning` as
//! compatible servers send them.

mod ask;
mod body;
mod reader;
mod writer;

pub(crate) use ask::read;
pub(crate) use body::write;
pub(crate) use reader::Reader;
pub(crate) use writer::Writer;
