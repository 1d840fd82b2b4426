//! A fixed mix of questions as people ask them: some often, some once, some in other words.
//!
//! The order comes from a fixed seed and the number of requests from rate and duration, so two runs over one connection
//! against fresh gateways ask the same and have to count the same. An answer is right when it belongs to the question's
//! own group; an `EXACT` or `MISS` answer has to be the one to these very words.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use clap::Args;
use signet_mock::answer_text;

use crate::check;
use crate::client::Client;
use crate::prompts::Question;
use crate::questions::GROUPS;
use crate::stream::Stream;
use crate::target::Target;

/// Flags of `signet-load replay`.
#[derive(Args, Debug)]
pub(crate) struct Flags {
    /// The gateway.
    #[arg(long, value_name = "URL")]
    target: String,
    /// Bearer key.
    #[arg(long, value_name = "KEY")]
    api_key: Option<String>,
    /// Requests a second.
    #[arg(long, value_name = "R", default_value_t = 20.0)]
    rps: f64,
    /// Seconds; with the rate it gives the number of requests.
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    duration: f64,
    /// Connections. Over more than one the order, and so the counts, may differ from run to run.
    #[arg(short, long, default_value_t = 1)]
    concurrency: usize,
    /// Exit with 1 if a smaller share of the answers were hits (EXACT or SEMANTIC).
    #[arg(long, value_name = "SHARE", default_value_t = 0.25)]
    min_hit_rate: f64,
    /// Ask these questions instead, as fast as they are answered: JSON lines of `text` and `cluster`, from
    /// tools/replay-stream. Behind the gateway has to stand `signet-mock`.
    #[arg(long, value_name = "FILE")]
    stream: Option<PathBuf>,
    /// With `--stream`: exit with 1 if the upper 95 % bound of the wrong share of semantic hits is over this.
    #[arg(long, value_name = "SHARE", default_value_t = 0.01)]
    max_false_share: f64,
    /// Give up on an answer after this long.
    #[arg(long, value_name = "S", default_value_t = 60)]
    timeout_s: u64,
    /// Certificate to trust for an https URL.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

/// One request of the mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Pick {
    group: usize,
    wording: usize,
    stream: bool,
}

/// The first `count` requests of the mix: groups by Zipf's law, one request in four streamed.
fn mix(count: usize) -> Vec<Pick> {
    let weights: Vec<u64> = (1..=GROUPS.len() as u64).map(|rank| 1_000_000 / rank).collect();
    let total: u64 = weights.iter().sum();
    let mut dice = Dice(0x5167_6e65_7431);
    let pick = |_| {
        let mut at = dice.below(total);
        let group = weights.iter().position(|weight| at.checked_sub(*weight).map(|rest| at = rest).is_none());
        // Half of the time the plain wording, else one of the rephrasings.
        let wording = [0, 0, 1, 2][usize::try_from(dice.below(4)).expect("below four")];
        Pick { group: group.expect("below the sum of the weights"), wording, stream: dice.below(4) == 0 }
    };
    (0..count).map(pick).collect()
}

/// SplitMix64 (Steele, Lea, Flood 2014): the same numbers everywhere.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % limit
    }
}

/// What came back, counted.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    x_cache: BTreeMap<String, u64>,
    wrong: Vec<String>,
    errors: BTreeMap<String, u64>,
}

impl Outcome {
    fn total(&self) -> u64 {
        self.x_cache.values().sum::<u64>() + self.errors.values().sum::<u64>() + self.wrong.len() as u64
    }

    fn hit_rate(&self) -> f64 {
        let count = |state| self.x_cache.get(state).copied().unwrap_or(0);
        (count("EXACT") + count("SEMANTIC")) as f64 / self.total().max(1) as f64
    }

    fn merge(&mut self, other: Self) {
        for (name, count) in other.x_cache {
            *self.x_cache.entry(name).or_default() += count;
        }
        for (name, count) in other.errors {
            *self.errors.entry(name).or_default() += count;
        }
        self.wrong.extend(other.wrong);
    }
}

/// Runs the mix and tells whether it went well.
pub(crate) async fn run(flags: &Flags) -> anyhow::Result<bool> {
    ensure!(
        flags.rps > 0.0 && flags.duration > 0.0 && flags.concurrency > 0,
        "rate, duration and concurrency must be above 0"
    );
    let target = Target::new(&flags.target, flags.ca.as_deref())?.with_key(flags.api_key.as_deref());
    if let Some(file) = &flags.stream {
        let stream = Stream::read(file)?;
        let clients = Client::several(&target, flags.concurrency).await;
        let clients = clients.with_context(|| format!("cannot reach {}", target.origin()))?;
        let seen = stream.run(target, clients, Duration::from_secs(flags.timeout_s)).await?;
        return Ok(seen.report(flags.max_false_share)?);
    }
    let count = Duration::from_secs_f64(flags.rps * flags.duration).as_secs(); // rounds down
    let picks: Arc<[Pick]> = mix(usize::try_from(count.max(1))?).into();
    let clients = Client::several(&target, flags.concurrency).await;
    let clients = clients.with_context(|| format!("cannot reach {}", target.origin()))?;
    let shared = Arc::new(Run {
        picks,
        target,
        next: AtomicU64::new(0),
        start: Instant::now(),
        rps: flags.rps,
        timeout: Duration::from_secs(flags.timeout_s),
    });
    let workers: Vec<_> = clients.into_iter().map(|client| tokio::spawn(work(Arc::clone(&shared), client))).collect();
    let mut outcome = Outcome::default();
    for worker in workers {
        outcome.merge(worker.await?);
    }
    print(&shared.picks, &outcome)?;
    let enough = outcome.hit_rate() >= flags.min_hit_rate;
    if !enough {
        eprintln!("the hit rate is below {:.1} %", flags.min_hit_rate * 100.0);
    }
    Ok(enough && outcome.wrong.is_empty() && outcome.errors.is_empty())
}

