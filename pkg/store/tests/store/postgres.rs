//! What only Postgres can get wrong: partitions, interleaved commits, poolers, outages, dead peers.

use crate::support::{
    Fixture, NOON, at_database, entry, fresh_postgres, log_row, new_log, record_at, records, services, tenant, told,
};
use signet_cache::StoreFault;
use signet_lineage::ShipFault;
use signet_store::{Options, Stores};
use sqlx::{Connection, Executor, PgConnection, Row};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

const DAY_MS: u64 = 86_400_000;
/// What "within a second" means on a machine that also builds; only a hang is longer.
const PROMPT: Duration = Duration::from_secs(5);

async fn connect(fixture: &Fixture) -> PgConnection {
    PgConnection::connect(&fixture.options.url).await.expect("the test server answers")
}

async fn count(conn: &mut PgConnection, sql: &'static str) -> i64 {
    sqlx::query(sql).fetch_one(conn).await.expect("good SQL").get(0)
}

fn open(url: &str) -> Stores {
    Stores::open(&Options::new(url, "/nonexistent")).expect("a good URL")
}

#[tokio::test]
async fn days_get_their_partitions_when_they_come_and_odd_days_are_clamped() {
    let fixture = Fixture::postgres().await;
    let (store, log, mut conn) = (&fixture.stores.records, new_log(), connect(&fixture).await);
    store.register(&log_row(log, 1)).await.expect("a new log");
    let today =
        u64::try_from(count(&mut conn, "SELECT extract(epoch FROM now())::bigint * 1000").await).expect("after 1970");
    let times = [today, today - 2 * DAY_MS, 0, today + 1000 * DAY_MS, (1 << 53) - 1];
    let batch: Vec<_> = (0..).zip(times).map(|(seq, at)| record_at(log, seq, tenant(1), at)).collect();
    assert_eq!(store.ship(log, 1, &batch).await.expect("shipped"), 5);
    assert_eq!(store.records(log, 0, 9).await.expect("a read"), batch);
    for record in &batch {
        assert!(store.find(record.id, None).await.expect("a read").is_some(), "{}", record.seq);
    }
    let parts = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'lineage_record'::regclass";
    assert_eq!(count(&mut conn, parts).await, 4, "today, two days ago, and the clamps a week back and ahead");
    let far = "SELECT count(*) FROM lineage_record WHERE day NOT BETWEEN current_date - 8 AND current_date + 8";
    assert_eq!(count(&mut conn, far).await, 0);
    assert_eq!(count(&mut conn, "SELECT max(ts_ms) FROM lineage_record").await, (1 << 53) - 1, "the signed time stays");
}

#[tokio::test]
async fn replicas_that_meet_on_a_new_day_all_ship() {
    let fixture = Fixture::postgres().await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let (store, log) = (fixture.stores.records.clone(), new_log());
        tasks.spawn(async move {
            store.register(&log_row(log, 1)).await.expect("a new log");
            store.ship(log, 1, &records(log, 0..20)).await
        });
    }
    for shipped in tasks.join_all().await {
        assert_eq!(shipped.expect("shipped"), 20);
    }
}

#[tokio::test]
async fn a_row_committed_late_is_not_passed_by_the_cursor() {
    let fixture = Fixture::postgres().await;
    let (store, mut conn) = (fixture.stores.entries.clone(), connect(&fixture).await);
    // A first writer has taken its number and has not committed.
    let mut slow = conn.begin().await.expect("a transaction");
    slow.execute("SELECT pg_advisory_xact_lock(7310029, 2)").await.expect("good SQL");
    let late = "INSERT INTO cache_entry VALUES (repeat('a', 32)::bytea, gen_random_uuid(), repeat('b', 32)::bytea, \
                repeat('c', 16)::bytea, 1, 9000000000000, 'x')";
    slow.execute(late).await.expect("good SQL");
    let second = tokio::spawn(async move { store.put(&[entry(2, NOON)]).await });
    let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let mut watch = connect(&fixture).await;
    let store = &fixture.stores.entries;
    let (mut early, mut cursor) = (Vec::new(), 0);
    while count(&mut watch, waiting).await == 0 && !second.is_finished() {
        (early, cursor) = store.since(cursor, NOON, 100).await.expect("a read");
    }
    slow.commit().await.expect("a commit");
    second.await.expect("no panic").expect("a write");
    let (rest, behind) = store.since(cursor, NOON, 100).await.expect("a read");
    let seen: Vec<_> = early.iter().chain(&rest).map(|row| row.created_ms).collect();
    assert_eq!(seen, [1, NOON], "both, in the order of their numbers");
    assert_eq!(store.since(behind, NOON, 100).await.expect("a read").0, []);
}

