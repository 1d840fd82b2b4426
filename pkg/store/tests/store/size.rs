//! What a record costs in Postgres, with its indexes.

use crate::answers::Answers;
use crate::support::Fixture;
use signet_lineage::Record;
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

#[tokio::test]
async fn long_names_that_callers_made_up_do_not_keep_records_from_the_database() {
    let fixture = Fixture::postgres().await;
    let mut answers = Answers::new(5);
    let row = fixture.stores.records.register(&answers.row()).await.expect("a new log");
    let first = answers.take(1).remove(0);
    let statement = String::from_utf8_lossy(&first.payload).into_owned();
    let (before, rest) = statement.split_once("\"asked\":\"").expect("a model");
    let (_, behind) = rest.split_once('"').expect("the end of its name");
    // Letters without a pattern (the high bits of a linear congruential generator), and none that is a digit somewhere.
    let mut state = 5_u64;
    let mut letter = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'g' + u8::try_from((state >> 33) % 20).expect("small"))
    };
    let names: Vec<String> = (0..20).map(|_| (0..300).map(|_| letter()).collect()).collect();
    let record = |seq: u64| {
        let name = &names[usize::try_from(seq).expect("small") % names.len()];
        Record { seq, payload: format!("{before}\"asked\":\"{name}\"{behind}").into_bytes().into(), ..first.clone() }
    };
    for from in (0..800).step_by(100) {
        let records: Vec<Record> = (from..from + 100).map(record).collect();
        let shipped = fixture.stores.records.ship(row.log, row.epoch, &records).await;
        assert_eq!(shipped.expect("shipped"), from + 100);
        assert_eq!(fixture.stores.records.records(row.log, from, 100).await.expect("a read"), records);
    }
    let mut conn = PgConnection::connect(&fixture.options.url).await.expect("the test server answers");
    let longest = sqlx::query_scalar::<_, i32>("SELECT max(length(constants)) FROM lineage_writer");
    let longest = longest.fetch_one(&mut conn).await.expect("good SQL");
    assert!(longest > 6_000, "the names are among what was learnt: {longest} bytes");
}
