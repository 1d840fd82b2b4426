//! Figures as a table and as JSON.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::process::Command;

use clap::ValueEnum as _;
use serde::Serialize;

use crate::matched::Mode;
use crate::stats::{Round, Summary, median};

/// All runs of one call, with the machine they ran on.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    command: Vec<String>,
    batch: u64,
    machine: Machine,
    pub(crate) runs: Vec<Run>,
}

impl Report {
    pub(crate) fn new(batch: u64) -> Self {
        Self {
            command: std::env::args().skip(1).map(without_key).collect(),
            batch,
            machine: Machine::look(),
            runs: Vec::new(),
        }
    }

    /// No side had a failed or wrong answer.
    pub(crate) fn is_clean(&self) -> bool {
        self.runs.iter().flat_map(|run| run.sides.values()).all(|side| side.errors.is_empty() && side.ok > 0)
    }
}

/// A key given as `--api-key=…` does not belong into a file that is committed.
fn without_key(argument: String) -> String {
    if argument.starts_with("--api-key=") || argument.starts_with("sk-") { "(key)".to_owned() } else { argument }
}

#[derive(Debug, Serialize)]
struct Machine {
    cores: usize,
    cpu: Option<String>,
    kernel: Option<String>,
    load_average: Option<String>,
    revision: Option<String>,
}

impl Machine {
    fn look() -> Self {
        let read = |path| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        let cpu = read("/proc/cpuinfo").and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        });
        let revision = Command::new("git").args(["describe", "--always", "--dirty"]).output().ok();
        let revision = revision.filter(|out| out.status.success());
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            cpu,
            kernel: read("/proc/sys/kernel/osrelease"),
            load_average: read("/proc/loadavg"),
            revision: revision.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned()),
        }
    }
}

/// One mode at one concurrency.
#[derive(Debug, Serialize)]
pub(crate) struct Run {
    pub(crate) mode: Mode,
    pub(crate) concurrency: usize,
    pub(crate) rps_target: Option<f64>,
    pub(crate) requests: u64,
    pub(crate) rounds: u64,
    pub(crate) deltas: Deltas,
    pub(crate) sides: BTreeMap<&'static str, Summary>,
}

/// Medians over rounds of what is compared within a round.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Deltas {
    /// Microseconds over direct.
    pub(crate) gateway_added_p50_us: Option<f64>,
    pub(crate) relay_added_p50_us: Option<f64>,
    pub(crate) gateway_added_ttft_p50_us: Option<f64>,
    pub(crate) relay_added_ttft_p50_us: Option<f64>,
    pub(crate) gateway_added_gap_p99_us: Option<f64>,
    pub(crate) relay_added_gap_p99_us: Option<f64>,
    /// Microseconds over the relay.
    pub(crate) gateway_over_relay_p50_us: Option<f64>,
    /// Microseconds over the second gateway.
    pub(crate) gateway_over_against_p50_us: Option<f64>,
    /// What each process computed for an answer, in microseconds.
    pub(crate) gateway_cpu_us: Option<f64>,
    pub(crate) relay_cpu_us: Option<f64>,
    pub(crate) gateway_to_relay_cpu: Option<f64>,
    /// Throughput.
    pub(crate) gateway_to_direct: Option<f64>,
    pub(crate) gateway_to_relay: Option<f64>,
    pub(crate) gateway_to_against: Option<f64>,
    pub(crate) relay_to_direct: Option<f64>,
}

type Rounds<'a> = &'a [Round];
type Comparison = fn(&Round, &Round) -> f64;

/// The rounds of those that took part.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sides<'a> {
    pub(crate) direct: Rounds<'a>,
    pub(crate) gateway: Option<Rounds<'a>>,
    pub(crate) against: Option<Rounds<'a>>,
    pub(crate) relay: Option<Rounds<'a>>,
}

