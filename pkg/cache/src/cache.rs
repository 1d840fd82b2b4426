//! Lookup and offer: the order of the layers, and nothing that can fail a request.

use crate::entry::Entry;
use crate::key::{CacheKey, Partition};
use crate::keyring::Keyring;
use crate::ports::ExactStore;
use crate::seal;
use crate::semantic::{Decision, Mode, Prepared, Semantic, Terms};
use crate::withdrawal::Withdrawals;
use moka::policy::EvictionPolicy;
use moka::sync::Cache as Moka;
use signet_types::{EntryId, TenantId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The settings of the exact layers.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Lifetime of an entry whose caller asked for none.
    pub ttl: Duration,
    /// Longest lifetime that a caller can ask for.
    pub ttl_max: Duration,
    /// Lifetime of the answer to a question whose answer soon changes, unless the caller asks for another.
    pub volatile_ttl: Duration,
    /// How long past its lifetime an answer is kept for the case that no provider answers (RFC 5861 §4); zero: not at all.
    pub stale_if_error: Duration,
    /// Memory of the in-process layer, in bytes.
    pub l1_max_bytes: u64,
    /// Largest entry kept, in bytes.
    pub max_entry_bytes: usize,
}

impl Config {
    /// How long after it was asked for an entry is of use at most: its lifetime, and what it may be used for after.
    pub const fn kept_max(&self) -> Duration {
        self.ttl_max.saturating_add(self.stale_if_error)
    }
}

/// Which layers a request may read, and how choosy it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReadPolicy {
    /// The exact layers.
    pub exact: bool,
    /// The semantic layer.
    pub semantic: bool,
    /// A floor above the configured one.
    pub floor: Option<f32>,
    /// Semantic hits are decided and recorded, but not served, whatever the layer's mode.
    pub shadow: bool,
    /// Older entries are not wanted.
    pub max_age_ms: Option<u64>,
}

/// What is asked of the cache.
#[derive(Debug)]
pub struct Ask<'a> {
    /// Where answers may come from.
    pub partition: &'a Partition,
    /// The exact key.
    pub key: &'a CacheKey,
    /// The last user text where the request's form allows semantic answers, else the reason.
    pub question: Result<&'a str, &'static str>,
    /// What may be read.
    pub read: ReadPolicy,
    /// Milliseconds since the Unix epoch.
    pub now_ms: u64,
}

/// What the cache says.
#[derive(Debug)]
pub enum Lookup {
    /// The same request was answered before.
    Exact(Arc<Entry>),
    /// A question that is the same to every gate was answered before.
    Semantic(Arc<Entry>, Decision),
    /// Nothing may be served.
    Miss(Miss),
}

/// A miss, and what it takes to fill it.
#[derive(Debug, Default)]
pub struct Miss {
    /// What the semantic layer decided.
    pub decision: Decision,
    /// The question made ready, so that it is embedded once.
    pub prepared: Option<Prepared>,
    /// The answer of a sampled candidate, to be compared with the fresh one.
    pub candidate: Option<Arc<Entry>>,
}

/// Faults behind the cache; each was a miss.
#[derive(Debug, Default)]
pub struct Faults {
    /// The shared exact layer failed or was late.
    pub shared: AtomicU64,
    /// A stored value did not open or decode.
    pub sealed: AtomicU64,
}

/// All layers.
pub struct Cache {
    config: Config,
    local: Moka<CacheKey, Arc<Entry>, ahash::RandomState>,
    unapplied: AtomicU64,
    shared: Option<Arc<dyn ExactStore>>,
    semantic: Option<Semantic>,
    keys: Arc<Keyring>,
    withdrawals: Withdrawals,
    faults: Faults,
}

impl Cache {
    /// An empty cache over an optional shared layer and an optional semantic layer.
    pub fn new(
        config: Config,
        shared: Option<Arc<dyn ExactStore>>,
        semantic: Option<Semantic>,
        keys: Arc<Keyring>,
    ) -> Self {
        let local = Moka::builder()
            .max_capacity(config.l1_max_bytes)
            .weigher(|_, entry: &Arc<Entry>| u32::try_from(entry.weight()).unwrap_or(u32::MAX))
            .time_to_live(config.kept_max())
            // moka's own policy refuses newcomers that are no more popular than what is held: once full, a fresh answer
            // would be forgotten before the same request can come again.
            .eviction_policy(EvictionPolicy::lru())
            .build_with_hasher(ahash::RandomState::new());
        let semantic = semantic.filter(|layer| layer.config().mode != Mode::Off);
        Self {
            config,
            local,
            unapplied: AtomicU64::new(0),
            shared,
            semantic,
            keys,
            withdrawals: Withdrawals::default(),
            faults: Faults::default(),
        }
    }

