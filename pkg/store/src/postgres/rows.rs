//! The rows of records in Postgres: `lineage_record`, and `lineage_entry` of earlier versions, which is only read.
//!
//! Rows go in by INSERT .. SELECT unnest, not by COPY BINARY (`cargo run -p signet-store --example copy_or_unnest`, unoptimized, two busy
//! cores, fsync off, by turns): with batches of 1000, COPY carried 226,000 rows a second and unnest 159,000, with 5000 188,000 and
//! 154,000. That is one to two microseconds a row of the 38 that shipping one takes (`ship_rate`). With batches of 100 COPY came to 2,200
//! and unnest to 72,000: some 40 ms a batch, which looks like a delayed acknowledgement and was not looked into. COPY also ignores
//! `statement_timeout` and needs a connection that is discarded after any error.

use super::read::{slim, to_fence, to_rows};
use super::unnamed;
use crate::columns::{Row, bounded};
use crate::fault::{Fault, StoredRow, to_i64};
use crate::fence;
use crate::pack::Unpacker;
use crate::readers::{Writers, copied_columns, record_columns};
use signet_types::LogId;
use sqlx::Row as _;
use sqlx::postgres::{PgConnection, PgRow};

/// Rows per statement: a cached plan's sweet spot, and far from every limit of the protocol.
const ROWS_PER_INSERT: usize = 1000;

// A day far off would need a partition nobody expects, so it is clamped around the database's own clock; ts_ms stays as it
// was signed.
const INSERT: &str = "\
INSERT INTO lineage_record (log_no, seq, day, ts_ms, id, writer, kind, leaf, sig, payload, tenant, model, cache, status, tok_in,
    tok_out, parent, enc)
SELECT $1, seq, least(greatest(date '1970-01-01' + day, (now() AT TIME ZONE 'utc')::date - 7),
    (now() AT TIME ZONE 'utc')::date + 7), ts_ms, id, writer, kind, leaf, sig, payload, tenant, model, cache, status, tok_in,
    tok_out, parent, enc
FROM unnest($2::bigint[], $3::int[], $4::bigint[], $5::uuid[], $6::int[], $7::smallint[], $8::bigint[], $9::bytea[],
    $10::bytea[], $11::bytea[], $12::text[], $13::smallint[], $14::smallint[], $15::int[], $16::int[], $17::bytea[],
    $18::smallint[])
    AS t (seq, day, ts_ms, id, writer, kind, leaf, sig, payload, tenant, model, cache, status, tok_in, tok_out, parent, enc)";

pub(super) const ADD_DAYS: &str = "\
SELECT lineage_add_record_day(d) FROM (SELECT DISTINCT least(greatest(date '1970-01-01' + day,
    (now() AT TIME ZONE 'utc')::date - 7), (now() AT TIME ZONE 'utc')::date + 7) AS d
FROM unnest($1::int[]) AS t (day) ORDER BY d) days";

/// Rows of both tables in one shape: those of `lineage_record` where `$new`, those of `lineage_entry` where `$old`, at the end of both
/// `$tail`, which is done by each table before the two are put together.
macro_rules! of_both {
    ($new:literal, $old:literal, $tail:literal) => {
        concat!(
            "(SELECT id, log_id, coalesce(epoch, 0) AS epoch, seq, payload, coalesce(key_id, repeat(' ', 32)::bytea) AS key_id,
                sig, enc, CASE WHEN enc = 9 THEN sha256('\\x0001' || uuid_send(log_id) || int8send(seq) || payload
                    || substring(key_id FOR 8) || sig) END AS leaf_hash, NULL AS kind, ts_ms, tenant, model, NULL AS cache,
                status::int, tok_in::bigint, tok_out::bigint, NULL::uuid AS parent_log, NULL::bigint AS parent_seq,
                writer, kind AS kind_no, cache AS cache_no, leaf, parent
            FROM (SELECT * FROM lineage_record WHERE ",
            $new,
            $tail,
            ") r LEFT JOIN (SELECT log_no, log_id FROM lineage_log) l USING (log_no) LEFT JOIN (SELECT writer, epoch, key_id FROM lineage_writer) w
                USING (writer))
            UNION ALL (SELECT ",
            record_columns!(),
            copied_columns!(),
            ", NULL, NULL, NULL, NULL, NULL FROM lineage_entry WHERE ",
            $old,
            $tail,
            ")",
            $tail
        )
    };
}

// The id's own time names the day to look at first; only ids made elsewhere need a look at every partition.
pub(super) const FIND_NEAR: &str = of_both!(
    "id = $1 AND ($2::bytea IS NULL OR tenant = $2) AND enc <> 9
        AND day BETWEEN date '1970-01-01' + $3 - 1 AND date '1970-01-01' + $3 + 1",
    "id = $1 AND ($2::bytea IS NULL OR tenant = $2) AND payload IS NOT NULL AND enc <> 9
        AND day BETWEEN date '1970-01-01' + $3 - 1 AND date '1970-01-01' + $3 + 1",
    " LIMIT 1"
);
pub(super) const FIND_ANYWHERE: &str = of_both!(
    "id = $1 AND ($2::bytea IS NULL OR tenant = $2) AND enc <> 9",
    "id = $1 AND ($2::bytea IS NULL OR tenant = $2) AND payload IS NOT NULL AND enc <> 9",
    " LIMIT 1"
);
pub(super) const RECORDS: &str = of_both!(
    "log_no = (SELECT log_no FROM lineage_log WHERE log_id = $1) AND seq >= $2 AND enc <> 9",
    "log_id = $1 AND seq >= $2 AND payload IS NOT NULL AND enc <> 9",
    " ORDER BY seq LIMIT $3"
);
pub(super) const STORED: &str = of_both!(
    "log_no = (SELECT log_no FROM lineage_log WHERE log_id = $1) AND seq >= $2",
    "log_id = $1 AND seq >= $2",
    " ORDER BY seq LIMIT $3"
);
pub(super) const LIST: &str = of_both!("id < $1", "id < $1", " ORDER BY id DESC LIMIT $2");
pub(super) const LIST_OWN: &str =
    of_both!("id < $1 AND tenant = $3", "id < $1 AND tenant = $3", " ORDER BY id DESC LIMIT $2");

// From log to log by the index, over however many rows.
pub(super) const STRAYS: &str = "\
WITH RECURSIVE new AS (SELECT (SELECT min(log_no) FROM lineage_record) AS log
    UNION ALL SELECT (SELECT min(log_no) FROM lineage_record WHERE log_no > log) FROM new WHERE log IS NOT NULL),
