//! Text to vectors and nearest neighbours, in process.
//!
//! [`StaticEncoder`] is a table of word-piece vectors: microseconds a prompt, no model run, no download. It cannot see
//! word order or the scope of a negation, so it finds candidates and the cache's gates decide. [`FlatIndex`] scans int8
//! rows, in large places behind a scan of one-bit codes: that costs next to nothing to insert into or to remove from.
//!
//! The only crate with unsafe code, and only for SIMD beside a portable twin (`dot.rs`, `hamming.rs`,
//! `accumulate.rs`). It does no I/O and knows no
//! runtime.

mod accumulate;
mod dot;
mod encoder;
mod hamming;
mod index;
mod matrix;
mod quantised;
mod sketch;
mod table;
mod tokenise;
mod vocab;
mod wordpieces;

pub use encoder::{DIMS, EncodeFault, StaticEncoder};
pub use index::FlatIndex;
pub use table::TableFault;
pub use wordpieces::WordPieces;
