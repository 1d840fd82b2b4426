//! A stream in order of arrival through one cache, by the real insert policy: what missed is stored with its own answer.

use crate::bench::{Bench, Setup, answer_of};
use crate::input::{Arrival, Pair};
use crate::pairs::Outcome;
use crate::query::Asked;
use crate::report::{Histogram, RowDecision, six, six_maybe};
use crate::stats::{SplitMix64, upper_bound};
use serde::Serialize;
use signet_cache::{CacheKey, Decision, Lookup, Partition};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};

/// Arrivals a block.
const BLOCK: usize = 1_000;

/// One request of the stream.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    line: u64,
    asked: Asked,
    cluster: Option<u32>,
}

/// Figures over a stream.
#[derive(Debug, Clone, Serialize)]
pub struct ReplayReport {
    /// At the floor in force.
    pub shipped: RunReport,
    /// By blocks of 1,000 arrivals, at the floor in force; the last may be shorter.
    pub blocks: Vec<Tally>,
    /// Hits by tier, at the floor in force.
    pub tiers: BTreeMap<&'static str, u64>,
    /// Misses by the reason that the decision gives, at the floor in force.
    pub misses: BTreeMap<String, u64>,
    /// Similarities of judged hits at the floor in force.
    pub similarities: Histogram,
    /// The whole run once more at other floors.
    pub curve: Vec<RunReport>,
    /// A floor chosen on the first half, and what it did on the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen: Option<Chosen>,
}

/// A run at one floor.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct RunReport {
    /// The floor.
    #[serde(serialize_with = "six")]
    pub floor: f64,
    /// Counts over the whole run.
    #[serde(flatten)]
    pub tally: Tally,
    /// Semantic hits among the arrivals that were no exact repeats.
    #[serde(serialize_with = "six_maybe")]
    pub hit_rate: Option<f64>,
    /// Wrong hits among judged ones.
    #[serde(serialize_with = "six_maybe")]
    pub wrong_share: Option<f64>,
    /// Its upper Clopper–Pearson bound, 95 %, one-sided; none without a judged hit.
    #[serde(serialize_with = "six_maybe")]
    pub wrong_share_bound: Option<f64>,
}

/// Counts over a part of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Requests.
    pub arrivals: u64,
    /// Exact repeats of a stored request.
    pub exact: u64,
    /// Semantic hits.
    pub hits: u64,
    /// Of the hits: those with a cluster on both sides.
    pub judged: u64,
    /// Of the judged: those where the clusters differ.
    pub wrong: u64,
    /// Requests that no semantic answer may serve.
    pub ineligible: u64,
}

/// The floor that the first half would have made one choose.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Chosen {
    /// The wanted bound on the share of wrong answers among semantic hits.
    #[serde(serialize_with = "six")]
    pub max_false_share: f64,
    /// The floor of the curve with the most hits in the first half at which (wrong + 1) / (judged + 1) keeps the bound
    /// there (conformal risk control); none if no floor does, or the hits are too few to tell.
    #[serde(serialize_with = "six_maybe")]
    pub floor: Option<f64>,
    /// At this floor, the first half.
    pub first: Option<RunReport>,
    /// At this floor, the second half.
    pub second: Option<RunReport>,
}

impl Tally {
    fn report(self, floor: f32) -> RunReport {
        let share = |part: u64, of: u64| (of > 0).then(|| part as f64 / of as f64);
        RunReport {
            floor: f64::from(floor),
            tally: self,
            hit_rate: share(self.hits, self.arrivals - self.exact),
            wrong_share: share(self.wrong, self.judged),
            wrong_share_bound: (self.judged > 0).then(|| upper_bound(self.wrong, self.judged, 0.95)),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            arrivals: self.arrivals + other.arrivals,
            exact: self.exact + other.exact,
            hits: self.hits + other.hits,
            judged: self.judged + other.judged,
            wrong: self.wrong + other.wrong,
            ineligible: self.ineligible + other.ineligible,
        }
    }
}

/// A stream's events, all in one namespace.
pub(crate) fn events_of_stream(arrivals: impl Iterator<Item = Arrival>) -> Vec<Event> {
    let mut clusters = HashMap::new();
    let mut number = |name: String| {
        let next = u32::try_from(clusters.len()).expect("fewer clusters than lines of memory");
        *clusters.entry(name).or_insert(next)
    };
    let event = |arrival: Arrival| Event {
        line: arrival.line,
        asked: arrival.query.within(""),
        cluster: arrival.cluster.map(&mut number),
    };
    arrivals.map(event).collect()
}

