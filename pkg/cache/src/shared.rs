//! Semantic search in an index that the fleet shares: vectors leave the process hidden, questions sealed, and what comes back
//! is judged by the same gates as a question held here.

use crate::entry::Entry;
use crate::key::CacheKey;
use crate::keyring::{Keyring, TenantKeys};
use crate::ports::{Near, Nearest, Place, SharedIndex, VectorRow};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What makes a stored question findable by its meaning.
#[derive(Debug, Clone)]
pub struct Findable {
    pub(crate) place: Place,
    pub(crate) vector: Arc<[f32]>,
    pub(crate) encoder: Arc<str>,
}

impl Findable {
    /// A vector of `encoder` in `place`.
    pub const fn new(place: Place, vector: Arc<[f32]>, encoder: Arc<str>) -> Self {
        Self { place, vector, encoder }
    }

    /// The row that stands for `entry` in a shared index; none for an entry without a question, or a vector without a
    /// direction.
    pub fn row(&self, entry: &Entry, keys: &TenantKeys) -> Option<VectorRow> {
        let question = entry.question.as_deref()?;
        Some(VectorRow {
            key: entry.key,
            id: entry.id,
            tenant: entry.partition.tenant(),
            epoch: keys.epoch,
            created_ms: entry.created_ms,
            expires_ms: entry.expires_ms,
            source: entry.source.id,
            model: name_digest(&entry.origin.model),
            namespace: name_digest(&entry.origin.namespace),
            encoder: name_digest(&self.encoder),
            place: keys.hide.place(&self.place, &self.encoder, self.vector.len()),
            question: keys.seal.seal_question(&entry.partition, &entry.key, question),
            vector: keys.hide.vector(&self.encoder, &self.vector)?,
        })
    }
}

/// SHA-256 of a name, by which a withdrawal finds rows without the name being in them.
pub(crate) fn name_digest(name: &str) -> [u8; 32] {
    Sha256::digest(name.as_bytes()).into()
}

/// A question that the shared index found.
pub(crate) struct Candidate {
    pub(crate) key: CacheKey,
    pub(crate) similarity: f32,
    pub(crate) question: String,
}

/// The search, with the keys that it takes.
pub struct SharedSearch {
    index: Arc<dyn SharedIndex>,
    keys: Arc<Keyring>,
    failed: AtomicU64,
    unreadable: AtomicU64,
}

impl SharedSearch {
    /// A search in `index` with the keys of `keys`.
    pub fn new(index: Arc<dyn SharedIndex>, keys: Arc<Keyring>) -> Self {
        Self { index, keys, failed: AtomicU64::default(), unreadable: AtomicU64::default() }
    }

    /// Searches that failed, were late, or were not made because the index failed repeatedly.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Rows that did not open.
    pub fn unreadable(&self) -> u64 {
        self.unreadable.load(Ordering::Relaxed)
    }

    /// At most `k` questions of a place at or over `floor`, most similar first.
    pub(crate) async fn nearest(&self, asked: &Findable, k: usize, floor: f32, now_ms: u64) -> Vec<Candidate> {
        let partition = &asked.place.partition;
        let keys = self.keys.current(partition.tenant()).await;
        let image = keys.hide.vector(&asked.encoder, &asked.vector);
        // A key that could not be stored has hidden nothing that could be found.
        let Some(vector) = image.filter(|_| keys.unstored.is_none()) else { return Vec::new() };
        let place = keys.hide.place(&asked.place, &asked.encoder, vector.len());
        let near = match self.index.nearest(Nearest { place, vector, k, floor, now_ms }).await {
            Ok(near) => near,
            Err(fault) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(%fault, "the shared index did not answer");
                return Vec::new();
            }
        };
        let open = |Near { key, similarity, question }: Near| {
            let question = keys.seal.open_question(partition, &key, &question);
            let question = question.inspect_err(|_| self.note_unreadable()).ok()?;
            Some(Candidate { key, similarity, question })
        };
        near.into_iter().filter_map(open).collect()
    }

    fn note_unreadable(&self) {
        self.unreadable.fetch_add(1, Ordering::Relaxed);
    }

    /// The sealed entry under `key`, as the store holds it.
    pub(crate) async fn sealed(&self, key: &CacheKey, now_ms: u64) -> Option<Vec<u8>> {
        match self.index.entry(key, now_ms).await {
            Ok(sealed) => sealed,
            Err(fault) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(%fault, "a stored entry was not read");
                None
            }
        }
    }
}
