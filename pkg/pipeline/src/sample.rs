//! Sampled semantic decisions: drawn on the request path, compared behind it.
//!
//! A share of would-be hits is answered by the provider instead. What the cache would have served is compared with the fresh
//! answer afterwards, and the label decides with the others what the route may serve. The draw is made before anything is
//! known of the answer, so that the labels are an unbiased sample of would-be hits.

use crate::judge::Judge;
use crate::recorder::Recorder;
use signet_cache::{
    Decision, Entry, Evidence, Finding, KEPT, Label, LabelRow, LabelStore, RouteId, State, StoreFault, Terms, Tier,
    Trust, UNIT, Verdict, same_text,
};
use signet_dialect::Kept;
use signet_lineage::{ControlValue, Draft, Kind};
use signet_telemetry::Metrics;
use signet_types::{Clock, LineageId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Comparisons that wait; further ones are dropped and counted.
const QUEUE: usize = 256;
/// Labels that wait for a store that is away; beyond it the newest is dropped.
const PENDING: usize = 4_096;
const PAGE: u32 = 1_000;
const FOLLOW_EVERY: Duration = Duration::from_millis(500);
/// The metric label of models that are not configured: callers may invent those.
const OTHER: &str = "other";

/// A decision that was drawn, and what the cache would have served.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) route: RouteId,
    pub(crate) score_e6: u32,
    pub(crate) tier: Tier,
    pub(crate) question: String,
    pub(crate) candidate: Arc<Entry>,
}

/// A semantic hit that a caller complains of, as its record tells it.
#[derive(Debug)]
pub(crate) struct Complaint<'a> {
    pub(crate) model: &'a str,
    pub(crate) encoder: &'a str,
    pub(crate) score_e6: u32,
    pub(crate) tier: Option<Tier>,
}

enum Job {
    Compare { of: LineageId, sample: Sample, fresh: String },
    Complaint(LabelRow),
}

/// Draws samples and hands them over. Held by every lane.
pub struct Sampler {
    trust: Arc<Trust>,
    share: f64,
    floor: f32,
    queue: mpsc::Sender<Job>,
    store: Arc<dyn LabelStore>,
    metrics: Arc<Metrics>,
}

/// Compares what was handed over. Runs on the services runtime.
pub struct Labeller {
    queue: mpsc::Receiver<Job>,
    store: Arc<dyn LabelStore>,
    judge: Option<Judge>,
    recorder: Arc<Recorder>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    pending: Vec<LabelRow>,
}

/// What sampling needs.
pub struct Sampling {
    /// The routes' trust.
    pub trust: Arc<Trust>,
    /// Share of would-be hits that are drawn, in `[0, 1]`.
    pub share: f64,
    /// The configured floor for all models.
    pub floor: f32,
    /// Where labels are kept and shared.
    pub store: Arc<dyn LabelStore>,
    /// The judge, if there is one.
    pub judge: Option<Judge>,
    /// Writes the records of labels.
    pub recorder: Arc<Recorder>,
    /// Clocks.
    pub clock: Arc<dyn Clock>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
}

impl Sampling {
    /// The drawing end and the comparing end.
    pub fn split(self) -> (Sampler, Labeller) {
        let (sender, queue) = mpsc::channel(QUEUE);
        let Self { trust, share, floor, store, judge, recorder, clock, metrics } = self;
        let sampler = Sampler { trust, share, floor, queue: sender, store: store.clone(), metrics: metrics.clone() };
        (sampler, Labeller { queue, store, judge, recorder, clock, metrics, pending: Vec::new() })
    }
}

/// Whether a request is drawn. The last four bytes of a record's id are random, and no caller chooses them.
fn is_drawn(id: LineageId, share: f64) -> bool {
    let [.., a, b, c, d] = *id.as_bytes();
    f64::from(u32::from_be_bytes([a, b, c, d])) / (f64::from(u32::MAX) + 1.0) < share
}

