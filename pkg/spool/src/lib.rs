//! The durable local log: frames, group commit, recovery. `std::fs` only; no runtime, no SQL, no HTTP.
#![expect(clippy::missing_errors_doc, reason = "each crate-specific error type says when it occurs")]

mod config;
mod files;
mod frame;
mod frontier;
mod identity;
mod log;
mod memory;
mod recent;
mod recover;
mod replay;
mod scan;
mod segment;
#[cfg(any(test, feature = "test-util"))]
mod sim;
mod spool;
#[cfg(test)]
mod tests;
mod writer;

pub use config::{Config, Gap, OpenFault, Recovered};
pub use files::{Disk, Files, Handle};
pub use log::{LogFault, LogStats, Opened, RecordLog};
pub use memory::MemoryLog;
#[cfg(any(test, feature = "test-util"))]
pub use sim::{Call, SimFiles};
pub use spool::Spool;