impl Deltas {
    pub(crate) fn of(sides: &Sides<'_>) -> Self {
        let &Sides { direct, gateway, against, relay } = sides;
        let over = |side: Option<Rounds<'_>>, base: Option<Rounds<'_>>, compare: Comparison| {
            let pairs = side?.iter().zip(base?);
            Some(median(pairs.map(|(side, base)| compare(side, base)).collect()))
        };
        let added: Comparison = |side, base| side.p50 - base.p50;
        let ttft: Comparison = |side, base| side.ttft_p50 - base.ttft_p50;
        let gap: Comparison = |side, base| side.gap_p99 - base.gap_p99;
        let ratio: Comparison = |side, base| side.rps / base.rps;
        let cpu: Comparison = |side, base| side.cpu / base.cpu;
        let own_cpu: Comparison = |side, _| side.cpu;
        let computed = |side: Option<Rounds<'_>>| side.is_some_and(|rounds| rounds.iter().any(|round| round.cpu > 0.0));
        let has_gaps = direct.iter().any(|round| round.gap_p99 > 0.0);
        Self {
            gateway_added_p50_us: over(gateway, Some(direct), added),
            relay_added_p50_us: over(relay, Some(direct), added),
            gateway_added_ttft_p50_us: over(gateway, Some(direct), ttft),
            relay_added_ttft_p50_us: over(relay, Some(direct), ttft),
            gateway_added_gap_p99_us: over(gateway, Some(direct), gap).filter(|_| has_gaps),
            relay_added_gap_p99_us: over(relay, Some(direct), gap).filter(|_| has_gaps),
            gateway_over_relay_p50_us: over(gateway, relay, added),
            gateway_over_against_p50_us: over(gateway, against, added),
            gateway_cpu_us: over(gateway, gateway, own_cpu).filter(|_| computed(gateway)),
            relay_cpu_us: over(relay, relay, own_cpu).filter(|_| computed(relay)),
            gateway_to_relay_cpu: over(gateway, relay, cpu).filter(|_| computed(gateway) && computed(relay)),
            gateway_to_direct: over(gateway, Some(direct), ratio),
            gateway_to_relay: over(gateway, relay, ratio),
            gateway_to_against: over(gateway, against, ratio),
            relay_to_direct: over(relay, Some(direct), ratio),
        }
    }
}

/// Writes one run as a table.
pub(crate) fn print(run: &Run) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let loop_kind = run.rps_target.map_or("closed loop".to_owned(), |rate| format!("open loop at {rate}/s"));
    let mode = run.mode.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned());
    writeln!(
        out,
        "\n{mode}, {} connections, {loop_kind}, {} rounds, {} requests a side",
        run.concurrency, run.rounds, run.requests
    )?;
    let names =
        ["side", "rps", "avg us", "p50", "p95", "p99", "max", "ttft p50", "ttft p99", "gap p50", "gap p99", "failed"];
    writeln!(out, "{}", row(&names.map(str::to_owned)))?;
    for (name, side) in &run.sides {
        writeln!(out, "{}", row(&cells(name, side)))?;
    }
    for (name, side) in &run.sides {
        notes(&mut out, name, side)?;
    }
    let deltas = &run.deltas;
    let values = [
        ("added p50 us of the gateway ", deltas.gateway_added_p50_us),
        ("added p50 us of the relay ", deltas.relay_added_p50_us),
        ("p50 us over the relay ", deltas.gateway_over_relay_p50_us),
        ("added ttft p50 us of the gateway ", deltas.gateway_added_ttft_p50_us),
        ("of the relay ", deltas.relay_added_ttft_p50_us),
        ("added gap p99 us of the gateway ", deltas.gateway_added_gap_p99_us),
        ("of the relay ", deltas.relay_added_gap_p99_us),
        ("p50 us over the second gateway ", deltas.gateway_over_against_p50_us),
        ("CPU us an answer of the gateway ", deltas.gateway_cpu_us),
        ("of the relay ", deltas.relay_cpu_us),
        ("CPU gateway/relay ", deltas.gateway_to_relay_cpu),
        ("throughput gateway/direct ", deltas.gateway_to_direct),
        ("gateway/relay ", deltas.gateway_to_relay),
        ("gateway/second gateway ", deltas.gateway_to_against),
        ("relay/direct ", deltas.relay_to_direct),
    ];
    let known: Vec<_> = values.iter().filter_map(|(name, value)| value.map(|v| format!("{name}{v:.2}"))).collect();
    writeln!(out, "medians over rounds: {}", known.join(", "))?;
    out.flush()
}

