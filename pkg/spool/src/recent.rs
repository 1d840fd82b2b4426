//! The newest records in RAM, and the seqs of more of the newest ids.

use signet_lineage::Record;
use signet_types::LineageId;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Seqs that are remembered beyond the records themselves, about 60 bytes each.
const IDS: usize = 1 << 16;

/// Bytes that a record takes in RAM, roughly.
pub(crate) fn weight(record: &Record) -> u64 {
    record.payload.len() as u64 + 256
}

/// Invariant: `records` are contiguous in seq.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    records: VecDeque<Arc<Record>>,
    bytes: u64,
    seqs: HashMap<LineageId, u64>,
    order: VecDeque<(LineageId, u64)>,
}

impl Recent {
    pub(crate) fn push(&mut self, record: Arc<Record>) {
        self.remember(record.id, record.seq);
        self.bytes += weight(&record);
        self.records.push_back(record);
    }

    /// Remembers where a record is without holding it.
    pub(crate) fn remember(&mut self, id: LineageId, seq: u64) {
        self.seqs.insert(id, seq);
        self.order.push_back((id, seq));
        while self.order.len() > IDS.max(self.records.len() + 1) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some((id, seq)) = self.order.pop_front() else { return };
        if self.seqs.get(&id) == Some(&seq) {
            self.seqs.remove(&id);
        }
    }

    /// The seq of a newly appended id, if it is still remembered.
    pub(crate) fn seq_of(&self, id: LineageId) -> Option<u64> {
        self.seqs.get(&id).copied()
    }

    pub(crate) fn get(&self, seq: u64) -> Option<&Arc<Record>> {
        let first = self.records.front()?.seq;
        self.records.get(usize::try_from(seq.checked_sub(first)?).ok()?)
    }

    /// Records from `from` up to and without `below`, within both bounds, at least one; empty if `from` is not held.
    pub(crate) fn range(&self, from: u64, below: u64, max_records: usize, max_bytes: usize) -> Vec<Arc<Record>> {
        let mut taken = Vec::new();
        let mut bytes = 0;
        let mut seq = from;
        while let Some(record) = self.get(seq).filter(|r| r.seq < below && taken.len() < max_records) {
            bytes += record.payload.len();
            if bytes > max_bytes && !taken.is_empty() {
                break;
            }
            taken.push(Arc::clone(record));
            seq += 1;
        }
        taken
    }

    pub(crate) fn front(&self) -> Option<&Arc<Record>> {
        self.records.front()
    }

    pub(crate) fn pop(&mut self) -> Option<Arc<Record>> {
        let record = self.records.pop_front()?;
        self.bytes -= weight(&record);
        Some(record)
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }
}
