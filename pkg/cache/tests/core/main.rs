//! The cache over honest fakes: what it serves, what it refuses to serve, and that nothing behind it can fail a request.

mod adopting;
mod entries;
mod exact;
mod fixture;
mod keyring;
mod layered;
mod rescoring;
mod semantic;
mod sharing;
mod stale;
mod terms;
mod withdrawing;
