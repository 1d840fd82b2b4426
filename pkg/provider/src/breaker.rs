//! A circuit breaker: when a target gets no calls, and how it gets them again.
//!
//! Closed → open at five failures in a row, or half of at least 20 calls within ten seconds. Open for 5 s, twice as long
//! each time up to a minute, a tenth more or less; then one call is let through as a probe. Its success closes the breaker
//! and forgets the failures, its failure opens it again. How calls end that are made while it is open (nothing else was
//! left to ask) or that were under way when it opened says nothing new and changes nothing.
//!
//! Pure: the moment is always given, nothing is read from a clock.

use crate::window::{Tally, Window};
use std::time::Duration;
use tokio::time::Instant;

const IN_A_ROW: u32 = 5;
const PERCENT: u64 = 50;
const LEAST: u32 = 20;
const OPEN_FIRST: Duration = Duration::from_secs(5);
const OPEN_MAX: Duration = Duration::from_mins(1);
/// How long a probe that has not ended keeps others from being made.
const PROBE_PATIENCE: Duration = Duration::from_secs(30);
/// Closed for so long, a breaker that opens again begins with the shortest time.
const CALM: Duration = Duration::from_mins(1);

/// Whether a target gets calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Circuit {
    /// It does.
    Closed,
    /// It does not.
    Open {
        /// Until then.
        until: Instant,
    },
    /// The next call is the probe.
    Due,
    /// It does not; a probe is under way.
    Probing,
}

impl Circuit {
    /// The state's name, for metrics and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open { .. } => "open",
            Self::Due | Self::Probing => "half_open",
        }
    }
}

/// What a call did to the breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Opened(Duration),
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed { since: Option<Instant> },
    Open { until: Instant },
    Probing { since: Instant },
}

#[derive(Debug)]
pub(crate) struct Breaker {
    state: State,
    streak: u32,
    window: Window,
    /// How often it has opened without being calm in between.
    opened: u32,
}

impl Breaker {
    pub(crate) fn new(now: Instant) -> Self {
        Self { state: State::Closed { since: None }, streak: 0, window: Window::new(now), opened: 0 }
    }

    pub(crate) fn circuit(&self, now: Instant) -> Circuit {
        match self.state {
            State::Closed { .. } => Circuit::Closed,
            State::Open { until } if now < until => Circuit::Open { until },
            State::Probing { since } if now < since + PROBE_PATIENCE => Circuit::Probing,
            State::Open { .. } | State::Probing { .. } => Circuit::Due,
        }
    }

    pub(crate) fn tally(&self, now: Instant) -> Tally {
        self.window.tally(now)
    }

    /// Takes the probe, if it is due.
    pub(crate) fn probe(&mut self, now: Instant) -> bool {
        let due = self.circuit(now) == Circuit::Due;
        if due {
            self.state = State::Probing { since: now };
        }
        due
    }

    /// A probe ended without telling anything: the next call is one.
    pub(crate) fn unprobe(&mut self, now: Instant) {
        if let State::Probing { .. } = self.state {
            self.state = State::Open { until: now };
        }
    }

    /// A call ended. `stray` is a number that differs from replica to replica and from time to time.
    pub(crate) fn ended(&mut self, probe: bool, failed: bool, now: Instant, stray: u64) -> Option<Change> {
        match self.state {
            State::Closed { .. } => {
                self.window.add(failed, now);
                self.streak = if failed { self.streak + 1 } else { 0 };
                let bad = self.streak >= IN_A_ROW || self.window.tally(now).is_at(PERCENT, LEAST);
                (failed && bad).then(|| self.open(now, stray))
            }
            State::Open { .. } | State::Probing { .. } if !probe => None,
            State::Open { .. } | State::Probing { .. } if failed => Some(self.open(now, stray)),
            State::Open { .. } | State::Probing { .. } => {
                (self.state, self.streak) = (State::Closed { since: Some(now) }, 0);
                self.window = Window::new(now);
                Some(Change::Closed)
            }
        }
    }

