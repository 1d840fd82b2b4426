//! One route's labels, and what follows from them.

use super::drift::Cusum;
use super::floor::{Doubt, could_justify, lowest_justified};
use super::label::{Evidence, Finding, Label, Tier, Verdict};
use std::collections::{BTreeMap, VecDeque};

/// No ledger looks further back than so many samples.
const LONGEST_WINDOW: f64 = 20_000.0;
/// Samples, and complaints, of each route that a store keeps: somewhat more than any ledger looks at, so that a complaint
/// whose place among the samples was forgotten is always one that no ledger looks at.
pub const KEPT: u32 = 21_000;

/// The operator's bound, and the floors that labels may move between.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrustPolicy {
    /// Largest share of wrong answers among semantic hits, in `(0, 1]`.
    pub max_false_share: f64,
    /// The floor where labels say nothing, in millionths.
    pub floor_e6: u32,
    /// The lowest floor that labels may earn, in millionths; at `floor_e6` they can only raise it.
    pub lowest_e6: u32,
}

impl TrustPolicy {
    /// Newest labels of a route that count: four times those that are needed, so that an old mistake is outlived.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
    pub(super) fn window(&self) -> usize {
        (4.0 / self.max_false_share).ceil().clamp(1_000.0, LONGEST_WINDOW) as usize
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share, at most 1")]
    fn bound_e9(&self) -> u64 {
        (self.max_false_share * 1e9).round() as u64
    }
}

/// How far a route is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Too few labels to say anything: the configured floor holds.
    Collecting,
    /// The bound holds at the floor in force.
    Bounded,
    /// It would hold if the decisions that nobody could judge were as good as the others.
    Unproven,
    /// The labels justify no floor: nothing is served, decisions are made and sampled all the same.
    Shadow,
    /// As shadow, after an alarm: labels behind it have to justify the floor by themselves.
    Alarm,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Collecting, Self::Bounded, Self::Unproven, Self::Shadow, Self::Alarm];

    /// The state as metrics name it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Collecting => "collecting",
            Self::Bounded => "bounded",
            Self::Unproven => "unproven",
            Self::Shadow => "shadow",
            Self::Alarm => "alarm",
        }
    }
}

/// What may be served now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// How far the route is trusted.
    pub state: State,
    /// Similarity from which a hit is served, in millionths; none where nothing is.
    pub floor_e6: Option<u32>,
}

/// A label and the number of samples that came before it.
type Dated = (u64, Label);

/// Watches for drift. An alarm is over when the labels behind it justify the configured floor by themselves.
#[derive(Debug, Clone)]
struct Watch {
    drift: Cusum,
    since: Option<u64>,
}

/// What a ledger knows that the labels it looks at do not tell: the sums behind its alarms, which go back further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The number of the last finding that is in it.
    pub upto: u64,
    /// The bound that was counted against, in billionths.
    pub bound_e9: u64,
    /// Sum of samples alone, and of samples and complaints.
    pub sums_e12: [i64; 2],
    /// So many samples ago the alarm that stands began, for both.
    pub alarmed_ago: [Option<u64>; 2],
}

/// Labels by verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Right answers.
    pub right: u64,
    /// Wrong ones.
    pub wrong: u64,
    /// Those that nobody could judge.
    pub unknown: u64,
}

/// The findings on one route.
///
/// Complaints stand apart from samples: they neither push a sample out of the window nor end the alarm that samples raised,
/// so that whatever callers say, what is served is at most what the samples alone would allow.
#[derive(Debug, Clone)]
pub struct Ledger {
    policy: TrustPolicy,
    /// Number of samples so far.
    samples: u64,
    sampled: VecDeque<Dated>,
    complaints: VecDeque<Dated>,
    by_samples: Watch,
    by_all: Watch,
}

impl Ledger {
    /// Nothing found yet.
    pub fn new(policy: TrustPolicy) -> Self {
        let watch = Watch { drift: Cusum::new(policy.max_false_share), since: None };
        Self {
            policy,
            samples: 0,
            sampled: VecDeque::new(),
            complaints: VecDeque::new(),
            by_samples: watch.clone(),
            by_all: watch,
        }
    }

    /// Takes in what was found next. The result depends on the findings and their order alone, so that replicas agree.
    pub fn learn(&mut self, finding: &Finding) {
        let label = match finding {
            Finding::Label(label) if label.counts() => *label,
            Finding::Label(_) => return,
            Finding::Reset => return *self = Self::new(self.policy),
        };
        self.hold(label);
        if label.evidence != Evidence::Feedback && self.by_samples.drift.alarms(&label) {
            self.by_samples.since = Some(self.samples);
        }
        if self.by_all.drift.alarms(&label) {
            self.by_all.since = Some(self.samples);
        }
        self.end_alarms();
    }

    fn hold(&mut self, label: Label) {
        let window = self.policy.window();
        if label.evidence == Evidence::Feedback {
            self.complaints.push_back((self.samples, label));
        } else {
            self.samples += 1;
            self.sampled.push_back((self.samples, label));
        }
        let oldest = self.samples.saturating_sub(window as u64);
        self.sampled.pop_front_if(|(at, _)| *at <= oldest);
        let outlived = |(at, _): &mut Dated| *at < oldest;
        while self.complaints.len() > window || self.complaints.front_mut().is_some_and(outlived) {
            self.complaints.pop_front();
        }
    }

