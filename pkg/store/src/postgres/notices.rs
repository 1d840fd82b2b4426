//! Notices in Postgres.

use super::read::to_notices;
use super::{PgStore, unnamed};
use crate::fault::{Fault, to_i64};
use crate::readers::{NoticeRow, notice_columns};
use async_trait::async_trait;
use signet_cache::{Notice, NoticeStore, StoreFault};
use sqlx::postgres::PgConnection;

// As for entries: numbers become visible in their order.
const ONE_WRITER: &str = "SELECT pg_advisory_xact_lock(7310029, 3)";
const POST: &str = "\
INSERT INTO cache_notice (until_ms, kind, source, tenant, model, namespace, stored_by_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7)";
const FORGET: &str = "DELETE FROM cache_notice WHERE until_ms < $1";

// A cursor beyond the last number comes from before a restore: it reads from the start.
const SINCE: &str = concat!(
    "SELECT ",
    notice_columns!(),
    " FROM cache_notice
    WHERE appeared > CASE WHEN $1 > (SELECT last_value FROM cache_notice_appeared) THEN 0 ELSE $1 END AND until_ms > $2
    ORDER BY appeared"
);

#[async_trait]
impl NoticeStore for PgStore {
    async fn post(&self, notice: &Notice, now_ms: u64, until_ms: u64) -> Result<(), StoreFault> {
        let (row, now, until) = (NoticeRow::of(notice), to_i64(now_ms)?, to_i64(until_ms)?);
        let work = self.transact(move |conn| Box::pin(async move { post(conn, &row, now, until).await }));
        Ok(work.await?)
    }

    async fn notices(&self, cursor: u64, now_ms: u64) -> Result<(Vec<Notice>, u64), StoreFault> {
        let (after, now) = (to_i64(cursor)?, to_i64(now_ms)?);
        let work = self.transact(move |conn| {
            Box::pin(async move { to_notices(&unnamed(SINCE).bind(after).bind(now).fetch_all(conn).await?, cursor) })
        });
        Ok(work.await?)
    }
}

async fn post(conn: &mut PgConnection, row: &NoticeRow, now: i64, until: i64) -> Result<(), Fault> {
    unnamed(ONE_WRITER).execute(&mut *conn).await?;
    unnamed(FORGET).bind(now).execute(&mut *conn).await?;
    unnamed(POST)
        .bind(until)
        .bind(row.kind)
        .bind(row.source)
        .bind(row.tenant.as_deref())
        .bind(row.model.as_deref())
        .bind(row.namespace.as_deref())
        .bind(to_i64(row.stored_by_ms)?)
        .execute(conn)
        .await?;
    Ok(())
}
