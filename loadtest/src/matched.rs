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
use crate::rss;
use crate::segment::{self, Plan, Refusal, Stretch};
use crate::stats::{Round, Tally};
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

/// A pace of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// 64 chunks 20 ms apart.
    Chunks64,
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
    /// Requests a side, mode and concurrency [default: 10000; with a profile eight a round, or as many as connections].
    #[arg(short = 'n', long)]
    requests: Option<u64>,
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
    /// Unmeasured requests a side before the first round [default: 300; with a profile as many as connections].
    #[arg(long)]
    warmup: Option<u64>,
    /// A pace by name, for streams: `chunks64` is 64 chunks 20 ms apart. A gateway that keeps `x-mock-*` to itself needs a
    /// mock started with the same.
    #[arg(long, value_enum, conflicts_with_all = ["mode", "chunks", "chunk_ms"])]
    profile: Option<Profile>,
    /// Events of a stream, asked of the mock by header.
    #[arg(long, value_name = "N")]
    chunks: Option<u64>,
    /// Wait between the events of a stream, asked of the mock by header.
    #[arg(long, value_name = "MS")]
    chunk_ms: Option<u64>,
    /// Wait before every answer, asked of the mock by header.
    #[arg(long, value_name = "MS")]
    latency_ms: Option<u64>,
    /// Pad answers to so many bytes of text, asked of the mock by header.
    #[arg(long, value_name = "N")]
    answer_bytes: Option<u32>,
    /// Make request bodies longer by so many bytes.
    #[arg(long, value_name = "N", default_value_t = 0)]
    body_bytes: usize,
    /// Count a silence inside a body that is longer than this as a stall.
    #[arg(long, value_name = "MS", default_value_t = 250)]
    stall_ms: u64,
    /// The gateway's process: see how long it computes for an answer, beside the relay of our own.
    #[arg(long, value_name = "PID", requires = "gateway")]
    pid: Option<u32>,
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

impl Flags {
    /// The flags that a profile stands for.
    fn settle(mut self) -> Self {
        if self.profile == Some(Profile::Chunks64) {
            (self.mode, self.chunks, self.chunk_ms) = (vec![Mode::Sse], Some(64), Some(20));
        }
        self
    }

    fn requests(&self, concurrency: usize) -> u64 {
        let default = self.profile.map_or(10_000, |_| self.rounds * (concurrency as u64).max(8));
        self.requests.unwrap_or(default)
    }

    fn warmup(&self, concurrency: usize) -> u64 {
        self.warmup.unwrap_or(self.profile.map_or(300, |_| concurrency as u64))
    }
}

/// A server that takes part.
struct Side {
    name: &'static str,
    target: Target,
    /// Its process, where that is known.
    pid: Option<u32>,
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
pub(crate) async fn run(flags: Flags) -> anyhow::Result<bool> {
    let flags = &flags.settle();
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
    let side = |name, url: &str, pid| -> anyhow::Result<Side> {
        let target = Target::new(url, flags.ca.as_deref())?.with_key(flags.api_key.as_deref());
        Ok(Side { name, target, pid })
    };
    let mut sides = vec![side("direct", &flags.direct, None)?];
    if let Some(url) = &flags.gateway {
        sides.push(side("gateway", url, flags.pid)?);
    }
    if let Some(url) = &flags.against {
        sides.push(side("against", url, None)?);
    }
    let relay = match flags.relay.as_str() {
        "none" => return Ok((sides, None)),
        "spawn" => Some(Relay::spawn(&sides[0].target.origin(), flags.ca.as_ref())?),
        _ => None,
    };
    let (url, pid) = (relay.as_ref().map_or(&flags.relay, |relay| &relay.url), relay.as_ref().map(|it| it.child.id()));
    sides.push(side("relay", url, pid)?);
    Ok((sides, relay))
}

/// Different in every process; a hasher's random seed is entropy enough to number a run.
pub(crate) fn random() -> u64 {
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
        ("x-mock-answer-bytes", flags.answer_bytes.map(u64::from)),
    ];
    let mut target = side.target.clone();
    for (name, value) in steering.iter().filter_map(|(name, value)| Some((name, (*value)?))) {
        target = target.with_header(name, &value.to_string());
    }
    if stream && flags.ids.is_some() {
        target = target.with_header("te", "trailers");
    }
    Plan {
        questions: Questions::new(&target, stream, batch, flags.body_bytes),
        target,
        stream,
        repeat: (mode == Mode::Hit).then_some(HIT_SET),
        cache: if mode == Mode::Hit { "EXACT" } else { "MISS" },
        timeout: Duration::from_secs(flags.timeout_s),
        keep_ids,
        steers_mock: steering.iter().any(|(_, value)| value.is_some()),
        answer_bytes: flags.answer_bytes.map_or(0, |bytes| usize::try_from(bytes).expect("32 bits fit")),
        refusal: Refusal::Failure,
    }
}

