//! Tenant keys: 32 random bytes a tenant and epoch, wrapped by the deployment's secret and kept in the store by
//! compare-and-insert, so that every replica uses the same ones.

use crate::hide::HideKey;
use crate::ports::{KeyStore, StoreFault};
use crate::seal::{self, SealKey};
use hmac::{Hmac, KeyInit, Mac};
use moka::sync::Cache as Moka;
use parking_lot::{Mutex, RwLock};
use sha2::Sha256;
use signet_lineage::TenantKey;
use signet_types::{Secret, TenantId};
use std::sync::Arc;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// Tenants whose keys are kept in memory; others are fetched again.
const HELD: u64 = 100_000;
/// How long a key that could not be stored is used, and a store that is away left alone, before it is asked again.
const RETRY: Duration = Duration::from_secs(5);

/// One tenant's keys of one epoch.
#[derive(Debug)]
pub struct TenantKeys {
    /// The tenant.
    pub tenant: TenantId,
    /// The epoch, from 1; 0 for a key that could not be stored.
    pub epoch: u32,
    /// Makes commitments and fingerprints.
    pub proof: TenantKey,
    /// Seals cache values.
    pub seal: SealKey,
    /// Hides what a shared index holds.
    pub hide: HideKey,
    /// The wrapped key, where it could not be stored: it must ride in the record, and nothing may be cached.
    pub unstored: Option<Vec<u8>>,
}

/// Finds and makes tenant keys.
pub struct Keyring {
    store: Arc<dyn KeyStore>,
    secret: Secret<[u8; 32]>,
    current: Moka<TenantId, Arc<TenantKeys>>,
    unstored: Moka<TenantId, Arc<TenantKeys>>,
    older: Moka<(TenantId, u32), Arc<TenantKeys>>,
    /// The tenant seen last: most deployments have few tenants, and one is asked for again and again.
    last: RwLock<Option<Arc<TenantKeys>>>,
    away: Away,
}

/// What is known of an outage of the store. An adapter takes its time to find a database gone (half a second), and a
/// request waits for that: one request in [`RETRY`] does, not each tenant's.
#[derive(Debug, Default)]
struct Away(Mutex<Option<Instant>>);

impl Away {
    fn is_known(&self, now: Instant) -> bool {
        self.0.lock().is_some_and(|until| now < until)
    }

    /// Whether to ask now; within an outage, whoever is let through is the only one for a while.
    fn admits(&self, now: Instant) -> bool {
        let mut until = self.0.lock();
        let admits = until.is_none_or(|until| until <= now);
        if admits && until.is_some() {
            *until = Some(now + RETRY);
        }
        admits
    }

    fn begins(&self, now: Instant) {
        *self.0.lock() = Some(now + RETRY);
    }

    /// The store answered; whether it was away before.
    fn ends(&self) -> bool {
        self.0.lock().take().is_some()
    }
}

impl Keyring {
    /// A ring under `secret`, the deployment's secret, equal on all replicas.
    pub fn new(store: Arc<dyn KeyStore>, secret: [u8; 32]) -> Self {
        Self {
            store,
            secret: Secret::new(secret),
            current: Moka::new(HELD),
            unstored: Moka::builder().max_capacity(HELD).time_to_live(RETRY).build(),
            older: Moka::new(HELD),
            last: RwLock::default(),
            away: Away::default(),
        }
    }

