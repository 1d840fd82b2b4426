//! Adding scaled rows of small integers: half of the work of an encoding.
//!
//! One body, compiled once more for AVX2. No sum is reordered, so both give the same bits.

/// How a row's elements lie in its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    /// One a byte.
    Bytes,
    /// Two a byte: the low four bits hold an element of the row's first half, the high four one of its second.
    Nibbles,
}

/// Adds `scale` times each element of `row` to the element of `sum` at its place.
pub(crate) fn add_scaled(row: &[u8], packing: Packing, scale: f32, sum: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        #[expect(unsafe_code, reason = "a function that needs AVX2 is unsafe to call from one that does not")]
        // SAFETY: the processor has just been found to have AVX2.
        unsafe {
            add_scaled_avx2(row, packing, scale, sum);
        }
        return;
    }
    portable(row, packing, scale, sum);
}

#[expect(clippy::inline_always, reason = "it is compiled again inside the function that enables AVX2")]
#[inline(always)]
fn portable(row: &[u8], packing: Packing, scale: f32, sum: &mut [f32]) {
    match packing {
        Packing::Bytes => {
            for (sum, &byte) in sum.iter_mut().zip(row) {
                *sum += scale * f32::from(byte.cast_signed());
            }
        }
        Packing::Nibbles => {
            let (first, second) = sum.split_at_mut(row.len());
            for ((first, second), &byte) in first.iter_mut().zip(second).zip(row) {
                *first += scale * f32::from((byte << 4).cast_signed() >> 4);
                *second += scale * f32::from(byte.cast_signed() >> 4);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn add_scaled_avx2(row: &[u8], packing: Packing, scale: f32, sum: &mut [f32]) {
    portable(row, packing, scale, sum);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_chosen_version_gives_the_bits_of_the_portable_one(
            row in prop::collection::vec(any::<u8>(), 0..300),
            scale in -1e3f32..1e3,
            skip in 0usize..40,
            packing in prop_oneof![Just(Packing::Bytes), Just(Packing::Nibbles)],
        ) {
            let row = &row[skip.min(row.len())..]; // every alignment
            let mut chosen: Vec<f32> = (0..row.len() * 2).map(|i| i as f32 * 0.7).collect();
            let mut plain = chosen.clone();
            add_scaled(row, packing, scale, &mut chosen);
            portable(row, packing, scale, &mut plain);
            prop_assert_eq!(chosen, plain);
        }
    }

    #[test]
    fn nibbles_are_two_signed_halves_of_a_row() {
        let mut sum = [1.0; 4];
        add_scaled(&[0x97, 0x0f], Packing::Nibbles, 0.5, &mut sum);
        let expected = [4.5, 0.5, -2.5, 1.0f32]; // 1 + ½ · (7, -1, -7, 0)
        assert_eq!(sum.map(f32::to_bits), expected.map(f32::to_bits));
    }
}
