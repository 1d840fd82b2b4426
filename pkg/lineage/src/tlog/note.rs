//! Signed notes (C2SP signed-note): text, a blank line, and signature lines that anyone can check with Ed25519 alone.

use crate::{PublicKey, Signer};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

/// Signature type "Ed25519" of C2SP signed-note.
const ED25519: u8 = 1;

/// A key that signs notes: its name and its public part. As text it is the verifier key `name+id+base64(type | key)`,
/// the form in which tools for transparency logs take it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoteKey {
    name: String,
    public: PublicKey,
}

/// Text that is not a verifier key of the Ed25519 kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a verifier key: `<name>+<8 hex digits>+<base64>` of an Ed25519 key was expected")]
pub struct NoteKeyFault;

impl NoteKey {
    /// The key under `name`; none if the name is empty or holds a space, a plus sign or a control character.
    pub fn new(name: &str, public: PublicKey) -> Option<Self> {
        let good = |c: char| !c.is_whitespace() && !c.is_control() && c != '+';
        (!name.is_empty() && name.chars().all(good)).then(|| Self { name: name.to_owned(), public })
    }

    /// The name, by which signature lines name the key.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The public key.
    pub const fn public_key(&self) -> &PublicKey {
        &self.public
    }

    /// The first four bytes of `SHA-256(name | 0x0A | type | key)`: with the name, they identify the key and the
    /// algorithm.
    pub fn id(&self) -> [u8; 4] {
        let hash: [u8; 32] = Sha256::new()
            .chain_update(&self.name)
            .chain_update([b'\n', ED25519])
            .chain_update(self.public.as_bytes())
            .finalize()
            .into();
        [hash[0], hash[1], hash[2], hash[3]]
    }

    /// The note of `text`, which ends with a line end, signed by `signer`, whose public part this is.
    pub(super) fn sign(&self, text: &str, signer: &Signer) -> String {
        let signature = [self.id().as_slice(), &signer.sign(text.as_bytes())].concat();
        format!("{text}\n\u{2014} {} {}\n", self.name, STANDARD.encode(signature))
    }
}

impl fmt::Display for NoteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = [&[ED25519], self.public.as_bytes().as_slice()].concat();
        write!(f, "{}+{}+{}", self.name, crate::hex::text(&self.id()), STANDARD.encode(key))
    }
}

impl FromStr for NoteKey {
    type Err = NoteKeyFault;

    fn from_str(text: &str) -> Result<Self, NoteKeyFault> {
        let read = || {
            let (name, rest) = text.split_once('+')?;
            let key = STANDARD.decode(rest.split_once('+')?.1).ok()?;
            let public = PublicKey::from_bytes(key.strip_prefix(&[ED25519])?.try_into().ok()?)?;
            Self::new(name, public)
        };
        // The id is not needed to know the key; reading it back finds one that is of another.
        read().filter(|key: &Self| key.to_string() == text).ok_or(NoteKeyFault)
    }
}
