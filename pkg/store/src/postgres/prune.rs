//! Retention in Postgres: whole days go, by functions that run with the rights of the tables' owner.

use super::{PgStore, unnamed};
use crate::fault::{Fault, to_i64, to_u64};
use async_trait::async_trait;
use signet_lineage::{PruneStore, PrunedLog, Record, ShipFault};
use signet_types::LogId;
use sqlx::Row as _;
use uuid::Uuid;

// An index of each day finds its first seq; days before are not looked at.
const EXPIRED: &str = "\
SELECT least(next_seq,
    (SELECT min(seq) FROM lineage_entry WHERE log_id = $1 AND seq >= $2 AND day >= (now() AT TIME ZONE 'utc')::date - $3),
    (SELECT min(seq) FROM lineage_record r
        WHERE r.log_no = l.log_no AND seq >= $2 AND day >= (now() AT TIME ZONE 'utc')::date - $3))
FROM lineage_log l WHERE log_id = $1";
const MAY_RETAIN: &str = "\
SELECT has_function_privilege('lineage_retain(integer)', 'EXECUTE') AND has_table_privilege('lineage_retention', 'INSERT')
    AND has_table_privilege('lineage_retention', 'UPDATE')";
const PRUNED: &str = "SELECT log_id, below_seq, by_log, by_seq FROM lineage_pruned ORDER BY log_id";
const DAYS: &str = "\
SELECT DISTINCT right(relname, 8) AS day FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
WHERE inhparent IN ('lineage_entry'::regclass, 'lineage_record'::regclass) AND relname ~ '_p[0-9]{8}$'
    AND right(relname, 8) < to_char((now() AT TIME ZONE 'utc')::date - $1, 'YYYYMMDD') ORDER BY day";

#[async_trait]
impl PruneStore for PgStore {
    async fn retained(&self, days: u32) -> Result<Option<u32>, ShipFault> {
        let days = i32::try_from(days).unwrap_or(i32::MAX);
        let work = self.transact(move |conn| {
            Box::pin(async move {
                if unnamed(MAY_RETAIN).fetch_one(&mut *conn).await?.try_get(0)? {
                    unnamed("SELECT lineage_retain($1)").bind(days).execute(&mut *conn).await?;
                }
                let kept = unnamed("SELECT days FROM lineage_retention").fetch_optional(conn).await?;
                let kept = kept.map(|row| row.try_get::<i32, _>(0)).transpose()?;
                Ok(kept.and_then(|days| u32::try_from(days).ok()))
            })
        });
        Ok(work.await?)
    }

    async fn expired_below(&self, log: LogId, from: u64, days: u32, _: u64) -> Result<u64, ShipFault> {
        let (from, days) = (to_i64(from)?, i32::try_from(days).unwrap_or(i32::MAX));
        let work = self.transact(move |conn| {
            Box::pin(async move {
                let ask = unnamed(EXPIRED).bind(log.as_uuid()).bind(from).bind(days);
                ask.fetch_optional(conn).await?.map_or(Ok(0), |row| to_u64(row.try_get(0)?))
            })
        });
        Ok(work.await?)
    }

    async fn pruned(&self) -> Result<Vec<PrunedLog>, ShipFault> {
        let work = self.transact(move |conn| {
            Box::pin(async move {
                let rows = unnamed(PRUNED).fetch_all(conn).await?;
                let id = |row: &sqlx::postgres::PgRow, at| {
                    Ok::<_, Fault>(LogId::from_bytes(row.try_get::<Uuid, _>(at)?.into_bytes()))
                };
                let read = |row| {
                    let by = (id(row, 2)?, to_u64(row.try_get(3)?)?);
                    Ok(PrunedLog { log: id(row, 0)?, below_seq: to_u64(row.try_get(1)?)?, by })
                };
                rows.iter().map(read).collect()
            })
        });
        Ok(work.await?)
    }

    async fn note_prune(&self, record: &Record) -> Result<(), ShipFault> {
        let (log, seq) = (record.log, to_i64(record.seq)?);
        let work = self.transact(move |conn| {
            Box::pin(async move {
                let order = unnamed("SELECT lineage_note_prune($1, $2)").bind(log.as_uuid()).bind(seq);
                Ok(order.execute(conn).await.map(drop)?)
            })
        });
        Ok(work.await?)
    }

    async fn drop_pruned(&self, days: u32) -> Result<u64, ShipFault> {
        let days = i32::try_from(days).unwrap_or(i32::MAX);
        let old = self.transact(move |conn| {
            Box::pin(async move {
                let rows = unnamed(DAYS).bind(days).fetch_all(conn).await?;
                rows.iter().map(|row| Ok(row.try_get::<String, _>(0)?)).collect::<Result<Vec<_>, Fault>>()
            })
        });
        let mut dropped = 0;
        for day in old.await? {
            let work = self.transact(move |conn| {
                Box::pin(async move {
                    let order = unnamed("SELECT lineage_drop_day(to_date($1, 'YYYYMMDD'))").bind(day);
                    Ok(order.fetch_one(conn).await?.try_get::<bool, _>(0)?)
                })
            });
            dropped += u64::from(work.await?);
        }
        Ok(dropped)
    }
}
