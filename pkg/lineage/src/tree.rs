//! The Merkle tree of RFC 6962 §2.1 as its writer keeps it: only the right edge.
//!
//! One structure proves everything; there is no second hash chain that a verifier could take for a short-cut. Appending
//! costs one or two hashes on average and the state is at most 64 of them.

use crate::TreeHead;
use sha2::{Digest, Sha256};

/// A growing tree, of which only the roots of its perfect subtrees are kept, largest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    size: u64,
    peaks: Vec<[u8; 32]>,
}

/// Bytes that are not the state of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the saved state of a tree")]
pub struct TreeStateFault;

impl Tree {
    /// The empty tree.
    pub const fn new() -> Self {
        Self { size: 0, peaks: Vec::new() }
    }

    /// Appends a leaf by its leaf hash (see [`crate::Leaf::hash`]).
    pub fn push(&mut self, leaf_hash: [u8; 32]) {
        let mut node = leaf_hash;
        for _ in 0..self.size.trailing_ones() {
            let left = self.peaks.pop().expect("one peak for every set bit of the size");
            node = node_hash(&left, &node);
        }
        self.peaks.push(node);
        self.size += 1;
    }

    /// Number of leaves.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The Merkle tree hash; of the empty tree SHA-256 of nothing.
    pub fn root(&self) -> [u8; 32] {
        let folded = self.peaks.iter().rev().copied().reduce(|right, left| node_hash(&left, &right));
        folded.unwrap_or_else(|| Sha256::digest([]).into())
    }

    /// Size and root.
    pub fn head(&self) -> TreeHead {
        TreeHead { size: self.size, root: self.root() }
    }

    /// The state, to go on from later: size u64be, then the peaks, largest first.
    pub fn to_bytes(&self) -> Vec<u8> {
        [self.size.to_be_bytes().as_slice(), self.peaks.as_flattened()].concat()
    }

    /// Takes up a state of [`Tree::to_bytes`].
    ///
    /// # Errors
    /// The number of peaks does not fit the size.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TreeStateFault> {
        let (size, peaks) = bytes.split_first_chunk().ok_or(TreeStateFault)?;
        let (peaks, rest) = peaks.as_chunks();
        let size = u64::from_be_bytes(*size);
        let whole = rest.is_empty() && u32::try_from(peaks.len()) == Ok(size.count_ones());
        whole.then(|| Self { size, peaks: peaks.to_vec() }).ok_or(TreeStateFault)
    }
}

/// The root over these leaf hashes.
pub fn root_of<'a>(leaf_hashes: impl IntoIterator<Item = &'a [u8; 32]>) -> [u8; 32] {
    let mut tree = Tree::new();
    leaf_hashes.into_iter().for_each(|leaf| tree.push(*leaf));
    tree.root()
}

pub(crate) fn node_hash(left: &[u8; 32], right: &[u8; 32]) -> [u8; 32] {
    Sha256::new().chain_update([1]).chain_update(left).chain_update(right).finalize().into()
}
