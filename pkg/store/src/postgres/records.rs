//! Shipping records into Postgres, and finding them again.

use super::read::{to_columns, to_fence, to_log, to_record, to_stored};
use super::{PgStore, unnamed};
use crate::columns::Row;
use crate::fault::{Fault, to_i64, to_u64};
use crate::fence;
use crate::pack::Packer;
use crate::readers::record_columns;
use async_trait::async_trait;
use signet_lineage::verify::Stored;
use signet_lineage::{Columns, Leaf, LogRow, Record, RecordStore, ShipFault};
use signet_types::{LineageId, LogId, TenantId};
use sqlx::Row as _;
use sqlx::postgres::PgConnection;
use std::collections::HashMap;
use std::sync::Arc;

/// Rows per statement: a cached plan's sweet spot, and far from every limit of the protocol.
const ROWS_PER_INSERT: usize = 1000;
/// SQLSTATE of "no partition of relation found for row".
const NO_PARTITION: &str = "23514";
const DAY_MS: u64 = 86_400_000;

const REGISTER: &str = "\
INSERT INTO lineage_log (log_id, origin, epoch, next_seq, attest_key) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (log_id) DO UPDATE SET origin = excluded.origin, epoch = excluded.epoch, attest_key = excluded.attest_key
WHERE lineage_log.epoch < excluded.epoch";

// A day far off would need a partition nobody expects, so it is clamped around the database's own clock; ts_ms stays as it
// was signed.
const INSERT: &str = "\
INSERT INTO lineage_entry (log_id, seq, day, ts_ms, id, kind, epoch, leaf_hash, key_id, sig, payload, tenant, model, cache,
    status, tok_in, tok_out, parent_log, parent_seq, enc)
SELECT $1, seq, least(greatest(date '1970-01-01' + day, (now() AT TIME ZONE 'utc')::date - 7),
    (now() AT TIME ZONE 'utc')::date + 7), ts_ms, id, kind, epoch, leaf_hash, key_id, sig, payload, tenant, model, cache,
    status, tok_in, tok_out, parent_log, parent_seq, enc
FROM unnest($2::bigint[], $3::int[], $4::bigint[], $5::uuid[], $6::text[], $7::bigint[], $8::bytea[], $9::bytea[],
    $10::bytea[], $11::bytea[], $12::bytea[], $13::text[], $14::text[], $15::int[], $16::bigint[], $17::bigint[],
    $18::uuid[], $19::bigint[], $20::smallint[])
    AS t (seq, day, ts_ms, id, kind, epoch, leaf_hash, key_id, sig, payload, tenant, model, cache, status, tok_in, tok_out,
    parent_log, parent_seq, enc)";

const ADD_DAYS: &str = "\
SELECT lineage_add_day(d) FROM (SELECT DISTINCT least(greatest(date '1970-01-01' + day,
    (now() AT TIME ZONE 'utc')::date - 7), (now() AT TIME ZONE 'utc')::date + 7) AS d
FROM unnest($1::int[]) AS t (day) ORDER BY d) days";

// The id's own time names the day to look at first; only ids made elsewhere need a look at every partition.
const FIND_NEAR: &str = concat!(
    "SELECT ",
    record_columns!(),
    " FROM lineage_entry WHERE id = $1 AND ($2::bytea IS NULL OR tenant = $2) AND payload IS NOT NULL AND enc <> 9
    AND day BETWEEN date '1970-01-01' + $3 - 1 AND date '1970-01-01' + $3 + 1 LIMIT 1"
);
const FIND_ANYWHERE: &str = concat!(
    "SELECT ",
    record_columns!(),
    " FROM lineage_entry WHERE id = $1 AND ($2::bytea IS NULL OR tenant = $2) AND payload IS NOT NULL AND enc <> 9 LIMIT 1"
);
const RECORDS: &str = concat!(
    "SELECT ",
    record_columns!(),
    " FROM lineage_entry WHERE log_id = $1 AND seq >= $2 AND payload IS NOT NULL AND enc <> 9 ORDER BY seq LIMIT $3"
);
const STORED: &str = concat!(
    "SELECT ",
    record_columns!(),
    ", leaf_hash, kind, ts_ms, tenant, model, cache, status, tok_in, tok_out, parent_log, parent_seq
    FROM lineage_entry WHERE log_id = $1 AND seq >= $2 ORDER BY seq LIMIT $3"
);

