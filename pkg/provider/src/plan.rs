//! In which order a request's targets are asked. Pure: the same views and the same moment give the same plan, so that
//! what `explain` shows is what a request would do.
//!
//! Tiers in order; within one, members in the order of a weighted rendezvous hash over the request's affinity, so that
//! requests with one prefix meet the provider whose prompt cache knows it, and a member that comes or goes moves its own
//! share only. A member with more than its share of the tier's calls under way stands behind the others (bounded load).
//! Who should get no calls (its breaker is open, it has asked for a pause, it is an outlier) is asked when nobody else is
//! left: a refusal of ours would help nobody more than the provider's own answer.

use crate::board::{View, mixed};
use crate::breaker::Circuit;
use crate::route::Target;
use std::cmp::Reverse;
use std::time::Duration;
use tokio::time::Instant;

/// Most calls under way in a tier that one member takes, over its share.
const OVERLOAD: f64 = 1.25;
/// What makes an outlier: so many calls, and so many times as bad as the others' median.
const OUTLIER_LEAST: u32 = 50;
const OUTLIER_TIMES: u32 = 3;
const OUTLIER_PERCENT: u64 = 20;

/// What requests of one kind have in common: the same affinity prefers the same member of a tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Affinity(pub(crate) u64);

impl Affinity {
    /// The affinity of what these parts say: tenant, model and prefix of the prompt.
    pub fn of(parts: &[&[u8]]) -> Self {
        Self(crate::board::digest64(b"signet/affinity/v1", parts))
    }
}

/// Where and in which order a request is tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Each target of the route once.
    pub steps: Vec<Step>,
}

/// A place in a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Index into [`crate::Route::targets`].
    pub target: usize,
    /// Why it stands where it does.
    pub why: Why,
}

/// Why a target stands where it does, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// It takes calls.
    Ready,
    /// Its breaker lets one call through.
    Probe,
    /// It takes calls, but has more than its share under way.
    Busy,
    /// It is much slower than the others of its tier, or fails much more often.
    Outlier,
    /// It has asked for a pause.
    Limited {
        /// Until then.
        until: Instant,
    },
    /// Its breaker is open.
    Open {
        /// Until then; none while a probe is under way.
        until: Option<Instant>,
    },
}

impl Why {
    /// Whether the target is asked when nobody else is left, and only then.
    pub const fn is_out(self) -> bool {
        matches!(self, Self::Outlier | Self::Limited { .. } | Self::Open { .. })
    }

    /// The reason's name, for reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Probe => "probe",
            Self::Busy => "busy",
            Self::Outlier => "outlier",
            Self::Limited { .. } => "limited",
            Self::Open { .. } => "open",
        }
    }

    fn of(view: &View) -> Self {
        match (view.circuit, view.not_before) {
            (Circuit::Open { until }, _) => Self::Open { until: Some(until) },
            (Circuit::Probing, _) => Self::Open { until: None },
            (_, Some(until)) => Self::Limited { until },
            (Circuit::Due, None) => Self::Probe,
            (Circuit::Closed, None) => Self::Ready,
        }
    }
}

/// Plans a request: `views` are those of `targets`, which are in the order of their tiers.
pub(crate) fn plan(targets: &[Target], views: &[View], affinity: Affinity) -> Plan {
    let mut whys: Vec<Why> = views.iter().map(Why::of).collect();
    let mut first = 0;
    for tier in targets.chunk_by(|a, b| a.tier == b.tier) {
        let range = first..first + tier.len();
        first = range.end;
        if tier.len() > 1 {
            judge(tier, &views[range.clone()], &mut whys[range]);
        }
    }
    let place = |at: usize| {
        let (target, why) = (&targets[at], whys[at]);
        let (out, within) = if why.is_out() { (Some(why), None) } else { (None, Some(why == Why::Busy)) };
        (out, target.tier, within, Reverse(Score(score(target, affinity))))
    };
    let mut steps: Vec<usize> = (0..targets.len()).collect();
    steps.sort_by_cached_key(|&at| place(at));
    Plan { steps: steps.into_iter().map(|target| Step { target, why: whys[target] }).collect() }
}

/// Finds the outliers and the overloaded of one tier.
fn judge(tier: &[Target], views: &[View], whys: &mut [Why]) {
    let mut suspects: Vec<(f64, usize)> =
        (0..tier.len()).filter(|&at| !whys[at].is_out()).filter_map(|at| Some((badness(views, at)?, at))).collect();
    suspects.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (_, at) in suspects {
        let out = whys.iter().filter(|why| why.is_out()).count();
        if (out + 1) * 2 <= tier.len() {
            whys[at] = Why::Outlier;
        }
    }
    let taking = |at: &usize| !whys[*at].is_out();
    let members: Vec<usize> = (0..tier.len()).filter(taking).collect();
    let total: u32 = members.iter().map(|&at| views[at].in_flight).sum();
    let weights: u32 = members.iter().map(|&at| tier[at].weight).sum();
    for at in members {
        let share = f64::from(tier[at].weight) / f64::from(weights);
        let bound = (OVERLOAD * share * f64::from(total + 1)).ceil();
        if whys[at] == Why::Ready && f64::from(views[at].in_flight + 1) > bound {
            whys[at] = Why::Busy;
        }
    }
}

/// How many times as bad as the others' median a member is, if that makes it an outlier.
fn badness(views: &[View], at: usize) -> Option<f64> {
    let others = |value: fn(&View) -> Option<f64>| {
        let values = views.iter().enumerate().filter(|(other, _)| *other != at);
        let mut values: Vec<f64> = values.filter_map(|(_, view)| value(view)).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len().checked_sub(1)? / 2).copied()
    };
    let times = |value: fn(&View) -> Option<f64>, least: f64| {
        let times = value(&views[at])? / others(value)?.max(least);
        (times > f64::from(OUTLIER_TIMES)).then_some(times)
    };
    let fails = views[at].tally.is_at(OUTLIER_PERCENT, OUTLIER_LEAST);
    // A hundredth of a percent, so that members which never fail do not make one failure infinitely bad.
    let failing = fails.then(|| times(failure_share, 0.0001)).flatten();
    failing.or_else(|| times(ttft, 0.0001))
}

fn failure_share(view: &View) -> Option<f64> {
    let tally = view.tally;
    (tally.calls >= OUTLIER_LEAST).then(|| f64::from(tally.failures) / f64::from(tally.calls))
}

fn ttft(view: &View) -> Option<f64> {
    view.ttft.filter(|middle| middle.of >= OUTLIER_LEAST).map(|middle| Duration::as_secs_f64(&middle.p50))
}

/// Weighted rendezvous hashing (Schindelhauer, Schomaker 2005): the member with the largest `-weight / ln(u)` wins, with
/// `u` in (0, 1) by the hash of member and affinity.
fn score(target: &Target, affinity: Affinity) -> f64 {
    let bits = mixed(target.member.id ^ affinity.0) >> 11;
    #[expect(clippy::cast_precision_loss, reason = "53 bits are what an f64 holds")]
    let u = (bits as f64 + 0.5) / (1u64 << 53) as f64;
    -f64::from(target.weight) / u.ln()
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Score(f64);

impl Eq for Score {}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
