//! What an auditor holds for true: keys that did not come with the data.

use super::keyring::Keyring;
use crate::tlog::NoteKey;
use crate::{KeyFault, KeySet, KeyUse, hex};
use signet_types::LogId;

/// Pinned keys: those that sign records, those that sign checkpoints, and from which places on one of them no longer counts.
///
/// As a file: PEM blocks of the first kind; verifier keys `<name>+<id>+<base64>`, one a line, of the second; lines
/// `revoked <key id> <log> <size>`; empty lines and `#` comments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pinned {
    /// Keys that sign records.
    pub attest: KeySet,
    /// Keys that sign checkpoints, each under the name of its log.
    pub notes: Vec<NoteKey>,
    /// Keys that fell into other hands.
    pub revoked: Vec<Revoked>,
    /// A keyring that was opened with its roots: then its keys count where it says, and no others.
    pub ring: Option<Keyring>,
}

/// What a key signed in a log from a place on counts no more, whatever time it names: `last_good` is the size of the last
/// checkpoint that others held before the key was stolen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revoked {
    /// SHA-256 of the key's SubjectPublicKeyInfo.
    pub key_id: [u8; 32],
    /// The log that it signed for.
    pub log: LogId,
    /// Records with a lower seq stay good, and checkpoints of at most this size.
    pub last_good: u64,
}

impl From<KeySet> for Pinned {
    fn from(attest: KeySet) -> Self {
        Self { attest, notes: Vec::new(), revoked: Vec::new(), ring: None }
    }
}

impl From<Keyring> for Pinned {
    fn from(ring: Keyring) -> Self {
        let attest = KeySet::new(ring.keys(KeyUse::Attest, None)).expect("a keyring that was read has one");
        Self { ring: Some(ring), ..attest.into() }
    }
}

impl Pinned {
    /// Reads a file of pinned keys.
    ///
    /// # Errors
    /// The first line that is out of place, a block that is no key, or that no key signs records.
    pub fn parse(text: &str) -> Result<Self, KeyFault> {
        let (mut notes, mut revoked, mut pem) = (Vec::new(), Vec::new(), String::with_capacity(text.len()));
        let mut in_block = false;
        for (at, line) in text.lines().enumerate() {
            let (line, fault) = (line.trim(), KeyFault::Line { line: at + 1 });
            in_block = (in_block || line.starts_with("-----BEGIN ")) && !line.starts_with("-----END ");
            if let Some(rest) = line.strip_prefix("revoked ") {
                revoked.push(read_revoked(rest).ok_or(fault)?);
            } else if !in_block && !line.starts_with('#') && line.contains('+') {
                notes.push(line.parse().map_err(|_| fault)?);
            } else {
                pem.push_str(line);
            }
            // Where a line was taken out an empty one stays, so that others keep their numbers.
            pem.push('\n');
        }
        Ok(Self { attest: KeySet::parse(&pem)?, notes, revoked, ring: None })
    }
}

fn read_revoked(text: &str) -> Option<Revoked> {
    let mut parts = text.split_ascii_whitespace();
    let revoked = Revoked {
        key_id: hex::array(parts.next()?)?,
        log: parts.next()?.parse().ok()?,
        last_good: parts.next()?.parse().ok()?,
    };
    parts.next().is_none().then_some(revoked)
}
