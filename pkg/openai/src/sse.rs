//! Event streams by the rules of the WHATWG HTML standard, section 9.2 "Server-sent events".
//!
//! [`Splitter`] is for passing a stream on: it returns the bytes it was given, cut between events only, with what each
//! means. [`Decoder`] reads events. Both hold at most one unfinished event of bounded size and give the same results
//! wherever the bytes were cut on their way.

mod classify;
mod decoder;
mod frame;
mod splitter;

pub use classify::{ChatEvents, Classify, Kind, is_failure, name_and_data};
pub use decoder::{Decoder, Event, complete, events};
pub use splitter::{Run, Splitter};

/// The event that ends a chat stream.
pub const DONE: &[u8] = b"data: [DONE]\n\n";

/// An event is longer than allowed; the stream cannot be read any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the provider sent an event of more than {limit} bytes")]
pub struct TooLong {
    /// The most bytes that one event may have.
    pub limit: usize,
}
