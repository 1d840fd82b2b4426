//! Bodies that one offline private key opens and nothing else does.
//!
//! Sealing is HPKE (RFC 9180) in base mode, single-shot: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20Poly1305, whose test
//! vectors are appendix A.2.1. Every output that is needed here is at most one block of SHA-256, so each expand is one HMAC. The
//! primitives are those that are linked anyway; a crate would bring a second curve and a second cipher into the binary.
//!
//! ```text
//! sealed    = 0x01 | first 8 bytes of the key id | enc, 32 bytes | ciphertext with its tag
//! info      = "signet/capture/v1"
//! aad       = log id, 16 bytes | record id, 16 bytes
//! plaintext = opening, 32 bytes | length of the request, u32 | request | response
//! ```
//!
//! Both bodies are in one message, so that neither can be exchanged for that of another answer, nor one for the other. With the
//! opening inside, whoever opens it can check both against the record's commitments, even when the tenant's keys are gone. The
//! key id is the SHA-256 of the SubjectPublicKeyInfo in DER, as for other keys.

use crate::Opening;
use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use signet_types::{LineageId, LogId};
use std::fmt;
use zeroize::Zeroizing;

const VERSION: u8 = 1;
const INFO: &[u8] = b"signet/capture/v1";
/// RFC 8410: SubjectPublicKeyInfo and PKCS#8 of X25519, up to the 32 bytes of the key.
const SPKI_HEAD: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x6e, 0x03, 0x21, 0x00];
const PKCS8_HEAD: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x6e, 0x04, 0x22, 0x04, 0x20];
/// RFC 9180 §4.1 and §5.1: KEM 0x0020, KDF 0x0001, AEAD 0x0003.
const KEM_SUITE: &[u8] = b"KEM\x00\x20";
const SUITE: &[u8] = b"HPKE\x00\x20\x00\x01\x00\x03";
const KEY_ID: usize = 8;
const HEAD: usize = 1 + KEY_ID + 32;
const TAG: usize = 16;
const OPENING: usize = 32;

/// Why bodies were not sealed or not opened. It tells nothing of what is in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CaptureFault {
    /// Not a usable key.
    #[error("not an X25519 public key in PEM, as `openssl pkey -pubout` writes it")]
    PublicKey,
    /// Not a usable key.
    #[error("not an X25519 private key in PEM, as `openssl genpkey -algorithm X25519` writes it")]
    PrivateKey,
    /// Not what a gateway seals, or by a later version.
    #[error("these bytes are no sealed bodies of a version that is known here")]
    Form,
    /// For the holder of another key.
    #[error("it was sealed for another key, whose id begins with {}", crate::hex::text(.0))]
    OtherKey([u8; KEY_ID]),
    /// It was changed, or it belongs to another record.
    #[error("it was changed, or was sealed for another record")]
    Changed,
}

/// The public key that bodies are sealed to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BreakGlassKey {
    raw: [u8; 32],
    id: [u8; KEY_ID],
}

impl fmt::Debug for BreakGlassKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BreakGlassKey({})", crate::hex::text(&self.id))
    }
}

impl BreakGlassKey {
    /// The key in one PEM block of a SubjectPublicKeyInfo (RFC 8410).
    ///
    /// # Errors
    /// Anything else, and points of small order, for which anyone could open.
    pub fn from_pem(text: &str) -> Result<Self, CaptureFault> {
        let der = pem(text, "PUBLIC KEY").ok_or(CaptureFault::PublicKey)?;
        let raw = der.strip_prefix(&SPKI_HEAD).and_then(|raw| raw.try_into().ok()).ok_or(CaptureFault::PublicKey)?;
        let key = Self::of(raw);
        // A point of small order shows at the first agreement.
        shared(&ephemeral(), raw, &[0; 32], &raw).map_or(Err(CaptureFault::PublicKey), |_| Ok(key))
    }

    fn of(raw: [u8; 32]) -> Self {
        let digest = Sha256::new().chain_update(SPKI_HEAD).chain_update(raw).finalize();
        Self { raw, id: *digest.first_chunk().expect("SHA-256 has 32 bytes") }
    }

    /// The first bytes of the key id.
    pub const fn id(&self) -> &[u8; KEY_ID] {
        &self.id
    }

