//! Vectors rounded to int8.

use crate::dot::LANES;

/// Dimensions of the largest vector: 127² · 16,384 is far inside an i32.
pub(crate) const MAX_DIMS: usize = 16_384;

/// A vector rounded to int8. Its own length after rounding is kept, so that a vector's similarity to itself is 1.
pub(crate) struct Quantised {
    pub(crate) row: Vec<i8>,
    pub(crate) inverse_norm: f32,
    pub(crate) dims: usize,
}

impl Quantised {
    /// None for a vector without a direction: empty, zero, or holding NaN or infinity; and for one over [`MAX_DIMS`].
    pub(crate) fn of(vector: &[f32]) -> Option<Self> {
        // As bit patterns, magnitudes are ordered like integers, and everything that is not finite lies above the rest.
        let largest = vector.iter().map(|x| x.to_bits() & !SIGN).fold(0, u32::max);
        let largest = f32::from_bits(largest);
        if vector.len() > MAX_DIMS || largest == 0.0 || !largest.is_finite() {
            return None;
        }
        let mut row = vec![0; vector.len().next_multiple_of(LANES)];
        for (row, x) in row.iter_mut().zip(vector) {
            *row = nearest(x / largest * 127.0);
        }
        let square: i32 = row.iter().map(|&x| i32::from(x) * i32::from(x)).sum();
        Some(Self { row, inverse_norm: (square as f32).sqrt().recip(), dims: vector.len() })
    }
}

const SIGN: u32 = 1 << 31;

/// The integer nearest to `x`, which is within ±127. The sum's last bits are that integer, because floats of its size are
/// one apart; unlike a cast, this has no case for what is out of range and so stays in vector registers.
#[expect(clippy::cast_possible_truncation, reason = "the last byte is what is wanted")]
const fn nearest(x: f32) -> i8 {
    const THREE_HALVES_OF_2_23: f32 = 12_582_912.0;
    ((x + THREE_HALVES_OF_2_23).to_bits() as u8).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_element_is_rounded_to_the_nearest_of_127_steps(vector in prop::collection::vec(-1e6f32..1e6, 1..100)) {
            let largest = vector.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
            prop_assume!(largest > 0.0);
            let row = Quantised::of(&vector).expect("finite").row;
            prop_assert!(row.len().is_multiple_of(LANES) && row[vector.len()..].iter().all(|&x| x == 0));
            for (x, rounded) in vector.iter().zip(row) {
                let exact = f64::from(*x) / f64::from(largest) * 127.0;
                prop_assert!((exact - f64::from(rounded)).abs() < 0.5001, "{} {}", exact, rounded);
            }
        }
    }

    #[test]
    fn what_has_no_direction_is_refused_wherever_it_stands() {
        for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for at in 0..40 {
                let mut vector = [1.0; 40];
                vector[at] = bad;
                assert!(Quantised::of(&vector).is_none(), "{bad} at {at}");
            }
        }
        assert!(Quantised::of(&[0.0, -0.0]).is_none());
        assert!(Quantised::of(&[f32::from_bits(1), 0.0]).is_some_and(|v| v.row[0] == 127), "the smallest float");
        assert!(Quantised::of(&vec![1.0; MAX_DIMS + 1]).is_none());
    }
}
