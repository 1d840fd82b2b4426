//! What a side's answers add up to.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::client::nanos;

/// What one worker saw; plain vectors, so that counting costs the measured requests nothing.
#[derive(Debug, Default)]
pub(crate) struct Part {
    /// Nanoseconds from the (intended) start to the last byte.
    pub(crate) latency: Vec<u64>,
    /// Nanoseconds to the first byte of the body.
    pub(crate) ttft: Vec<u64>,
    pub(crate) gaps: Vec<u64>,
    /// Nanoseconds to the end of a refusal.
    pub(crate) refusals: Vec<u64>,
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) x_cache: BTreeMap<String, u64>,
    /// Right answers whose bytes are not the mock's.
    pub(crate) rewritten: u64,
    /// `Lineage-Id` and, where sent, `Lineage-Receipt`.
    pub(crate) ids: Vec<String>,
}

impl Part {
    pub(crate) fn error(&mut self, code: String) {
        *self.errors.entry(code).or_default() += 1;
    }
}

/// The sum of one side over some time.
#[derive(Debug)]
pub(crate) struct Tally {
    latency: Histogram<u64>,
    ttft: Histogram<u64>,
    gaps: Histogram<u64>,
    refusals: Histogram<u64>,
    errors: BTreeMap<String, u64>,
    x_cache: BTreeMap<String, u64>,
    rewritten: u64,
    pub(crate) reconnects: u64,
    time: Duration,
}

impl Tally {
    pub(crate) fn new() -> Self {
        // Three digits; grows with what it is given.
        let histogram = || Histogram::new(3).expect("three digits are allowed");
        Self {
            latency: histogram(),
            ttft: histogram(),
            gaps: histogram(),
            refusals: histogram(),
            errors: BTreeMap::new(),
            x_cache: BTreeMap::new(),
            rewritten: 0,
            reconnects: 0,
            time: Duration::ZERO,
        }
    }

    pub(crate) fn add(&mut self, part: &Part) {
        for (histogram, values) in [
            (&mut self.latency, &part.latency),
            (&mut self.ttft, &part.ttft),
            (&mut self.gaps, &part.gaps),
            (&mut self.refusals, &part.refusals),
        ] {
            for value in values {
                histogram.record(*value).expect("an auto-resizing histogram takes every value");
            }
        }
        add_counts(&mut self.errors, &part.errors);
        add_counts(&mut self.x_cache, &part.x_cache);
        self.rewritten += part.rewritten;
    }

    pub(crate) fn took(&mut self, time: Duration) {
        self.time += time;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (into, from) in [
            (&mut self.latency, &other.latency),
            (&mut self.ttft, &other.ttft),
            (&mut self.gaps, &other.gaps),
            (&mut self.refusals, &other.refusals),
        ] {
            into.add(from).expect("an auto-resizing histogram takes every value");
        }
        add_counts(&mut self.errors, &other.errors);
        add_counts(&mut self.x_cache, &other.x_cache);
        self.rewritten += other.rewritten;
        self.reconnects += other.reconnects;
        self.time += other.time;
    }

    /// Right answers a second.
    pub(crate) fn rps(&self) -> f64 {
        self.latency.len() as f64 / self.time.as_secs_f64().max(1e-9)
    }

    /// What is compared with other sides of the same round.
    pub(crate) fn round(&self) -> Round {
        let at = |histogram: &Histogram<u64>, quantile| histogram.value_at_quantile(quantile) as f64 / 1000.0;
        Round {
            rps: self.rps(),
            p50: at(&self.latency, 0.5),
            ttft_p50: at(&self.ttft, 0.5),
            gap_p99: at(&self.gaps, 0.99),
            cpu: 0.0,
        }
    }

    /// As before, of a side whose process has computed for so long meanwhile.
    pub(crate) fn round_of(&self, computed: Duration) -> Round {
        let answers = (self.latency.len() as f64).max(1.0);
        Round { cpu: computed.as_secs_f64() * 1e6 / answers, ..self.round() }
    }

    pub(crate) fn failures(&self) -> u64 {
        self.errors.values().sum()
    }

