//! What the cache needs from the outside. A fault behind any of these is a miss and a metric, never a failed request.

use crate::key::{CacheKey, Partition};
use crate::trust::{LabelRow, Mark, RouteId};
use crate::withdrawal::Withdrawal;
use async_trait::async_trait;
use bytes::Bytes;
use signet_types::{EntryId, LineageId, TenantId};
use std::sync::Arc;
use std::time::Duration;

/// A store could not do what was asked. The text is for the log, never for a caller.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreFault {
    /// No answer within the time allowed.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// Not reachable, or refused; trying again later may help.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// It answered with something that cannot be right.
    #[error("unexpected answer: {0}")]
    Corrupt(String),
}

/// A shared exact layer behind the in-process one (Redis). Values are sealed before they get here.
#[async_trait]
pub trait ExactStore: Send + Sync + 'static {
    /// The value under `key`, or none. Must answer within the adapter's own lookup budget.
    async fn get(&self, key: &CacheKey) -> Result<Option<Bytes>, StoreFault>;
    /// The values under `keys`, in their order, within the same budget as one of them.
    async fn get_many(&self, keys: &[CacheKey]) -> Result<Vec<Option<Bytes>>, StoreFault> {
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            found.push(self.get(key).await?);
        }
        Ok(found)
    }
    /// Stores `value` for `ttl`, which is never zero and always ends.
    async fn put(&self, key: &CacheKey, value: Bytes, ttl: Duration) -> Result<(), StoreFault>;
    /// Removes the value, if there is one.
    async fn remove(&self, key: &CacheKey) -> Result<(), StoreFault>;
}

/// One durable cache entry. `sealed` is opaque to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryRow {
    /// The entry's id, unique.
    pub id: EntryId,
    /// Its exact key; of several rows under one key the newest counts.
    pub key: CacheKey,
    /// Its partition's 32 bytes.
    pub partition: [u8; 32],
    /// Whose it is.
    pub tenant: TenantId,
    /// Milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// Milliseconds since the Unix epoch; a row past it is never served.
    pub expires_ms: u64,
    /// The entry, sealed with the tenant's key.
    pub sealed: Vec<u8>,
}

/// Durable entries: they warm a restart and carry semantic entries to other replicas.
#[async_trait]
pub trait EntryStore: Send + Sync + 'static {
    /// Inserts rows. A row of an equal `key` may be replaced, if the new one is not older, or kept beside it.
    async fn put(&self, rows: &[EntryRow]) -> Result<(), StoreFault>;
    /// Rows that appeared after `cursor`, in the order of their appearance, at most `limit`, and the cursor behind them.
    /// A row may be returned twice, and superseded rows may be among them; none is ever skipped. The first cursor is 0.
    /// Expired rows are left out.
    async fn since(&self, cursor: u64, now_ms: u64, limit: u32) -> Result<(Vec<EntryRow>, u64), StoreFault>;
    /// The rows that appeared last, newest first, at most `limit`; expired ones are left out.
    async fn latest(&self, now_ms: u64, limit: u32) -> Result<Vec<EntryRow>, StoreFault>;
    /// Whether other processes insert rows too. Where none does, what this one has read stays all there is.
    fn is_shared(&self) -> bool {
        true
    }
    /// Removes rows that expired before `now_ms`; how many.
    async fn sweep(&self, now_ms: u64) -> Result<u64, StoreFault>;
}

/// Something that every replica must know within a second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Stored answers are taken back.
    Withdraw(Withdrawal),
    /// A tenant's keys were destroyed: nothing stored for it up to this moment (milliseconds since the Unix epoch) can be
    /// read, and what is held in the clear goes.
    Erase {
        /// The tenant.
        tenant: TenantId,
        /// The moment.
        stored_by_ms: u64,
    },
    /// Semantic answers are switched off or on; the newest one counts.
    Semantic {
        /// Whether they are off.
        off: bool,
    },
}