#[tokio::test]
async fn a_cursor_from_before_a_restore_reads_from_the_start() {
    let fixture = Fixture::postgres().await;
    let row = entry(1, NOON);
    fixture.stores.entries.put(std::slice::from_ref(&row)).await.expect("a write");
    let (rows, _) = fixture.stores.entries.since(1 << 62, NOON, 100).await.expect("a read");
    assert_eq!(rows, [row]);
}

#[tokio::test]
async fn eight_replicas_may_migrate_an_empty_database_at_once() {
    let url = fresh_postgres().await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let stores = open(&url);
        tasks.spawn(async move { stores.migrate().await });
    }
    for done in tasks.join_all().await {
        done.expect("migrated");
    }
    open(&url).probe().await.expect("ready");
}

#[tokio::test]
async fn a_previous_release_starts_and_serves_against_a_newer_schema() {
    let fixture = Fixture::postgres().await;
    fixture
        .execute(
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
             VALUES (9999, 'from the future', true, '\\x00', 0);
             ALTER TABLE lineage_record ADD COLUMN later text DEFAULT 'x';
             ALTER TABLE cache_entry ADD COLUMN later text; ALTER TABLE lineage_log ADD COLUMN later bigint",
        )
        .await;
    let stores = open(&fixture.options.url);
    stores.migrate().await.expect("an unknown version is no fault");
    let log = new_log();
    stores.records.register(&log_row(log, 1)).await.expect("a new log");
    assert_eq!(stores.records.ship(log, 1, &records(log, 0..3)).await.expect("shipped"), 3);
    stores.entries.put(&[entry(1, NOON)]).await.expect("a write");
}

#[tokio::test]
async fn a_failed_migration_does_not_keep_the_migration_lock() {
    let fixture = Fixture::postgres().await;
    fixture.execute("UPDATE _sqlx_migrations SET checksum = '\\x00' WHERE version = 1").await;
    let stores = open(&fixture.options.url);
    for _ in 0..2 {
        let found = timeout(PROMPT, stores.migrate()).await.expect("no wait for a lock of our own");
        assert!(matches!(found, Err(StoreFault::Unavailable(_))), "{found:?}");
    }
}

#[tokio::test]
async fn readiness_waits_for_the_schema() {
    let stores = open(&fresh_postgres().await);
    stores.probe().await.expect_err("no schema yet");
    stores.migrate().await.expect("the schema");
    stores.probe().await.expect("ready");
}

#[tokio::test]
async fn a_read_only_store_reads_and_cannot_write() {
    let fixture = Fixture::postgres().await;
    let log = new_log();
    fixture.stores.records.register(&log_row(log, 1)).await.expect("a new log");
    fixture.stores.records.ship(log, 1, &records(log, 0..3)).await.expect("shipped");
    let reader = Stores::open_read_only(&fixture.options).expect("a good URL");
    assert_eq!(reader.records.records(log, 0, 9).await.expect("a read").len(), 3);
    reader.records.register(&log_row(new_log(), 1)).await.expect_err("read only");
    reader.entries.put(&[entry(1, NOON)]).await.expect_err("read only");
}