/// Both sides of labelled pairs, shuffled by `seed`. One answer serves two of them if pairs of label 1 connect them;
/// everything else is taken for different, so that wrong hits are over-counted where a data set says nothing of two rows.
pub(crate) fn events_of_pairs(pairs: impl Iterator<Item = Pair>, seed: u64) -> Vec<Event> {
    let mut known: HashMap<(Partition, CacheKey), u32> = HashMap::new();
    let mut parent: Vec<u32> = Vec::new();
    let mut events = Vec::new();
    for pair in pairs {
        let sides = [&pair.a, &pair.b].map(|query| {
            let asked = query.within("");
            let next = u32::try_from(parent.len()).expect("fewer texts than lines of memory");
            let text = *known.entry((asked.partition, asked.key)).or_insert(next);
            if text == next {
                parent.push(next);
            }
            events.push(Event { line: pair.line, asked, cluster: Some(text) });
            text
        });
        if pair.same {
            let (one, other) = (root(&mut parent, sides[0]), root(&mut parent, sides[1]));
            parent[one.max(other) as usize] = one.min(other);
        }
    }
    for event in &mut events {
        event.cluster = event.cluster.map(|text| root(&mut parent, text));
    }
    let mut random = SplitMix64::new(seed);
    for at in (1..events.len()).rev() {
        events.swap(at, random.below(at + 1));
    }
    events
}

/// The representative of a set, halving the path on the way (Tarjan and van Leeuwen, JACM 31, 1984).
fn root(parent: &mut [u32], mut at: u32) -> u32 {
    while parent[at as usize] != at {
        parent[at as usize] = parent[parent[at as usize] as usize];
        at = parent[at as usize];
    }
    at
}

/// Floors at which a run is repeated: coarse where nobody would set one, fine where it matters.
fn floors(shipped: f32) -> Vec<f32> {
    let percents = (60_u8..90).step_by(5).chain(90..=100);
    let mut floors: Vec<_> = percents.map(|percent| f32::from(percent) / 100.0).chain([shipped]).collect();
    floors.sort_by(f32::total_cmp);
    floors.dedup();
    floors
}

/// Replays `events` at the floor in force and at others, `workers` at a time. Counts arrivals to `replayed_so_far`, along
/// with how many there will be. Decisions are those at the floor in force.
pub(crate) async fn replay(
    setup: &Setup,
    events: Vec<Event>,
    max_false_share: f64,
    workers: usize,
    replayed_so_far: &mut dyn FnMut(u64, u64),
) -> (ReplayReport, Vec<RowDecision>) {
    let setup = setup.remembering();
    let floors = floors(setup.semantic.floor);
    let total = floors.len() as u64 * events.len() as u64;
    let (events, seats) = (Arc::<[Event]>::from(events), Arc::new(Semaphore::new(workers.max(1))));
    let (report, mut reported) = mpsc::unbounded_channel();
    let runs: Vec<_> = floors
        .iter()
        .map(|&floor| {
            let (setup, events, seats, report) = (setup.clone(), events.clone(), seats.clone(), report.clone());
            tokio::spawn(async move {
                let _seat = seats.acquire().await.expect("the semaphore is never closed");
                run(&setup, &events, floor, &report).await
            })
        })
        .collect();
    drop(report);
    let mut done = 0;
    while let Some(count) = reported.recv().await {
        done += count;
        replayed_so_far(done, total);
    }
    let mut finished = Vec::with_capacity(runs.len());
    for run in runs {
        finished.push(run.await.expect("a replay does not panic"));
    }
    let report = ReplayReport::of(setup.semantic.floor, &finished, max_false_share);
    (report, finished.into_iter().flat_map(|run| run.decisions).collect())
}

/// One pass over the stream.
struct Run {
    floor: f32,
    keeps_decisions: bool,
    blocks: Vec<Tally>,
    halves: [Tally; 2],
    tiers: BTreeMap<&'static str, u64>,
    misses: BTreeMap<String, u64>,
    decisions: Vec<RowDecision>,
}

