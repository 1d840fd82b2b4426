//! Notices that hits have become wrong more often than they may be.
//!
//! A one-sided CUSUM on the labels (Page, "Continuous Inspection Schemes", Biometrika 41, 1954): the log-likelihood ratio
//! of "five times the bound" against "at the bound", summed and never under zero.

use super::label::{Label, UNIT, Verdict};

/// How many times the bound is what must be noticed quickly.
const WORSE: f64 = 5.0;
/// ln 1000. With the bound at 1 % five mistakes in a row reach it, and so do five among 31 labels.
const ALARM: f64 = 6.907_755_278_982_137;

/// The sum so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cusum {
    sum: f64,
    if_wrong: f64,
    if_right: f64,
}

impl Cusum {
    pub(super) fn new(max_false_share: f64) -> Self {
        let at = max_false_share.clamp(1e-6, 1.0 - 1e-6);
        let worse = (WORSE * at).min(f64::midpoint(1.0, at));
        Self { sum: 0.0, if_wrong: (worse / at).ln(), if_right: ((1.0 - worse) / (1.0 - at)).ln() }
    }

    /// Takes a label in; whether the sum stands at the alarm then. It never goes further, so that good labels end what bad ones
    /// began, and a mistake more never makes a later sum smaller.
    pub(super) fn alarms(&mut self, label: &Label) -> bool {
        let step = match label.verdict {
            Verdict::Wrong => self.if_wrong,
            Verdict::Right => self.if_right,
            Verdict::Unknown => return false,
        };
        let weight = f64::from(label.weight_e6) / f64::from(UNIT);
        self.sum = weight.mul_add(step, self.sum).clamp(0.0, ALARM);
        self.sum >= ALARM
    }
}
