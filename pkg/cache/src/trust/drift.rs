//! Notices that hits have become wrong more often than they may be.
//!
//! A one-sided CUSUM on the labels (Page, "Continuous Inspection Schemes", Biometrika 41, 1954): the log-likelihood ratio
//! of "five times the bound" against "at the bound", summed and never under zero.

use super::label::{Label, UNIT, Verdict};

/// How many times the bound is what must be noticed quickly.
const WORSE: f64 = 5.0;
/// Sums are whole numbers, a log-likelihood of 1 being this many, so that every replica reaches the same ones and a stored
/// sum is the sum that it was.
const ONE_E12: f64 = 1e12;
/// ln 1000. With the bound at 1 % five mistakes in a row reach it, and so do five among 31 labels.
const ALARM_E12: i64 = 6_907_755_278_982;

/// The sum so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cusum {
    sum_e12: i64,
    if_wrong_e6: i64,
    if_right_e6: i64,
}

impl Cusum {
    pub(super) fn new(max_false_share: f64) -> Self {
        let at = max_false_share.clamp(1e-6, 1.0 - 1e-6);
        let worse = (WORSE * at).min(f64::midpoint(1.0, at));
        #[expect(clippy::cast_possible_truncation, reason = "logarithms of shares from 1e-6 to 1 are below 30")]
        let e6 = |ratio: f64| (ratio.ln() * (ONE_E12 / f64::from(UNIT))).round() as i64;
        Self { sum_e12: 0, if_wrong_e6: e6(worse / at), if_right_e6: e6((1.0 - worse) / (1.0 - at)) }
    }

    /// The sum so far.
    pub(super) const fn sum_e12(self) -> i64 {
        self.sum_e12
    }

    /// Goes on from a sum.
    pub(super) fn resume(&mut self, sum_e12: i64) {
        self.sum_e12 = sum_e12.clamp(0, ALARM_E12);
    }

    /// Takes a label in; whether the sum stands at the alarm then. It never goes further, so that good labels end what bad ones
    /// began, and a mistake more never makes a later sum smaller.
    pub(super) fn alarms(&mut self, label: &Label) -> bool {
        let step = match label.verdict {
            Verdict::Wrong => self.if_wrong_e6,
            Verdict::Right => self.if_right_e6,
            Verdict::Unknown => return false,
        };
        self.sum_e12 = (self.sum_e12 + i64::from(label.weight_e6) * step).clamp(0, ALARM_E12);
        self.sum_e12 >= ALARM_E12
    }
}
