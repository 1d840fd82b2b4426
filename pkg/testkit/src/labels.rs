//! Labels in memory.

use crate::switch::Switch;
use async_trait::async_trait;
use parking_lot::Mutex;
use signet_cache::{Evidence, Finding, LabelRow, LabelStore, Mark, RouteId, StoreFault};

/// A [`LabelStore`].
#[derive(Debug, Default)]
pub struct MemoryLabelStore {
    /// Each with its place in the order of appearance, from 1.
    held: Mutex<(u64, Vec<(u64, LabelRow)>)>,
    marks: Mutex<Vec<(RouteId, Mark)>>,
    /// Breaks and mends it.
    pub switch: Switch,
}

fn is_complaint(row: &LabelRow) -> bool {
    matches!(&row.finding, Finding::Label(label) if label.evidence == Evidence::Feedback)
}

#[async_trait]
impl LabelStore for MemoryLabelStore {
    async fn add(&self, rows: &[LabelRow]) -> Result<(), StoreFault> {
        self.switch.pass().await?;
        let (last, held) = &mut *self.held.lock();
        for row in rows {
            if !held.iter().any(|(_, known)| known.of == row.of) {
                *last += 1;
                held.push((*last, row.clone()));
            }
        }
        Ok(())
    }

    async fn labels(&self, cursor: u64, limit: u32) -> Result<(Vec<(u64, LabelRow)>, u64), StoreFault> {
        self.switch.pass().await?;
        let held = self.held.lock();
        let page: Vec<_> = held.1.iter().filter(|(at, _)| *at > cursor).take(limit as usize).collect();
        let behind = page.last().map_or(cursor, |(at, _)| *at);
        Ok((page.into_iter().cloned().collect(), behind))
    }

    async fn mark(&self, route: &RouteId, mark: &Mark, keep: u32) -> Result<(), StoreFault> {
        self.switch.pass().await?;
        let (_, held) = &mut *self.held.lock();
        let mut marks = self.marks.lock();
        if !marks.iter().any(|(known, held)| known == route && held.upto >= mark.upto) {
            marks.retain(|(known, _)| known != route);
            marks.push((route.clone(), *mark));
        }
        let within = |(number, row): &(u64, LabelRow)| *number <= mark.upto && row.route == *route;
        let resets = held.iter().filter(|row| within(row) && row.1.finding == Finding::Reset);
        let reset = resets.map(|(number, _)| *number).max().unwrap_or(0);
        held.retain(|row| !within(row) || row.0 >= reset);
        for complaint in [false, true] {
            let alike = |row: &(u64, LabelRow)| within(row) && is_complaint(&row.1) == complaint;
            let mut surplus = held.iter().filter(|row| alike(row)).count().saturating_sub(keep as usize);
            held.retain(|row| {
                let goes = surplus > 0 && alike(row);
                surplus -= usize::from(goes);
                !goes
            });
        }
        Ok(())
    }

    async fn marks(&self) -> Result<Vec<(RouteId, Mark)>, StoreFault> {
        self.switch.pass().await?;
        Ok(self.marks.lock().clone())
    }
}
