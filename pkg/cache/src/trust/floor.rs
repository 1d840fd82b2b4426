//! The floor that labels justify: conformal risk control (Angelopoulos, Bates, Fisch, Lei and Schuster, "Conformal Risk
//! Control", ICLR 2024), counted over hits.
//!
//! With n(l) labels at or over l, a share R(l) of them wrong, λ = inf{ l : n/(n+1)·R + 1/(n+1) ≤ a }, that is
//! (wrong(l) + 1) / (n(l) + 1) ≤ a: as if the next decision were a label already, and wrong. The counts are those at or
//! over l and not of all labels, because the bound is on the wrong share of what is *served*; the plain form would bound
//! the wrong share of everything that was looked at, which says less the higher the floor is.
//!
//! What it bounds: let λ* be the same infimum over the n labels and the next decision with its true label, asking for
//! wrong/all ≤ a. If the next decision is wrong, λ ≤ its score implies λ* ≤ its score. λ* treats all n+1 alike, so by
//! exchangeability P(served and wrong) ≤ E[wrong(λ*)]/(n+1) ≤ a·E[all(λ*)]/(n+1) = a·P(score ≥ λ*). Nothing is assumed on
//! how scores and mistakes belong together, and any number of levels may be looked at. It is a mean over sets of labels,
//! where a set that justifies nothing counts as no mistake: no rule that ever serves can promise more without assumptions.

use super::label::{Label, UNIT, Verdict};

/// Weights of the labels at or over a level.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    all: u64,
    bad: u64,
}

impl Tally {
    #[expect(clippy::cast_precision_loss, reason = "a window of labels is far below 2^52 millionths")]
    fn is_within(self, max_false_share: f64) -> bool {
        let one = u64::from(UNIT);
        (self.bad + one) as f64 <= max_false_share * (self.all + one) as f64
    }
}

/// What counts where nobody could tell whether an answer was right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doubt {
    /// As wrong: what is found then holds whatever the truth is.
    IsWrong,
    /// Not at all.
    IsLeftOut,
}

/// The lowest level at or over `lowest_e6` that `labels` justify; none if there is none. `labels` are in falling order of
/// scores.
pub(super) fn lowest_justified(labels: &[Label], lowest_e6: u32, max_false_share: f64, doubt: Doubt) -> Option<u32> {
    let mut tally = Tally::default();
    let mut found = None;
    let counted = labels.iter().take_while(|label| label.score_e6 >= lowest_e6);
    let counted = counted.filter(|label| doubt == Doubt::IsWrong || label.verdict != Verdict::Unknown);
    let mut counted = counted.peekable();
    let mut any_right = false;
    while let Some(label) = counted.next() {
        tally.all += u64::from(label.weight_e6);
        tally.bad += if label.verdict == Verdict::Right { 0 } else { u64::from(label.weight_e6) };
        any_right |= label.verdict == Verdict::Right;
        // Equal scores are served or refused together. A score at which nothing was right is no level: a mistake between two
        // levels would otherwise lower the floor from the upper one to its own.
        let level = match counted.peek() {
            Some(next) if next.score_e6 == label.score_e6 => continue,
            Some(_) if any_right => Some(label.score_e6),
            Some(_) => None,
            None => Some(lowest_e6),
        };
        any_right = false;
        found = level.filter(|_| tally.is_within(max_false_share)).or(found);
    }
    found
}

/// Whether so many labels could justify anything, were they all right: n ≥ 1/a − 1.
pub(super) fn could_justify(weight_e6: u64, max_false_share: f64) -> bool {
    Tally { all: weight_e6, bad: 0 }.is_within(max_false_share)
}
