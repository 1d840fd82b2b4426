//! Records in Postgres behind their port.

use super::read::{to_list, to_log, to_record, to_records, to_rows};
use super::rows::{
    ADD_DAYS, ERASE, FIND_ANYWHERE, FIND_NEAR, IS_ERASED, LIST, LIST_OWN, RECORDS, STORED, STRAYS, known_writers, ship,
};
use super::{PgStore, unnamed};
use crate::columns::Row;
use crate::fault::{Fault, StoredRow, left_out, to_i64};
use crate::fence;
use async_trait::async_trait;
use signet_lineage::{Columns, Leaf, LogRow, Record, RecordStore, ShipFault};
use signet_types::{LineageId, LogId, TenantId};
use sqlx::Row as _;
use sqlx::postgres::PgConnection;
use std::sync::{Arc, PoisonError};

/// SQLSTATE of "no partition of relation found for row".
const NO_PARTITION: &str = "23514";
const DAY_MS: u64 = 86_400_000;

// A row that stands is left alone: each row that is proposed takes a number of a log, and logs are registered over and over.
const REGISTER: &str = "\
INSERT INTO lineage_log (log_id, origin, epoch, next_seq, attest_key)
SELECT $1, $2, $3, $4, $5 WHERE NOT EXISTS (SELECT 1 FROM lineage_log WHERE log_id = $1 AND epoch >= $3)
ON CONFLICT (log_id) DO UPDATE SET origin = excluded.origin, epoch = excluded.epoch, attest_key = excluded.attest_key
WHERE lineage_log.epoch < excluded.epoch";

#[async_trait]
impl RecordStore for PgStore {
    async fn register(&self, log: &LogRow) -> Result<LogRow, ShipFault> {
        let log = log.clone();
        Ok(self.transact(move |conn| Box::pin(async move { register(conn, &log).await })).await?)
    }

    async fn ship(&self, log: LogId, epoch: u32, batch: &[Record]) -> Result<u64, ShipFault> {
        let rows: Arc<Vec<Row>> = Arc::new(self.learner.lock().unwrap_or_else(PoisonError::into_inner).rows(batch));
        let shipped = self.ship_once(log, epoch, Arc::clone(&rows)).await;
        match shipped {
            Err(fault) if fault.has_state(NO_PARTITION) => {
                let days: Vec<i32> = rows.iter().map(Row::day).collect();
                self.transact(move |conn| {
                    Box::pin(async move { Ok(unnamed(ADD_DAYS).bind(days).execute(conn).await.map(drop)?) })
                })
                .await?;
                Ok(self.ship_once(log, epoch, rows).await?)
            }
            other => Ok(other?),
        }
    }

    async fn pass_gap(&self, log: LogId, epoch: u32, gap: &Record) -> Result<u64, ShipFault> {
        let gap = gap.clone();
        Ok(self.transact(move |conn| Box::pin(async move { pass_gap(conn, log, epoch, &gap).await })).await?)
    }

    async fn find(&self, id: LineageId, tenant: Option<TenantId>) -> Result<Option<Record>, ShipFault> {
        let work = self.transact(move |conn| Box::pin(async move { find(conn, id, tenant).await }));
        Ok(work.await?)
    }

    async fn erase(&self, record: &Record) -> Result<bool, ShipFault> {
        let (log, seq, digest) = (record.log, to_i64(record.seq)?, Leaf::of(record).payload_sha256());
        let work = self.transact(move |conn| {
            Box::pin(async move {
                let order = unnamed(ERASE).bind(log.as_uuid()).bind(seq).bind(digest.to_vec());
                Ok(order.fetch_one(conn).await?.try_get(0)?)
            })
        });
        Ok(work.await?)
    }

    async fn is_erased(&self, log: LogId, seq: u64) -> Result<bool, ShipFault> {
        let seq = to_i64(seq)?;
        let work = self.transact(move |conn| {
            Box::pin(async move {
                let ask = unnamed(IS_ERASED).bind(log.as_uuid()).bind(seq);
                Ok(ask.fetch_optional(conn).await?.is_some())
            })
        });
        Ok(work.await?)
    }

    async fn list(
        &self,
        tenant: Option<TenantId>,
        before: Option<LineageId>,
        limit: u32,
    ) -> Result<Vec<Columns>, ShipFault> {
        let before = before.unwrap_or(LineageId::from_bytes([u8::MAX; 16]));
        let work = self.transact(move |conn| {
            Box::pin(async move {
                let text = if tenant.is_some() { LIST_OWN } else { LIST };
                let mut ask = unnamed(text).bind(before.as_uuid()).bind(i64::from(limit));
                if let Some(tenant) = tenant {
                    ask = ask.bind(tenant.as_bytes().to_vec());
                }
                let rows = ask.fetch_all(conn).await?;
                Ok(to_list(&rows))
            })
        });
        Ok(work.await?)
    }

