//! The shared vector index on a real Postgres with pgvector.

use crate::support::{Fixture, NOON, at_database, entry, fresh_postgres, tenant, told};
use signet_cache::{CacheKey, EntryRow, Near, Nearest, Notice, SharedIndex, StoreFault, VectorRow, Withdrawal};
use signet_store::{Options, PgVectorIndex, Stores, UnusableIndex};
use signet_testkit::{OverShared, vector_index_contract};
use signet_types::LineageId;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use std::sync::Arc;
use std::time::Duration;

/// Far beyond what a loaded machine needs; no test here is about the budget but the one that sets its own.
const PATIENT: Duration = Duration::from_secs(20);
const PLACE: [u8; 32] = [4; 32];

struct Bench {
    fixture: Fixture,
    index: Arc<PgVectorIndex>,
}

impl Bench {
    async fn new() -> Self {
        let fixture = Fixture::postgres().await;
        let index = prepared(&fixture.options).await;
        for n in 0..10 {
            fixture.stores.keys.tenant_key_or_insert(tenant(n), b"wrapped").await.expect("a key");
        }
        Self { fixture, index }
    }

    /// Stores the entry `n` and its vector.
    async fn store(&self, n: u8, created_ms: u64, vector: &[f32]) -> (EntryRow, VectorRow) {
        let entry = entry(n, created_ms);
        let row = row(&entry, vector);
        self.fixture.stores.entries.put(std::slice::from_ref(&entry)).await.expect("a write");
        self.index.put(std::slice::from_ref(&row)).await.expect("a write");
        (entry, row)
    }

    async fn found(&self, vector: &[f32]) -> Vec<CacheKey> {
        let wanted = Nearest { place: PLACE, vector: vector.to_vec(), k: 8, floor: 0.5, now_ms: NOON };
        self.index.nearest(wanted).await.expect("an answer").iter().map(|near| near.key).collect()
    }

    async fn rows(&self) -> i64 {
        self.number("SELECT count(*) FROM semantic_vector").await
    }

    async fn number(&self, sql: &'static str) -> i64 {
        let mut conn = self.conn().await;
        sqlx::query(sql).fetch_one(&mut conn).await.expect("good SQL").get(0)
    }

    async fn conn(&self) -> PgConnection {
        PgConnection::connect(&self.fixture.options.url).await.expect("the test server answers")
    }
}

async fn prepared(options: &Options) -> Arc<PgVectorIndex> {
    let index = PgVectorIndex::open(options, PATIENT).expect("a good URL");
    index.prepare().await.expect("a Postgres with pgvector");
    Arc::new(index)
}

fn row(entry: &EntryRow, vector: &[f32]) -> VectorRow {
    VectorRow {
        key: entry.key,
        id: entry.id,
        tenant: entry.tenant,
        epoch: 1,
        created_ms: entry.created_ms,
        expires_ms: entry.expires_ms,
        source: LineageId::from_bytes([entry.tenant.as_bytes()[0]; 16]),
        // SHA-256 of "m" and of "n".
        model: SHA_M,
        namespace: SHA_N,
        encoder: [5; 32],
        place: PLACE,
        question: b"sealed".to_vec(),
        vector: vector.to_vec(),
    }
}

const SHA_M: [u8; 32] = hex(b"62c66a7a5dd70c3146618063c344e531e6d4b59e379808443ce962b3abd63c5a");
const SHA_N: [u8; 32] = hex(b"1b16b1df538ba12dc3f97edbb85caa7050d46c148134290feba80f8236c83db9");

const fn hex(text: &[u8; 64]) -> [u8; 32] {
    let mut out = [0; 32];
    let mut at = 0;
    while at < 64 {
        let digit = if text[at] > b'9' { text[at] - b'a' + 10 } else { text[at] - b'0' };
        out[at / 2] = out[at / 2] << 4 | digit;
        at += 1;
    }
    out
}

const EAST: [f32; 2] = [1.0, 0.0];

vector_index_contract!(pgvector, {
    let bench = Bench::new().await;
    OverShared::new(bench.index, bench.fixture.stores.entries)
});

