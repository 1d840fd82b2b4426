//! Vectors in Postgres with pgvector: one index for all replicas.
//!
//! A search goes out as one message of the simple protocol. That is one round trip instead of five, one transaction, and so
//! it may pass a pooler in transaction mode; its settings end with it. All that is written into its text is made here of
//! digits and hexadecimal.

use super::{PgStore, unnamed};
use crate::fault::{Fault, to_array, to_i64};
use crate::open::{OpenError, Options};
use crate::postgres::setup;
use crate::transact::give_back;
use async_trait::async_trait;
use signet_cache::{Breaker, CacheKey, Near, Nearest, SharedIndex, StoreFault, VectorRow};
use sqlx::postgres::{PgConnection, PgPool, PgPoolOptions, PgRow};
use sqlx::{AssertSqlSafe, Row as _};
use std::fmt::Write as _;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

pub use setup::UnusableIndex;

/// For how long a search may hold its connection after its caller has left; the server has ended it long before.
const HOLD_LIMIT: Duration = Duration::from_secs(1);
/// Rows written per transaction: about a tenth of a second, for which a withdrawal may have to wait.
const ROWS_PER_PUT: usize = 25;
/// The dimensions for which there is an approximate index.
const INDEXED_DIMS: usize = 256;

// The iterative scan (pgvector 0.8) goes on behind rows of other places until it has enough; its bound keeps it within the
// lookup's budget where the planner took a small place for a large one.
const APPROXIMATE: &str = "SET LOCAL hnsw.iterative_scan = strict_order; SET LOCAL hnsw.ef_search = 100; SET LOCAL hnsw.max_scan_tuples = 4000; ";

// Shared with the writers of notices, who take it alone: either the row is there to be removed, or the notice to be seen.
const NO_NOTICE_NOW: &str = "SELECT pg_advisory_xact_lock_shared(7310029, 3)";
// As in ONE_WRITER's neighbours, rows are locked in the order of their keys, the entry before its vector. The key is held until
// the commit, so that it is destroyed either before, and the row is left out, or after, and the row is removed.
const PUT: &str = "\
INSERT INTO semantic_vector
    (key, entry, tenant, created_ms, expires_ms, source, model, namespace, encoder, place, question, dims,
     embedding)
SELECT t.key, t.entry, t.tenant, t.created_ms, t.expires_ms, t.source, t.model, t.namespace, t.encoder, t.place,
    t.question, vector_dims(t.embedding::halfvec), t.embedding::halfvec
FROM unnest($1::bytea[], $2::uuid[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bigint[], $7::uuid[], $8::bytea[],
    $9::bytea[], $10::bytea[], $11::bytea[], $12::bytea[], $13::text[])
    AS t (key, entry, tenant, epoch, created_ms, expires_ms, source, model, namespace, encoder, place, question, embedding)
JOIN cache_entry e ON e.key = t.key AND e.id = t.entry
JOIN tenant_key k ON k.tenant = t.tenant AND k.epoch = t.epoch AND length(k.wrapped) > 0
WHERE NOT EXISTS (
    SELECT FROM cache_notice n
    WHERE n.kind IN ('withdraw', 'erase') AND t.created_ms <= n.stored_by_ms
      AND (n.source IS NULL OR n.source = t.source)
      AND (n.tenant IS NULL OR n.tenant = t.tenant)
      AND (n.model IS NULL OR sha256(convert_to(n.model, 'UTF8')) = t.model)
      AND (n.namespace IS NULL OR sha256(convert_to(n.namespace, 'UTF8')) = t.namespace))
ORDER BY t.key
FOR KEY SHARE OF e FOR SHARE OF k
ON CONFLICT (key) DO UPDATE SET entry = excluded.entry, tenant = excluded.tenant, created_ms = excluded.created_ms,
    expires_ms = excluded.expires_ms, source = excluded.source, model = excluded.model, namespace = excluded.namespace,
    encoder = excluded.encoder, place = excluded.place, question = excluded.question, dims = excluded.dims, embedding = excluded.embedding";

const MISSING: &str = "\
SELECT t.key FROM unnest($1::bytea[]) AS t (key)
WHERE NOT EXISTS (SELECT FROM semantic_vector v WHERE v.key = t.key AND v.encoder = $2)";

/// An index in Postgres, with connections of its own: searches must not keep records waiting.
pub struct PgVectorIndex {
    store: PgStore,
    searches: PgPool,
    budget: Duration,
    breaker: Breaker,
    /// Where connections live and work goes on when a caller leaves.
    runtime: Handle,
}

impl std::fmt::Debug for PgVectorIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PgVectorIndex").field("budget", &self.budget).finish_non_exhaustive()
    }
}

