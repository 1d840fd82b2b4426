//! What an open stream costs a gateway in memory.
//!
//! Connections are opened and used once. Then streams are begun on them which the mock holds open after some events, and when all of
//! them are quiet the process is looked at again. What one more stream costs is told from what the first ones cost beside
//! (pools that grow, pages that an allocator takes at once) by the difference between two counts.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;

use crate::client::Client;
use crate::prompts::Questions;
use crate::rss;
use crate::target::Target;

/// Events that the mock would send if it went on.
const EVENTS: &str = "64";

/// Flags of `signet-load held`.
#[derive(Args, Debug)]
pub(crate) struct Flags {
    /// The gateway, which has to pass `x-mock-*` headers on to a mock. Plain HTTP.
    #[arg(long, value_name = "URL")]
    gateway: String,
    /// Its process.
    #[arg(long, value_name = "PID")]
    rss_pid: u32,
    /// Bearer key.
    #[arg(long, value_name = "KEY")]
    api_key: Option<String>,
    /// How many streams are open when it is looked at; a list, growing.
    #[arg(short = 'c', long = "streams", value_delimiter = ',', default_value = "500,1000")]
    streams: Vec<usize>,
    /// Events of each that have come by then.
    #[arg(long, value_name = "N", default_value_t = 32)]
    events: usize,
    /// Ask that nothing is kept or shared.
    #[arg(long)]
    no_store: bool,
    /// How long the streams are quiet before it is looked at.
    #[arg(long, value_name = "MS", default_value_t = 2000)]
    settle_ms: u64,
    /// Write the figures as JSON to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// One look.
#[derive(Serialize)]
struct Look {
    streams: usize,
    /// Bytes more than with all connections open and at rest, for each stream.
    bytes_each: f64,
    /// Bytes more than at the look before, for each stream that was opened since.
    bytes_one_more: f64,
}

/// Runs it and prints the figures.
pub(crate) async fn run(flags: &Flags) -> anyhow::Result<()> {
    let grows = flags.streams.iter().try_fold(0, |before, count| (*count > before).then_some(*count));
    let most = grows.context("the counts of streams have to grow")?;
    let mut target = Target::new(&flags.gateway, None)?.with_key(flags.api_key.as_deref());
    if flags.no_store {
        target = target.with_header("cache-control", "no-store");
    }
    let whole = Asking::new(&target.clone().with_header("x-mock-burst", "1"));
    let held = target.with_header("x-mock-chunks", EVENTS);
    let held = Asking::new(&held.with_header("x-mock-fault", &format!("hang-after={}", flags.events)));
    let mut clients = Client::several(&whole.target, most).await.context("cannot reach the gateway")?;
    let mut idler = Client::several(&whole.target, 1).await?.remove(0);
    for (number, client) in clients.iter_mut().enumerate() {
        client.ask(&whole.question(number)).await?;
    }
    let mut number = most;
    let mut look = async || -> anyhow::Result<u64> {
        let until = Instant::now() + Duration::from_millis(flags.settle_ms);
        // An allocator gives back what it does not need while it is used, not when nothing happens at all.
        while Instant::now() < until {
            idler.ask(&whole.question(number)).await?;
            number += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        rss::anonymous(flags.rss_pid)
    };
    let rest = look().await?;
    let (mut before, mut open, mut looks) = (rest, 0, Vec::new());
    for &streams in &flags.streams {
        for (number, client) in clients[open..streams].iter_mut().enumerate() {
            client.begin(&held.question(open + number), flags.events).await?;
        }
        let now = look().await?;
        let each = |before: u64, streams: usize| (now as f64 - before as f64) / streams as f64;
        looks.push(Look { streams, bytes_each: each(rest, streams), bytes_one_more: each(before, streams - open) });
        (before, open) = (now, streams);
    }
    report(flags, rest, &looks)
}

fn report(flags: &Flags, rest: u64, looks: &[Look]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{rest} bytes with every connection at rest")?;
    for Look { streams, bytes_each, bytes_one_more } in looks {
        writeln!(
            out,
            "{streams} open streams, {} events each: {bytes_each:.0} bytes each, {bytes_one_more:.0} for one more",
            flags.events
        )?;
    }
    if let Some(path) = &flags.json {
        let json = serde_json::to_vec_pretty(&serde_json::json!({ "bytes_at_rest": rest, "looks": looks }))?;
        std::fs::write(path, json).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Questions that were never asked before, all to one target.
struct Asking {
    target: Target,
    questions: Questions,
}

impl Asking {
    fn new(target: &Target) -> Self {
        Self { target: target.clone(), questions: Questions::new(target, true, crate::matched::random(), 0) }
    }

    fn question(&self, number: usize) -> crate::prompts::Question {
        let mut question = self.questions.scratch();
        self.questions.write(number as u64, &mut question);
        question
    }
}