const ERASE: &str = "SELECT lineage_erase($1, $2, $3)";
const IS_ERASED: &str = "SELECT 1 FROM lineage_entry WHERE log_id = $1 AND seq = $2 AND (payload IS NULL OR enc = 9)";
const LIST: &str = concat!(
    "SELECT ",
    record_columns!(),
    ", leaf_hash, kind, ts_ms, tenant, model, cache, status, tok_in, tok_out, parent_log, parent_seq
    FROM lineage_entry WHERE id < $1 ORDER BY id DESC LIMIT $2"
);
const LIST_OWN: &str = concat!(
    "SELECT ",
    record_columns!(),
    ", leaf_hash, kind, ts_ms, tenant, model, cache, status, tok_in, tok_out, parent_log, parent_seq
    FROM lineage_entry WHERE id < $1 AND tenant = $3 ORDER BY id DESC LIMIT $2"
);

#[async_trait]
impl RecordStore for PgStore {
    async fn register(&self, log: &LogRow) -> Result<LogRow, ShipFault> {
        let log = log.clone();
        Ok(self.transact(move |conn| Box::pin(async move { register(conn, &log).await })).await?)
    }

    async fn ship(&self, log: LogId, epoch: u32, batch: &[Record]) -> Result<u64, ShipFault> {
        let rows: Arc<Vec<Row>> = Arc::new(packed(batch));
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
                rows.iter().filter_map(|row| to_columns(row).transpose()).collect()
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
                ask.fetch_all(conn).await?.iter().map(to_record).collect()
            })
        });
        Ok(work.await?)
    }
}

impl PgStore {
    /// As `records`, with what is stored beside each record, for `verify`.
    pub(crate) async fn stored(
        &self,
        log: LogId,
        from_seq: u64,
        limit: u32,
    ) -> Result<Vec<(Record, Stored)>, ShipFault> {
        let from_seq = to_i64(from_seq)?;
        let work = self.transact(move |conn| {
            Box::pin(async move {
                let ask = unnamed(STORED).bind(log.as_uuid()).bind(from_seq).bind(i64::from(limit));
                ask.fetch_all(conn).await?.iter().map(to_stored).collect()
            })
        });
        Ok(work.await?)
    }

    async fn ship_once(&self, log: LogId, epoch: u32, rows: Arc<Vec<Row>>) -> Result<u64, Fault> {
        self.transact(move |conn| Box::pin(async move { ship(conn, log, epoch, &rows).await })).await
    }
}

