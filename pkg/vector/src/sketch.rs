//! One bit a dimension: the coarse form of a vector.
//!
//! A vector's signs are taken after a fixed pseudo-random rotation (signs flipped, then a Walsh–Hadamard transform), so
//! that every bit tells as much as any other and the number of differing bits estimates the angle: a pair at angle θ
//! differs in a share θ/π of them (Charikar, "Similarity Estimation Techniques from Rounding Algorithms", STOC 2002;
//! the fast rotation: Ailon and Chazelle, "The Fast Johnson–Lindenstrauss Transform", SIAM J. Comput. 2009).
//! A wrong estimate loses a neighbour; it can never make one, because what it lets through is scored exactly.

/// Bits in a word of a code.
const WORD: usize = u64::BITS as usize;
/// Standard deviations of the number of differing bits that [`limit`] leaves for a pair at the floor itself.
const DEVIATIONS: f32 = 3.0;

/// Words of the code of a row of `stride` elements.
pub(crate) fn words(stride: usize) -> usize {
    stride.next_power_of_two().div_ceil(WORD)
}

/// Appends the code of `row` to `codes`: [`words`] words.
pub(crate) fn append(row: &[i8], codes: &mut Vec<u64>) {
    let mut turned = vec![0i32; words(row.len()) * WORD];
    let mut signs = SplitMix(0);
    for (turned, row) in turned.chunks_mut(WORD).zip(row.chunks(WORD)) {
        let signs = signs.next();
        for (bit, (turned, &x)) in turned.iter_mut().zip(row).enumerate() {
            let minus = i32::from((signs >> bit) & 1 == 1); // x or, as two's complement has it, -x
            *turned = (i32::from(x) ^ -minus) + minus;
        }
    }
    hadamard(&mut turned);
    let word = |chunk: &[i32]| chunk.iter().rev().fold(0, |word, &x| word << 1 | u64::from(x < 0));
    codes.extend(turned.chunks_exact(WORD).map(word));
}

/// The Walsh–Hadamard transform without its factor. No sum leaves an i32: elements are within ±127, at most 16,384.
fn hadamard(values: &mut [i32]) {
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
}

/// Bits of `bits` in which a vector at or over the cosine `floor` may differ, but for about one in a thousand.
pub(crate) fn limit(bits: usize, floor: f32) -> u16 {
    let share = floor.clamp(-1.0, 1.0).acos() / std::f32::consts::PI;
    let (bits, each) = (bits as f32, share * (1.0 - share));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 16,384 and some hundreds")]
    let limit = (bits * share + DEVIATIONS * (bits * each).sqrt()).ceil() as u16;
    limit
}

/// The SplitMix64 generator (Steele, Lea and Flood, OOPSLA 2014): fixed signs that no vector has in mind.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn code(row: &[i8]) -> Vec<u64> {
        let mut code = Vec::new();
        append(row, &mut code);
        code
    }

    fn differing(a: &[i8], b: &[i8]) -> f64 {
        let bits: u32 = code(a).iter().zip(code(b)).map(|(a, b)| (a ^ b).count_ones()).sum();
        f64::from(bits)
    }

    fn angle(a: &[i8], b: &[i8]) -> f64 {
        let dot = |a: &[i8], b: &[i8]| a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
        (dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()).clamp(-1.0, 1.0).acos()
    }

    proptest! {
        #[test]
        fn differing_bits_estimate_the_angle(
            base in prop::collection::vec(-127i8..=127, 256),
            change in prop::collection::vec(-127i8..=127, 256),
            weight in 0.0f64..1.5,
            decay in 0.98f64..1.0, // real vectors have most of their length in their first dimensions
        ) {
            let scale = |i: usize| decay.powi(i32::try_from(i).expect("small"));
            #[expect(clippy::cast_possible_truncation, reason = "within ±127")]
            let mixed = |i: usize, x: f64| (x / (1.0 + weight) * scale(i)) as i8;
            let a: Vec<i8> = (0..256).map(|i| mixed(i, f64::from(base[i]))).collect();
            let b: Vec<i8> = (0..256).map(|i| mixed(i, f64::from(base[i]) + weight * f64::from(change[i]))).collect();
            let expected = 256.0 * angle(&a, &b) / std::f64::consts::PI;
            prop_assert!((differing(&a, &b) - expected).abs() < 40.0, "{} {}", differing(&a, &b), expected);
        }

        #[test]
        fn the_opposite_vector_has_the_opposite_code_but_where_a_sum_is_zero(
            row in prop::collection::vec(-127i8..=127, 1..300),
        ) {
            let opposite: Vec<i8> = row.iter().map(|&x| -x).collect();
            let both: u32 = code(&row).iter().zip(code(&opposite)).map(|(a, b)| (a & b).count_ones()).sum();
            prop_assert_eq!(both, 0);
        }
    }

    #[test]
    fn the_transform_is_its_own_inverse_times_the_length() {
        let mut values: Vec<i32> = (0..64).map(|i| i * i - 700).collect();
        let before = values.clone();
        hadamard(&mut values);
        hadamard(&mut values);
        assert_eq!(values, before.iter().map(|x| x * 64).collect::<Vec<_>>());
    }

    #[test]
    fn the_longest_and_largest_vector_stays_in_range() {
        let row = vec![-127i8; crate::quantised::MAX_DIMS];
        assert_eq!(code(&row).len(), words(row.len()));
    }

    #[test]
    fn a_code_has_a_bit_for_each_dimension_and_fills_its_words() {
        for (stride, expected) in [(32, 1), (64, 1), (96, 2), (256, 4), (384, 8), (1536, 32), (16_384, 256)] {
            assert_eq!(words(stride), expected, "{stride}");
        }
    }

    #[test]
    fn the_limit_grows_from_nothing_at_equality() {
        let limits: Vec<u16> = [1.0, 0.97, 0.9, 0.5].iter().map(|&floor| limit(256, floor)).collect();
        assert_eq!(limits[0], 0);
        assert!(limits.is_sorted() && limits[1] >= 20 && limits[3] < 128, "{limits:?}");
    }
}
