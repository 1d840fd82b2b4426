//! Text to vectors and nearest neighbours, in process.
//!
//! [`StaticEncoder`] is a table of word-piece vectors: microseconds a prompt, no model run, no download. It cannot see
//! word order or the scope of a negation, so it finds candidates and the cache's gates decide. [`FlatIndex`] scans int8
//! rows: below some ten thousand rows a place, that beats a graph index and costs nothing to insert into.
//!
//! The only crate with unsafe code, and only for SIMD beside a scalar twin (`dot.rs`). It does no I/O and knows no
//! runtime.

mod dot;
mod encoder;
mod index;
mod matrix;
mod table;
mod tokenise;
mod vocab;

pub use encoder::{DIMS, EncodeFault, StaticEncoder};
pub use index::FlatIndex;
pub use table::TableFault;
