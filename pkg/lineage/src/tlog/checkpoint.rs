//! Checkpoints (C2SP tlog-checkpoint): a signed note that says how large a log's tree is and what its root is.

use super::NoteKey;
use crate::{Signer, TreeHead};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A tree head under the name of its log.
///
/// A log never signs two of them that are inconsistent, and none over leaves that a power cut could still take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The log's name: `<lineage.origin>/<log>`.
    pub origin: String,
    /// Size and root of its tree.
    pub head: TreeHead,
}

impl Checkpoint {
    /// The text that is signed: three lines.
    pub fn text(&self) -> String {
        format!("{}\n{}\n{}\n", self.origin, self.head.size, STANDARD.encode(self.head.root))
    }

    /// The signed note. `key` is the public part of `signer` under the log's name.
    pub fn sign(&self, key: &NoteKey, signer: &Signer) -> String {
        debug_assert!(*key.public_key() == signer.public_key(), "the key that is named signs");
        key.sign(&self.text(), signer)
    }
}

/// A file that proves offline that a leaf is in a log (C2SP tlog-proof v1): the leaf's index, its inclusion proof in the
/// tree of `checkpoint`, and that signed checkpoint. `extra` is handed through unauthenticated; here it is the leaf
/// itself, so that the file alone tells what is included.
pub fn proof_file(index: u64, extra: &[u8], proof: &[[u8; 32]], checkpoint: &str) -> String {
    let mut text = String::from("c2sp.org/tlog-proof@v1\n");
    if !extra.is_empty() {
        text.extend(["extra ", &STANDARD.encode(extra), "\n"]);
    }
    text.extend(["index ", &index.to_string(), "\n"]);
    for hash in proof {
        text.extend([&STANDARD.encode(hash), "\n"]);
    }
    text.extend(["\n", checkpoint]);
    text
}
