//! The rows of one place, and the two ways to search them.
//!
//! Up to some thousands, every int8 row is scored: a walk over contiguous memory. From there a scan of one-bit codes, an
//! eighth of the memory, picks the rows that are scored. A graph index would be faster yet at millions, but charges each
//! insert about a millisecond.
//!
//! Rows lie in chunks, so that growing never copies more than one of them.

use crate::dot::dots;
use crate::quantised::Quantised;
use crate::{hamming, sketch};
use signet_cache::Neighbour;
use signet_types::EntryId;
use std::collections::BTreeMap;

/// Rows scored at a time; at 256 dimensions they fill half of a first-level cache.
const BLOCK: usize = 64;
/// Rows in a chunk.
const CHUNK: usize = 1024;
/// Rows from which the codes are scanned first.
const COARSE_FROM: usize = 4096;
/// Most rows that are scored after a scan of the codes, the nearest by their code first.
const MOST_SCORED: usize = 512;
/// What asks for more neighbours, or for farther ones, has every row scored.
const COARSE_K: usize = 32;
const COARSE_FLOOR: f32 = 0.5;

/// Vectors of one length, with their ids.
pub(crate) struct Matrix {
    dims: usize,
    chunks: Vec<Chunk>,
    len: usize,
    /// A tree, because a hash table stops every now and then to move all it has.
    by_id: BTreeMap<EntryId, u32>,
}

/// Up to [`CHUNK`] rows; only a matrix's last chunk has fewer.
#[derive(Default)]
struct Chunk {
    rows: Vec<i8>,
    codes: Vec<u64>,
    inverse_norms: Vec<f32>,
    ids: Vec<EntryId>,
    ages: Vec<u64>,
}

impl Matrix {
    /// An empty matrix for vectors as long as `first`.
    pub(crate) fn for_rows_like(first: &Quantised) -> Self {
        Self { dims: first.dims, chunks: Vec::new(), len: 0, by_id: BTreeMap::new() }
    }

    /// Whether `vector` is as long as this matrix's rows.
    pub(crate) const fn fits(&self, vector: &Quantised) -> bool {
        self.dims == vector.dims
    }

    /// Whether no row is left.
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds or replaces a row that fits; the age of the row that it replaced.
    pub(crate) fn put(&mut self, id: EntryId, age: u64, vector: &Quantised) -> Option<u64> {
        debug_assert!(self.fits(vector));
        if let Some(&at) = self.by_id.get(&id) {
            let (chunk, slot) = split(at);
            return Some(self.chunks[chunk].replace(slot, age, vector));
        }
        let (chunk, _) = split(position(self.len));
        if chunk == self.chunks.len() {
            self.chunks.push(Chunk::default());
        }
        self.chunks[chunk].push(id, age, vector);
        self.by_id.insert(id, position(self.len));
        self.len += 1;
        None
    }

    /// Removes a row; its age. The last row takes its place.
    pub(crate) fn remove(&mut self, id: EntryId) -> Option<u64> {
        let at = self.by_id.remove(&id)?;
        let (chunk, slot) = split(at);
        let age = self.chunks[chunk].ages[slot];
        let mut last = self.chunks.pop().expect("it holds the row, or a later one");
        let hole = if chunk == self.chunks.len() { None } else { Some(&mut self.chunks[chunk]) };
        if let Some(moved) = last.give_last_to(slot, hole) {
            self.by_id.insert(moved, at);
        }
        self.len -= 1;
        last.give_back_memory();
        if !last.ids.is_empty() {
            self.chunks.push(last);
        }
        Some(age)
    }

    /// At most `k` rows at or over `floor`, most similar first and, of equals, the youngest first.
    ///
    /// In a large matrix about one in a thousand of those that lie just over the floor is not found, fewer the nearer;
    /// and where over [`MOST_SCORED`] are near, the `k` found may be others of them than the nearest.
    pub(crate) fn nearest(&self, query: &Quantised, k: usize, floor: f32) -> Vec<Neighbour> {
        let wide: Vec<i16> = query.row.iter().map(|&x| i16::from(x)).collect();
        let mut best = Best { query, wide: &wide, k, floor, found: Vec::new() };
        if self.len >= COARSE_FROM && k <= COARSE_K && floor >= COARSE_FLOOR {
            self.offer_near(&mut best);
        } else {
            for chunk in &self.chunks {
                best.offer_all(chunk);
            }
        }
        best.found.into_iter().map(|(similarity, _, id)| Neighbour { id, similarity }).collect()
    }