/// Notices from one replica to all, in the order of their numbers.
#[async_trait]
pub trait NoticeStore: Send + Sync + 'static {
    /// Posts a notice that has lost its meaning after `until_ms`, and removes those that had before `now_ms`. Both in
    /// milliseconds since the Unix epoch.
    async fn post(&self, notice: &Notice, now_ms: u64, until_ms: u64) -> Result<(), StoreFault>;
    /// Notices behind `cursor`, and the cursor behind them; none is ever skipped. The first cursor is 0. Those that lost
    /// their meaning before `now_ms` are left out.
    async fn notices(&self, cursor: u64, now_ms: u64) -> Result<(Vec<Notice>, u64), StoreFault>;
}

/// Labelled decisions of all replicas, in the order of their appearance.
#[async_trait]
pub trait LabelStore: Send + Sync + 'static {
    /// Adds rows; a second row of the same [`LabelRow::of`] is left out.
    async fn add(&self, rows: &[LabelRow]) -> Result<(), StoreFault>;
    /// Rows behind `cursor` in their order with their numbers, at most `limit`, and the cursor behind them; none is ever
    /// skipped. The first cursor is 0.
    async fn labels(&self, cursor: u64, limit: u32) -> Result<(Vec<(u64, LabelRow)>, u64), StoreFault>;
    /// Writes down what a route's ledger knew at a finding, unless a later mark is held. Of the rows that are in the mark,
    /// what is before the last reset goes, and of the others all but the newest `keep` samples and `keep` complaints.
    async fn mark(&self, route: &RouteId, mark: &Mark, keep: u32) -> Result<(), StoreFault>;
    /// What was last written down of each route.
    async fn marks(&self) -> Result<Vec<(RouteId, Mark)>, StoreFault>;
}

/// Where the tenant secret and the wrapped tenant keys live. Both are compare-and-insert: the first writer wins, and
/// every caller gets the winner's value.
#[async_trait]
pub trait KeyStore: Send + Sync + 'static {
    /// The deployment's secret, or `candidate` made so if there was none.
    async fn secret_or_insert(&self, candidate: [u8; 32]) -> Result<[u8; 32], StoreFault>;
    /// The wrapped key of a tenant's newest epoch, or `wrapped` as epoch 1 if there was none.
    async fn tenant_key_or_insert(&self, tenant: TenantId, wrapped: &[u8]) -> Result<(u32, Vec<u8>), StoreFault>;
    /// The wrapped key of one epoch; none if there is none any more.
    async fn tenant_key(&self, tenant: TenantId, epoch: u32) -> Result<Option<Vec<u8>>, StoreFault>;
    /// Destroys the tenant's keys of all epochs; how many there were. Their epochs are never used again.
    async fn erase_tenant(&self, tenant: TenantId) -> Result<u64, StoreFault>;
}

/// An encoder failed; the lookup is a miss.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the encoder failed: {0}")]
pub struct EmbedFault(pub String);

/// Turns text into a vector of unit length.
#[async_trait]
pub trait Embedder: Send + Sync + 'static {
    /// Identifies weights, tokeniser and dimensions. An index in memory holds the vectors of one encoder; in a shared one the
    /// id is part of a place's name.
    fn id(&self) -> &str;
    /// The vector of `text`, L2-normalised.
    async fn embed(&self, text: &str) -> Result<Arc<[f32]>, EmbedFault>;
}

/// A second look at candidates, slower and better than the first: similarities of whole texts.
#[async_trait]
pub trait Rescorer: Send + Sync + 'static {
    /// Identifies weights and tokeniser; part of the encoder's identity.
    fn id(&self) -> &str;
    /// The cosine similarity of `asked` with each stored question, in their order. It keeps a deadline of its own: being late
    /// is a fault as any other. What it makes of stored questions it may keep, under their ids, until [`Rescorer::forget`].
    async fn rescore(&self, asked: &Arc<str>, stored: &[(EntryId, Arc<str>)]) -> Result<Vec<f32>, EmbedFault>;
    /// A stored question is gone.
    fn forget(&self, id: EntryId);
}

