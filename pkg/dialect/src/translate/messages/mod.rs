//! Anthropic's messages: its requests and events to the pivot and back.

mod ask;
mod body;
mod reader;
mod writer;

pub(crate) use ask::read;
pub(crate) use body::write;
pub(crate) use reader::Reader;
pub(crate) use writer::Writer;
