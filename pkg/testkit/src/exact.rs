//! A shared exact layer in memory.

use crate::switch::Switch;
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use signet_cache::{CacheKey, ExactStore, StoreFault};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// An [`ExactStore`] whose values end with their time, by tokio's clock (which a test may pause).
#[derive(Debug, Default)]
pub struct MemoryExactStore {
    values: Mutex<HashMap<CacheKey, (Bytes, Instant)>>,
    /// Breaks and mends it.
    pub switch: Switch,
}

impl MemoryExactStore {
    /// Values held that have not ended.
    pub fn len(&self) -> usize {
        let now = Instant::now();
        self.values.lock().values().filter(|(_, ends)| now < *ends).count()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[async_trait]
impl ExactStore for MemoryExactStore {
    async fn get(&self, key: &CacheKey) -> Result<Option<Bytes>, StoreFault> {
        self.switch.pass().await?;
        let now = Instant::now();
        let values = self.values.lock();
        Ok(values.get(key).filter(|(_, ends)| now < *ends).map(|(value, _)| value.clone()))
    }

    async fn put(&self, key: &CacheKey, value: Bytes, ttl: Duration) -> Result<(), StoreFault> {
        self.switch.pass().await?;
        assert!(!ttl.is_zero(), "a lifetime is never zero");
        self.values.lock().insert(*key, (value, Instant::now() + ttl));
        Ok(())
    }

    async fn remove(&self, key: &CacheKey) -> Result<(), StoreFault> {
        self.switch.pass().await?;
        self.values.lock().remove(key);
        Ok(())
    }
}
