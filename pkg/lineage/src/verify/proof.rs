//! Checks of Merkle proofs, after RFC 9162 §2.1.3.2 and §2.1.4.2.

use super::nodes::join;

type Hash = [u8; 32];

/// Whether `path` shows that the leaf is at `index` in the tree of `size` leaves with this root.
pub fn includes(root: &Hash, size: u64, index: u64, leaf_hash: &Hash, path: &[Hash]) -> bool {
    if index >= size {
        return false;
    }
    let (mut place, mut last, mut node) = (index, size - 1, *leaf_hash);
    for sibling in path {
        if last == 0 {
            return false;
        }
        if place & 1 == 1 || place == last {
            node = join(sibling, &node);
            while place & 1 == 0 && place != 0 {
                place >>= 1;
                last >>= 1;
            }
        } else {
            node = join(&node, sibling);
        }
        place >>= 1;
        last >>= 1;
    }
    last == 0 && node == *root
}

/// Whether `path` shows that the tree of `old` leaves with the root `old_root` is the beginning of that of `size` leaves
/// with the root `root`.
pub fn extends(old: u64, old_root: &Hash, size: u64, root: &Hash, path: &[Hash]) -> bool {
    if old == size {
        return path.is_empty() && old_root == root;
    }
    if old == 0 {
        return size > 0 && path.is_empty() && *old_root == empty();
    }
    if old > size || path.is_empty() {
        return false;
    }
    // A perfect old tree is its own first node, and so is left out of the proof.
    let (first, rest) = if old.is_power_of_two() { (*old_root, path) } else { (path[0], &path[1..]) };
    let (mut place, mut last) = (old - 1, size - 1);
    while place & 1 == 1 {
        place >>= 1;
        last >>= 1;
    }
    let (mut before, mut after) = (first, first);
    for node in rest {
        if last == 0 {
            return false;
        }
        if place & 1 == 1 || place == last {
            before = join(node, &before);
            after = join(node, &after);
            while place & 1 == 0 && place != 0 {
                place >>= 1;
                last >>= 1;
            }
        } else {
            after = join(&after, node);
        }
        place >>= 1;
        last >>= 1;
    }
    last == 0 && before == *old_root && after == *root
}

fn empty() -> Hash {
    use sha2::{Digest, Sha256};
    Sha256::digest([]).into()
}
