//! Filling the caches with a complete good answer, after its record is written.

use crate::pipeline::Pipeline;
use signet_cache::{CacheKey, Entry, Origin, Partition, Prepared, Source, TenantKeys};
use signet_dialect::Kept;
use signet_telemetry::Step;
use signet_types::EntryId;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Where an answer would be kept.
#[derive(Debug, Clone)]
pub(crate) struct Filling {
    pub(crate) partition: Partition,
    pub(crate) key: CacheKey,
    /// When the request came: an answer that is taken back while it is on its way must not be served either.
    pub(crate) asked_ms: u64,
    pub(crate) ttl: Duration,
    pub(crate) origin: Origin,
    /// The question, if the answer may serve rephrased ones too.
    pub(crate) question: Option<(String, Prepared)>,
}

impl Filling {
    pub(crate) fn ttl_ms(&self) -> u64 {
        u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX)
    }
}

impl Pipeline {
    /// Whether this would be stored; the answer's head says so before its record is written.
    pub(crate) fn will_keep(&self, filling: &Filling, body: Option<&Kept>) -> bool {
        let question = filling.question.as_ref().map(|(text, _)| text.as_str());
        let most = self.parts.cache.config().max_entry_bytes;
        body.is_some_and(|body| Entry::weight_of(body, question) <= most)
    }

    /// Keeps an answer in process and hands it over for Redis and the durable rows.
    pub(crate) fn fill(&self, keys: &Arc<TenantKeys>, filling: Filling, body: Kept, semantic: bool, source: Source) {
        // Sealing needs a key that every replica can get; without one nothing is cached for this tenant.
        if keys.unstored.is_some() {
            return;
        }
        let started = Instant::now();
        let created_ms = filling.asked_ms;
        let ttl_ms = filling.ttl_ms();
        let (question, prepared) = filling.question.filter(|_| semantic).unzip();
        let entry = Arc::new(Entry {
            id: EntryId::generate(created_ms),
            key: filling.key,
            partition: filling.partition,
            body,
            question,
            created_ms,
            expires_ms: created_ms.saturating_add(ttl_ms),
            source,
            origin: filling.origin,
        });
        if !self.parts.cache.takes(&entry) {
            return;
        }
        let layer = self.parts.cache.semantic();
        let findable = layer.zip(prepared.as_ref()).and_then(|(layer, prepared)| layer.findable(prepared));
        self.parts.cache.insert(entry.clone(), prepared);
        self.parts.outbox.send(&entry, self.parts.cache.kept_until(&entry), keys, findable);
        self.parts.metrics.step(Step::Store, started.elapsed());
    }
}
