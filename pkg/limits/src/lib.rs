//! Admission arithmetic: may this caller's request come in now, and if not, when?
//!
//! The clock is a parameter, nothing here blocks for longer than a table lookup, and memory is bounded whatever callers
//! send. This crate knows no HTTP types, no Redis and no runtime.
//!
//! Why not a ready-made limiter layer: the known ones offer no cost, no injectable clock, no memory bound between sweeps,
//! round a sub-second wait down to `Retry-After: 0`, and read the caller's address from the spoofable end of
//! `X-Forwarded-For`.

mod address;
mod client_ip;
mod hops;
mod limiter;
mod quota;
mod shard;

pub use address::AddressKey;
pub use client_ip::ClientIp;
pub use limiter::{IpLimiter, Limiter};
pub use quota::{Decision, Quota, QuotaFault, Tat};
