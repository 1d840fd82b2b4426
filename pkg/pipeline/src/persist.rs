//! Carries entries out of the process and in: a bounded queue towards Redis and the durable rows, and a tail of the rows
//! that other replicas (or an earlier life of this one) stored.
//!
//! The queue has a bound in items and in bytes. When it is full the entry is dropped and counted: it stays in process, and
//! losing its copies costs a miss elsewhere, never an answer.

use signet_cache::{
    Cache, Entry, EntryRow, EntryStore, ExactStore, Findable, Partition, SharedIndex, TenantKeys, VectorRow,
};
use signet_telemetry::Metrics;
use signet_types::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

const QUEUE_ITEMS: usize = 8_192;
const QUEUE_BYTES: u64 = 64 << 20;
const BATCH: usize = 1_000;
/// Before a batch that is not full: what comes right behind goes along. And whoever has just been answered may ask again at
/// once: its next request does not wait for a core behind what was kept of the last one.
const LINGER: Duration = Duration::from_millis(5);
/// Between batches that were not full: few large transactions cost less than many small ones.
const PAUSE: Duration = Duration::from_millis(50);
const PAGE: u32 = 1_000;
/// How far another replica's durable entry may be behind: well within the promised second.
const TAIL_EVERY: Duration = Duration::from_millis(250);
const SWEEP_EVERY: Duration = Duration::from_mins(1);
const RETRY: Duration = Duration::from_secs(1);

/// An entry on its way out, with the keys that seal it.
struct Outgoing {
    entry: Arc<Entry>,
    keys: Arc<TenantKeys>,
    findable: Option<Findable>,
    kept_until_ms: u64,
}

/// The sending end, held by the pipeline.
pub struct Outbox {
    queue: mpsc::Sender<Outgoing>,
    bytes: Arc<AtomicU64>,
    metrics: Arc<Metrics>,
}

/// The working end: runs on the services runtime.
pub struct Carrier {
    queue: mpsc::Receiver<Outgoing>,
    bytes: Arc<AtomicU64>,
    shared: Option<Arc<dyn ExactStore>>,
    rows: Option<Arc<dyn EntryStore>>,
    index: Option<Arc<dyn SharedIndex>>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
}

/// A queue and its carrier. `rows` is none where durable entries are switched off, `index` where vectors stay in
/// process.
pub fn outbox(
    shared: Option<Arc<dyn ExactStore>>,
    rows: Option<Arc<dyn EntryStore>>,
    index: Option<Arc<dyn SharedIndex>>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
) -> (Outbox, Carrier) {
    let (sender, queue) = mpsc::channel(QUEUE_ITEMS);
    let bytes = Arc::new(AtomicU64::new(0));
    let outbox = Outbox { queue: sender, bytes: bytes.clone(), metrics: metrics.clone() };
    (outbox, Carrier { queue, bytes, shared, rows, index, clock, metrics })
}

impl Outbox {
    /// Hands over an entry that is kept until then, in milliseconds since the Unix epoch; dropped and counted where the
    /// queue is full.
    pub(crate) fn send(
        &self,
        entry: &Arc<Entry>,
        kept_until_ms: u64,
        keys: &Arc<TenantKeys>,
        findable: Option<Findable>,
    ) {
        let weight = entry.weight() as u64;
        // Counted before the carrier can see it and count it out again, or the sum would pass below zero for a moment.
        let queued = self.bytes.fetch_add(weight, Ordering::Relaxed);
        let out = || Outgoing { entry: entry.clone(), keys: keys.clone(), findable, kept_until_ms };
        if queued + weight > QUEUE_BYTES || self.queue.try_send(out()).is_err() {
            self.bytes.fetch_sub(weight, Ordering::Relaxed);
            self.metrics.dropped("entries", 1);
        }
    }
}

