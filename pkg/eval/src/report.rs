//! The figures, as they are written to JSON and drawn.

use crate::input::Format;
use crate::pairs::Judged;
use crate::replay::ReplayReport;
use crate::stats::{Interval, Ranking, bootstrap, clopper_pearson, false_share};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// How pairs are counted.
#[derive(Debug, Clone, Copy)]
pub struct PairOptions {
    /// Resamples of the bootstrap.
    pub rounds: u32,
    /// Its seed.
    pub seed: u64,
    /// Share of should-hit questions in the traffic; the data's own if none is given.
    pub base_rate: Option<f64>,
}

/// A whole evaluation.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// What the rows were.
    pub format: Format,
    /// Rows evaluated.
    pub rows: u64,
    /// Lines that could not be read.
    pub bad_lines: u64,
    /// Log lines that were no answered chat completion.
    pub passed_over: u64,
    /// What was evaluated.
    pub settings: SettingsReport,
    /// Of labelled pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pairs: Option<PairsReport>,
    /// Of a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayReport>,
    /// Row by row, in order; written apart.
    #[serde(skip)]
    pub decisions: Vec<RowDecision>,
}

/// What became of one row at the floor in force. It holds no text of the row.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RowDecision {
    /// The line that the row ends on.
    pub line: u64,
    /// Pairs: `true_hit`, `false_hit`, `false_miss`, `true_miss`. Streams: `exact`, `right_hit`, `wrong_hit`,
    /// `unjudged_hit`, `miss`.
    pub verdict: &'static str,
    /// The tier, gate or reason.
    pub by: String,
    /// Where there is one: of the hit, or of the best candidate refused; of pairs, wherever the gates pass.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "six_maybe")]
    pub similarity: Option<f64>,
    /// Streams: the line whose answer was served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_line: Option<u64>,
}

/// What was evaluated, and how.
#[derive(Debug, Clone, Serialize)]
pub struct SettingsReport {
    /// The encoder's identity.
    pub encoder: String,
    /// `off`, `shadow` or `on`; shadow is evaluated as on.
    pub mode: &'static str,
    /// The floor in force.
    #[serde(serialize_with = "six")]
    pub floor: f64,
    /// Questions held at most.
    pub max_entries: usize,
    /// Seed of the bootstrap.
    pub seed: u64,
    /// Resamples of the bootstrap.
    pub bootstrap_rounds: u32,
    /// Whether each pair was asked both ways round and counts as served if one way is.
    pub both_ways: bool,
}

/// Figures over labelled pairs.
#[derive(Debug, Clone, Serialize)]
pub struct PairsReport {
    /// All pairs.
    pub overall: KindReport,
    /// By category, in alphabetical order.
    pub kinds: Vec<KindReport>,
    /// What the rates mean for traffic.
    pub traffic: TrafficReport,
    /// Served, by tier.
    pub tiers: Vec<Count>,
    /// Not served, by reason.
    pub refusals: Vec<Count>,
    /// Pairs that were served one way round only.
    pub uneven: u64,
    /// What floors from 0.50 on would serve, wherever that changes.
    pub curve: Vec<Point>,
    /// The same for the cosine alone.
    pub curve_cosine: Vec<Point>,
    /// ROC of what the gates pass, ranked by similarity: (false hit rate, true hit rate).
    #[serde(serialize_with = "six_points")]
    pub roc: Vec<[f64; 2]>,
    /// ROC of the cosine alone.
    #[serde(serialize_with = "six_points")]
    pub roc_cosine: Vec<[f64; 2]>,
    /// Similarities of pairs that every gate passes.
    pub passed: Histogram,
    /// Cosines of all pairs.
    pub cosines: Histogram,
}

/// Figures over one category.
#[derive(Debug, Clone, Serialize)]
pub struct KindReport {
    /// The category.
    pub kind: String,
    /// Of pairs that one answer serves: how many were served.
    pub true_hits: Rate,
    /// Of pairs that must miss: how many were served.
    pub false_hits: Rate,
    /// Ranked by similarity where the gates pass.
    pub gated: Areas,
    /// Ranked by the cosine alone, for comparison.
    pub cosine: Areas,
    /// The class that this category lacks, taken from all categories for the areas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub borrowed: Option<&'static str>,
}

/// A share with its exact interval.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Rate {
    /// Counted.
    pub hits: u64,
    /// Out of.
    pub of: u64,
    /// Their quotient; none of none is none.
    #[serde(serialize_with = "six_maybe")]
    pub rate: Option<f64>,
    /// Clopper–Pearson, 95 %, two-sided.
    #[serde(serialize_with = "six_interval")]
    pub interval: Interval,
}

impl Rate {
    /// `hits` out of `of`.
    pub fn new(hits: u64, of: u64) -> Self {
        let rate = (of > 0).then(|| hits as f64 / of as f64);
        Self { hits, of, rate, interval: clopper_pearson(hits, of, 0.95) }
    }
}

