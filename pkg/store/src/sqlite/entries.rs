//! Durable cache entries in SQLite.

use super::SqliteStore;
use crate::fault::{Fault, to_array, to_i64, to_u64};
use crate::sieve::newest_per_key;
use async_trait::async_trait;
use signet_cache::{CacheKey, EntryRow, EntryStore, StoreFault};
use signet_types::{EntryId, TenantId};
use sqlx::Row as _;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

// REPLACE removes the old row and inserts a new one, with a new number of appearance.
const PUT: &str = "\
INSERT OR REPLACE INTO cache_entry (key, id, partition, tenant, created_ms, expires_ms, sealed)
SELECT $1, $2, $3, $4, $5, $6, $7
WHERE NOT EXISTS (SELECT 1 FROM cache_entry WHERE key = $1 AND created_ms > $5)";

const SINCE: &str = "\
SELECT id, key, partition, tenant, created_ms, expires_ms, sealed, appeared FROM cache_entry
WHERE appeared > $1 AND expires_ms > $2 ORDER BY appeared LIMIT $3";

#[async_trait]
impl EntryStore for SqliteStore {
    async fn put(&self, rows: &[EntryRow]) -> Result<(), StoreFault> {
        let rows = newest_per_key(rows);
        Ok(self.write(move |conn| Box::pin(async move { put(conn, rows).await })).await?)
    }

    async fn since(&self, cursor: u64, now_ms: u64, limit: u32) -> Result<(Vec<EntryRow>, u64), StoreFault> {
        let (after, now) = (to_i64(cursor)?, to_i64(now_ms)?);
        let work = self.read(move |conn| {
            Box::pin(async move {
                let rows = sqlx::query(SINCE).bind(after).bind(now).bind(i64::from(limit)).fetch_all(conn).await?;
                let behind = rows.last().map(|row| to_u64(row.try_get(7)?)).transpose()?.unwrap_or(cursor);
                Ok((rows.iter().map(to_entry).collect::<Result<_, _>>()?, behind))
            })
        });
        Ok(work.await?)
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
    for row in rows {
        sqlx::query(PUT)
            .bind(row.key.as_bytes().to_vec())
            .bind(row.id.as_bytes().to_vec())
            .bind(row.partition.to_vec())
            .bind(row.tenant.as_bytes().to_vec())
            .bind(to_i64(row.created_ms)?)
            .bind(to_i64(row.expires_ms)?)
            .bind(row.sealed)
            .execute(&mut *conn)
            .await?;
    }
    Ok(())
}

fn to_entry(row: &SqliteRow) -> Result<EntryRow, Fault> {
    Ok(EntryRow {
        id: EntryId::from_bytes(to_array("id", row.try_get(0)?)?),
        key: CacheKey::from_bytes(to_array("key", row.try_get(1)?)?),
        partition: to_array("partition", row.try_get(2)?)?,
        tenant: TenantId::from_bytes(to_array("tenant", row.try_get(3)?)?),
        created_ms: to_u64(row.try_get(4)?)?,
        expires_ms: to_u64(row.try_get(5)?)?,
        sealed: row.try_get(6)?,
    })
}
