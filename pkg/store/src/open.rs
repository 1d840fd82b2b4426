//! From a URL to the stores.

use crate::fault::{Fault, StoredRow, to_i64};
use crate::{PgStore, SqliteStore};
use async_trait::async_trait;
use signet_cache::{EntryStore, KeyStore, LabelStore, NoticeStore, StoreFault};
use signet_lineage::verify::Stored;
use signet_lineage::{CaptureStore, KeyringStore, PruneStore, Record, RecordStore, ShipFault, TreeStore};
use signet_types::LogId;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Where the data lives.
#[derive(Clone)]
pub struct Options {
    /// `sqlite://file` (relative to `data_dir`), `sqlite:///absolute/file`, or `postgres://…`.
    pub url: String,
    /// For migrations, where `url` leads to a pooler in transaction mode, which cannot carry the migration lock.
    pub direct_url: Option<String>,
    /// What relative SQLite files are relative to.
    pub data_dir: PathBuf,
    /// Postgres connections at most.
    pub max_connections: u32,
    /// For how long an operation in Postgres may run, seen from here, before its connection is given up.
    pub operation_limit: Duration,
}

impl Options {
    /// The store at `url` with 8 connections at most and operations of 12 s at most: a little more than the server's own
    /// limit of 10 s on a statement, so that the server speaks first where it can.
    pub fn new(url: impl Into<String>, data_dir: impl Into<PathBuf>) -> Self {
        Self {
            url: url.into(),
            direct_url: None,
            data_dir: data_dir.into(),
            max_connections: 8,
            operation_limit: Duration::from_secs(12),
        }
    }
}

impl std::fmt::Debug for Options {
    /// Without the URLs: they may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("data_dir", &self.data_dir).finish_non_exhaustive()
    }
}

/// A store URL that cannot be used: the operator's to mend. It does not repeat the URL, which may hold a password.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Neither Postgres nor SQLite.
    #[error("a store URL begins with sqlite:// or postgres://")]
    Scheme,
    /// A Postgres URL that cannot be read.
    #[error("the Postgres URL cannot be read: {0}")]
    Postgres(String),
    /// A SQLite URL without a file, or one that lives in memory only.
    #[error("a SQLite URL names a file: sqlite://signet.db")]
    SqliteFile,
}

/// What both databases do besides their ports.
#[async_trait]
pub(crate) trait Backend: Send + Sync {
    async fn migrate(&self) -> Result<(), StoreFault>;
    async fn probe(&self) -> Result<(), StoreFault>;
    async fn has_schema(&self) -> Result<bool, StoreFault>;
    async fn rows(&self, log: LogId, from: i64, limit: u32) -> Result<Vec<StoredRow>, ShipFault>;
    async fn strays(&self) -> Result<Vec<String>, ShipFault>;
    async fn close(&self);
}

/// One database behind its ports.
#[derive(Clone)]
pub struct Stores {
    /// Lineage records.
    pub records: Arc<dyn RecordStore>,
    /// Durable cache entries.
    pub entries: Arc<dyn EntryStore>,
    /// The tenant secret and the wrapped tenant keys.
    pub keys: Arc<dyn KeyStore>,
    /// Notices between replicas.
    pub notices: Arc<dyn NoticeStore>,
    /// Labels of semantic decisions.
    pub labels: Arc<dyn LabelStore>,
    /// Checkpoints and tiles.
    pub trees: Arc<dyn TreeStore>,
    /// Sealed bodies.
    pub captures: Arc<dyn CaptureStore>,
    /// Keyrings that offline roots signed.
    pub keyrings: Arc<dyn KeyringStore>,
    /// Retention.
    pub prunes: Arc<dyn PruneStore>,
    backend: Arc<dyn Backend>,
}

impl Stores {
    /// Opens without connecting. Needs a running tokio runtime.
    ///
    /// # Errors
    /// Only for a URL that can never work.
    pub fn open(options: &Options) -> Result<Self, OpenError> {
        match sqlite_file(&options.url, &options.data_dir)? {
            Some(file) => Ok(Self::of(Arc::new(SqliteStore::open(&file)))),
            None => Ok(Self::of(Arc::new(PgStore::open(options)?))),
        }
    }

    /// Opens for reading, while others may be writing; nothing is migrated or made.
    ///
    /// # Errors
    /// Only for a URL that can never work.
    pub fn open_read_only(options: &Options) -> Result<Self, OpenError> {
        match sqlite_file(&options.url, &options.data_dir)? {
            Some(file) => Ok(Self::of(Arc::new(SqliteStore::open_read_only(&file)))),
            None => Ok(Self::of(Arc::new(PgStore::open_read_only(options)?))),
        }
    }

