//! What a database does to a batch besides taking it. Each time the shipper is told that the database is away, sends the same
//! batch again, and every record is there once.

use crate::support::{Fixture, at_database, fresh_postgres, log_row, new_log, records, told};
use signet_lineage::{Record, ShipFault};
use signet_store::{Options, Stores};
use signet_types::LogId;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// When the line is cut.
#[derive(Clone, Copy)]
enum Cut {
    /// The server does not get the COMMIT.
    BeforeCommit,
    /// It has committed, and nobody hears of it.
    BehindCommit,
}

/// Stands before a server, and cuts one line at its next COMMIT if told to.
struct Shears {
    address: SocketAddr,
    next: Arc<Mutex<Option<Cut>>>,
}

impl Shears {
    async fn before(server: String) -> Self {
        let door = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = door.local_addr().expect("bound");
        let next = Arc::new(Mutex::new(None));
        let told = Arc::clone(&next);
        tokio::spawn(async move {
            while let Ok((client, _)) = door.accept().await {
                let server = TcpStream::connect(&server).await.expect("the server");
                tokio::spawn(Self::carry(client, server, Arc::clone(&told)));
            }
        });
        Self { address, next }
    }

    /// A simple query, as the client ends a transaction.
    async fn carry(mut client: TcpStream, mut server: TcpStream, next: Arc<Mutex<Option<Cut>>>) -> Option<()> {
        let (mut asked, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        loop {
            tokio::select! {
                read = client.read(&mut asked) => {
                    let asked = asked.get(..read.ok()?).filter(|asked| !asked.is_empty())?;
                    let commits = asked.windows(7).any(|part| part == b"COMMIT\0");
                    let cut = if commits { next.lock().expect("no panic").take() } else { None };
                    if !matches!(cut, Some(Cut::BeforeCommit)) {
                        server.write_all(asked).await.ok()?;
                    }
                    if cut.is_some() {
                        // An answer, or the end of patience is the client's: nothing is carried back.
                        if matches!(cut, Some(Cut::BehindCommit)) {
                            server.readable().await.ok()?;
                        }
                        return None;
                    }
                }
                read = server.read(&mut answered) => {
                    let answered = answered.get(..read.ok()?).filter(|answered| !answered.is_empty())?;
                    client.write_all(answered).await.ok()?;
                }
            }
        }
    }

    fn cut(&self, when: Cut) {
        *self.next.lock().expect("no panic") = Some(when);
    }
}

/// Rows, different seqs, and where the log stands.
async fn held(conn: &mut PgConnection, log: LogId) -> (i64, i64, i64) {
    let ask = "SELECT count(r.seq), count(DISTINCT r.seq), max(next_seq) FROM lineage_log l LEFT JOIN lineage_record r USING (log_no)
        WHERE log_id = $1";
    sqlx::query_as(ask).bind(log.as_uuid()).fetch_one(conn).await.expect("good SQL")
}

/// The database said no, in these words, and takes the batch the next time.
async fn refused_once(stores: &Stores, log: LogId, found: Result<u64, ShipFault>, words: &str, batch: &[Record]) {
    assert!(matches!(&found, Err(ShipFault::Unavailable(said)) if said.contains(words)), "{words}: {found:?}");
    let next = batch.last().expect("a batch").seq + 1;
    assert_eq!(stores.records.ship(log, 1, batch).await.expect("taken"), next, "behind {words}");
}

async fn connect(url: &str) -> PgConnection {
    PgConnection::connect(url).await.expect("the test server answers")
}

#[tokio::test]
async fn a_line_that_is_cut_on_either_side_of_the_commit_costs_and_doubles_nothing() {
    let direct = fresh_postgres().await;
    let (_, name) = direct.rsplit_once('/').expect("a database name");
    let pooled = at_database(&told("SIGNET_TEST_PGBOUNCER_URL"), name);
    Stores::open(&Options::new(&direct, ".")).expect("a good URL").migrate().await.expect("the schema");
    let mut conn = connect(&direct).await;
    for url in [&direct, &pooled] {
        let place = url.split(['@', '/']).nth(3).expect("host and port");
        let shears = Shears::before(place.to_owned()).await;
        let through = url.replace(place, &shears.address.to_string());
        let (stores, log) = (Stores::open(&Options::new(through, ".")).expect("a good URL"), new_log());
        stores.records.register(&log_row(log, 1)).await.expect("a new log");
        stores.records.ship(log, 1, &records(log, 0..3)).await.expect("shipped");
        let mut here = 3;
        for when in [Cut::BeforeCommit, Cut::BehindCommit, Cut::BehindCommit, Cut::BeforeCommit] {
            let first = u64::try_from(here).expect("small");
            let batch = records(log, first..first + 50);
            shears.cut(when);
            let found = stores.records.ship(log, 1, &batch).await;
            assert!(matches!(&found, Err(ShipFault::Unavailable(_))), "{found:?}");
            let arrived = if matches!(when, Cut::BehindCommit) { here + 50 } else { here };
            assert_eq!(held(&mut conn, log).await, (arrived, arrived, arrived));
            assert_eq!(stores.records.ship(log, 1, &batch).await.expect("a new line"), first + 50);
            here += 50;
            assert_eq!(held(&mut conn, log).await, (here, here, here));
        }
    }
}

/// A log with three records, and a rival's connection with a transaction that does `holds`, at a batch of ten on its way.
async fn beside(
    fixture: &Fixture,
    holds: &str,
) -> (LogId, PgConnection, tokio::task::JoinHandle<Result<u64, ShipFault>>) {
    let (store, log) = (fixture.stores.records.clone(), new_log());
    store.register(&log_row(log, 1)).await.expect("a new log");
    store.ship(log, 1, &records(log, 0..3)).await.expect("shipped");
    let (mut rival, mut watch) = (connect(&fixture.options.url).await, connect(&fixture.options.url).await);
    rival.execute(AssertSqlSafe(format!("BEGIN; {holds}"))).await.expect("good SQL");
    let batch = records(log, 3..13);
    let ship = tokio::spawn(async move { store.ship(log, 1, &batch).await });
    let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype <> 'advisory' AND pid IN
        (SELECT pid FROM pg_stat_activity WHERE datname = current_database())";
    while sqlx::query_scalar::<_, i64>(waits).fetch_one(&mut watch).await.expect("good SQL") == 0 {}
    (log, rival, ship)
}

#[tokio::test]
async fn a_deadlock_is_outlived() {
    let fixture = Fixture::postgres().await;
    // The rival never looks for deadlocks itself.
    let holds = "SET LOCAL deadlock_timeout = '10min'; LOCK TABLE lineage_record IN SHARE MODE";
    let (log, mut rival, ship) = beside(&fixture, holds).await;
    rival.execute("SELECT 1 FROM lineage_log FOR UPDATE; ROLLBACK").await.expect("the other one gives way");
    let found = ship.await.expect("no panic");
    refused_once(&fixture.stores, log, found, "deadlock detected", &records(log, 3..13)).await;
    assert_eq!(held(&mut rival, log).await, (13, 13, 13));
}

#[tokio::test]
async fn a_transaction_that_cannot_be_serialized_is_repeated() {
    let mut fixture = Fixture::postgres().await;
    let name = fixture.options.url.rsplit_once('/').expect("a name").1.to_owned();
    let strict = format!("ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'");
    connect(&fixture.options.url).await.execute(AssertSqlSafe(strict)).await.expect("good SQL");
    fixture.stores = Stores::open(&fixture.options).expect("a good URL");
    let (log, mut rival, ship) = beside(&fixture, "UPDATE lineage_log SET origin = origin").await;
    rival.execute("COMMIT").await.expect("good SQL");
    let found = ship.await.expect("no panic");
    refused_once(&fixture.stores, log, found, "could not serialize access", &records(log, 3..13)).await;
    assert_eq!(held(&mut rival, log).await, (13, 13, 13));
}

#[tokio::test]
async fn a_statement_that_the_server_ends_for_its_time_is_repeated() {
    let fixture = Fixture::postgres().await;
    let (log, mut rival, ship) = beside(&fixture, "SELECT 1 FROM lineage_log FOR UPDATE").await;
    // As at the end of statement_timeout: the same SQLSTATE, without the wait.
    let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    rival.execute(cancel).await.expect("good SQL");
    let found = ship.await.expect("no panic");
    rival.execute("ROLLBACK").await.expect("good SQL");
    refused_once(&fixture.stores, log, found, "canceling statement", &records(log, 3..13)).await;
    assert_eq!(held(&mut rival, log).await, (13, 13, 13));
}

#[tokio::test]
async fn a_connection_to_a_server_that_only_reads_is_not_used_again() {
    let fixture = Fixture::postgres().await;
    let (url, log) = (&fixture.options.url, new_log());
    fixture.stores.records.register(&log_row(log, 1)).await.expect("a new log");
    let name = url.rsplit_once('/').expect("a name").1;
    let alter = |how: &str| AssertSqlSafe(format!("ALTER DATABASE {name} {how}"));
    let mut owner = connect(url).await;
    owner.execute(alter("SET default_transaction_read_only = on")).await.expect("good SQL");
    let options = Options { max_connections: 1, ..fixture.options.clone() };
    let stores = Stores::open(&options).expect("a good URL");
    let batch = records(log, 0..10);
    let found = stores.records.ship(log, 1, &batch).await;
    owner.execute(alter("RESET default_transaction_read_only")).await.expect("good SQL");
    refused_once(&stores, log, found, "read-only transaction", &batch).await;
    assert_eq!(held(&mut owner, log).await, (10, 10, 10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_committed_to_the_disk_whatever_the_server_does_by_default() {
    let fixture = Fixture::postgres().await;
    let (url, log) = (&fixture.options.url, new_log());
    fixture.stores.records.register(&log_row(log, 1)).await.expect("a new log");
    let name = url.rsplit_once('/').expect("a name").1;
    let mut owner = connect(url).await;
    let watch = "CREATE TABLE seen (how text);
        CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$;
        CREATE TRIGGER see AFTER INSERT ON lineage_record FOR EACH STATEMENT EXECUTE FUNCTION see()";
    owner.execute(watch).await.expect("good SQL");
    for (default, expected) in [("off", "on"), ("remote_write", "on"), ("remote_apply", "remote_apply")] {
        let alter = AssertSqlSafe(format!("ALTER DATABASE {name} SET synchronous_commit = {default}"));
        owner.execute(alter).await.expect("good SQL");
        let stores = Stores::open(&fixture.options).expect("a good URL");
        let next = stores.records.register(&log_row(log, 1)).await.expect("its log").next_seq;
        stores.records.ship(log, 1, &records(log, next..next + 5)).await.expect("shipped");
        let seen: String =
            sqlx::query_scalar("DELETE FROM seen RETURNING how").fetch_one(&mut owner).await.expect("a row");
        assert_eq!(seen, expected, "where the default is {default}");
    }
}