impl PgVectorIndex {
    /// Opens without connecting; `budget` is what a lookup may take. Needs a running tokio runtime and stays with it.
    ///
    /// # Errors
    /// A URL that cannot be read, or is not of Postgres.
    pub fn open(options: &Options, budget: Duration) -> Result<Self, OpenError> {
        let store = PgStore::open(&Options { max_connections: 1, ..options.clone() })?;
        let searches = PgPoolOptions::new()
            .max_connections(options.max_connections.max(1))
            .acquire_timeout(budget)
            // A dead connection costs one search; a ping before each would cost every search a round trip.
            .test_before_acquire(false)
            .connect_lazy_with(store.connects_with());
        Ok(Self { store, searches, budget, breaker: Breaker::default(), runtime: Handle::current() })
    }

    /// Makes the extension and the table, if they are not there; the schema of the stores must be. Safe while other replicas do
    /// the same. The caller retries what is [`UnusableIndex::Away`].
    ///
    /// # Errors
    /// What stands in the way, and what the operator can do about it.
    pub async fn prepare(&self) -> Result<(), UnusableIndex> {
        setup::run(self.store.migrates_with()).await
    }

    /// How the server would go about a search, as EXPLAIN says it.
    ///
    /// # Errors
    /// As for a search.
    pub async fn plan(&self, wanted: &Nearest) -> Result<String, StoreFault> {
        let rows = self.ask(nearest_sql(wanted, "EXPLAIN ")).await?;
        let lines = rows.iter().map(|row| row.try_get::<String, _>(0)).collect::<Result<Vec<_>, _>>();
        Ok(lines.map_err(Fault::from)?.join("\n"))
    }

    /// Ends all connections; operations after it fail.
    pub async fn close(&self) {
        self.searches.close().await;
        self.store.end().await;
    }

    /// One message under the breaker and the budget.
    async fn ask(&self, sql: String) -> Result<Vec<PgRow>, StoreFault> {
        if !self.breaker.admits(Instant::now()) {
            return Err(StoreFault::Unavailable("not asked: the index failed repeatedly".to_owned()));
        }
        let (tell, told) = oneshot::channel();
        self.runtime.spawn(search(self.searches.clone(), sql, tell));
        let done = match timeout(self.budget, told).await {
            Ok(Ok(done)) => done.map_err(StoreFault::from),
            Ok(Err(_)) => Err(StoreFault::Unavailable("the search ended early".to_owned())),
            Err(_) => Err(StoreFault::Timeout(self.budget)),
        };
        match &done {
            Ok(_) => self.breaker.succeeded(),
            Err(_) => self.breaker.failed(Instant::now()),
        }
        done
    }

    /// The statement's own limit, so that a search nobody waits for ends.
    fn limit(&self) -> String {
        format!("SET LOCAL statement_timeout = {}; ", self.budget.as_millis().max(1))
    }
}

/// A search in a task of its own: its caller may leave at any moment, its connection must not stop half-way.
async fn search(pool: PgPool, sql: String, tell: oneshot::Sender<Result<Vec<PgRow>, Fault>>) {
    let mut conn = match pool.acquire().await {
        Ok(conn) => conn,
        Err(error) => return drop(tell.send(Err(Fault::NoConnection(error.to_string())))),
    };
    let done = timeout(HOLD_LIMIT, sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(&mut *conn)).await;
    let done = done.map_err(|_| Fault::Late(HOLD_LIMIT)).and_then(|rows| Ok(rows?));
    let broken = done.as_ref().is_err_and(Fault::breaks_connection);
    let _gone = tell.send(done);
    if broken { drop(conn.detach()) } else { give_back(conn).await }
}

#[async_trait]
impl SharedIndex for PgVectorIndex {
    async fn put(&self, rows: &[VectorRow]) -> Result<(), StoreFault> {
        for chunk in newest_per_key(rows).chunks(ROWS_PER_PUT) {
            let chunk = chunk.to_vec();
            self.store.transact(move |conn| Box::pin(async move { put(conn, &chunk).await })).await?;
        }
        Ok(())
    }

    async fn missing(&self, keys: &[CacheKey], encoder: &[u8; 32]) -> Result<Vec<CacheKey>, StoreFault> {
        let (keys, encoder): (Vec<_>, _) = (keys.iter().map(|key| key.as_bytes().to_vec()).collect(), encoder.to_vec());
        let work = self.store.transact(move |conn| {
            Box::pin(async move {
                let rows = unnamed(MISSING).bind(keys).bind(encoder).fetch_all(conn).await?;
                let key = |row: &PgRow| Ok::<_, Fault>(CacheKey::from_bytes(to_array("key", row.try_get(0)?)?));
                rows.iter().map(key).collect::<Result<Vec<_>, _>>()
            })
        });
        Ok(work.await?)
    }

