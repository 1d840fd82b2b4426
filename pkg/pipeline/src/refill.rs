//! Brings into the shared index what it lacks of the durable entries: those stored before it was configured, or before the
//! encoder changed. Without it, either would begin with an empty index.

use signet_cache::{Cache, EntryRow, EntryStore, Keyring, Partition, SharedIndex, StoreFault, VectorRow};
use signet_types::Clock;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const PAGE: u32 = 500;
const RETRY: Duration = Duration::from_secs(1);

/// One pass over the durable entries. Replicas that do so at once write the same rows.
pub struct Refill {
    /// The durable entries.
    pub rows: Arc<dyn EntryStore>,
    /// The index beside them.
    pub index: Arc<dyn SharedIndex>,
    /// Opens entries and embeds questions.
    pub cache: Arc<Cache>,
    /// Hides and seals for the index.
    pub keys: Arc<Keyring>,
    /// Tells what has expired.
    pub clock: Arc<dyn Clock>,
}

impl Refill {
    /// Runs to the end of what is stored now; what cannot be read or written is tried again.
    pub async fn run(self, stop: CancellationToken) {
        let (mut cursor, mut added) = (0, 0);
        loop {
            match self.page(cursor).await {
                Ok((behind, rows)) => {
                    added += rows;
                    if behind == cursor {
                        tracing::info!(added, "the shared index holds the stored questions");
                        return;
                    }
                    cursor = behind;
                }
                Err(fault) => {
                    tracing::debug!(%fault, "the shared index was not refilled yet");
                    tokio::select! {
                        () = stop.cancelled() => return,
                        () = tokio::time::sleep(RETRY) => {}
                    }
                }
            }
            if stop.is_cancelled() {
                return;
            }
        }
    }

    /// The cursor behind a page, and how many rows were added of it.
    async fn page(&self, cursor: u64) -> Result<(u64, usize), StoreFault> {
        let (entries, behind) = self.rows.since(cursor, self.clock.now_ms(), PAGE).await?;
        let Some(layer) = self.cache.semantic() else { return Ok((cursor, 0)) };
        let keys: Vec<_> = entries.iter().map(|entry| entry.key).collect();
        let missing = self.index.missing(&keys, &layer.encoder_digest()).await?;
        let mut rows = Vec::new();
        for entry in entries.iter().filter(|entry| missing.contains(&entry.key)) {
            rows.extend(self.row(entry).await);
        }
        self.index.put(&rows).await?;
        Ok((behind, rows.len()))
    }

    /// None for an entry without a question, or one that cannot be read.
    async fn row(&self, stored: &EntryRow) -> Option<VectorRow> {
        let partition = Partition::from_row(stored.tenant, stored.partition);
        let layer = self.cache.semantic()?;
        let entry = self.cache.open(&partition, &stored.key, &stored.sealed).await?;
        let prepared = layer.prepare(&partition, entry.question.as_deref()?).await.ok()?;
        let keys = self.keys.current(stored.tenant).await;
        layer.findable(&prepared)?.row(&entry, &keys)
    }
}
