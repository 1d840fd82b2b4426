//! SQLite: one file, one writer at a time, write-ahead logging so that readers go on.
//!
//! `synchronous = NORMAL`: after power loss the file may lack its last transactions but is whole. Records are not lost by
//! that: the spool keeps what it shipped and ships it again from `next_seq`.

mod captures;
mod entries;
mod keyring;
mod keys;
mod labels;
mod notices;
mod prune;
mod records;
mod trees;

mod read {
    crate::readers::readers!(sqlx::sqlite::SqliteRow, i64, |_| Ok(None));
}

use crate::fault::{Fault, StoredRow};
use crate::open::Backend;
use crate::transact::{Work, transact};
use async_trait::async_trait;
use signet_cache::StoreFault;
use signet_lineage::ShipFault;
use signet_types::LogId;
use sqlx::Sqlite;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// For how long a statement waits for another process that writes.
const BUSY_LIMIT: Duration = Duration::from_secs(5);
/// For how long an operation waits for those before it in this process.
const QUEUE_LIMIT: Duration = Duration::from_secs(10);
const OPERATION_LIMIT: Duration = Duration::from_secs(20);
const READERS: u32 = 4;

/// Records, entries and keys in one SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    file: PathBuf,
    read: SqlitePool,
    write: SqlitePool,
}

impl SqliteStore {
    /// Opens without touching the file; needs a running tokio runtime.
    pub fn open(file: &Path) -> Self {
        let options = common(file).journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Normal);
        // Pages that many batches touch (indexes, the tail of a table) are copied into the file once a checkpoint: 32 MiB
        // of log between two of them instead of 4, and a cache that holds them meanwhile.
        let options = options.pragma("wal_autocheckpoint", "8192").pragma("cache_size", "-16384").page_size(8192);
        Self::with(file, &options)
    }

    /// Opens for reading only, while another process may be writing.
    pub fn open_read_only(file: &Path) -> Self {
        Self::with(file, &common(file).read_only(true))
    }

    fn with(file: &Path, options: &SqliteConnectOptions) -> Self {
        // One connection for writes: they queue here in turn instead of polling for the file's lock.
        let pool = |size| SqlitePoolOptions::new().max_connections(size).acquire_timeout(QUEUE_LIMIT);
        Self {
            file: file.to_owned(),
            read: pool(READERS).connect_lazy_with(options.clone()),
            write: pool(1).connect_lazy_with(options.clone()),
        }
    }

    async fn read<T, F>(&self, work: F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> Work<'c, T> + Send + 'static,
    {
        transact::<Sqlite, T, F>(&self.read, "BEGIN DEFERRED", OPERATION_LIMIT, work).await
    }

    async fn write<T, F>(&self, work: F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> Work<'c, T> + Send + 'static,
    {
        transact::<Sqlite, T, F>(&self.write, "BEGIN IMMEDIATE", OPERATION_LIMIT, work).await
    }
}

/// Only a migration makes the file, so that a wrong path is noticed.
fn common(file: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new().filename(file).busy_timeout(BUSY_LIMIT).create_if_missing(false)
}

/// Makes the file for its owner alone: it will hold the tenant secret. SQLite gives its side files the same mode.
fn make_file(file: &Path) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file).map(drop)
}

#[async_trait]
impl Backend for SqliteStore {
    async fn migrate(&self) -> Result<(), StoreFault> {
        let file = self.file.display();
        make_file(&self.file).map_err(|e| StoreFault::Unavailable(format!("{file}: {e}")))?;
        // sqlx has no migration lock for SQLite; the write lock of one transaction around all of them is as good.
        let work = self.write(|conn| {
            Box::pin(async move {
                crate::migrations::sqlite().run_direct(None, conn, false).await.map_err(sqlx::Error::from)?;
                Ok(())
            })
        });
        Ok(work.await?)
    }

    async fn probe(&self) -> Result<(), StoreFault> {
        let work = self.read(|conn| {
            Box::pin(async move {
                Ok(sqlx::query("SELECT 1 FROM lineage_log LIMIT 1").fetch_optional(conn).await.map(drop)?)
            })
        });
        Ok(work.await?)
    }

    async fn has_schema(&self) -> Result<bool, StoreFault> {
        let ask = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'lineage_log'";
        let work = self.read(move |conn| {
            Box::pin(async move { Ok(sqlx::query_scalar::<_, i64>(ask).fetch_one(conn).await? > 0) })
        });
        Ok(work.await?)
    }

    async fn rows(&self, log: LogId, from: i64, limit: u32) -> Result<Vec<StoredRow>, ShipFault> {
        self.rows(log, from, limit).await
    }

    async fn strays(&self) -> Result<Vec<String>, ShipFault> {
        self.strays().await
    }

    async fn close(&self) {
        self.read.close().await;
        self.write.close().await;
    }
}
