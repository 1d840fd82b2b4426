//! Durable cache entries in SQLite.

use super::SqliteStore;
use super::read::to_entries;
use crate::fault::{Fault, to_i64};
use crate::readers::entry_columns;
use async_trait::async_trait;
use signet_cache::{EntryRow, EntryStore, StoreFault};
use sqlx::QueryBuilder;
use sqlx::sqlite::{Sqlite, SqliteConnection};

// One statement for many rows: each statement costs two thread hops. Rows are only appended: looking for an older row of
// the same key would need an index over random keys, whose pages cost more to write than the rows themselves (9 of 24 us
// of CPU a row, measured). A superseded row is passed over by readers and goes when it expires.
const PUT: &str = "INSERT INTO cache_entry (key, id, partition, tenant, created_ms, expires_ms, sealed) ";
const ROWS_PER_PUT: usize = 1_000;

const SINCE: &str = concat!(
    "SELECT ",
    entry_columns!(),
    " FROM cache_entry WHERE appeared > $1 AND expires_ms > $2 ORDER BY appeared LIMIT $3"
);

const LATEST: &str =
    concat!("SELECT ", entry_columns!(), " FROM cache_entry WHERE expires_ms > $1 ORDER BY appeared DESC LIMIT $2");

#[async_trait]
impl EntryStore for SqliteStore {
    async fn put(&self, rows: &[EntryRow]) -> Result<(), StoreFault> {
        let rows = rows.to_vec();
        Ok(self.write(move |conn| Box::pin(async move { put(conn, rows).await })).await?)
    }

    async fn since(&self, cursor: u64, now_ms: u64, limit: u32) -> Result<(Vec<EntryRow>, u64), StoreFault> {
        let (after, now) = (to_i64(cursor)?, to_i64(now_ms)?);
        let work = self.read(move |conn| {
            Box::pin(async move {
                let ask = sqlx::query(SINCE).bind(after).bind(now).bind(i64::from(limit));
                to_entries(&ask.fetch_all(conn).await?, cursor)
            })
        });
        Ok(work.await?)
    }

    async fn latest(&self, now_ms: u64, limit: u32) -> Result<Vec<EntryRow>, StoreFault> {
        let now = to_i64(now_ms)?;
        let work = self.read(move |conn| {
            Box::pin(async move {
                let ask = sqlx::query(LATEST).bind(now).bind(i64::from(limit));
                Ok(to_entries(&ask.fetch_all(conn).await?, 0)?.0)
            })
        });
        Ok(work.await?)
    }

    /// One process at a time holds the data folder.
    fn is_shared(&self) -> bool {
        false
    }

    async fn sweep(&self, now_ms: u64) -> Result<u64, StoreFault> {
        let now = to_i64(now_ms)?;
        let work = self.write(move |conn| {
            Box::pin(async move {
                let sweep = sqlx::query("DELETE FROM cache_entry WHERE expires_ms < $1").bind(now);
                Ok(sweep.execute(conn).await?.rows_affected())
            })
        });
        Ok(work.await?)
    }
}

async fn put(conn: &mut SqliteConnection, rows: Vec<EntryRow>) -> Result<(), Fault> {
    for chunk in rows.chunks(ROWS_PER_PUT) {
        let times = |row: &EntryRow| Ok::<_, Fault>((to_i64(row.created_ms)?, to_i64(row.expires_ms)?));
        let times = chunk.iter().map(times).collect::<Result<Vec<_>, _>>()?;
        let mut query = QueryBuilder::<Sqlite>::new(PUT);
        query.push_values(chunk.iter().zip(times), |mut values, (row, (created_ms, expires_ms))| {
            values
                .push_bind(row.key.as_bytes().as_slice())
                .push_bind(row.id.as_uuid())
                .push_bind(row.partition.as_slice())
                .push_bind(row.tenant.as_bytes().as_slice())
                .push_bind(created_ms)
                .push_bind(expires_ms)
                .push_bind(row.sealed.as_slice());
        });
        query.build().execute(&mut *conn).await?;
    }
    Ok(())
}
