//! After a run of failures, stops asking; after a pause, lets one request find out.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Failures in a row that open it.
const TRIP: u32 = 5;
/// For how long it refuses before the next trial.
const PAUSE: Duration = Duration::from_millis(500);

/// Refuses while the far side is believed to be down.
///
/// Invariant: while open, at most one request per [`PAUSE`] gets through. A trial that never reports (its caller went away)
/// delays the next one by a pause and no longer.
#[derive(Debug, Default)]
pub struct Breaker(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    failures: u32,
    next_trial: Option<Instant>,
}

impl Breaker {
    /// Whether to ask now.
    pub fn admits(&self, now: Instant) -> bool {
        let mut state = self.0.lock();
        match state.next_trial {
            Some(trial) if now < trial => false,
            Some(_) => {
                state.next_trial = Some(now + PAUSE);
                true
            }
            None => true,
        }
    }

    /// The far side answered.
    pub fn succeeded(&self) {
        *self.0.lock() = State::default();
    }

    /// The far side did not answer, or could not be reached.
    pub fn failed(&self, now: Instant) {
        let mut state = self.0.lock();
        state.failures = state.failures.saturating_add(1);
        if state.failures >= TRIP {
            state.next_trial = Some(now + PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn it_opens_at_the_fifth_failure_in_a_row() {
        let (breaker, now) = (Breaker::default(), Instant::now());
        for _ in 0..4 {
            breaker.failed(now);
        }
        breaker.succeeded();
        for _ in 0..4 {
            breaker.failed(now);
            assert!(breaker.admits(now));
        }
        breaker.failed(now);
        assert!(!breaker.admits(now));
    }

    #[test]
    fn one_trial_passes_after_the_pause_and_its_success_closes_it() {
        let (breaker, now) = (Breaker::default(), Instant::now());
        (0..5).for_each(|_| breaker.failed(now));
        let later = now + PAUSE;
        assert!(breaker.admits(later));
        assert!(!breaker.admits(later), "one trial only");
        breaker.succeeded();
        assert!(breaker.admits(later) && breaker.admits(later));
    }

    #[test]
    fn a_failed_trial_opens_it_again_at_once() {
        let (breaker, now) = (Breaker::default(), Instant::now());
        (0..5).for_each(|_| breaker.failed(now));
        let later = now + PAUSE;
        assert!(breaker.admits(later));
        breaker.failed(later);
        assert!(!breaker.admits(later + PAUSE / 2));
        assert!(breaker.admits(later + PAUSE));
    }

    proptest! {
        #[test]
        fn with_a_dead_server_at_most_five_and_one_per_pause_are_asked(steps in prop::collection::vec(0_u64..200, 1..300)) {
            let (breaker, start) = (Breaker::default(), Instant::now());
            let (mut now, mut asked) = (start, 0_u128);
            for step in steps {
                now += Duration::from_millis(step);
                if breaker.admits(now) {
                    asked += 1;
                    breaker.failed(now);
                }
            }
            prop_assert!(asked <= 5 + (now - start).as_millis() / PAUSE.as_millis());
        }
    }
}
