//! A cache as the gateway builds it, asked and filled by the gateway's own paths, without a network or a clock.

use crate::query::Asked;
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use signet_cache::{
    Ask, Cache, Config, EmbedFault, Embedder, Entry, KeyStore, Keyring, Lookup, Mode, Origin, Prepared, ReadPolicy,
    Rescorer, Semantic, SemanticConfig, Source, StoreFault, Stored, VectorIndex,
};
use signet_types::{EntryId, LineageId, LogId, TenantId};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The one moment of an evaluation: nothing expires. 2020-01-01.
const NOW_MS: u64 = 1_577_836_800_000;
/// Under any similarity that a floor may have.
const NO_FLOOR: f32 = f32::MIN_POSITIVE;
/// Texts whose vectors are remembered; a question is embedded for each floor it is asked at.
const REMEMBERED: usize = 100_000;

/// Makes an index of at most so many vectors.
pub type MakeIndex = Arc<dyn Fn(usize) -> Arc<dyn VectorIndex> + Send + Sync>;

/// What is evaluated.
#[derive(Clone)]
pub struct Setup {
    /// The exact layers.
    pub cache: Config,
    /// The semantic layer. Shadow is evaluated as on: what it would serve.
    pub semantic: SemanticConfig,
    /// The encoder.
    pub embedder: Arc<dyn Embedder>,
    /// The second look at candidates, if there is one. A deadline of its own would make figures depend on the machine.
    pub rescorer: Option<Arc<dyn Rescorer>>,
    /// The index.
    pub index: MakeIndex,
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup").field("semantic", &self.semantic).finish_non_exhaustive()
    }
}

impl Setup {
    /// The same with an encoder that remembers what it was asked: each text is asked at several floors.
    pub(crate) fn remembering(&self) -> Self {
        let inner = self.embedder.clone();
        Self { embedder: Arc::new(Remembering { inner, known: Mutex::default() }), ..self.clone() }
    }

    /// The encoders' identity, as records have it.
    pub(crate) fn encoder(&self) -> String {
        let first = self.embedder.id();
        self.rescorer.as_ref().map_or_else(|| first.to_owned(), |second| format!("{first}+{}", second.id()))
    }
}

/// One cache. It has no floor of its own; each question brings one.
pub(crate) struct Bench {
    cache: Cache,
    embedder: Arc<dyn Embedder>,
    stored: AtomicU64,
}

impl Bench {
    pub(crate) fn new(setup: &Setup) -> Self {
        let mode = if setup.semantic.mode == Mode::Off { Mode::Off } else { Mode::On };
        let config = SemanticConfig { mode, floor: NO_FLOOR, ..setup.semantic };
        let index = (setup.index)(config.max_entries);
        let mut semantic = Semantic::new(config, setup.embedder.clone(), index);
        if let Some(rescorer) = &setup.rescorer {
            semantic = semantic.rescored(rescorer.clone());
        }
        let keys = Arc::new(Keyring::new(Arc::new(NoKeys), [0; 32]));
        let cache = Cache::new(setup.cache, None, Some(semantic), keys);
        Self { cache, embedder: setup.embedder.clone(), stored: AtomicU64::new(0) }
    }

    /// Looks for an answer at or over `floor`; without one, whatever passes the gates is near enough.
    pub(crate) async fn ask(&self, asked: &Asked, floor: Option<f32>) -> Lookup {
        let read = ReadPolicy { exact: true, semantic: true, floor, shadow: false, max_age_ms: None };
        let question = asked.question();
        let (partition, key) = (&asked.partition, &asked.key);
        self.cache.lookup(&Ask { partition, key, question, read, now_ms: NOW_MS }).await
    }

    /// Stores `answer` as the pipeline does after a miss.
    pub(crate) fn store(&self, asked: &Asked, answer: u32, prepared: Option<Prepared>) -> Arc<Entry> {
        // Counted, not drawn: two runs must not differ in the order of their ids.
        let id = u128::from(self.stored.fetch_add(1, Ordering::Relaxed)).to_be_bytes();
        let entry = Arc::new(Entry {
            id: EntryId::from_bytes(id),
            key: asked.key,
            partition: asked.partition,
            body: Stored::Json(Bytes::copy_from_slice(&answer.to_be_bytes())),
            question: prepared.is_some().then(|| asked.text.clone()),
            created_ms: NOW_MS,
            expires_ms: u64::MAX,
            source: nowhere(),
            origin: Origin::default(),
        });
        self.cache.insert(entry.clone(), prepared);
        entry
    }

    pub(crate) fn forget(&self, entry: &Entry) {
        self.cache.forget(&entry.key, entry.id);
    }

    /// The cosine of two texts, whatever rules and partitions say; none if one has no vector.
    pub(crate) async fn cosine(&self, one: &Asked, other: &Asked) -> Option<f32> {
        let (one, other) = (self.embedder.embed(&one.text).await.ok()?, self.embedder.embed(&other.text).await.ok()?);
        Some(one.iter().zip(other.iter()).map(|(x, y)| x * y).sum())
    }
}

/// The answer that [`Bench::store`] put into an entry.
pub(crate) fn answer_of(entry: &Entry) -> u32 {
    match &entry.body {
        Stored::Json(bytes) => u32::from_be_bytes(bytes[..].try_into().expect("four bytes were stored")),
        _ => unreachable!("nothing else is stored here"),
    }
}

const fn nowhere() -> Source {
    Source {
        id: LineageId::from_bytes([0; 16]),
        log: LogId::from_bytes([0; 16]),
        epoch: 0,
        seq: 0,
        leaf_hash: [0; 32],
        response_fp: [0; 16],
        key_epoch: 0,
    }
}

/// Nothing leaves the process, so nothing is sealed.
struct NoKeys;

#[async_trait]
impl KeyStore for NoKeys {
    async fn secret_or_insert(&self, candidate: [u8; 32]) -> Result<[u8; 32], StoreFault> {
        Ok(candidate)
    }

    async fn tenant_key_or_insert(&self, _: TenantId, wrapped: &[u8]) -> Result<(u32, Vec<u8>), StoreFault> {
        Ok((1, wrapped.to_vec()))
    }

    async fn tenant_key(&self, _: TenantId, _: u32) -> Result<Option<Vec<u8>>, StoreFault> {
        Ok(None)
    }

    async fn erase_tenant(&self, _: TenantId) -> Result<u64, StoreFault> {
        Ok(0)
    }
}

type Embedded = Result<Arc<[f32]>, EmbedFault>;

/// An encoder that is asked for each text once, failures included.
struct Remembering {
    inner: Arc<dyn Embedder>,
    known: Mutex<HashMap<String, Embedded>>,
}

#[async_trait]
impl Embedder for Remembering {
    fn id(&self) -> &str {
        self.inner.id()
    }

    async fn embed(&self, text: &str) -> Embedded {
        if let Some(known) = self.known.lock().get(text) {
            return known.clone();
        }
        let vector = self.inner.embed(text).await;
        let mut known = self.known.lock();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(text.to_owned(), vector.clone());
        vector
    }
}
