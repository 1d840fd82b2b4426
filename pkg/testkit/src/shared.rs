//! A shared index in memory, and any shared index in the place of one that a process has for itself.

use crate::entries::MemoryEntryStore;
use crate::switch::Switch;
use async_trait::async_trait;
use parking_lot::Mutex;
use signet_cache::{
    CacheKey, EntryRow, EntryStore, HideKey, Near, Nearest, Neighbour, Place, SharedIndex, StoreFault, VectorIndex,
    VectorRow,
};
use signet_types::{EntryId, LineageId};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A [`SharedIndex`] beside durable entries in memory. It knows of replaced and swept entries; taking back and erasing is
/// between the tables of a real store.
#[derive(Debug, Default)]
pub struct MemorySharedIndex {
    /// The entries that it lies beside.
    pub entries: Arc<MemoryEntryStore>,
    rows: Mutex<BTreeMap<[u8; 32], VectorRow>>,
    /// Breaks and mends it.
    pub switch: Switch,
}

impl MemorySharedIndex {
    /// Every row, as an attacker who reads the table sees it.
    pub fn rows(&self) -> Vec<VectorRow> {
        self.rows.lock().values().cloned().collect()
    }

    fn is_of_an_entry(&self, row: &VectorRow) -> bool {
        self.entries.newest(&row.key).is_some_and(|entry| entry.id == row.id)
    }
}

#[async_trait]
impl SharedIndex for MemorySharedIndex {
    async fn put(&self, rows: &[VectorRow]) -> Result<(), StoreFault> {
        self.switch.pass().await?;
        for row in rows.iter().filter(|row| self.is_of_an_entry(row)) {
            self.rows.lock().insert(*row.key.as_bytes(), row.clone());
        }
        Ok(())
    }

    async fn missing(&self, keys: &[CacheKey], encoder: &[u8; 32]) -> Result<Vec<CacheKey>, StoreFault> {
        self.switch.pass().await?;
        let rows = self.rows.lock();
        let has = |key: &CacheKey| rows.get(key.as_bytes()).is_some_and(|row| row.encoder == *encoder);
        Ok(keys.iter().filter(|key| !has(key)).copied().collect())
    }

    async fn nearest(&self, wanted: Nearest) -> Result<Vec<Near>, StoreFault> {
        self.switch.pass().await?;
        let cosine = |other: &[f32]| other.iter().zip(&wanted.vector).map(|(a, b)| a * b).sum::<f32>().clamp(-1.0, 1.0);
        let here = |row: &VectorRow| row.place == wanted.place && row.expires_ms > wanted.now_ms;
        let rows = self.rows.lock();
        let found = rows.values().filter(|row| here(row) && self.is_of_an_entry(row)).map(|row| Near {
            key: row.key,
            similarity: cosine(&row.vector),
            question: row.question.clone(),
        });
        let mut found: Vec<_> = found.filter(|near| near.similarity >= wanted.floor).collect();
        found.sort_by(|a, b| b.similarity.total_cmp(&a.similarity));
        found.truncate(wanted.k);
        Ok(found)
    }

    async fn entry(&self, key: &CacheKey, now_ms: u64) -> Result<Option<Vec<u8>>, StoreFault> {
        self.switch.pass().await?;
        Ok(self.entries.newest(key).filter(|row| row.expires_ms > now_ms).map(|row| row.sealed))
    }
}

/// When all of it happens.
const NOW: u64 = 1_700_000_000_000;

/// A [`VectorIndex`] over a shared one, so that both keep one contract: it stores an entry for each vector, and replaces that
/// entry to remove it. What was to be done is done before the next search.
pub struct OverShared {
    index: Arc<dyn SharedIndex>,
    entries: Arc<dyn EntryStore>,
    hide: HideKey,
    steps: Mutex<Vec<Step>>,
    ids: Mutex<HashMap<CacheKey, EntryId>>,
}

enum Step {
    Insert(Box<(EntryRow, VectorRow)>),
    Remove(EntryRow),
}

impl OverShared {
    /// Over `index`, which lies beside `entries`; epoch 1 of every tenant's key must be stored there.
    pub fn new(index: Arc<dyn SharedIndex>, entries: Arc<dyn EntryStore>) -> Self {
        Self { index, entries, hide: HideKey::derive(&[7; 32]), steps: Mutex::default(), ids: Mutex::default() }
    }

    fn entry(place: &Place, id: EntryId, age: u64) -> EntryRow {
        let name = [&place.bucket.to_be_bytes()[..], id.as_bytes()].concat();
        EntryRow {
            id: EntryId::generate(NOW),
            key: CacheKey::derive(&place.partition, &name),
            partition: *place.partition.as_bytes(),
            tenant: place.partition.tenant(),
            created_ms: NOW + age,
            expires_ms: NOW + 60_000,
            sealed: Vec::new(),
        }
    }

    async fn catch_up(&self) -> Result<(), StoreFault> {
        let steps = std::mem::take(&mut *self.steps.lock());
        for step in steps {
            match step {
                Step::Insert(both) => {
                    self.entries.put(&[both.0]).await?;
                    self.index.put(&[both.1]).await?;
                }
                Step::Remove(entry) => self.entries.put(&[entry]).await?,
            }
        }
        Ok(())
    }
}

#[async_trait]
impl VectorIndex for OverShared {
    fn insert(&self, place: &Place, id: EntryId, vector: &[f32]) {
        let Some(hidden) = self.hide.vector("contract", vector) else { return };
        let mut steps = self.steps.lock();
        let entry = Self::entry(place, id, steps.len() as u64);
        self.ids.lock().insert(entry.key, id);
        let row = VectorRow {
            key: entry.key,
            id: entry.id,
            tenant: entry.tenant,
            epoch: 1,
            created_ms: entry.created_ms,
            expires_ms: entry.expires_ms,
            source: LineageId::from_bytes(*entry.id.as_bytes()),
            model: [0; 32],
            namespace: [0; 32],
            encoder: [0; 32],
            place: self.hide.place(place, "contract", hidden.len()),
            question: Vec::new(),
            vector: hidden,
        };
        steps.push(Step::Insert(Box::new((entry, row))));
    }

    async fn nearest(&self, place: &Place, vector: &[f32], k: usize, floor: f32) -> Vec<Neighbour> {
        self.catch_up().await.expect("the index takes rows");
        let Some(vector) = self.hide.vector("contract", vector) else { return Vec::new() };
        let place = self.hide.place(place, "contract", vector.len());
        let wanted = Nearest { place, vector, k, floor, now_ms: NOW };
        let near = self.index.nearest(wanted).await.expect("the index answers");
        let ids = self.ids.lock();
        near.iter().map(|near| Neighbour { id: ids[&near.key], similarity: near.similarity }).collect()
    }

    fn remove(&self, place: &Place, id: EntryId) {
        let mut steps = self.steps.lock();
        let entry = Self::entry(place, id, 1_000 + steps.len() as u64);
        steps.push(Step::Remove(entry));
    }

    fn len(&self) -> usize {
        self.ids.lock().len()
    }
}
