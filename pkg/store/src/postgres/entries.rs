//! Durable cache entries in Postgres.

use super::read::to_entries;
use super::{PgStore, unnamed};
use crate::fault::{Fault, to_i64};
use crate::readers::entry_columns;
use crate::sieve::newest_per_key;
use async_trait::async_trait;
use signet_cache::{EntryRow, EntryStore, StoreFault};
use sqlx::postgres::PgConnection;

/// Rows removed per transaction.
const SWEEP: i64 = 5000;
/// Rows written per transaction, at up to 1 MiB each.
const ROWS_PER_PUT: usize = 100;

// Released by the commit, after the rows became visible: so numbers of appearance become visible in their order, and a reader
// that saw one has seen all below it. (The other way, to read only below the oldest running transaction, would let any long
// transaction on the server, of whatever application, hold back the entries of all replicas.)
const ONE_WRITER: &str = "SELECT pg_advisory_xact_lock(7310029, 2)";

const PUT: &str = "\
INSERT INTO cache_entry (key, id, partition, tenant, created_ms, expires_ms, sealed)
SELECT key, id, partition, tenant, created_ms, expires_ms, sealed
FROM unnest($1::bytea[], $2::uuid[], $3::bytea[], $4::bytea[], $5::bigint[], $6::bigint[], $7::bytea[])
    WITH ORDINALITY AS t (key, id, partition, tenant, created_ms, expires_ms, sealed, place) ORDER BY place
ON CONFLICT (key) DO UPDATE SET id = excluded.id, partition = excluded.partition, tenant = excluded.tenant,
    created_ms = excluded.created_ms, expires_ms = excluded.expires_ms, sealed = excluded.sealed,
    appeared = excluded.appeared
WHERE cache_entry.created_ms <= excluded.created_ms";

// A cursor beyond the last number comes from before a restore: it reads from the start.
const SINCE: &str = concat!(
    "SELECT ",
    entry_columns!(),
    " FROM cache_entry
    WHERE appeared > CASE WHEN $1 > (SELECT last_value FROM cache_entry_appeared) THEN 0 ELSE $1 END AND expires_ms > $2
    ORDER BY appeared LIMIT $3"
);

const LATEST: &str =
    concat!("SELECT ", entry_columns!(), " FROM cache_entry WHERE expires_ms > $1 ORDER BY appeared DESC LIMIT $2");

// In key order, as PUT: two replicas that meet wait for each other, they never deadlock.
const SWEEP_SOME: &str = "\
DELETE FROM cache_entry WHERE key IN
(SELECT key FROM cache_entry WHERE expires_ms < $1 ORDER BY key LIMIT $2 FOR UPDATE SKIP LOCKED)";

#[async_trait]
impl EntryStore for PgStore {
    async fn put(&self, rows: &[EntryRow]) -> Result<(), StoreFault> {
        for chunk in rows.chunks(ROWS_PER_PUT) {
            let rows = newest_per_key(chunk);
            self.transact(move |conn| Box::pin(async move { put(conn, &rows).await })).await?;
        }
        Ok(())
    }

    async fn since(&self, cursor: u64, now_ms: u64, limit: u32) -> Result<(Vec<EntryRow>, u64), StoreFault> {
        let (after, now) = (to_i64(cursor)?, to_i64(now_ms)?);
        let work = self.transact(move |conn| {
            Box::pin(async move {
                let ask = unnamed(SINCE).bind(after).bind(now).bind(i64::from(limit));
                to_entries(&ask.fetch_all(conn).await?, cursor)
            })
        });
        Ok(work.await?)
    }

    async fn latest(&self, now_ms: u64, limit: u32) -> Result<Vec<EntryRow>, StoreFault> {
        let now = to_i64(now_ms)?;
        let work = self.transact(move |conn| {
            Box::pin(async move {
                let ask = unnamed(LATEST).bind(now).bind(i64::from(limit));
                Ok(to_entries(&ask.fetch_all(conn).await?, 0)?.0)
            })
        });
        Ok(work.await?)
    }

    async fn sweep(&self, now_ms: u64) -> Result<u64, StoreFault> {
        let now_ms = to_i64(now_ms)?;
        let mut swept = 0;
        loop {
            let work = self.transact(move |conn| {
                Box::pin(async move {
                    Ok(unnamed(SWEEP_SOME).bind(now_ms).bind(SWEEP).execute(conn).await?.rows_affected())
                })
            });
            let some = work.await?;
            swept += some;
            if some < SWEEP.unsigned_abs() {
                return Ok(swept);
            }
        }
    }
}

async fn put(conn: &mut PgConnection, rows: &[EntryRow]) -> Result<(), Fault> {
    let created = rows.iter().map(|row| to_i64(row.created_ms)).collect::<Result<Vec<_>, _>>()?;
    let expires = rows.iter().map(|row| to_i64(row.expires_ms)).collect::<Result<Vec<_>, _>>()?;
    unnamed(ONE_WRITER).execute(&mut *conn).await?;
    unnamed(PUT)
        .bind(rows.iter().map(|row| row.key.as_bytes().as_slice()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.id.as_uuid()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.partition.as_slice()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.tenant.as_bytes().as_slice()).collect::<Vec<_>>())
        .bind(created)
        .bind(expires)
        .bind(rows.iter().map(|row| row.sealed.as_slice()).collect::<Vec<_>>())
        .execute(conn)
        .await?;
    Ok(())
}
