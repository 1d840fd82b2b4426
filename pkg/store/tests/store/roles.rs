//! Two roles in Postgres: one owns the tables, the other appends to them and can do no more.

use crate::support::{Fixture, NOON, entry, log_row, new_log, record_at, records, tenant};
use signet_lineage::tlog::Tile;
use signet_lineage::{CaptureRow, Leaf, Record, TreeHead};
use signet_store::{Options, Stores};
use signet_types::{EntryId, LineageId};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use std::sync::Arc;

/// A migrated database whose owner has let in a writer: its URL.
pub(crate) async fn guarded(fixture: &Fixture) -> String {
    let role = format!("w{}", EntryId::generate(NOON).as_uuid().simple());
    let mut owner = PgConnection::connect(&fixture.options.url).await.expect("the test server answers");
    let let_in = format!("CREATE ROLE {role} LOGIN PASSWORD 'w'; SELECT lineage_append_only('{role}')");
    // As in a database that was made by Postgres 14 or before.
    let before = let_in.replace(';', "; GRANT CREATE ON SCHEMA public TO PUBLIC;");
    owner.execute(AssertSqlSafe(before)).await.expect("an owner may");
    let again = let_in.rsplit("; ").next().expect("two statements").to_owned();
    owner.execute(AssertSqlSafe(again)).await.expect("it may be repeated");
    let (_, place) = fixture.options.url.rsplit_once('@').expect("a URL with a user");
    format!("postgres://{role}:w@{place}")
}

/// What the database says to a statement that it must refuse.
async fn refused(url: &str, statement: &str) -> String {
    let mut conn = PgConnection::connect(url).await.expect("the test server answers");
    let said = conn.execute(AssertSqlSafe(statement.to_owned())).await;
    let error = said.expect_err(statement);
    let database = error.as_database_error().expect("said by the server");
    assert_eq!(database.code().as_deref(), Some("42501"), "{statement}: {error}");
    error.to_string()
}

#[tokio::test]
async fn a_writer_without_any_other_right_does_all_that_a_gateway_does() {
    let fixture = Fixture::postgres().await;
    let options = Options::new(guarded(&fixture).await, ".");
    let stores = Stores::open(&options).expect("a good URL");
    stores.migrate().await.expect("there is nothing to migrate");
    stores.probe().await.expect("it reads");
    let log = new_log();
    stores.records.register(&log_row(log, 1)).await.expect("a new log");
    assert_eq!(stores.records.ship(log, 1, &records(log, 0..5)).await.expect("shipped"), 5);
    let tomorrow = record_at(log, 5, tenant(1), NOON + 86_400_000);
    assert_eq!(stores.records.ship(log, 1, &[tomorrow]).await.expect("a day of its own"), 6);
    stores.records.register(&log_row(log, 2)).await.expect("taken over");
    assert_eq!(stores.records.records(log, 0, 10).await.expect("read").len(), 6);
    let head = TreeHead { size: 5, root: [1; 32] };
    stores.trees.put_checkpoint(log, 2, &head, "note").await.expect("a checkpoint");
    for width in [1, 2] {
        let tiles = [(Tile { level: 1, index: 0, width }, vec![3; 32 * usize::from(width)])];
        stores.trees.put_tiles(log, &tiles).await.expect("a tile that grows");
    }
    let bodies = CaptureRow { id: LineageId::from_bytes([1; 16]), tenant: tenant(1), at_ms: NOON, sealed: vec![1] };
    stores.captures.put_captures(&[Arc::new(bodies)]).await.expect("sealed bodies");
    assert_eq!(stores.captures.erase_captures(*tenant(1).as_bytes(), NOON).await.expect("and they can go"), 1);
    for created in [NOON, NOON + 1] {
        stores.entries.put(&[entry(1, created)]).await.expect("an entry, and its successor");
    }
}

