//! The same traffic to the upstream itself, to the gateway and to a plain relay, in turns.
//!
//! Rounds are short and their order rotates, so that whatever else the machine does falls on all sides alike; figures
//! are compared within a round and the median over rounds is reported.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::client::Client;
use crate::prompts::{Question, Questions};
use crate::report::{self, Deltas, Report, Run};
use crate::segment::{self, Plan, Stretch};
use crate::stats::Tally;
use crate::target::Target;

/// Questions of the `hit` mode.
const HIT_SET: u64 = 64;

/// What kind of answers are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mode {
    /// JSON answers to questions never asked before.
    Json,
    /// Streams of which every chunk is a write of its own.
    Sse,
    /// Streams that the mock sends in one write.
    SseBurst,
    /// JSON answers to a fixed set of questions that was asked before.
    Hit,
}

/// Flags of `signet-load matched`.
#[derive(Args, Debug)]
pub(crate) struct Flags {
    /// The mock upstream.
    #[arg(long, value_name = "URL")]
    direct: String,
    /// The gateway in front of that upstream.
    #[arg(long, value_name = "URL")]
    gateway: Option<String>,
    /// A second gateway in front of it, for example with another setting: compared with the first within each round.
    #[arg(long, value_name = "URL", requires = "gateway")]
    against: Option<String>,
    /// `spawn` starts a relay in front of the upstream, `none` does without, or the URL of a running one.
    #[arg(long, value_name = "spawn|none|URL", default_value = "spawn")]
    relay: String,
    /// Bearer key, sent to all sides alike.
    #[arg(long, value_name = "KEY")]
    api_key: Option<String>,
    /// Requests a side, mode and concurrency.
    #[arg(short = 'n', long, default_value_t = 10_000)]
    requests: u64,
    /// Connections; a list runs one after the other.
    #[arg(short, long, value_delimiter = ',', default_value = "1,16,64")]
    concurrency: Vec<usize>,
    /// Open loop: so many requests a second, latency counted from the intended start. Default: closed loop.
    #[arg(long, value_name = "R")]
    rps: Option<f64>,
    /// Kinds of answers; a list runs one after the other.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "json")]
    mode: Vec<Mode>,
    /// Turns in which the sides alternate.
    #[arg(long, default_value_t = 6)]
    rounds: u64,
    /// Unmeasured requests a side before the first round.
    #[arg(long, default_value_t = 300)]
    warmup: u64,
    /// Events of a stream, asked of the mock by header.
    #[arg(long, value_name = "N")]
    chunks: Option<u64>,
    /// Wait between the events of a stream, asked of the mock by header.
    #[arg(long, value_name = "MS")]
    chunk_ms: Option<u64>,
    /// Wait before every answer, asked of the mock by header.
    #[arg(long, value_name = "MS")]
    latency_ms: Option<u64>,
    /// Give up on an answer after this long.
    #[arg(long, value_name = "S", default_value_t = 60)]
    timeout_s: u64,
    /// Number that makes this run's questions new to the gateway; default: random.
    #[arg(long, value_name = "N")]
    batch: Option<u64>,
    /// Certificate to trust for https URLs.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Append `Lineage-Id Lineage-Receipt` of every right gateway answer to this file.
    #[arg(long, value_name = "FILE")]
    ids: Option<PathBuf>,
    /// Write the figures as JSON to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A server that takes part.
struct Side {
    name: &'static str,
    target: Target,
}

/// A relay process of our own; ends with this value.
struct Relay {
    child: Child,
    url: String,
}

impl Relay {
    fn spawn(upstream: &str, ca: Option<&PathBuf>) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["relay", "--listen", "127.0.0.1:0", "--upstream", upstream]).stdout(Stdio::piped());
        if let Some(ca) = ca {
            command.arg("--ca").arg(ca);
        }
        let mut child = command.spawn().context("cannot start the relay")?;
        let stdout = child.stdout.take().expect("stdout is piped");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let url = line.trim().strip_prefix("listening on ").map(str::to_owned);
        let relay = Self { child, url: url.unwrap_or_default() };
        ensure!(!relay.url.is_empty(), "the relay did not start");
        Ok(relay)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.child.kill().ok(); // gone already: nothing to end
        self.child.wait().ok();
    }
}

