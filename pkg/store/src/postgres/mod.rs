//! Postgres. Statements are unnamed and every operation is one transaction, so a pooler in transaction mode may stand between.

mod captures;
mod entries;
mod keyring;
mod keys;
mod labels;
mod notices;
mod prune;
mod records;
mod rows;
mod setup;
mod trees;
mod vectors;

mod read {
    crate::readers::readers!(sqlx::postgres::PgRow, i16, |row| {
        let Some(writer) = row.try_get(19)? else { return Ok(None) };
        let (kind, cache, leaf, parent) = (row.try_get(20)?, row.try_get(21)?, row.try_get(22)?, row.try_get(23)?);
        Ok(Some(Slim { writer, kind, cache, leaf, parent }))
    });
}

pub use vectors::{PgVectorIndex, UnusableIndex};

use crate::fault::{Fault, StoredRow};
use crate::learn::Learner;
use crate::open::{Backend, OpenError, Options};
use crate::transact::{Work, transact};
use async_trait::async_trait;
use signet_cache::StoreFault;
use signet_lineage::ShipFault;
use signet_types::LogId;
use sqlx::migrate::Migration;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{Connection, Postgres, Row as _};
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::timeout;

/// For how long an operation waits for a connection. sqlx retries a refused connect inside it, so "down" takes this long.
const ACQUIRE_LIMIT: Duration = Duration::from_millis(500);
/// For how long a migration may run or wait for that of another replica.
const MIGRATE_LIMIT: Duration = Duration::from_mins(2);
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

// The settings travel with BEGIN and end with the transaction: a pooler drops start-up options, and a session's settings
// would leak to its next client. The idle limit frees the fence, and the readers of `cache_entry`, from a frozen client.
const BEGIN: &str = "BEGIN; SET LOCAL statement_timeout = '10s'; SET LOCAL idle_in_transaction_session_timeout = '10s'";
const BEGIN_READ_ONLY: &str = "BEGIN READ ONLY; SET LOCAL statement_timeout = '10s'";

/// Records, entries and keys in Postgres (14 or later).
pub struct PgStore {
    pool: PgPool,
    migrate_with: PgConnectOptions,
    begin: &'static str,
    limit: Duration,
    learner: Mutex<Learner>,
}

impl std::fmt::Debug for PgStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PgStore").finish_non_exhaustive()
    }
}

impl PgStore {
    /// Opens without connecting; needs a running tokio runtime.
    ///
    /// # Errors
    /// A URL that cannot be read.
    pub fn open(options: &Options) -> Result<Self, OpenError> {
        Self::with(options, BEGIN)
    }

    /// Opens for reading only: the server refuses whatever would write.
    ///
    /// # Errors
    /// A URL that cannot be read.
    pub fn open_read_only(options: &Options) -> Result<Self, OpenError> {
        Self::with(options, BEGIN_READ_ONLY)
    }

    fn with(options: &Options, begin: &'static str) -> Result<Self, OpenError> {
        let parse = |url: &str| {
            let parsed: Result<PgConnectOptions, sqlx::Error> = url.parse();
            let parsed = parsed.map_err(|e| OpenError::Postgres(e.to_string()))?;
            Ok(parsed.application_name("signet").statement_cache_capacity(0))
        };
        let connect = parse(&options.url)?;
        let migrate_with = options.direct_url.as_deref().map_or_else(|| Ok(connect.clone()), parse)?;
        let pool = PgPoolOptions::new()
            .max_connections(options.max_connections.max(1))
            .acquire_timeout(ACQUIRE_LIMIT)
            .connect_lazy_with(connect);
        Ok(Self { pool, migrate_with, begin, limit: options.operation_limit, learner: Mutex::new(Learner::new()) })
    }

    /// How connections are made.
    fn connects_with(&self) -> PgConnectOptions {
        PgConnectOptions::clone(&self.pool.connect_options())
    }

    /// How the connection is made that changes the schema.
    fn migrates_with(&self) -> PgConnectOptions {
        self.migrate_with.clone()
    }

    async fn end(&self) {
        self.pool.close().await;
    }

    async fn transact<T, F>(&self, work: F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut PgConnection) -> Work<'c, T> + Send + 'static,
    {
        transact::<Postgres, T, F>(&self.pool, self.begin, self.limit, work).await
    }
}

/// A statement that leaves nothing behind on the server connection.
fn unnamed(sql: &'static str) -> sqlx::query::Query<'static, Postgres, sqlx::postgres::PgArguments> {
    sqlx::query(sql).persistent(false)
}

/// Whether nothing is left to migrate. A role that may not change the schema can then still start.
async fn is_current(conn: &mut PgConnection) -> bool {
    let rows = unnamed("SELECT version, checksum FROM _sqlx_migrations WHERE success").fetch_all(conn).await;
    let done = |row: &sqlx::postgres::PgRow| Some((row.try_get(0).ok()?, row.try_get(1).ok()?));
    let done: Vec<(i64, Vec<u8>)> = rows.iter().flatten().filter_map(done).collect();
    let known = |migration: &Migration| {
        done.iter().any(|(version, checksum)| *version == migration.version && **checksum == *migration.checksum)
    };
    crate::migrations::postgres().iter().all(known)
}

/// Migrates on a connection of its own, closed whatever happens: the migration lock belongs to the session, and a failed
/// migration would else take it back into the pool.
async fn migrate(options: &PgConnectOptions) -> Result<(), Fault> {
    let connect = timeout(CONNECT_LIMIT, PgConnection::connect_with(options)).await;
    let mut conn = connect.map_err(|_| Fault::Late(CONNECT_LIMIT))?.map_err(|e| Fault::NoConnection(e.to_string()))?;
    let work = async {
        if is_current(&mut conn).await {
            Ok(())
        } else {
            crate::migrations::postgres().run_direct(None, &mut conn, false).await
        }
    };
    let done = timeout(MIGRATE_LIMIT, work).await;
    let _ = timeout(CONNECT_LIMIT, conn.close()).await;
    Ok(done.map_err(|_| Fault::Late(MIGRATE_LIMIT))?.map_err(sqlx::Error::from)?)
}

#[async_trait]
impl Backend for PgStore {
    async fn migrate(&self) -> Result<(), StoreFault> {
        let options = self.migrate_with.clone();
        let task = tokio::spawn(async move { migrate(&options).await });
        let done = task.await.unwrap_or_else(|e| Err(Fault::NoConnection(e.to_string())));
        Ok(done?)
    }

    async fn probe(&self) -> Result<(), StoreFault> {
        let ask = "SELECT 1 FROM lineage_log LIMIT 1";
        let work =
            self.transact(move |conn| Box::pin(async move { Ok(unnamed(ask).fetch_optional(conn).await.map(drop)?) }));
        Ok(work.await?)
    }

    async fn has_schema(&self) -> Result<bool, StoreFault> {
        let ask = "SELECT to_regclass('lineage_log') IS NOT NULL";
        let work =
            self.transact(move |conn| Box::pin(async move { Ok(unnamed(ask).fetch_one(conn).await?.try_get(0)?) }));
        Ok(work.await?)
    }

    async fn rows(&self, log: LogId, from: i64, limit: u32) -> Result<Vec<StoredRow>, ShipFault> {
        self.rows(log, from, limit).await
    }

    async fn strays(&self) -> Result<Vec<String>, ShipFault> {
        self.strays().await
    }

    async fn close(&self) {
        self.end().await;
    }
}
