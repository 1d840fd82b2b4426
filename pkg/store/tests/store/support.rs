//! Fresh databases and made-up rows for the tests of both backends.

use async_trait::async_trait;
use signet_cache::{CacheKey, EntryRow};
use signet_lineage::{Columns, Leaf, LogRow, Record, RecordStore, ShipFault};
use signet_store::{Options, Stores};
use signet_types::{EntryId, LineageId, LogId, TenantId};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
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
    /// The table that holds the records.
    pub(crate) entries: &'static str,
    _folder: TempDir,
}

impl Fixture {
    pub(crate) async fn postgres() -> Self {
        Self::migrated(fresh_postgres().await).await
    }

    pub(crate) async fn sqlite() -> Self {
        Self::migrated("sqlite://signet.db".to_owned()).await
    }

    /// Postgres, with the records in the table of earlier versions.
    pub(crate) async fn postgres_before() -> Self {
        let mut fixture = Self::postgres().await;
        let store = Before { url: fixture.options.url.clone(), store: fixture.stores.records.clone() };
        fixture.stores.records = Arc::new(store);
        fixture.entries = "lineage_entry";
        fixture
    }

    async fn migrated(url: String) -> Self {
        let folder = TempDir::new().expect("a folder");
        let options = Options::new(url, folder.path());
        let stores = Stores::open(&options).expect("a good URL");
        stores.migrate().await.expect("the schema");
        let entries = if options.url.starts_with("postgres") { "lineage_record" } else { "lineage_entry" };
        Self { stores, options, entries, _folder: folder }
    }

    /// Does to the database what no store would. `lineage_entry` is whatever table holds the records.
    pub(crate) async fn execute(&self, sql: &str) {
        let sql = AssertSqlSafe(sql.replace("lineage_entry", self.entries));
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

/// A store whose records then stand as an earlier version left them: in its table, plain.
struct Before {
    url: String,
    store: Arc<dyn RecordStore>,
}

#[async_trait]
impl RecordStore for Before {
    async fn register(&self, log: &LogRow) -> Result<LogRow, ShipFault> {
        self.store.register(log).await
    }

    async fn ship(&self, log: LogId, epoch: u32, batch: &[Record]) -> Result<u64, ShipFault> {
        let next_seq = self.store.ship(log, epoch, batch).await?;
        let mut conn = PgConnection::connect(&self.url).await.expect("the test server answers");
        let mut tx = conn.begin().await.expect("a transaction");
        let days = "SELECT lineage_add_day(day) FROM (SELECT DISTINCT day FROM lineage_record) days";
        sqlx::query(days).execute(&mut *tx).await.expect("partitions");
        for record in batch {
            let columns = Columns::read(&record.payload).ok();
            sqlx::query(
                "INSERT INTO lineage_entry SELECT log_id, seq, day, ts_ms, id, $3, w.epoch, $6, key_id, sig, $4, 0, tenant, model, $5,
                    status, $9, $10, $7, $8
                 FROM lineage_record r JOIN lineage_log USING (log_no) JOIN lineage_writer w ON w.writer = r.writer
                 WHERE log_id = $1 AND seq = $2",
            )
            .bind(log.as_uuid())
            .bind(i64::try_from(record.seq).expect("small"))
            .bind(columns.as_ref().map_or("unread", |columns| columns.kind.as_str()))
            .bind(&*record.payload)
            .bind(columns.as_ref().and_then(|columns| columns.cache.as_deref()))
            .bind(Leaf::of(record).hash().to_vec())
            .bind(columns.as_ref().and_then(|columns| columns.parent).map(|(log, _)| log.as_uuid()))
            .bind(columns.as_ref().and_then(|columns| columns.parent).and_then(|(_, seq)| i64::try_from(seq).ok()))
            .bind(columns.as_ref().and_then(|columns| columns.tok_in).and_then(|n| i64::try_from(n).ok()))
            .bind(columns.as_ref().and_then(|columns| columns.tok_out).and_then(|n| i64::try_from(n).ok()))
            .execute(&mut *tx)
            .await
            .expect("the row moves");
        }
        sqlx::query("DELETE FROM lineage_record").execute(&mut *tx).await.expect("moved");
        tx.commit().await.expect("a commit");
        Ok(next_seq)
    }

    async fn pass_gap(&self, log: LogId, epoch: u32, gap: &Record) -> Result<u64, ShipFault> {
        self.store.pass_gap(log, epoch, gap).await
    }

    async fn find(&self, id: LineageId, tenant: Option<TenantId>) -> Result<Option<Record>, ShipFault> {
        self.store.find(id, tenant).await
    }

    async fn erase(&self, record: &Record) -> Result<bool, ShipFault> {
        self.store.erase(record).await
    }

    async fn is_erased(&self, log: LogId, seq: u64) -> Result<bool, ShipFault> {
        self.store.is_erased(log, seq).await
    }

    async fn list(
        &self,
        tenant: Option<TenantId>,
        before: Option<LineageId>,
        limit: u32,
    ) -> Result<Vec<Columns>, ShipFault> {
        self.store.list(tenant, before, limit).await
    }

    async fn logs(&self) -> Result<Vec<LogRow>, ShipFault> {
        self.store.logs().await
    }

    async fn records(&self, log: LogId, from_seq: u64, limit: u32) -> Result<Vec<Record>, ShipFault> {
        self.store.records(log, from_seq, limit).await
    }

    async fn leaves(&self, log: LogId, from_seq: u64, limit: u32) -> Result<Vec<Leaf>, ShipFault> {
        self.store.leaves(log, from_seq, limit).await
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