/// How well a score ranks; none where a class is missing.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Areas {
    /// Under the ROC curve.
    #[serde(serialize_with = "six_maybe")]
    pub roc: Option<f64>,
    /// Average precision.
    #[serde(serialize_with = "six_maybe")]
    pub pr: Option<f64>,
    /// True hit rate at ≤ 1 % false hits.
    pub within_1: Option<Resampled>,
    /// True hit rate at ≤ 5 % false hits.
    pub within_5: Option<Resampled>,
}

/// A figure with its bootstrap interval.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Resampled {
    /// On the data.
    #[serde(serialize_with = "six")]
    pub value: f64,
    /// 95 % percentile interval.
    #[serde(serialize_with = "six_interval")]
    pub interval: Interval,
}

/// What the rates mean where not every question has its answer in the cache.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct TrafficReport {
    /// Share of should-hit questions.
    #[serde(serialize_with = "six")]
    pub base_rate: f64,
    /// Whether it was given, or is the data's own.
    pub given: bool,
    /// Expected share of wrong answers among hits; none without hits.
    #[serde(serialize_with = "six_maybe")]
    pub false_share: Option<f64>,
    /// The same with the upper end of the false hit rate and the lower end of the true one.
    #[serde(serialize_with = "six_maybe")]
    pub false_share_high: Option<f64>,
}

/// Pairs of either label.
#[derive(Debug, Clone, Serialize)]
pub struct Count {
    /// Tier, gate or reason.
    pub name: String,
    /// Of those that one answer serves.
    pub should_hit: u64,
    /// Of those that must miss.
    pub must_miss: u64,
}

/// What a floor would serve.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Point {
    /// The floor.
    #[serde(serialize_with = "six")]
    pub floor: f64,
    /// Right hits.
    pub right: u64,
    /// Wrong hits.
    pub wrong: u64,
    /// Hits among all questions.
    #[serde(serialize_with = "six")]
    pub hit_ratio: f64,
    /// Right hits among hits; none without hits.
    #[serde(serialize_with = "six_maybe")]
    pub precision: Option<f64>,
}

impl Point {
    /// These hits of `asked` questions.
    pub fn new(floor: f64, right: u64, wrong: u64, asked: u64) -> Self {
        let hits = right + wrong;
        let hit_ratio = if asked == 0 { 0.0 } else { hits as f64 / asked as f64 };
        Self { floor, right, wrong, hit_ratio, precision: (hits > 0).then(|| right as f64 / hits as f64) }
    }
}

/// Counts of similarities in equal bins; empty bins are left out, and what is below 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Histogram {
    /// In order.
    pub bins: Vec<Bin>,
}

/// Similarities of one fiftieth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Bin {
    /// Where it begins, in percent; it is two wide, and 1 belongs to the last one.
    pub from_percent: u32,
    /// Right hits, or pairs that one answer serves.
    pub right: u64,
    /// Wrong hits, or pairs that must miss.
    pub wrong: u64,
}

impl Histogram {
    /// Bins over [0, 1].
    pub const BINS: u32 = 50;

    /// Counts of these similarities, each right or wrong.
    pub fn of(rows: impl Iterator<Item = (f64, bool)>) -> Self {
        let mut bins: BTreeMap<u32, Bin> = BTreeMap::new();
        for (similarity, right) in rows.filter(|(similarity, _)| *similarity >= 0.0) {
            let lower = (1..Self::BINS).take_while(|bin| f64::from(*bin) / f64::from(Self::BINS) <= similarity);
            let from_percent = lower.last().unwrap_or(0) * (100 / Self::BINS);
            let bin = bins.entry(from_percent).or_insert(Bin { from_percent, right: 0, wrong: 0 });
            *(if right { &mut bin.right } else { &mut bin.wrong }) += 1;
        }
        Self { bins: bins.into_values().collect() }
    }
}

impl PairsReport {
    /// Counts judged pairs.
    pub fn of(judged: &[Judged], options: &PairOptions) -> Self {
        let all: Vec<_> = judged.iter().collect();
        let mut by_kind: BTreeMap<&str, Vec<&Judged>> = BTreeMap::new();
        for pair in judged {
            by_kind.entry(&pair.kind).or_default().push(pair);
        }
        let overall = KindReport::of("all", &all, &all, options);
        let traffic = TrafficReport::of(&overall, options.base_rate);
        Self {
            traffic,
            kinds: by_kind.iter().map(|(kind, own)| KindReport::of(kind, own, &all, options)).collect(),
            tiers: tally(judged, true),
            refusals: tally(judged, false),
            uneven: judged.iter().filter(|pair| pair.uneven).count() as u64,
            curve: curve(judged, |pair| pair.score),
            curve_cosine: curve(judged, |pair| pair.cosine),
            roc: Ranking::of(gated(&all)).roc(200),
            roc_cosine: Ranking::of(cosine(&all)).roc(200),
            passed: Histogram::of(gated(&all)),
            cosines: Histogram::of(cosine(&all)),
            overall,
        }
    }
}

