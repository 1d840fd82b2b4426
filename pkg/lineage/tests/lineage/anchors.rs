//! Files of checkpoints that someone keeps, and bundles of entries.

use proptest::prelude::*;
use signet_lineage::tlog::{self, Tile, TileFault};

/// A note of three lines and one or more signature lines.
fn note(n: u64, signatures: usize) -> String {
    let line = |at| format!("\u{2014} log.example/x{at} c2lnbmF0dXJl\n");
    let lines: Vec<String> = (0..signatures).map(line).collect();
    format!("log.example/x\n{n}\ncm9vdA==\n\n{}", lines.concat())
}

proptest! {
    /// A writer may die in the middle of a note; the next one puts empty lines behind what it left.
    #[test]
    fn every_whole_note_of_an_anchor_file_is_found_whatever_was_torn_before_it(
        entries in proptest::collection::vec((any::<u64>(), 1_usize..3, proptest::option::of(any::<u16>())), 0..8)
    ) {
        let (mut text, mut whole, mut torn) = (String::new(), Vec::new(), 0);
        for (n, signatures, cut) in entries {
            let note = note(n, signatures);
            match cut {
                None => {
                    text += &tlog::anchored(&note);
                    whole.push(note);
                }
                Some(cut) => {
                    // Up to the blank line: behind it a signature may look whole, and its check tells.
                    let end = usize::from(cut) % note.find("\n\n").expect("a blank line");
                    text += &note[..end];
                    text += "\n\n";
                    torn += usize::from(end > 0);
                }
            }
        }
        let found = tlog::notes_in(&text);
        let notes: Vec<String> = found.iter().filter_map(|note| note.ok().map(str::to_owned)).collect();
        prop_assert_eq!(notes, whole);
        let lines: Vec<&str> = text.split('\n').collect();
        let stray: Vec<usize> = found.into_iter().filter_map(Result::err).collect();
        prop_assert!(stray.len() >= torn, "each fragment is named");
        prop_assert!(stray.iter().all(|line| !lines[line - 1].is_empty()), "by a line of its own");
    }

    #[test]
    fn what_is_taken_for_a_note_has_the_form_of_one(text in "[a\n\u{2014} ]{0,60}") {
        for note in tlog::notes_in(&text).into_iter().flatten() {
            prop_assert!(note.ends_with('\n') && note.contains("\n\n\u{2014} "), "{:?}", note);
            prop_assert!(text.contains(&format!("{note}\n")), "an empty line ends it");
        }
    }
}

#[test]
fn a_bundle_of_entries_has_the_path_of_the_leaves_that_it_holds() {
    let bundle = Tile::of_entries("tile/entries/x001/002.p/3").expect("a bundle");
    assert_eq!(bundle, Tile { level: 0, index: 1002, width: 3 });
    assert_eq!(bundle.leaves(), 1002 * 256..1002 * 256 + 3);
    for path in ["tile/entries/1", "tile/entries/001.p/0", "tile/0/001", "entries/001", "tile/entries/x001"] {
        assert_eq!(Tile::of_entries(path), Err(TileFault), "{path}");
    }
    let mut bytes = Vec::new();
    for entry in [&b"ab"[..], b"", &[7; 129]] {
        tlog::push_entry(&mut bytes, entry);
    }
    assert_eq!(bytes, [&b"\0\x02ab\0\0\0\x81"[..], &[7; 129]].concat());
}
