//! The tree of RFC 6962 §2.1 as an auditor keeps it: every perfect subtree, so that the root at any earlier size can be
//! told. About 64 bytes a leaf, and one short fold a question.

use sha2::{Digest, Sha256};

type Hash = [u8; 32];

/// Level `k` holds the hashes of the complete subtrees of 2^k leaves, in order.
#[derive(Debug, Default)]
pub(super) struct Nodes(Vec<Vec<Hash>>);

impl Nodes {
    pub(super) fn push(&mut self, leaf: Hash) {
        let (mut node, mut level) = (leaf, 0);
        loop {
            if self.0.len() == level {
                self.0.push(Vec::new());
            }
            let row = &mut self.0[level];
            row.push(node);
            if row.len() % 2 == 1 {
                return;
            }
            node = join(&row[row.len() - 2], &node);
            level += 1;
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.leaves().len() as u64
    }

    /// Leaf hashes in order.
    pub(super) fn leaves(&self) -> &[Hash] {
        self.0.first().map_or(&[], Vec::as_slice)
    }

    /// The root when the tree had `size` leaves; none if it never had so many.
    pub(super) fn root_at(&self, size: u64) -> Option<Hash> {
        if size > self.size() {
            return None;
        }
        let mut root: Option<Hash> = None;
        for (level, row) in self.0.iter().enumerate().filter(|(level, _)| size >> level & 1 == 1) {
            let left = &row[usize::try_from((size >> level) - 1).expect("held in memory")];
            root = Some(root.map_or(*left, |right| join(left, &right)));
        }
        Some(root.unwrap_or_else(|| Sha256::digest([]).into()))
    }
}

pub(super) fn join(left: &Hash, right: &Hash) -> Hash {
    let mut both = [1; 65];
    both[1..33].copy_from_slice(left);
    both[33..].copy_from_slice(right);
    Sha256::digest(both).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6962 §2.1, word for word.
    fn by_definition(leaves: &[Hash]) -> Hash {
        match leaves {
            [] => Sha256::digest([]).into(),
            [one] => *one,
            many => {
                let split = many.len().next_power_of_two() / 2;
                join(&by_definition(&many[..split]), &by_definition(&many[split..]))
            }
        }
    }

    #[test]
    fn the_root_at_every_earlier_size_is_the_one_of_the_definition() {
        let mut nodes = Nodes::default();
        for n in 0..70_u8 {
            nodes.push([n; 32]);
        }
        for size in 0..=70 {
            let expected = by_definition(&nodes.leaves()[..size]);
            assert_eq!(nodes.root_at(size as u64), Some(expected), "size {size}");
        }
        assert_eq!(nodes.root_at(71), None);
    }
}