    /// `stall`: a silence inside a body that is longer than this is counted.
    pub(crate) fn summary(&self, stall: Duration) -> Summary {
        Summary {
            ok: self.latency.len(),
            rps: self.rps(),
            seconds: self.time.as_secs_f64(),
            latency_us: Spread::of(&self.latency),
            ttft_us: Spread::of(&self.ttft),
            gap_us: (!self.gaps.is_empty()).then(|| Spread::of(&self.gaps)),
            refused: self.refusals.len(),
            refusal_us: (!self.refusals.is_empty()).then(|| Spread::of(&self.refusals)),
            stalls: self.gaps.count_between(nanos(stall).saturating_add(1), u64::MAX),
            errors: self.errors.clone(),
            x_cache: self.x_cache.clone(),
            rewritten: self.rewritten,
            reconnects: self.reconnects,
        }
    }
}

fn add_counts(into: &mut BTreeMap<String, u64>, from: &BTreeMap<String, u64>) {
    for (name, count) in from {
        *into.entry(name.clone()).or_default() += count;
    }
}

/// Microseconds.
#[derive(Debug, Serialize)]
pub(crate) struct Spread {
    pub(crate) avg: f64,
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

impl Spread {
    fn of(nanos: &Histogram<u64>) -> Self {
        let at = |quantile| nanos.value_at_quantile(quantile) as f64 / 1000.0;
        Self {
            avg: nanos.mean() / 1000.0,
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            max: nanos.max() as f64 / 1000.0,
        }
    }
}

/// One side in one round: right answers a second, the others in microseconds; of no gaps and no known process, zero.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Round {
    pub(crate) rps: f64,
    pub(crate) p50: f64,
    pub(crate) ttft_p50: f64,
    pub(crate) gap_p99: f64,
    /// What its process computed for an answer.
    pub(crate) cpu: f64,
}

/// A tally as it is written down.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) ok: u64,
    pub(crate) rps: f64,
    pub(crate) seconds: f64,
    pub(crate) latency_us: Spread,
    pub(crate) ttft_us: Spread,
    pub(crate) gap_us: Option<Spread>,
    /// 503 with `Retry-After`, where that is no failure.
    pub(crate) refused: u64,
    pub(crate) refusal_us: Option<Spread>,
    pub(crate) stalls: u64,
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) x_cache: BTreeMap<String, u64>,
    pub(crate) rewritten: u64,
    pub(crate) reconnects: u64,
}

/// The middle value, or the mean of the two middle ones; zero of nothing.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// The time between two instants, or nothing if the first comes later.
pub(crate) fn since(start: std::time::Instant, end: std::time::Instant) -> u64 {
    nanos(end.saturating_duration_since(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_add_up_and_keep_three_digits() {
        let mut part = Part { latency: (1..=1000).map(|n| n * 1000).collect(), ..Part::default() };
        part.error("status 503".to_owned());
        let mut total = Tally::new();
        for _ in 0..2 {
            let mut round = Tally::new();
            round.add(&part);
            round.took(Duration::from_secs(1));
            total.merge(&round);
        }
        let summary = total.summary(Duration::from_millis(250));
        assert_eq!((summary.ok, summary.errors["status 503"], total.failures()), (2000, 2, 2));
        assert!((summary.rps - 1000.0).abs() < 1e-6);
        assert!((summary.latency_us.p50 - 500.0).abs() < 1.0 && (summary.latency_us.max - 1000.0).abs() < 1.0);
    }

    #[test]
    fn only_a_silence_longer_than_the_limit_is_a_stall() {
        let ms = |count: u64| count * 1_000_000;
        let mut tally = Tally::new();
        tally.add(&Part { gaps: vec![ms(20), ms(199), ms(260), ms(3000)], ..Part::default() });
        assert_eq!(tally.summary(Duration::from_millis(250)).stalls, 2);
        assert_eq!(tally.summary(Duration::from_secs(10)).stalls, 0);
        assert!((tally.round().gap_p99 - 3_000_000.0).abs() < 3000.0);
    }

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_two() {
        assert!((median(vec![4.0, 1.0, 3.0, 2.0]) - 2.5).abs() < 1e-9);
        assert!((median(vec![9.0, 1.0, 5.0]) - 5.0).abs() < 1e-9);
        assert!(median(Vec::new()).abs() < 1e-9);
    }
}
