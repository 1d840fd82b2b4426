//! Keys. A key is made only from a partition, so reading across tenants is not a bug one can write.

use sha2::{Digest, Sha256};
use signet_types::TenantId;

/// What may share cached answers: everything that decides the answer except the last user text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Partition {
    tenant: TenantId,
    digest: [u8; 32],
}

/// The parts of a partition. All are bound, length-prefixed, in this order.
#[derive(Debug, Clone, Copy)]
pub struct PartitionParts<'a> {
    /// The authenticated tenant.
    pub tenant: TenantId,
    /// `X-Cache-Namespace`, empty where none was sent.
    pub namespace: &'a str,
    /// Which endpoint: `chat`, `embeddings`.
    pub operation: &'static str,
    /// Digest of the resolved targets (provider, base URL, model), in order.
    pub targets: [u8; 32],
    /// Generation of the cache policy; a new one starts an empty cache.
    pub policy_generation: u64,
    /// Canonical digest of the request without its neutral fields and without the last user text.
    pub shape: [u8; 32],
}

impl Partition {
    /// Derives the partition.
    pub fn derive(parts: &PartitionParts<'_>) -> Self {
        let digest = digest(
            b"signet/partition/v1",
            &[
                parts.tenant.as_bytes(),
                parts.namespace.as_bytes(),
                parts.operation.as_bytes(),
                &parts.targets,
                &parts.policy_generation.to_be_bytes(),
                &parts.shape,
            ],
        );
        Self { tenant: parts.tenant, digest }
    }

    /// The partition of a stored row. What the row holds opens only if tenant and digest are the ones it was sealed for.
    pub const fn from_row(tenant: TenantId, digest: [u8; 32]) -> Self {
        Self { tenant, digest }
    }

    /// The tenant whose answers these are.
    pub const fn tenant(&self) -> TenantId {
        self.tenant
    }

    /// The 32 bytes that identify it.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.digest
    }
}

/// The key of one exact answer: 256 bits over the partition and the last user text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CacheKey([u8; 32]);

impl CacheKey {
    /// Derives the key of `last_text` within `partition`.
    pub fn derive(partition: &Partition, last_text: &[u8]) -> Self {
        Self(digest(b"signet/cache-key/v1", &[partition.as_bytes(), last_text]))
    }

    /// The key with these bytes, as a store returned them.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// SHA-256 over a domain label and length-prefixed parts, so that no two lists of parts collide by concatenation.
fn digest(domain: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in std::iter::once(&domain).chain(parts) {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Texts that are made of what could separate fields.
    fn confusable() -> impl Strategy<Value = String> {
        let pieces =
            prop::sample::select(vec!["a", "\0", "\u{1}", "/", ":", "|", "\n", "\u{1f}", " ", "é", "e\u{301}"]);
        prop::collection::vec(pieces, 0..6).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn different_parts_are_different_partitions_and_different_texts_different_keys(
            one in (any::<[u8; 16]>(), confusable(), 0_u64..3, confusable()),
            other in (any::<[u8; 16]>(), confusable(), 0_u64..3, confusable()),
            same_tenant in any::<bool>(),
        ) {
            let tenant = |bytes| TenantId::from_bytes(if same_tenant { [7; 16] } else { bytes });
            let key = |(bytes, namespace, policy_generation, text): &([u8; 16], String, u64, String)| {
                let own = PartitionParts { tenant: tenant(*bytes), namespace, policy_generation: *policy_generation, ..parts() };
                let partition = Partition::derive(&own);
                (partition, CacheKey::derive(&partition, text.as_bytes()))
            };
            let ((a, a_key), (b, b_key)) = (key(&one), key(&other));
            let same_place = tenant(one.0) == tenant(other.0) && (&one.1, one.2) == (&other.1, other.2);
            prop_assert_eq!(a == b, same_place);
            prop_assert_eq!(a_key == b_key, same_place && one.3 == other.3);
        }
    }

    fn parts() -> PartitionParts<'static> {
        PartitionParts {
            tenant: TenantId::from_bytes([1; 16]),
            namespace: "a",
            operation: "chat",
            targets: [2; 32],
            policy_generation: 0,
            shape: [3; 32],
        }
    }

    #[test]
    fn every_part_separates_partitions() {
        let base = Partition::derive(&parts());
        let others = [
            PartitionParts { tenant: TenantId::from_bytes([9; 16]), ..parts() },
            PartitionParts { namespace: "b", ..parts() },
            PartitionParts { operation: "embeddings", ..parts() },
            PartitionParts { targets: [9; 32], ..parts() },
            PartitionParts { policy_generation: 1, ..parts() },
            PartitionParts { shape: [9; 32], ..parts() },
        ];
        for other in others {
            assert_ne!(Partition::derive(&other), base, "{other:?}");
        }
    }

    #[test]
    fn moving_bytes_between_neighbouring_parts_changes_the_partition() {
        let one = PartitionParts { namespace: "ch", operation: "at", ..parts() };
        let two = PartitionParts { namespace: "c", operation: "hat", ..parts() };
        assert_ne!(Partition::derive(&one), Partition::derive(&two));
    }

    #[test]
    fn the_whole_text_enters_the_key() {
        let partition = Partition::derive(&parts());
        let mut long = vec![b'a'; 9000];
        let key = CacheKey::derive(&partition, &long);
        long[8999] = b'b';
        assert_ne!(CacheKey::derive(&partition, &long), key);
    }
}