#[tokio::test]
async fn behind_a_pooler_in_transaction_mode_it_finds_and_leaves_no_setting_behind() {
    let direct = fresh_postgres().await;
    let (_, name) = direct.rsplit_once('/').expect("a database name");
    let pooled = at_database(&told("SIGNET_TEST_PGBOUNCER_URL"), name);
    let options = Options { direct_url: Some(direct.clone()), ..Options::new(pooled.clone(), "/nonexistent") };
    let stores = Stores::open(&options).expect("a good URL");
    stores.migrate().await.expect("the schema");
    stores.keys.tenant_key_or_insert(tenant(1), b"wrapped").await.expect("a key");
    let (index, entry) = (prepared(&options).await, entry(1, NOON));
    stores.entries.put(std::slice::from_ref(&entry)).await.expect("a write");
    let mut vector = vec![0.0; 256];
    vector[0] = 1.0;
    index.put(&[row(&entry, &vector)]).await.expect("a write");
    let searches = (0..20).map(|_| {
        let wanted = Nearest { place: PLACE, vector: vector.clone(), k: 8, floor: 0.5, now_ms: NOON };
        let index = index.clone();
        tokio::spawn(async move { index.nearest(wanted).await.expect("an answer").len() })
    });
    for search in searches.collect::<Vec<_>>() {
        assert_eq!(search.await.expect("no panic"), 1);
    }
    let mut next = PgConnection::connect(&pooled).await.expect("the pooler answers");
    let left = "SELECT current_setting('statement_timeout'), current_setting('hnsw.iterative_scan', true), \
                (SELECT count(*) FROM pg_prepared_statements)";
    let row = sqlx::raw_sql(left).fetch_one(&mut next).await.expect("good SQL");
    assert_eq!(row.get::<String, _>(0), "0");
    assert_ne!(row.get::<Option<String>, _>(1).as_deref(), Some("strict_order"));
    assert_eq!(row.get::<i64, _>(2), 0);
}

#[tokio::test]
async fn what_is_found_brings_its_question_and_its_entry_can_be_had() {
    let bench = Bench::new().await;
    let (entry, row) = bench.store(1, NOON, &EAST).await;
    let wanted = Nearest { place: PLACE, vector: EAST.to_vec(), k: 8, floor: 1.0, now_ms: NOON };
    let near = bench.index.nearest(wanted).await.expect("an answer");
    assert_eq!(near, [Near { key: row.key, similarity: 1.0, question: row.question }]);
    assert_eq!(bench.index.entry(&entry.key, NOON).await.expect("an answer"), Some(entry.sealed));
    assert_eq!(bench.index.entry(&entry.key, entry.expires_ms).await.expect("an answer"), None);
    assert_eq!(bench.index.entry(&CacheKey::from_bytes([99; 32]), NOON).await.expect("an answer"), None);
}

#[tokio::test]
async fn an_expired_row_is_not_found_and_takes_nobodys_place() {
    let bench = Bench::new().await;
    for n in 0..9 {
        bench.store(n, NOON - 60_000, &EAST).await;
    }
    let (alive, _) = bench.store(9, NOON, &[0.8, 0.6]).await;
    assert_eq!(bench.found(&EAST).await, [alive.key]);
    bench.fixture.stores.entries.sweep(NOON + 1).await.expect("a sweep");
    assert_eq!(bench.rows().await, 1, "swept with its entry");
}

#[tokio::test]
async fn a_replaced_entry_takes_its_row_along_even_if_the_new_one_has_none() {
    let bench = Bench::new().await;
    bench.store(1, NOON, &EAST).await;
    bench.store(2, NOON, &EAST).await;
    bench.fixture.stores.entries.put(&[entry(1, NOON + 1)]).await.expect("a write");
    assert_eq!(bench.found(&EAST).await, [CacheKey::from_bytes([2; 32])]);
    assert_eq!(bench.rows().await, 1);
}

#[tokio::test]
async fn a_row_of_an_entry_that_is_not_stored_is_left_out() {
    let bench = Bench::new().await;
    let (older, newer) = (entry(1, NOON), entry(1, NOON + 1));
    bench.fixture.stores.entries.put(std::slice::from_ref(&newer)).await.expect("a write");
    bench.index.put(&[row(&older, &EAST), row(&entry(2, NOON), &EAST)]).await.expect("a write");
    assert_eq!(bench.rows().await, 0);
    // In one batch the newest counts, in whatever order it comes.
    bench.index.put(&[row(&newer, &EAST), row(&older, &[0.0, 1.0])]).await.expect("a write");
    assert_eq!(bench.found(&EAST).await, [newer.key]);
}

