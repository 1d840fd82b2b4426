//! Dot products of int8 rows with a query: the one loop whose speed matters, twice.
//!
//! Both versions compute exactly the same integers, so which one runs is invisible. The AVX2 version is chosen when the
//! program runs; elsewhere the scalar version is left to the compiler's own vectorisation.

/// Rows and queries are padded with zeros to a multiple of this.
pub(crate) const LANES: usize = 32;

/// Sets `out[i]` to the dot product of row `i` and `query`.
///
/// The caller keeps elements within ±127 and rows within `quantised::MAX_DIMS`, so that no sum leaves an i32.
pub(crate) fn dots(rows: &[i8], query: &[i16], out: &mut [i32]) {
    assert!(
        query.len().is_multiple_of(LANES) && rows.len() == out.len() * query.len(),
        "rows are padded like the query"
    );
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        #[expect(unsafe_code, reason = "a function that needs AVX2 is unsafe to call from one that does not")]
        // SAFETY: the processor has just been found to have AVX2.
        unsafe {
            avx2::dots(rows, query, out);
        }
        return;
    }
    scalar(rows, query, out);
}

fn scalar(rows: &[i8], query: &[i16], out: &mut [i32]) {
    for (row, out) in rows.chunks_exact(query.len()).zip(out) {
        *out = row.iter().zip(query).map(|(&r, &q)| i32::from(r) * i32::from(q)).sum();
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::LANES;
    use std::arch::x86_64::{
        __m256i, _mm_add_epi32, _mm_cvtsi128_si32, _mm_loadu_si128, _mm_shuffle_epi32, _mm256_add_epi32,
        _mm256_castsi256_si128, _mm256_cvtepi8_epi16, _mm256_extracti128_si256, _mm256_loadu_si256, _mm256_madd_epi16,
        _mm256_setzero_si256,
    };

    /// Elements that one load takes.
    const HALF: usize = LANES / 2;

    /// As [`super::scalar`].
    #[target_feature(enable = "avx2")]
    pub(super) fn dots(rows: &[i8], query: &[i16], out: &mut [i32]) {
        for (row, out) in rows.chunks_exact(query.len()).zip(out) {
            let mut sum = _mm256_setzero_si256();
            for (row, query) in row.chunks_exact(LANES).zip(query.chunks_exact(LANES)) {
                let ((row, more), (query, further)) = (row.split_at(HALF), query.split_at(HALF));
                sum = _mm256_add_epi32(sum, products(row, query));
                sum = _mm256_add_epi32(sum, products(more, further));
            }
            *out = total(sum);
        }
    }

    #[expect(unsafe_code, reason = "SIMD loads take pointers")]
    #[inline]
    #[target_feature(enable = "avx2")]
    fn products(row: &[i8], query: &[i16]) -> __m256i {
        debug_assert!(row.len() == HALF && query.len() == HALF);
        // SAFETY: both hold exactly HALF elements, 16 and 32 bytes; these loads need no alignment.
        let (row, query) = unsafe { (_mm_loadu_si128(row.as_ptr().cast()), _mm256_loadu_si256(query.as_ptr().cast())) };
        _mm256_madd_epi16(_mm256_cvtepi8_epi16(row), query)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn total(sum: __m256i) -> i32 {
        let half = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
        let pair = _mm_add_epi32(half, _mm_shuffle_epi32::<0b01_00_11_10>(half));
        _mm_cvtsi128_si32(_mm_add_epi32(pair, _mm_shuffle_epi32::<0b10_11_00_01>(pair)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_chosen_version_equals_the_scalar_one(
            chunks in 1usize..9,
            count in 0usize..70,
            seed in prop::collection::vec(-127i8..=127, 131),
            (skip, shift) in (0usize..LANES, 0usize..LANES), // every alignment
        ) {
            let wide = chunks * LANES;
            let rows: Vec<i8> = seed.iter().cycle().step_by(3).take(skip + count * wide).copied().collect();
            let query: Vec<i16> = seed.iter().rev().cycle().take(shift + wide).map(|&x| i16::from(x)).collect();
            let (mut chosen, mut plain) = (vec![0; count], vec![0; count]);
            let (rows, query) = (&rows[skip..], &query[shift..]);
            dots(rows, query, &mut chosen);
            scalar(rows, query, &mut plain);
            prop_assert_eq!(chosen, plain);
        }
    }

    #[test]
    fn the_largest_sums_stay_exact() {
        let wide = crate::quantised::MAX_DIMS;
        let (rows, query) = (vec![-127i8; wide], vec![127i16; wide]);
        let mut out = [0];
        dots(&rows, &query, &mut out);
        assert_eq!(i64::from(out[0]), -127 * 127 * i64::try_from(wide).expect("small"));
    }
}
