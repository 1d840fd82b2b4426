//! Shipping records into SQLite, and finding them again.

use super::SqliteStore;
use super::read::{to_fence, to_list, to_log, to_record, to_records, to_rows};
use crate::columns::Row;
use crate::fault::{Fault, StoredRow, left_out, to_array, to_i64, to_u64};
use crate::fence;
use crate::readers::{Writers, copied_columns, record_columns};
use async_trait::async_trait;
use signet_lineage::{Columns, Leaf, LogRow, Record, RecordStore, ShipFault};
use signet_types::{LineageId, LogId, TenantId};
use sqlx::sqlite::SqliteConnection;
use sqlx::{QueryBuilder, Row as _, Sqlite};
use std::collections::HashMap;

/// Rows per statement: 18 values each, and SQLite binds 32,766 at most; more rows than this only make a longer text.
const ROWS_PER_INSERT: usize = 100;

const REGISTER: &str = "\
INSERT INTO lineage_log (log_id, origin, epoch, next_seq, attest_key) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (log_id) DO UPDATE SET origin = excluded.origin, epoch = excluded.epoch, attest_key = excluded.attest_key
WHERE lineage_log.epoch < excluded.epoch";

const INSERT: &str = "\
INSERT INTO lineage_entry (log_id, seq, ts_ms, id, kind, epoch, leaf_hash, key_id, sig, payload, tenant, model, cache,
    status, tok_in, tok_out, parent_log, parent_seq) ";

const FIND: &str = concat!(
    "SELECT ",
    record_columns!(),
    " FROM lineage_entry WHERE id = $1 AND ($2 IS NULL OR tenant = $2) AND payload IS NOT NULL AND enc <> 9 LIMIT 1"
);
const RECORDS: &str = concat!(
    "SELECT ",
    record_columns!(),
    " FROM lineage_entry WHERE log_id = $1 AND seq >= $2 AND payload IS NOT NULL AND enc <> 9 ORDER BY seq LIMIT $3"
);
const STORED: &str = concat!(
    "SELECT ",
    record_columns!(),
    copied_columns!(),
    " FROM lineage_entry WHERE log_id = $1 AND seq >= $2 ORDER BY seq LIMIT $3"
);

const ERASE: &str = "\
UPDATE lineage_entry SET payload = $3, enc = 9 WHERE log_id = $1 AND seq = $2 AND payload IS NOT NULL AND enc <> 9";
const IS_ERASED: &str = "\
SELECT 1 FROM lineage_entry WHERE log_id = $1 AND seq = $2 AND (payload IS NULL OR enc = 9)
UNION ALL SELECT 1 FROM lineage_pruned WHERE log_id = $1 AND below_seq > $2 LIMIT 1";
const LIST: &str = concat!(
    "SELECT ",
    record_columns!(),
    copied_columns!(),
    " FROM lineage_entry WHERE id < $1 ORDER BY id DESC LIMIT $2"
);
const LIST_OWN: &str = concat!(
    "SELECT ",
    record_columns!(),
    copied_columns!(),
    " FROM lineage_entry WHERE id < $1 AND tenant = $3 ORDER BY id DESC LIMIT $2"
);

#[async_trait]
impl RecordStore for SqliteStore {
    async fn register(&self, log: &LogRow) -> Result<LogRow, ShipFault> {
        let log = log.clone();
        Ok(self.write(move |conn| Box::pin(async move { register(conn, &log).await })).await?)
    }

    async fn ship(&self, log: LogId, epoch: u32, batch: &[Record]) -> Result<u64, ShipFault> {
        let rows: Vec<Row> = batch.iter().map(Row::of).collect();
        Ok(self.write(move |conn| Box::pin(async move { ship(conn, log, epoch, &rows).await })).await?)
    }

    async fn pass_gap(&self, log: LogId, epoch: u32, gap: &Record) -> Result<u64, ShipFault> {
        let gap = gap.clone();
        Ok(self.write(move |conn| Box::pin(async move { pass_gap(conn, log, epoch, &gap).await })).await?)
    }

    async fn find(&self, id: LineageId, tenant: Option<TenantId>) -> Result<Option<Record>, ShipFault> {
        let work = self.read(move |conn| {
            Box::pin(async move {
                let tenant = tenant.map(|tenant| tenant.as_bytes().to_vec());
                let ask = sqlx::query(FIND).bind(id.as_uuid()).bind(tenant);
                ask.fetch_optional(conn).await?.as_ref().map(|row| to_record(row, &Writers::new())).transpose()
            })
        });
        Ok(work.await?)
    }