    fn of<S>(store: Arc<S>) -> Self
    where
        S: RecordStore
            + EntryStore
            + KeyStore
            + NoticeStore
            + LabelStore
            + TreeStore
            + CaptureStore
            + KeyringStore
            + PruneStore
            + Backend,
    {
        Self {
            records: store.clone(),
            entries: store.clone(),
            keys: store.clone(),
            notices: store.clone(),
            labels: store.clone(),
            trees: store.clone(),
            captures: store.clone(),
            keyrings: store.clone(),
            prunes: store.clone(),
            backend: store,
        }
    }

    /// Brings the schema up to date; safe while other replicas do the same. The caller retries: nothing else may be asked of
    /// the stores before it has succeeded once.
    ///
    /// # Errors
    /// The database cannot be reached, or holds a schema that is not ours.
    pub async fn migrate(&self) -> Result<(), StoreFault> {
        self.backend.migrate().await
    }

    /// Whether the database answers and carries the schema.
    ///
    /// # Errors
    /// What stands in the way.
    pub async fn probe(&self) -> Result<(), StoreFault> {
        self.backend.probe().await
    }

    /// Whether the lineage tables are there; a database that was never migrated, or an empty file, has none.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn has_schema(&self) -> Result<bool, StoreFault> {
        self.backend.has_schema().await
    }

    /// As [`RecordStore::records`], with the copies of signed facts that stand beside each record, for `verify` to compare, and
    /// with the rows that cannot be read. Places that no record can have are read too.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn rows(&self, log: LogId, from: i64, limit: u32) -> Result<Vec<StoredRow>, ShipFault> {
        self.backend.rows(log, from, limit).await
    }

    /// As [`Self::rows`], where each of them must be readable.
    ///
    /// # Errors
    /// The database, or one of the rows, cannot be read.
    pub async fn stored(&self, log: LogId, from_seq: u64, limit: u32) -> Result<Vec<(Record, Stored)>, ShipFault> {
        let rows = self.rows(log, to_i64(from_seq)?, limit).await?;
        Ok(rows.into_iter().collect::<Result<_, _>>().map_err(Fault::from)?)
    }

    /// What the rows call a log that [`RecordStore::logs`] does not name: nobody would look for these rows.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn strays(&self) -> Result<Vec<String>, ShipFault> {
        self.backend.strays().await
    }

    /// Ends all connections; operations after it fail.
    pub async fn close(&self) {
        self.backend.close().await;
    }
}

/// The file of a SQLite URL; none for a Postgres one.
fn sqlite_file(url: &str, data_dir: &Path) -> Result<Option<PathBuf>, OpenError> {
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return Ok(None);
    }
    let rest = url.strip_prefix("sqlite:").ok_or(OpenError::Scheme)?;
    let file = rest.strip_prefix("//").unwrap_or(rest);
    let odd = file.is_empty() || file.ends_with('/') || file.starts_with(':') || file.contains('?');
    if odd { Err(OpenError::SqliteFile) } else { Ok(Some(data_dir.join(file))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sqlite_files_are_relative_to_the_data_folder_unless_absolute() {
        let file = |url: &str| sqlite_file(url, Path::new("/data")).expect("a good URL");
        assert_eq!(file("sqlite://signet.db"), Some(PathBuf::from("/data/signet.db")));
        assert_eq!(file("sqlite:signet.db"), Some(PathBuf::from("/data/signet.db")));
        assert_eq!(file("sqlite:///var/lib/s.db"), Some(PathBuf::from("/var/lib/s.db")));
        assert_eq!(file("postgres://db/signet"), None);
    }

    #[test]
    fn urls_that_can_never_work_are_refused_at_once() {
        for url in ["", "mysql://db/x", "sqlite://", "sqlite::memory:", "sqlite://x.db?mode=memory", "sqlite://dir/"] {
            assert!(sqlite_file(url, Path::new("/data")).is_err(), "{url}");
        }
    }

    #[test]
    fn a_password_in_the_url_shows_neither_in_debug_output_nor_in_errors() {
        let options = Options::new("postgres://u:hunter2@h:port/x", "/data");
        assert!(!format!("{options:?}").contains("hunter2"));
        let error = PgStore::open(&options).expect_err("a bad port");
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }
}
