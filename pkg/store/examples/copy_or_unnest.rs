//! Rows a second into `lineage_record` by COPY BINARY and by INSERT .. SELECT unnest, by turns, in the transactions in which they are
//! shipped: `copy_or_unnest URL`, an empty database. Encoding is part of it, packing is not.

#![expect(
    clippy::print_stdout,
    clippy::cast_sign_loss,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "figures for people, of small numbers"
)]

use signet_lineage::LogRow;
use signet_store::{Options, Stores};
use signet_types::LogId;
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};
use std::time::{Duration, Instant};
use uuid::Uuid;

const COLUMNS: &str = "seq, ts_ms, leaf, id, day, log_no, writer, tok_in, tok_out, kind, cache, status, enc, sig, tenant, model, parent, payload";
const INSERT: &str = "INSERT INTO lineage_record (seq, ts_ms, leaf, id, day, log_no, writer, tok_in, tok_out, kind, cache, status, enc, sig, tenant,
    model, parent, payload)
SELECT seq, 1, leaf, id, current_date, $1, 1, 10, 20, 1, 1, 200, 3, sig, tenant, model, '', payload
FROM unnest($2::bigint[], $3::bigint[], $4::uuid[], $5::bytea[], $6::bytea[], $7::text[], $8::bytea[])
    AS t (seq, leaf, id, sig, tenant, model, payload)";

struct Row {
    seq: i64,
    id: Uuid,
    bytes: Vec<u8>,
}

fn now() -> Instant {
    Instant::now()
}

fn rows(from: i64, count: i64) -> Vec<Row> {
    let row = |seq: i64| {
        let id = Uuid::from_u128(
            (1_796_067_843_000 + seq as u128 / 4) << 80 | (seq as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15) << 3,
        );
        Row {
            seq,
            id,
            bytes: (0..280_u32).map(|n| (seq as u32).wrapping_mul(2_654_435_761).rotate_left(n % 31) as u8).collect(),
        }
    };
    (from..from + count).map(row).collect()
}

async fn unnest(conn: &mut PgConnection, log_no: i32, rows: &[Row]) -> Result<(), sqlx::Error> {
    fn each<'r, T>(rows: &'r [Row], part: impl Fn(&'r Row) -> T) -> Vec<T> {
        rows.iter().map(part).collect()
    }
    for rows in rows.chunks(1000) {
        sqlx::query(INSERT)
            .persistent(false)
            .bind(log_no)
            .bind(each(rows, |row| row.seq))
            .bind(each(rows, |row| row.seq * 77))
            .bind(each(rows, |row| row.id))
            .bind(each(rows, |row| &row.bytes[..64]))
            .bind(each(rows, |row| &row.bytes[..16]))
            .bind(each(rows, |_| "gpt-4o-mini"))
            .bind(each(rows, |row| row.bytes.as_slice()))
            .execute(&mut *conn)
            .await?;
    }
    Ok(())
}

async fn copy(conn: &mut PgConnection, log_no: i32, rows: &[Row]) -> Result<(), sqlx::Error> {
    let day: i32 = sqlx::query_scalar("SELECT current_date - date '2000-01-01'").fetch_one(&mut *conn).await?;
    let mut out = Vec::with_capacity(rows.len() * 520 + 32);
    out.extend_from_slice(b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0");
    let put = |out: &mut Vec<u8>, bytes: &[u8]| {
        out.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
        out.extend_from_slice(bytes);
    };
    for row in rows {
        out.extend_from_slice(&18_i16.to_be_bytes());
        for n in [row.seq, 1, row.seq * 77] {
            put(&mut out, &n.to_be_bytes());
        }
        put(&mut out, row.id.as_bytes());
        for n in [day, log_no, 1, 10, 20] {
            put(&mut out, &n.to_be_bytes());
        }
        for n in [1_i16, 1, 200, 3] {
            put(&mut out, &n.to_be_bytes());
        }
        for bytes in [&row.bytes[..64], &row.bytes[..16], b"gpt-4o-mini", b"", &row.bytes] {
            put(&mut out, bytes);
        }
    }
    out.extend_from_slice(&(-1_i16).to_be_bytes());
    let text = format!("COPY lineage_record ({COLUMNS}) FROM STDIN BINARY");
    let mut into = conn.copy_in_raw(&text).await?;
    into.send(out).await?;
    into.finish().await.map(drop)
}

async fn ship(conn: &mut PgConnection, log: LogId, by_copy: bool, rows: &[Row]) -> Result<(), sqlx::Error> {
    let mut tx = conn.begin().await?;
    let fence = "SELECT log_no FROM lineage_log WHERE log_id = $1 FOR UPDATE";
    let log_no: i32 = sqlx::query_scalar(fence).persistent(false).bind(log.as_uuid()).fetch_one(&mut *tx).await?;
    if by_copy {
        copy(&mut tx, log_no, rows).await?;
    } else {
        unnest(&mut tx, log_no, rows).await?;
    }
    let next = rows.last().map_or(0, |row| row.seq + 1);
    let advance = sqlx::query("UPDATE lineage_log SET next_seq = $2 WHERE log_id = $1").persistent(false);
    advance.bind(log.as_uuid()).bind(next).execute(&mut *tx).await?;
    tx.commit().await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("copy_or_unnest URL")?;
    let stores = Stores::open(&Options::new(&url, "."))?;
    stores.migrate().await?;
    let mut conn = PgConnection::connect(&url).await?;
    conn.execute("SELECT lineage_add_record_day(current_date)").await?;
    for size in [100, 1000, 5000] {
        let mut sums = [(0_i64, Duration::ZERO); 2];
        for round in 0..(40_000 / size).clamp(10, 100) {
            for by_copy in [round % 2 == 0, round % 2 == 1] {
                let which = usize::from(by_copy);
                let log = LogId::from_bytes([u8::try_from(size / 50 + i64::from(by_copy)).unwrap_or(0); 16]);
                if sums[which].0 == 0 {
                    let row = LogRow { log, origin: "x/y".to_owned(), epoch: 1, attest_key: [0; 32], next_seq: 0 };
                    stores.records.register(&row).await?;
                }
                let batch = rows(sums[which].0, size);
                let begun = now();
                ship(&mut conn, log, by_copy, &batch).await?;
                sums[which] = (sums[which].0 + size, sums[which].1 + begun.elapsed());
            }
        }
        let rate = |(rows, took): (i64, Duration)| rows as f64 / took.as_secs_f64();
        println!("{size:5} a batch: unnest {:7.0} rows/s, copy {:7.0} rows/s", rate(sums[0]), rate(sums[1]));
    }
    Ok(())
}
