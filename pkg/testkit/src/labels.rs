//! Labels in memory.

use crate::switch::Switch;
use async_trait::async_trait;
use parking_lot::Mutex;
use signet_cache::{Finding, LabelRow, LabelStore, StoreFault};

/// A [`LabelStore`].
#[derive(Debug, Default)]
pub struct MemoryLabelStore {
    /// Each with its place in the order of appearance, from 1.
    held: Mutex<(u64, Vec<(u64, LabelRow)>)>,
    /// Breaks and mends it.
    pub switch: Switch,
}

fn kind(row: &LabelRow) -> Option<&'static str> {
    match &row.finding {
        Finding::Label(label) => Some(label.verdict.as_str()),
        Finding::Reset => None,
    }
}

#[async_trait]
impl LabelStore for MemoryLabelStore {
    async fn add(&self, rows: &[LabelRow], keep: u32) -> Result<(), StoreFault> {
        self.switch.pass().await?;
        let (last, held) = &mut *self.held.lock();
        for row in rows {
            if !held.iter().any(|(_, known)| known.of == row.of) {
                *last += 1;
                held.push((*last, row.clone()));
            }
            let alike = |other: &LabelRow| other.route == row.route && kind(other) == kind(row);
            let surplus = held.iter().filter(|(_, other)| alike(other)).count().saturating_sub(keep as usize);
            let oldest: Vec<u64> =
                held.iter().filter(|(_, other)| alike(other)).take(surplus).map(|(at, _)| *at).collect();
            held.retain(|(at, _)| !oldest.contains(at));
        }
        Ok(())
    }

    async fn labels(&self, cursor: u64, limit: u32) -> Result<(Vec<LabelRow>, u64), StoreFault> {
        self.switch.pass().await?;
        let held = self.held.lock();
        let page: Vec<_> = held.1.iter().filter(|(at, _)| *at > cursor).take(limit as usize).collect();
        let behind = page.last().map_or(cursor, |(at, _)| *at);
        Ok((page.into_iter().map(|(_, row)| row.clone()).collect(), behind))
    }
}
