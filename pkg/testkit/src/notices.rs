//! Notices in memory.

use crate::switch::Switch;
use async_trait::async_trait;
use parking_lot::Mutex;
use signet_cache::{Notice, NoticeStore, StoreFault};

/// A [`NoticeStore`]. A notice's place in the order of appearance is its number from 1.
#[derive(Debug, Default)]
pub struct MemoryNoticeStore {
    held: Mutex<Vec<(Notice, u64)>>,
    /// Breaks and mends it.
    pub switch: Switch,
}

#[async_trait]
impl NoticeStore for MemoryNoticeStore {
    async fn post(&self, notice: &Notice, _now_ms: u64, until_ms: u64) -> Result<(), StoreFault> {
        self.switch.pass().await?;
        self.held.lock().push((notice.clone(), until_ms));
        Ok(())
    }

    async fn notices(&self, cursor: u64, now_ms: u64) -> Result<(Vec<Notice>, u64), StoreFault> {
        self.switch.pass().await?;
        let held = self.held.lock();
        let newer = held.iter().skip(usize::try_from(cursor).unwrap_or(usize::MAX));
        let meant = newer.filter(|(_, until_ms)| *until_ms > now_ms).map(|(notice, _)| notice.clone());
        Ok((meant.collect(), held.len() as u64))
    }
}
