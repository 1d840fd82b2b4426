//! Search in Postgres beside search in process: latency, recall, the rate of inserts.
//!
//! `pgvector_figures URL [ROWS]` on an empty database: ROWS questions (100000) of the embedded encoder in one place after
//! 1,000 and 10,000 of them, then as many as 10,000 over 1,000 places.

#![expect(clippy::print_stdout, reason = "figures are for people")]

use signet_cache::{
    CacheKey, Embedder, EntryRow, HideKey, Near, Nearest, Partition, Place, SharedIndex, VectorIndex, VectorRow,
};
use signet_store::{Options, PgVectorIndex, Stores};
use signet_types::{EntryId, LineageId, TenantId};
use signet_vector::{FlatIndex, StaticEncoder};
use sqlx::{Connection, PgConnection};
use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error>>;

const NOW: u64 = 1_800_000_000_000;
const SEARCHES: usize = 300;
const K: usize = 8;
const FLOOR: f32 = 0.9;
const TENANT: TenantId = TenantId::from_bytes([1; 16]);

const VERBS: [&str; 25] = [
    "clean", "repair", "paint", "store", "carry", "measure", "build", "sell", "insure", "lift", "polish", "test",
    "replace", "label", "pack", "dry", "sharpen", "wire", "tune", "glue", "fold", "weigh", "hang", "seal", "ship",
];
const THINGS: [&str; 40] = [
    "bicycle", "kettle", "violin", "carpet", "boiler", "lantern", "saddle", "camera", "ladder", "teapot", "canoe",
    "printer", "sofa", "mirror", "clock", "tractor", "piano", "tent", "drone", "helmet", "statue", "freezer", "harp",
    "compass", "curtain", "bucket", "engine", "guitar", "basket", "anchor", "shovel", "blanket", "turbine", "easel",
    "cradle", "barrel", "scooter", "chimney", "wardrobe", "kayak",
];
const WHERES: [&str; 20] = [
    "garage", "cellar", "museum", "workshop", "garden", "harbour", "attic", "school", "factory", "hospital", "barn",
    "hotel", "library", "theatre", "desert", "forest", "kitchen", "station", "stable", "chapel",
];
const HOWS: [&str; 5] = ["safely", "cheaply", "quickly", "in winter", "without help"];

fn question(n: usize) -> String {
    let (verb, rest) = (VERBS[n % 25], n / 25);
    let (thing, rest) = (THINGS[rest % 40], rest / 40);
    let (place, how) = (WHERES[rest % 20], HOWS[rest / 20 % 5]);
    format!("How do I {verb} a {thing} in a {place} {how}?")
}

/// As a caller would put a stored question otherwise.
fn rephrased(n: usize) -> String {
    question(n).replace("How do I", "What is the best way to")
}

struct Bench {
    stores: Stores,
    index: PgVectorIndex,
    flat: FlatIndex,
    encoder: StaticEncoder,
    hide: HideKey,
    /// Of each key its entry's id, which the index in memory knows.
    ids: HashMap<CacheKey, EntryId>,
    rows: usize,
}

fn place(bucket: u64) -> Place {
    Place { partition: Partition::from_row(TENANT, [3; 32]), bucket }
}

impl Bench {
    async fn vector(&self, text: &str) -> Outcome<Arc<[f32]>> {
        Ok(self.encoder.embed(text).await?)
    }

    /// Stores the questions up to `until`, each in the place that `bucket` says.
    async fn fill(&mut self, until: usize, bucket: impl Fn(usize) -> u64) -> Outcome<Duration> {
        let mut spent = Duration::ZERO;
        while self.rows < until {
            let to = until.min(self.rows + 1_000);
            let (mut entries, mut rows) = (Vec::new(), Vec::new());
            for n in self.rows..to {
                let text = question(n % 100_000);
                let (vector, at) = (self.vector(&text).await?, place(bucket(n)));
                let key = CacheKey::derive(&at.partition, &n.to_be_bytes());
                let id = EntryId::generate(NOW);
                self.flat.insert(&at, id, &vector);
                self.ids.insert(key, id);
                let partition = *at.partition.as_bytes();
                let (created_ms, expires_ms, sealed) = (NOW, NOW + 60_000, vec![0; 600]);
                entries.push(EntryRow { id, key, partition, tenant: TENANT, created_ms, expires_ms, sealed });
                rows.push(VectorRow {
                    key,
                    id,
                    tenant: TENANT,
                    epoch: 1,
                    created_ms,
                    expires_ms,
                    source: LineageId::generate(NOW),
                    model: [0; 32],
                    namespace: [0; 32],
                    encoder: [0; 32],
                    place: self.hide.place(&at, "figures", vector.len()),
                    question: vec![0; 33 + text.len()],
                    vector: self.hide.vector("figures", &vector).ok_or("no direction")?,
                });
            }
            self.stores.entries.put(&entries).await?;
            let started = Instant::now();
            self.index.put(&rows).await?;
            spent += started.elapsed();
            self.rows = to;
        }
        Ok(spent)
    }

