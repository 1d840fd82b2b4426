//! Postgres and SQLite behind the ports of `signet-lineage` and `signet-cache`. SQL lives here and nowhere else.
//!
//! Opening never fails because a server is down: connections are made when they are needed, `migrate` is for the caller to
//! retry, `probe` tells readiness. A database that is down shows within a second, as a fault that says so.
//!
//! There is no task, queue or retry in here: when to ship, how much, and what to do about a fault is the caller's business.

mod captures;
mod columns;
mod fault;
mod fence;
mod learn;
mod migrations;
mod open;
mod pack;
mod postgres;
mod readers;
mod sieve;
mod sqlite;
mod transact;

pub use fault::{StoredRow, Unreadable};
pub use open::{OpenError, Options, Stores};
pub use postgres::{PgStore, PgVectorIndex, UnusableIndex};
pub use sqlite::SqliteStore;