#[tokio::test]
async fn entries_without_a_row_of_the_encoder_are_named() {
    let bench = Bench::new().await;
    let (known, row) = bench.store(1, NOON, &EAST).await;
    let other = CacheKey::from_bytes([2; 32]);
    assert_eq!(bench.index.missing(&[known.key, other], &row.encoder).await.expect("an answer"), [other]);
    let mut all = bench.index.missing(&[known.key, other], &[6; 32]).await.expect("an answer");
    all.sort_by_key(|key| *key.as_bytes());
    assert_eq!(all, [known.key, other]);
}

fn rules() -> [(Withdrawal, bool); 9] {
    let rule = || Withdrawal { stored_by_ms: NOON, ..Withdrawal::default() };
    let name = |name: &str| Some(name.to_owned());
    [
        (rule(), true),
        (Withdrawal { source: Some(LineageId::from_bytes([1; 16])), ..rule() }, true),
        (Withdrawal { source: Some(LineageId::from_bytes([9; 16])), ..rule() }, false),
        (Withdrawal { tenant: Some(tenant(1)), ..rule() }, true),
        (Withdrawal { tenant: Some(tenant(2)), ..rule() }, false),
        (Withdrawal { model: name("m"), namespace: name("n"), ..rule() }, true),
        (Withdrawal { model: name("m"), namespace: name("m"), ..rule() }, false),
        (Withdrawal { model: name("n"), ..rule() }, false),
        (Withdrawal { stored_by_ms: NOON - 1, ..rule() }, false),
    ]
}

#[tokio::test]
async fn a_row_leaves_with_the_notice_that_takes_its_entry_back() {
    for (rule, taken) in rules() {
        let bench = Bench::new().await;
        bench.store(1, NOON, &EAST).await;
        bench.fixture.stores.notices.post(&Notice::Withdraw(rule.clone()), NOON, NOON + 1).await.expect("a write");
        assert_eq!(bench.rows().await, i64::from(!taken), "{rule:?}");
        assert_eq!(bench.number("SELECT count(*) FROM cache_entry").await, 1, "the entry is evidence");
    }
}

#[tokio::test]
async fn a_row_that_comes_after_the_notice_is_left_out() {
    for (rule, taken) in rules() {
        let bench = Bench::new().await;
        bench.fixture.stores.notices.post(&Notice::Withdraw(rule.clone()), NOON, NOON + 1).await.expect("a write");
        bench.store(1, NOON, &EAST).await;
        assert_eq!(bench.rows().await, i64::from(!taken), "{rule:?}");
    }
}

#[tokio::test]
async fn rows_leave_with_the_key_of_their_tenant_and_none_comes_after() {
    let bench = Bench::new().await;
    bench.store(1, NOON, &EAST).await;
    bench.store(2, NOON, &EAST).await;
    bench.fixture.stores.keys.erase_tenant(tenant(1)).await.expect("a write");
    assert_eq!(bench.found(&EAST).await, [CacheKey::from_bytes([2; 32])]);
    bench.store(1, NOON + 1, &EAST).await;
    assert_eq!(bench.rows().await, 1, "a late row of the destroyed key");
    bench.fixture.stores.keys.tenant_key_or_insert(tenant(1), b"next").await.expect("a key");
    let (_, mut next) = bench.store(1, NOON + 2, &EAST).await;
    assert_eq!(bench.rows().await, 1, "a late row under the new key");
    next.epoch = 2;
    bench.index.put(&[next]).await.expect("a write");
    assert_eq!(bench.rows().await, 2);
}

#[tokio::test]
async fn writers_sweeps_notices_and_erasures_at_once_neither_deadlock_nor_leave_a_row() {
    let bench = Arc::new(Bench::new().await);
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..3_u64 {
        let bench = bench.clone();
        tasks.spawn(async move {
            for round in 0..10 {
                for n in 0..10 {
                    bench.store(n, NOON + round * 3 + writer, &EAST).await;
                }
            }
        });
    }
    let sweeper = bench.clone();
    tasks.spawn(async move {
        for n in 0..10 {
            sweeper.fixture.stores.entries.sweep(NOON + 60_000 + n).await.expect("a sweep");
            sweeper.fixture.stores.keys.erase_tenant(tenant(u8::try_from(n).unwrap_or(0))).await.expect("a write");
        }
        let all = Withdrawal { stored_by_ms: NOON + 1_000, ..Withdrawal::default() };
        sweeper.fixture.stores.notices.post(&Notice::Withdraw(all), NOON, NOON + 1).await.expect("a write");
    });
    while let Some(done) = tasks.join_next().await {
        done.expect("no fault");
    }
    assert_eq!(bench.rows().await, 0);
}

