//! Old records go, and none without a stored record that says so.

use crate::support::{Fixture, log_row, new_log, record_at, tenant};
use signet_lineage::tlog::{Tile, Tiles};
use signet_lineage::{ControlStamp, Draft, Gateway, Leaf, Position, PrunedLog, Record, ShipFault, Signer, Tree};
use signet_store::Stores;
use signet_types::{Clock, LineageId, LogId, SystemClock};
use sqlx::error::DatabaseError;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use std::ops::Range;
use std::sync::Arc;

const DAY_MS: u64 = 86_400_000;
const DAYS: u32 = 3;

/// By the clock that Postgres goes by.
fn now_ms() -> u64 {
    SystemClock::new().now_ms()
}

fn old_ms() -> u64 {
    now_ms() - 5 * DAY_MS
}

/// A log with records of `at` for each of the seqs, behind those that it has.
async fn ship(fixture: &Fixture, log: LogId, seqs: Range<u64>, at_ms: u64) -> Vec<Record> {
    let store = &fixture.stores.records;
    store.register(&log_row(log, 1)).await.expect("a log");
    let batch: Vec<_> = seqs.map(|seq| record_at(log, seq, tenant(1), at_ms)).collect();
    store.ship(log, 1, &batch).await.expect("shipped");
    batch
}

fn prune(by: (LogId, u64), log: LogId, below_seq: u64) -> Record {
    let text = || "x".to_owned();
    let gateway = Gateway { version: text(), config_sha256: [7; 32], instance: text(), durability: text() };
    let at_ms = now_ms();
    let stamp = ControlStamp { id: LineageId::generate(at_ms), at_ms, gateway: Arc::new(gateway) };
    let position = Position { log: by.0, epoch: 1, seq: by.1, base: Tree::new().head() };
    Draft::prune(&stamp, log, below_seq, &[]).seal(&position, &Signer::generate())
}

/// Stored by this version, whatever the fixture does with other records.
async fn say(fixture: &Fixture, record: &Record) {
    let stores = Stores::open(&fixture.options).expect("a good URL");
    stores.records.register(&log_row(record.log, 1)).await.expect("a log");
    stores.records.ship(record.log, 1, std::slice::from_ref(record)).await.expect("shipped");
}

async fn seqs(fixture: &Fixture, log: LogId) -> Vec<u64> {
    let records = fixture.stores.records.records(log, 0, 1000).await.expect("read");
    records.iter().map(|record| record.seq).collect()
}

pub(crate) async fn what_is_old_is_told_by_the_first_record_that_is_not(fixture: Fixture) {
    let (log, dead, prunes) = (new_log(), new_log(), &fixture.stores.prunes);
    ship(&fixture, log, 0..5, old_ms()).await;
    ship(&fixture, log, 5..7, now_ms()).await;
    ship(&fixture, log, 7..8, old_ms()).await;
    ship(&fixture, dead, 0..3, old_ms()).await;
    let expired = |log, from, days| async move { prunes.expired_below(log, from, days, now_ms()).await.expect("told") };
    assert_eq!(expired(log, 0, DAYS).await, 5, "a record with a wrong clock behind a young one stays");
    assert_eq!(expired(log, 3, DAYS).await, 5);
    assert_eq!(expired(log, 7, DAYS).await, 8, "a young record that was passed does not count");
    assert_eq!(expired(log, 0, 5).await, 0, "today and five days");
    assert_eq!(expired(dead, 0, DAYS).await, 3, "to the end of what is stored");
    assert_eq!(expired(new_log(), 0, DAYS).await, 0);
}

