//! Pairs: the first question is stored, the second asked, in a partition of their own.

use crate::bench::{Bench, Setup};
use crate::input::Pair;
use crate::query::{Asked, Query};
use crate::report::RowDecision;
use crate::stats::REFUSED;
use signet_cache::{Lookup, Question, gates};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// Pairs judged by one task.
const CHUNK: usize = 64;

/// What became of the second question of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Served from the first, by this tier.
    Served(&'static str),
    /// Another tenant, chat or other parameters: the two can never meet.
    Partition,
    /// One of them may not be answered from another question's answer, or not answer another, for this reason.
    Ineligible(&'static str),
    /// The first gate that refused.
    Gate(&'static str),
    /// The gates pass, but it is less similar than the floor.
    BelowFloor,
    /// The gates pass, but the encoder has no vector for one of them.
    NoVector,
}

impl Outcome {
    /// The tier, gate or reason.
    pub fn by(self) -> String {
        match self {
            Self::Served(tier) => tier.to_owned(),
            Self::Partition => "partition".to_owned(),
            Self::Ineligible(reason) => format!("ineligible: {reason}"),
            Self::Gate(gate) => format!("gate: {gate}"),
            Self::BelowFloor => "below the floor".to_owned(),
            Self::NoVector => "no vector".to_owned(),
        }
    }
}

/// One pair, judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The line that it ends on.
    pub line: u64,
    /// Its category.
    pub kind: String,
    /// Its label.
    pub same: bool,
    /// At the floor in force.
    pub outcome: Outcome,
    /// The highest floor at which the second is served: the similarity where every gate passes (1 for the same words),
    /// else [`REFUSED`].
    pub score: f64,
    /// The cosine of the last texts alone, [`REFUSED`] where one has no vector.
    pub cosine: f64,
    /// Asked both ways round, it is served one way only.
    pub uneven: bool,
}

impl Judged {
    /// Whether the second was served from the first.
    pub const fn is_served(&self) -> bool {
        matches!(self.outcome, Outcome::Served(_))
    }

    pub(crate) fn decision(&self) -> RowDecision {
        let verdict = match (self.is_served(), self.same) {
            (true, true) => "true_hit",
            (true, false) => "false_hit",
            (false, true) => "false_miss",
            (false, false) => "true_miss",
        };
        let similarity = (self.score > REFUSED).then_some(self.score);
        RowDecision { line: self.line, verdict, by: self.outcome.by(), similarity, source_line: None }
    }
}

/// Judges pairs as they come, `workers` tasks at a time, in order. Counts each chunk to `judged_so_far`.
pub(crate) async fn judge_all(
    setup: &Setup,
    both_ways: bool,
    workers: usize,
    pairs: &mut dyn Iterator<Item = Pair>,
    judged_so_far: &mut dyn FnMut(u64),
) -> Vec<Judged> {
    let floor = setup.semantic.floor;
    let bench = Arc::new(Bench::new(&setup.remembering()));
    let mut running: VecDeque<JoinHandle<Vec<Judged>>> = VecDeque::new();
    let mut judged = Vec::new();
    let mut number = 0_u64;
    loop {
        let chunk: Vec<_> = pairs.take(CHUNK).collect();
        if chunk.is_empty() || running.len() >= workers.max(1) {
            let Some(oldest) = running.pop_front() else { break };
            judged.extend(oldest.await.expect("judging does not panic"));
            judged_so_far(judged.len() as u64);
        }
        if !chunk.is_empty() {
            let (bench, first) = (bench.clone(), number);
            number += chunk.len() as u64;
            running.push_back(tokio::spawn(judge_chunk(bench, floor, both_ways, first, chunk)));
        }
    }
    judged
}

async fn judge_chunk(bench: Arc<Bench>, floor: f32, both_ways: bool, first: u64, chunk: Vec<Pair>) -> Vec<Judged> {
    let mut judged = Vec::with_capacity(chunk.len());
    for (number, pair) in (first..).zip(chunk) {
        let there = judge(&bench, floor, &format!("{number}"), &pair.a, &pair.b).await;
        let back = if both_ways {
            Some(judge(&bench, floor, &format!("{number} back"), &pair.b, &pair.a).await)
        } else {
            None
        };
        judged.push(combine(pair, there, back));
    }
    judged
}

/// A pair asked both ways counts as served if one way is.
fn combine(pair: Pair, there: OneWay, back: Option<OneWay>) -> Judged {
    let is_served = |way: &OneWay| matches!(way.outcome, Outcome::Served(_));
    let uneven = back.as_ref().is_some_and(|back| is_served(back) != is_served(&there));
    let counts = match back {
        Some(back) if back.score > there.score || (is_served(&back) && !is_served(&there)) => back,
        _ => there,
    };
    let OneWay { outcome, score, cosine } = counts;
    Judged { line: pair.line, kind: pair.kind, same: pair.same, outcome, score, cosine, uneven }
}

struct OneWay {
    outcome: Outcome,
    score: f64,
    cosine: f64,
}

async fn judge(bench: &Bench, floor: f32, namespace: &str, stored: &Query, asked: &Query) -> OneWay {
    let (stored, asked) = (stored.within(namespace), asked.within(namespace));
    let cosine = bench.cosine(&stored, &asked).await;
    let cosine_or_refused = cosine.map_or(REFUSED, f64::from);
    if stored.partition != asked.partition {
        return OneWay { outcome: Outcome::Partition, score: REFUSED, cosine: cosine_or_refused };
    }
    let Lookup::Miss(miss) = bench.ask(&stored, None).await else { unreachable!("the partition is new") };
    let not_stored = miss.decision.ineligible;
    let entry = bench.store(&stored, 0, miss.prepared);
    let score = score_of(&bench.ask(&asked, None).await);
    let found = bench.ask(&asked, Some(floor)).await;
    bench.forget(&entry);
    let outcome = outcome_of(&found, not_stored).unwrap_or_else(|| why_missed(&stored, &asked, cosine));
    OneWay { outcome, score, cosine: cosine_or_refused }
}

fn score_of(found: &Lookup) -> f64 {
    match found {
        Lookup::Exact(_) => 1.0,
        Lookup::Semantic(_, decision) => decision.similarity.map_or(REFUSED, f64::from),
        Lookup::Miss(_) => REFUSED,
    }
}

/// What the cache itself says.
fn outcome_of(found: &Lookup, not_stored: Option<&'static str>) -> Option<Outcome> {
    match found {
        Lookup::Exact(_) => Some(Outcome::Served("exact")),
        Lookup::Semantic(_, decision) => decision.tier.map(Outcome::Served),
        Lookup::Miss(miss) => {
            let ineligible = miss.decision.ineligible.or(not_stored).map(Outcome::Ineligible);
            ineligible.or_else(|| miss.decision.refused_by.map(Outcome::Gate))
        }
    }
}

/// Why nothing was near enough to be asked about: the gates' equal parts are compared by bucket, and what lies under the
/// floor is not shown to them.
fn why_missed(stored: &Asked, asked: &Asked, cosine: Option<f32>) -> Outcome {
    let (Ok(stored), Ok(asked)) = (Question::read(&stored.text), Question::read(&asked.text)) else {
        return Outcome::NoVector; // what is ineligible was told before
    };
    match gates::judge(&asked, &stored) {
        Err(refusal) => Outcome::Gate(refusal.gate.as_str()),
        Ok(()) if cosine.is_none() => Outcome::NoVector,
        Ok(()) => Outcome::BelowFloor,
    }
}
