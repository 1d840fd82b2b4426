//! The metrics of the contract, in OpenMetrics text.
//!
//! Handles that every request touches are resolved once; label sets are closed, so that no caller can grow them.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry, Unit};
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The steps of a request, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Step {
    /// Address and token bucket.
    Admit,
    /// Reading the body.
    Read,
    /// Caller and tenant keys.
    Identify,
    /// Parsing and deriving the cache key.
    Parse,
    /// The exact and semantic caches.
    Cache,
    /// Opening the record, before money is spent.
    Open,
    /// The provider, up to the end of a whole answer or the head of a stream.
    Upstream,
    /// Signing and appending the record.
    Attest,
    /// Waiting for a record to be as safe as the mode promises.
    Settle,
    /// Filling the in-process caches.
    Store,
}

const STEPS: [(Step, &str); 10] = [
    (Step::Admit, "admit"),
    (Step::Read, "read"),
    (Step::Identify, "identify"),
    (Step::Parse, "parse"),
    (Step::Cache, "cache"),
    (Step::Open, "open"),
    (Step::Upstream, "upstream"),
    (Step::Attest, "attest"),
    (Step::Settle, "settle"),
    (Step::Store, "store"),
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    endpoint: &'static str,
    status: u16,
    cache: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DurationLabels {
    endpoint: &'static str,
    cache: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StepLabels {
    step: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProviderLabels {
    provider: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnchorLabels {
    anchor: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    tier: &'static str,
    verdict: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TrustLabels {
    route: String,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FindingLabels {
    verdict: &'static str,
    evidence: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CircuitLabels {
    provider: String,
    model: String,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RetryLabels {
    provider: String,
    model: String,
    reason: &'static str,
}

macro_rules! one_label {
    ($($type:ident { $label:ident }),*) => { $(
        #[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
        struct $type {
            $label: &'static str,
        }
    )* };
}
one_label!(
    Layer { layer },
    Dimension { dimension },
    OutcomeLabel { outcome },
    KindLabel { kind },
    QueueLabel { queue },
    FaultLabel { fault },
    VerdictLabel { verdict }
);

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// From 10 us to 10 minutes, four buckets a decade.
fn seconds() -> Histogram {
    const BOUNDS: [f64; 26] = [
        10e-6, 20e-6, 50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 0.1, 0.2, 0.5, 1.0, 2.0,
        5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 180.0, 300.0, 600.0,
    ];
    Histogram::new(BOUNDS)
}

/// What is known of the targets.
struct RoutingMetrics {
    circuits: Family<CircuitLabels, Gauge>,
    retries: Family<RetryLabels, Counter>,
}

impl RoutingMetrics {
    fn register(registry: &mut Registry) -> Self {
        let retries_help = "Attempts behind which another was made, by what was wrong";
        Self {
            circuits: added(registry, "upstream_circuit", "1 for the state of a target's breaker"),
            retries: added(registry, "upstream_retries", retries_help),
        }
    }
}

/// What is published of the log's tree.
struct TreeMetrics {
    checkpoint_size: Gauge,
    checkpoint_faults: Family<FaultLabel, Counter>,
    anchor_ages: Family<AnchorLabels, Gauge<f64, AtomicU64>>,
    anchor_failures: Family<AnchorLabels, Counter>,
}

impl TreeMetrics {
    fn register(registry: &mut Registry) -> Self {
        let faults_help = "Checkpoints that were not signed; mismatch: the leaves do not hash to the log's tree";
        let ages_help = "Age of the newest anchored checkpoint while a newer one waits; else 0";
        Self {
            checkpoint_size: added(registry, "checkpoint_size", "Records that the newest checkpoint covers"),
            checkpoint_faults: added(registry, "checkpoint_faults", faults_help),
            anchor_ages: added(registry, "anchor_age_seconds", ages_help),
            anchor_failures: added(registry, "anchor_failures", "Failed tries to anchor a checkpoint"),
        }
    }
}

/// What is open at the moment.
struct EdgeMetrics {
    connections: Gauge,
    inflight: Gauge,
}

impl EdgeMetrics {
    fn register(registry: &mut Registry) -> Self {
        Self {
            connections: added(registry, "connections", "Connections of callers and operators that are open"),
            inflight: added(registry, "inflight", "Requests being served, to the ends of their answers"),
        }
    }
}

/// The durations of each step, resolved once.
fn steps(family: &Histograms<StepLabels>) -> Vec<Histogram> {
    STEPS.iter().map(|(_, step)| family.get_or_create(&StepLabels { step }).clone()).collect()
}

/// A new metric of this name.
fn added<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

/// A new family of durations of this name.
fn timed<L: Clone + Eq + Hash>(registry: &mut Registry, name: &str, help: &str) -> Histograms<L>
where
    Histograms<L>: Metric,
{
    let metric = Histograms::new_with_constructor(seconds as fn() -> Histogram);
    registry.register_with_unit(name, help, Unit::Seconds, metric.clone());
    metric
}

/// All metrics of the process.
pub struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    durations: Histograms<DurationLabels>,
    steps: Vec<Histogram>,
    upstream: Histograms<ProviderLabels>,
    ttft: Histograms<ProviderLabels>,
    entries: Family<Layer, Gauge>,
    decisions: Family<DecisionLabels, Counter>,
    limited: Family<Dimension, Counter>,
    records: Family<OutcomeLabel, Counter>,
    tokens: Family<KindLabel, Counter>,
    dropped: Family<QueueLabel, Counter>,
    faults: Family<FaultLabel, Counter>,
    spool_bytes: Gauge,
    lag: Gauge<f64, AtomicU64>,
    undeclared: Gauge,
    regressed: Gauge,
    tree: TreeMetrics,
    routing: RoutingMetrics,
    feedback: Family<VerdictLabel, Counter>,
    trust: Family<TrustLabels, Gauge>,
    labels: Family<FindingLabels, Counter>,
    panics: Counter,
    edge: EdgeMetrics,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Registers every metric.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("signet");
        let to = &mut registry;
        let durations_help = "From a request's head to the end of its answer";
        let undeclared_help = "Records missing from the lineage log that nothing declares; shipping waits";
        let regressed_help =
            "Records that the database had confirmed and does not hold any more, when that was noticed";
        Self {
            requests: added(to, "requests", "Requests by endpoint, status and cache verdict"),
            durations: timed(to, "request_duration", durations_help),
            steps: steps(&timed(to, "step_duration", "Time in each step of the pipeline")),
            upstream: timed(to, "upstream_duration", "Provider calls"),
            ttft: timed(to, "upstream_ttft", "Time to the provider's first byte"),
            entries: added(to, "cache_entries", "Entries held"),
            decisions: added(to, "semantic_decisions", "Verdicts of the semantic layer"),
            limited: added(to, "limited", "Requests refused by a limit"),
            records: added(to, "lineage_records", "Lineage records written"),
            tokens: added(to, "tokens", "Tokens, by kind"),
            dropped: added(to, "queue_dropped", "Items that a full queue dropped"),
            faults: added(to, "cache_faults", "Cache faults that were served as misses"),
            spool_bytes: added(to, "spool_bytes", "Bytes in the lineage log"),
            lag: added(to, "shipped_lag_seconds", "Age of the oldest record not yet in the database"),
            undeclared: added(to, "lineage_undeclared_records", undeclared_help),
            regressed: added(to, "lineage_db_regression_records", regressed_help),
            tree: TreeMetrics::register(to),
            routing: RoutingMetrics::register(to),
            feedback: added(to, "feedback", "Verdicts of callers on cached answers"),
            trust: added(to, "semantic_trust", "Routes by what their labels allow"),
            labels: added(to, "semantic_labels", "Semantic decisions that were checked"),
            panics: added(to, "panics", "Requests that ended in a panic"),
            edge: EdgeMetrics::register(to),
            registry,
        }
    }

    /// Counts a finished request.
    pub fn request(&self, endpoint: &'static str, status: u16, cache: &'static str, took: Duration) {
        self.requests.get_or_create(&RequestLabels { endpoint, status, cache }).inc();
        self.durations.get_or_create(&DurationLabels { endpoint, cache }).observe(took.as_secs_f64());
    }

    /// Observes one step.
    pub fn step(&self, step: Step, took: Duration) {
        self.steps[step as usize].observe(took.as_secs_f64());
    }

    /// Observes a provider call.
    pub fn upstream(&self, provider: &str, ttft: Duration, total: Duration) {
        let labels = ProviderLabels { provider: provider.to_owned() };
        self.upstream.get_or_create(&labels).observe(total.as_secs_f64());
        self.ttft.get_or_create(&labels).observe(ttft.as_secs_f64());
    }

    /// Sets the number of entries of a cache layer.
    pub fn cache_entries(&self, layer: &'static str, entries: u64) {
        self.entries.get_or_create(&Layer { layer }).set(i64::try_from(entries).unwrap_or(i64::MAX));
    }

    /// Counts a verdict of the semantic layer.
    pub fn semantic(&self, tier: &'static str, verdict: &'static str) {
        self.decisions.get_or_create(&DecisionLabels { tier, verdict }).inc();
    }

    /// The open connections.
    pub const fn connections(&self) -> &Gauge {
        &self.edge.connections
    }

    /// The requests being served.
    pub const fn inflight(&self) -> &Gauge {
        &self.edge.inflight
    }

    /// Sets the state of a target's breaker: `closed`, `open` or `half_open`. The caller bounds the names.
    pub fn circuit(&self, provider: &str, model: &str, state: &'static str) {
        for known in ["closed", "half_open", "open"] {
            let labels = CircuitLabels { provider: provider.to_owned(), model: model.to_owned(), state: known };
            self.routing.circuits.get_or_create(&labels).set(i64::from(known == state));
        }
    }

    /// Sets how often another attempt was made behind one of this target so far, for one reason.
    pub fn retries(&self, provider: &str, model: &str, reason: &'static str, count: u64) {
        let labels = RetryLabels { provider: provider.to_owned(), model: model.to_owned(), reason };
        self.routing.retries.get_or_create(&labels).inner().store(count, Ordering::Relaxed);
    }

    /// Counts a refusal by a limit.
    pub fn limited(&self, dimension: &'static str) {
        self.limited.get_or_create(&Dimension { dimension }).inc();
    }

    /// Counts a lineage record.
    pub fn record(&self, outcome: &'static str) {
        self.records.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    /// Counts a caller's verdict: `wrong`, `right`.
    pub fn feedback(&self, verdict: &'static str) {
        self.feedback.get_or_create(&VerdictLabel { verdict }).inc();
    }

    /// Sets how many routes of one name stand in one state. The caller bounds the names.
    pub fn trust(&self, route: &str, state: &'static str, routes: u64) {
        let labels = TrustLabels { route: route.to_owned(), state };
        self.trust.get_or_create(&labels).set(i64::try_from(routes).unwrap_or(i64::MAX));
    }

    /// Counts a semantic decision that was checked.
    pub fn label(&self, verdict: &'static str, evidence: &'static str) {
        self.labels.get_or_create(&FindingLabels { verdict, evidence }).inc();
    }

    /// Counts tokens: `input`, `output`, `input_saved`, `output_saved`, `input_judge`, `output_judge`.
    pub fn tokens(&self, kind: &'static str, tokens: u64) {
        self.tokens.get_or_create(&KindLabel { kind }).inc_by(tokens);
    }

    /// Counts items that a full queue dropped.
    pub fn dropped(&self, queue: &'static str, items: u64) {
        self.dropped.get_or_create(&QueueLabel { queue }).inc_by(items);
    }

    /// Sets the number of cache faults of one kind so far.
    pub fn cache_faults(&self, fault: &'static str, count: u64) {
        self.faults.get_or_create(&FaultLabel { fault }).inner().store(count, Ordering::Relaxed);
    }

    /// Sets size and lag of the lineage log.
    pub fn spool(&self, bytes: u64, lag: Duration) {
        self.spool_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        self.lag.set(lag.as_secs_f64());
    }

    /// Sets how many records are missing from the log with nothing that declares them.
    pub fn undeclared(&self, records: u64) {
        self.undeclared.set(i64::try_from(records).unwrap_or(i64::MAX));
    }

    /// Sets how many records the database lost that it had confirmed; 0 once it has them again.
    pub fn regressed(&self, records: u64) {
        self.regressed.set(i64::try_from(records).unwrap_or(i64::MAX));
    }

    /// Sets how many records the newest checkpoint covers.
    pub fn checkpoint(&self, size: u64) {
        self.tree.checkpoint_size.set(i64::try_from(size).unwrap_or(i64::MAX));
    }

    /// Counts a checkpoint that was not signed: `mismatch`, `missing`, `log`, `persisted`, `io`, `store`.
    pub fn checkpoint_fault(&self, fault: &'static str) {
        self.tree.checkpoint_faults.get_or_create(&FaultLabel { fault }).inc();
    }

    /// Sets how old the newest checkpoint is that an anchor has, while there is a newer one.
    pub fn anchor_age(&self, anchor: &str, age: Duration) {
        self.tree.anchor_ages.get_or_create(&AnchorLabels { anchor: anchor.to_owned() }).set(age.as_secs_f64());
    }

    /// Counts a failed try of an anchor.
    pub fn anchor_failed(&self, anchor: &str) {
        self.tree.anchor_failures.get_or_create(&AnchorLabels { anchor: anchor.to_owned() }).inc();
    }

    /// Counts a panic.
    pub fn panicked(&self) {
        self.panics.inc();
    }

    /// The OpenMetrics text of everything.
    pub fn encode(&self) -> String {
        let mut out = String::new();
        encode(&mut out, &self.registry).expect("writing to a String does not fail");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Every metric, touched once.
    fn touched() -> String {
        let metrics = Metrics::new();
        metrics.request("chat", 200, "MISS", Duration::from_millis(3));
        metrics.step(Step::Attest, Duration::from_micros(20));
        metrics.upstream("openai", Duration::from_millis(1), Duration::from_millis(2));
        metrics.semantic("vector", "hit");
        metrics.circuit("openai", "m", "open");
        metrics.circuit("openai", "m", "half_open");
        metrics.retries("openai", "m", "status_429", 5);
        metrics.limited("ip");
        metrics.record("complete");
        metrics.tokens("input", 7);
        metrics.cache_entries("local", 2);
        metrics.cache_faults("shared", 6);
        metrics.dropped("labels", 8);
        metrics.feedback("wrong");
        metrics.trust("m", "alarm", 1);
        metrics.label("right", "texts");
        metrics.spool(10, Duration::from_millis(1500));
        metrics.undeclared(3);
        metrics.regressed(4);
        metrics.checkpoint(12);
        metrics.checkpoint_fault("mismatch");
        metrics.anchor_age("store", Duration::from_secs(2));
        metrics.anchor_failed("store");
        metrics.panicked();
        metrics.encode()
    }

    #[test]
    fn each_metric_carries_what_it_was_told() {
        let text = touched();
        for line in [
            "signet_requests_total{endpoint=\"chat\",status=\"200\",cache=\"MISS\"} 1",
            "signet_request_duration_seconds_count{endpoint=\"chat\",cache=\"MISS\"} 1",
            "signet_step_duration_seconds_count{step=\"attest\"} 1",
            "signet_upstream_duration_seconds_sum{provider=\"openai\"} 0.002",
            "signet_upstream_ttft_seconds_sum{provider=\"openai\"} 0.001",
            "signet_upstream_circuit{provider=\"openai\",model=\"m\",state=\"half_open\"} 1",
            "signet_upstream_circuit{provider=\"openai\",model=\"m\",state=\"open\"} 0",
            "signet_upstream_retries_total{provider=\"openai\",model=\"m\",reason=\"status_429\"} 5",
            "signet_cache_entries{layer=\"local\"} 2",
            "signet_cache_faults_total{fault=\"shared\"} 6",
            "signet_queue_dropped_total{queue=\"labels\"} 8",
            "signet_semantic_decisions_total{tier=\"vector\",verdict=\"hit\"} 1",
            "signet_semantic_trust{route=\"m\",state=\"alarm\"} 1",
            "signet_semantic_labels_total{verdict=\"right\",evidence=\"texts\"} 1",
            "signet_feedback_total{verdict=\"wrong\"} 1",
            "signet_limited_total{dimension=\"ip\"} 1",
            "signet_lineage_records_total{outcome=\"complete\"} 1",
            "signet_spool_bytes 10",
            "signet_lineage_undeclared_records 3",
            "signet_lineage_db_regression_records 4",
            "signet_shipped_lag_seconds 1.5",
            "signet_checkpoint_size 12",
            "signet_checkpoint_faults_total{fault=\"mismatch\"} 1",
            "signet_anchor_age_seconds{anchor=\"store\"} 2.0",
            "signet_anchor_failures_total{anchor=\"store\"} 1",
            "signet_tokens_total{kind=\"input\"} 7",
            "signet_panics_total 1",
        ] {
            assert!(text.contains(line), "{line} is missing from:\n{text}");
        }
    }

    /// `name{label,label} kind` of each metric in an OpenMetrics text.
    fn exposed(text: &str) -> BTreeSet<String> {
        let mut kind = "";
        let mut found = BTreeSet::new();
        for line in text.lines() {
            if let Some(told) = line.strip_prefix("# TYPE ") {
                kind = told.rsplit(' ').next().unwrap_or_default();
            } else if !line.starts_with('#') && !line.contains("_bucket") && !line.contains("_sum") {
                let (sample, _) = line.rsplit_once(' ').expect("a sample has a value");
                let (name, labels) = sample.split_once('{').unwrap_or((sample, ""));
                let labels: Vec<_> = labels.split(',').filter_map(|label| Some(label.split_once('=')?.0)).collect();
                let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
                found.insert(format!("{}{labels} {kind}", name.strip_suffix("_count").unwrap_or(name)));
            }
        }
        found
    }

    #[test]
    fn the_document_names_every_metric_with_its_labels_and_no_other() {
        let rows = include_str!("../../../docs/metrics.md").lines().filter_map(|line| {
            let (metric, rest) = line.strip_prefix("| `signet_")?.split_once("` | ")?;
            Some(format!("signet_{metric} {}", rest.split_once(" |")?.0))
        });
        let (documented, exposed): (BTreeSet<_>, _) = (rows.collect(), exposed(&touched()));
        let apart: Vec<_> = documented.symmetric_difference(&exposed).collect();
        assert!(apart.is_empty() && !exposed.is_empty(), "in one of the two only: {apart:#?}");
    }

    #[test]
    fn every_step_has_its_own_histogram() {
        for (index, (step, _)) in STEPS.iter().enumerate() {
            assert_eq!(*step as usize, index);
        }
    }
}
