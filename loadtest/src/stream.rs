//! A stream of questions with known answers through a gateway: how many were served from another's answer, and how many of
//! those wrongly.
//!
//! Behind the gateway stands the mock, whose answer tells which question it was given to: an answer is right if that question
//! has the same cluster as the one that was asked.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde::Deserialize;
use signet_mock::answer_text;

use crate::check;
use crate::client::Client;
use crate::prompts::Question;
use crate::target::Target;

/// One arrival.
#[derive(Debug, Deserialize)]
struct Row {
    text: String,
    cluster: u64,
}

/// The stream, and whose answer each text of the mock is.
#[derive(Debug)]
pub(crate) struct Stream {
    rows: Vec<Row>,
    clusters: HashMap<String, HashSet<u64>>,
}

/// What came back.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    x_cache: BTreeMap<String, u64>,
    wrong: Vec<String>,
    failed: BTreeMap<String, u64>,
}

impl Stream {
    /// Reads JSON lines of `text` and `cluster`.
    pub(crate) fn read(file: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        Self::parse(&text).with_context(|| format!("in {}", file.display()))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let row = |(number, line)| serde_json::from_str(line).with_context(|| format!("line {}", number + 1));
        let rows = lines.map(row).collect::<anyhow::Result<Vec<Row>>>()?;
        if rows.is_empty() {
            bail!("there is no question");
        }
        let mut clusters: HashMap<String, HashSet<u64>> = HashMap::new();
        for row in &rows {
            clusters.entry(answer_text(&row.text)).or_default().insert(row.cluster);
        }
        Ok(Self { rows, clusters })
    }

    /// Asks all, in order, over so many connections.
    pub(crate) async fn run(self, target: Target, clients: Vec<Client>, timeout: Duration) -> anyhow::Result<Seen> {
        let shared = Arc::new((self, target, AtomicU64::new(0), Instant::now()));
        let work = clients.into_iter().map(|mut client| {
            let shared = Arc::clone(&shared);
            tokio::spawn(async move {
                let (stream, target, next, started) = &*shared;
                let mut seen = Seen::default();
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(row) = usize::try_from(at).ok().and_then(|at| stream.rows.get(at)) else { return seen };
                    if at > 0 && at.is_multiple_of(5_000) {
                        eprintln!("{at} of {} after {:.0} s", stream.rows.len(), started.elapsed().as_secs_f64());
                    }
                    stream.ask(target, row, &mut client, timeout, &mut seen).await;
                }
            })
        });
        let mut all = Seen::default();
        for worker in work.collect::<Vec<_>>() {
            all.merge(worker.await?);
        }
        Ok(all)
    }

    async fn ask(&self, target: &Target, row: &Row, client: &mut Client, timeout: Duration, seen: &mut Seen) {
        let quoted = serde_json::Value::from(row.text.as_str()).to_string();
        let question = Question::new(target, &quoted[1..quoted.len() - 1], false);
        let code = match tokio::time::timeout(timeout, client.ask(&question)).await {
            Err(_) => "timeout".to_owned(),
            Ok(Err(failure)) => failure.to_string(),
            Ok(Ok(())) if client.parser.status() != 200 => format!("status {}", client.parser.status()),
            Ok(Ok(())) => {
                let cache = client.parser.header("x-cache").unwrap_or("none").to_owned();
                let text = check::json_text(client.parser.body()).unwrap_or_default();
                if !self.is_right(row, &cache, &text) {
                    seen.wrong.push(format!("{cache}: `{}` was answered with `{text}`", row.text));
                }
                *seen.x_cache.entry(cache).or_default() += 1;
                return;
            }
        };
        *seen.failed.entry(code).or_default() += 1;
    }

    /// Only a semantic hit may carry the answer to other words.
    fn is_right(&self, row: &Row, cache: &str, answer: &str) -> bool {
        let own = answer == answer_text(&row.text);
        own || cache == "SEMANTIC" && self.clusters.get(answer).is_some_and(|known| known.contains(&row.cluster))
    }
}

