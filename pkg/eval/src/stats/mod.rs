//! The statistics behind the figures; pure functions of counts and scores.

mod binomial;
mod random;
mod ranking;

pub use binomial::{Interval, clopper_pearson, upper_bound};
pub use random::SplitMix64;
pub use ranking::{REFUSED, Ranking, bootstrap};

/// The expected share of wrong answers among hits, where a share `base_rate` of the questions that have a near neighbour
/// may be answered from it: (1−π)·FPR / (π·TPR + (1−π)·FPR). None where nothing is hit.
pub fn false_share(true_hit_rate: f64, false_hit_rate: f64, base_rate: f64) -> Option<f64> {
    let right = base_rate * true_hit_rate;
    let wrong = (1.0 - base_rate) * false_hit_rate;
    (right + wrong > 0.0).then(|| wrong / (right + wrong))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn false_share_follows_bayes() {
        // Prevalence 10 %, sensitivity 90 %, 9 % false positives: half of the positives are false.
        assert!((false_share(0.9, 0.1, 0.1).expect("hits") - 0.5).abs() < 1e-12);
        assert_eq!(false_share(0.5, 0.0, 0.3), Some(0.0));
        assert_eq!(false_share(0.0, 0.0, 0.3), None);
    }
}