impl Carrier {
    /// Carries until every [`Outbox`] is gone and the queue is empty.
    pub async fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH);
        while self.queue.recv_many(&mut batch, BATCH).await > 0 {
            if batch.len() < BATCH && !self.queue.is_closed() {
                tokio::time::sleep(LINGER).await;
                batch.extend(std::iter::from_fn(|| self.queue.try_recv().ok()).take(BATCH - batch.len()));
            }
            let weight = batch.iter().map(|out| out.entry.weight() as u64).sum();
            let rows: Vec<_> = batch.iter().map(seal).collect();
            let vectors: Vec<_> = batch.iter().filter_map(Outgoing::vector).collect();
            batch.clear();
            self.store(&rows).await;
            self.index(&vectors).await;
            self.bytes.fetch_sub(weight, Ordering::Relaxed);
            // A closed queue is drained without pauses.
            if rows.len() < BATCH && !self.queue.is_closed() {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    async fn store(&self, rows: &[EntryRow]) {
        if let Some(shared) = &self.shared {
            let now_ms = self.clock.now_ms();
            let puts = rows.iter().filter(|row| row.expires_ms > now_ms).map(|row| {
                let ttl = Duration::from_millis(row.expires_ms - now_ms);
                shared.put(&row.key, row.sealed.clone().into(), ttl)
            });
            let failed = futures_util::future::join_all(puts).await.iter().filter(|put| put.is_err()).count();
            if failed > 0 {
                self.metrics.dropped("redis", failed as u64);
            }
        }
        if let Some(store) = &self.rows
            && let Err(fault) = store.put(rows).await
        {
            tracing::warn!(%fault, rows = rows.len(), "cache entries were not stored durably");
            self.metrics.dropped("rows", rows.len() as u64);
        }
    }

    /// After [`Carrier::store`]: a vector lives and ends with its entry.
    async fn index(&self, vectors: &[VectorRow]) {
        let Some(index) = self.index.as_ref().filter(|_| !vectors.is_empty()) else { return };
        if let Err(fault) = index.put(vectors).await {
            tracing::warn!(%fault, rows = vectors.len(), "questions were not added to the shared index");
            self.metrics.dropped("vectors", vectors.len() as u64);
        }
    }
}

impl Outgoing {
    fn vector(&self) -> Option<VectorRow> {
        self.findable.as_ref()?.row(&self.entry, &self.keys)
    }
}

fn seal(out: &Outgoing) -> EntryRow {
    let entry = &out.entry;
    EntryRow {
        id: entry.id,
        key: entry.key,
        partition: *entry.partition.as_bytes(),
        tenant: entry.partition.tenant(),
        created_ms: entry.created_ms,
        expires_ms: out.kept_until_ms,
        sealed: out.keys.seal.seal(&entry.partition, &entry.key, entry.encode()),
    }
}

/// Follows the durable rows into the cache.
pub struct Tail {
    rows: Arc<dyn EntryStore>,
    cache: Arc<Cache>,
    clock: Arc<dyn Clock>,
    cursor: u64,
}

impl Tail {
    /// A tail from the first row on.
    pub fn new(rows: Arc<dyn EntryStore>, cache: Arc<Cache>, clock: Arc<dyn Clock>) -> Self {
        Self { rows, cache, clock, cursor: 0 }
    }

    /// Takes in the newest rows: what was asked last is most likely to be asked next.
    pub async fn warm(&self) {
        let now_ms = self.clock.now_ms();
        match self.rows.latest(now_ms, PAGE).await {
            Ok(rows) => {
                for row in rows {
                    self.adopt(row, now_ms).await;
                }
            }
            Err(fault) => tracing::debug!(%fault, "durable cache entries cannot be read"),
        }
    }

    /// Reads rows until none are left, a fault occurs or `budget` is used up; whether it reached the end.
    pub async fn catch_up(&mut self, budget: Duration) -> bool {
        let started = Instant::now();
        while started.elapsed() < budget {
            match self.page().await {
                Ok(true) => {}
                Ok(false) => return true,
                Err(()) => return false,
            }
        }
        false
    }

    /// Follows until told to stop; also removes expired rows once a minute.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut swept = Instant::now();
        let mut follows = true;
        loop {
            let wait = match follows {
                true if self.catch_up(Duration::from_secs(5)).await => {
                    follows = self.rows.is_shared();
                    TAIL_EVERY
                }
                true => RETRY,
                false => SWEEP_EVERY,
            };
            if swept.elapsed() > SWEEP_EVERY {
                swept = Instant::now();
                if let Err(fault) = self.rows.sweep(self.clock.now_ms()).await {
                    tracing::debug!(%fault, "expired entries were not removed");
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    async fn page(&mut self) -> Result<bool, ()> {
        let now_ms = self.clock.now_ms();
        let (rows, cursor) = self.rows.since(self.cursor, now_ms, PAGE).await.map_err(|fault| {
            tracing::debug!(%fault, "durable cache entries cannot be read");
        })?;
        let more = cursor > self.cursor;
        for row in rows {
            self.adopt(row, now_ms).await;
        }
        self.cursor = self.cursor.max(cursor);
        Ok(more)
    }

    async fn adopt(&self, row: EntryRow, now_ms: u64) {
        let partition = Partition::from_row(row.tenant, row.partition);
        if self.cache.holds(&row.key, row.id) {
            return;
        }
        if let Some(entry) = self.cache.open(&partition, &row.key, &row.sealed).await {
            self.cache.adopt(entry, now_ms).await;
        }
    }
}

#[cfg(test)]
#[path = "persist_tests.rs"]
mod tests;
