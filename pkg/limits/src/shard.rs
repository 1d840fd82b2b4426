//! A bounded table of keys that never forgets a charge.
//!
//! Only a key whose TAT has passed may be dropped, as that equals never having been seen. When all are live, a new key is
//! charged to one of a fixed number of overflow cells by its hash. Keys that share a cell share one quota, so the only
//! error is that some are refused early; when room comes, a key enters the table with its cell's TAT.

use crate::address::AddressKey;
use crate::quota::{Decision, Quota, Tat};
use ahash::RandomState;
use hashbrown::HashTable;

/// Overflow cells of a shard.
const CELLS: usize = 256;

/// One of the table's independent parts.
pub(crate) struct Shard {
    /// The keys held, and where each is. An index beside dense entries, because entries are swept often.
    index: HashTable<u32>,
    entries: Vec<(AddressKey, Tat)>,
    max_entries: usize,
    cells: Box<[Tat; CELLS]>,
    /// No held key can be dropped before this: TATs only grow, so the smallest one seen by a sweep bounds all later ones.
    sweep_from: Tat,
    /// The latest time seen. Threads may arrive a little out of order, and a dropped key must stay droppable.
    now_ns: u64,
}

/// A decision, and whether an overflow cell made it.
pub(crate) struct Outcome {
    pub(crate) decision: Decision,
    pub(crate) overflowed: bool,
}

impl Shard {
    /// A shard of at most `max_entries` keys. It allocates as it fills.
    pub(crate) fn new(max_entries: usize) -> Self {
        Self {
            index: HashTable::new(),
            entries: Vec::new(),
            max_entries,
            cells: Box::new([Tat::default(); CELLS]),
            sweep_from: Tat::default(),
            now_ns: 0,
        }
    }

    /// Judges `cost` units of `key`, whose hash under `hasher` is `hash`.
    pub(crate) fn check(
        &mut self,
        quota: &Quota,
        hasher: &RandomState,
        (key, hash): (AddressKey, u64),
        cost: u32,
        now_ns: u64,
    ) -> Outcome {
        self.now_ns = self.now_ns.max(now_ns);
        if let Some(&at) = self.index.find(hash, |&at| self.entries[at as usize].0 == key) {
            let tat = &mut self.entries[at as usize].1;
            let (decision, next) = quota.check(*tat, cost, self.now_ns);
            *tat = next.unwrap_or(*tat);
            return Outcome { decision, overflowed: false };
        }
        // It may have been charged there while the table was full.
        let cell = usize::from(hash.to_le_bytes()[2]);
        let (decision, next) = quota.check(self.cells[cell], cost, self.now_ns);
        let Some(next) = next else { return Outcome { decision, overflowed: false } };
        let overflowed = !self.has_room(quota, hasher);
        if overflowed {
            self.cells[cell] = next;
        } else {
            self.enter(hasher, (key, hash), next);
        }
        Outcome { decision, overflowed }
    }

    /// Number of keys held.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    fn enter(&mut self, hasher: &RandomState, (key, hash): (AddressKey, u64), tat: Tat) {
        let at = u32::try_from(self.entries.len()).expect("a shard is smaller than that");
        self.entries.push((key, tat));
        self.index.insert_unique(hash, at, |&at| hasher.hash_one(self.entries[at as usize].0));
        self.sweep_from = self.sweep_from.min(tat);
    }

    /// Whether there is room for one more key, after a sweep where one can help. A sweep drops all that may go, so under
    /// a flood of new keys it runs once for many of them.
    fn has_room(&mut self, quota: &Quota, hasher: &RandomState) -> bool {
        if self.entries.len() >= self.max_entries && quota.is_forgettable(self.sweep_from, self.now_ns) {
            self.sweep(quota, hasher);
        }
        self.entries.len() < self.max_entries
    }

    fn sweep(&mut self, quota: &Quota, hasher: &RandomState) {
        for at in (0..self.entries.len()).rev() {
            if quota.is_forgettable(self.entries[at].1, self.now_ns) {
                self.forget(hasher, at);
            }
        }
        self.sweep_from = self.entries.iter().map(|entry| entry.1).min().unwrap_or_default();
    }

    /// Drops the entry at `at`; the last one takes its place.
    fn forget(&mut self, hasher: &RandomState, at: usize) {
        let last = self.entries.len() - 1;
        if let Ok(found) = self.index.find_entry(hasher.hash_one(self.entries[at].0), |&held| held as usize == at) {
            let (place, _) = found.remove();
            if let Some(moved) =
                self.index.find_mut(hasher.hash_one(self.entries[last].0), |&held| held as usize == last)
            {
                *moved = place;
            }
        }
        self.entries.swap_remove(at);
    }
}

#[cfg(test)]
#[path = "shard_tests.rs"]
mod tests;