#[tokio::test]
async fn neither_writer_nor_owner_changes_or_removes_what_was_appended() {
    let fixture = Fixture::postgres().await;
    let writer = guarded(&fixture).await;
    let log = new_log();
    fixture.stores.records.register(&log_row(log, 1)).await.expect("a new log");
    fixture.stores.records.ship(log, 1, &records(log, 0..5)).await.expect("shipped");
    fixture.stores.trees.put_checkpoint(log, 1, &TreeHead { size: 5, root: [1; 32] }, "note").await.expect("shown");
    let part = "lineage_record_p20261130";
    for statement in [
        "UPDATE lineage_record SET payload = '\\x00'",
        "UPDATE lineage_record SET payload = NULL, enc = 9",
        "DELETE FROM lineage_record",
        "TRUNCATE lineage_record",
        &format!("UPDATE {part} SET status = 500"),
        &format!("DELETE FROM {part} WHERE seq = 3"),
        &format!("TRUNCATE {part}"),
        "UPDATE lineage_log SET next_seq = 2",
        "UPDATE lineage_log SET epoch = 0",
        "UPDATE lineage_log SET log_id = gen_random_uuid()",
        "DELETE FROM lineage_log",
        "TRUNCATE lineage_log",
        "UPDATE lineage_checkpoint SET note = ''",
        "DELETE FROM lineage_checkpoint",
        "TRUNCATE lineage_checkpoint",
        "UPDATE lineage_writer SET constants = ''",
        "DELETE FROM lineage_writer",
        "TRUNCATE lineage_writer",
        "SELECT set_config('signet.erasing', log_no || '/3', false) FROM lineage_log;
         UPDATE lineage_record SET status = 500, enc = 9 WHERE seq = 3",
    ] {
        refused(&writer, statement).await;
        let said = refused(&fixture.options.url, statement).await;
        assert!(said.contains("only appended") || said.contains("does not go back"), "{said}");
    }
    for statement in [
        "ALTER TABLE lineage_record DISABLE TRIGGER ALL",
        "DROP TABLE lineage_record",
        &format!("SELECT * FROM {part}"),
        "DROP FUNCTION lineage_erase",
        "SELECT lineage_erase_entry(gen_random_uuid(), 1, '')",
        "SELECT lineage_add_record_day('2030-01-01 BC')",
        "CREATE TABLE mine (x int)",
        "CREATE TABLE lineage_record_p20991231 (x int)",
        "CREATE FUNCTION lineage_guard_day(part name) RETURNS void LANGUAGE sql AS ''",
    ] {
        refused(&writer, statement).await;
    }
    assert_eq!(fixture.stores.records.records(log, 0, 10).await.expect("read"), records_as_stored(&fixture, log).await);
    assert_eq!(fixture.stores.records.logs().await.expect("read")[0].next_seq, 5);
}

async fn records_as_stored(fixture: &Fixture, log: signet_types::LogId) -> Vec<signet_lineage::Record> {
    let stored = fixture.stores.stored(log, 0, 10).await.expect("read");
    assert!(stored.len() == 5 && stored.iter().all(|(_, beside)| !beside.erased));
    stored.into_iter().map(|(record, _)| record).collect()
}

#[tokio::test]
async fn one_payload_is_erased_and_its_digest_stays() {
    let fixture = Fixture::postgres().await;
    let writer = guarded(&fixture).await;
    let log = new_log();
    let shipped = records(log, 0..3);
    fixture.stores.records.register(&log_row(log, 1)).await.expect("a new log");
    fixture.stores.records.ship(log, 1, &shipped).await.expect("shipped");
    let erase = |seq: i64| {
        // Rows are packed here, so the database has to be told the digest.
        let digest = shipped.get(usize::try_from(seq).expect("small")).map(digest).unwrap_or_default();
        let writer = writer.clone();
        async move {
            let mut conn = PgConnection::connect(&writer).await.expect("the test server answers");
            let ask = sqlx::query_scalar::<_, bool>("SELECT lineage_erase($1, $2, $3)");
            ask.bind(log.as_uuid()).bind(seq).bind(digest.as_slice()).fetch_one(&mut conn).await
        }
    };
    assert!(erase(1).await.expect("erased"));
    assert!(!erase(1).await.expect("nothing left"), "a second time");
    assert!(!erase(7).await.expect("nothing there"));
    let stored = fixture.stores.stored(log, 0, 10).await.expect("read");
    let erased: Vec<_> = stored.iter().map(|(_, beside)| (beside.erased, beside.payload_sha256)).collect();
    assert_eq!(erased, [(false, None), (true, Some(digest(&shipped[1]))), (false, None)]);
    assert_eq!((&stored[0].0, &stored[2].0), (&shipped[0], &shipped[2]));
    assert_eq!(fixture.stores.records.find(shipped[1].id, None).await.expect("read"), None);
    assert_eq!(fixture.stores.records.records(log, 0, 10).await.expect("read").len(), 2);
    // A payload that does not fit its leaf is left as it is.
    fixture.execute("ALTER TABLE lineage_record DISABLE TRIGGER ALL; UPDATE lineage_record SET payload = payload || '\\x20'::bytea, enc = 0 WHERE seq = 2").await;
    let said = erase(2).await.expect_err("it does not fit").to_string();
    assert!(said.contains("does not fit its leaf"), "{said}");
}

fn digest(record: &Record) -> [u8; 32] {
    Leaf::of(record).as_bytes()[25..57].try_into().expect("32 bytes")
}

#[tokio::test]
async fn a_packed_payload_is_erased_only_with_the_digest_that_fits_its_leaf() {
    let fixture = Fixture::postgres().await;
    let log = new_log();
    let shipped = records(log, 0..2);
    fixture.stores.records.register(&log_row(log, 1)).await.expect("a new log");
    fixture.stores.records.ship(log, 1, &shipped).await.expect("shipped");
    let mut owner = PgConnection::connect(&fixture.options.url).await.expect("the test server answers");
    let other = digest(&shipped[1]);
    for wrong in [None, Some([0; 32].as_slice()), Some(&other), Some(&[])] {
        let ask = sqlx::query("SELECT lineage_erase($1, 0, $2)").bind(log.as_uuid()).bind(wrong);
        let said = ask.execute(&mut owner).await.expect_err("it does not fit").to_string();
        assert!(said.contains("does not fit its leaf"), "{said}");
    }
    assert_eq!(fixture.stores.records.records(log, 0, 10).await.expect("read"), shipped);
}
