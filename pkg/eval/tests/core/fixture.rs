//! A setup whose vectors are written down.

use signet_cache::{Config, Mode, SemanticConfig};
use signet_eval::{BadLine, EvalFault, Options, PairOptions, Reader, Report, Setup, Watch, evaluate};
use signet_testkit::{BruteForceIndex, TableEmbedder};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const POACH: &str = "How do I poach an egg on a small sofa?";
/// Another spelling, the same to every gate, similarity 0.95.
pub(crate) const SPELLED: &str = "How do I poach an egg on a small couch?";
/// The same words.
pub(crate) const POLITE: &str = "Hi! How do I poach an egg on a small sofa? Thanks";
/// Nearer than [`SPELLED`], and another question.
pub(crate) const BOIL: &str = "How do I boil an egg on a small sofa?";
/// Passes no gate for numbers.
pub(crate) const TWO: &str = "How do I poach 2 eggs on a small sofa?";

pub(crate) const OPTIONS: Options = Options {
    replay: false,
    both_ways: false,
    workers: 2,
    max_false_share: 0.01,
    pairs: PairOptions { rounds: 200, seed: 7, base_rate: Some(0.25) },
};

pub(crate) fn setup(mode: Mode, floor: f32) -> Setup {
    let at = |cosine: f32| [cosine, (1.0 - cosine * cosine).sqrt()];
    let table = [(POACH, [1.0, 0.0]), (SPELLED, at(0.95)), (POLITE, at(0.999)), (BOIL, at(0.99)), (TWO, at(0.98))];
    Setup {
        cache: Config {
            ttl: Duration::from_hours(1),
            ttl_max: Duration::from_hours(24),
            volatile_ttl: Duration::from_mins(1),
            stale_if_error: Duration::ZERO,
            l1_max_bytes: 1 << 20,
            max_entry_bytes: 1 << 14,
        },
        semantic: SemanticConfig { mode, floor, max_entries: 100 },
        embedder: Arc::new(TableEmbedder::new(&table)),
        rescorer: None,
        index: Arc::new(|_| Arc::new(BruteForceIndex::default())),
    }
}

/// Keeps what it is told.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) bad: Vec<String>,
    pub(crate) steps: Vec<(u64, Option<u64>)>,
}

impl Watch for Told {
    fn bad_line(&mut self, line: &BadLine) {
        self.bad.push(line.to_string());
    }

    fn step(&mut self, done: u64, of: Option<u64>) {
        self.steps.push((done, of));
    }
}

pub(crate) fn run(text: &str, setup: &Setup, options: &Options) -> (Result<Report, EvalFault>, Told) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    let reader = Reader::open(text.as_bytes(), None).expect("a known form");
    let mut told = Told::default();
    let report = runtime.block_on(evaluate(reader, setup, options, &mut told));
    (report, told)
}

pub(crate) fn report(text: &str, setup: &Setup, options: &Options) -> Report {
    run(text, setup, options).0.expect("a report")
}

pub(crate) fn json_pair(a: &str, b: &str, label: u8, kind: &str) -> String {
    serde_json::json!({ "a": a, "b": b, "label": label, "kind": kind }).to_string() + "\n"
}