/// Runs everything and tells whether every answer was right.
pub(crate) async fn run(flags: &Flags) -> anyhow::Result<bool> {
    ensure!(flags.concurrency.iter().all(|c| *c > 0) && flags.rounds > 0, "concurrency and rounds must be at least 1");
    ensure!(flags.rps.is_none_or(|rate| rate > 0.0), "--rps must be above 0");
    let batch = flags.batch.unwrap_or_else(random);
    let (sides, _relay) = sides(flags)?;
    let mut report = Report::new(batch);
    for (number, mode) in flags.mode.iter().enumerate() {
        for (position, concurrency) in flags.concurrency.iter().enumerate() {
            // Questions of one mode and concurrency are new to the next.
            let batch = batch + (number * flags.concurrency.len() + position) as u64;
            let run = measure(flags, &sides, *mode, *concurrency, batch).await?;
            report::print(&run)?;
            report.runs.push(run);
        }
    }
    if let Some(path) = &flags.json {
        let json = serde_json::to_vec_pretty(&report)?;
        std::fs::write(path, json).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(report.is_clean())
}

fn sides(flags: &Flags) -> anyhow::Result<(Vec<Side>, Option<Relay>)> {
    let side = |name, url: &str| -> anyhow::Result<Side> {
        Ok(Side { name, target: Target::new(url, flags.ca.as_deref())?.with_key(flags.api_key.as_deref()) })
    };
    let mut sides = vec![side("direct", &flags.direct)?];
    if let Some(url) = &flags.gateway {
        sides.push(side("gateway", url)?);
    }
    if let Some(url) = &flags.against {
        sides.push(side("against", url)?);
    }
    let relay = match flags.relay.as_str() {
        "none" => return Ok((sides, None)),
        "spawn" => Some(Relay::spawn(&sides[0].target.origin(), flags.ca.as_ref())?),
        _ => None,
    };
    sides.push(side("relay", relay.as_ref().map_or(&flags.relay, |relay| &relay.url))?);
    Ok((sides, relay))
}

/// Different in every process; a hasher's random seed is entropy enough to number a run.
fn random() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(0)
}

fn plan(flags: &Flags, side: &Side, mode: Mode, batch: u64) -> Plan {
    let stream = matches!(mode, Mode::Sse | Mode::SseBurst);
    let keep_ids = flags.ids.is_some() && side.name == "gateway";
    let steering = [
        ("x-mock-chunks", flags.chunks.filter(|_| stream)),
        ("x-mock-chunk-ms", flags.chunk_ms.filter(|_| mode == Mode::Sse)),
        ("x-mock-burst", (mode == Mode::SseBurst).then_some(1)),
        ("x-mock-latency-ms", flags.latency_ms),
    ];
    let mut target = side.target.clone();
    for (name, value) in steering.iter().filter_map(|(name, value)| Some((name, (*value)?))) {
        target = target.with_header(name, &value.to_string());
    }
    if stream && flags.ids.is_some() {
        target = target.with_header("te", "trailers");
    }
    Plan {
        questions: Questions::new(&target, stream, batch),
        target,
        stream,
        repeat: (mode == Mode::Hit).then_some(HIT_SET),
        cache: if mode == Mode::Hit { "EXACT" } else { "MISS" },
        timeout: Duration::from_secs(flags.timeout_s),
        keep_ids,
        steers_mock: steering.iter().any(|(_, value)| value.is_some()),
    }
}

/// A side with its connections while one mode and concurrency is measured.
struct Lane {
    name: &'static str,
    plan: Arc<Plan>,
    clients: Vec<Client>,
    total: Tally,
    rounds: Vec<(f64, f64)>,
}