fn cells(name: &str, side: &Summary) -> [String; 12] {
    let whole = |value: f64| format!("{value:.0}");
    let (latency, ttft) = (&side.latency_us, &side.ttft_us);
    let gap =
        |pick: fn(&crate::stats::Spread) -> f64| side.gap_us.as_ref().map_or("-".to_owned(), |gap| whole(pick(gap)));
    [
        name.to_owned(),
        whole(side.rps),
        whole(latency.avg),
        whole(latency.p50),
        whole(latency.p95),
        whole(latency.p99),
        whole(latency.max),
        whole(ttft.p50),
        whole(ttft.p99),
        gap(|gap| gap.p50),
        gap(|gap| gap.p99),
        side.errors.values().sum::<u64>().to_string(),
    ]
}

fn row(cells: &[String; 12]) -> String {
    let (first, rest) = cells.split_first().expect("twelve cells");
    rest.iter().fold(format!("{first:<8}"), |line, cell| format!("{line}{cell:>9}"))
}

fn notes(out: &mut impl io::Write, name: &str, side: &Summary) -> io::Result<()> {
    for (code, count) in &side.errors {
        writeln!(out, "{name}: {count} x {code}")?;
    }
    if !side.x_cache.is_empty() {
        let counts: Vec<_> = side.x_cache.iter().map(|(state, count)| format!("{state} {count}")).collect();
        writeln!(out, "{name}: X-Cache {}", counts.join(", "))?;
    }
    if side.stalls > 0 {
        writeln!(out, "{name}: {} stalls", side.stalls)?;
    }
    if side.rewritten > 0 {
        writeln!(out, "{name}: {} right answers in other bytes than the mock's", side.rewritten)?;
    }
    if side.reconnects > 0 {
        writeln!(out, "{name}: {} reconnects", side.reconnects)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_are_compared_round_by_round() {
        let round = |rps: f64, p50: f64| Round { rps, p50, ttft_p50: p50 / 2.0, gap_p99: p50 * 2.0, cpu: p50 * 3.0 };
        let direct = [round(100.0, 10.0), round(200.0, 20.0), round(50.0, 5.0)];
        let gateway = [round(50.0, 30.0), round(100.0, 40.0), round(25.0, 25.0)];
        let against = [round(100.0, 29.0), round(200.0, 41.0), round(50.0, 20.0)];
        let sides = Sides { direct: &direct, gateway: Some(&gateway), against: Some(&against), relay: None };
        let deltas = Deltas::of(&sides);
        assert_eq!((deltas.gateway_over_against_p50_us, deltas.gateway_to_against), (Some(1.0), Some(0.5)));
        assert_eq!(deltas.gateway_to_direct, Some(0.5));
        assert_eq!(deltas.gateway_added_p50_us, Some(20.0));
        assert_eq!((deltas.gateway_added_ttft_p50_us, deltas.gateway_added_gap_p99_us), (Some(10.0), Some(40.0)));
        assert_eq!((deltas.gateway_over_relay_p50_us, deltas.relay_added_gap_p99_us), (None, None));
        assert_eq!((deltas.gateway_to_relay, deltas.relay_to_direct), (None, None));
        assert_eq!((deltas.gateway_cpu_us, deltas.gateway_to_relay_cpu), (Some(90.0), None));
    }

    #[test]
    fn keys_stay_out_of_the_report() {
        assert_eq!(without_key("--api-key=abc".to_owned()), "(key)");
        assert_eq!(without_key("sk-abc".to_owned()), "(key)");
        assert_eq!(without_key("--rounds".to_owned()), "--rounds");
    }
}
