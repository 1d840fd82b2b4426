//! The OpenAI wire format, nothing more: requests, event streams, answers, errors and model lists.
//!
//! It decides nothing about caching, providers or HTTP. It tells callers of this crate what a body says
//! ([`ChatRequest`]), which bytes of a stream are which event ([`sse`]), and keeps a complete answer in the one form that
//! can be served as JSON and as a stream ([`Answer`]).
//!
//! Bodies are read with a parser of our own because three things are needed at once that no borrowed tree
//! gives together: where a value lies in the caller's bytes, numbers as they were written, and refused duplicate keys.

mod canon;
mod chat;
mod choices;
mod embeddings;
mod error;
mod json;
mod kept;
mod models;
mod prefix;
mod request;
pub mod sse;
mod template;
mod turn;
pub mod wire;

pub use chat::{Accumulator, Answer, ChatChoice};
pub use choices::{Choices, ChoicesFold, Incomplete};
pub use embeddings::{Batch, Embeddings, EmbeddingsRequest};
pub use error::{BadRequest, ErrorBody};
pub use kept::{KeptText, Layer, NotStorable, Usage};
pub use models::{ModelList, NotAModelList};
pub use prefix::prefix;
pub use request::{Asked, ChatRequest, quoted};