/// Where a vector lies: neighbours are searched inside one place only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// The hard partition.
    pub partition: Partition,
    /// Digest of what the equality gates compare (numbers, ids, quotes, wanted form): only equal buckets can pass them,
    /// so only those are scanned.
    pub bucket: u64,
}

/// A neighbour and its cosine similarity, in `[-1, 1]`, never NaN.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbour {
    /// The entry.
    pub id: EntryId,
    /// Cosine similarity.
    pub similarity: f32,
}

/// Vector search, in process or in a store that several replicas share. A search that fails finds nothing, which is a miss.
#[async_trait]
pub trait VectorIndex: Send + Sync + 'static {
    /// Adds or replaces a vector.
    fn insert(&self, place: &Place, id: EntryId, vector: &[f32]);
    /// At most `k` neighbours at or over `floor`, most similar first.
    async fn nearest(&self, place: &Place, vector: &[f32], k: usize, floor: f32) -> Vec<Neighbour>;
    /// Removes a vector, if it is there.
    fn remove(&self, place: &Place, id: EntryId);
    /// Number of vectors held.
    fn len(&self) -> usize;
    /// Whether it holds none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A question in a shared index. What it says is sealed and its vector is hidden before it gets there.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorRow {
    /// The exact key of the entry, which decides its text; a later row of the same key replaces an earlier one.
    pub key: CacheKey,
    /// The entry.
    pub id: EntryId,
    /// Whose it is.
    pub tenant: TenantId,
    /// The epoch of the tenant's key.
    pub epoch: u32,
    /// Milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// Milliseconds since the Unix epoch; not found from this moment on.
    pub expires_ms: u64,
    /// The record that filled the entry.
    pub source: LineageId,
    /// SHA-256 of the model's name, as it was asked for.
    pub model: [u8; 32],
    /// SHA-256 of the namespace.
    pub namespace: [u8; 32],
    /// SHA-256 of the encoder's id.
    pub encoder: [u8; 32],
    /// The hidden name of partition, bucket, encoder and dimensions.
    pub place: [u8; 32],
    /// The question, sealed.
    pub question: Vec<u8>,
    /// The hidden vector, of unit length.
    pub vector: Vec<f32>,
}

/// What is looked for in a shared index.
#[derive(Debug, Clone, PartialEq)]
pub struct Nearest {
    /// The hidden name of the place.
    pub place: [u8; 32],
    /// The hidden vector.
    pub vector: Vec<f32>,
    /// How many at most.
    pub k: usize,
    /// Cosine similarity at least.
    pub floor: f32,
    /// Milliseconds since the Unix epoch.
    pub now_ms: u64,
}

/// A neighbour in a shared index.
#[derive(Debug, Clone, PartialEq)]
pub struct Near {
    /// The exact key of its entry.
    pub key: CacheKey,
    /// Cosine similarity, in `[-1, 1]`, never NaN.
    pub similarity: f32,
    /// Its question, sealed.
    pub question: Vec<u8>,
}

/// A vector index that several replicas share, beside the durable entries. A row leaves it with its entry, and at once when
/// the entry is replaced or taken back, or the tenant's keys are destroyed.
#[async_trait]
pub trait SharedIndex: Send + Sync + 'static {
    /// Adds or replaces rows. Those whose entry is not stored, was taken back, or belongs to a destroyed key are left out.
    async fn put(&self, rows: &[VectorRow]) -> Result<(), StoreFault>;
    /// Those of `keys` that have no row of this encoder, named by the SHA-256 of its id.
    async fn missing(&self, keys: &[CacheKey], encoder: &[u8; 32]) -> Result<Vec<CacheKey>, StoreFault>;
    /// Neighbours, most similar first. Must answer within the adapter's own lookup budget.
    async fn nearest(&self, wanted: Nearest) -> Result<Vec<Near>, StoreFault>;
    /// The sealed entry under `key`, unless it has expired. Must answer within the adapter's own lookup budget.
    async fn entry(&self, key: &CacheKey, now_ms: u64) -> Result<Option<Vec<u8>>, StoreFault>;
}
