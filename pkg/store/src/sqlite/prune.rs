//! Retention in `SQLite`: record by record, in small transactions.

use super::SqliteStore;
use super::read::to_record;
use crate::fault::{Fault, to_i64, to_u64};
use crate::readers::{Writers, record_columns};
use async_trait::async_trait;
use signet_lineage::{DeclaredPrune, PruneStore, PrunedLog, Record, ShipFault};
use signet_types::LogId;
use sqlx::Row as _;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use uuid::Uuid;

const MS_PER_DAY: u64 = 86_400_000;
/// Records that go at once, while a shipper waits.
const BATCH: i64 = 1000;

const EXPIRED: &str = "\
SELECT min(next_seq, coalesce((SELECT seq FROM lineage_entry WHERE log_id = $1 AND seq >= $2 AND ts_ms >= $3
    ORDER BY seq LIMIT 1), next_seq)) FROM lineage_log WHERE log_id = $1";
const PRUNED: &str = "SELECT log_id, below_seq, by_log, by_seq FROM lineage_pruned ORDER BY log_id";
const STORED: &str =
    concat!("SELECT ", record_columns!(), " FROM lineage_entry WHERE log_id = $1 AND seq = $2 AND enc = 0");
const NOTE: &str = "\
INSERT INTO lineage_pruned (log_id, below_seq, by_log, by_seq) VALUES ($1, $2, $3, $4)
ON CONFLICT (log_id) DO UPDATE SET below_seq = excluded.below_seq, by_log = excluded.by_log, by_seq = excluded.by_seq
WHERE lineage_pruned.below_seq <= excluded.below_seq";
const DROP: &str = "\
DELETE FROM lineage_entry WHERE rowid IN (SELECT e.rowid FROM lineage_pruned p JOIN lineage_entry e
    ON e.log_id = p.log_id AND e.seq < p.below_seq LIMIT $1)";

#[async_trait]
impl PruneStore for SqliteStore {
    async fn retained(&self, days: u32) -> Result<Option<u32>, ShipFault> {
        Ok(Some(days))
    }

    async fn expired_below(&self, log: LogId, from: u64, days: u32, now_ms: u64) -> Result<u64, ShipFault> {
        let first_day = (now_ms / MS_PER_DAY).saturating_sub(u64::from(days));
        let (from, since) = (to_i64(from)?, to_i64(first_day * MS_PER_DAY)?);
        let work = self.read(move |conn| {
            Box::pin(async move {
                let ask = sqlx::query(EXPIRED).bind(log.as_uuid()).bind(from).bind(since);
                ask.fetch_optional(conn).await?.map_or(Ok(0), |row| to_u64(row.try_get(0)?))
            })
        });
        Ok(work.await?)
    }

    async fn pruned(&self) -> Result<Vec<PrunedLog>, ShipFault> {
        let work = self.read(move |conn| {
            Box::pin(async move { sqlx::query(PRUNED).fetch_all(conn).await?.iter().map(to_pruned).collect() })
        });
        Ok(work.await?)
    }

    async fn note_prune(&self, record: &Record) -> Result<(), ShipFault> {
        let (log, seq) = (record.log, to_i64(record.seq)?);
        Ok(self.write(move |conn| Box::pin(async move { note(conn, log, seq).await })).await?)
    }

    async fn drop_pruned(&self, _: u32) -> Result<u64, ShipFault> {
        let mut dropped = 0;
        loop {
            let work = self.write(move |conn| {
                Box::pin(async move { Ok(sqlx::query(DROP).bind(BATCH).execute(conn).await?.rows_affected()) })
            });
            match work.await? {
                0 => return Ok(dropped),
                some => dropped += some,
            }
        }
    }
}

async fn note(conn: &mut SqliteConnection, log: LogId, seq: i64) -> Result<(), Fault> {
    let stored = sqlx::query(STORED).bind(log.as_uuid()).bind(seq).fetch_optional(&mut *conn).await?;
    let record = stored.as_ref().map(|row| to_record(row, &Writers::new())).transpose()?;
    let said = record.as_ref().and_then(DeclaredPrune::read);
    let said = said.ok_or_else(|| Fault::Corrupt(format!("log {log} has no prune record at seq {seq}")))?;
    let order = sqlx::query(NOTE).bind(said.log.as_uuid()).bind(to_i64(said.below_seq)?).bind(log.as_uuid()).bind(seq);
    order.execute(conn).await?;
    Ok(())
}

fn to_pruned(row: &SqliteRow) -> Result<PrunedLog, Fault> {
    let id = |at| Ok::<_, Fault>(LogId::from_bytes(row.try_get::<Uuid, _>(at)?.into_bytes()));
    let by = (id(2)?, to_u64(row.try_get(3)?)?);
    Ok(PrunedLog { log: id(0)?, below_seq: to_u64(row.try_get(1)?)?, by })
}