/// A side with its connections while one mode and concurrency is measured.
struct Lane {
    name: &'static str,
    pid: Option<u32>,
    plan: Arc<Plan>,
    clients: Vec<Client>,
    total: Tally,
    rounds: Vec<Round>,
}

impl Lane {
    fn computed(&self) -> anyhow::Result<Duration> {
        self.pid.map_or(Ok(Duration::ZERO), rss::computed)
    }
}

async fn measure(flags: &Flags, sides: &[Side], mode: Mode, concurrency: usize, batch: u64) -> anyhow::Result<Run> {
    let mut lanes = Vec::new();
    for side in sides {
        lanes.push(open(flags, side, mode, concurrency, batch).await?);
    }
    let per_round = flags.requests(concurrency).div_ceil(flags.rounds);
    let mut first = flags.warmup(concurrency);
    for round in 0..flags.rounds {
        eprintln!("{mode:?} c={concurrency} round {}/{}", round + 1, flags.rounds);
        for lane in &mut lanes {
            let stretch = Stretch { first, count: per_round, rate: flags.rps };
            let before = lane.computed()?;
            let (tally, ids, clients) = segment::run(&lane.plan, std::mem::take(&mut lane.clients), stretch).await;
            lane.clients = clients;
            lane.rounds.push(tally.round_of(lane.computed()?.saturating_sub(before)));
            lane.total.merge(&tally);
            append(flags, &ids)?;
        }
        lanes.rotate_left(1);
        first += per_round;
    }
    let stall = Duration::from_millis(flags.stall_ms);
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
        sides: sides
            .iter()
            .filter_map(|side| find(side.name))
            .map(|lane| (lane.name, lane.total.summary(stall)))
            .collect(),
    })
}

async fn open(flags: &Flags, side: &Side, mode: Mode, concurrency: usize, batch: u64) -> anyhow::Result<Lane> {
    let plan = Arc::new(plan(flags, side, mode, batch));
    let clients = Client::several(&plan.target, concurrency)
        .await
        .with_context(|| format!("cannot reach the {} side at {}", side.name, side.target.origin()))?;
    let count = plan.repeat.unwrap_or(0).max(flags.warmup(concurrency));
    let mut clients = warmed(side, &plan, clients, count).await?;
    if side.name != "direct" && plan.steers_mock {
        probe(flags, side, &mut clients[0]).await?;
    }
    Ok(Lane { name: side.name, pid: side.pid, plan, clients, total: Tally::new(), rounds: Vec::new() })
}

/// Those of a hit run fill the cache and may well be misses. Faults show here before the run.
async fn warmed(side: &Side, plan: &Arc<Plan>, clients: Vec<Client>, count: u64) -> anyhow::Result<Vec<Client>> {
    let (tally, _, clients) = segment::run(plan, clients, Stretch { first: 0, count, rate: None }).await;
    let summary = tally.summary(Duration::MAX);
    let is_fatal = |code: &str| !code.starts_with("X-Cache ");
    if let Some((code, count)) = summary.errors.iter().find(|(code, _)| is_fatal(code)) {
        bail!("{}: {count} of {} answers of the warm-up failed: {code}", side.name, summary.ok + tally.failures());
    }
    Ok(clients)
}

/// Asks for a stream of three events, or as many as the run wants; others come if the side drops the headers that steer
/// the mock, and the mock was not started with the like.
async fn probe(flags: &Flags, side: &Side, client: &mut Client) -> anyhow::Result<()> {
    let wanted = flags.chunks.unwrap_or(3);
    let target = side.target.clone().with_header("x-mock-chunks", &wanted.to_string());
    let prompt = format!("Is anybody there? {}", random());
    client.ask(&Question::new(&target, &prompt, true)).await?;
    let events = memchr::memmem::find_iter(client.parser.body(), "data:").count() as u64;
    ensure!(
        (wanted..=wanted + 2).contains(&events), // perhaps a usage chunk, and the end mark
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
