//! Inclusion and consistency proofs, as RFC 6962 §2.1.1 and §2.1.2 define them.

use crate::tree::node_hash;

type Hash = [u8; 32];

/// Where the roots of perfect subtrees come from: tiles on disk, rows of a database, memory.
pub trait Subtrees {
    /// Why a hash could not be had.
    type Fault;
    /// The root over the leaves `index << level .. (index + 1) << level`, all of which exist.
    ///
    /// # Errors
    /// The hash could not be read.
    fn root(&mut self, level: u32, index: u64) -> Result<Hash, Self::Fault>;
}

/// The proof that the leaf at `index` is in the tree of the first `size` leaves: the siblings from the leaf upwards.
///
/// # Errors
/// A hash could not be read.
///
/// # Panics
/// `index` is not below `size`.
pub fn inclusion<S: Subtrees>(from: &mut S, index: u64, size: u64) -> Result<Vec<Hash>, S::Fault> {
    assert!(index < size, "a leaf of the tree");
    let (mut proof, mut start, mut end) = (Vec::new(), 0, size);
    // From the root downwards; the proof is read from the leaf upwards.
    while end - start > 1 {
        let middle = start + split(end - start);
        if index < middle {
            proof.push(range(from, middle, end)?);
            end = middle;
        } else {
            proof.push(range(from, start, middle)?);
            start = middle;
        }
    }
    proof.reverse();
    Ok(proof)
}

/// The proof that the tree of the first `old` leaves is the beginning of that of the first `size`. Empty if `old` is zero
/// or `size`.
///
/// # Errors
/// A hash could not be read.
///
/// # Panics
/// `old` is over `size`.
pub fn consistency<S: Subtrees>(from: &mut S, old: u64, size: u64) -> Result<Vec<Hash>, S::Fault> {
    assert!(old <= size, "a tree does not shrink");
    if old == 0 || old == size {
        return Ok(Vec::new());
    }
    let (mut proof, mut start, mut end) = (Vec::new(), 0, size);
    while end != old {
        let middle = start + split(end - start);
        if old <= middle {
            proof.push(range(from, middle, end)?);
            end = middle;
        } else {
            proof.push(range(from, start, middle)?);
            start = middle;
        }
    }
    // Who checks knows the root of the old tree, but not that of a part of it.
    if start != 0 {
        proof.push(range(from, start, end)?);
    }
    proof.reverse();
    Ok(proof)
}

/// The root over the leaves `start..end`, where `start` is a multiple of the largest subtree in it.
fn range<S: Subtrees>(from: &mut S, start: u64, end: u64) -> Result<Hash, S::Fault> {
    let size = end - start;
    if size.is_power_of_two() {
        let level = size.trailing_zeros();
        return from.root(level, start >> level);
    }
    let middle = start + split(size);
    let left = range(from, start, middle)?;
    Ok(node_hash(&left, &range(from, middle, end)?))
}

/// The largest power of two below `size`, which is at least 2.
const fn split(size: u64) -> u64 {
    1 << (size - 1).ilog2()
}
