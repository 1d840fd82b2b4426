//! Sealing: what leaves the process is encrypted and authenticated with the tenant's key, so that a wrong, foreign or
//! changed value is a miss, and so that destroying a tenant's key makes its cache unreadable everywhere.
//!
//! AES-256-GCM (NIST SP 800-38D) with a random 96-bit nonce: `0x01 | key epoch u32be | nonce[12] | ciphertext | tag[16]`.
//! The additional data binds key, partition and tenant: a value moved under another key does not open. Random nonces are
//! safe up to 2^32 values a key (ibid. §8.3); a deployment that writes 1,000 entries a second to one tenant reaches that
//! after 49 days, when the tenant's key epoch should have been raised.

use crate::key::{CacheKey, Partition};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf;
use signet_types::TenantId;
use std::fmt;

const VERSION: u8 = 1;
const HEAD: usize = 1 + 4 + NONCE_LEN;

/// A key that seals and opens one tenant's values of one epoch.
pub struct SealKey {
    key: LessSafeKey,
    epoch: u32,
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealKey(epoch {})", self.epoch)
    }
}

/// A sealed value did not open: another key, another place, another version, or damage. Always a miss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the sealed value does not open")]
pub struct SealFault;

impl SealKey {
    /// Derives the sealing key from a tenant's 32 bytes (HKDF-SHA-256, RFC 5869).
    pub fn derive(tenant_key: &[u8; 32], epoch: u32) -> Self {
        Self { key: aead_key(tenant_key, b"signet/seal/v1"), epoch }
    }

    /// The epoch of the tenant key behind it.
    pub const fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Seals `plain` for the place `(partition, key)`.
    pub fn seal(&self, partition: &Partition, key: &CacheKey, plain: Vec<u8>) -> Vec<u8> {
        seal_with(&self.key, self.epoch, &associated(partition, key), plain)
    }

    /// Seals the question of the entry at `(partition, key)`. It does not open as an entry, nor the entry as a question.
    pub fn seal_question(&self, partition: &Partition, key: &CacheKey, question: &str) -> Vec<u8> {
        seal_with(&self.key, self.epoch, &as_question(partition, key), question.as_bytes().to_vec())
    }

    /// Opens a question that [`SealKey::seal_question`] sealed for the same place.
    ///
    /// # Errors
    /// [`SealFault`] if it was not made so.
    pub fn open_question(&self, partition: &Partition, key: &CacheKey, sealed: &[u8]) -> Result<String, SealFault> {
        if epoch_of(sealed) != Some(self.epoch) {
            return Err(SealFault);
        }
        let plain = open_with(&self.key, &as_question(partition, key), sealed)?;
        String::from_utf8(plain).map_err(|_| SealFault)
    }

    /// Opens a value that [`SealKey::seal`] made for the same place.
    ///
    /// # Errors
    /// [`SealFault`] if it was not made so.
    pub fn open(&self, partition: &Partition, key: &CacheKey, sealed: &[u8]) -> Result<Vec<u8>, SealFault> {
        if epoch_of(sealed) != Some(self.epoch) {
            return Err(SealFault);
        }
        open_with(&self.key, &associated(partition, key), sealed)
    }
}

impl SealKey {
    /// Seals what is a tenant's but has no place in the cache. `kind`, of at most 63 bytes, keeps one kind of value from
    /// passing for another, or for a cache entry.
    pub fn seal_as(&self, kind: &'static [u8], tenant: TenantId, plain: Vec<u8>) -> Vec<u8> {
        seal_with(&self.key, self.epoch, &loose(kind, tenant), plain)
    }

    /// Opens a value that [`SealKey::seal_as`] made for the same kind and tenant.
    ///
    /// # Errors
    /// [`SealFault`] if it was not made so.
    pub fn open_as(&self, kind: &'static [u8], tenant: TenantId, sealed: &[u8]) -> Result<Vec<u8>, SealFault> {
        if epoch_of(sealed) != Some(self.epoch) {
            return Err(SealFault);
        }
        open_with(&self.key, &loose(kind, tenant), sealed)
    }
}

