//! Checkpoints, tiles and proofs: what the writer makes, the auditor's own code takes, and nothing else.

use proptest::prelude::*;
use sha2::{Digest, Sha256};
use signet_lineage::tlog::{Checkpoint, FromTiles, NoteKey, Subtrees, Tile, TileFault, Tiles, consistency, inclusion};
use signet_lineage::verify::{NoteFault, checkpoint, extends, includes, proof_file};
use signet_lineage::{PublicKey, Signer, TreeHead, root_of, tlog};
use std::collections::BTreeMap;

type Hash = [u8; 32];

fn leaf(n: u64) -> Hash {
    Sha256::digest(n.to_be_bytes()).into()
}

/// Every tile that was ever given away, and the partial ones of the last size.
#[derive(Default)]
struct Shelf(BTreeMap<Tile, Vec<Hash>>);

impl Shelf {
    fn of(size: u64) -> (Tiles, Self) {
        let (mut tiles, mut shelf) = (Tiles::default(), Self::default());
        for n in 0..size {
            tiles.push(leaf(n), |tile, hashes| drop(shelf.0.insert(tile, hashes.to_vec())));
        }
        shelf.0.extend(tiles.partial().map(|(tile, hashes)| (tile, hashes.to_vec())));
        (tiles, shelf)
    }

    fn subtrees(&self, size: u64) -> impl Subtrees<Fault = TileFault> {
        FromTiles::new(size, move |tile| self.0.get(&tile).cloned().ok_or(TileFault))
    }
}

/// RFC 6962 §2.1, word for word.
fn root(size: u64) -> Hash {
    root_of((0..size).map(leaf).collect::<Vec<_>>().iter())
}

fn altered(path: &[Hash]) -> Vec<Vec<Hash>> {
    let mut all = vec![[path, &[[7; 32]]].concat(), [&[[7; 32]], path].concat()];
    for at in 0..path.len() {
        let mut other = path.to_vec();
        other[at][31] ^= 1;
        all.push(other);
        all.push([&path[..at], &path[at + 1..]].concat());
    }
    all
}

proptest! {
    #[test]
    fn every_leaf_is_shown_to_be_in_its_tree_and_in_no_other_place(size in 1_u64..900, at in any::<u64>(), other in any::<u64>()) {
        let (tiles, shelf) = Shelf::of(size);
        prop_assert_eq!(tiles.head(), TreeHead { size, root: root(size) });
        let (index, other) = (at % size, other % size);
        let path = inclusion(&mut shelf.subtrees(size), index, size).expect("all tiles are there");
        let root = root(size);
        prop_assert!(includes(&root, size, index, &leaf(index), &path));
        prop_assert_eq!(includes(&root, size, other, &leaf(index), &path), other == index);
        prop_assert_eq!(includes(&root, size, index, &leaf(other), &path), other == index);
        prop_assert!(!includes(&root, size, size, &leaf(index), &path));
        for wrong in altered(&path) {
            prop_assert!(!includes(&root, size, index, &leaf(index), &wrong));
        }
    }

    #[test]
    fn a_tree_is_shown_to_begin_with_each_earlier_one_and_with_no_other(size in 1_u64..900, old in any::<u64>(), other in any::<u64>()) {
        let (_, shelf) = Shelf::of(size);
        let (old, other) = (old % (size + 1), other % (size + 1));
        let path = consistency(&mut shelf.subtrees(size), old, size).expect("all tiles are there");
        let (before, now) = (root(old), root(size));
        prop_assert!(extends(old, &before, size, &now, &path));
        prop_assert!(!extends(old, &[9; 32], size, &now, &path));
        // Of an empty tree, every tree is a continuation.
        prop_assert_eq!(extends(old, &before, size, &[9; 32], &path), old == 0);
        if other != old {
            prop_assert!(!extends(old, &root(other), size, &now, &path));
        }
        for wrong in altered(&path) {
            prop_assert!(!extends(old, &before, size, &now, &wrong));
        }
    }

    #[test]
    fn a_tile_has_one_path_and_a_path_one_tile(level in 0_u8..64, index in any::<u64>(), width in 1_u16..=256) {
        let tile = Tile { level, index, width };
        prop_assert_eq!(tile.to_string().parse(), Ok(tile));
    }

    #[test]
    fn no_text_makes_the_readers_of_paths_keys_and_notes_fail(text in "\\PC{0,80}|tile/[0-9x/.p]{0,40}", note in "(\\PC|\n){0,200}") {
        if let Ok(tile) = text.parse::<Tile>() {
            prop_assert_eq!(tile.to_string(), text.clone());
        }
        prop_assert!(text.parse::<NoteKey>().is_err());
        prop_assert!(checkpoint(&note, &[]).is_err());
        prop_assert!(proof_file(&note, &[0; 32], &[]).is_err());
    }

    #[test]
    fn a_tree_goes_on_from_its_tiles(size in 0_u64..70_000, more in 1_u64..600) {
        let (mut tiles, shelf) = Shelf::of(size);
        let mut resumed = Tiles::resume(size, |tile| shelf.0.get(&tile).cloned().ok_or(TileFault)).expect("all are there");
        prop_assert_eq!(resumed.head(), tiles.head());
        prop_assert_eq!(resumed.peaks().len(), size.count_ones() as usize);
        for n in size..size + more {
            tiles.push(leaf(n), |_, _| {});
            resumed.push(leaf(n), |_, _| {});
        }
        prop_assert_eq!(resumed, tiles);
    }
}