async fn run(setup: &Setup, events: &[Event], floor: f32, report: &mpsc::UnboundedSender<u64>) -> Run {
    let bench = Bench::new(setup);
    let mut run = Run {
        floor,
        keeps_decisions: floor.total_cmp(&setup.semantic.floor).is_eq(),
        blocks: Vec::new(),
        halves: [Tally::default(); 2],
        tiers: BTreeMap::new(),
        misses: BTreeMap::new(),
        decisions: Vec::new(),
    };
    for (at, event) in events.iter().enumerate() {
        if at % BLOCK == 0 {
            run.blocks.push(Tally::default());
            report.send((events.len() - at).min(BLOCK) as u64).ok();
        }
        let one = run.arrive(&bench, events, at, event).await;
        let half = &mut run.halves[usize::from(at >= events.len() / 2)];
        *half = half.plus(one);
        let block = run.blocks.last_mut().expect("one was pushed");
        *block = block.plus(one);
    }
    run
}

const fn hit_verdict(right: Option<bool>) -> &'static str {
    match right {
        Some(true) => "right_hit",
        Some(false) => "wrong_hit",
        None => "unjudged_hit",
    }
}

fn why_missed(decision: &Decision) -> String {
    match (decision.ineligible, decision.refused_by) {
        (Some(reason), _) => Outcome::Ineligible(reason).by(),
        (None, Some(gate)) => Outcome::Gate(gate).by(),
        (None, None) => "nothing near".to_owned(),
    }
}

impl Run {
    async fn arrive(&mut self, bench: &Bench, events: &[Event], at: usize, event: &Event) -> Tally {
        let mut one = Tally { arrivals: 1, ..Tally::default() };
        let (verdict, by, similarity, source_line) = match bench.ask(&event.asked, Some(self.floor)).await {
            Lookup::Exact(entry) => {
                one.exact = 1;
                ("exact", "exact".to_owned(), None, Some(events[answer_of(&entry) as usize].line))
            }
            Lookup::Semantic(entry, decision) => {
                let source = &events[answer_of(&entry) as usize];
                let right = event.cluster.zip(source.cluster).map(|(asked, served)| asked == served);
                one.hits = 1;
                one.judged = u64::from(right.is_some());
                one.wrong = u64::from(right == Some(false));
                let tier = decision.tier.unwrap_or("unknown");
                *self.tiers.entry(tier).or_default() += 1;
                (hit_verdict(right), tier.to_owned(), decision.similarity, Some(source.line))
            }
            Lookup::Miss(miss) => {
                one.ineligible = u64::from(miss.decision.ineligible.is_some());
                let (why, similarity) = (why_missed(&miss.decision), miss.decision.similarity);
                *self.misses.entry(why.clone()).or_default() += 1;
                let answer = u32::try_from(at).expect("fewer arrivals than lines of memory");
                bench.store(&event.asked, answer, miss.prepared);
                ("miss", why, similarity, None)
            }
        };
        if self.keeps_decisions {
            let similarity = similarity.map(f64::from);
            self.decisions.push(RowDecision { line: event.line, verdict, by, similarity, source_line });
        }
        one
    }

    /// Similarities of judged hits, and whether they were right.
    fn similarities(&self) -> impl Iterator<Item = (f64, bool)> {
        let judged = self.decisions.iter().filter(|row| matches!(row.verdict, "right_hit" | "wrong_hit"));
        judged.filter_map(|row| Some((row.similarity?, row.verdict == "right_hit")))
    }

    fn whole(&self) -> Tally {
        self.halves[0].plus(self.halves[1])
    }
}

impl ReplayReport {
    fn of(shipped: f32, runs: &[Run], max_false_share: f64) -> Self {
        let in_force = runs.iter().find(|run| run.floor.total_cmp(&shipped).is_eq()).expect("it is one of the floors");
        Self {
            shipped: in_force.whole().report(shipped),
            blocks: in_force.blocks.clone(),
            tiers: in_force.tiers.clone(),
            misses: in_force.misses.clone(),
            similarities: Histogram::of(in_force.similarities()),
            curve: runs.iter().map(|run| run.whole().report(run.floor)).collect(),
            chosen: runs.iter().any(|run| run.whole().judged > 0).then(|| choose(runs, max_false_share)),
        }
    }
}

fn choose(runs: &[Run], max_false_share: f64) -> Chosen {
    let keeps = |run: &&Run| {
        let first = run.halves[0];
        first.judged > 0 && (first.wrong + 1) as f64 / (first.judged + 1) as f64 <= max_false_share
    };
    // Of equal ones the strictest.
    let best = runs.iter().filter(keeps).max_by_key(|run| run.halves[0].hits);
    Chosen {
        max_false_share,
        floor: best.map(|run| f64::from(run.floor)),
        first: best.map(|run| run.halves[0].report(run.floor)),
        second: best.map(|run| run.halves[1].report(run.floor)),
    }
}
