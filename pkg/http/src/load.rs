//! How much work is taken on.
//!
//! Beyond what a gateway can do in time, each further request makes all of them later, until none is served in its caller's
//! patience. So new work is refused early, before its body is read: beyond a number at a time, or while a lane is behind.
//! Behind is a lane whose timer has not once been punctual for [`WINDOW`], the rule by which `CoDel` (RFC 8289) tells a
//! standing queue from a burst. What was taken on is served; health and metrics are never refused.

use signet_pipeline::Fault;
use signet_telemetry::{Gauge, Metrics};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

const WINDOW: Duration = Duration::from_millis(100);
/// How often a lane with work is looked at.
const TICK: Duration = Duration::from_millis(5);
/// The same while nobody is served; a process at rest should rest.
const IDLE_TICK: Duration = Duration::from_millis(100);
/// Log lines about one lane are at least so far apart.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Bounds on work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadLimits {
    /// Requests at a time, in all lanes together, from their heads to the ends of their answers. 0: any number.
    pub max_inflight: u32,
    /// How far behind a lane may be. Zero: any time.
    pub max_lag: Duration,
}

/// The work of one lane.
pub struct Load {
    limits: LoadLimits,
    /// All lanes' requests.
    inflight: Gauge,
    behind: AtomicBool,
    refused: AtomicU64,
    metrics: Arc<Metrics>,
}

/// A place among those who are served.
#[derive(Debug)]
pub(crate) struct Seat(Gauge);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Load {
    /// A lane without work. Lanes with the same metrics share the bound on requests.
    pub fn new(limits: LoadLimits, metrics: Arc<Metrics>) -> Self {
        let inflight = metrics.inflight().clone();
        Self { limits, inflight, behind: AtomicBool::default(), refused: AtomicU64::default(), metrics }
    }

    /// Takes on one more request, which is work until the seat is dropped.
    pub(crate) fn admit(&self) -> Result<Seat, Fault> {
        if self.behind.load(Ordering::Relaxed) {
            return Err(self.refusal("lag"));
        }
        let before = self.inflight.inc();
        let seat = Seat(self.inflight.clone());
        let full = self.limits.max_inflight > 0 && before >= i64::from(self.limits.max_inflight);
        if full { Err(self.refusal("inflight")) } else { Ok(seat) }
    }

    /// Each is told another time, from one to five seconds, so that they do not come back together.
    fn refusal(&self, why: &'static str) -> Fault {
        self.metrics.limited(why);
        let seconds = 1 + self.refused.fetch_add(1, Ordering::Relaxed) % 5;
        Fault::Overload { retry_after: Duration::from_secs(seconds) }
    }

    /// Looks at the lane on which this runs, for ever.
    pub async fn watch(&self) {
        if self.limits.max_lag.is_zero() {
            return;
        }
        let mut lane = Punctuality::new(Instant::now());
        let mut said: Option<Instant> = None;
        loop {
            let due = Instant::now() + if self.inflight.get() > 0 { TICK } else { IDLE_TICK };
            sleep_until(due).await;
            let now = Instant::now();
            let lag = now.saturating_duration_since(due);
            let behind = lane.is_behind(now, lag > self.limits.max_lag);
            if behind && said.is_none_or(|said| now - said >= SAY_EVERY) {
                tracing::warn!(?lag, "a lane is behind: new requests are refused until it is not");
                said = Some(now);
            }
            self.behind.store(behind, Ordering::Relaxed);
        }
    }
}

/// Whether a timer is late again and again.
struct Punctuality {
    last_punctual: Instant,
    late_in_a_row: u32,
}

impl Punctuality {
    const fn new(now: Instant) -> Self {
        Self { last_punctual: now, late_in_a_row: 0 }
    }

    /// One late tick may be a stall of the machine, and is over when it is seen.
    fn is_behind(&mut self, now: Instant, late: bool) -> bool {
        if !late {
            *self = Self::new(now);
            return false;
        }
        self.late_in_a_row = self.late_in_a_row.saturating_add(1);
        self.late_in_a_row > 1 && now - self.last_punctual >= WINDOW
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn load(max_inflight: u32) -> Load {
        Load::new(LoadLimits { max_inflight, max_lag: Duration::from_millis(50) }, Arc::new(Metrics::new()))
    }

    #[test]
    fn beyond_the_bound_work_is_refused_until_some_is_done_and_each_comes_back_at_another_time() {
        let load = load(2);
        let (first, second) = (load.admit().expect("room"), load.admit().expect("room"));
        let waits: Vec<_> = (0..5)
            .map(|_| match load.admit() {
                Err(Fault::Overload { retry_after }) => retry_after.as_secs(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(waits, [1, 2, 3, 4, 5]);
        drop(first);
        drop((load.admit().expect("room"), second));
        assert_eq!(load.inflight.get(), 0);
    }

    #[test]
    fn lanes_share_the_bound() {
        let metrics = Arc::new(Metrics::new());
        let limits = LoadLimits { max_inflight: 1, max_lag: Duration::ZERO };
        let lanes = [Load::new(limits, metrics.clone()), Load::new(limits, metrics)];
        let seat = lanes[0].admit().expect("room");
        assert!(lanes[1].admit().is_err());
        drop(seat);
        assert!(lanes[1].admit().is_ok());
    }

    proptest! {
        /// Against the definition: late at least twice in a row, and never punctual for as long as the window.
        #[test]
        fn a_lane_is_behind_when_it_was_not_once_punctual_for_the_window(ticks in prop::collection::vec((1u64..300, any::<bool>()), 1..60)) {
            let start = Instant::now();
            let (mut lane, mut at) = (Punctuality::new(start), start);
            let mut seen = vec![(start, false)];
            for (after_ms, late) in ticks {
                at += Duration::from_millis(after_ms);
                seen.push((at, late));
                let row = seen.iter().rev().take_while(|(_, late)| *late).count();
                let punctual = seen[seen.len() - 1 - row].0;
                prop_assert_eq!(lane.is_behind(at, late), row > 1 && at - punctual >= WINDOW);
            }
        }
    }
}