impl Seen {
    fn merge(&mut self, other: Self) {
        for (name, count) in other.x_cache {
            *self.x_cache.entry(name).or_default() += count;
        }
        for (name, count) in other.failed {
            *self.failed.entry(name).or_default() += count;
        }
        self.wrong.extend(other.wrong);
    }

    /// Prints the counts; whether no request failed and the upper bound of the wrong share is under `max`.
    pub(crate) fn report(&self, max: f64) -> io::Result<bool> {
        let mut out = io::stdout().lock();
        let total = self.x_cache.values().sum::<u64>();
        for (state, count) in &self.x_cache {
            writeln!(out, "X-Cache {state:<10}{count:>8}{:>8.1} %", *count as f64 * 100.0 / total.max(1) as f64)?;
        }
        for (code, count) in &self.failed {
            writeln!(out, "failed: {count} x {code}")?;
        }
        for wrong in &self.wrong {
            writeln!(out, "WRONG {wrong}")?;
        }
        let hits = self.x_cache.get("SEMANTIC").copied().unwrap_or(0);
        let bound = upper_bound(self.wrong.len() as u64, hits);
        let wrong = self.wrong.len();
        writeln!(out, "{hits} semantic hits, {wrong} wrong, 95 % bound {:.3} %", bound * 100.0)?;
        out.flush()?;
        Ok(self.failed.is_empty() && bound <= max)
    }
}

/// The upper 95 % bound of a share after `wrong` of `hits` (Clopper and Pearson 1934, one-sided): the share under which so few
/// or fewer have a chance of 5 %. Found by halving.
fn upper_bound(wrong: u64, hits: u64) -> f64 {
    if wrong >= hits {
        return 1.0;
    }
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if at_most(wrong, hits, middle) > 0.05 {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// The chance of at most `wrong` in `hits` where each has the chance `share`, which is neither 0 nor 1.
fn at_most(wrong: u64, hits: u64, share: f64) -> f64 {
    let mut term = hits as f64 * (-share).ln_1p(); // of none at all, as a logarithm
    let mut sum = term.exp();
    for k in 0..wrong {
        term += ((hits - k) as f64 / (k + 1) as f64).ln() + share.ln() - (-share).ln_1p();
        sum += term.exp();
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_that_of_clopper_and_pearson() {
        // None wrong: 1 - 0.05^(1/n). The other two are quantiles of the beta distribution.
        for (wrong, hits, expected) in
            [(0, 1, 0.95), (0, 300, 0.009_936), (1, 10, 0.394_163), (5, 100, 0.102_253), (3, 3, 1.0)]
        {
            let bound = upper_bound(wrong, hits);
            assert!((bound - expected).abs() < 1e-5, "{wrong} of {hits}: {bound}");
        }
    }

    #[test]
    fn only_a_semantic_hit_may_carry_the_answer_to_other_words_of_the_same_cluster() {
        let lines = r#"{"text":"a","cluster":1}
            {"text":"b","cluster":1}
            {"text":"c","cluster":2}"#;
        let stream = Stream::parse(lines).expect("three rows");
        let [a, b, c] = ["a", "b", "c"].map(answer_text);
        let row = &stream.rows[0];
        for (cache, answer, right) in
            [("MISS", &a, true), ("SEMANTIC", &b, true), ("SEMANTIC", &c, false), ("EXACT", &b, false)]
        {
            assert_eq!(stream.is_right(row, cache, answer), right, "{cache} {answer}");
        }
        assert!(!stream.is_right(row, "SEMANTIC", "something else"));
    }

    #[test]
    fn a_bad_line_is_told_by_its_number() {
        let fault = Stream::parse("{\"text\":\"a\",\"cluster\":1}\n\n{\"text\":1}").expect_err("no text");
        assert!(format!("{fault:#}").contains("line 3"), "{fault:#}");
        assert!(Stream::parse("\n").is_err());
    }
}