#[tokio::test]
async fn a_pooler_in_transaction_mode_may_stand_between() {
    let direct = fresh_postgres().await;
    let (_, name) = direct.rsplit_once('/').expect("a database name");
    let pooled = at_database(&told("SIGNET_TEST_PGBOUNCER_URL"), name);
    let options = Options { direct_url: Some(direct.clone()), ..Options::new(pooled, "/nonexistent") };
    let replicas: Vec<_> = (0..6).map(|_| Stores::open(&options).expect("a good URL")).collect();
    replicas[0].migrate().await.expect("the schema, past the pooler");

    let mut tasks = tokio::task::JoinSet::new();
    for (n, stores) in (1_u8..).zip(replicas) {
        tasks.spawn(async move {
            let log = new_log();
            stores.records.register(&log_row(log, 1)).await.expect("a new log");
            for start in [0, 10, 20] {
                let batch = records(log, start..start + 10);
                stores.records.ship(log, 1, &batch).await.expect("shipped");
                stores.entries.put(&[entry(n, NOON)]).await.expect("a write");
                assert_eq!(stores.records.find(batch[3].id, None).await.expect("a read").as_ref(), Some(&batch[3]));
                stores.keys.secret_or_insert([n; 32]).await.expect("a secret");
                stores.probe().await.expect("ready");
            }
            stores.records.records(log, 0, 99).await.expect("a read").len()
        });
    }
    assert_eq!(tasks.join_all().await, [30; 6]);
}

#[tokio::test]
async fn a_database_that_is_down_is_a_prompt_fault_and_recovers_by_itself() {
    let folder = TempDir::new().expect("a folder");
    services("start", folder.path(), &["--postgres", "--fast"]);
    let env = std::fs::read_to_string(folder.path().join("services.env")).expect("the script told where");
    let url = env.lines().find_map(|line| line.strip_prefix("SIGNET_TEST_POSTGRES_URL=")).expect("a URL").to_owned();
    let (stores, log) = (open(&url), new_log());
    stores.migrate().await.expect("the schema");
    stores.records.register(&log_row(log, 1)).await.expect("a new log");
    stores.records.ship(log, 1, &records(log, 0..5)).await.expect("shipped");

    services("stop-postgres", folder.path(), &[]);
    let waited = tokio::time::Instant::now();
    let found = timeout(PROMPT, stores.records.ship(log, 1, &records(log, 5..9))).await.expect("no hang");
    assert!(matches!(found, Err(ShipFault::Unavailable(_))), "{found:?}");
    let found = timeout(PROMPT, stores.keys.secret_or_insert([1; 32])).await.expect("no hang");
    assert!(matches!(found, Err(StoreFault::Unavailable(_))), "{found:?}");
    eprintln!("two faults within {:?}", waited.elapsed());
    timeout(PROMPT, stores.migrate()).await.expect("no hang").expect_err("down");

    services("start-postgres", folder.path(), &[]);
    assert_eq!(stores.records.ship(log, 1, &records(log, 5..9)).await.expect("up again"), 9);
    stores.close().await;
    services("stop", folder.path(), &[]);
}

#[tokio::test]
async fn a_store_may_be_opened_before_its_server_runs() {
    let refused = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("bound");
    let stores = open(&format!("postgres://u:p@{refused}/x"));
    let found = timeout(PROMPT, stores.probe()).await.expect("no hang");
    assert!(matches!(found, Err(StoreFault::Unavailable(_))), "{found:?}");
}

#[tokio::test]
async fn a_peer_that_never_answers_does_not_use_up_the_pool() {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("postgres://u:p@{}/x", silent.local_addr().expect("bound"));
    let stores =
        Stores::open(&Options { max_connections: 1, ..Options::new(url, "/nonexistent") }).expect("a good URL");
    for _ in 0..3 {
        let found = timeout(PROMPT, stores.probe()).await.expect("no hang");
        assert!(matches!(found, Err(StoreFault::Unavailable(_))), "{found:?}");
    }
}

/// Stands before the server; connections that it had when it was told to fall silent stay open and say nothing more.
struct Muffler {
    address: std::net::SocketAddr,
    silent: tokio::sync::watch::Sender<u32>,
}

impl Muffler {
    async fn before(server: String) -> Self {
        let door = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = door.local_addr().expect("bound");
        let (silent, watch) = tokio::sync::watch::channel(0);
        tokio::spawn(async move {
            while let Ok((mut client, _)) = door.accept().await {
                let (mut watch, mut server) = (watch.clone(), TcpStream::connect(&server).await.expect("the server"));
                watch.mark_unchanged();
                tokio::spawn(async move {
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => return,
                        _ = watch.changed() => {}
                    }
                    // Until the client gives up; then the server may forget it as well.
                    while client.readable().await.is_ok() && !matches!(client.try_read(&mut [0; 512]), Ok(0)) {}
                });
            }
        });
        Self { address, silent }
    }

    fn fall_silent(&self) {
        self.silent.send_modify(|times| *times += 1);
    }
}