pub(crate) async fn nothing_goes_without_a_stored_prune_and_then_only_what_is_below(fixture: Fixture) {
    let (log, dead, speaker) = (new_log(), new_log(), new_log());
    let (prunes, store) = (&fixture.stores.prunes, &fixture.stores.records);
    let old = ship(&fixture, log, 0..5, old_ms()).await;
    ship(&fixture, log, 5..8, now_ms()).await;
    ship(&fixture, dead, 0..3, old_ms()).await;
    assert_eq!(prunes.retained(DAYS).await.expect("said"), Some(DAYS), "this one owns the tables");
    // At most a day without a record.
    prunes.drop_pruned(DAYS).await.expect("done");
    assert_eq!((seqs(&fixture, log).await.len(), seqs(&fixture, dead).await.len()), (8, 3));
    let said = prune((speaker, 0), log, 5);
    let unsaid = prunes.note_prune(&said).await;
    assert!(matches!(unsaid, Err(ShipFault::Unavailable(_))), "{unsaid:?}");
    let other = prunes.note_prune(&old[2]).await;
    assert!(matches!(other, Err(ShipFault::Unavailable(_))), "another kind: {other:?}");
    assert_eq!((prunes.drop_pruned(DAYS).await.expect("done"), seqs(&fixture, log).await.len()), (0, 8));

    say(&fixture, &said).await;
    prunes.note_prune(&said).await.expect("it is stored");
    let by_days = fixture.options.url.starts_with("postgres");
    // The day still holds another log's records.
    assert_eq!(prunes.drop_pruned(DAYS).await.expect("done"), if by_days { 0 } else { 5 });
    assert_eq!(seqs(&fixture, dead).await, [0, 1, 2]);
    let all = prune((speaker, 1), dead, 3);
    say(&fixture, &all).await;
    prunes.note_prune(&all).await.expect("it is stored");
    assert_eq!(prunes.drop_pruned(DAYS).await.expect("done"), if by_days { 1 } else { 3 });
    assert_eq!(prunes.drop_pruned(DAYS).await.expect("nothing left"), 0);

    assert_eq!((seqs(&fixture, log).await, seqs(&fixture, dead).await), (vec![5, 6, 7], vec![]));
    assert_eq!(seqs(&fixture, speaker).await, [0, 1]);
    assert_eq!(store.find(old[1].id, None).await.expect("read"), None);
    assert!(store.is_erased(log, 4).await.expect("read") && !store.is_erased(log, 5).await.expect("read"));
    let rows = store.logs().await.expect("read");
    assert!(rows.iter().any(|row| (row.log, row.next_seq) == (dead, 3)), "it is still known");
    ship(&fixture, log, 8..9, now_ms()).await;
    assert_eq!(seqs(&fixture, log).await, [5, 6, 7, 8]);
}

pub(crate) async fn of_several_prunes_the_furthest_counts_and_of_equal_ones_the_newest(fixture: Fixture) {
    let (log, speaker, prunes) = (new_log(), new_log(), &fixture.stores.prunes);
    prunes.retained(DAYS).await.expect("said");
    ship(&fixture, log, 0..9, old_ms()).await;
    for (seq, below, counts) in [(0, 5, (5, 0)), (1, 4, (5, 0)), (2, 5, (5, 2)), (3, 7, (7, 3))] {
        let said = prune((speaker, seq), log, below);
        say(&fixture, &said).await;
        for _ in 0..2 {
            prunes.note_prune(&said).await.expect("it is stored");
        }
        let expected = PrunedLog { log, below_seq: counts.0, by: (speaker, counts.1) };
        assert_eq!(prunes.pruned().await.expect("read"), [expected]);
    }
}

pub(crate) async fn leaf_hashes_of_what_was_dropped_come_from_the_tiles(fixture: Fixture) {
    let (log, speaker) = (new_log(), new_log());
    let (prunes, trees) = (&fixture.stores.prunes, &fixture.stores.trees);
    let mut all = ship(&fixture, log, 0..300, old_ms()).await;
    all.extend(ship(&fixture, log, 300..310, now_ms()).await);
    let hashes: Vec<[u8; 32]> = all.iter().map(|record| Leaf::of(record).hash()).collect();
    let (mut tiles, mut kept) = (Tiles::default(), Vec::new());
    for hash in &hashes[..300] {
        tiles.push(*hash, |tile, hashes| kept.push((tile, hashes.as_flattened().to_vec())));
    }
    kept.extend(tiles.partial().map(|(tile, hashes)| (tile, hashes.as_flattened().to_vec())));
    assert!(kept.iter().any(|(tile, _)| *tile == Tile { level: 0, index: 1, width: 44 }));
    trees.put_tiles(log, &kept).await.expect("kept");
    prunes.retained(DAYS).await.expect("said");
    let said = prune((speaker, 0), log, 300);
    say(&fixture, &said).await;
    prunes.note_prune(&said).await.expect("it is stored");
    assert!(prunes.drop_pruned(DAYS).await.expect("done") > 0);
    assert_eq!(seqs(&fixture, log).await.len(), 10);
    for (from, limit) in [(0, 1000), (0, 256), (255, 2), (299, 2), (290, 15), (300, 5), (309, 9)] {
        let until = hashes.len().min(from + limit);
        let told = trees.leaf_hashes(log, from as u64, u32::try_from(limit).expect("small")).await.expect("read");
        assert_eq!(told, hashes[from..until], "{from} {limit}");
    }
}