    /// The settings of the exact layers.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// The semantic layer, unless it is off.
    pub const fn semantic(&self) -> Option<&Semantic> {
        self.semantic.as_ref()
    }

    /// What was taken back, and the fleet's switch.
    pub const fn withdrawals(&self) -> &Withdrawals {
        &self.withdrawals
    }

    /// Faults so far.
    pub const fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Entries in the in-process layer, about.
    pub fn local_entries(&self) -> u64 {
        self.local.entry_count()
    }

    /// Looks for an answer: exact in process, exact shared, semantic at the configured floor.
    pub async fn lookup(&self, ask: &Ask<'_>) -> Lookup {
        let floor = self.semantic.as_ref().map_or(1.0, |layer| layer.config().floor);
        self.lookup_under(ask, &Terms { serve_from: Some(floor), look_from: floor, sampled: false }).await
    }

    /// As [`Cache::lookup`], under the terms of the request's route.
    pub async fn lookup_under(&self, ask: &Ask<'_>, terms: &Terms) -> Lookup {
        if ask.read.exact
            && let Some(entry) = self.exact(ask).await
        {
            return Lookup::Exact(entry);
        }
        let Some(layer) = self.semantic.as_ref() else { return Lookup::Miss(Miss::default()) };
        let prepared = match ask.question {
            Ok(text) => layer.prepare(ask.partition, text).await,
            Err(reason) => Err(reason),
        };
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(reason) => return Lookup::Miss(ineligible(reason)),
        };
        if !ask.read.semantic || self.withdrawals.semantic_is_off() {
            return Lookup::Miss(Miss { prepared: Some(prepared), ..Miss::default() });
        }
        let (mut found, mut decision) = layer.decide_under(&prepared, ask.read.floor, terms, ask.now_ms).await;
        if let Some(found) = found.as_mut().filter(|found| found.serve && ask.read.shadow) {
            found.serve = false;
            decision.shadowed = true;
        }
        let mut candidate = None;
        if let Some(found) = found.filter(|found| found.serve || terms.sampled) {
            match self.fetch_found(ask, &found.key).await {
                // An entry that arrived since the exact layers were asked is still the answer to this very request.
                Some(entry) if found.key == *ask.key => return Lookup::Exact(entry),
                Some(entry) if found.serve => return Lookup::Semantic(entry, decision),
                Some(entry) => candidate = Some(entry),
                // The question outlived its answer; neither record nor metric may call that a hit.
                None => decision.tier = None,
            }
        }
        Lookup::Miss(Miss { decision, prepared: Some(prepared), candidate })
    }

    /// Looks in the exact layers for many answers at once: in process first, then the others in the shared layer with one call.
    pub async fn exact_many(&self, asks: &[Ask<'_>]) -> Vec<Option<Arc<Entry>>> {
        self.many(asks, Duration::ZERO).await
    }

    /// The same for answers at most `window` past their lifetime, as [`Cache::stale`].
    pub async fn stale_many(&self, asks: &[Ask<'_>], window: Duration) -> Vec<Option<Arc<Entry>>> {
        let window = window.min(self.config.stale_if_error);
        if window.is_zero() { vec![None; asks.len()] } else { self.many(asks, window).await }
    }

    async fn many(&self, asks: &[Ask<'_>], stale: Duration) -> Vec<Option<Arc<Entry>>> {
        let fits = |ask: &Ask<'_>, entry: &Arc<Entry>| self.fits_within(ask, entry, stale);
        let local =
            |ask: &Ask<'_>| ask.read.exact.then(|| self.local.get(ask.key)).flatten().filter(|entry| fits(ask, entry));
        let mut found: Vec<_> = asks.iter().map(local).collect();
        let lacks = |i: &usize| found[*i].is_none() && asks[*i].read.exact;
        let lacking: Vec<usize> = (0..asks.len()).filter(lacks).collect();
        let Some(shared) = self.shared.as_ref().filter(|_| !lacking.is_empty()) else { return found };
        let keys: Vec<_> = lacking.iter().map(|i| *asks[*i].key).collect();
        let sealed = shared.get_many(&keys).await.unwrap_or_else(|fault| {
            self.faults.shared.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(%fault, "the shared cache did not answer");
            Vec::new()
        });
        for (i, sealed) in lacking.into_iter().zip(sealed) {
            let (ask, Some(sealed)) = (&asks[i], sealed) else { continue };
            let entry = self.opened(ask.partition, ask.key, &sealed).await.filter(|entry| fits(ask, entry));
            if let Some(entry) = &entry {
                self.keep(entry).await;
            }
            found[i] = entry;
        }
        found
    }

    /// What is held in process under a key, whether it may still be served or not.
    pub fn held(&self, key: &CacheKey) -> Option<Arc<Entry>> {
        self.local.get(key)
    }

    async fn exact(&self, ask: &Ask<'_>) -> Option<Arc<Entry>> {
        self.fetch(ask, ask.key).await
    }

    /// The answer to this very request, at most `window` past its lifetime: for a caller whom no provider can answer. The
    /// window is the configured one at most.
    pub async fn stale(&self, ask: &Ask<'_>, window: Duration) -> Option<Arc<Entry>> {
        let window = window.min(self.config.stale_if_error);
        if window.is_zero() || !ask.read.exact {
            return None;
        }
        let fits = |entry: &Arc<Entry>| self.fits_within(ask, entry, window);
        match self.local.get(ask.key).filter(fits) {
            Some(entry) => Some(entry),
            None => self.fetch_shared(ask.partition, ask.key).await.filter(fits),
        }
    }

    /// Whether an entry may answer, as far as it is not the question that decides.
    fn fits(&self, ask: &Ask<'_>, entry: &Entry) -> bool {
        self.fits_within(ask, entry, Duration::ZERO)
    }

    fn fits_within(&self, ask: &Ask<'_>, entry: &Entry, stale: Duration) -> bool {
        let age = ask.now_ms.saturating_sub(entry.created_ms);
        let past = Duration::from_millis(ask.now_ms).saturating_sub(Duration::from_millis(entry.expires_ms));
        // The longest lifetime also binds what was stored under another configuration.
        entry.partition == *ask.partition
            && (entry.expires_ms > ask.now_ms || past < stale)
            && u128::from(age) < self.config.ttl_max.saturating_add(stale).as_millis()
            && ask.read.max_age_ms.is_none_or(|max| age <= max)
            && !self.withdrawals.takes(entry)
    }

    /// The answer of a question that was found. That of a shared index may be an answer which neither this process nor the
    /// shared exact layer holds; then it lies with the durable entries.
    async fn fetch_found(&self, ask: &Ask<'_>, key: &CacheKey) -> Option<Arc<Entry>> {
        if let Some(entry) = self.fetch(ask, key).await {
            return Some(entry);
        }
        let sealed = self.semantic.as_ref()?.search()?.sealed(key, ask.now_ms).await?;
        let entry = self.opened(ask.partition, key, &sealed).await.filter(|entry| self.fits(ask, entry))?;
        self.keep(&entry).await;
        Some(entry)
    }

    async fn fetch(&self, ask: &Ask<'_>, key: &CacheKey) -> Option<Arc<Entry>> {
        let fits = |entry: &Arc<Entry>| self.fits(ask, entry);
        if let Some(entry) = self.local.get(key).filter(fits) {
            return Some(entry);
        }
        let entry = self.fetch_shared(ask.partition, key).await.filter(fits)?;
        self.keep(&entry).await;
        Some(entry)
    }

    /// Keeps an entry that came from elsewhere.
    async fn keep(&self, entry: &Arc<Entry>) {
        let prepared = if self.is_findable(entry) { None } else { self.prepare(entry).await };
        self.insert(entry.clone(), prepared);
    }

    async fn fetch_shared(&self, partition: &Partition, key: &CacheKey) -> Option<Arc<Entry>> {
        let sealed = match self.shared.as_ref()?.get(key).await {
            Ok(found) => found?,
            Err(fault) => {
                self.faults.shared.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(%fault, "the shared cache did not answer");
                return None;
            }
        };
        self.opened(partition, key, &sealed).await
    }

    /// As [`Cache::open`]; what does not open is counted.
    async fn opened(&self, partition: &Partition, key: &CacheKey, sealed: &[u8]) -> Option<Arc<Entry>> {
        let entry = self.open(partition, key, sealed).await;
        if entry.is_none() {
            self.faults.sealed.fetch_add(1, Ordering::Relaxed);
        }
        entry.map(Arc::new)
    }

    /// Opens a sealed entry; none if it is not one that this place may serve.
    pub async fn open(&self, partition: &Partition, key: &CacheKey, sealed: &[u8]) -> Option<Entry> {
        let keys = self.keys.at_epoch(partition.tenant(), seal::epoch_of(sealed)?).await?;
        let plain = keys.seal.open(partition, key, sealed).ok()?;
        Entry::decode(*key, *partition, &plain).ok()
    }

    async fn prepare(&self, entry: &Entry) -> Option<Prepared> {
        let (layer, text) = (self.semantic.as_ref()?, entry.question.as_deref()?);
        layer.prepare_stored(&entry.partition, text).await.ok()
    }

    /// Whether an entry is small enough to be kept, here or anywhere.
    pub fn takes(&self, entry: &Entry) -> bool {
        entry.weight() <= self.config.max_entry_bytes
    }

    /// Keeps an entry in process and makes its question findable. Entries over the size limit are left out.
    pub fn insert(&self, entry: Arc<Entry>, prepared: Option<Prepared>) {
        if !self.takes(&entry) {
            return;
        }
        if let (Some(layer), Some(prepared)) = (self.semantic.as_ref(), prepared) {
            layer.insert(entry.id, entry.key, entry.expires_ms, prepared);
        }
        self.keep_local(entry);
    }

    /// Whether this very entry is held in process, and its question is findable.
    pub fn holds(&self, key: &CacheKey, id: EntryId) -> bool {
        self.local.get(key).is_some_and(|held| held.id == id && self.is_findable(&held))
    }

    /// An entry that came from the shared layer, by its key, is held before its question is.
    fn is_findable(&self, entry: &Entry) -> bool {
        entry.question.is_none() || self.semantic.as_ref().is_none_or(|layer| layer.holds(entry.id))
    }

    /// Takes in an entry that another process stored, unless ours is newer.
    pub async fn adopt(&self, entry: Entry, now_ms: u64) {
        if self.kept_until(&entry) <= now_ms || self.supersedes(&entry) {
            return;
        }
        let prepared = if entry.expires_ms > now_ms { self.prepare(&entry).await } else { None };
        // A newer answer may have come while the question was embedded.
        if !self.supersedes(&entry) {
            self.insert(Arc::new(entry), prepared);
        }
    }

    /// Until when an entry is kept, in milliseconds since the Unix epoch: its lifetime, and what it may be used for after.
    pub fn kept_until(&self, entry: &Entry) -> u64 {
        let stale = u64::try_from(self.config.stale_if_error.as_millis()).unwrap_or(u64::MAX);
        entry.expires_ms.saturating_add(stale)
    }

    /// Whether what is held in process makes `entry` needless: it is the same, or newer.
    fn supersedes(&self, entry: &Entry) -> bool {
        self.local.get(&entry.key).is_some_and(|held| {
            if held.id == entry.id { self.is_findable(&held) } else { held.created_ms >= entry.created_ms }
        })
    }

    /// Forgets this very entry in process; another one under the same key stays.
    pub fn forget(&self, key: &CacheKey, id: EntryId) {
        if self.local.get(key).is_some_and(|held| held.id == id) {
            self.local.invalidate(key);
        }
        if let Some(layer) = self.semantic.as_ref() {
            layer.remove(id);
        }
    }

    /// Drops everything that is held of a tenant in process, where it lies in the clear. Walks through all entries.
    pub fn drop_tenant(&self, tenant: TenantId) {
        for (key, entry) in &self.local {
            if entry.partition.tenant() == tenant {
                self.forget(&key, entry.id);
            }
        }
        if let Some(layer) = self.semantic.as_ref() {
            layer.remove_tenant(tenant);
        }
    }

    /// moka applies writes in batches, so that a burst of large entries can overshoot its capacity; applying them each
    /// sixteenth of the budget bounds the overshoot.
    fn keep_local(&self, entry: Arc<Entry>) {
        let weight = entry.weight() as u64;
        self.local.insert(entry.key, entry);
        if self.unapplied.fetch_add(weight, Ordering::Relaxed) + weight > self.config.l1_max_bytes / 16 {
            self.unapplied.store(0, Ordering::Relaxed);
            self.local.run_pending_tasks();
        }
    }
}

fn ineligible(reason: &'static str) -> Miss {
    Miss { decision: Decision { ineligible: Some(reason), ..Decision::default() }, ..Miss::default() }
}
