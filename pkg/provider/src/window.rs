//! What is remembered of a target: how its last calls ended, and how long it took to begin its answers.
//!
//! Both forget by age alone, so that a target which gets no calls is forgiven without anybody deciding it.

use std::time::Duration;
use tokio::time::Instant;

/// How far [`Window`] looks back.
const SECONDS: usize = 10;

/// Calls of the last ten seconds by how they ended, counted per second.
#[derive(Debug)]
pub(crate) struct Window {
    since: Instant,
    buckets: [Bucket; SECONDS],
}

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    second: u64,
    calls: u32,
    failures: u32,
}

/// A share in whole numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// All calls that were judged.
    pub calls: u32,
    /// Those that failed.
    pub failures: u32,
}

impl Tally {
    /// Whether at least `percent` of at least `least` calls failed.
    pub(crate) fn is_at(self, percent: u64, least: u32) -> bool {
        self.calls >= least && u64::from(self.failures) * 100 >= u64::from(self.calls) * percent
    }
}

impl Window {
    pub(crate) fn new(now: Instant) -> Self {
        Self { since: now, buckets: [Bucket::default(); SECONDS] }
    }

    pub(crate) fn add(&mut self, failed: bool, now: Instant) {
        let second = self.second(now);
        let bucket = &mut self.buckets[usize::try_from(second).unwrap_or(0) % SECONDS];
        if bucket.second != second {
            *bucket = Bucket { second, ..Bucket::default() };
        }
        bucket.calls = bucket.calls.saturating_add(1);
        bucket.failures = bucket.failures.saturating_add(u32::from(failed));
    }

    pub(crate) fn tally(&self, now: Instant) -> Tally {
        let second = self.second(now);
        let held = self.buckets.iter().filter(|bucket| second - bucket.second.min(second) < SECONDS as u64);
        held.fold(Tally::default(), |sum, bucket| Tally {
            calls: sum.calls.saturating_add(bucket.calls),
            failures: sum.failures.saturating_add(bucket.failures),
        })
    }

    fn second(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.since).as_secs()
    }
}

/// How long a generation of [`Latencies`] is: what is told of stands on 15 to 30 seconds.
const GENERATION: Duration = Duration::from_secs(15);
/// Four to an octave: a bucket is at most a quarter wider than its lower bound.
const BUCKETS: usize = 128;

/// Times to first byte, in buckets that grow with the time.
#[derive(Debug)]
pub(crate) struct Latencies {
    since: Instant,
    new: [u32; BUCKETS],
    old: [u32; BUCKETS],
}

/// The middle of the times, rounded down to its bucket, and of how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Middle {
    /// The median.
    pub p50: Duration,
    /// Of so many times.
    pub of: u32,
}

impl Latencies {
    pub(crate) const fn new(now: Instant) -> Self {
        Self { since: now, new: [0; BUCKETS], old: [0; BUCKETS] }
    }

    pub(crate) fn add(&mut self, took: Duration, now: Instant) {
        let age = now.saturating_duration_since(self.since);
        if age >= GENERATION {
            let left = age < 2 * GENERATION;
            self.old = if left { self.new } else { [0; BUCKETS] };
            (self.new, self.since) = ([0; BUCKETS], now);
        }
        let bucket = &mut self.new[bucket_of(took)];
        *bucket = bucket.saturating_add(1);
    }

    /// None where nothing is fresh.
    pub(crate) fn middle(&self, now: Instant) -> Option<Middle> {
        let age = now.saturating_duration_since(self.since);
        if age >= 2 * GENERATION {
            return None;
        }
        let old = age < GENERATION; // else the old generation would go with the next time that is added
        let count = |at: usize| self.new[at].saturating_add(if old { self.old[at] } else { 0 });
        let of = (0..BUCKETS).fold(0u32, |sum, at| sum.saturating_add(count(at)));
        let mut left = of.div_ceil(2);
        (of > 0).then(|| {
            let at = (0..BUCKETS).find(|&at| {
                let here = count(at);
                let found = here >= left;
                left = left.saturating_sub(here);
                found
            });
            Middle { p50: lower_bound(at.unwrap_or(BUCKETS - 1)), of }
        })
    }
}

/// By the highest set bit of the microseconds and the two bits behind it.
fn bucket_of(took: Duration) -> usize {
    let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(4);
    let octave = us.ilog2();
    let quarter = (us >> (octave - 2)) & 3;
    ((octave as usize - 2) * 4 + usize::try_from(quarter).expect("two bits")).min(BUCKETS - 1)
}

fn lower_bound(bucket: usize) -> Duration {
    let (octave, quarter) = (bucket / 4, bucket as u64 % 4);
    Duration::from_micros((4 + quarter) << octave)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    proptest! {
        #[test]
        fn a_window_counts_what_the_last_ten_whole_seconds_held(
            steps in proptest::collection::vec((0u64..4000, any::<bool>()), 1..200)
        ) {
            let start = Instant::now();
            let mut window = Window::new(start);
            let (mut at, mut all) = (0, Vec::new());
            for (step, failed) in steps {
                at += step;
                window.add(failed, start + ms(at));
                all.push((at / 1000, failed));
                let held: Vec<_> = all.iter().filter(|(second, _)| at / 1000 - second < 10).collect();
                let failures = held.iter().filter(|(_, failed)| *failed).count();
                let tally = window.tally(start + ms(at));
                prop_assert_eq!((tally.calls as usize, tally.failures as usize), (held.len(), failures));
            }
            prop_assert_eq!(window.tally(start + ms(at + 10_000)), Tally::default());
        }

        #[test]
        fn a_median_is_at_most_a_bucket_below_the_true_one(times in proptest::collection::vec(4u64..1 << 32, 1..200)) {
            let now = Instant::now();
            let mut latencies = Latencies::new(now);
            for us in &times {
                latencies.add(Duration::from_micros(*us), now);
            }
            let mut sorted = times.clone();
            sorted.sort_unstable();
            let exact = sorted[(sorted.len() - 1) / 2];
            let middle = latencies.middle(now).expect("there are some");
            let told = u64::try_from(middle.p50.as_micros()).expect("small");
            prop_assert!(told <= exact && exact < told + told / 4 + 1, "{told} for {exact}");
            prop_assert_eq!(middle.of as usize, times.len());
        }
    }

    #[test]
    fn times_are_forgotten_when_nothing_is_added() {
        let start = Instant::now();
        let mut latencies = Latencies::new(start);
        latencies.add(ms(800), start);
        assert_eq!(latencies.middle(start + ms(14_999)).map(|middle| middle.of), Some(1));
        latencies.add(ms(8), start + ms(15_000));
        assert_eq!(latencies.middle(start + ms(15_001)).map(|middle| middle.of), Some(2));
        latencies.add(ms(8), start + ms(30_000));
        let middle = latencies.middle(start + ms(30_001)).expect("two");
        assert!(middle.of == 2 && middle.p50 < ms(9), "the 800 ms are gone: {middle:?}");
        assert_eq!(latencies.middle(start + ms(60_000)), None);
    }

    #[test]
    fn extreme_times_have_a_bucket() {
        let now = Instant::now();
        for took in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
            let mut latencies = Latencies::new(now);
            latencies.add(took, now);
            assert!(latencies.middle(now).is_some(), "{took:?}");
        }
    }
}