    fn open(&mut self, now: Instant, stray: u64) -> Change {
        if let State::Closed { since } = self.state
            && since.is_none_or(|since| now.saturating_duration_since(since) >= CALM)
        {
            self.opened = 0;
        }
        let usual = OPEN_FIRST.saturating_mul(1 << self.opened.min(4)).min(OPEN_MAX);
        let open = usual * 9 / 10 + usual * u32::try_from(stray % 1000).expect("below a thousand") / 5000;
        self.opened = self.opened.saturating_add(1);
        self.state = State::Open { until: now + open };
        Change::Opened(open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn s(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    fn opened(now: Instant) -> Breaker {
        let mut breaker = Breaker::new(now);
        assert!((0..4).all(|_| breaker.ended(false, true, now, 500).is_none()));
        assert_eq!(breaker.ended(false, true, now, 500), Some(Change::Opened(s(5))));
        breaker
    }

    #[test]
    fn it_opens_at_the_fifth_failure_in_a_row_and_a_success_begins_the_row_anew() {
        let now = Instant::now();
        opened(now);
        let mut breaker = Breaker::new(now);
        for round in 0..4 {
            assert!((0..4).all(|_| breaker.ended(false, true, now + s(11 * round), 0).is_none()), "{round}");
            assert_eq!(breaker.ended(false, false, now + s(11 * round), 0), None);
        }
        assert_eq!(breaker.circuit(now + s(34)), Circuit::Closed);
    }

    #[test]
    fn it_opens_when_half_of_twenty_calls_failed_within_ten_seconds_and_not_when_they_are_older() {
        let now = Instant::now();
        let fail_every_second = |spread: Duration| {
            let mut breaker = Breaker::new(now);
            (0..20)
                .filter_map(|n| breaker.ended(false, n % 2 == 1, now + spread * n, 500).map(|_| n))
                .collect::<Vec<_>>()
        };
        assert_eq!(fail_every_second(Duration::from_millis(400)), [19]);
        assert_eq!(fail_every_second(Duration::from_millis(800)), [0u32; 0]);
    }

    #[test]
    fn a_probe_that_succeeds_closes_it_and_one_that_fails_opens_it_for_longer() {
        let now = Instant::now();
        let mut breaker = opened(now);
        assert!(!breaker.probe(now + s(4)), "not yet");
        let mut at = now + s(5);
        for open in [10, 20, 40, 60, 60] {
            assert!(breaker.probe(at) && !breaker.probe(at), "one at a time");
            assert_eq!(breaker.ended(true, true, at, 500), Some(Change::Opened(s(open))));
            at += s(open);
        }
        assert!(breaker.probe(at));
        assert_eq!(breaker.ended(true, false, at, 0), Some(Change::Closed));
        assert_eq!(breaker.circuit(at), Circuit::Closed);
        assert_eq!(breaker.tally(at), Tally::default(), "what was held against it is forgotten");
        let again = |mut breaker: Breaker, at| (0..5).find_map(|_| breaker.ended(false, true, at, 500));
        assert_eq!(again(breaker, at + s(59)), Some(Change::Opened(s(60))), "it has not been calm");
    }

    #[test]
    fn after_a_calm_minute_it_begins_with_the_shortest_time() {
        let now = Instant::now();
        let mut breaker = opened(now);
        assert!(breaker.probe(now + s(5)));
        assert_eq!(breaker.ended(true, false, now + s(5), 0), Some(Change::Closed));
        let again = (0..5).find_map(|_| breaker.ended(false, true, now + s(65), 500));
        assert_eq!(again, Some(Change::Opened(s(5))));
    }

    #[test]
    fn the_caller_of_a_probe_may_leave_and_the_next_call_is_the_probe() {
        let now = Instant::now();
        let mut breaker = opened(now);
        assert!(breaker.probe(now + s(5)));
        breaker.unprobe(now + s(6));
        assert_eq!(breaker.circuit(now + s(6)), Circuit::Due);
        assert!(breaker.probe(now + s(6)));
        assert_eq!(breaker.circuit(now + s(35)), Circuit::Probing);
        assert_eq!(breaker.circuit(now + s(36)), Circuit::Due, "a probe that hangs does not keep it open");
    }

    #[derive(Debug, Clone, Copy)]
    enum Step {
        Wait(u64),
        Call { failed: bool },
        Probe,
        Leave,
        EndProbe { failed: bool },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0u64..40_000).prop_map(Step::Wait),
            any::<bool>().prop_map(|failed| Step::Call { failed }),
            Just(Step::Call { failed: true }),
            Just(Step::Probe),
            Just(Step::Leave),
            any::<bool>().prop_map(|failed| Step::EndProbe { failed }),
        ]
    }

    proptest! {
        /// Whatever happens: at most one probe in [`PROBE_PATIENCE`], open times within bounds, and nothing but a good probe
        /// closes it.
        #[test]
        fn only_a_good_probe_closes_it_and_probes_come_one_at_a_time(
            steps in proptest::collection::vec(step(), 1..200),
            stray in any::<u64>(),
        ) {
            let mut now = Instant::now();
            let mut breaker = Breaker::new(now);
            let mut probing: Option<Instant> = None;
            for step in steps {
                let before = breaker.circuit(now);
                let mut change = None;
                match step {
                    Step::Wait(ms) => now += Duration::from_millis(ms),
                    Step::Call { failed } => change = breaker.ended(false, failed, now, stray),
                    Step::Probe => if breaker.probe(now) {
                        prop_assert_eq!(before, Circuit::Due);
                        prop_assert!(probing.is_none_or(|since| now >= since + PROBE_PATIENCE));
                        probing = Some(now);
                    },
                    Step::Leave => if probing.take().is_some() { breaker.unprobe(now) },
                    Step::EndProbe { failed } => if probing.take().is_some() {
                        change = breaker.ended(true, failed, now, stray);
                    },
                }
                match (before, breaker.circuit(now), step) {
                    (Circuit::Closed, Circuit::Closed, _) => {}
                    (Circuit::Closed, Circuit::Open { until }, Step::Call { failed: true }) => {
                        prop_assert_eq!(change, Some(Change::Opened(until - now)));
                        prop_assert!(until - now >= OPEN_FIRST * 9 / 10 && until - now <= OPEN_MAX * 11 / 10);
                    }
                    (Circuit::Closed, after, step) => prop_assert!(false, "closed to {after:?} by {step:?}"),
                    (_, Circuit::Closed, step) => {
                        prop_assert!(matches!(step, Step::EndProbe { failed: false }), "{step:?} closed it");
                        prop_assert_eq!(change, Some(Change::Closed));
                    }
                    _ => {}
                }
            }
        }
    }
}
