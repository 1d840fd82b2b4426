//! How many bytes a record takes in Postgres, with its indexes: `row_size COUNT URL`, an empty database. One answer in three is
//! a hit on an earlier one.

use signet_lineage::{LogRow, Record};
use signet_store::{Options, Stores};
use signet_types::LineageId;
use sqlx::{Connection, PgConnection};

#[path = "../../lineage/tests/lineage/sample.rs"]
#[expect(dead_code, reason = "shared with the tests, which use all of it")]
mod sample;

use sample::{ALICE, Writer};

const BATCH: usize = 1_000;
const ASK: &str = "SELECT sum(pg_total_relation_size(c.oid))::bigint, sum(pg_relation_size(c.oid))::bigint
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'lineage_entry'::regclass AND c.relkind = 'r'";

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [count, url] = arguments.as_slice() else { panic!("row_size COUNT URL") };
    let count: u64 = count.parse().expect("a number");
    let stores = Stores::open(&Options::new(url.as_str(), ".")).expect("a good URL");
    stores.migrate().await.expect("the database answers");
    let mut log = Writer::open(1, "spool");
    stores.records.register(&LogRow { next_seq: 0, ..log.row() }).await.expect("a new log");
    let (mut source, mut bytes) = (None::<Record>, 0);
    while log.tree.size() < count {
        match &source {
            Some(source) if log.tree.size().is_multiple_of(3) => drop(log.hit(ALICE, &source.clone())),
            _ => source = Some(log.ask(ALICE)),
        }
        if log.records.len() >= BATCH || log.tree.size() == count {
            // The writer's ids repeat after 256; an index over them would be smaller than a real one.
            let fresh = |record: &Record| Record { id: LineageId::generate(record.id.unix_ms()), ..record.clone() };
            let batch: Vec<Record> = log.records.iter().map(fresh).collect();
            bytes += batch.iter().map(|record| record.payload.len()).sum::<usize>();
            stores.records.ship(log.log, 1, &batch).await.expect("shipped");
            log.records.clear();
        }
    }
    let mut conn = PgConnection::connect(url).await.expect("the database answers");
    let (all, heap): (i64, i64) = sqlx::query_as(ASK).fetch_one(&mut conn).await.expect("sizes");
    let each = |sum: i64| sum as f64 / count as f64;
    eprintln!(
        "{count} records of {} bytes: {:.0} bytes a row, {:.0} of them in the table",
        bytes as u64 / count,
        each(all),
        each(heap)
    );
}