#[tokio::test]
async fn a_search_that_is_late_is_a_fault_within_its_budget_and_keeps_no_connection() {
    let bench = Bench::new().await;
    bench.store(1, NOON, &EAST).await;
    let options = Options { max_connections: 1, ..bench.fixture.options.clone() };
    let hasty = PgVectorIndex::open(&options, Duration::from_millis(200)).expect("a good URL");
    let mut rival = bench.conn().await;
    let mut rival = rival.begin().await.expect("a transaction");
    sqlx::raw_sql("LOCK semantic_vector").execute(&mut *rival).await.expect("a lock");
    let wanted = || Nearest { place: PLACE, vector: EAST.to_vec(), k: 8, floor: 0.5, now_ms: NOON };
    for _ in 0..4 {
        let found = hasty.nearest(wanted()).await;
        assert!(matches!(found, Err(StoreFault::Timeout(_) | StoreFault::Unavailable(_))), "{found:?}");
    }
    rival.rollback().await.expect("a rollback");
    loop {
        match hasty.nearest(wanted()).await {
            Ok(found) => break assert_eq!(found.len(), 1),
            Err(fault) => assert!(!matches!(fault, StoreFault::Corrupt(_)), "{fault}"),
        }
    }
}

#[tokio::test]
async fn a_server_that_is_away_is_asked_five_times_and_then_left_alone() {
    let options = Options::new("postgres://signet:x@127.0.0.1:1/none", "/nonexistent");
    let index = PgVectorIndex::open(&options, Duration::from_millis(100)).expect("a good URL");
    let mut refused = 0;
    for _ in 0..20 {
        let wanted = Nearest { place: PLACE, vector: EAST.to_vec(), k: 8, floor: 0.5, now_ms: NOON };
        let fault = index.nearest(wanted).await.expect_err("nobody is there");
        refused += u32::from(fault.to_string().contains("not asked"));
    }
    assert!((10..=15).contains(&refused), "{refused}");
    assert!(matches!(index.prepare().await, Err(UnusableIndex::Away(_))));
}

#[tokio::test]
async fn replicas_that_start_at_once_make_one_index() {
    let fixture = Fixture::postgres().await;
    let starts = (0..4).map(|_| {
        let options = fixture.options.clone();
        tokio::spawn(async move { prepared(&options).await })
    });
    for start in starts.collect::<Vec<_>>() {
        start.await.expect("no panic");
    }
}

/// A role without a right to make anything.
async fn guest(fixture: &Fixture) -> Options {
    let (_, database) = fixture.options.url.rsplit_once('/').expect("a database");
    let mut conn = PgConnection::connect(&fixture.options.url).await.expect("the test server answers");
    let make = format!("CREATE ROLE guest_{database} LOGIN PASSWORD 'x'");
    sqlx::raw_sql(AssertSqlSafe(make)).execute(&mut conn).await.expect("a role");
    let (_, address) = fixture.options.url.rsplit_once('@').expect("an address");
    Options::new(format!("postgres://guest_{database}:x@{address}"), "/nonexistent")
}

#[tokio::test]
async fn a_role_that_may_not_make_it_is_told_so_and_may_use_what_another_has_made() {
    let fixture = Fixture::postgres().await;
    let options = guest(&fixture).await;
    let index = PgVectorIndex::open(&options, PATIENT).expect("a good URL");
    let fault = index.prepare().await.expect_err("not permitted");
    assert!(matches!(fault, UnusableIndex::NotPermitted(_)), "{fault:?}");
    assert!(fault.to_string().contains("CREATE EXTENSION vector"), "{fault}");
    prepared(&fixture.options).await;
    index.prepare().await.expect("it is there");
}

