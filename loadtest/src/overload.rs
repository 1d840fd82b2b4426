//! More requests than a gateway can serve, at their times whether or not it keeps up: what those it takes on have to wait,
//! and whether it tells the others at once when to come back.
//!
//! First a closed loop over as many connections as the gateway serves at a time finds its capacity, then an open loop offers
//! multiples of that. Latency counts from a request's intended start. A refusal is a 503 with `Retry-After`; any other answer
//! but the right one fails the run.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Args;
use serde::Serialize;

use crate::client::Client;
use crate::prompts::Questions;
use crate::segment::{self, Plan, Refusal, Stretch};
use crate::stats::{Spread, Tally, median};
use crate::target::Target;

/// Flags of `signet-load overload`.
#[derive(Args, Debug)]
pub(crate) struct Flags {
    /// The gateway. Behind it has to stand `signet-mock`.
    #[arg(long, value_name = "URL")]
    target: String,
    /// Bearer key.
    #[arg(long, value_name = "KEY")]
    api_key: Option<String>,
    /// Connections of the closed loop that finds the capacity: as many requests as the gateway serves at a time.
    #[arg(long, value_name = "N", default_value_t = 32)]
    served: usize,
    /// The capacity in requests a second; default: found by the closed loop.
    #[arg(long, value_name = "R")]
    rate: Option<f64>,
    /// Multiples of the capacity to offer, one after the other in each round. The first is what others are compared with.
    #[arg(long, value_delimiter = ',', default_value = "0.5,1,2,5,10")]
    factors: Vec<f64>,
    /// Seconds of each multiple in each round.
    #[arg(long, value_name = "S", default_value_t = 2.0)]
    duration: f64,
    /// Rounds; figures are compared within a round, and the median over rounds is told.
    #[arg(long, default_value_t = 3)]
    rounds: u64,
    /// Connections of the open loop. Too few and requests wait here.
    #[arg(short, long, default_value_t = 512)]
    concurrency: usize,
    /// Ask for streams of so many events, asked of the mock by header; default: JSON.
    #[arg(long, value_name = "N")]
    chunks: Option<u64>,
    /// Give up on an answer after this long.
    #[arg(long, value_name = "S", default_value_t = 60)]
    timeout_s: u64,
    /// Write the figures as JSON to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What one multiple of the capacity came to, over all rounds.
#[derive(Debug, Serialize)]
struct Offer {
    factor: f64,
    offered_rps: f64,
    admitted: u64,
    admitted_rps: f64,
    refused: u64,
    refused_share: f64,
    latency_us: Spread,
    refusal_us: Option<Spread>,
    /// Medians over rounds of the latency over that of the first multiple.
    p50_to_first: f64,
    p99_to_first: f64,
    reconnects: u64,
    errors: std::collections::BTreeMap<String, u64>,
}

#[derive(Debug, Serialize)]
struct Report {
    capacity_rps: f64,
    offers: Vec<Offer>,
}

/// Runs everything and tells whether every answer was right or a proper refusal.
pub(crate) async fn run(flags: Flags) -> anyhow::Result<bool> {
    ensure!(!flags.factors.is_empty() && flags.factors.iter().all(|factor| *factor > 0.0), "--factors must be above 0");
    ensure!(flags.duration > 0.0 && flags.rounds > 0 && flags.served > 0 && flags.concurrency > 0, "nothing to do");
    let plan = Arc::new(plan(&flags)?);
    let mut asked = 0;
    let capacity_rps = match flags.rate {
        Some(rate) => rate,
        None => capacity(&flags, &plan, &mut asked).await?,
    };
    let mut tallies: Vec<Vec<Tally>> = flags.factors.iter().map(|_| Vec::new()).collect();
    let mut clients = connected(&plan, flags.concurrency).await?;
    for _ in 0..flags.rounds {
        for (factor, tallies) in flags.factors.iter().zip(&mut tallies) {
            let rate = capacity_rps * factor;
            let count = Duration::from_secs_f64(rate * flags.duration).as_secs().max(1); // rounds down
            let stretch = Stretch { first: asked, count, rate: Some(rate) };
            asked += count;
            let (tally, _, back) = segment::run(&plan, clients, stretch).await;
            clients = back;
            tallies.push(tally);
        }
    }
    let report = Report { capacity_rps, offers: offers(&flags.factors, capacity_rps, &tallies) };
    print(&report)?;
    if let Some(path) = &flags.json {
        std::fs::write(path, serde_json::to_vec_pretty(&report)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(report.offers.iter().all(|offer| offer.errors.is_empty() && offer.admitted > 0))
}

fn plan(flags: &Flags) -> anyhow::Result<Plan> {
    let mut target = Target::new(&flags.target, None)?.with_key(flags.api_key.as_deref());
    if let Some(chunks) = flags.chunks {
        target = target.with_header("x-mock-chunks", &chunks.to_string());
    }
    let stream = flags.chunks.is_some();
    Ok(Plan {
        questions: Questions::new(&target, stream, crate::matched::random(), 0),
        target,
        stream,
        repeat: None,
        cache: "MISS",
        timeout: Duration::from_secs(flags.timeout_s),
        keep_ids: false,
        steers_mock: stream,
        answer_bytes: 0,
        refusal: Refusal::Counted,
    })
}

async fn connected(plan: &Plan, count: usize) -> anyhow::Result<Vec<Client>> {
    let clients = Client::several(&plan.target, count).await;
    clients.with_context(|| format!("cannot reach {}", plan.target.origin()))
}

/// Requests a second of a closed loop, once it is warm.
async fn capacity(flags: &Flags, plan: &Arc<Plan>, asked: &mut u64) -> anyhow::Result<f64> {
    let mut clients = connected(plan, flags.served).await?;
    let (mut rate, mut count) = (0.0, flags.served as u64 * 4);
    for _ in 0..2 {
        let stretch = Stretch { first: *asked, count, rate: None };
        *asked += count;
        let (tally, _, back) = segment::run(plan, clients, stretch).await;
        clients = back;
        rate = tally.rps();
        ensure!(rate > 0.0, "no answer was right: {:?}", tally.summary(Duration::MAX).errors);
        count = Duration::from_secs_f64(rate * flags.duration).as_secs().max(count);
    }
    Ok(rate)
}

fn offers(factors: &[f64], capacity: f64, tallies: &[Vec<Tally>]) -> Vec<Offer> {
    let rounds = |tallies: &[Tally], pick: fn(&Spread) -> f64| -> Vec<f64> {
        tallies.iter().map(|tally| pick(&tally.summary(Duration::MAX).latency_us)).collect()
    };
    let to_first = |of: &[Tally], pick: fn(&Spread) -> f64| {
        let pairs = rounds(of, pick).into_iter().zip(rounds(&tallies[0], pick));
        median(pairs.map(|(latency, first)| latency / first.max(1.0)).collect())
    };
    let offer = |(factor, of): (&f64, &Vec<Tally>)| {
        let mut all = Tally::new();
        for tally in of {
            all.merge(tally);
        }
        let sum = all.summary(Duration::MAX);
        let answered = (sum.ok + sum.refused).max(1) as f64;
        Offer {
            factor: *factor,
            offered_rps: capacity * factor,
            admitted: sum.ok,
            admitted_rps: sum.rps,
            refused: sum.refused,
            refused_share: sum.refused as f64 / answered,
            latency_us: sum.latency_us,
            refusal_us: sum.refusal_us,
            p50_to_first: to_first(of, |spread| spread.p50),
            p99_to_first: to_first(of, |spread| spread.p99),
            reconnects: sum.reconnects,
            errors: sum.errors,
        }
    };
    factors.iter().zip(tallies).map(offer).collect()
}

fn print(report: &Report) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "capacity {:.0} requests a second; latencies in microseconds", report.capacity_rps)?;
    writeln!(
        out,
        "{:>6}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>12}{:>12}{:>8}{:>8}",
        "load", "offered/s", "served/s", "refused", "p50", "p99", "max", "refusal p50", "refusal p99", "p50 x", "p99 x"
    )?;
    for offer in &report.offers {
        let latency = &offer.latency_us;
        let refusal = |pick: fn(&Spread) -> f64| offer.refusal_us.as_ref().map_or(0.0, pick);
        writeln!(
            out,
            "{:>6}{:>10.0}{:>10.0}{:>9.1}%{:>10.0}{:>10.0}{:>10.0}{:>12.0}{:>12.0}{:>8.2}{:>8.2}",
            offer.factor,
            offer.offered_rps,
            offer.admitted_rps,
            offer.refused_share * 100.0,
            latency.p50,
            latency.p99,
            latency.max,
            refusal(|spread| spread.p50),
            refusal(|spread| spread.p99),
            offer.p50_to_first,
            offer.p99_to_first
        )?;
        for (code, count) in &offer.errors {
            writeln!(out, "{:>6} failed: {count} x {code}", offer.factor)?;
        }
    }
    out.flush()
}