impl KindReport {
    fn of(kind: &str, own: &[&Judged], all: &[&Judged], options: &PairOptions) -> Self {
        let rate = |same: bool| {
            let labelled = own.iter().filter(|pair| pair.same == same);
            let served = labelled.clone().filter(|pair| pair.is_served());
            Rate::new(served.count() as u64, labelled.count() as u64)
        };
        let (true_hits, false_hits) = (rate(true), rate(false));
        let borrowed = match (true_hits.of, false_hits.of) {
            (0, _) => Some(("should-hit", true)),
            (_, 0) => Some(("must-miss", false)),
            _ => None,
        };
        let others = all.iter().filter(|pair| borrowed.is_some_and(|(_, same)| pair.same == same));
        let ranked: Vec<_> = own.iter().chain(others).copied().collect();
        Self {
            kind: kind.to_owned(),
            true_hits,
            false_hits,
            gated: Areas::of(&Ranking::of(gated(&ranked)), options),
            cosine: Areas::of(&Ranking::of(cosine(&ranked)), options),
            borrowed: borrowed.map(|(class, _)| class),
        }
    }
}

fn gated<'j>(judged: &'j [&Judged]) -> impl Iterator<Item = (f64, bool)> + 'j {
    judged.iter().map(|pair| (pair.score, pair.same))
}

fn cosine<'j>(judged: &'j [&Judged]) -> impl Iterator<Item = (f64, bool)> + 'j {
    judged.iter().map(|pair| (pair.cosine, pair.same))
}

impl Areas {
    fn of(ranking: &Ranking, options: &PairOptions) -> Self {
        let (roc, pr) = (ranking.roc_area(), ranking.pr_area());
        let within = |ranking: &Ranking| [ranking.hit_rate_within(0.01), ranking.hit_rate_within(0.05)];
        let [within_1, within_5] = if roc.is_none() {
            [None, None]
        } else {
            let intervals = bootstrap(ranking, options.rounds, options.seed, within);
            let [one, five] = within(ranking);
            [(one, intervals[0]), (five, intervals[1])].map(|(value, interval)| Some(Resampled { value, interval }))
        };
        Self { roc, pr, within_1, within_5 }
    }
}

impl TrafficReport {
    fn of(overall: &KindReport, given: Option<f64>) -> Self {
        let (right, wrong) = (&overall.true_hits, &overall.false_hits);
        let own = right.of as f64 / ((right.of + wrong.of).max(1)) as f64;
        let base_rate = given.unwrap_or(own);
        let rates = right.rate.zip(wrong.rate);
        Self {
            base_rate,
            given: given.is_some(),
            false_share: rates.and_then(|(right, wrong)| false_share(right, wrong, base_rate)),
            false_share_high: rates.and_then(|_| false_share(right.interval.low, wrong.interval.high, base_rate)),
        }
    }
}

/// Counts by name, the most frequent first.
fn tally(judged: &[Judged], served: bool) -> Vec<Count> {
    let mut counts: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for pair in judged.iter().filter(|pair| pair.is_served() == served) {
        let (should_hit, must_miss) = counts.entry(pair.outcome.by()).or_default();
        *(if pair.same { should_hit } else { must_miss }) += 1;
    }
    let count = |(name, (should_hit, must_miss))| Count { name, should_hit, must_miss };
    let mut counts: Vec<_> = counts.into_iter().map(count).collect();
    counts.sort_by_key(|count| std::cmp::Reverse(count.should_hit + count.must_miss));
    counts
}

/// The floors 0.50, 0.51 … 1.00, without those that serve what the one before serves.
fn curve(judged: &[Judged], score: fn(&Judged) -> f64) -> Vec<Point> {
    let at = |percent: u32| {
        // Similarities are f32, and so is a floor: 0.97 as f64 is over the 0.97 that the cache compares with.
        #[expect(clippy::cast_possible_truncation, reason = "as the configuration does")]
        let floor = (f64::from(percent) / 100.0) as f32;
        let served = |same| judged.iter().filter(|pair| pair.same == same && score(pair) >= f64::from(floor)).count();
        Point::new(f64::from(floor), served(true) as u64, served(false) as u64, judged.len() as u64)
    };
    let mut points: Vec<_> = (50..=100).map(at).collect();
    points.dedup_by_key(|point| (point.right, point.wrong));
    points
}

/// Six decimals: more than any sample gives, and the same on every machine.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
pub(crate) fn six<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(rounded(*value))
}

#[expect(clippy::ref_option, reason = "serde's signature")]
pub(crate) fn six_maybe<S: Serializer>(value: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
    value.map(rounded).serialize(to)
}

fn six_interval<S: Serializer>(value: &Interval, to: S) -> Result<S::Ok, S::Error> {
    [rounded(value.low), rounded(value.high)].serialize(to)
}

fn six_points<S: Serializer>(points: &[[f64; 2]], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(points.iter().map(|point| point.map(rounded)))
}
