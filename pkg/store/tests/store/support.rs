//! Fresh databases and made-up rows for the tests of both backends.

use signet_cache::{CacheKey, EntryRow};
use signet_lineage::{LogRow, Record};
use signet_store::{Options, Stores};
use signet_types::{EntryId, LineageId, LogId, TenantId};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// 2026-11-30T00:00:00Z.
pub(crate) const NOON: u64 = 1_796_040_000_000;

/// What `deploy/services.sh` says about the services. A test without its service fails; it is never skipped.
#[expect(clippy::disallowed_methods, reason = "tests are told where the services are")]
pub(crate) fn told(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run `deploy/services.sh start --dir DIR --redis --postgres --pgbouncer --fast` and export DIR/services.env")
    })
}

/// A database and its stores, ready for use.
pub(crate) struct Fixture {
    pub(crate) stores: Stores,
    pub(crate) options: Options,
    _folder: TempDir,
}

impl Fixture {
    pub(crate) async fn postgres() -> Self {
        Self::migrated(fresh_postgres().await).await
    }

    pub(crate) async fn sqlite() -> Self {
        Self::migrated("sqlite://signet.db".to_owned()).await
    }

    async fn migrated(url: String) -> Self {
        let folder = TempDir::new().expect("a folder");
        let options = Options::new(url, folder.path());
        let stores = Stores::open(&options).expect("a good URL");
        stores.migrate().await.expect("the schema");
        Self { stores, options, _folder: folder }
    }

    /// Does to the database what no store would.
    pub(crate) async fn execute(&self, sql: &'static str) {
        if self.options.url.starts_with("postgres") {
            let mut conn = PgConnection::connect(&self.options.url).await.expect("the test server answers");
            conn.execute(sql).await.expect("good SQL");
        } else {
            let file = sqlx::sqlite::SqliteConnectOptions::new().filename(self.options.data_dir.join("signet.db"));
            let mut conn = sqlx::SqliteConnection::connect_with(&file).await.expect("the file opens");
            conn.execute(sql).await.expect("good SQL");
        }
    }
}

/// The URL of a new, empty database on the test server.
pub(crate) async fn fresh_postgres() -> String {
    let server = told("SIGNET_TEST_POSTGRES_URL");
    let name = format!("t{}", EntryId::generate(NOON).as_uuid().simple());
    let mut admin = PgConnection::connect(&server).await.expect("the test server answers");
    admin.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await.expect("a new database");
    at_database(&server, &name)
}

/// `url` with another database name.
pub(crate) fn at_database(url: &str, name: &str) -> String {
    let (server, _) = url.rsplit_once('/').expect("a URL with a database");
    format!("{server}/{name}")
}

/// Runs the service script; used by tests that take a whole server down.
pub(crate) fn services(command: &str, folder: &Path, flags: &[&str]) {
    let done = Command::new("python3")
        .arg(told("SIGNET_TEST_SERVICES_SCRIPT"))
        .args([command, "--dir"])
        .arg(folder)
        .args(flags)
        .output()
        .expect("python3 runs");
    assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
}

pub(crate) fn log_row(log: LogId, epoch: u32) -> LogRow {
    LogRow { log, origin: "test/signet".to_owned(), epoch, attest_key: [7; 32], next_seq: 0 }
}

pub(crate) fn tenant(n: u8) -> TenantId {
    TenantId::from_bytes([n; 16])
}

/// A record of `tenant` that was completed at `at_ms`. Its signature is made up: a store does not judge it.
pub(crate) fn record_at(log: LogId, seq: u64, of: TenantId, at_ms: u64) -> Record {
    let id = LineageId::generate(at_ms);
    let payload = format!(
        r#"{{"_type":"https://in-toto.io/Statement/v1","predicate":{{"cache":{{"decision":"miss"}},"caller":{{"tenant":"{of}"}},"http":{{"route":"/v1/chat/completions","status":200,"stream":false}},"id":"{id}","kind":"request","model":{{"asked":"small","served":"small-1"}},"parents":[],"time":{{"completed_ms":{at_ms}}},"usage":{{"in":12,"out":34}},"v":1}},"predicateType":"urn:signet:lineage:v1"}}"#
    );
    let sig = std::array::from_fn(|i| u8::try_from(i).unwrap_or(0) ^ seq.to_le_bytes()[i % 8]);
    Record { id, log, epoch: 1, seq, payload: payload.into_bytes().into(), key_id: [9; 32], sig }
}

pub(crate) fn records(log: LogId, seqs: std::ops::Range<u64>) -> Vec<Record> {
    seqs.map(|seq| record_at(log, seq, tenant(1), NOON)).collect()
}

pub(crate) fn new_log() -> LogId {
    LogId::generate(NOON)
}

/// An entry under key `n`, made at `created_ms`, good for a minute.
pub(crate) fn entry(n: u8, created_ms: u64) -> EntryRow {
    EntryRow {
        id: EntryId::generate(created_ms),
        key: CacheKey::from_bytes([n; 32]),
        partition: [n ^ 1; 32],
        tenant: tenant(n),
        created_ms,
        expires_ms: created_ms + 60_000,
        sealed: vec![n; 100],
    }
}
