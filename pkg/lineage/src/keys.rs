//! Ed25519 keys (RFC 8032) and their text form.
//!
//! Public keys travel as PEM of SubjectPublicKeyInfo (RFC 8410), which openssl and every language's standard tools read;
//! several may stand in one file, with `#` comments between them. A set of keys is never empty: a verifier without a
//! pinned key would have to trust the key that comes with the data, and so cannot be built.

use crate::hex;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::VerifyingKey;
use sha2::{Digest, Sha256};
use std::fmt;
use zeroize::Zeroizing;

/// DER of a SubjectPublicKeyInfo for Ed25519 up to the key's 32 bytes (RFC 8410 §4).
const SPKI_HEAD: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
const PUBLIC: &str = "PUBLIC KEY";
const PRIVATE: &str = "PRIVATE KEY";

/// Why text or bytes are not a key. The fault is with the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// Not a PKCS#8 Ed25519 key in DER or PEM.
    #[error("not an Ed25519 private key in PKCS#8 (DER or PEM)")]
    Private,
    /// A line that belongs to no key.
    #[error("line {line}: expected `-----BEGIN PUBLIC KEY-----`, a `#` comment or the rest of a key")]
    Line {
        /// 1-based.
        line: usize,
    },
    /// A block that is not an Ed25519 public key.
    #[error("the key that ends in line {line} is not an Ed25519 public key")]
    Public {
        /// 1-based.
        line: usize,
    },
    /// Nothing pinned, nothing proved.
    #[error("no public key found")]
    Empty,
}

/// The key that signs a log's records. The private part is wiped when it is dropped.
pub struct Signer {
    pair: Ed25519KeyPair,
    public: PublicKey,
    key_id: [u8; 32],
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("public", &self.public).finish_non_exhaustive()
    }
}

impl Signer {
    /// A new key.
    pub fn generate() -> Self {
        Self::of(Ed25519KeyPair::generate().expect("the operating system gives random bytes"))
    }

    /// A key in PKCS#8 (RFC 5958, version 1 or 2), DER or PEM: what [`Signer::to_pkcs8`] or `openssl genpkey` gave.
    ///
    /// # Errors
    /// The bytes are no such key, or its public part is not that of its private part.
    pub fn from_pkcs8(bytes: &[u8]) -> Result<Self, KeyFault> {
        let der = private_pem(bytes);
        let der = der.as_ref().map_or(bytes, |der| der.as_slice());
        Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).map(Self::of).map_err(|_| KeyFault::Private)
    }

    /// The private key in PKCS#8 DER, for the key file.
    pub fn to_pkcs8(&self) -> Zeroizing<Vec<u8>> {
        let document = self.pair.to_pkcs8v1().expect("a key that was made or read can be written");
        Zeroizing::new(document.as_ref().to_vec())
    }

    /// The public key.
    pub const fn public_key(&self) -> PublicKey {
        self.public
    }

    /// SHA-256 of the public key's SubjectPublicKeyInfo.
    pub const fn key_id(&self) -> &[u8; 32] {
        &self.key_id
    }

    /// Ed25519 over `message`.
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.pair.sign(message).as_ref().try_into().expect("an Ed25519 signature has 64 bytes")
    }

    fn of(pair: Ed25519KeyPair) -> Self {
        let public = PublicKey(pair.public_key().as_ref().try_into().expect("an Ed25519 key has 32 bytes"));
        Self { pair, public, key_id: public.key_id() }
    }
}

/// A valid Ed25519 public key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PublicKey([u8; 32]);

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", hex::text(&self.0))
    }
}

impl PublicKey {
    /// The key of these 32 bytes; none if they are no curve point, not the one encoding of it, or of small order, so that
    /// anyone could sign for it.
    pub fn from_bytes(bytes: [u8; 32]) -> Option<Self> {
        let key = VerifyingKey::from_bytes(&bytes).ok()?;
        let canonical = key.to_edwards().compress().to_bytes() == bytes;
        (canonical && !key.is_weak()).then_some(Self(bytes))
    }

    /// The key that 64 lowercase hexadecimal digits spell, as statements name keys.
    pub fn from_hex(digits: &str) -> Option<Self> {
        Self::from_bytes(hex::array(digits)?)
    }

    /// The 32 bytes of RFC 8032.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// SHA-256 of the SubjectPublicKeyInfo (DER).
    pub fn key_id(&self) -> [u8; 32] {
        Sha256::new().chain_update(SPKI_HEAD).chain_update(self.0).finalize().into()
    }

    /// The key id in hexadecimal, as envelopes and files of pinned keys name it.
    pub fn key_id_text(&self) -> String {
        hex::text(&self.key_id())
    }

    /// The key in PEM, with a line end.
    pub fn to_pem(&self) -> String {
        let der = [SPKI_HEAD.as_slice(), &self.0].concat();
        format!("-----BEGIN {PUBLIC}-----\n{}\n-----END {PUBLIC}-----\n", STANDARD.encode(der))
    }

    fn from_der(der: &[u8]) -> Option<Self> {
        Self::from_bytes(der.strip_prefix(&SPKI_HEAD)?.try_into().ok()?)
    }
}

/// The public keys that a verifier trusts: at least one, without duplicates, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySet(Vec<PublicKey>);

impl KeySet {
    /// The set of these keys; none if there are none.
    pub fn new(keys: impl IntoIterator<Item = PublicKey>) -> Option<Self> {
        let mut keys: Vec<_> = keys.into_iter().collect();
        keys.sort_unstable();
        keys.dedup();
        (!keys.is_empty()).then_some(Self(keys))
    }

    /// Reads PEM blocks; lines that are empty or begin with `#` may stand between them, nothing else.
    ///
    /// # Errors
    /// The first line that is out of place, the first block that is no Ed25519 key, or that there is no key at all.
    pub fn parse(text: &str) -> Result<Self, KeyFault> {
        let (mut keys, mut block) = (Vec::new(), None::<String>);
        for (at, line) in text.lines().enumerate() {
            let line = (at + 1, line.trim());
            match (&mut block, line.1) {
                (None, "-----BEGIN PUBLIC KEY-----") => block = Some(String::new()),
                (None, other) if other.is_empty() || other.starts_with('#') => {}
                (None, _) => return Err(KeyFault::Line { line: line.0 }),
                (Some(base64), "-----END PUBLIC KEY-----") => {
                    let key = STANDARD.decode(base64.as_str()).ok().and_then(|der| PublicKey::from_der(&der));
                    keys.push(key.ok_or(KeyFault::Public { line: line.0 })?);
                    block = None;
                }
                (Some(base64), part) => base64.push_str(part),
            }
        }
        if block.is_some() {
            return Err(KeyFault::Public { line: text.lines().count() });
        }
        Self::new(keys).ok_or(KeyFault::Empty)
    }

    /// The keys.
    pub fn iter(&self) -> impl Iterator<Item = &PublicKey> {
        self.0.iter()
    }
}

impl fmt::Display for KeySet {
    /// The text that [`KeySet::parse`] reads, each key under a comment with its id.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|key| write!(f, "# key id {}\n{}", hex::text(&key.key_id()), key.to_pem()))
    }
}

/// The DER inside a PEM private key.
fn private_pem(bytes: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let text = std::str::from_utf8(bytes).ok()?.trim();
    let body = text.strip_prefix(&format!("-----BEGIN {PRIVATE}-----"))?;
    let body =
        Zeroizing::new(body.strip_suffix(&format!("-----END {PRIVATE}-----"))?.split_whitespace().collect::<String>());
    STANDARD.decode(body.as_bytes()).ok().map(Zeroizing::new)
}