#[expect(clippy::cast_possible_truncation, reason = "a similarity has seven digits")]
fn similarity(e6: u32) -> f32 {
    (f64::from(e6) / f64::from(UNIT)) as f32
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and a million")]
fn millionths(share: f64) -> u32 {
    (share.clamp(0.0, 1.0) * f64::from(UNIT)).round() as u32
}

impl Sampler {
    /// The trust that the floors come from.
    pub fn trust(&self) -> &Trust {
        &self.trust
    }

    /// What holds for one request, whose record has this id.
    pub(crate) fn terms(&self, model: &str, id: LineageId, may_sample: bool) -> Terms {
        let policy = self.trust.base(model).policy;
        let standing = self.trust.standing(model);
        // The configured floor has more digits than a millionth.
        let exact = |e6| if e6 == millionths(f64::from(self.floor)) { self.floor } else { similarity(e6) };
        let serve_from = standing.floor_e6.map(exact);
        let look_from = serve_from.unwrap_or(exact(policy.floor_e6)).min(exact(policy.lowest_e6));
        Terms { serve_from, look_from, sampled: may_sample && is_drawn(id, self.share) }
    }

    /// A sample of `candidate`, which was about to be served for `model`.
    pub(crate) fn sample(&self, model: &str, decision: &Decision, question: &str, candidate: Arc<Entry>) -> Sample {
        let score_e6 = millionths(f64::from(decision.similarity.unwrap_or_default()));
        // What is under the floor in force has no tier, and the same words are under none.
        let tier = decision.tier.and_then(Tier::named).unwrap_or(Tier::Vector);
        Sample { route: self.trust.route(model), score_e6, tier, question: question.to_owned(), candidate }
    }

    /// Hands a sample over, with the fresh answer that the record `of` stands for.
    pub(crate) fn compare(&self, of: LineageId, sample: Sample, fresh: &Kept) {
        if let Some(fresh) = fresh.text() {
            self.send(Job::Compare { of, sample, fresh });
        }
    }

    /// A caller's complaint of the hit `of`, which counts for its share.
    pub(crate) fn complain(&self, of: LineageId, hit: &Complaint<'_>, at_ms: u64) {
        if hit.encoder != self.trust.encoder() || self.share == 0.0 {
            return;
        }
        let weight_e6 = millionths(self.share).max(1);
        let (verdict, evidence) = (Verdict::Wrong, Evidence::Feedback);
        let label = Label { score_e6: hit.score_e6, tier: hit.tier, verdict, evidence, weight_e6 };
        self.send(Job::Complaint(LabelRow {
            of,
            route: self.trust.route(hit.model),
            finding: Finding::Label(label),
            at_ms,
        }));
    }

    /// An operator's order: what was found for `model` before counts no more. `of` is the order's id.
    pub(crate) async fn reset(&self, of: LineageId, model: &str, at_ms: u64) -> Result<(), StoreFault> {
        let row = LabelRow { of, route: self.trust.route(model), finding: Finding::Reset, at_ms };
        self.store.add(&[row]).await
    }

    fn send(&self, job: Job) {
        if self.queue.try_send(job).is_err() {
            self.metrics.dropped("labels", 1);
        }
    }
}

impl Labeller {
    /// Labels until every [`Sampler`] is gone or it is told to stop. A label that waits for the store is kept until then.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            tokio::select! {
                job = self.queue.recv() => match job {
                    Some(job) => self.take(job).await,
                    None => break,
                },
                () = tokio::time::sleep(FOLLOW_EVERY), if !self.pending.is_empty() => {}
                () = stop.cancelled() => break,
            }
            self.flush().await;
        }
        self.flush().await;
    }

    async fn take(&mut self, job: Job) {
        let row = match job {
            Job::Complaint(row) => Some(row),
            Job::Compare { of, sample, fresh } => self.label(of, &sample, &fresh).await,
        };
        let Some(row) = row else { return };
        if let Finding::Label(label) = &row.finding {
            self.metrics.label(label.verdict.as_str(), label.evidence.as_str());
        }
        if self.pending.len() < PENDING {
            self.pending.push(row);
        } else {
            self.metrics.dropped("labels", 1);
        }
    }

    /// The label of a sample; none if its record cannot be written: what nobody can check later must not move a floor.
    async fn label(&self, of: LineageId, sample: &Sample, fresh: &str) -> Option<LabelRow> {
        let stored = sample.candidate.body.text()?;
        let mut facts = vec![
            ("of", ControlValue::Text(of.to_string())),
            ("score_e6", ControlValue::Int(u64::from(sample.score_e6))),
            ("source", ControlValue::Text(sample.candidate.source.id.to_string())),
            ("tier", ControlValue::Text(sample.tier.as_str().to_owned())),
        ];
        let (verdict, evidence) = if same_text(fresh, &stored) {
            (Verdict::Right, Evidence::Texts)
        } else if let Some(judge) = &self.judge {
            let judged = judge.compare(&sample.question, fresh, &stored).await;
            self.metrics.tokens("input_judge", judged.usage.input);
            self.metrics.tokens("output_judge", judged.usage.output);
            facts.push(("judge_said", ControlValue::Text(judged.said.as_str().to_owned())));
            facts.push(("judge_tok_in", ControlValue::Int(judged.usage.input)));
            facts.push(("judge_tok_out", ControlValue::Int(judged.usage.output)));
            (judged.said.verdict(), Evidence::Judge)
        } else {
            (Verdict::Unknown, Evidence::Texts)
        };
        facts.push(("evidence", ControlValue::Text(evidence.as_str().to_owned())));
        facts.push(("verdict", ControlValue::Text(verdict.as_str().to_owned())));
        let written = self.recorder.write(&Draft::control(Kind::Label, &self.recorder.stamp(), facts));
        let finding = Finding::Label(Label::sampled(sample.score_e6, Some(sample.tier), verdict, evidence));
        let row = LabelRow { of, route: sample.route.clone(), finding, at_ms: self.clock.now_ms() };
        written.then_some(row)
    }

    async fn flush(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        match self.store.add(&self.pending).await {
            Ok(()) => self.pending.clear(),
            Err(fault) => tracing::debug!(%fault, "labels wait for the store"),
        }
    }
}

