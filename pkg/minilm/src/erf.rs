//! The error function, which the standard library does not have.

/// erf(x) to about 1e-7: a quotient of polynomials in x², fitted on \[-4, 4\], beyond which it is ±1 in single precision
/// (the coefficients are those of Eigen 3.3, `generic_fast_erf_float`). Without a branch, so that a row of them is computed
/// side by side.
pub(crate) fn erf(x: f32) -> f32 {
    const ABOVE: [f32; 7] =
        [-2.726_142e-10, 2.770_681_4e-8, -2.101_024e-6, -5.692_506_3e-5, -7.349_906e-4, -2.954_6e-3, -1.609_603_3e-2];
    const BELOW: [f32; 5] = [-1.456_607_2e-5, -2.133_740_6e-4, -1.682_827e-3, -7.373_329e-3, -1.426_473_9e-2];
    let x = x.clamp(-4.0, 4.0);
    let square = x * x;
    let horner = |coefficients: &[f32]| coefficients.iter().fold(0.0, |sum, c| sum * square + c);
    x * horner(&ABOVE) / horner(&BELOW)
}

/// The Gaussian error linear unit, x Φ(x) (D. Hendrycks, K. Gimpel, 2016), in its exact form.
pub(crate) fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_function_has_the_values_of_the_tables() {
        // Abramowitz and Stegun, table 7.1.
        for (x, value) in [
            (0.0, 0.0),
            (0.1, 0.112_462_916),
            (0.5, 0.520_499_9),
            (1.0, 0.842_700_8),
            (1.5, 0.966_105_15),
            (2.0, 0.995_322_3),
            (3.0, 0.999_977_9),
            (9.0, 1.0),
        ] {
            for (x, value) in [(x, value), (-x, -value)] {
                assert!((erf(x) - value).abs() < 4e-7, "erf({x}) = {} and not {value}", erf(x));
            }
        }
    }

    #[test]
    fn the_linear_unit_passes_what_is_far_over_zero_and_stops_what_is_far_under() {
        assert!((gelu(1.0) - 0.841_344_8).abs() < 1e-6);
        assert!((gelu(-1.0) + 0.158_655_25).abs() < 1e-6);
        assert!((gelu(20.0) - 20.0).abs() < 1e-4 && gelu(-20.0).abs() < 1e-4);
    }
}
