//! Tenant keys in memory.

use crate::switch::Switch;
use async_trait::async_trait;
use parking_lot::Mutex;
use signet_cache::{KeyStore, StoreFault};
use signet_types::TenantId;
use std::collections::BTreeMap;

/// A [`KeyStore`] in which the first writer wins.
#[derive(Debug, Default)]
pub struct MemoryKeyStore {
    secret: Mutex<Option<[u8; 32]>>,
    wrapped: Mutex<BTreeMap<(TenantId, u32), Vec<u8>>>,
    /// Breaks and mends it.
    pub switch: Switch,
}

impl MemoryKeyStore {
    /// Stores a tenant's key of an epoch, as an operator does who rotates it.
    pub fn rotate(&self, tenant: TenantId, epoch: u32, wrapped: Vec<u8>) {
        self.wrapped.lock().insert((tenant, epoch), wrapped);
    }

    /// Every wrapped key of a tenant, by epoch.
    pub fn epochs(&self, tenant: TenantId) -> Vec<(u32, Vec<u8>)> {
        let wrapped = self.wrapped.lock();
        wrapped.range((tenant, 0)..=(tenant, u32::MAX)).map(|(&(_, epoch), key)| (epoch, key.clone())).collect()
    }
}

#[async_trait]
impl KeyStore for MemoryKeyStore {
    async fn secret_or_insert(&self, candidate: [u8; 32]) -> Result<[u8; 32], StoreFault> {
        self.switch.pass().await?;
        Ok(*self.secret.lock().get_or_insert(candidate))
    }

    async fn tenant_key_or_insert(&self, tenant: TenantId, wrapped: &[u8]) -> Result<(u32, Vec<u8>), StoreFault> {
        self.switch.pass().await?;
        let mut all = self.wrapped.lock();
        let newest = all.range((tenant, 0)..=(tenant, u32::MAX)).next_back().map(|(key, held)| (key.1, held.clone()));
        let epoch = match newest {
            Some((epoch, held)) if !held.is_empty() => return Ok((epoch, held)),
            Some((epoch, _)) => epoch + 1,
            None => 1,
        };
        all.insert((tenant, epoch), wrapped.to_vec());
        Ok((epoch, wrapped.to_vec()))
    }

    async fn tenant_key(&self, tenant: TenantId, epoch: u32) -> Result<Option<Vec<u8>>, StoreFault> {
        self.switch.pass().await?;
        Ok(self.wrapped.lock().get(&(tenant, epoch)).filter(|held| !held.is_empty()).cloned())
    }

    async fn erase_tenant(&self, tenant: TenantId) -> Result<u64, StoreFault> {
        self.switch.pass().await?;
        let mut all = self.wrapped.lock();
        let held = all.range_mut((tenant, 0)..=(tenant, u32::MAX)).filter(|(_, held)| !held.is_empty());
        Ok(held.map(|(_, held)| held.clear()).count() as u64)
    }
}
