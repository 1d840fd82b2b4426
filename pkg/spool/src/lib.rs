//! The durable local log: frames, group commit, recovery. `std::fs` only; no runtime, no SQL, no HTTP.

mod log;

pub use log::{LogFault, LogStats, Opened, RecordLog};
