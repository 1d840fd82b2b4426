//! A cache with everything behind it faked.

use bytes::Bytes;
use signet_cache::{
    Ask, Cache, CacheKey, Config, Entry, ExactStore, Keyring, Lookup, Mode, Origin, Partition, PartitionParts,
    ReadPolicy, Semantic, SemanticConfig, Source, Stored,
};
use signet_testkit::{BruteForceIndex, MemoryExactStore, MemoryKeyStore, TableEmbedder};
use signet_types::{EntryId, LineageId, LogId, TenantId};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub(crate) const NOW: u64 = 1_700_000_000_000;
pub(crate) const HOUR_MS: u64 = 3_600_000;
pub(crate) const SECRET: [u8; 32] = [42; 32];
pub(crate) const FLOOR: f32 = 0.9;

pub(crate) const POACH: &str = "How do I poach an egg in a shop?";
/// A near synonym in [`POACH`], the same question to every gate, similarity 0.95.
pub(crate) const POACH_SPELLED: &str = "How do I poach an egg in a store?";
/// The words of [`POACH`] to the same-words tier.
pub(crate) const POACH_POLITE: &str = "Hi! How do I poach an egg in a shop? Thanks";
/// Near [`POACH`], but another question.
pub(crate) const BOIL: &str = "How do I boil an egg in a shop?";

pub(crate) const EVERYTHING: ReadPolicy =
    ReadPolicy { exact: true, semantic: true, floor: None, shadow: false, max_age_ms: None };

pub(crate) fn tenant(n: u8) -> TenantId {
    TenantId::from_bytes([n; 16])
}

pub(crate) fn partition(of: u8, namespace: &str) -> Partition {
    Partition::derive(&PartitionParts {
        tenant: tenant(of),
        namespace,
        operation: "chat",
        targets: [0; 32],
        policy_generation: 0,
        shape: [0; 32],
    })
}

pub(crate) fn source() -> Source {
    Source {
        id: LineageId::from_bytes([3; 16]),
        log: LogId::from_bytes([4; 16]),
        epoch: 5,
        seq: 6,
        leaf_hash: [7; 32],
        response_fp: [8; 16],
        key_epoch: 9,
    }
}

/// An answer to `text` that lives for an hour from [`NOW`].
pub(crate) fn entry(partition: Partition, text: &str) -> Entry {
    Entry {
        id: EntryId::generate(NOW),
        key: CacheKey::derive(&partition, text.as_bytes()),
        partition,
        body: Stored::Json(Bytes::from(format!("\"the answer to {text}\""))),
        question: Some(text.to_owned()),
        created_ms: NOW,
        expires_ms: NOW + HOUR_MS,
        source: source(),
        origin: Origin { model: "m".into(), namespace: "".into() },
    }
}

/// A vector at this cosine from `[1, 0]`.
pub(crate) fn at_cosine(cosine: f32) -> [f32; 2] {
    [cosine, (1.0 - cosine * cosine).sqrt()]
}

pub(crate) fn embedder() -> TableEmbedder {
    TableEmbedder::new(&[
        (POACH, [1.0, 0.0]),
        (POACH_SPELLED, at_cosine(0.95)),
        (POACH_POLITE, [1.0, 0.0]),
        (BOIL, at_cosine(0.99)),
    ])
}

pub(crate) const CONFIG: Config = Config {
    ttl: Duration::from_hours(1),
    ttl_max: Duration::from_hours(24),
    volatile_ttl: Duration::from_mins(1),
    stale_if_error: Duration::ZERO,
    l1_max_bytes: 1 << 20,
    max_entry_bytes: 1 << 14,
};

pub(crate) const SEMANTIC: SemanticConfig = SemanticConfig { mode: Mode::On, floor: FLOOR, max_entries: 100 };

/// A replica: its cache, and what is behind it.
pub(crate) struct Replica {
    pub(crate) cache: Cache,
    pub(crate) shared: Arc<MemoryExactStore>,
    pub(crate) keys: Arc<Keyring>,
    pub(crate) key_store: Arc<MemoryKeyStore>,
    pub(crate) embedder: Arc<TableEmbedder>,
}

impl Replica {
    pub(crate) fn new() -> Self {
        Self::with(CONFIG, SEMANTIC)
    }

    pub(crate) fn with(config: Config, semantic: SemanticConfig) -> Self {
        Self::over(config, semantic, Arc::default(), Arc::default())
    }

    /// Another replica over the same stores, with nothing in process.
    pub(crate) fn sibling(&self) -> Self {
        Self::over(CONFIG, SEMANTIC, self.shared.clone(), self.key_store.clone())
    }

    pub(crate) fn over(
        config: Config,
        semantic: SemanticConfig,
        shared: Arc<MemoryExactStore>,
        key_store: Arc<MemoryKeyStore>,
    ) -> Self {
        let keys = Arc::new(Keyring::new(key_store.clone(), SECRET));
        let embedder = Arc::new(embedder());
        let layer = Semantic::new(semantic, embedder.clone(), Arc::new(BruteForceIndex::default()));
        let cache = Cache::new(config, Some(shared.clone()), Some(layer), keys.clone());
        Self { cache, shared, keys, key_store, embedder }
    }

    /// Stores an entry as a replica does: in process, findable, and sealed in the shared layer.
    pub(crate) async fn store(&self, entry: &Entry) {
        self.keep(entry).await;
        self.share(entry).await;
    }

    /// Keeps an entry in process only.
    pub(crate) async fn keep(&self, entry: &Entry) {
        let prepared = match (self.cache.semantic(), entry.question.as_deref()) {
            (Some(layer), Some(text)) => layer.prepare(&entry.partition, text).await.ok(),
            _ => None,
        };
        self.cache.insert(Arc::new(entry.clone()), prepared);
    }

    /// Puts an entry into the shared layer only.
    pub(crate) async fn share(&self, entry: &Entry) {
        self.share_under(&entry.key, self.sealed(entry).await).await;
    }

    pub(crate) async fn sealed(&self, entry: &Entry) -> Vec<u8> {
        let keys = self.keys.current(entry.partition.tenant()).await;
        keys.seal.seal(&entry.partition, &entry.key, entry.encode())
    }

    pub(crate) async fn share_under(&self, key: &CacheKey, sealed: Vec<u8>) {
        self.shared.put(key, sealed.into(), Duration::from_hours(1)).await.expect("stored");
    }

    pub(crate) async fn ask(&self, partition: &Partition, text: &str) -> Lookup {
        self.ask_so(partition, text, EVERYTHING, NOW).await
    }

    pub(crate) async fn ask_so(&self, partition: &Partition, text: &str, read: ReadPolicy, now_ms: u64) -> Lookup {
        let key = CacheKey::derive(partition, text.as_bytes());
        self.cache.lookup(&Ask { partition, key: &key, question: Ok(text), read, now_ms }).await
    }

    /// Faults counted: of the shared layer, of sealed values.
    pub(crate) fn faults(&self) -> (u64, u64) {
        let faults = self.cache.faults();
        (faults.shared.load(Ordering::Relaxed), faults.sealed.load(Ordering::Relaxed))
    }
}

pub(crate) fn exact(found: &Lookup) -> Option<EntryId> {
    if let Lookup::Exact(entry) = found { Some(entry.id) } else { None }
}

pub(crate) fn semantic(found: &Lookup) -> Option<EntryId> {
    if let Lookup::Semantic(entry, _) = found { Some(entry.id) } else { None }
}

pub(crate) fn is_miss(found: &Lookup) -> bool {
    matches!(found, Lookup::Miss(_))
}