pub(crate) async fn the_leaf_of_an_erased_record_is_still_told(fixture: Fixture) {
    let log = new_log();
    let all = ship(&fixture, log, 0..4, now_ms()).await;
    assert!(fixture.stores.records.erase(&all[2]).await.expect("erased"));
    let leaves = fixture.stores.records.leaves(log, 1, 2).await.expect("read");
    assert_eq!(leaves, [Leaf::of(&all[1]), Leaf::of(&all[2])]);
    assert_eq!(leaves[1].seq(), 2);
}

#[track_caller]
fn refused<T: std::fmt::Debug>(outcome: Result<T, sqlx::Error>, why: &str) {
    let said = outcome.expect_err(why);
    assert_eq!(said.as_database_error().and_then(DatabaseError::code).as_deref(), Some("42501"), "{why}: {said}");
}

async fn dropped(url: &str, days_ago: i32) -> Result<bool, sqlx::Error> {
    let mut conn = PgConnection::connect(url).await.expect("the test server answers");
    let order = sqlx::query_scalar("SELECT lineage_drop_day((now() AT TIME ZONE 'utc')::date - $1)");
    order.bind(days_ago).fetch_one(&mut conn).await
}

#[tokio::test]
async fn a_day_goes_only_when_it_is_over_and_nobody_reads_it() {
    let fixture = Fixture::postgres().await;
    let (log, speaker, url) = (new_log(), new_log(), fixture.options.url.clone());
    fixture.stores.prunes.retained(DAYS).await.expect("said");
    ship(&fixture, log, 0..2, old_ms()).await;
    let said = prune((speaker, 0), log, 2);
    say(&fixture, &said).await;
    fixture.stores.prunes.note_prune(&said).await.expect("it is stored");
    refused(dropped(&url, 0).await, "today stays");
    assert!(!dropped(&url, 4).await.expect("there is no such day"));
    // A record that was shipped late, behind what is covered.
    let late = ship(&fixture, log, 2..3, old_ms()).await;
    ship(&fixture, log, 3..5, now_ms()).await;
    assert!(!dropped(&url, 5).await.expect("it has to stay"));
    assert_eq!(fixture.stores.records.find(late[0].id, None).await.expect("read").as_ref(), Some(&late[0]));
    let further = prune((speaker, 1), log, 3);
    say(&fixture, &further).await;
    fixture.stores.prunes.note_prune(&further).await.expect("it is stored");
    let mut reader = PgConnection::connect(&url).await.expect("the test server answers");
    let mut reading = reader.begin().await.expect("a transaction");
    reading.execute("SELECT count(*) FROM lineage_record").await.expect("it reads");
    let busy = dropped(&url, 5).await.expect_err("it waits no longer than a second");
    assert_eq!(busy.as_database_error().and_then(DatabaseError::code).as_deref(), Some("55P03"), "{busy}");
    reading.rollback().await.expect("the end");
    assert!(dropped(&url, 5).await.expect("now it may"));
    assert_eq!(seqs(&fixture, log).await, [3, 4]);
}

#[tokio::test]
async fn a_day_with_rows_of_a_log_that_is_not_known_stays() {
    let fixture = Fixture::postgres().await;
    fixture.stores.prunes.retained(DAYS).await.expect("said");
    ship(&fixture, new_log(), 0..2, old_ms()).await;
    fixture.execute("DELETE FROM lineage_log").await;
    assert!(!dropped(&fixture.options.url, 5).await.expect("nothing says that they may go"));
}

