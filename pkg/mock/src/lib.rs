//! A scriptable fake of the providers (OpenAI's, Azure's and Anthropic's APIs), for tests, the demo and benchmarks.
//!
//! What it sends are literal fixtures of the public wire format (`src/fixtures`) with a few values spliced in, never
//! the output of the gateway's own types: a mistake shared by reader and writer would otherwise stay unseen. Every
//! answer carries a [`marker`] of the prompt it answers, so a client can tell when it was handed somebody else's.
//!
//! [`MockUpstream`] runs on threads of its own, so a test may pause its clock or block without stopping the upstream,
//! and the mock's work does not sit in the runtime that is measured. It knows nothing of the gateway.

mod answer;
mod behaviour;
mod body;
mod brotli;
mod chat;
mod completions;
mod control;
mod embedding;
mod encoding;
mod errors;
mod goaway;
mod gzip;
mod io;
mod journal;
mod messages;
mod pen;
mod request;
mod responses;
mod route;
mod server;
mod service;
mod template;
mod tls;
mod wire;

pub use answer::{answer_text, chat_body, chat_body_with, marker, padded};
pub use behaviour::{BadBehaviour, Behaviour, Fault};
pub use encoding::Encoding;
pub use journal::{Counts, Seen};
pub use server::{Config, MockUpstream, StartError};