#[tokio::test]
async fn a_connection_that_falls_silent_is_given_up_and_does_not_use_up_the_pool() {
    let direct = fresh_postgres().await;
    let place = direct.split(['@', '/']).nth(3).expect("host and port");
    let muffler = Muffler::before(place.to_owned()).await;
    let options = Options {
        max_connections: 1,
        operation_limit: Duration::from_secs(1),
        ..Options::new(direct.replace(place, &muffler.address.to_string()), "/nonexistent")
    };
    let (stores, log) = (Stores::open(&options).expect("a good URL"), new_log());
    stores.migrate().await.expect("the schema");
    stores.records.register(&log_row(log, 1)).await.expect("a new log");
    for round in 0..2 {
        // While idle: noticed by the ping before the connection is used again.
        muffler.fall_silent();
        let found = timeout(PROMPT, stores.probe()).await.expect("no hang");
        assert!(matches!(found, Err(StoreFault::Unavailable(_))), "{found:?}");
        stores.probe().await.expect("a new connection");

        // In the middle of an operation: a rival holds the fence until the line is dead.
        let mut conn = PgConnection::connect(&direct).await.expect("the test server answers");
        let mut rival = conn.begin().await.expect("a transaction");
        rival.execute("SELECT 1 FROM lineage_log FOR UPDATE").await.expect("good SQL");
        let (records_of, batch) = (stores.records.clone(), records(log, round * 3..round * 3 + 3));
        let ship = tokio::spawn(async move { records_of.ship(log, 1, &batch).await });
        let mut watch = PgConnection::connect(&direct).await.expect("the test server answers");
        while count(&mut watch, "SELECT count(*) FROM pg_locks WHERE NOT granted").await == 0 {}
        muffler.fall_silent();
        rival.rollback().await.expect("a rollback");
        let found = timeout(PROMPT, ship).await.expect("no hang").expect("no panic");
        assert!(matches!(found, Err(ShipFault::Unavailable(_))), "{found:?}");
        let again = records(log, round * 3..round * 3 + 3);
        assert_eq!(stores.records.ship(log, 1, &again).await.expect("shipped"), round * 3 + 3);
    }
}

#[tokio::test]
async fn callers_that_give_up_leave_the_pool_whole() {
    let fixture = Fixture::postgres().await;
    let options = Options { max_connections: 2, ..fixture.options.clone() };
    let (stores, log) = (Stores::open(&options).expect("a good URL"), new_log());
    stores.records.register(&log_row(log, 1)).await.expect("a new log");
    let batch = records(log, 0..300);
    let mut polls = 0;
    while polls < 40 {
        // Dropped after so many polls: at a different place of the operation each time.
        let mut left = polls;
        let ship = stores.records.ship(log, 1, &batch);
        let mut ship = std::pin::pin!(ship);
        std::future::poll_fn(|cx| {
            let done = ship.as_mut().poll(cx).is_ready();
            left -= 1;
            if done || left < 0 { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
        polls += 1;
    }
    assert_eq!(stores.records.ship(log, 1, &batch).await.expect("shipped"), 300);
    assert_eq!(stores.records.records(log, 0, 999).await.expect("a read").len(), 300);
}

#[tokio::test]
async fn neither_settings_nor_statements_stay_behind_on_a_pooled_connection() {
    let direct = fresh_postgres().await;
    open(&direct).migrate().await.expect("the schema");
    let (_, name) = direct.rsplit_once('/').expect("a database name");
    let pooled = at_database(&told("SIGNET_TEST_PGBOUNCER_URL"), name);
    let (stores, log) = (open(&pooled), new_log());
    stores.records.register(&log_row(log, 1)).await.expect("a new log");
    stores.records.ship(log, 1, &records(log, 0..3)).await.expect("shipped");

    let mut next = PgConnection::connect(&pooled).await.expect("the pooler answers");
    let left = "SELECT current_setting('statement_timeout'), (SELECT count(*)::text FROM pg_prepared_statements)";
    let row = (&mut next).fetch_one(sqlx::raw_sql(left)).await.expect("good SQL");
    assert_eq!((row.get::<String, _>(0), row.get::<String, _>(1)), ("0".to_owned(), "0".to_owned()));
}