#[test]
fn tiles_have_the_paths_and_counts_of_the_specification() {
    assert_eq!(Tile { level: 0, index: 1_234_067, width: 256 }.to_string(), "tile/0/x001/x234/067");
    assert_eq!(Tile { level: 2, index: 0, width: 1 }.to_string(), "tile/2/000.p/1");
    let widths: Vec<_> = Tile::partial(70_000).map(|tile| (tile.level, tile.index, tile.width)).collect();
    assert_eq!(widths, [(0, 273, 112), (1, 1, 17), (2, 0, 1)]);
    assert_eq!(Tile::partial(256).collect::<Vec<_>>(), [Tile { level: 1, index: 0, width: 1 }]);
    assert_eq!(Tile::partial(0).count(), 0);
    for bad in [
        "tile/0/1",
        "tile/00/001",
        "tile/0/001.p/0",
        "tile/0/001.p/256",
        "tile/0/x001",
        "tile/0/001/002",
        "tile/64/001",
        "tile/0/x000/001",
    ] {
        assert_eq!(bad.parse::<Tile>(), Err(TileFault), "{bad}");
    }
}

fn signed(size: u64) -> (Signer, NoteKey, String) {
    let signer = Signer::generate();
    let key = NoteKey::new("signet.test/log", signer.public_key()).expect("a good name");
    let head = TreeHead { size, root: root(size) };
    let note = Checkpoint { origin: "signet.test/log".to_owned(), head }.sign(&key, &signer);
    (signer, key, note)
}

#[test]
fn a_checkpoint_counts_only_as_it_was_signed_and_by_a_known_key() {
    let (_, key, note) = signed(5);
    let read = checkpoint(&note, std::slice::from_ref(&key)).expect("as signed");
    assert_eq!((read.origin.as_str(), read.head.size, read.head.root), ("signet.test/log", 5, root(5)));
    assert_eq!(checkpoint(&note, &[]), Err(NoteFault::Unsigned));
    let (_, stranger, _) = signed(5);
    assert_eq!(checkpoint(&note, &[stranger]), Err(NoteFault::Unsigned));
    let longer = note.replacen("\n5\n", "\n6\n", 1);
    assert_eq!(checkpoint(&longer, std::slice::from_ref(&key)), Err(NoteFault::BadSignature(key.name().to_owned())));
    for (at, byte) in note.bytes().enumerate() {
        let mut bytes = note.clone().into_bytes();
        bytes[at] = if byte == b'A' { b'B' } else { b'A' };
        if let Ok(text) = String::from_utf8(bytes) {
            assert!(checkpoint(&text, std::slice::from_ref(&key)).is_err(), "byte {at}");
        }
    }
    for bad in
        [note.trim_end(), &note.replace("\n5\n", "\n05\n"), &format!("{note}\n"), &note.replace("\n\n", "\nmore\n\n")]
    {
        assert!(checkpoint(bad, std::slice::from_ref(&key)).is_err(), "{bad}");
    }
}

#[test]
fn a_proof_file_holds_for_its_leaf_alone() {
    let (_, shelf) = Shelf::of(300);
    let (_, key, note) = signed(300);
    let path = inclusion(&mut shelf.subtrees(300), 277, 300).expect("all tiles are there");
    let keys = [key];
    for extra in [&b""[..], b"leaf"] {
        let file = tlog::proof_file(277, extra, &path, &note);
        assert_eq!(proof_file(&file, &leaf(277), &keys).expect("it holds").index, 277);
        assert_eq!(proof_file(&file, &leaf(276), &keys), Err(NoteFault::NotIncluded));
        let elsewhere = file.replace("index 277", "index 276");
        assert_eq!(proof_file(&elsewhere, &leaf(277), &keys), Err(NoteFault::NotIncluded));
    }
}

#[test]
fn a_verifier_key_is_read_back_and_a_changed_one_is_not() {
    let key = NoteKey::new("signet.test/log", Signer::generate().public_key()).expect("a good name");
    let text = key.to_string();
    assert_eq!(text.parse(), Ok(key.clone()));
    for at in 0..text.len() {
        let mut bytes = text.clone().into_bytes();
        bytes[at] = if bytes[at] == b'0' { b'1' } else { b'0' };
        let other = String::from_utf8(bytes).expect("ASCII").parse::<NoteKey>();
        assert!(other.is_err(), "byte {at}");
    }
    for bad in ["", "a b", "a+b", "a\nb"] {
        assert_eq!(NoteKey::new(bad, *key.public_key()), None, "{bad:?}");
    }
}

/// So that the id is that of the specification and not only ours.
#[test]
fn a_key_has_the_id_that_other_tools_compute() {
    // sum.golang.org's published verifier key.
    let text = "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8";
    let key: NoteKey = text.parse().expect("a published key");
    assert_eq!((key.name(), key.to_string().as_str()), ("sum.golang.org", text));
    let _: &PublicKey = key.public_key();
}