    /// The tenant of a credential: HMAC-SHA-256 under the secret, cut to 16 bytes.
    pub fn tenant_of(&self, kind: &str, credential: &[u8]) -> TenantId {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secret.expose()).expect("HMAC takes any key length");
        mac.update(b"signet/tenant/v1\0");
        mac.update(kind.as_bytes());
        mac.update(&[0]);
        mac.update(credential);
        let full: [u8; 32] = mac.finalize().into_bytes().into();
        TenantId::from_bytes(full[..16].try_into().expect("16 of 32 bytes"))
    }

    /// The tenant's current keys. Never fails: where the store cannot be asked the key is a fresh one that is marked
    /// `unstored`.
    pub async fn current(&self, tenant: TenantId) -> Arc<TenantKeys> {
        if let Some(keys) = self.held(tenant) {
            return keys;
        }
        if let Some(keys) = self.unstored.get(&tenant) {
            return keys;
        }
        if let Some(keys) = self.asked(tenant).await {
            self.current.insert(tenant, keys.clone());
            return keys;
        }
        let keys = Arc::new(self.fresh(tenant));
        self.unstored.insert(tenant, keys.clone());
        keys
    }

    /// The tenant's current keys, if this process has had them from the store; makes none.
    pub fn held(&self, tenant: TenantId) -> Option<Arc<TenantKeys>> {
        if let Some(keys) = self.last.read().as_ref().filter(|keys| keys.tenant == tenant) {
            return Some(keys.clone());
        }
        let keys = self.current.get(&tenant)?;
        *self.last.write() = Some(keys.clone());
        Some(keys)
    }

    /// The store's key for a tenant, unless the store is away.
    async fn asked(&self, tenant: TenantId) -> Option<Arc<TenantKeys>> {
        if !self.away.admits(Instant::now()) {
            return None;
        }
        let found = self.stored(tenant).await;
        match &found {
            Err(StoreFault::Unavailable(_) | StoreFault::Timeout(_)) => self.away.begins(Instant::now()),
            // The makeshift keys have served.
            Ok(_) | Err(StoreFault::Corrupt(_)) if self.away.ends() => self.unstored.invalidate_all(),
            Ok(_) | Err(StoreFault::Corrupt(_)) => {}
        }
        found
            .inspect_err(
                |fault| tracing::warn!(%tenant, %fault, "the tenant key cannot be stored; this tenant is not cached"),
            )
            .ok()
    }

    /// The key that sealed a value of `epoch`; none where it cannot be had.
    pub async fn at_epoch(&self, tenant: TenantId, epoch: u32) -> Option<Arc<TenantKeys>> {
        if let Some(keys) = self.current.get(&tenant).filter(|keys| keys.epoch == epoch) {
            return Some(keys);
        }
        if let Some(keys) = self.older.get(&(tenant, epoch)) {
            return Some(keys);
        }
        if self.away.is_known(Instant::now()) {
            return None;
        }
        self.fetch(tenant, epoch).await.ok().flatten()
    }

    /// As [`Keyring::at_epoch`], for whoever must tell a key that was destroyed from one that cannot be had now.
    ///
    /// # Errors
    /// The store was not reached, or holds a key that another secret has wrapped.
    pub async fn fetch(&self, tenant: TenantId, epoch: u32) -> Result<Option<Arc<TenantKeys>>, StoreFault> {
        let Some(wrapped) = self.store.tenant_key(tenant, epoch).await? else { return Ok(None) };
        let keys = Arc::new(self.open(tenant, epoch, &wrapped)?);
        self.older.insert((tenant, epoch), keys.clone());
        Ok(Some(keys))
    }

    /// Destroys a tenant's keys in the store and here. What they sealed can be read by nobody any more, and what they
    /// committed to can be opened only with what callers kept.
    ///
    /// # Errors
    /// The store was not reached; nothing was destroyed.
    pub async fn erase(&self, tenant: TenantId) -> Result<u64, StoreFault> {
        let erased = self.store.erase_tenant(tenant).await?;
        self.forget(tenant);
        Ok(erased)
    }

    /// Forgets a tenant's keys: another replica has destroyed them.
    pub fn forget(&self, tenant: TenantId) {
        self.current.invalidate(&tenant);
        self.older.invalidate_all();
        self.last.write().take_if(|keys| keys.tenant == tenant);
    }

    /// Keys for records of callers that never became known: tenant zero, random, of this process only.
    pub fn for_nobody(&self) -> TenantKeys {
        self.fresh(TenantId::from_bytes([0; 16]))
    }

    async fn stored(&self, tenant: TenantId) -> Result<Arc<TenantKeys>, StoreFault> {
        let wrapped = seal::wrap(self.secret.expose(), tenant, &random());
        let (epoch, winner) = self.store.tenant_key_or_insert(tenant, &wrapped).await?;
        self.open(tenant, epoch, &winner).map(Arc::new)
    }

    fn open(&self, tenant: TenantId, epoch: u32, wrapped: &[u8]) -> Result<TenantKeys, StoreFault> {
        let root = seal::unwrap(self.secret.expose(), tenant, wrapped)
            .map_err(|_| StoreFault::Corrupt("a tenant key is wrapped by another secret".to_owned()))?;
        Ok(TenantKeys {
            tenant,
            epoch,
            seal: SealKey::derive(&root, epoch),
            hide: HideKey::derive(&root),
            proof: TenantKey::from_bytes(Zeroizing::new(root)),
            unstored: None,
        })
    }

    fn fresh(&self, tenant: TenantId) -> TenantKeys {
        let root = random();
        let unstored = Some(seal::wrap(self.secret.expose(), tenant, &root));
        TenantKeys {
            tenant,
            epoch: 0,
            seal: SealKey::derive(&root, 0),
            hide: HideKey::derive(&root),
            proof: TenantKey::from_bytes(Zeroizing::new(root)),
            unstored,
        }
    }
}

fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the operating system gives entropy");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_in_each_pause_looks_whether_the_store_is_back() {
        let (away, start) = (Away::default(), Instant::now());
        assert!(away.admits(start) && away.admits(start) && !away.is_known(start));
        away.begins(start);
        assert!(!away.admits(start + RETRY / 2) && away.is_known(start + RETRY / 2));
        let later = start + RETRY;
        assert!(away.admits(later));
        assert!(!away.admits(later), "one is enough");
        assert!(away.admits(later + RETRY), "one that never reports delays the next by a pause");
        assert!(away.ends());
        assert!(away.admits(later) && away.admits(later) && !away.ends());
    }
}
