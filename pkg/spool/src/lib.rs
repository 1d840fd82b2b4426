//! The durable local log: frames, group commit, recovery. `std::fs` only; no runtime, no SQL, no HTTP.

mod frontier;
mod log;
mod memory;
mod recent;

pub use log::{LogFault, LogStats, Opened, RecordLog};
pub use memory::MemoryLog;