#[tokio::test]
async fn an_extension_that_is_too_old_is_told_so() {
    let fixture = Fixture::postgres().await;
    fixture.execute("CREATE EXTENSION vector").await;
    // As a server says it where the extension was never updated.
    fixture.execute("UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'").await;
    let index = PgVectorIndex::open(&fixture.options, PATIENT).expect("a good URL");
    let fault = index.prepare().await.expect_err("too old");
    assert!(matches!(&fault, UnusableIndex::Old(version) if version == "0.7.4"), "{fault:?}");
    assert!(fault.to_string().contains("ALTER EXTENSION vector UPDATE"), "{fault}");
}

/// 256 dimensions, the same on every run.
struct Noise(u64);

impl Noise {
    fn vector(&mut self) -> Vec<f32> {
        let mut next = || {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
        };
        unit(&(0..256).map(|_| next()).collect::<Vec<_>>())
    }

    /// A vector near another one.
    fn near(&mut self, base: &[f32]) -> Vec<f32> {
        let noise = self.vector();
        unit(&base.iter().zip(&noise).map(|(base, noise)| base + 0.45 * noise).collect::<Vec<_>>())
    }
}

fn unit(vector: &[f32]) -> Vec<f32> {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.iter().map(|x| x / length).collect()
}

fn numbered(n: u32, place: [u8; 32], vector: &[f32]) -> (EntryRow, VectorRow) {
    let mut entry = entry(1, NOON);
    let mut key = [0; 32];
    key[..4].copy_from_slice(&n.to_be_bytes());
    entry.key = CacheKey::from_bytes(key);
    let row = VectorRow { place, ..row(&entry, vector) };
    (entry, row)
}

/// Loads rows without the approximate index and makes it afterwards, which is much faster.
async fn load(bench: &Bench, rows: Vec<(EntryRow, VectorRow)>) {
    let (entries, rows): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
    bench.fixture.execute("DROP INDEX semantic_vector_near").await;
    bench.fixture.execute("COMMENT ON TABLE semantic_vector IS NULL").await;
    bench.fixture.stores.entries.put(&entries).await.expect("a write");
    bench.index.put(&rows).await.expect("a write");
    bench.index.prepare().await.expect("an index");
    bench.fixture.execute("VACUUM ANALYZE semantic_vector").await;
}

#[tokio::test]
async fn a_small_place_is_scanned_exactly_and_a_large_one_is_searched_with_next_to_no_loss() {
    const LARGE: u32 = 12_000;
    const FLOOR: f32 = 0.75;
    let (bench, mut noise) = (Bench::new().await, Noise(1));
    let bases: Vec<_> = (0..LARGE / 4).map(|_| noise.vector()).collect();
    let mut rows: Vec<_> = (0..LARGE).map(|n| numbered(n, PLACE, &noise.near(&bases[n as usize / 4]))).collect();
    let small = |n: u32| [u8::try_from(n % 50).unwrap_or(0) + 100; 32];
    rows.extend((LARGE..LARGE + 1_000).map(|n| numbered(n, small(n), &noise.near(&bases[n as usize % 500]))));
    let held: Vec<_> = rows.iter().map(|(_, row)| row.clone()).collect();
    load(&bench, rows).await;
    let wanted = |place, vector: &[f32]| Nearest { place, vector: vector.to_vec(), k: 8, floor: FLOOR, now_ms: NOON };
    let plan = bench.index.plan(&wanted(small(7), &bases[7])).await.expect("a plan");
    assert!(plan.contains("semantic_vector_place") && !plan.contains("semantic_vector_near"), "{plan}");
    let plan = bench.index.plan(&wanted(PLACE, &bases[7])).await.expect("a plan");
    assert!(plan.contains("semantic_vector_near"), "{plan}");
    let (mut over, mut found) = (0, 0);
    for (n, base) in bases.iter().enumerate().step_by(30) {
        for place in [PLACE, small(u32::try_from(n).unwrap_or(0))] {
            let near = bench.index.nearest(wanted(place, base)).await.expect("an answer");
            let cosine = |row: &VectorRow| row.vector.iter().zip(base).map(|(a, b)| a * b).sum::<f32>();
            for row in held.iter().filter(|row| row.place == place && cosine(row) > FLOOR + 0.001) {
                over += 1;
                found += u32::from(near.iter().any(|near| near.key == row.key));
            }
        }
    }
    assert!(over > 300, "too few to tell: {over}");
    assert!(f64::from(found) >= 0.99 * f64::from(over), "{found} of {over}");
}
