//! Durable entries in memory.

use crate::switch::Switch;
use async_trait::async_trait;
use parking_lot::Mutex;
use signet_cache::{CacheKey, EntryRow, EntryStore, StoreFault};

/// An [`EntryStore`] that keeps every row until it is swept. A row's place in the order of appearance is its number from 1.
#[derive(Debug, Default)]
pub struct MemoryEntryStore {
    rows: Mutex<Rows>,
    /// Breaks and mends it.
    pub switch: Switch,
}

#[derive(Debug, Default)]
struct Rows {
    held: Vec<(u64, EntryRow)>,
    last: u64,
}

impl MemoryEntryStore {
    /// The row that counts under `key`.
    pub(crate) fn newest(&self, key: &CacheKey) -> Option<EntryRow> {
        let all = self.rows.lock();
        let of_key = all.held.iter().filter(|(_, row)| row.key == *key);
        of_key.max_by_key(|(appeared, row)| (row.created_ms, *appeared)).map(|(_, row)| row.clone())
    }
}

#[async_trait]
impl EntryStore for MemoryEntryStore {
    async fn put(&self, rows: &[EntryRow]) -> Result<(), StoreFault> {
        self.switch.pass().await?;
        let mut all = self.rows.lock();
        for row in rows {
            all.last += 1;
            let appeared = all.last;
            all.held.push((appeared, row.clone()));
        }
        Ok(())
    }

    async fn since(&self, cursor: u64, now_ms: u64, limit: u32) -> Result<(Vec<EntryRow>, u64), StoreFault> {
        self.switch.pass().await?;
        let all = self.rows.lock();
        let newer = all.held.iter().filter(|(appeared, row)| *appeared > cursor && row.expires_ms > now_ms);
        let page: Vec<_> = newer.take(limit as usize).collect();
        let behind = page.last().map_or(cursor, |(appeared, _)| *appeared);
        Ok((page.into_iter().map(|(_, row)| row.clone()).collect(), behind))
    }

    async fn latest(&self, now_ms: u64, limit: u32) -> Result<Vec<EntryRow>, StoreFault> {
        self.switch.pass().await?;
        let all = self.rows.lock();
        let alive = all.held.iter().rev().filter(|(_, row)| row.expires_ms > now_ms);
        Ok(alive.take(limit as usize).map(|(_, row)| row.clone()).collect())
    }

    async fn sweep(&self, now_ms: u64) -> Result<u64, StoreFault> {
        self.switch.pass().await?;
        let mut all = self.rows.lock();
        let before = all.held.len();
        all.held.retain(|(_, row)| row.expires_ms >= now_ms);
        Ok((before - all.held.len()) as u64)
    }
}