    async fn nearest(&self, wanted: Nearest) -> Result<Vec<Near>, StoreFault> {
        let sql = self.limit() + &nearest_sql(&wanted, "");
        let rows = self.ask(sql).await?;
        let near = rows.iter().map(to_near).collect::<Result<Vec<_>, _>>()?;
        Ok(near.into_iter().filter(|near| near.similarity >= wanted.floor).collect())
    }

    async fn entry(&self, key: &CacheKey, now_ms: u64) -> Result<Option<Vec<u8>>, StoreFault> {
        let mut sql = self.limit();
        write!(sql, "SELECT sealed FROM cache_entry WHERE key = {} AND expires_ms > {now_ms}", bytes(key.as_bytes()))
            .expect("writing to a String cannot fail");
        let rows = self.ask(sql).await?;
        Ok(rows.first().map(|row| row.try_get(0)).transpose().map_err(Fault::from)?)
    }
}

fn nearest_sql(wanted: &Nearest, how: &str) -> String {
    let dims = wanted.vector.len();
    let (settings, column, also) = if dims == INDEXED_DIMS {
        (APPROXIMATE, format!("embedding::halfvec({dims})"), format!("AND dims = {dims}"))
    } else {
        ("", "embedding".to_owned(), String::new())
    };
    format!(
        "{settings}{how}SELECT key, question, {column} <=> '{}'::halfvec({dims}) AS distance FROM semantic_vector \
         WHERE place = {} {also} AND expires_ms > {} ORDER BY distance LIMIT {}",
        text(&wanted.vector),
        bytes(&wanted.place),
        wanted.now_ms,
        wanted.k
    )
}

/// `key, question, distance`.
fn to_near(row: &PgRow) -> Result<Near, Fault> {
    let (key, question, distance): (Vec<u8>, Vec<u8>, f64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    if distance.is_nan() {
        return Err(Fault::Corrupt("a distance is not a number".to_owned()));
    }
    // To a millionth: the distance of a vector to itself may be off zero by a rounding.
    #[expect(clippy::cast_possible_truncation, reason = "in [-1, 1]")]
    let similarity = (((1.0 - distance) * 1e6).round() / 1e6).clamp(-1.0, 1.0) as f32;
    Ok(Near { key: CacheKey::from_bytes(to_array("key", &key)?), similarity, question })
}

async fn put(conn: &mut PgConnection, rows: &[VectorRow]) -> Result<(), Fault> {
    unnamed(NO_NOTICE_NOW).execute(&mut *conn).await?;
    let created = rows.iter().map(|row| to_i64(row.created_ms)).collect::<Result<Vec<_>, _>>()?;
    let expires = rows.iter().map(|row| to_i64(row.expires_ms)).collect::<Result<Vec<_>, _>>()?;
    unnamed(PUT)
        .bind(rows.iter().map(|row| row.key.as_bytes().as_slice()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.id.as_uuid()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.tenant.as_bytes().as_slice()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| i64::from(row.epoch)).collect::<Vec<_>>())
        .bind(created)
        .bind(expires)
        .bind(rows.iter().map(|row| row.source.as_uuid()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.model.as_slice()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.namespace.as_slice()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.encoder.as_slice()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.place.as_slice()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.question.as_slice()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| text(&row.vector)).collect::<Vec<_>>())
        .execute(conn)
        .await?;
    Ok(())
}

/// The newest row of each key, the later of equally old ones, in the order of the keys.
fn newest_per_key(rows: &[VectorRow]) -> Vec<VectorRow> {
    let mut rows = rows.to_vec();
    rows.reverse();
    rows.sort_by_key(|row| (*row.key.as_bytes(), std::cmp::Reverse(row.created_ms)));
    rows.dedup_by_key(|row| row.key);
    rows
}

/// A vector as pgvector reads it.
fn text(vector: &[f32]) -> String {
    let mut text = String::with_capacity(2 + 12 * vector.len());
    for (at, value) in vector.iter().enumerate() {
        write!(text, "{}{value}", if at == 0 { '[' } else { ',' }).expect("writing to a String cannot fail");
    }
    text.push(']');
    text
}

/// Bytes as a literal.
fn bytes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(12 + 2 * bytes.len());
    text.push_str("'\\x");
    for byte in bytes {
        write!(text, "{byte:02x}").expect("writing to a String cannot fail");
    }
    text.push_str("'::bytea");
    text
}
