//! Exact binomial intervals (Clopper and Pearson, Biometrika 26, 1934), which cover at least as often as they claim, also
//! for zero wrong hits and few trials.

/// A confidence interval of a share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// The two-sided interval for `hits` of `trials` at `confidence`, for instance 0.95; all of `[0, 1]` without a trial.
pub fn clopper_pearson(hits: u64, trials: u64, confidence: f64) -> Interval {
    let tail = f64::midpoint(1.0, -confidence);
    let misses = trials.saturating_sub(hits);
    Interval { low: 1.0 - above(misses, trials, tail), high: above(hits, trials, tail) }
}

/// The one-sided upper bound: a larger share would give so few `hits` with a probability of under 1 − `confidence`.
pub fn upper_bound(hits: u64, trials: u64, confidence: f64) -> f64 {
    above(hits, trials, 1.0 - confidence)
}

/// The share p at which `hits` or fewer of `trials` have the probability `tail`: the (1 − tail) quantile of
/// Beta(hits + 1, trials − hits).
fn above(hits: u64, trials: u64, tail: f64) -> f64 {
    if hits >= trials {
        return 1.0;
    }
    let (a, b) = (hits as f64 + 1.0, (trials - hits) as f64);
    let (mut low, mut high) = (0.0, 1.0);
    // Each step halves the interval: 60 of them reach the precision of a double.
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if beta_share(middle, a, b) < 1.0 - tail { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// The regularised incomplete beta function I_x(a, b), by the continued fraction DLMF 8.17.22.
fn beta_share(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta_share(1.0 - x, b, a); // where the fraction converges fast
    }
    let front = a * x.ln() + b * (-x).ln_1p() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b);
    front.exp() / a / fraction(x, a, b)
}

/// 1 + d1/(1 + d2/(1 + …)) by Lentz's method (Applied Optics 15, 1976). It takes about √max(a, b) steps.
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let (mut value, mut above, mut below) = (1.0, 1.0, 0.0);
    for step in 1..100_000 {
        let factor = factor(step, x, a, b);
        below = 1.0 / away_from_zero(1.0 + factor * below);
        above = away_from_zero(1.0 + factor / above);
        value *= above * below;
        if (above * below - 1.0).abs() < 1e-15 {
            break;
        }
    }
    value
}

/// d1, d2, … of DLMF 8.17.22.
fn factor(step: u32, x: f64, a: f64, b: f64) -> f64 {
    let m = f64::from(step / 2);
    let even = a + 2.0 * m;
    if step.is_multiple_of(2) {
        m * (b - m) * x / ((even - 1.0) * even)
    } else {
        -(a + m) * (a + b + m) * x / (even * (even + 1.0))
    }
}

/// ln Γ(x) for x > 0: Stirling's series DLMF 5.11.1, after moving x over 12 by the recurrence.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut moved) = (x, 0.0);
    while x < 12.0 {
        moved += x.ln();
        x += 1.0;
    }
    let z = 1.0 / (x * x);
    let series = (1.0 / 12.0 - z * (1.0 / 360.0 - z * (1.0 / 1260.0 - z * (1.0 / 1680.0 - z / 1188.0)))) / x;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - moved
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn is(interval: Interval, low: f64, high: f64) {
        let near = (interval.low - low).abs() < 6e-5 && (interval.high - high).abs() < 6e-5;
        assert!(near, "{interval:?} is not [{low}, {high}]");
    }

    #[test]
    fn intervals_agree_with_published_ones() {
        is(clopper_pearson(10, 100, 0.95), 0.0490, 0.1762);
        is(clopper_pearson(3, 20, 0.95), 0.0321, 0.3789);
        is(clopper_pearson(42, 100, 0.95), 0.3220, 0.5229);
        is(clopper_pearson(12, 30, 0.90), 0.2495, 0.5661);
        is(clopper_pearson(85, 120, 0.99), 0.5904, 0.8092);
        is(clopper_pearson(0, 10, 0.95), 0.0, 0.3085);
        is(clopper_pearson(10, 10, 0.95), 0.6915, 1.0);
        is(clopper_pearson(0, 0, 0.95), 0.0, 1.0);
    }

    #[test]
    fn without_a_hit_the_upper_bound_has_a_closed_form() {
        // (1 − p)^n = 0.05; near 3/n, the rule of three.
        for trials in [1, 10, 300, 100_000] {
            let exact = 1.0 - 0.05_f64.powf(1.0 / trials as f64);
            assert!((upper_bound(0, trials, 0.95) - exact).abs() < 1e-9, "{trials}");
        }
    }

    #[test]
    fn the_gamma_function_is_the_factorial() {
        for (x, factorial) in [(1.0, 1.0), (5.0, 24.0), (11.0, 3_628_800.0)] {
            assert!((ln_gamma(x) - f64::ln(factorial)).abs() < 1e-12, "{x}");
        }
        assert!((ln_gamma(0.5) - std::f64::consts::PI.sqrt().ln()).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn the_bound_is_where_the_tail_has_its_probability(trials in 1_u64..60, at in 0.0..1.0_f64) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 60")]
            let hits = (at * trials as f64) as u64;
            let p = upper_bound(hits, trials, 0.95);
            // P(X ≤ hits), term by term.
            let mut term = (1.0 - p).powi(i32::try_from(trials).expect("below 60"));
            let mut sum = term;
            for k in 0..hits {
                term *= (trials - k) as f64 / (k + 1) as f64 * p / (1.0 - p);
                sum += term;
            }
            prop_assert!((sum - 0.05).abs() < 1e-8, "{sum}");
        }

        #[test]
        fn an_interval_holds_its_share(trials in 1_u64..1_000_000, at in 0.0..=1.0_f64) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below a million")]
            let hits = (at * trials as f64) as u64;
            let interval = clopper_pearson(hits, trials, 0.95);
            let share = hits as f64 / trials as f64;
            prop_assert!(interval.low <= share && share <= interval.high, "{interval:?}");
        }
    }
}
