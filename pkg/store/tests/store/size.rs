//! What a record costs in Postgres, with its indexes.

use crate::answers::Answers;
use crate::support::Fixture;
use sqlx::{Connection, PgConnection};

const RECORDS: u64 = 8_000;

#[tokio::test]
async fn an_answer_from_a_provider_takes_600_bytes_with_its_indexes() {
    let fixture = Fixture::postgres().await;
    let mut answers = Answers::new(4);
    let row = fixture.stores.records.register(&answers.row()).await.expect("a new log");
    let records = answers.take(RECORDS);
    for batch in records.chunks(500) {
        fixture.stores.records.ship(row.log, row.epoch, batch).await.expect("shipped");
    }
    let size = "SELECT (sum(pg_total_relation_size(inhrelid)) + pg_total_relation_size('lineage_writer'))::bigint,
        (SELECT avg(length(payload))::bigint FROM lineage_record) FROM pg_inherits WHERE inhparent = 'lineage_record'::regclass";
    let mut conn = PgConnection::connect(&fixture.options.url).await.expect("the test server answers");
    let (bytes, packed): (i64, i64) = sqlx::query_as(size).fetch_one(&mut conn).await.expect("good SQL");
    let each = u64::try_from(bytes).expect("a size") / RECORDS;
    let json = records.iter().map(|record| record.payload.len() as u64).sum::<u64>() / RECORDS;
    eprintln!("{json} bytes of JSON, {packed} packed, {each} in the database");
    assert!((1_400..1_800).contains(&json), "records as they are written");
    assert!(each <= 600, "{each} bytes a record");
}