async fn measure(flags: &Flags, sides: &[Side], mode: Mode, concurrency: usize, batch: u64) -> anyhow::Result<Run> {
    let mut lanes = Vec::new();
    for side in sides {
        lanes.push(open(flags, side, mode, concurrency, batch).await?);
    }
    let per_round = flags.requests.div_ceil(flags.rounds);
    let mut first = flags.warmup;
    for round in 0..flags.rounds {
        eprintln!("{mode:?} c={concurrency} round {}/{}", round + 1, flags.rounds);
        for lane in &mut lanes {
            let stretch = Stretch { first, count: per_round, rate: flags.rps };
            let (tally, ids, clients) = segment::run(&lane.plan, std::mem::take(&mut lane.clients), stretch).await;
            lane.clients = clients;
            lane.rounds.push((tally.rps(), tally.p50()));
            lane.total.merge(&tally);
            append(flags, &ids)?;
        }
        lanes.rotate_left(1);
        first += per_round;
    }
    let find = |name: &str| lanes.iter().find(|lane| lane.name == name);
    let rounds = |name| find(name).map(|lane| &lane.rounds[..]);
    let compared = report::Sides {
        direct: rounds("direct").context("the direct side is always there")?,
        gateway: rounds("gateway"),
        against: rounds("against"),
        relay: rounds("relay"),
    };
    Ok(Run {
        mode,
        concurrency,
        rps_target: flags.rps,
        requests: per_round * flags.rounds,
        rounds: flags.rounds,
        deltas: Deltas::of(&compared),
        sides: sides.iter().filter_map(|side| find(side.name)).map(|lane| (lane.name, lane.total.summary())).collect(),
    })
}

async fn open(flags: &Flags, side: &Side, mode: Mode, concurrency: usize, batch: u64) -> anyhow::Result<Lane> {
    let plan = Arc::new(plan(flags, side, mode, batch));
    let clients = Client::several(&plan.target, concurrency)
        .await
        .with_context(|| format!("cannot reach the {} side at {}", side.name, side.target.origin()))?;
    let mut clients = warm(flags, side, &plan, clients).await?;
    if side.name != "direct" && plan.steers_mock {
        probe(side, &mut clients[0]).await?;
    }
    Ok(Lane { name: side.name, plan, clients, total: Tally::new(), rounds: Vec::new() })
}

/// Unmeasured requests; those of a hit run fill the cache and may well be misses. Faults show here before the run.
async fn warm(flags: &Flags, side: &Side, plan: &Arc<Plan>, clients: Vec<Client>) -> anyhow::Result<Vec<Client>> {
    let count = plan.repeat.unwrap_or(0).max(flags.warmup);
    let (tally, _, clients) = segment::run(plan, clients, Stretch { first: 0, count, rate: None }).await;
    let summary = tally.summary();
    let is_fatal = |code: &str| !code.starts_with("X-Cache ");
    if let Some((code, count)) = summary.errors.iter().find(|(code, _)| is_fatal(code)) {
        bail!("{}: {count} of {} answers of the warm-up failed: {code}", side.name, summary.ok + tally.failures());
    }
    Ok(clients)
}

/// Asks for a stream of three events; more come if the side drops the headers that steer the mock.
async fn probe(side: &Side, client: &mut Client) -> anyhow::Result<()> {
    let target = side.target.clone().with_header("x-mock-chunks", "3");
    let prompt = format!("Is anybody there? {}", random());
    client.ask(&Question::new(&target, &prompt, true)).await?;
    let events = memchr::memmem::find_iter(client.parser.body(), "data:").count();
    ensure!(
        events <= 5, // three, perhaps a usage chunk, and the end mark
        "the {} side does not pass on x-mock-* headers: start the mock with the matching flags instead",
        side.name
    );
    Ok(())
}

fn append(flags: &Flags, ids: &[String]) -> anyhow::Result<()> {
    let Some(path) = flags.ids.as_ref().filter(|_| !ids.is_empty()) else { return Ok(()) };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    let mut out = std::io::BufWriter::new(file.with_context(|| format!("cannot write {}", path.display()))?);
    for id in ids {
        writeln!(out, "{id}")?;
    }
    Ok(out.flush()?)
}
