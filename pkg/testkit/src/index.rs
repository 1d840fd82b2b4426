//! Vector search as its definition says it.

use async_trait::async_trait;
use parking_lot::RwLock;
use signet_cache::{Neighbour, Place, VectorIndex};
use signet_types::EntryId;

type Row = (Place, EntryId, Box<[f32]>);

/// A [`VectorIndex`] that compares with every vector it holds; all are of unit length.
#[derive(Debug, Default)]
pub struct BruteForceIndex {
    held: RwLock<Vec<Row>>,
    leaky: bool,
}

impl BruteForceIndex {
    /// An index that breaks its contract: it finds vectors of every place.
    pub fn leaky() -> Self {
        Self { leaky: true, ..Self::default() }
    }
}

impl BruteForceIndex {
    /// At most `k` neighbours at or over `floor`, most similar first.
    pub fn nearest(&self, place: &Place, vector: &[f32], k: usize, floor: f32) -> Vec<Neighbour> {
        if !has_direction(vector) {
            return Vec::new();
        }
        let held = self.held.read();
        let here = held.iter().filter(|(at, _, other)| (self.leaky || at == place) && other.len() == vector.len());
        let cosine = |other: &[f32]| other.iter().zip(vector).map(|(a, b)| a * b).sum::<f32>().clamp(-1.0, 1.0);
        let mut found: Vec<_> = here.map(|(_, id, other)| Neighbour { id: *id, similarity: cosine(other) }).collect();
        found.retain(|neighbour| neighbour.similarity >= floor);
        found.sort_by(|a, b| b.similarity.total_cmp(&a.similarity));
        found.truncate(k);
        found
    }
}

fn has_direction(vector: &[f32]) -> bool {
    vector.iter().map(|x| x * x).sum::<f32>().is_normal()
}

#[async_trait]
impl VectorIndex for BruteForceIndex {
    fn insert(&self, place: &Place, id: EntryId, vector: &[f32]) {
        if !has_direction(vector) {
            return;
        }
        let mut held = self.held.write();
        held.retain(|(at, known, _)| (at, *known) != (place, id));
        held.push((*place, id, vector.into()));
    }

    async fn nearest(&self, place: &Place, vector: &[f32], k: usize, floor: f32) -> Vec<Neighbour> {
        Self::nearest(self, place, vector, k, floor)
    }

    fn remove(&self, place: &Place, id: EntryId) {
        self.held.write().retain(|(at, known, _)| (at, *known) != (place, id));
    }

    fn len(&self) -> usize {
        self.held.read().len()
    }
}