old AS (SELECT (SELECT log_id FROM lineage_entry ORDER BY log_id LIMIT 1) AS log
    UNION ALL SELECT (SELECT log_id FROM lineage_entry WHERE log_id > log ORDER BY log_id LIMIT 1) FROM old WHERE log IS NOT NULL)
SELECT 'log_no ' || log FROM new WHERE log NOT IN (SELECT log_no FROM lineage_log)
UNION ALL SELECT 'log_id ' || log FROM old WHERE log NOT IN (SELECT log_id FROM lineage_log)";

pub(super) const ERASE: &str = "SELECT lineage_erase($1, $2, $3)";
pub(super) const IS_ERASED: &str = "\
SELECT 1 FROM lineage_record WHERE log_no = (SELECT log_no FROM lineage_log WHERE log_id = $1) AND seq = $2 AND enc = 9
UNION ALL SELECT 1 FROM lineage_entry WHERE log_id = $1 AND seq = $2 AND (payload IS NULL OR enc = 9)
UNION ALL SELECT 1 FROM lineage_pruned WHERE log_id = $1 AND below_seq > $2 LIMIT 1";

/// A batch, under the lock of its log's row. What is committed must be on the server's disk, whatever the server's default: segments
/// are released by it, and in `strict+db` an answer waits for it.
pub(super) async fn ship(conn: &mut PgConnection, log: LogId, epoch: u32, rows: &[Row]) -> Result<u64, Fault> {
    let ask = "SELECT epoch, next_seq, log_no, CASE WHEN current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') \
        THEN set_config('synchronous_commit', 'on', true) END FROM lineage_log WHERE log_id = $1 FOR UPDATE";
    let found = unnamed(ask).bind(log.as_uuid()).fetch_optional(&mut *conn).await?;
    let log_no = found.as_ref().map(|row| row.try_get::<i32, _>(2)).transpose()?;
    let found = found.as_ref().map(to_fence).transpose()?;
    let held = fence::already_held(log, epoch, found, rows)?;
    let next_seq = found.map_or(0, |(_, next_seq)| next_seq);
    let (overlap, fresh) = rows.split_at(held);
    if let Some(first) = overlap.first() {
        let stored = leaves(conn, log, first.record.seq, i64::try_from(held).unwrap_or(i64::MAX)).await?;
        fence::same_leaves(overlap, &stored.into_iter().collect())?;
    }
    let (Some(last), Some(log_no)) = (fresh.last(), log_no) else { return Ok(next_seq) };
    let writers = writers(conn, log_no, fresh).await?;
    for (chunk, writers) in fresh.chunks(ROWS_PER_INSERT).zip(writers.chunks(ROWS_PER_INSERT)) {
        insert(conn, log_no, chunk, writers).await?;
    }
    let next_seq = last.record.seq + 1;
    let advance = "UPDATE lineage_log SET next_seq = $2 WHERE log_id = $1";
    unnamed(advance).bind(log.as_uuid()).bind(to_i64(next_seq)?).execute(conn).await?;
    Ok(next_seq)
}