    /// Offers the rows whose codes are near.
    fn offer_near(&self, best: &mut Best<'_>) {
        let mut code = Vec::new();
        sketch::append(&best.query.row, &mut code);
        let mut limit = sketch::limit(code.len() * u64::BITS as usize, best.floor);
        let mut near = Vec::new();
        for (chunk, first) in self.chunks.iter().zip((0..).step_by(CHUNK)) {
            hamming::within(&chunk.codes, &code, limit, first, &mut near);
            if near.len() > MOST_SCORED {
                let (_, &mut (farthest, _), _) = near.select_nth_unstable(MOST_SCORED - 1);
                near.truncate(MOST_SCORED);
                limit = farthest;
            }
        }
        for (_, at) in near {
            let (chunk, slot) = split(at);
            best.offer(&self.chunks[chunk], slot..slot + 1);
        }
    }
}

/// A row's number: a matrix holds fewer than 2^32, which would be a terabyte.
fn position(row: usize) -> u32 {
    u32::try_from(row).expect("a terabyte of rows")
}

/// The chunk of row `at`, and where the row is in it.
const fn split(at: u32) -> (usize, usize) {
    (at as usize / CHUNK, at as usize % CHUNK)
}

impl Chunk {
    fn push(&mut self, id: EntryId, age: u64, vector: &Quantised) {
        self.rows.extend_from_slice(&vector.row);
        sketch::append(&vector.row, &mut self.codes);
        self.inverse_norms.push(vector.inverse_norm);
        self.ids.push(id);
        self.ages.push(age);
    }

    /// The age of what was there.
    fn replace(&mut self, slot: usize, age: u64, vector: &Quantised) -> u64 {
        let mut code = Vec::new();
        sketch::append(&vector.row, &mut code);
        self.rows[slot * vector.row.len()..][..vector.row.len()].copy_from_slice(&vector.row);
        self.codes[slot * code.len()..][..code.len()].copy_from_slice(&code);
        self.inverse_norms[slot] = vector.inverse_norm;
        std::mem::replace(&mut self.ages[slot], age)
    }

    /// Takes the last row off and writes it over row `slot` of `hole`, or of this chunk itself; the id of the row that
    /// has so moved.
    fn give_last_to(&mut self, slot: usize, hole: Option<&mut Self>) -> Option<EntryId> {
        let last = self.ids.len() - 1;
        let (stride, words) = (self.rows.len() / (last + 1), self.codes.len() / (last + 1));
        let moved = (hole.is_some() || slot < last).then(|| self.ids[last]);
        if let Some(hole) = hole {
            hole.rows[slot * stride..][..stride].copy_from_slice(&self.rows[last * stride..]);
            hole.codes[slot * words..][..words].copy_from_slice(&self.codes[last * words..]);
            hole.inverse_norms[slot] = self.inverse_norms[last];
            hole.ids[slot] = self.ids[last];
            hole.ages[slot] = self.ages[last];
        } else {
            self.rows.copy_within(last * stride.., slot * stride);
            self.codes.copy_within(last * words.., slot * words);
            self.inverse_norms.swap(slot, last);
            self.ids.swap(slot, last);
            self.ages.swap(slot, last);
        }
        self.rows.truncate(last * stride);
        self.codes.truncate(last * words);
        self.inverse_norms.truncate(last);
        self.ids.truncate(last);
        self.ages.truncate(last);
        moved
    }

    /// Keeps the memory of a place that has shrunk in proportion to what it holds.
    fn give_back_memory(&mut self) {
        if self.ids.len() >= BLOCK && self.ids.len() < self.ids.capacity() / 4 {
            self.rows.shrink_to_fit();
            self.codes.shrink_to_fit();
            self.inverse_norms.shrink_to_fit();
            self.ids.shrink_to_fit();
            self.ages.shrink_to_fit();
        }
    }
}

/// A search: the query, and the best rows so far in order. `k` is a handful, so insertion into a sorted list is the
/// cheapest heap.
struct Best<'a> {
    query: &'a Quantised,
    wide: &'a [i16],
    k: usize,
    floor: f32,
    found: Vec<(f32, u64, EntryId)>,
}

impl Best<'_> {
    fn offer_all(&mut self, chunk: &Chunk) {
        let rows = chunk.ids.len();
        for first in (0..rows).step_by(BLOCK) {
            self.offer(chunk, first..rows.min(first + BLOCK));
        }
    }

    /// Scores at most [`BLOCK`] rows of `chunk`.
    fn offer(&mut self, chunk: &Chunk, rows: std::ops::Range<usize>) {
        let mut products = [0; BLOCK];
        let products = &mut products[..rows.len()];
        let stride = self.wide.len();
        dots(&chunk.rows[rows.start * stride..rows.end * stride], self.wide, products);
        for (at, &product) in rows.zip(&*products) {
            let cosine = product as f32 * chunk.inverse_norms[at] * self.query.inverse_norm;
            self.insert(cosine.clamp(-1.0, 1.0), chunk.ages[at], chunk.ids[at]);
        }
    }

    fn insert(&mut self, similarity: f32, age: u64, id: EntryId) {
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
