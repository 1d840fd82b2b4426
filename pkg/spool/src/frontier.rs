//! The right edge of an RFC 6962 tree: what is needed to append and to take the root, at most 64 hashes.

use sha2::{Digest, Sha256};
use signet_lineage::TreeHead;

pub(crate) type Hash = [u8; 32];

/// The leaf hash of the empty entry. It stands in the tree for a record that was lost before any head covered it.
pub(crate) fn void_leaf() -> Hash {
    Sha256::digest([0]).into()
}

fn node(left: &Hash, right: &Hash) -> Hash {
    Sha256::new().chain_update([1]).chain_update(left).chain_update(right).finalize().into()
}

/// Invariant: `peaks` holds one hash per set bit of `size`, that of the largest subtree first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Frontier {
    size: u64,
    peaks: Vec<Hash>,
}

impl Frontier {
    /// The frontier with these parts, or none if their number does not fit the size.
    pub(crate) fn from_parts(size: u64, peaks: Vec<Hash>) -> Option<Self> {
        (size.count_ones() as usize == peaks.len()).then_some(Self { size, peaks })
    }

    pub(crate) const fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn peaks(&self) -> &[Hash] {
        &self.peaks
    }

    /// Appends a leaf hash.
    pub(crate) fn push(&mut self, leaf: Hash) {
        let mut hash = leaf;
        for _ in 0..self.size.trailing_ones() {
            let left = self.peaks.pop().expect("one peak per set bit");
            hash = node(&left, &hash);
        }
        self.peaks.push(hash);
        self.size += 1;
    }

    /// Size and root (RFC 6962 §2.1; the empty tree's root is the hash of nothing).
    pub(crate) fn head(&self) -> TreeHead {
        let mut peaks = self.peaks.iter().rev();
        let root = match peaks.next() {
            None => Sha256::digest([]).into(),
            Some(last) => peaks.fold(*last, |right, left| node(left, &right)),
        };
        TreeHead { size: self.size, root }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// RFC 6962 §2.1 word for word.
    pub(crate) fn naive_root(leaves: &[Hash]) -> Hash {
        match leaves {
            [] => Sha256::digest([]).into(),
            [one] => *one,
            many => {
                let split = many.len().next_power_of_two() / 2;
                node(&naive_root(&many[..split]), &naive_root(&many[split..]))
            }
        }
    }

    #[test]
    fn the_root_is_that_of_the_recursive_definition_at_every_size() {
        let mut tree = Frontier::default();
        let mut leaves = Vec::new();
        for n in 0..130_u8 {
            assert_eq!(tree.head(), TreeHead { size: u64::from(n), root: naive_root(&leaves) });
            let leaf = Sha256::digest([0, n]).into();
            tree.push(leaf);
            leaves.push(leaf);
        }
    }

    #[test]
    fn parts_that_do_not_fit_the_size_are_refused() {
        assert!(Frontier::from_parts(3, vec![[0; 32]; 2]).is_some());
        assert!(Frontier::from_parts(3, vec![[0; 32]; 1]).is_none());
    }
}
