//! The tree of RFC 6962 §2.1 as an auditor keeps it: every perfect subtree, so that the root at any earlier size can be
//! told. About 64 bytes a leaf, and one short fold a question.

use sha2::{Digest, Sha256};

type Hash = [u8; 32];

/// Level `k` holds the hashes of the complete subtrees of 2^k leaves, in order.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    rows: Vec<Row>,
    size: u64,
    /// How many leaves are known only by the subtrees over them.
    start: u64,
}

#[derive(Debug, Default)]
struct Row {
    /// The index of the first hash.
    first: u64,
    hashes: Vec<Hash>,
}

impl Nodes {
    /// A tree of `size` leaves of which only the `peaks` are known, largest first, one for each bit of `size`.
    pub(super) fn behind(size: u64, peaks: &[Hash]) -> Self {
        let mut peaks = peaks.iter().rev();
        let row = |level: u32| {
            let has_peak = size >> level & 1;
            let hashes = peaks.by_ref().take(usize::from(has_peak == 1)).copied().collect();
            Row { first: (size >> level) - has_peak, hashes }
        };
        let rows = (0..size.checked_ilog2().map_or(0, |top| top + 1)).map(row).collect();
        Self { rows, size, start: size }
    }

    pub(super) fn push(&mut self, leaf: Hash) {
        let (mut node, mut level) = (leaf, 0);
        self.size += 1;
        loop {
            if self.rows.len() == level {
                self.rows.push(Row::default());
            }
            let Row { first, hashes } = &mut self.rows[level];
            hashes.push(node);
            if (*first + hashes.len() as u64) % 2 == 1 {
                return;
            }
            node = join(&hashes[hashes.len() - 2], &node);
            level += 1;
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Leaf hashes in order, of a tree that is known from its first leaf on.
    pub(super) fn leaves(&self) -> &[Hash] {
        self.rows.first().map_or(&[], |row| row.hashes.as_slice())
    }

    /// The root over the leaves `index << level .. (index + 1) << level`, if it is known.
    pub(super) fn node(&self, level: usize, index: u64) -> Option<&Hash> {
        let row = self.rows.get(level)?;
        row.hashes.get(usize::try_from(index.checked_sub(row.first)?).ok()?)
    }

    /// The root when the tree had `size` leaves; none if it never had so many, or had them before it is known.
    pub(super) fn root_at(&self, size: u64) -> Option<Hash> {
        if size > self.size || (size < self.start && size > 0) {
            return None;
        }
        let mut root: Option<Hash> = None;
        for level in (0..self.rows.len()).filter(|level| size >> level & 1 == 1) {
            let left = self.node(level, (size >> level) - 1)?;
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

    #[test]
    fn a_tree_goes_on_behind_the_subtrees_of_what_is_gone() {
        let mut whole = Nodes::default();
        (0..70_u8).for_each(|n| whole.push([n; 32]));
        for gone in 1..=70_u64 {
            let bits = (0..7).rev().filter(|level| gone >> level & 1 == 1);
            let peaks: Vec<_> =
                bits.map(|level| *whole.node(level, (gone >> level) - 1).expect("a perfect subtree")).collect();
            let mut rest = Nodes::behind(gone, &peaks);
            whole.leaves()[usize::try_from(gone).expect("small")..].iter().for_each(|leaf| rest.push(*leaf));
            for size in gone..=70 {
                assert_eq!(rest.root_at(size), whole.root_at(size), "{gone} gone, size {size}");
            }
            assert_eq!(rest.root_at(gone - 1), (gone == 1).then(|| by_definition(&[])));
        }
    }
}