    fn asked(&self, at: &Place, vector: &[f32]) -> Option<Nearest> {
        let (place, vector) = (self.hide.place(at, "figures", vector.len()), self.hide.vector("figures", vector)?);
        Some(Nearest { place, vector, k: K, floor: FLOOR, now_ms: NOW })
    }

    async fn measure(&self, name: &str, places: u64, url: &str) -> Outcome<()> {
        let mut conn = PgConnection::connect(url).await?;
        sqlx::raw_sql("VACUUM ANALYZE semantic_vector").execute(&mut conn).await?;
        let (mut shared, mut local, mut recall) = (Vec::new(), Vec::new(), (0, 0));
        for search in 0..SEARCHES + 30 {
            // Spread over all that is stored.
            let n = search * 7_919 % self.rows;
            let (vector, at) = (self.vector(&rephrased(n % 100_000)).await?, place(n as u64 % places));
            let asked = self.asked(&at, &vector).ok_or("no direction")?;
            let started = Instant::now();
            let near = self.index.nearest(asked).await?;
            let took = started.elapsed();
            let started = Instant::now();
            let all = self.flat.nearest(&at, &vector, 4 * K, FLOOR);
            // The first ones fill the caches of the server.
            if search >= 30 {
                shared.push(took);
                local.push(started.elapsed());
                self.compare(&near, &all, &mut recall);
            }
        }
        shared.sort_unstable();
        local.sort_unstable();
        let at = |sorted: &[Duration], share: usize| sorted[sorted.len() * share / 100];
        let one = self.asked(&place(0), &self.vector(&question(0)).await?).ok_or("no direction")?;
        let plan = self.index.plan(&one).await?;
        let by = if plan.contains("semantic_vector_near") { "hnsw" } else { "exact" };
        let (found, wanted) = recall;
        println!(
            "{name:<28} {by:<6} pgvector p50 {:>9.1?} p99 {:>9.1?}   in memory p50 {:>8.1?} p99 {:>8.1?}   recall {found}/{wanted}",
            at(&shared, 50),
            at(&shared, 99),
            at(&local, 50),
            at(&local, 99)
        );
        Ok(())
    }

    /// Of the nearest in memory, those that Postgres found, or others as near within rounding.
    fn compare(&self, near: &[Near], all: &[signet_cache::Neighbour], recall: &mut (usize, usize)) {
        let ids: Vec<EntryId> = near.iter().map(|near| self.ids[&near.key]).collect();
        let last = near.last().map_or(1.0, |near| near.similarity);
        for neighbour in all.iter().take(K).filter(|neighbour| neighbour.similarity > FLOOR + 0.01) {
            let beaten = near.len() == K && last >= neighbour.similarity - 0.01;
            recall.0 += usize::from(beaten || ids.contains(&neighbour.id));
            recall.1 += 1;
        }
    }
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("a URL of an empty database")?;
    let most = arguments.next().map_or(Ok(100_000), |rows| rows.parse())?;
    let options = Options::new(&url, "");
    let stores = Stores::open(&options)?;
    stores.migrate().await?;
    let index = PgVectorIndex::open(&options, Duration::from_secs(30))?;
    index.prepare().await?;
    stores.keys.tenant_key_or_insert(TENANT, b"wrapped").await?;
    let (flat, encoder, hide) = (FlatIndex::new(1_000_000), StaticEncoder::embedded(), HideKey::derive(&[7; 32]));
    let mut bench = Bench { stores, index, flat, encoder, hide, ids: HashMap::new(), rows: 0 };
    for rows in [1_000, 10_000, most] {
        let before = bench.rows;
        let spent = bench.fill(rows, |_| 0).await?;
        println!("inserted {} rows at {:.0} a second", rows - before, (rows - before) as f64 / spent.as_secs_f64());
        bench.measure(&format!("{rows} rows in one place"), 1, &url).await?;
    }
    let mut conn = PgConnection::connect(&url).await?;
    sqlx::raw_sql("TRUNCATE semantic_vector").execute(&mut conn).await?;
    bench.rows = 0;
    bench.flat = FlatIndex::new(1_000_000);
    for rows in [1_000, 10_000] {
        bench.fill(rows, |n| n as u64 % 1_000).await?;
        bench.measure(&format!("{rows} rows in 1000 places"), 1_000, &url).await?;
    }
    Ok(())
}
