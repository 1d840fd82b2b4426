//! Adding scaled int8 rows: half of the work of an encoding.
//!
//! One body, compiled once more for AVX2. No sum is reordered, so both give the same bits.

/// Adds `scale` times each element of `row`, read as int8, to the element of `sum` at its place.
pub(crate) fn add_scaled(row: &[u8], scale: f32, sum: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        #[expect(unsafe_code, reason = "a function that needs AVX2 is unsafe to call from one that does not")]
        // SAFETY: the processor has just been found to have AVX2.
        unsafe {
            add_scaled_avx2(row, scale, sum);
        }
        return;
    }
    portable(row, scale, sum);
}

#[expect(clippy::inline_always, reason = "it is compiled again inside the function that enables AVX2")]
#[inline(always)]
fn portable(row: &[u8], scale: f32, sum: &mut [f32]) {
    for (sum, &byte) in sum.iter_mut().zip(row) {
        *sum += scale * f32::from(byte.cast_signed());
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn add_scaled_avx2(row: &[u8], scale: f32, sum: &mut [f32]) {
    portable(row, scale, sum);
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
        ) {
            let row = &row[skip.min(row.len())..]; // every alignment
            let mut chosen: Vec<f32> = (0..row.len() + 3).map(|i| i as f32 * 0.7).collect();
            let mut plain = chosen.clone();
            add_scaled(row, scale, &mut chosen);
            portable(row, scale, &mut plain);
            prop_assert_eq!(chosen, plain);
        }
    }
}
