//! Reads what a log publishes: signed notes, checkpoints and proof files. Strict: what is not the one way to write a thing
//! is refused, so that two readers cannot take one file for two things.

use super::proof;
use crate::TreeHead;
use crate::tlog::NoteKey;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, VerifyingKey};
use sha2::{Digest, Sha256};

/// Longest note that is read, in bytes: three short lines and 16 signatures fit many times.
const MAX_NOTE: usize = 64 * 1024;

/// Why a checkpoint or a proof file proves nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoteFault {
    /// It is not a signed note, or its text is not a checkpoint's.
    #[error("not a checkpoint: {0}")]
    Form(&'static str),
    /// None of the known keys signed it.
    #[error("not signed by a known key")]
    Unsigned,
    /// The key that signed it no longer counted there, as a keyring or a line of pinned keys says.
    #[error("signed by a key that no longer counted there")]
    Revoked,
    /// A signature under the name and id of a known key does not fit.
    #[error("the signature of {0} does not fit")]
    BadSignature(String),
    /// The file is not a proof file.
    #[error("not a proof file: {0}")]
    ProofForm(&'static str),
    /// The proof leads to another root than the checkpoint's.
    #[error("the leaf is not included in the tree of the checkpoint")]
    NotIncluded,
}

/// A checkpoint whose signature was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The log's name.
    pub origin: String,
    /// Size and root of its tree.
    pub head: TreeHead,
    /// The known keys that signed it.
    pub signers: Vec<NoteKey>,
}

/// Reads a signed checkpoint and checks it with `keys`.
///
/// # Errors
/// It is malformed, no known key signed it, or the signature of a known one does not fit.
pub fn checkpoint(note: &str, keys: &[NoteKey]) -> Result<Checked, NoteFault> {
    if note.len() > MAX_NOTE {
        return Err(NoteFault::Form("longer than a note may be"));
    }
    if note.bytes().any(|byte| byte < 0x20 && byte != b'\n') {
        return Err(NoteFault::Form("it holds a control character"));
    }
    let at = note.rfind("\n\n").ok_or(NoteFault::Form("no blank line before the signatures"))?;
    let (text, signatures) = (&note[..=at], &note[at + 2..]);
    let (origin, head) = body(text).ok_or(NoteFault::Form("not three lines of origin, size and root"))?;
    let signers = signers(text, signatures, keys)?;
    if signers.is_empty() {
        return Err(NoteFault::Unsigned);
    }
    Ok(Checked { origin: origin.to_owned(), head, signers })
}

/// Cuts text into notes, one after the other: a note ends with its signature lines, and empty lines may follow. What is no
/// note, such as the rest of a write that was cut short, is given as it stands, to be refused by [`checkpoint`].
pub fn notes(text: &str) -> Vec<String> {
    let (mut notes, mut note, mut gap, mut signed) = (Vec::new(), String::new(), false, false);
    for line in text.split_inclusive('\n') {
        if line == "\n" {
            gap = !note.is_empty();
            continue;
        }
        let signature = line.starts_with("\u{2014} ");
        // Only signatures go on with a note behind its empty line, and nothing but more of them behind the first.
        if (gap && (signed || !signature)) || (signed && !signature) {
            notes.push(std::mem::take(&mut note));
            signed = false;
        } else if gap {
            note.push('\n');
        }
        (gap, signed) = (false, signed || (signature && note.ends_with("\n\n")));
        note.push_str(line);
    }
    notes.extend(Some(note).filter(|note| !note.is_empty()));
    notes
}

/// Extension lines are none of ours, and nothing would check them: refused.
fn body(text: &str) -> Option<(&str, TreeHead)> {
    let mut lines = text.strip_suffix('\n')?.split('\n');
    let (origin, size, root) = (lines.next()?, lines.next()?, lines.next()?);
    let whole = !origin.is_empty() && lines.next().is_none();
    whole.then_some((origin, TreeHead { size: decimal(size)?, root: hash(root)? }))
}

fn signers(text: &str, lines: &str, keys: &[NoteKey]) -> Result<Vec<NoteKey>, NoteFault> {
    let lines = lines.strip_suffix('\n').ok_or(NoteFault::Form("the last line does not end"))?;
    let mut signers = Vec::new();
    for line in lines.split('\n') {
        let (name, signature) = signature(line).ok_or(NoteFault::Form("a line is no signature"))?;
        let (id, signature) = signature.split_at(4);
        let Some(key) = keys.iter().find(|key| key.name() == name && key_id(key) == id) else { continue };
        let point = VerifyingKey::from_bytes(key.public_key().as_bytes()).expect("checked when the key was read");
        if signature.len() != 64 {
            return Err(NoteFault::Form("a signature of another length"));
        }
        let fits = Signature::from_slice(signature).is_ok_and(|sig| point.verify_strict(text.as_bytes(), &sig).is_ok());
        if !fits {
            return Err(NoteFault::BadSignature(name.to_owned()));
        }
        signers.push(key.clone());
    }
    Ok(signers)
}

fn signature(line: &str) -> Option<(&str, Vec<u8>)> {
    let (name, base64) = line.strip_prefix("\u{2014} ")?.split_once(' ')?;
    let bytes = STANDARD.decode(base64).ok()?;
    (!name.is_empty() && !name.contains('+') && bytes.len() > 4).then_some((name, bytes))
}

/// C2SP signed-note: `SHA-256(name | 0x0A | 0x01 | key)[:4]`.
fn key_id(key: &NoteKey) -> [u8; 4] {
    let bytes = [key.name().as_bytes(), b"\n\x01", key.public_key().as_bytes()].concat();
    let [a, b, c, d, ..]: [u8; 32] = Sha256::digest(bytes).into();
    [a, b, c, d]
}

/// What a proof file proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Included {
    /// The leaf's place.
    pub index: u64,
    /// The checkpoint in whose tree it is.
    pub checkpoint: Checked,
}

/// Checks a proof file (C2SP tlog-proof v1) for `leaf_hash`.
///
/// # Errors
/// It is malformed, its checkpoint proves nothing, or the leaf is not included.
pub fn proof_file(file: &str, leaf_hash: &[u8; 32], keys: &[NoteKey]) -> Result<Included, NoteFault> {
    let form = NoteFault::ProofForm;
    let (head, note) = file.split_once("\n\n").ok_or(form("no blank line before the checkpoint"))?;
    let mut lines = head.split('\n');
    if lines.next() != Some("c2sp.org/tlog-proof@v1") {
        return Err(form("another first line"));
    }
    let mut line = lines.next();
    if let Some(extra) = line.and_then(|line| line.strip_prefix("extra ")) {
        STANDARD.decode(extra).map_err(|_| form("the extra data is not base64"))?;
        line = lines.next();
    }
    let index = line.and_then(|line| decimal(line.strip_prefix("index ")?)).ok_or(form("no index"))?;
    let path: Option<Vec<_>> = lines.map(hash).collect();
    let path = path.ok_or(form("a line is no hash"))?;
    let checkpoint = checkpoint(note, keys)?;
    let TreeHead { size, root } = checkpoint.head;
    if !proof::includes(&root, size, index, leaf_hash, &path) {
        return Err(NoteFault::NotIncluded);
    }
    Ok(Included { index, checkpoint })
}

fn decimal(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

fn hash(text: &str) -> Option<[u8; 32]> {
    STANDARD.decode(text).ok()?.try_into().ok()
}
