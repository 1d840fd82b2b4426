//! The rows of one place: contiguous int8, so that a scan is one walk over memory.

use crate::dot::{LANES, dots};
use signet_cache::Neighbour;
use signet_types::EntryId;
use std::collections::HashMap;

/// Dimensions of the largest vector: 127² · 16,384 is far inside an i32.
pub(crate) const MAX_DIMS: usize = 16_384;
/// Rows scored at a time; at 256 dimensions they fill half of a first-level cache.
const BLOCK: usize = 64;

/// A vector rounded to int8. Its own length after rounding is kept, so that a vector's similarity to itself is 1.
pub(crate) struct Quantised {
    row: Vec<i8>,
    inverse_norm: f32,
    dims: usize,
}

impl Quantised {
    /// None for a vector without a direction: empty, zero, or holding NaN or infinity; and for one over [`MAX_DIMS`].
    pub(crate) fn of(vector: &[f32]) -> Option<Self> {
        let largest = vector.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
        let usable = largest > 0.0 && vector.iter().all(|x| x.is_finite()) && vector.len() <= MAX_DIMS;
        if !usable {
            return None;
        }
        let mut row = vec![0; vector.len().next_multiple_of(LANES)];
        for (row, x) in row.iter_mut().zip(vector) {
            let scaled = x / largest * 127.0;
            // To the nearest, without `round`, which is a call into libm where SSE4.1 is not taken for granted.
            #[expect(clippy::cast_possible_truncation, reason = "within ±127.5 by the division")]
            let rounded = (scaled + 0.5f32.copysign(scaled)) as i8;
            *row = rounded;
        }
        let square: f32 = row.iter().map(|&x| f32::from(x) * f32::from(x)).sum();
        Some(Self { row, inverse_norm: square.sqrt().recip(), dims: vector.len() })
    }
}

/// Vectors of one length, with their ids.
pub(crate) struct Matrix {
    dims: usize,
    stride: usize,
    rows: Vec<i8>,
    inverse_norms: Vec<f32>,
    ids: Vec<EntryId>,
    ages: Vec<u64>,
    by_id: HashMap<EntryId, usize, ahash::RandomState>,
}

impl Matrix {
    /// An empty matrix for vectors as long as `first`.
    pub(crate) fn for_rows_like(first: &Quantised) -> Self {
        Self {
            dims: first.dims,
            stride: first.row.len(),
            rows: Vec::new(),
            inverse_norms: Vec::new(),
            ids: Vec::new(),
            ages: Vec::new(),
            by_id: HashMap::default(),
        }
    }

    /// Whether `vector` is as long as this matrix's rows.
    pub(crate) const fn fits(&self, vector: &Quantised) -> bool {
        self.dims == vector.dims
    }

    /// Adds or replaces a row that fits; the age of the row that it replaced.
    pub(crate) fn put(&mut self, id: EntryId, age: u64, vector: &Quantised) -> Option<u64> {
        debug_assert!(self.fits(vector));
        if let Some(&at) = self.by_id.get(&id) {
            self.rows[at * self.stride..][..self.stride].copy_from_slice(&vector.row);
            self.inverse_norms[at] = vector.inverse_norm;
            return Some(std::mem::replace(&mut self.ages[at], age));
        }
        self.by_id.insert(id, self.ids.len());
        self.rows.extend_from_slice(&vector.row);
        self.inverse_norms.push(vector.inverse_norm);
        self.ids.push(id);
        self.ages.push(age);
        None
    }

    /// Removes a row; its age. The last row takes its place.
    pub(crate) fn remove(&mut self, id: EntryId) -> Option<u64> {
        let at = self.by_id.remove(&id)?;
        let last = self.ids.len() - 1;
        self.rows.copy_within(last * self.stride.., at * self.stride);
        self.rows.truncate(last * self.stride);
        self.inverse_norms.swap_remove(at);
        self.ids.swap_remove(at);
        if at < last {
            self.by_id.insert(self.ids[at], at);
        }
        let age = self.ages.swap_remove(at);
        self.give_back_memory();
        Some(age)
    }

    /// Keeps the memory of a place that has shrunk in proportion to what it holds.
    fn give_back_memory(&mut self) {
        if self.ids.len() >= BLOCK && self.ids.len() < self.ids.capacity() / 4 {
            self.rows.shrink_to_fit();
            self.inverse_norms.shrink_to_fit();
            self.ids.shrink_to_fit();
            self.ages.shrink_to_fit();
            self.by_id.shrink_to_fit();
        }
    }

    /// Whether no row is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// At most `k` rows at or over `floor`, most similar first and, of equals, the youngest first.
    pub(crate) fn nearest(&self, query: &Quantised, k: usize, floor: f32) -> Vec<Neighbour> {
        let wide: Vec<i16> = query.row.iter().map(|&x| i16::from(x)).collect();
        let mut best = Best { k, floor, found: Vec::new() };
        let mut products = [0; BLOCK];
        for (block, rows) in self.rows.chunks(BLOCK * self.stride).enumerate() {
            let products = &mut products[..rows.len() / self.stride];
            dots(rows, &wide, products);
            let first = block * BLOCK;
            for (at, (&product, norm)) in products.iter().zip(&self.inverse_norms[first..]).enumerate() {
                let cosine = product as f32 * norm * query.inverse_norm;
                best.offer(cosine.clamp(-1.0, 1.0), self.ages[first + at], self.ids[first + at]);
            }
        }
        best.found.into_iter().map(|(similarity, _, id)| Neighbour { id, similarity }).collect()
    }
}

/// The best so far, in order. `k` is a handful, so insertion into a sorted list is the cheapest heap.
struct Best {
    k: usize,
    floor: f32,
    found: Vec<(f32, u64, EntryId)>,
}

impl Best {
    fn offer(&mut self, similarity: f32, age: u64, id: EntryId) {
        let reaches = similarity >= self.floor; // false where either is NaN
        if !reaches || self.k == 0 {
            return;
        }
        let at = self.found.partition_point(|&(s, a, _)| s > similarity || (s >= similarity && a > age));
        if at < self.k {
            self.found.truncate(self.k - 1);
            self.found.insert(at, (similarity, age, id));
        }
    }
}