    async fn erase(&self, record: &Record) -> Result<bool, ShipFault> {
        let (log, seq, digest) = (record.log, to_i64(record.seq)?, Leaf::of(record).payload_sha256());
        let work = self.write(move |conn| {
            Box::pin(async move {
                let order = sqlx::query(ERASE).bind(log.as_uuid()).bind(seq).bind(digest.to_vec());
                Ok(order.execute(conn).await?.rows_affected() > 0)
            })
        });
        Ok(work.await?)
    }

    async fn is_erased(&self, log: LogId, seq: u64) -> Result<bool, ShipFault> {
        let seq = to_i64(seq)?;
        let work = self.read(move |conn| {
            Box::pin(async move {
                let ask = sqlx::query(IS_ERASED).bind(log.as_uuid()).bind(seq);
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
        let work = self.read(move |conn| {
            Box::pin(async move {
                let text = if tenant.is_some() { LIST_OWN } else { LIST };
                let mut ask = sqlx::query(text).bind(before.as_uuid()).bind(i64::from(limit));
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
        let work = self.read(move |conn| {
            Box::pin(async move { sqlx::query(ask).fetch_all(conn).await?.iter().map(to_log).collect() })
        });
        Ok(work.await?)
    }

    async fn records(&self, log: LogId, from_seq: u64, limit: u32) -> Result<Vec<Record>, ShipFault> {
        let from_seq = to_i64(from_seq)?;
        let work = self.read(move |conn| {
            Box::pin(async move {
                let ask = sqlx::query(RECORDS).bind(log.as_uuid()).bind(from_seq).bind(i64::from(limit));
                Ok(to_records(&ask.fetch_all(conn).await?, &Writers::new()))
            })
        });
        Ok(work.await?)
    }

    async fn leaves(&self, log: LogId, from_seq: u64, limit: u32) -> Result<Vec<Leaf>, ShipFault> {
        let rows = self.rows(log, to_i64(from_seq)?, limit).await?;
        Ok(rows.into_iter().filter_map(left_out).filter_map(|(record, beside)| beside.leaf(&record)).collect())
    }
}

impl SqliteStore {
    /// As `records`, with what is stored beside each record, for `verify`.
    pub(crate) async fn rows(&self, log: LogId, from: i64, limit: u32) -> Result<Vec<StoredRow>, ShipFault> {
        let work = self.read(move |conn| {
            Box::pin(async move {
                let ask = sqlx::query(STORED).bind(log.as_uuid()).bind(from).bind(i64::from(limit));
                Ok(to_rows(&ask.fetch_all(conn).await?, &Writers::new()))
            })
        });
        Ok(work.await?)
    }

    /// Logs that have rows and no row of their own, so that nobody looks for them.
    pub(crate) async fn strays(&self) -> Result<Vec<String>, ShipFault> {
        let ask = "SELECT DISTINCT 'log_id ' || lower(hex(log_id)) FROM lineage_entry
            WHERE log_id NOT IN (SELECT log_id FROM lineage_log)";
        let work = self.read(move |conn| Box::pin(async move { Ok(sqlx::query_scalar(ask).fetch_all(conn).await?) }));
        Ok(work.await?)
    }
}

async fn register(conn: &mut SqliteConnection, ours: &LogRow) -> Result<LogRow, Fault> {
    sqlx::query(REGISTER)
        .bind(ours.log.as_uuid())
        .bind(ours.origin.clone())
        .bind(i64::from(ours.epoch))
        .bind(to_i64(ours.next_seq)?)
        .bind(ours.attest_key.to_vec())
        .execute(&mut *conn)
        .await?;
    let ask = "SELECT log_id, origin, epoch, next_seq, attest_key FROM lineage_log WHERE log_id = $1";
    let found = to_log(&sqlx::query(ask).bind(ours.log.as_uuid()).fetch_one(conn).await?)?;
    Ok(fence::taken(ours, found)?)
}

/// The transaction holds the file's write lock from its begin: nothing else is needed to read the fence safely.
async fn ship(conn: &mut SqliteConnection, log: LogId, epoch: u32, rows: &[Row]) -> Result<u64, Fault> {
    let ask = "SELECT epoch, next_seq FROM lineage_log WHERE log_id = $1";
    let found = sqlx::query(ask).bind(log.as_uuid()).fetch_optional(&mut *conn).await?;
    let found = found.as_ref().map(to_fence).transpose()?;
    let held = fence::already_held(log, epoch, found, rows)?;
    let next_seq = found.map_or(0, |(_, next_seq)| next_seq);
    let (overlap, fresh) = rows.split_at(held);
    if let [first, .., last] | [first @ last] = overlap {
        let stored = leaves(conn, log, first.record.seq, last.record.seq).await?;
        fence::same_leaves(overlap, &stored)?;
    }
    let Some(last) = fresh.last() else { return Ok(next_seq) };
    for chunk in fresh.chunks(ROWS_PER_INSERT) {
        insert(conn, chunk).await?;
    }
    let next_seq = last.record.seq + 1;
    let advance = "UPDATE lineage_log SET next_seq = $2 WHERE log_id = $1";
    sqlx::query(advance).bind(log.as_uuid()).bind(to_i64(next_seq)?).execute(conn).await?;
    Ok(next_seq)
}

async fn pass_gap(conn: &mut SqliteConnection, log: LogId, epoch: u32, gap: &Record) -> Result<u64, Fault> {
    let ask = "SELECT log_id, origin, epoch, next_seq, attest_key FROM lineage_log WHERE log_id = $1";
    let found = sqlx::query(ask).bind(log.as_uuid()).fetch_optional(&mut *conn).await?;
    let found = found.as_ref().map(to_log).transpose()?;
    let next_seq = fence::behind(log, epoch, found.as_ref(), gap)?;
    let advance = "UPDATE lineage_log SET next_seq = $2 WHERE log_id = $1";
    sqlx::query(advance).bind(log.as_uuid()).bind(to_i64(next_seq)?).execute(conn).await?;
    Ok(next_seq)
}

async fn leaves(
    conn: &mut SqliteConnection,
    log: LogId,
    first: u64,
    last: u64,
) -> Result<HashMap<u64, [u8; 32]>, Fault> {
    let ask = "SELECT seq, leaf_hash FROM lineage_entry WHERE log_id = $1 AND seq BETWEEN $2 AND $3";
    let ask = sqlx::query(ask).bind(log.as_uuid()).bind(to_i64(first)?).bind(to_i64(last)?);
    ask.fetch_all(conn)
        .await?
        .iter()
        .map(|row| Ok((to_u64(row.try_get(0)?)?, to_array("leaf_hash", row.try_get(1)?)?)))
        .collect()
}

async fn insert(conn: &mut SqliteConnection, rows: &[Row]) -> Result<(), Fault> {
    let numbers = |row: &Row| Ok::<_, Fault>((to_i64(row.record.seq)?, to_i64(row.ts_ms())?));
    let numbers = rows.iter().map(numbers).collect::<Result<Vec<_>, _>>()?;
    let mut query = QueryBuilder::<Sqlite>::new(INSERT);
    query.push_values(rows.iter().zip(numbers), |mut values, (row, (seq, ts_ms))| {
        let (record, parent) = (&row.record, row.column(|c| c.parent));
        values
            .push_bind(record.log.as_uuid())
            .push_bind(seq)
            .push_bind(ts_ms)
            .push_bind(record.id.as_uuid())
            .push_bind(row.kind())
            .push_bind(i64::from(record.epoch))
            .push_bind(row.leaf_hash.as_slice())
            .push_bind(record.key_id.as_slice())
            .push_bind(record.sig.as_slice())
            .push_bind(&*record.payload)
            .push_bind(row.column(|c| c.tenant.as_ref().map(|tenant| tenant.as_bytes().as_slice())))
            .push_bind(row.column(|c| c.model.as_deref()))
            .push_bind(row.column(|c| c.cache.as_deref()))
            .push_bind(row.column(|c| c.status.map(i32::from)))
            .push_bind(row.column(|c| c.tok_in.and_then(|n| i64::try_from(n).ok())))
            .push_bind(row.column(|c| c.tok_out.and_then(|n| i64::try_from(n).ok())))
            .push_bind(parent.map(|(log, _)| log.as_uuid()))
            .push_bind(parent.and_then(|(_, seq)| i64::try_from(seq).ok()));
    });
    query.build().execute(conn).await?;
    Ok(())
}
