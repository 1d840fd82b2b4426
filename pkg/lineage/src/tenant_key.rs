//! Keyed commitments and fingerprints, so that a log can prove what was said without saying it.
//!
//! A plain hash of a prompt can be guessed, so every body is committed to under a key of its own:
//! `opening = HKDF-Expand(K, "signet/opening/v1" | id)`, `ck = HKDF-Expand(opening, label)`,
//! `cm = SHA-256(ck | body)`. A caller gets its `opening` once and checks its bodies with it and nothing else; it learns
//! nothing about K or about other answers. K is 32 uniform random bytes, so the extract step of HKDF is left out
//! (RFC 5869 §3.3), and one block of output is enough: both steps are one HMAC each,
//! `HMAC-SHA-256(key, info | 0x01)`, which any tool can do.
//!
//! A fingerprint is the same for equal content inside one tenant and key epoch and says nothing outside of it. Destroying K
//! makes all of them meaningless.

use crate::draft::{Commitment, Fingerprint};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use signet_types::LineageId;
use std::fmt;
use std::str::FromStr;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

const OPENING: &[u8] = b"signet/opening/v1";

/// The label of the fingerprint of a provider's own id of a request.
pub const PROVIDER_REQUEST_ID: &str = "provider_request_id";

/// The 32 random bytes of one tenant and key epoch; wiped when dropped.
#[derive(Clone)]
pub struct TenantKey {
    bytes: Zeroizing<[u8; 32]>,
    /// The same as an HMAC key with both pads absorbed; the C library wipes it when it is dropped.
    mac: hmac::Key,
}

impl fmt::Debug for TenantKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TenantKey(..)")
    }
}

impl TenantKey {
    /// A new key.
    pub fn generate() -> Self {
        let mut bytes = Zeroizing::new([0; 32]);
        aws_lc_rs::rand::fill(bytes.as_mut_slice()).expect("the operating system gives random bytes");
        Self::from_bytes(bytes)
    }

    /// The key of these bytes, which must be uniformly random.
    pub fn from_bytes(bytes: Zeroizing<[u8; 32]>) -> Self {
        let mac = hmac::Key::new(hmac::HMAC_SHA256, bytes.as_slice());
        Self { bytes, mac }
    }

    /// The key itself, to be wrapped for storage.
    pub fn expose(&self) -> &[u8; 32] {
        &self.bytes
    }

    /// What opens the commitments of one answer: the caller's `Lineage-Opening`.
    pub fn opening(&self, id: LineageId) -> Opening {
        Opening(expand(&self.mac, &[OPENING, id.as_bytes()]))
    }

    /// `HMAC-SHA-256(K, label | 0 | bytes)`, the first 16 bytes. `label` names what is hashed, without a zero byte.
    pub fn fingerprint(&self, label: &str, bytes: &[u8]) -> Fingerprint {
        let mut mac = hmac::Context::with_key(&self.mac);
        for part in [label.as_bytes(), &[0], bytes] {
            mac.update(part);
        }
        *mac.sign().as_ref().first_chunk().expect("HMAC-SHA-256 has 32 bytes")
    }

    /// The key of the commitment to the body called `label` in the answer `id`.
    pub fn commitment_key(&self, id: LineageId, label: &str) -> CommitmentKey {
        self.opening(id).commitment_key(label)
    }

    /// The commitment to a whole body.
    pub fn commitment(&self, id: LineageId, label: &str, bytes: &[u8]) -> Commitment {
        self.commitment_key(id, label).commit(bytes)
    }
}

/// The secret of one answer from which its commitment keys follow; its text form is the `Lineage-Opening` header.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct Opening([u8; 32]);

/// Text that is not an opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an opening is 43 characters of base64url")]
pub struct OpeningFault;

impl Opening {
    pub(crate) const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The key of the commitment to the body called `label`.
    pub fn commitment_key(&self, label: &str) -> CommitmentKey {
        CommitmentKey(expand(&hmac::Key::new(hmac::HMAC_SHA256, &self.0), &[label.as_bytes()]))
    }
}

impl fmt::Debug for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opening(..)")
    }
}

impl fmt::Display for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl FromStr for Opening {
    type Err = OpeningFault;

    fn from_str(text: &str) -> Result<Self, OpeningFault> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| OpeningFault)?;
        bytes.try_into().map(Self).map_err(|_| OpeningFault)
    }
}

/// The key of one commitment.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct CommitmentKey([u8; 32]);

impl fmt::Debug for CommitmentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CommitmentKey(..)")
    }
}

impl CommitmentKey {
    /// The 32 bytes that stand before the body in the hash.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// `SHA-256(ck | bytes)`.
    pub fn commit(&self, bytes: &[u8]) -> Commitment {
        let mut hasher = self.hasher();
        hasher.update(bytes);
        hasher.finish()
    }

    /// The same for a body that comes in pieces.
    pub fn hasher(&self) -> CommitmentHasher {
        CommitmentHasher(Sha256::new_with_prefix(self.0))
    }
}

/// A commitment to a body that comes in pieces; where it is cut makes no difference.
#[derive(Clone)]
pub struct CommitmentHasher(Sha256);

impl fmt::Debug for CommitmentHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CommitmentHasher(..)")
    }
}

impl CommitmentHasher {
    /// The next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The commitment.
    pub fn finish(self) -> Commitment {
        self.0.finalize().into()
    }
}

/// The first block of HKDF-Expand-SHA-256 (RFC 5869 §2.3), `info` in pieces.
fn expand(prk: &hmac::Key, info: &[&[u8]]) -> [u8; 32] {
    let mut mac = hmac::Context::with_key(prk);
    for part in info {
        mac.update(part);
    }
    mac.update(&[1]);
    mac.sign().as_ref().try_into().expect("HMAC-SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex;

    fn block(prk: &str, info: &[u8]) -> String {
        let prk: [u8; 32] = hex::array(prk).expect("32 bytes");
        let (front, back) = info.split_at(info.len() / 2);
        hex::text(&expand(&hmac::Key::new(hmac::HMAC_SHA256, &prk), &[front, back]))
    }

    #[test]
    fn expand_gives_the_first_block_of_the_vectors_in_rfc_5869() {
        let info: Vec<u8> = (0xf0..=0xf9).collect();
        assert_eq!(
            block("077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5", &info),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"
        );
        assert_eq!(
            block("19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04", &[]),
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"
        );
    }

    #[test]
    fn fingerprints_are_equal_for_equal_content_under_one_key_and_label_only() {
        let (one, two) =
            (TenantKey::from_bytes(Zeroizing::new([1; 32])), TenantKey::from_bytes(Zeroizing::new([2; 32])));
        let made = one.fingerprint("answer", b"text");
        assert_eq!(made, TenantKey::from_bytes(Zeroizing::new(*one.expose())).fingerprint("answer", b"text"));
        assert_ne!(made, two.fingerprint("answer", b"text"));
        assert_ne!(made, one.fingerprint("request", b"text"));
    }
}