    /// Judges by another policy from now on. An alarm stands until labels end it; against another bound the sums are counted
    /// anew, from the labels that the old one looks at.
    pub fn judge_by(&mut self, policy: TrustPolicy) {
        if self.policy.bound_e9() == policy.bound_e9() {
            self.policy = policy;
            return;
        }
        // A complaint bears the number of the sample that it came behind.
        let mut kept: Vec<(u64, bool, Label)> = self.sampled.iter().map(|(at, label)| (*at, false, *label)).collect();
        kept.extend(self.complaints.iter().map(|(at, label)| (*at, true, *label)));
        kept.sort_by_key(|(at, complaint, _)| (*at, *complaint));
        let kept: Vec<Finding> = kept.into_iter().map(|(.., label)| Finding::Label(label)).collect();
        *self = Self::resume(policy, &self.mark(0), &kept);
    }

    /// What it knows besides its labels, `upto` being the number of the last finding that it took in.
    pub fn mark(&self, upto: u64) -> Mark {
        let watches = [&self.by_samples, &self.by_all];
        // What is longer ago than all labels that are looked at makes no difference.
        let longest = self.policy.window() as u64 + 1;
        let ago = |since: u64| (self.samples - since).min(longest);
        Mark {
            upto,
            bound_e9: self.policy.bound_e9(),
            sums_e12: watches.map(|watch| watch.drift.sum_e12()),
            alarmed_ago: watches.map(|watch| watch.since.map(ago)),
        }
    }

    /// The ledger that left `mark`, from the findings that were kept of those up to it. If it was counted against another
    /// bound, the sums are counted anew from what was kept; an alarm stands until labels end it.
    pub fn resume(policy: TrustPolicy, mark: &Mark, kept: &[Finding]) -> Self {
        let mut ledger = Self::new(policy);
        let same = mark.bound_e9 == policy.bound_e9();
        for finding in kept {
            match finding {
                Finding::Label(label) if same && label.counts() => ledger.hold(*label),
                Finding::Label(_) if same => {}
                finding => ledger.learn(finding),
            }
        }
        let samples = ledger.samples;
        for (at, watch) in [&mut ledger.by_samples, &mut ledger.by_all].into_iter().enumerate() {
            let since = mark.alarmed_ago[at].map(|ago| samples.saturating_sub(ago));
            watch.since = since.or(watch.since);
            if same {
                watch.drift.resume(mark.sums_e12[at]);
            }
        }
        ledger
    }

    /// The labels that count, by the tier of their decision.
    pub fn tiers(&self) -> BTreeMap<Option<Tier>, Counts> {
        let mut tiers: BTreeMap<Option<Tier>, Counts> = BTreeMap::new();
        for (_, label) in self.sampled.iter().chain(&self.complaints) {
            let counts = tiers.entry(label.tier).or_default();
            match label.verdict {
                Verdict::Right => counts.right += 1,
                Verdict::Wrong => counts.wrong += 1,
                Verdict::Unknown => counts.unknown += 1,
            }
        }
        tiers
    }

    /// Labels that nobody could judge are no excuse here.
    fn end_alarms(&mut self) {
        let redeemed = |labels: &[Label]| {
            lowest_justified(labels, self.policy.floor_e6, self.policy.max_false_share, Doubt::IsWrong).is_some()
        };
        let behind = |since: u64| move |(at, _): &&Dated| *at > since;
        let samples_since = |since| falling(self.sampled.iter().filter(behind(since)));
        let all_since = |since| {
            // A complaint that came between two samples bears the number of the first.
            let complaints = self.complaints.iter().filter(move |(at, _)| *at >= since);
            falling(self.sampled.iter().filter(behind(since)).chain(complaints))
        };
        let over = self.by_samples.since.is_some_and(|since| redeemed(&samples_since(since)));
        let all_over = self.by_all.since.is_some_and(|since| redeemed(&all_since(since)));
        self.by_samples.since.take_if(|_| over);
        self.by_all.since.take_if(|_| all_over);
    }

    /// Number of labels that count.
    pub fn len(&self) -> usize {
        self.sampled.len() + self.complaints.len()
    }

    /// Whether none counts.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether hits went wrong so often that labels have to show anew that they do not.
    pub fn is_alarmed(&self) -> bool {
        self.by_samples.since.is_some() || self.by_all.since.is_some()
    }

    /// What may be served.
    pub fn standing(&self) -> Standing {
        let TrustPolicy { max_false_share, floor_e6, lowest_e6 } = self.policy;
        let standing = |state, floor_e6| Standing { state, floor_e6 };
        if self.is_alarmed() {
            return standing(State::Alarm, None);
        }
        let labels = falling(self.sampled.iter().chain(&self.complaints));
        let justified = |lowest, doubt| lowest_justified(&labels, lowest, max_false_share, doubt);
        let at_floor = justified(floor_e6, Doubt::IsWrong);
        let sure = justified(lowest_e6, Doubt::IsWrong).into_iter().chain(at_floor).min();
        let likely = justified(floor_e6, Doubt::IsLeftOut);
        let judged = labels.iter().filter(|label| label.verdict != Verdict::Unknown && label.score_e6 >= floor_e6);
        let weight = judged.map(|label| u64::from(label.weight_e6)).sum();
        match (sure, likely) {
            (Some(sure), likely) if likely.is_none_or(|likely| sure <= likely) => standing(State::Bounded, Some(sure)),
            (_, Some(likely)) => standing(State::Unproven, Some(likely)),
            (_, None) if could_justify(weight, max_false_share) => standing(State::Shadow, None),
            (_, None) => standing(State::Collecting, Some(floor_e6)),
        }
    }
}

/// The labels in falling order of their scores.
fn falling<'a>(labels: impl Iterator<Item = &'a Dated>) -> Vec<Label> {
    let mut labels: Vec<Label> = labels.map(|(_, label)| *label).collect();
    labels.sort_unstable_by_key(|label| std::cmp::Reverse(label.score_e6));
    labels
}
