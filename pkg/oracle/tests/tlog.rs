//! Checkpoints, tiles and proofs against two crates by others.

use proptest::prelude::*;
use sha2::{Digest, Sha256};
use signed_note::{Note, StandardVerifier, VerifierList};
use signet_lineage::tlog::{Checkpoint, FromTiles, NoteKey, Tile, TileFault, Tiles, consistency, inclusion};
use signet_lineage::verify::{extends, includes};
use signet_lineage::{Signer, TreeHead};
use std::collections::BTreeMap;
use tlog_tiles::{
    Hash, HashReader, TileHashReader, TileReader, check_record, check_tree, prove_record, prove_tree,
    stored_hashes_for_record_hash, tree_hash,
};

const NAME: &str = "signet.test/lineage/log";

fn leaf(n: u64) -> [u8; 32] {
    Sha256::new().chain_update([0]).chain_update(n.to_be_bytes()).finalize().into()
}

/// Their tree: every hash, in their storage order.
#[derive(Default)]
struct Theirs(Vec<Hash>);

impl HashReader for Theirs {
    fn read_hashes(&self, indexes: &[u64]) -> Result<Vec<Hash>, tlog_tiles::Error> {
        Ok(indexes.iter().map(|&at| self.0[usize::try_from(at).expect("in memory")]).collect())
    }
}

impl Theirs {
    fn of(size: u64) -> Self {
        let mut tree = Self::default();
        for n in 0..size {
            let hashes = stored_hashes_for_record_hash(n, Hash(leaf(n)), &tree).expect("in memory");
            tree.0.extend(hashes);
        }
        tree
    }
}

/// Our tiles, by path.
#[derive(Default)]
struct Ours {
    tiles: Tiles,
    shelf: BTreeMap<String, Vec<[u8; 32]>>,
}

impl Ours {
    fn of(size: u64) -> Self {
        let mut ours = Self::default();
        for n in 0..size {
            let shelf = &mut ours.shelf;
            ours.tiles.push(leaf(n), |tile, hashes| drop(shelf.insert(tile.to_string(), hashes.to_vec())));
        }
        let partial: Vec<_> = ours.tiles.partial().map(|(tile, hashes)| (tile.to_string(), hashes.to_vec())).collect();
        ours.shelf.extend(partial);
        ours
    }

    fn subtrees(&self, size: u64) -> FromTiles<impl FnMut(Tile) -> Result<Vec<[u8; 32]>, TileFault>> {
        FromTiles::new(size, |tile: Tile| self.shelf.get(&tile.to_string()).cloned().ok_or(TileFault))
    }
}

impl TileReader for Ours {
    fn height(&self) -> u8 {
        8
    }

    fn read_tiles(&self, tiles: &[tlog_tiles::Tile]) -> Result<Vec<Vec<u8>>, tlog_tiles::Error> {
        // Their paths begin with the height, as those of a checksum database do; C2SP leaves it out.
        let path = |tile: &tlog_tiles::Tile| tile.path().replacen("tile/8/", "tile/", 1);
        Ok(tiles.iter().map(|tile| self.shelf[&path(tile)].as_flattened().to_vec()).collect())
    }

    fn save_tiles(&self, _: &[tlog_tiles::Tile], _: &[Vec<u8>]) {}
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn proofs_are_those_that_others_make_and_each_takes_the_others(size in 1_u64..1500, at in any::<u64>(), old in any::<u64>()) {
        let (theirs, ours) = (Theirs::of(size), Ours::of(size));
        let root = tree_hash(size, &theirs).expect("in memory");
        prop_assert_eq!(ours.tiles.head(), TreeHead { size, root: root.0 });
        let (index, old) = (at % size, old % size + 1);

        let path = inclusion(&mut ours.subtrees(size), index, size).expect("all tiles are there");
        let their_path = prove_record(size, index, &theirs).expect("in memory");
        prop_assert_eq!(their_path.iter().map(|hash| hash.0).collect::<Vec<_>>(), path.clone());
        prop_assert!(check_record(&their_path, size, root, index, Hash(leaf(index))).is_ok());
        prop_assert!(includes(&root.0, size, index, &leaf(index), &path));

        let before = tree_hash(old, &theirs).expect("in memory");
        let path = consistency(&mut ours.subtrees(size), old, size).expect("all tiles are there");
        let their_path = prove_tree(size, old, &theirs).expect("in memory");
        prop_assert_eq!(their_path.iter().map(|hash| hash.0).collect::<Vec<_>>(), path.clone());
        prop_assert!(check_tree(&their_path, size, root, old, before).is_ok());
        prop_assert!(extends(old, &before.0, size, &root.0, &path));
    }

    #[test]
    fn another_client_reads_proofs_out_of_our_tiles(size in 1_u64..1500, at in any::<u64>()) {
        let (ours, index) = (Ours::of(size), at % size);
        let root = Hash(ours.tiles.head().root);
        // This reader authenticates every tile against the root before it uses it.
        let reader = TileHashReader::new(size, root, &ours);
        let path = prove_record(size, index, &reader).expect("our tiles are whole");
        prop_assert!(check_record(&path, size, root, index, Hash(leaf(index))).is_ok());
    }
}

#[test]
fn another_client_reads_our_checkpoint_and_refuses_a_changed_one() {
    let signer = Signer::generate();
    let key = NoteKey::new(NAME, signer.public_key()).expect("a good name");
    let head = Ours::of(300).tiles.head();
    let note = Checkpoint { origin: NAME.to_owned(), head }.sign(&key, &signer);
    let known = || VerifierList::new(vec![Box::new(StandardVerifier::new(&key.to_string()).expect("our key's text"))]);

    let read = Note::from_bytes(note.as_bytes()).expect("a note");
    let (signatures, unknown) = read.verify(&known()).expect("our key signed it");
    assert_eq!((signatures.len(), unknown.len(), signatures[0].name()), (1, 0, NAME));
    let checkpoint = tlog_tiles::Checkpoint::from_bytes(read.text()).expect("a checkpoint");
    assert_eq!((checkpoint.origin(), checkpoint.size(), checkpoint.hash().0), (NAME, 300, head.root));

    let changed = Note::from_bytes(note.replacen("\n300\n", "\n301\n", 1).as_bytes()).expect("still a note");
    assert!(changed.verify(&known()).is_err());
}
