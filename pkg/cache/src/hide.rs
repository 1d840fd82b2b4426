//! What a store that searches by cosine may see of a vector: its image under a secret rotation.
//!
//! A search needs the angles between vectors, so they cannot be encrypted as answers are. They are rotated instead, by a map
//! that only the tenant's key gives: two rounds of sign flips, a Walsh-Hadamard transform and a permutation, signs and
//! permutation drawn from SHA-256 in counter mode under a seed that HKDF-SHA-256 (RFC 5869) derives from the tenant's key,
//! the encoder's id and the number of dimensions. (Flips and transform as in the fast Johnson-Lindenstrauss transform, Ailon
//! and Chazelle 2009, here without dropping dimensions.)
//!
//! What that is worth:
//! - Without the key, one vector says nothing of its text to a model that inverts embeddings: it lies in unknown axes.
//! - Angles stay, by intent. Who reads the table sees which questions of one place lie near to each other, and how near.
//! - It is not semantic security. Who knows the texts of about as many rows as there are dimensions can solve for the rotation
//!   and from then on read all vectors of that tenant and encoder as if they were in the clear; fewer pairs may do.
//! - Another tenant, epoch or encoder has an unrelated rotation. When the tenant's key is erased, the rows are removed; a copy
//!   elsewhere (a backup) is rotated by a map that nobody has any more.

use crate::ports::Place;
use crate::seal::expand;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use std::fmt;
use zeroize::Zeroizing;

const ROUNDS: usize = 2;
/// Dimensions at most; no encoder has nearly as many.
const MAX_DIMS: usize = 16_384;

/// Hides one tenant's vectors and places of one key epoch.
pub struct HideKey(Zeroizing<[u8; 32]>);

impl fmt::Debug for HideKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HideKey")
    }
}

impl HideKey {
    /// Derives the key from a tenant's 32 bytes.
    pub fn derive(tenant_key: &[u8; 32]) -> Self {
        Self(Zeroizing::new(expand(tenant_key, &[b"signet/hide/v1"])))
    }

    /// Names a place to the store. The name says nothing of what is in it: a bucket is a digest of the numbers and ids in a
    /// question, which could be guessed. Vectors of another encoder, or of another number of dimensions, lie elsewhere.
    pub fn place(&self, place: &Place, encoder: &str, dims: usize) -> [u8; 32] {
        let key = Zeroizing::new(expand(&self.0, &[b"signet/place/v1"]));
        let mut mac = Hmac::<Sha256>::new_from_slice(&*key).expect("HMAC takes any key length");
        mac.update(place.partition.as_bytes());
        mac.update(&place.bucket.to_be_bytes());
        mac.update(&(dims as u64).to_be_bytes());
        mac.update(encoder.as_bytes());
        mac.finalize().into_bytes().into()
    }

