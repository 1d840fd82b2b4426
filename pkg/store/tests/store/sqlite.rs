//! What only SQLite can get wrong: one writer, one file, other processes on it.

use crate::support::{Fixture, NOON, entry, log_row, new_log, records};
use signet_cache::StoreFault;
use signet_store::{Options, Stores};
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;
use tokio::task::JoinSet;

fn options(folder: &TempDir) -> Options {
    Options::new("sqlite://signet.db", folder.path())
}

fn open(folder: &TempDir) -> Stores {
    Stores::open(&options(folder)).expect("a good URL")
}

#[tokio::test]
async fn eight_openers_may_migrate_a_new_file_at_once() {
    let folder = TempDir::new().expect("a folder");
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let stores = open(&folder);
        tasks.spawn(async move { stores.migrate().await });
    }
    for done in tasks.join_all().await {
        done.expect("migrated");
    }
    open(&folder).probe().await.expect("ready");
}

#[tokio::test]
async fn a_wrong_path_is_noticed_and_makes_no_file() {
    let folder = TempDir::new().expect("a folder");
    let found = open(&folder).probe().await;
    assert!(matches!(found, Err(StoreFault::Unavailable(_))), "{found:?}");
    Stores::open_read_only(&options(&folder)).expect("a good URL").probe().await.expect_err("there is no file");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

#[tokio::test]
async fn the_file_and_its_side_files_are_for_their_owner_alone() {
    let folder = TempDir::new().expect("a folder");
    let stores = open(&folder);
    stores.migrate().await.expect("the schema");
    stores.keys.secret_or_insert([1; 32]).await.expect("a secret");
    let modes: Vec<_> = std::fs::read_dir(folder.path())
        .expect("a folder")
        .map(|file| file.expect("a file").metadata().expect("its mode").permissions().mode() & 0o777)
        .collect();
    assert!(modes.len() >= 2 && modes.iter().all(|mode| *mode == 0o600), "{modes:?}");
}

#[tokio::test]
async fn a_reader_sees_whole_batches_while_another_writes() {
    let fixture = Fixture::sqlite().await;
    let log = new_log();
    fixture.stores.records.register(&log_row(log, 1)).await.expect("a new log");
    let reader = Stores::open_read_only(&fixture.options).expect("a good URL");
    let writer = fixture.stores.clone();
    let task = tokio::spawn(async move {
        for start in 0..20 {
            let batch = records(log, start * 10..start * 10 + 10);
            writer.records.ship(log, 1, &batch).await.expect("shipped");
        }
    });
    let mut seen = 0;
    while seen < 200 {
        let read = reader.records.records(log, 0, 1000).await.expect("a read");
        assert!(read.len().is_multiple_of(10) && read.len() >= seen, "{} after {seen}", read.len());
        seen = read.len();
    }
    task.await.expect("the writer ended well");
    reader.records.register(&log_row(new_log(), 1)).await.expect_err("read only");
}

#[tokio::test]
async fn a_closed_file_opens_read_only() {
    let fixture = Fixture::sqlite().await;
    let log = new_log();
    fixture.stores.records.register(&log_row(log, 1)).await.expect("a new log");
    fixture.stores.records.ship(log, 1, &records(log, 0..3)).await.expect("shipped");
    fixture.stores.close().await;
    let reader = Stores::open_read_only(&fixture.options).expect("a good URL");
    assert_eq!(reader.records.records(log, 0, 9).await.expect("a read").len(), 3);
    assert_eq!(reader.records.logs().await.expect("a read").len(), 1);
}

#[tokio::test]
async fn two_processes_on_one_file_wait_for_each_other() {
    let fixture = Fixture::sqlite().await;
    let mut tasks = JoinSet::new();
    for n in 0..4 {
        let stores = Stores::open(&fixture.options).expect("a good URL");
        tasks.spawn(async move {
            let log = new_log();
            stores.records.register(&log_row(log, 1)).await.expect("a new log");
            for round in 0..10_u8 {
                stores.entries.put(&[entry(n * 10 + round, NOON)]).await.expect("a write");
                let seq = u64::from(round);
                stores.records.ship(log, 1, &records(log, seq..seq + 1)).await.expect("shipped");
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(fixture.stores.entries.since(0, NOON, 99).await.expect("a read").0.len(), 40);
}

/// A full disk, an I/O error or no memory make SQLite end a transaction by itself; a trigger can do the same.
#[tokio::test]
async fn a_transaction_that_sqlite_ends_by_itself_does_not_spoil_the_connection() {
    let fixture = Fixture::sqlite().await;
    let (store, log) = (fixture.stores.records.clone(), new_log());
    store.register(&log_row(log, 1)).await.expect("a new log");
    fixture
        .execute(
            "CREATE TRIGGER full BEFORE INSERT ON lineage_entry BEGIN
             SELECT RAISE(ROLLBACK, 'database or disk is full'); END",
        )
        .await;
    for _ in 0..3 {
        let found = store.ship(log, 1, &records(log, 0..3)).await;
        assert!(found.as_ref().is_err_and(|fault| fault.to_string().contains("disk is full")), "{found:?}");
    }
    fixture.execute("DROP TRIGGER full").await;
    assert_eq!(store.ship(log, 1, &records(log, 0..3)).await.expect("there is room again"), 3);
    let reader = Stores::open_read_only(&fixture.options).expect("a good URL");
    assert_eq!(reader.records.records(log, 0, 9).await.expect("a read").len(), 3, "committed, seen by others");
    fixture.stores.entries.put(&[entry(1, NOON)]).await.expect("others write too");
}

#[tokio::test]
async fn a_previous_release_starts_and_serves_against_a_newer_schema() {
    let fixture = Fixture::sqlite().await;
    fixture
        .execute(
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
             VALUES (9999, 'from the future', true, x'00', 0);
             ALTER TABLE lineage_entry ADD COLUMN later TEXT; ALTER TABLE cache_entry ADD COLUMN later TEXT",
        )
        .await;
    let stores = Stores::open(&fixture.options).expect("a good URL");
    stores.migrate().await.expect("an unknown version is no fault");
    let log = new_log();
    stores.records.register(&log_row(log, 1)).await.expect("a new log");
    assert_eq!(stores.records.ship(log, 1, &records(log, 0..3)).await.expect("shipped"), 3);
    stores.entries.put(&[entry(1, NOON)]).await.expect("a write");
}

#[tokio::test]
async fn the_cursor_is_not_given_out_again_after_a_sweep() {
    let fixture = Fixture::sqlite().await;
    let store = &fixture.stores.entries;
    store.put(&[entry(1, NOON)]).await.expect("a write");
    let (_, cursor) = store.since(0, NOON, 9).await.expect("a read");
    store.sweep(NOON + 3_600_000).await.expect("a sweep");
    let next = entry(2, NOON);
    store.put(std::slice::from_ref(&next)).await.expect("a write");
    assert_eq!(store.since(cursor, NOON, 9).await.expect("a read").0, [next]);
}