/// The rows of a batch, with their payloads packed.
fn packed(batch: &[Record]) -> Vec<Row> {
    let mut packer = Packer::new();
    let row = |record: &Record| Row { packed: packer.pack(&record.payload), ..Row::of(record) };
    batch.iter().map(row).collect()
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

async fn ship(conn: &mut PgConnection, log: LogId, epoch: u32, rows: &[Row]) -> Result<u64, Fault> {
    let ask = "SELECT epoch, next_seq FROM lineage_log WHERE log_id = $1 FOR UPDATE";
    let found = unnamed(ask).bind(log.as_uuid()).fetch_optional(&mut *conn).await?;
    let found = found.as_ref().map(to_fence).transpose()?;
    let held = fence::already_held(log, epoch, found, rows)?;
    let next_seq = found.map_or(0, |(_, next_seq)| next_seq);
    let (overlap, fresh) = rows.split_at(held);
    if !overlap.is_empty() {
        fence::same_leaves(overlap, &leaves(conn, log, overlap).await?)?;
    }
    let Some(last) = fresh.last() else { return Ok(next_seq) };
    for chunk in fresh.chunks(ROWS_PER_INSERT) {
        insert(conn, log, chunk).await?;
    }
    let next_seq = last.record.seq + 1;
    let advance = "UPDATE lineage_log SET next_seq = $2 WHERE log_id = $1";
    unnamed(advance).bind(log.as_uuid()).bind(to_i64(next_seq)?).execute(conn).await?;
    Ok(next_seq)
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

async fn leaves(conn: &mut PgConnection, log: LogId, overlap: &[Row]) -> Result<HashMap<u64, Vec<u8>>, Fault> {
    let ask = "SELECT seq, leaf_hash FROM lineage_entry WHERE log_id = $1 AND seq = ANY($2)";
    let seqs = overlap.iter().map(|row| to_i64(row.record.seq)).collect::<Result<Vec<_>, _>>()?;
    let rows = unnamed(ask).bind(log.as_uuid()).bind(seqs).fetch_all(conn).await?;
    rows.iter().map(|row| Ok((to_u64(row.try_get(0)?)?, row.try_get(1)?))).collect()
}

async fn insert(conn: &mut PgConnection, log: LogId, rows: &[Row]) -> Result<(), Fault> {
    fn each<'r, T>(rows: &'r [Row], part: impl Fn(&'r Row) -> T) -> Vec<T> {
        rows.iter().map(part).collect()
    }
    let seqs = rows.iter().map(|row| to_i64(row.record.seq)).collect::<Result<Vec<_>, _>>()?;
    let times = rows.iter().map(|row| to_i64(row.ts_ms())).collect::<Result<Vec<_>, _>>()?;
    let parents = rows.iter().map(|row| row.column(|c| c.parent)).collect::<Vec<_>>();
    unnamed(INSERT)
        .bind(log.as_uuid())
        .bind(seqs)
        .bind(each(rows, Row::day))
        .bind(times)
        .bind(each(rows, |row| row.record.id.as_uuid()))
        .bind(each(rows, Row::kind))
        .bind(each(rows, |row| i64::from(row.record.epoch)))
        .bind(each(rows, |row| row.leaf_hash.as_slice()))
        .bind(each(rows, |row| row.record.key_id.as_slice()))
        .bind(each(rows, |row| row.record.sig.as_slice()))
        .bind(each(rows, Row::payload))
        .bind(each(rows, |row| row.column(|c| c.tenant.as_ref().map(|tenant| tenant.as_bytes().as_slice()))))
        .bind(each(rows, |row| row.column(|c| c.model.as_deref())))
        .bind(each(rows, |row| row.column(|c| c.cache.as_deref())))
        .bind(each(rows, |row| row.column(|c| c.status.map(i32::from))))
        .bind(each(rows, |row| row.column(|c| c.tok_in.and_then(|n| i64::try_from(n).ok()))))
        .bind(each(rows, |row| row.column(|c| c.tok_out.and_then(|n| i64::try_from(n).ok()))))
        .bind(parents.iter().map(|parent| parent.map(|(log, _)| log.as_uuid())).collect::<Vec<_>>())
        .bind(parents.iter().map(|parent| parent.and_then(|(_, seq)| i64::try_from(seq).ok())).collect::<Vec<_>>())
        .bind(each(rows, Row::enc))
        .execute(conn)
        .await?;
    Ok(())
}

async fn find(conn: &mut PgConnection, id: LineageId, tenant: Option<TenantId>) -> Result<Option<Record>, Fault> {
    let tenant = tenant.map(|tenant| tenant.as_bytes().to_vec());
    // Beyond the range of dates an id is not one of ours.
    let day = i32::try_from(id.unix_ms() / DAY_MS).ok().filter(|day| *day < 2_000_000);
    if let Some(day) = day {
        let ask = unnamed(FIND_NEAR).bind(id.as_uuid()).bind(tenant.as_deref()).bind(day);
        if let Some(row) = ask.fetch_optional(&mut *conn).await? {
            return to_record(&row).map(Some);
        }
    }
    let ask = unnamed(FIND_ANYWHERE).bind(id.as_uuid()).bind(tenant.as_deref());
    ask.fetch_optional(conn).await?.as_ref().map(to_record).transpose()
}