    /// The image of a vector, at unit length; none for one without a direction (empty, zero, not finite) or that is too long.
    pub fn vector(&self, encoder: &str, vector: &[f32]) -> Option<Vec<f32>> {
        let length = vector.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
        if !length.is_normal() || vector.len() > MAX_DIMS {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most 1")]
        let mut image: Vec<f32> = vector.iter().map(|x| (f64::from(*x) / length) as f32).collect();
        let dims = image.len();
        let mut random = Stream::new(expand(&self.0, &[b"signet/rotation/v1", encoder.as_bytes(), &dims_be(dims)]));
        // The transform takes a power of two: the first such block, then the last, which overlap.
        let block = 1_usize << dims.ilog2();
        for round in 0..ROUNDS {
            for x in &mut image {
                *x = if random.bit() { -*x } else { *x };
            }
            let from = if round % 2 == 0 { 0 } else { dims - block };
            hadamard(&mut image[from..from + block]);
            for last in (1..dims).rev() {
                image.swap(last, random.up_to(last));
            }
        }
        Some(image)
    }
}

fn dims_be(dims: usize) -> [u8; 8] {
    (dims as u64).to_be_bytes()
}

/// The orthonormal Walsh-Hadamard transform, in place; the length is a power of two.
#[expect(clippy::cast_possible_truncation, reason = "a scale in (0, 1]")]
fn hadamard(values: &mut [f32]) {
    let scale = (values.len() as f64).sqrt().recip() as f32;
    let mut half = 1;
    while half < values.len() {
        for pair in values.chunks_exact_mut(2 * half) {
            let (low, high) = pair.split_at_mut(half);
            for (a, b) in low.iter_mut().zip(high) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
    for x in values {
        *x *= scale;
    }
}

/// Random numbers that a seed decides: SHA-256 of seed and counter.
struct Stream {
    seed: Zeroizing<[u8; 32]>,
    counter: u64,
    words: [u32; 8],
    used: usize,
}

impl Stream {
    fn new(seed: [u8; 32]) -> Self {
        Self { seed: Zeroizing::new(seed), counter: 0, words: [0; 8], used: 8 }
    }

    fn word(&mut self) -> u32 {
        if self.used == self.words.len() {
            let block = Sha256::new().chain_update(*self.seed).chain_update(self.counter.to_be_bytes()).finalize();
            for (word, bytes) in self.words.iter_mut().zip(block.chunks_exact(4)) {
                *word = u32::from_be_bytes(bytes.try_into().expect("4 bytes"));
            }
            self.counter += 1;
            self.used = 0;
        }
        self.used += 1;
        self.words[self.used - 1]
    }

    fn bit(&mut self) -> bool {
        self.word() >> 31 == 1
    }

    /// From 0 to `last`; uneven by less than 2^-17 at [`MAX_DIMS`].
    fn up_to(&mut self, last: usize) -> usize {
        let scaled = u64::from(self.word()) * (last as u64 + 1);
        usize::try_from(scaled >> 32).expect("at most `last`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Partition, PartitionParts};
    use proptest::prelude::*;
    use signet_types::TenantId;

    fn dot(a: &[f32], b: &[f32]) -> f32 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    fn unit(vector: &[f32]) -> Vec<f32> {
        let length = dot(vector, vector).sqrt();
        vector.iter().map(|x| x / length).collect()
    }

    fn pair() -> impl Strategy<Value = (Vec<f32>, Vec<f32>)> {
        let vector = |dims| prop::collection::vec(-1.0_f32..1.0, dims);
        (1_usize..700).prop_flat_map(move |dims| (vector(dims), vector(dims)))
    }

    fn place(bucket: u64, shape: u8) -> Place {
        let parts = PartitionParts {
            tenant: TenantId::from_bytes([1; 16]),
            namespace: "",
            operation: "chat",
            targets: [0; 32],
            policy_generation: 0,
            shape: [shape; 32],
        };
        Place { partition: Partition::derive(&parts), bucket }
    }

    proptest! {
        #[test]
        fn angles_are_kept((a, b) in pair()) {
            prop_assume!(dot(&a, &a) > 1e-3 && dot(&b, &b) > 1e-3);
            let key = HideKey::derive(&[7; 32]);
            let (hidden_a, hidden_b) = (key.vector("e", &a).expect("finite"), key.vector("e", &b).expect("finite"));
            prop_assert!((dot(&hidden_a, &hidden_b) - dot(&unit(&a), &unit(&b))).abs() < 1e-4);
            prop_assert!((dot(&hidden_a, &hidden_a) - 1.0).abs() < 1e-4);
            prop_assert_eq!(key.vector("e", &a).expect("finite"), hidden_a);
        }

        #[test]
        fn another_key_or_encoder_gives_an_unrelated_image(seed in any::<[u8; 32]>(), vector in prop::collection::vec(-1.0_f32..1.0, 256)) {
            prop_assume!(seed != [7; 32] && dot(&vector, &vector) > 1e-3);
            let key = HideKey::derive(&[7; 32]);
            let image = key.vector("e", &vector).expect("finite");
            let others = [HideKey::derive(&seed).vector("e", &vector), key.vector("f", &vector), Some(unit(&vector))];
            for other in others {
                // Unrelated ones have a standard deviation of 1/16.
                prop_assert!(dot(&image, &other.expect("finite")).abs() < 0.45);
            }
        }

        #[test]
        fn any_floats_are_taken_or_refused_without_a_panic(vector in prop::collection::vec(any::<f32>(), 0..40)) {
            let image = HideKey::derive(&[7; 32]).vector("e", &vector);
            prop_assert!(image.is_none_or(|image| image.iter().all(|x| x.is_finite())));
        }
    }

    #[test]
    fn a_vector_with_one_large_value_is_spread_over_all_dimensions() {
        let mut vector = vec![0.0; 256];
        vector[3] = 1.0;
        let image = HideKey::derive(&[7; 32]).vector("e", &vector).expect("finite");
        assert!(image.iter().all(|x| x.abs() < 0.5), "{image:?}");
        assert!(image.iter().filter(|x| x.abs() > 1e-3).count() > 64);
    }

    #[test]
    fn vectors_without_a_direction_have_no_image() {
        let key = HideKey::derive(&[7; 32]);
        for odd in [&[][..], &[0.0, 0.0], &[f32::NAN, 1.0], &[f32::INFINITY, 1.0], &vec![1.0; MAX_DIMS + 1]] {
            assert_eq!(key.vector("e", odd), None);
        }
    }

    #[test]
    fn every_part_of_a_place_and_the_key_change_its_name() {
        let key = HideKey::derive(&[7; 32]);
        let names = [
            key.place(&place(1, 1), "e", 256),
            key.place(&place(2, 1), "e", 256),
            key.place(&place(1, 2), "e", 256),
            key.place(&place(1, 1), "f", 256),
            key.place(&place(1, 1), "e", 128),
            HideKey::derive(&[8; 32]).place(&place(1, 1), "e", 256),
        ];
        let different: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(different.len(), names.len());
        assert_eq!(key.place(&place(1, 1), "e", 256), names[0]);
    }
}