#[tokio::test]
async fn a_writer_drops_what_a_stored_prune_covers_and_nothing_else() {
    let fixture = Fixture::postgres().await;
    let writer = crate::roles::guarded(&fixture).await;
    let (log, speaker) = (new_log(), new_log());
    ship(&fixture, log, 0..3, old_ms()).await;
    let stores = Stores::open(&signet_store::Options::new(&writer, ".")).expect("a good URL");
    fixture.execute(&format!("SELECT lineage_retain({DAYS})")).await;
    assert!(!dropped(&writer, 5).await.expect("nothing is covered"));
    let mut conn = PgConnection::connect(&writer).await.expect("the test server answers");
    for statement in ["INSERT INTO lineage_pruned SELECT log_id, 3, log_id, 0 FROM lineage_log".to_owned(), {
        format!("SELECT lineage_note_prune('{}', 0)", log.as_uuid())
    }] {
        refused(conn.execute(AssertSqlSafe(statement)).await, "no prune says so");
    }
    let said = prune((speaker, 0), log, 3);
    stores.records.register(&log_row(speaker, 1)).await.expect("a log");
    stores.records.ship(speaker, 1, std::slice::from_ref(&said)).await.expect("shipped");
    stores.prunes.note_prune(&said).await.expect("it is stored");
    assert_eq!(stores.prunes.drop_pruned(DAYS).await.expect("done"), 1);
    assert!(seqs(&fixture, log).await.is_empty());
}

#[tokio::test]
async fn a_writer_that_makes_up_a_prune_drops_no_day_that_the_owner_keeps() {
    let fixture = Fixture::postgres().await;
    let writer = crate::roles::guarded(&fixture).await;
    let stores = Stores::open(&signet_store::Options::new(&writer, ".")).expect("a good URL");
    let (young, old, speaker) = (new_log(), new_log(), new_log());
    ship(&fixture, young, 0..3, now_ms() - DAY_MS).await;
    ship(&fixture, old, 0..3, old_ms()).await;
    stores.records.register(&log_row(speaker, 1)).await.expect("a log");
    let made_up = [(young, 3), (old, 3), (old, 4), (new_log(), 0)];
    let made_up: Vec<Record> =
        (0..).zip(made_up).map(|(seq, (log, below))| prune((speaker, seq), log, below)).collect();
    stores.records.ship(speaker, 1, &made_up).await.expect("shipped");
    let note = |at: usize| stores.prunes.note_prune(&made_up[at]);

    // Nobody has said that anything may go.
    assert_eq!(stores.prunes.retained(1).await.expect("told"), None);
    for at in 0..made_up.len() {
        note(at).await.expect_err("all is kept");
    }
    // As an earlier word of the owner's may have let it.
    let noted = format!(
        "INSERT INTO lineage_pruned SELECT log_id, 3, '{}', 0 FROM lineage_log WHERE next_seq = 3",
        speaker.as_uuid()
    );
    fixture.execute(&noted).await;
    for days_ago in [0, 1, 5, 10_000] {
        refused(dropped(&writer, days_ago).await, "all is kept");
        refused(dropped(&fixture.options.url, days_ago).await, "from the owner too");
    }
    fixture.execute("DELETE FROM lineage_pruned").await;
    let mut conn = PgConnection::connect(&writer).await.expect("the test server answers");
    for statement in ["SELECT lineage_retain(1)", "INSERT INTO lineage_retention (days) VALUES (1)"] {
        refused(conn.execute(statement).await, statement);
    }

    fixture.execute("SELECT lineage_retain(4)").await;
    for statement in
        ["SELECT lineage_retain(0)", "UPDATE lineage_retention SET days = 1", "DELETE FROM lineage_retention"]
    {
        refused(conn.execute(statement).await, statement);
    }
    assert_eq!(stores.prunes.retained(1).await.expect("told"), Some(4), "a writer does not change it");
    for (at, why) in [(0, "young"), (2, "not there"), (3, "of no log")] {
        let said = note(at).await.expect_err(why).to_string();
        assert!(said.contains("not all records"), "{why}: {said}");
    }
    note(1).await.expect("all is old");
    fixture.execute(&noted.replace("next_seq = 3", "next_seq = 3 ON CONFLICT DO NOTHING")).await;
    for days_ago in [-1, 0, 1, 4] {
        refused(dropped(&writer, days_ago).await, "young");
    }
    let before_christ = "SELECT lineage_drop_day(((now() AT TIME ZONE 'utc')::date - 1 || ' BC')::date)";
    refused(conn.execute(before_christ).await, "it has the name of yesterday");
    assert!(dropped(&writer, 5).await.expect("it may go"));
    assert_eq!((seqs(&fixture, young).await, seqs(&fixture, old).await), (vec![0, 1, 2], vec![]));

    // Whoever owns the tables says it by pruning.
    assert_eq!(fixture.stores.prunes.retained(1).await.expect("said"), Some(1));
    refused(dropped(&writer, 1).await, "young");
    fixture.execute("SELECT lineage_retain(0)").await;
    refused(dropped(&writer, 10_000).await, "all is kept again");
}
