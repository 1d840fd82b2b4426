//! How often does the semantic cache serve, and how often is it wrong?
//!
//! Labelled pairs and streams go through the gateway's own reader of requests, its partitions, its tiers and gates and its
//! insert policy; only HTTP, the provider and time are left out. What is measured is therefore what would be served.
//! docs/cache-eval.md says what each figure means.

mod bench;
mod html;
mod input;
mod pairs;
mod query;
mod replay;
mod report;
pub mod stats;
mod table;

pub use bench::{MakeIndex, Setup};
pub use html::html;
pub use input::{Arrival, BadLine, Format, Pair, Reader, Row, Unreadable};
pub use pairs::{Judged, Outcome};
pub use query::Query;
pub use replay::{Chosen, ReplayReport, RunReport, Tally};
pub use report::{
    Areas, Bin, Count, Histogram, KindReport, PairOptions, PairsReport, Point, Rate, Report, Resampled, RowDecision,
    SettingsReport, TrafficReport,
};
pub use table::table;

use signet_cache::Mode;
use std::io::{self, BufRead};

/// Bad lines that are told one by one; all are counted.
const TOLD: usize = 100;

/// How to evaluate.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Pairs become a stream: see [`evaluate`].
    pub replay: bool,
    /// Ask each pair both ways round; it counts as served if one way is.
    pub both_ways: bool,
    /// Tasks at a time.
    pub workers: usize,
    /// Wanted bound on the share of wrong answers among hits, for choosing a floor from a stream.
    pub max_false_share: f64,
    /// How pairs are counted.
    pub pairs: PairOptions,
}

/// Is told how an evaluation goes.
pub trait Watch {
    /// A line could not be read.
    fn bad_line(&mut self, line: &BadLine);
    /// So many steps are done, of so many if that is known.
    fn step(&mut self, done: u64, of: Option<u64>);
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum EvalFault {
    /// The input broke off.
    #[error("reading failed: {0}")]
    Io(#[from] io::Error),
    /// Not one row could be evaluated.
    #[error("there is not one row to evaluate ({bad_lines} bad lines, {passed_over} passed over)")]
    Nothing {
        /// Lines that could not be read.
        bad_lines: u64,
        /// Log lines that were no answered chat completion.
        passed_over: u64,
    },
}

/// Evaluates the rows of `reader`. Pairs are judged one by one, or with [`Options::replay`] shuffled by the seed into a
/// stream; everything else is replayed. Needs a tokio runtime.
///
/// # Errors
/// The input broke off, or held no row.
pub async fn evaluate<R: BufRead>(
    reader: Reader<R>,
    setup: &Setup,
    options: &Options,
    watch: &mut dyn Watch,
) -> Result<Report, EvalFault> {
    let format = reader.format();
    let mut rows = Rows { reader, bad: Vec::new(), bad_lines: 0, passed_over: 0, read: 0, broken: None };
    let (mut pairs, mut replay) = (None, None);
    let decisions;
    if format == Format::Pairs && !options.replay {
        let judged = {
            let mut told = |done| watch.step(done, None);
            let mut source = rows.by_ref().filter_map(into_pair);
            pairs::judge_all(setup, options.both_ways, options.workers, &mut source, &mut told).await
        };
        rows.check(watch)?;
        pairs = Some(PairsReport::of(&judged, &options.pairs));
        decisions = judged.iter().map(Judged::decision).collect();
    } else {
        let events = if format == Format::Pairs {
            replay::events_of_pairs(rows.by_ref().filter_map(into_pair), options.pairs.seed)
        } else {
            replay::events_of_stream(rows.by_ref().filter_map(into_arrival))
        };
        rows.check(watch)?;
        let mut told = |done, of| watch.step(done, Some(of));
        let (report, rows) = replay::replay(setup, events, options.max_false_share, options.workers, &mut told).await;
        (replay, decisions) = (Some(report), rows);
    }
    let settings = settings(setup, options);
    let (bad_lines, passed_over) = (rows.bad_lines, rows.passed_over);
    Ok(Report { format, rows: rows.read, bad_lines, passed_over, settings, pairs, replay, decisions })
}

fn settings(setup: &Setup, options: &Options) -> SettingsReport {
    SettingsReport {
        encoder: setup.encoder(),
        mode: match setup.semantic.mode {
            Mode::Off => "off",
            Mode::Shadow => "shadow",
            Mode::On => "on",
        },
        floor: f64::from(setup.semantic.floor),
        max_entries: setup.semantic.max_entries,
        seed: options.pairs.seed,
        bootstrap_rounds: options.pairs.rounds,
        both_ways: options.both_ways,
    }
}

fn into_pair(row: Row) -> Option<Pair> {
    if let Row::Pair(pair) = row { Some(*pair) } else { None }
}

fn into_arrival(row: Row) -> Option<Arrival> {
    if let Row::Arrival(arrival) = row { Some(*arrival) } else { None }
}

/// The good rows of a reader; the others are kept account of.
struct Rows<R> {
    reader: Reader<R>,
    /// The first of them.
    bad: Vec<BadLine>,
    bad_lines: u64,
    passed_over: u64,
    read: u64,
    broken: Option<io::Error>,
}

impl<R: BufRead> Iterator for Rows<R> {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        loop {
            match self.reader.next()? {
                Err(fault) => {
                    self.broken = Some(fault);
                    return None;
                }
                Ok(Err(line)) => {
                    self.bad_lines += 1;
                    if self.bad.len() < TOLD {
                        self.bad.push(line);
                    }
                }
                Ok(Ok(Row::Other)) => self.passed_over += 1,
                Ok(Ok(row)) => {
                    self.read += 1;
                    return Some(row);
                }
            }
        }
    }
}

impl<R> Rows<R> {
    /// Tells what could not be read.
    fn check(&mut self, watch: &mut dyn Watch) -> Result<(), EvalFault> {
        self.bad.iter().for_each(|line| watch.bad_line(line));
        if let Some(fault) = self.broken.take() {
            return Err(fault.into());
        }
        let (bad_lines, passed_over) = (self.bad_lines, self.passed_over);
        if self.read == 0 { Err(EvalFault::Nothing { bad_lines, passed_over }) } else { Ok(()) }
    }
}
