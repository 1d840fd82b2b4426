//! Vector search by scanning the rows of one place.

use crate::matrix::Matrix;
use crate::quantised::Quantised;
use ahash::RandomState;
use async_trait::async_trait;
use parking_lot::RwLock;
use signet_cache::{Neighbour, Place, VectorIndex};
use signet_types::EntryId;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const SHARDS: usize = 16;
/// The age of a shard that holds nothing: younger than all.
const NOTHING: u64 = u64::MAX;

/// Vectors in memory, scanned place by place. The order of writes is kept: at `max_entries` the oldest vector of the
/// whole index goes, whichever place it is in; a replaced vector counts as new.
///
/// The bound is exact once concurrent inserts have returned; while they run it is exceeded by at most one each.
/// A vector that is empty, zero, not finite, over 16,384 long, or of another length than its place's first one is not
/// stored and finds nothing. Similarities are of int8-rounded vectors: off from f32 by under 0.01, and 1 for equal ones.
///
/// From 4,096 vectors in a place, a search reads one-bit codes first and scores what is near by them: at least 99 of 100
/// neighbours over the floor are found (`tests/recall.rs`), and what is found is scored as everywhere.
///
/// A vector of 256 dimensions takes about 500 bytes (256 the row, 32 its code, 4 its length, 16 + 8 id and age, about 40
/// the id's place in the tree, about 120 its place in the order), and no insert moves more than one chunk of 1,024 rows.
/// A place costs about 600 bytes more.
pub struct FlatIndex {
    shards: Vec<Shard>,
    hasher: RandomState,
    max_entries: usize,
    len: AtomicUsize,
    clock: AtomicU64,
}

#[derive(Default)]
struct Shard {
    held: RwLock<Held>,
    /// The age of the oldest vector held, written under the lock, read without it.
    oldest: AtomicU64,
}

#[derive(Default)]
struct Held {
    places: HashMap<Place, Matrix, RandomState>,
    by_age: BTreeMap<u64, (Place, EntryId)>,
}

impl FlatIndex {
    /// An index of at most `max_entries` vectors.
    pub fn new(max_entries: usize) -> Self {
        let empty = || Shard { oldest: AtomicU64::new(NOTHING), ..Shard::default() };
        Self {
            shards: std::iter::repeat_with(empty).take(SHARDS).collect(),
            hasher: RandomState::new(),
            max_entries,
            len: AtomicUsize::new(0),
            clock: AtomicU64::new(0),
        }
    }

    fn shard(&self, place: &Place) -> &Shard {
        let hash = self.hasher.hash_one(place);
        &self.shards[usize::try_from(hash % SHARDS as u64).expect("below SHARDS")]
    }

    /// Removes the oldest vectors that are too many. The count goes down under the lock that keeps the vector there, so
    /// that no thread removes one too many and the count is never under the truth.
    fn evict_excess(&self) {
        let claim = |len: usize| (len > self.max_entries).then(|| len - 1);
        while self.len() > self.max_entries {
            let ages = self.shards.iter().map(|shard| (shard.oldest.load(Ordering::Acquire), shard));
            let (age, shard) = ages.min_by_key(|&(age, _)| age).expect("there are shards");
            if age == NOTHING {
                return; // what is too many is just being inserted, by a thread that comes here next
            }
            shard.change(|held| {
                let oldest = held.by_age.first_key_value().map(|(_, &oldest)| oldest);
                if let Some((place, id)) = oldest
                    && self.len.fetch_update(Ordering::AcqRel, Ordering::Acquire, claim).is_ok()
                {
                    held.remove(&place, id);
                }
            });
        }
    }
}

impl Shard {
    /// Runs `work` under the write lock and publishes the oldest age behind it.
    fn change<T>(&self, work: impl FnOnce(&mut Held) -> T) -> T {
        let mut held = self.held.write();
        let outcome = work(&mut held);
        self.oldest.store(held.by_age.keys().next().copied().unwrap_or(NOTHING), Ordering::Release);
        outcome
    }
}

impl Held {
    /// Whether there is now one vector more.
    fn put(&mut self, place: Place, id: EntryId, age: u64, vector: &Quantised) -> bool {
        let matrix = self.places.entry(place).or_insert_with(|| Matrix::for_rows_like(vector));
        if !matrix.fits(vector) {
            return false;
        }
        let replaced = matrix.put(id, age, vector);
        self.by_age.insert(age, (place, id));
        if let Some(age) = replaced {
            self.by_age.remove(&age);
        }
        replaced.is_none()
    }

    fn remove(&mut self, place: &Place, id: EntryId) -> bool {
        let Some(matrix) = self.places.get_mut(place) else { return false };
        let Some(age) = matrix.remove(id) else { return false };
        if matrix.is_empty() {
            self.places.remove(place);
        }
        self.by_age.remove(&age);
        true
    }
}

impl FlatIndex {
    /// At most `k` neighbours at or over `floor`, most similar first.
    pub fn nearest(&self, place: &Place, vector: &[f32], k: usize, floor: f32) -> Vec<Neighbour> {
        let Some(vector) = Quantised::of(vector) else { return Vec::new() };
        let held = self.shard(place).held.read();
        let matrix = held.places.get(place).filter(|matrix| matrix.fits(&vector));
        matrix.map_or_else(Vec::new, |matrix| matrix.nearest(&vector, k, floor))
    }
}

#[async_trait]
impl VectorIndex for FlatIndex {
    fn insert(&self, place: &Place, id: EntryId, vector: &[f32]) {
        let Some(vector) = Quantised::of(vector) else { return };
        self.shard(place).change(|held| {
            // Taken under the lock, so that ages rise within a shard in the order of the writes.
            let age = self.clock.fetch_add(1, Ordering::Relaxed);
            if held.put(*place, id, age, &vector) {
                self.len.fetch_add(1, Ordering::AcqRel);
            }
        });
        self.evict_excess();
    }

    async fn nearest(&self, place: &Place, vector: &[f32], k: usize, floor: f32) -> Vec<Neighbour> {
        Self::nearest(self, place, vector, k, floor)
    }

    fn remove(&self, place: &Place, id: EntryId) {
        self.shard(place).change(|held| {
            if held.remove(place, id) {
                self.len.fetch_sub(1, Ordering::AcqRel);
            }
        });
    }

    fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }
}

impl fmt::Debug for FlatIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlatIndex")
            .field("len", &self.len())
            .field("max_entries", &self.max_entries)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