struct Run {
    picks: Arc<[Pick]>,
    target: Target,
    next: AtomicU64,
    start: Instant,
    rps: f64,
    timeout: Duration,
}

async fn work(run: Arc<Run>, mut client: Client) -> Outcome {
    let mut outcome = Outcome::default();
    loop {
        let number = run.next.fetch_add(1, Ordering::Relaxed);
        let Some(pick) = usize::try_from(number).ok().and_then(|at| run.picks.get(at)) else { return outcome };
        let due = run.start + Duration::from_secs_f64(number as f64 / run.rps);
        tokio::time::sleep_until(due.into()).await;
        let question = Question::new(&run.target, GROUPS[pick.group][pick.wording], pick.stream);
        let code = match tokio::time::timeout(run.timeout, client.ask(&question)).await {
            Err(_) => "timeout".to_owned(),
            Ok(Err(failure)) => failure.to_string(),
            Ok(Ok(())) if client.parser.status() != 200 => format!("status {}", client.parser.status()),
            Ok(Ok(())) => {
                judge(&client, *pick, &mut outcome);
                continue;
            }
        };
        *outcome.errors.entry(code).or_default() += 1;
    }
}

fn judge(client: &Client, pick: Pick, outcome: &mut Outcome) {
    let body = client.parser.body();
    let text = if pick.stream { check::stream_text(body) } else { check::json_text(body) };
    let cache = client.parser.header("x-cache").unwrap_or("none");
    if is_right(text.as_deref(), pick, cache) {
        *outcome.x_cache.entry(cache.to_owned()).or_default() += 1;
    } else {
        let said = text.unwrap_or_else(|| "no complete answer".to_owned());
        outcome.wrong.push(format!("{cache}: `{}` was answered with `{said}`", GROUPS[pick.group][pick.wording]));
    }
}

fn is_right(text: Option<&str>, pick: Pick, cache: &str) -> bool {
    let group = GROUPS[pick.group];
    let own_words = answer_text(group[pick.wording]);
    match cache {
        "SEMANTIC" => group.iter().any(|wording| text == Some(&answer_text(wording))),
        _ => text == Some(&own_words),
    }
}

fn print(picks: &[Pick], outcome: &Outcome) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let words: HashSet<_> = picks.iter().map(|pick| (pick.group, pick.wording)).collect();
    let groups: HashSet<_> = picks.iter().map(|pick| pick.group).collect();
    writeln!(out, "{} requests: {} wordings of {} questions", picks.len(), words.len(), groups.len())?;
    for (state, count) in &outcome.x_cache {
        writeln!(out, "X-Cache {state:<10}{count:>8}{:>8.1} %", *count as f64 * 100.0 / outcome.total().max(1) as f64)?;
    }
    for (code, count) in &outcome.errors {
        writeln!(out, "failed: {count} x {code}")?;
    }
    for wrong in &outcome.wrong {
        writeln!(out, "WRONG {wrong}")?;
    }
    writeln!(out, "hit rate {:.1} %", outcome.hit_rate() * 100.0)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_is_the_same_each_time_and_begins_alike_at_every_length() {
        assert_eq!(mix(500), mix(500));
        assert_eq!(mix(500)[..100], mix(100)[..]);
    }

    #[test]
    fn exact_repeats_alone_reach_the_default_hit_rate() {
        for count in [60, 100, 200, 1000] {
            let picks = mix(count);
            let distinct: HashSet<_> = picks.iter().map(|pick| (pick.group, pick.wording)).collect();
            assert!((count - distinct.len()) * 100 >= count * 28, "{count}: {} distinct", distinct.len());
        }
        let seen: HashSet<_> = mix(5000).iter().map(|pick| (pick.group, pick.wording)).collect();
        assert_eq!(seen.len(), GROUPS.len() * 3, "every wording is asked sooner or later");
    }

    #[test]
    fn only_a_semantic_hit_may_answer_in_another_wording_of_the_same_question() {
        let pick = Pick { group: 0, wording: 1, stream: false };
        let [own, sibling, stranger] = [GROUPS[0][1], GROUPS[0][0], GROUPS[1][0]].map(answer_text);
        for cache in ["EXACT", "MISS", "SEMANTIC", "COALESCED"] {
            assert!(is_right(Some(&own), pick, cache));
            assert_eq!(is_right(Some(&sibling), pick, cache), cache == "SEMANTIC");
            assert!(!is_right(Some(&stranger), pick, cache));
            assert!(!is_right(None, pick, cache));
        }
    }
}