/// Follows the labels of all replicas.
pub struct LabelFollower {
    store: Arc<dyn LabelStore>,
    trust: Arc<Trust>,
    /// Configured models, which have metrics of their own.
    models: Vec<String>,
    metrics: Arc<Metrics>,
    cursor: u64,
    resumed: bool,
}

impl LabelFollower {
    /// A follower from the first label on.
    pub fn new(store: Arc<dyn LabelStore>, trust: Arc<Trust>, models: Vec<String>, metrics: Arc<Metrics>) -> Self {
        Self { store, trust, models, metrics, cursor: 0, resumed: false }
    }

    /// Reads what is new.
    ///
    /// # Errors
    /// The store is away, or a label cannot be understood.
    pub async fn catch_up(&mut self) -> Result<(), StoreFault> {
        if !self.resumed {
            self.trust.resume(self.store.marks().await?);
            self.resumed = true;
        }
        loop {
            let (rows, cursor) = self.store.labels(self.cursor, PAGE).await?;
            self.cursor = cursor;
            if rows.is_empty() {
                break;
            }
            self.trust.learn(&rows);
        }
        self.trust.set_known();
        self.show();
        for (route, mark) in self.trust.marks_due() {
            self.store.mark(&route, &mark, KEPT).await?;
            self.trust.marked(&route);
        }
        Ok(())
    }

    fn show(&self) {
        let mut counts: BTreeMap<(&str, State), u64> = BTreeMap::new();
        let routes = self.trust.routes();
        for route in &routes {
            let name = self.models.iter().find(|known| **known == route.model).map_or(OTHER, String::as_str);
            for state in State::ALL {
                *counts.entry((name, state)).or_default() += u64::from(state == route.standing.state);
            }
        }
        for ((route, state), routes) in counts {
            self.metrics.trust(route, state.as_str(), routes);
        }
    }

    /// Follows until told to stop.
    pub async fn run(mut self, stop: CancellationToken) {
        while tokio::time::timeout(FOLLOW_EVERY, stop.cancelled()).await.is_err() {
            if let Err(fault) = self.catch_up().await {
                tracing::debug!(%fault, "labels cannot be read");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ending_in(last: u32) -> LineageId {
        let mut bytes = [0xAB; 16];
        bytes[12..].copy_from_slice(&last.to_be_bytes());
        LineageId::from_bytes(bytes)
    }

    #[test]
    fn the_share_is_drawn_and_no_more() {
        // 0.25 of 2^32
        assert!(is_drawn(ending_in(0x3FFF_FFFF), 0.25) && !is_drawn(ending_in(0x4000_0000), 0.25));
        assert!(is_drawn(ending_in(u32::MAX), 1.0) && !is_drawn(ending_in(0), 0.0));
    }

    #[test]
    fn generated_ids_are_drawn_evenly() {
        let drawn = (0..20_000).filter(|_| is_drawn(LineageId::generate(1), 0.02)).count();
        assert!((250..=550).contains(&drawn), "{drawn} of 20,000 is 7 standard deviations from 400");
    }

    #[test]
    fn similarities_survive_the_way_to_millionths_and_back() {
        for value in [0.97_f32, 0.900_001, 1.0, 0.5] {
            assert!((similarity(millionths(f64::from(value))) - value).abs() < 1e-6);
        }
        assert_eq!((millionths(0.97), millionths(2.0), millionths(-1.0)), (970_000, UNIT, 0));
    }
}