    /// Seals both bodies of the answer `id` in `log`. A request of 4 GiB and more does not fit and is left out.
    pub fn seal(&self, (log, id): (LogId, LineageId), opening: &Opening, request: &[u8], response: &[u8]) -> Vec<u8> {
        let (length, request) = u32::try_from(request.len()).map_or((0, &[][..]), |length| (length, request));
        let mut sealed = Vec::with_capacity(HEAD + OPENING + 4 + request.len() + response.len() + TAG);
        sealed.push(VERSION);
        sealed.extend(self.id);
        sealed.extend([0; 32]);
        for part in [opening.as_bytes(), &length.to_be_bytes()[..], request, response] {
            sealed.extend_from_slice(part);
        }
        let (enc, body) = sealed[HEAD - 32..].split_at_mut(32);
        let tag = seal_base(&ephemeral(), self.raw, enc, &aad(log, id), body);
        sealed.extend(tag);
        sealed
    }
}

/// The private key that opens them. Never in the gateway's hands.
pub struct BreakGlassSecret {
    key: PrivateKey,
    public: BreakGlassKey,
}

impl fmt::Debug for BreakGlassSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BreakGlassSecret(of {:?})", self.public)
    }
}

/// What was sealed.
pub struct OpenedBodies {
    /// What opens the record's commitments.
    pub opening: Opening,
    /// The request as received.
    pub request: Zeroizing<Vec<u8>>,
    /// The response as sent.
    pub response: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for OpenedBodies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OpenedBodies(..)")
    }
}

impl BreakGlassSecret {
    /// The key in one PEM block of PKCS#8 (RFC 8410), without a password.
    ///
    /// # Errors
    /// Anything else.
    pub fn from_pem(text: &str) -> Result<Self, CaptureFault> {
        let der = Zeroizing::new(pem(text, "PRIVATE KEY").ok_or(CaptureFault::PrivateKey)?);
        let raw = der.strip_prefix(&PKCS8_HEAD).filter(|raw| raw.len() == 32).ok_or(CaptureFault::PrivateKey)?;
        let key = PrivateKey::from_private_key(&X25519, raw).map_err(|_| CaptureFault::PrivateKey)?;
        let public = BreakGlassKey::of(public_of(&key));
        Ok(Self { key, public })
    }

    /// The key that it opens for.
    pub const fn public(&self) -> &BreakGlassKey {
        &self.public
    }

    /// Whether this key is the one that bodies were sealed for.
    ///
    /// # Errors
    /// [`CaptureFault::Form`] or [`CaptureFault::OtherKey`].
    pub fn fits(&self, sealed: &[u8]) -> Result<(), CaptureFault> {
        let id = sealed.get(1..=KEY_ID).and_then(<[u8]>::first_chunk).ok_or(CaptureFault::Form)?;
        if sealed[0] != VERSION || sealed.len() < HEAD + OPENING + 4 + TAG {
            return Err(CaptureFault::Form);
        }
        if *id == self.public.id { Ok(()) } else { Err(CaptureFault::OtherKey(*id)) }
    }

    /// Opens what was sealed for the answer `id` in `log`.
    ///
    /// # Errors
    /// As [`BreakGlassSecret::fits`], or [`CaptureFault::Changed`].
    pub fn open(&self, (log, id): (LogId, LineageId), sealed: &[u8]) -> Result<OpenedBodies, CaptureFault> {
        self.fits(sealed)?;
        let (enc, body) = sealed[HEAD - 32..].split_at(32);
        let enc: &[u8; 32] = enc.try_into().expect("it was split there");
        let plain = Zeroizing::new(open_base(&self.key, self.public.raw, enc, INFO, &aad(log, id), body)?);
        let (opening, rest) = plain.split_first_chunk::<OPENING>().ok_or(CaptureFault::Form)?;
        let (length, bodies) = rest.split_first_chunk::<4>().ok_or(CaptureFault::Form)?;
        let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| CaptureFault::Form)?;
        let (request, response) = bodies.split_at_checked(length).ok_or(CaptureFault::Form)?;
        Ok(OpenedBodies {
            opening: Opening::from_bytes(*opening),
            request: Zeroizing::new(request.to_vec()),
            response: Zeroizing::new(response.to_vec()),
        })
    }
}

fn pem(text: &str, name: &str) -> Option<Vec<u8>> {
    let body = text.trim().strip_prefix(&format!("-----BEGIN {name}-----"))?;
    let body = body.strip_suffix(&format!("-----END {name}-----"))?;
    let body = Zeroizing::new(body.split_whitespace().collect::<String>());
    STANDARD.decode(body.as_bytes()).ok()
}

fn aad(log: LogId, id: LineageId) -> [u8; 32] {
    let mut aad = [0; 32];
    aad[..16].copy_from_slice(log.as_bytes());
    aad[16..].copy_from_slice(id.as_bytes());
    aad
}