/// Shorter than what [`associated`] makes, so that the two can never be equal.
fn loose(kind: &'static [u8], tenant: TenantId) -> Vec<u8> {
    debug_assert!(kind.len() < 64, "as long as a place in the cache");
    [tenant.as_bytes(), kind].concat()
}

/// The tenant-key epoch that a sealed value names, so that the right key can be fetched.
pub fn epoch_of(sealed: &[u8]) -> Option<u32> {
    let head = sealed.get(..5)?;
    (head[0] == VERSION).then(|| u32::from_be_bytes(head[1..5].try_into().expect("4 bytes")))
}

/// Wraps a tenant's key with the deployment's secret.
pub(crate) fn wrap(secret: &[u8; 32], tenant: TenantId, tenant_key: &[u8; 32]) -> Vec<u8> {
    seal_with(&aead_key(secret, b"signet/wrap/v1"), 0, tenant.as_bytes(), tenant_key.to_vec())
}

/// Opens what [`wrap`] made with the same secret.
pub(crate) fn unwrap(secret: &[u8; 32], tenant: TenantId, wrapped: &[u8]) -> Result<[u8; 32], SealFault> {
    let plain = open_with(&aead_key(secret, b"signet/wrap/v1"), tenant.as_bytes(), wrapped)?;
    plain.try_into().map_err(|_| SealFault)
}

fn aead_key(secret: &[u8; 32], label: &[u8]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &expand(secret, &[label])).expect("32 bytes are an AES-256 key"))
}

/// 32 bytes that `secret` gives for these labels (HKDF-SHA-256, RFC 5869). The labels are concatenated.
pub(crate) fn expand(secret: &[u8; 32], labels: &[&[u8]]) -> [u8; 32] {
    let mut bytes = [0_u8; 32];
    hkdf::Salt::new(hkdf::HKDF_SHA256, &[])
        .extract(secret)
        .expand(labels, hkdf::HKDF_SHA256)
        .and_then(|okm| okm.fill(&mut bytes))
        .expect("32 bytes are within HKDF's bound");
    bytes
}

fn associated(partition: &Partition, key: &CacheKey) -> [u8; 80] {
    let mut out = [0_u8; 80];
    out[..16].copy_from_slice(partition.tenant().as_bytes());
    out[16..48].copy_from_slice(partition.as_bytes());
    out[48..].copy_from_slice(key.as_bytes());
    out
}

fn as_question(partition: &Partition, key: &CacheKey) -> Vec<u8> {
    [&associated(partition, key)[..], b"question"].concat()
}

fn seal_with(key: &LessSafeKey, epoch: u32, aad: &[u8], mut plain: Vec<u8>) -> Vec<u8> {
    let mut nonce = [0_u8; NONCE_LEN];
    getrandom::fill(&mut nonce).expect("the operating system gives entropy");
    let mut out = Vec::with_capacity(HEAD + plain.len() + AES_256_GCM.tag_len());
    out.push(VERSION);
    out.extend_from_slice(&epoch.to_be_bytes());
    out.extend_from_slice(&nonce);
    key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(aad), &mut plain)
        .expect("the value is shorter than GCM's 64 GiB");
    out.append(&mut plain);
    out
}