/// The writers of these rows.
pub(super) async fn known_writers(conn: &mut PgConnection, rows: &[PgRow]) -> Result<Writers, Fault> {
    let mut numbers = Vec::new();
    for row in rows {
        let slim = slim(row).ok().flatten();
        numbers.extend(slim.map(|slim| slim.writer).filter(|number| numbers.last() != Some(number)));
    }
    let ask = "SELECT writer, constants FROM lineage_writer WHERE writer = ANY($1)";
    let found = if numbers.is_empty() { Vec::new() } else { unnamed(ask).bind(numbers).fetch_all(conn).await? };
    found.iter().map(|row| Ok((row.try_get(0)?, Unpacker::new(row.try_get(1)?)))).collect()
}

/// Seqs and leaf hashes of up to `limit` records from `from` on.
pub(super) async fn leaves(
    conn: &mut PgConnection,
    log: LogId,
    from: u64,
    limit: i64,
) -> Result<Vec<(u64, [u8; 32])>, Fault> {
    let rows = unnamed(STORED).bind(log.as_uuid()).bind(to_i64(from)?).bind(limit).fetch_all(&mut *conn).await?;
    let known = known_writers(conn, &rows).await?;
    let leaf = |row: StoredRow| row.map(|(record, beside)| beside.leaf_hash.map(|leaf| (record.seq, leaf)));
    to_rows(&rows, &known).into_iter().filter_map(|row| leaf(row).map_err(Fault::from).transpose()).collect()
}

/// The number of each row's writer, which is made known where it is new. A batch has one, rarely two.
async fn writers(conn: &mut PgConnection, log_no: i32, rows: &[Row]) -> Result<Vec<i32>, Fault> {
    let (mut numbers, mut last) = (Vec::with_capacity(rows.len()), None::<(&Row, i32)>);
    for row in rows {
        let same = |known: &Row| {
            let (known, row) = ((&known.record, &known.constants), (&row.record, &row.constants));
            (known.0.epoch, known.0.key_id, known.1) == (row.0.epoch, row.0.key_id, row.1)
        };
        let number = match last.filter(|(known, _)| same(known)) {
            Some((_, number)) => number,
            None => writer(conn, log_no, row).await?,
        };
        last = Some((row, number));
        numbers.push(number);
    }
    Ok(numbers)
}

async fn writer(conn: &mut PgConnection, log_no: i32, row: &Row) -> Result<i32, Fault> {
    let find = "SELECT writer FROM lineage_writer WHERE log_no = $1 AND epoch = $2 AND key_id = $3 AND sha256(constants) = sha256($4)";
    let add = "INSERT INTO lineage_writer (log_no, epoch, key_id, constants) VALUES ($1, $2, $3, $4) RETURNING writer";
    let (epoch, key) = (i64::from(row.record.epoch), row.record.key_id.as_slice());
    let with = |sql| unnamed(sql).bind(log_no).bind(epoch).bind(key).bind(&*row.constants);
    let found = match with(find).fetch_optional(&mut *conn).await? {
        Some(found) => found,
        None => with(add).fetch_one(conn).await?,
    };
    Ok(found.try_get(0)?)
}

async fn insert(conn: &mut PgConnection, log_no: i32, rows: &[Row], writers: &[i32]) -> Result<(), Fault> {
    fn each<'r, T>(rows: &'r [Row], part: impl Fn(&'r Row) -> T) -> Vec<T> {
        rows.iter().map(part).collect()
    }
    let seqs = rows.iter().map(|row| to_i64(row.record.seq)).collect::<Result<Vec<_>, _>>()?;
    let times = rows.iter().map(|row| to_i64(row.ts_ms())).collect::<Result<Vec<_>, _>>()?;
    let leaf = |row: &Row| row.leaf_hash.first_chunk().map(|head| i64::from_be_bytes(*head));
    let parent = |(log, seq): (LogId, u64)| [log.as_bytes().as_slice(), &seq.to_be_bytes()].concat();
    unnamed(INSERT)
        .bind(log_no)
        .bind(seqs)
        .bind(each(rows, Row::day))
        .bind(times)
        .bind(each(rows, |row| row.record.id.as_uuid()))
        .bind(writers)
        .bind(each(rows, Row::kind_number))
        .bind(each(rows, leaf))
        .bind(each(rows, |row| row.record.sig.as_slice()))
        .bind(each(rows, Row::payload))
        .bind(each(rows, |row| row.column(|c| c.tenant.as_ref().map(|tenant| tenant.as_bytes().as_slice()))))
        .bind(each(rows, |row| row.column(|c| c.model.as_deref())))
        .bind(each(rows, Row::cache_number))
        .bind(each(rows, |row| row.column(|c| c.status.map(|status| i16::try_from(status).unwrap_or(i16::MAX)))))
        .bind(each(rows, |row| row.column(|c| c.tok_in.map(bounded))))
        .bind(each(rows, |row| row.column(|c| c.tok_out.map(bounded))))
        .bind(each(rows, |row| row.column(|c| c.parent).map(parent).unwrap_or_default()))
        .bind(each(rows, Row::enc))
        .execute(conn)
        .await?;
    Ok(())
}