fn ephemeral() -> PrivateKey {
    PrivateKey::generate(&X25519).expect("the operating system gives random bytes")
}

fn public_of(key: &PrivateKey) -> [u8; 32] {
    let public = key.compute_public_key().expect("a private key has a public one");
    public.as_ref().try_into().expect("an X25519 key has 32 bytes")
}

/// SealBase (RFC 9180 §6.1) in place; writes `enc` and returns the tag. The recipient's key was tried when it was read.
fn seal_base(ephemeral: &PrivateKey, recipient: [u8; 32], enc: &mut [u8], aad: &[u8], body: &mut [u8]) -> [u8; TAG] {
    let public = public_of(ephemeral);
    enc.copy_from_slice(&public);
    let secret = shared(ephemeral, recipient, &public, &recipient).expect("the key was tried when it was read");
    seal_with(&secret, INFO, aad, body)
}

fn seal_with(secret: &[u8; 32], info: &[u8], aad: &[u8], body: &mut [u8]) -> [u8; TAG] {
    let (key, nonce) = schedule(secret, info);
    let tag = key.seal_in_place_separate_tag(nonce, Aad::from(aad), body).expect("bodies are in memory");
    tag.as_ref().try_into().expect("the tag of Poly1305 has 16 bytes")
}

/// OpenBase (RFC 9180 §6.1).
fn open_base(
    key: &PrivateKey,
    own: [u8; 32],
    enc: &[u8; 32],
    info: &[u8],
    aad: &[u8],
    sealed: &[u8],
) -> Result<Vec<u8>, CaptureFault> {
    let secret = shared(key, *enc, enc, &own).ok_or(CaptureFault::Changed)?;
    let (opener, nonce) = schedule(&secret, info);
    let mut body = sealed.to_vec();
    let length = opener.open_in_place(nonce, Aad::from(aad), &mut body).map_err(|_| CaptureFault::Changed)?.len();
    body.truncate(length);
    Ok(body)
}

/// The shared secret of DHKEM (RFC 9180 §4.1); none for a peer of small order (§7.1.4).
fn shared(own: &PrivateKey, peer: [u8; 32], enc: &[u8; 32], recipient: &[u8; 32]) -> Option<Zeroizing<[u8; 32]>> {
    let peer = UnparsedPublicKey::new(&X25519, peer);
    agree(own, peer, (), |dh| {
        let prk = extract(&[], KEM_SUITE, b"eae_prk", dh);
        Ok(expand(&prk, KEM_SUITE, b"shared_secret", &[enc, recipient], 32))
    })
    .ok()
}

/// Key and first nonce of the base mode, without a pre-shared key (RFC 9180 §5.1).
fn schedule(secret: &[u8; 32], info: &[u8]) -> (LessSafeKey, Nonce) {
    let context = [&extract(&[], SUITE, b"psk_id_hash", &[])[..], &extract(&[], SUITE, b"info_hash", info)[..]];
    let context = [&[0], context[0], context[1]];
    let secret = extract(secret, SUITE, b"secret", &[]);
    let key = expand(&secret, SUITE, b"key", &context, 32);
    let nonce = expand(&secret, SUITE, b"base_nonce", &context, 12);
    let key = UnboundKey::new(&CHACHA20_POLY1305, key.as_slice()).expect("the key has 32 bytes");
    (LessSafeKey::new(key), Nonce::assume_unique_for_key(*nonce.first_chunk().expect("12 of 32 bytes")))
}

/// LabeledExtract (RFC 9180 §4).
fn extract(salt: &[u8], suite: &[u8], label: &[u8], ikm: &[u8]) -> Zeroizing<[u8; 32]> {
    mac(salt, &[b"HPKE-v1", suite, label, ikm])
}

/// LabeledExpand (RFC 9180 §4) to `length` ≤ 32 bytes, the first ones of those returned.
fn expand(prk: &[u8; 32], suite: &[u8], label: &[u8], info: &[&[u8]], length: u8) -> Zeroizing<[u8; 32]> {
    let head: [&[u8]; 4] = [&[0, length], b"HPKE-v1", suite, label];
    mac(prk, &[&head[..], info, &[&[1]]].concat())
}

fn mac(key: &[u8], parts: &[&[u8]]) -> Zeroizing<[u8; 32]> {
    let mut mac = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    for part in parts {
        mac.update(part);
    }
    Zeroizing::new(mac.sign().as_ref().try_into().expect("HMAC-SHA-256 has 32 bytes"))
}

#[cfg(test)]
#[path = "capture_tests.rs"]
mod tests;