fn open_with(key: &LessSafeKey, aad: &[u8], sealed: &[u8]) -> Result<Vec<u8>, SealFault> {
    let (head, body) = sealed.split_at_checked(HEAD).ok_or(SealFault)?;
    if head[0] != VERSION {
        return Err(SealFault);
    }
    let nonce = Nonce::try_assume_unique_for_key(&head[5..]).map_err(|_| SealFault)?;
    let mut body = body.to_vec();
    let len = key.open_in_place(nonce, Aad::from(aad), &mut body).map_err(|_| SealFault)?.len();
    body.truncate(len);
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::PartitionParts;

    fn partition(tenant: u8) -> Partition {
        Partition::derive(&PartitionParts {
            tenant: TenantId::from_bytes([tenant; 16]),
            namespace: "",
            operation: "chat",
            targets: [0; 32],
            policy_generation: 0,
            shape: [0; 32],
        })
    }

    #[test]
    fn a_sealed_value_opens_only_in_its_own_place_and_with_its_own_key() {
        let (home, other) = (partition(1), partition(2));
        let (key, elsewhere) = (CacheKey::derive(&home, b"a"), CacheKey::derive(&home, b"b"));
        let seal = SealKey::derive(&[7; 32], 3);
        let sealed = seal.seal(&home, &key, b"answer".to_vec());
        assert_eq!(epoch_of(&sealed), Some(3));
        assert_eq!(seal.open(&home, &key, &sealed).as_deref(), Ok(&b"answer"[..]));
        assert!(seal.open(&home, &elsewhere, &sealed).is_err(), "moved under another key");
        assert!(seal.open(&other, &key, &sealed).is_err(), "moved to another tenant");
        assert!(SealKey::derive(&[8; 32], 3).open(&home, &key, &sealed).is_err(), "another key");
        assert!(SealKey::derive(&[7; 32], 4).open(&home, &key, &sealed).is_err(), "another epoch");
    }

    #[test]
    fn a_question_and_an_entry_do_not_stand_for_each_other() {
        let home = partition(1);
        let (key, elsewhere) = (CacheKey::derive(&home, b"a"), CacheKey::derive(&home, b"b"));
        let seal = SealKey::derive(&[7; 32], 3);
        let question = seal.seal_question(&home, &key, "Who?");
        assert_eq!(seal.open_question(&home, &key, &question).as_deref(), Ok("Who?"));
        assert!(seal.open_question(&home, &elsewhere, &question).is_err());
        assert!(seal.open(&home, &key, &question).is_err());
        assert!(seal.open_question(&home, &key, &seal.seal(&home, &key, b"Who?".to_vec())).is_err());
        assert!(SealKey::derive(&[7; 32], 4).open_question(&home, &key, &question).is_err(), "another epoch");
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_noticed() {
        let home = partition(1);
        let key = CacheKey::derive(&home, b"a");
        let seal = SealKey::derive(&[7; 32], 3);
        let sealed = seal.seal(&home, &key, b"answer".to_vec());
        for at in 0..sealed.len() {
            let mut bad = sealed.clone();
            bad[at] ^= 1;
            assert!(seal.open(&home, &key, &bad).is_err(), "byte {at}");
            assert!(seal.open(&home, &key, &sealed[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn what_has_no_place_in_the_cache_opens_only_as_its_kind_and_for_its_tenant() {
        let (tenant, seal) = (TenantId::from_bytes([1; 16]), SealKey::derive(&[7; 32], 3));
        let sealed = seal.seal_as(b"a", tenant, b"text".to_vec());
        assert_eq!(seal.open_as(b"a", tenant, &sealed).as_deref(), Ok(&b"text"[..]));
        assert!(seal.open_as(b"b", tenant, &sealed).is_err());
        assert!(seal.open_as(b"a", TenantId::from_bytes([2; 16]), &sealed).is_err());
        assert!(SealKey::derive(&[8; 32], 3).open_as(b"a", tenant, &sealed).is_err());
        assert!(seal.open_as(b"a", tenant, &sealed[..sealed.len() - 1]).is_err());
        let key = CacheKey::derive(&partition(1), b"a");
        assert!(seal.open(&partition(1), &key, &sealed).is_err(), "it is no cache entry");
    }

    #[test]
    fn a_wrapped_key_opens_only_for_its_tenant_and_secret() {
        let tenant = TenantId::from_bytes([1; 16]);
        let wrapped = wrap(&[9; 32], tenant, &[5; 32]);
        assert_eq!(unwrap(&[9; 32], tenant, &wrapped), Ok([5; 32]));
        assert!(unwrap(&[8; 32], tenant, &wrapped).is_err());
        assert!(unwrap(&[9; 32], TenantId::from_bytes([2; 16]), &wrapped).is_err());
    }
}