    async fn logs(&self) -> Result<Vec<LogRow>, ShipFault> {
        let ask = "SELECT log_id, origin, epoch, next_seq, attest_key FROM lineage_log ORDER BY log_id";
        let work = self.transact(move |conn| {
            Box::pin(async move { unnamed(ask).fetch_all(conn).await?.iter().map(to_log).collect() })
        });
        Ok(work.await?)
    }

    async fn records(&self, log: LogId, from_seq: u64, limit: u32) -> Result<Vec<Record>, ShipFault> {
        let from_seq = to_i64(from_seq)?;
        let work = self.transact(move |conn| {
            Box::pin(async move {
                let ask = unnamed(RECORDS).bind(log.as_uuid()).bind(from_seq).bind(i64::from(limit));
                let rows = ask.fetch_all(&mut *conn).await?;
                let known = known_writers(conn, &rows).await?;
                Ok(to_records(&rows, &known))
            })
        });
        Ok(work.await?)
    }

    async fn leaves(&self, log: LogId, from_seq: u64, limit: u32) -> Result<Vec<Leaf>, ShipFault> {
        let rows = self.rows(log, to_i64(from_seq)?, limit).await?;
        Ok(rows.into_iter().filter_map(left_out).filter_map(|(record, beside)| beside.leaf(&record)).collect())
    }
}

impl PgStore {
    /// As `records`, with what is stored beside each record, for `verify`.
    pub(crate) async fn rows(&self, log: LogId, from: i64, limit: u32) -> Result<Vec<StoredRow>, ShipFault> {
        let work = self.transact(move |conn| {
            Box::pin(async move {
                let ask = unnamed(STORED).bind(log.as_uuid()).bind(from).bind(i64::from(limit));
                let rows = ask.fetch_all(&mut *conn).await?;
                let known = known_writers(conn, &rows).await?;
                Ok(to_rows(&rows, &known))
            })
        });
        Ok(work.await?)
    }

    /// Logs that have rows and no row of their own, so that nobody looks for them.
    pub(crate) async fn strays(&self) -> Result<Vec<String>, ShipFault> {
        let work = self.transact(|conn| {
            Box::pin(async move {
                let rows = unnamed(STRAYS).fetch_all(conn).await?;
                rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
            })
        });
        Ok(work.await?)
    }

    async fn ship_once(&self, log: LogId, epoch: u32, rows: Arc<Vec<Row>>) -> Result<u64, Fault> {
        self.transact(move |conn| Box::pin(async move { ship(conn, log, epoch, &rows).await })).await
    }
}

async fn register(conn: &mut PgConnection, ours: &LogRow) -> Result<LogRow, Fault> {
    unnamed(REGISTER)
        .bind(ours.log.as_uuid())
        .bind(&ours.origin)
        .bind(i64::from(ours.epoch))
        .bind(to_i64(ours.next_seq)?)
        .bind(ours.attest_key.as_slice())
        .execute(&mut *conn)
        .await?;
    let ask = "SELECT log_id, origin, epoch, next_seq, attest_key FROM lineage_log WHERE log_id = $1";
    let found = to_log(&unnamed(ask).bind(ours.log.as_uuid()).fetch_one(conn).await?)?;
    Ok(fence::taken(ours, found)?)
}

async fn pass_gap(conn: &mut PgConnection, log: LogId, epoch: u32, gap: &Record) -> Result<u64, Fault> {
    let ask = "SELECT log_id, origin, epoch, next_seq, attest_key FROM lineage_log WHERE log_id = $1 FOR UPDATE";
    let found = unnamed(ask).bind(log.as_uuid()).fetch_optional(&mut *conn).await?;
    let found = found.as_ref().map(to_log).transpose()?;
    let next_seq = fence::behind(log, epoch, found.as_ref(), gap)?;
    let advance = "UPDATE lineage_log SET next_seq = $2 WHERE log_id = $1";
    unnamed(advance).bind(log.as_uuid()).bind(to_i64(next_seq)?).execute(conn).await?;
    Ok(next_seq)
}

async fn find(conn: &mut PgConnection, id: LineageId, tenant: Option<TenantId>) -> Result<Option<Record>, Fault> {
    let tenant = tenant.map(|tenant| tenant.as_bytes().to_vec());
    // Beyond the range of dates an id is not one of ours.
    let day = i32::try_from(id.unix_ms() / DAY_MS).ok().filter(|day| *day < 2_000_000);
    let mut found = Vec::new();
    if let Some(day) = day {
        let ask = unnamed(FIND_NEAR).bind(id.as_uuid()).bind(tenant.as_deref()).bind(day);
        found = ask.fetch_all(&mut *conn).await?;
    }
    if found.is_empty() {
        let ask = unnamed(FIND_ANYWHERE).bind(id.as_uuid()).bind(tenant.as_deref());
        found = ask.fetch_all(&mut *conn).await?;
    }
    let known = known_writers(conn, &found).await?;
    found.first().map(|row| to_record(row, &known)).transpose()
}
