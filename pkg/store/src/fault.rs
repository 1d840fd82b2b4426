//! One internal fault for both databases; at the ports it becomes what the callers know.

use signet_cache::StoreFault;
use signet_lineage::verify::Stored;
use signet_lineage::{Record, ShipFault, TreeFault};
use std::time::Duration;

/// Why an operation did not happen. Whether a commit arrived is unknown after [`Fault::Late`] and after an I/O error, so
/// every operation here may be repeated.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// No connection: down, refused, or all connections busy for too long.
    #[error("no database connection: {0}")]
    NoConnection(String),
    /// Connected, but it did not answer in time.
    #[error("the database did not answer within {0:?}")]
    Late(Duration),
    /// The database refused, or the connection broke.
    #[error("{0}")]
    Sql(#[from] sqlx::Error),
    /// A row that cannot be right.
    #[error("unexpected content in the database: {0}")]
    Corrupt(String),
    /// The fence spoke.
    #[error(transparent)]
    Ship(#[from] ShipFault),
    /// So it did about a checkpoint.
    #[error(transparent)]
    Tree(#[from] TreeFault),
}

impl Fault {
    /// Whether the connection must not be used again. One that leads to a server which only reads is among them: behind a
    /// failover it would go on leading there.
    pub(crate) fn breaks_connection(&self) -> bool {
        use sqlx::Error::{Io, Protocol, Tls, WorkerCrashed};
        matches!(self, Self::Late(_) | Self::Sql(Io(_) | Protocol(_) | Tls(_) | WorkerCrashed))
            || self.has_state("25006")
    }

    /// Whether the database gave this SQLSTATE.
    pub(crate) fn has_state(&self, state: &str) -> bool {
        matches!(self, Self::Sql(sqlx::Error::Database(e)) if e.code().as_deref() == Some(state))
    }
}

impl From<Fault> for ShipFault {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Ship(fault) => fault,
            other => Self::Unavailable(other.to_string()),
        }
    }
}

impl From<Fault> for TreeFault {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Tree(fault) => fault,
            other => Self::Unavailable(other.to_string()),
        }
    }
}

impl From<Fault> for StoreFault {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Late(limit) => Self::Timeout(limit),
            Fault::Corrupt(what) => Self::Corrupt(what),
            other => Self::Unavailable(other.to_string()),
        }
    }
}

/// A row of a log that cannot be read as a record.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the row at seq {} cannot be read: {why}", seq.map_or_else(|| "?".to_owned(), |seq| seq.to_string()))]
pub struct Unreadable {
    /// Its place, which may be one that no record can have; none of a row where no number stands, which comes behind all others.
    pub seq: Option<i64>,
    /// What stands in the way.
    pub why: String,
}

impl From<Unreadable> for Fault {
    fn from(row: Unreadable) -> Self {
        Self::Corrupt(row.to_string())
    }
}

/// A row, and what stands beside its record.
pub type StoredRow = Result<(Record, Stored), Unreadable>;

/// Leaves a row that cannot be read out of a page and says so.
pub(crate) fn left_out<T>(row: Result<T, Unreadable>) -> Option<T> {
    row.inspect_err(|row| tracing::error!("a record is left out: {row}")).ok()
}

/// A number as databases keep it; what does not fit was never written by us.
pub(crate) fn to_i64(n: u64) -> Result<i64, Fault> {
    i64::try_from(n).map_err(|_| Fault::Corrupt(format!("{n} is beyond what a database column holds")))
}

/// A number as it came back.
pub(crate) fn to_u64(n: i64) -> Result<u64, Fault> {
    u64::try_from(n).map_err(|_| Fault::Corrupt(format!("{n} is negative")))
}

/// An epoch as it came back.
pub(crate) fn to_epoch(n: i64) -> Result<u32, Fault> {
    u32::try_from(n).map_err(|_| Fault::Corrupt(format!("{n} is no epoch")))
}

/// A digest, key or signature as it came back.
pub(crate) fn to_array<const N: usize>(what: &str, bytes: &[u8]) -> Result<[u8; N], Fault> {
    bytes.try_into().map_err(|_| Fault::Corrupt(format!("{what} has {} bytes instead of {N}", bytes.len())))
}
