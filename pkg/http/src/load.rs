//! How much work is taken on.
//!
//! Beyond what a gateway can do in time, each further request makes all of them later, until none is served in its caller's
//! patience. So new work is refused early, before its body is read: beyond a number at a time, or while a lane is behind.
//! Behind is a lane whose timer has not once been punctual for [`WINDOW`], the rule by which `CoDel` (RFC 8289) tells a
//! standing queue from a burst. From then on it takes on no more at a time than it can do in time: a number that falls
//! with each late tick and grows with each punctual one, so that the queue does not come back with the first of them.
//! What was taken on is served; health and metrics are never refused.

use signet_pipeline::Fault;
use signet_telemetry::{Gauge, Metrics};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
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
    /// This lane's.
    own: Arc<AtomicU32>,
    /// How many of this lane's there may be.
    allowed: AtomicU32,
    refused: AtomicU64,
    metrics: Arc<Metrics>,
}

/// A place among those who are served.
#[derive(Debug)]
pub(crate) struct Seat(Gauge, Arc<AtomicU32>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.dec();
        self.1.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Load {
    /// A lane without work. Lanes with the same metrics share the bound on requests.
    pub fn new(limits: LoadLimits, metrics: Arc<Metrics>) -> Self {
        let inflight = metrics.inflight().clone();
        let (own, allowed) = (Arc::default(), AtomicU32::new(ANY));
        Self { limits, inflight, own, allowed, refused: AtomicU64::default(), metrics }
    }

    /// Takes on one more request, which is work until the seat is dropped.
    pub(crate) fn admit(&self) -> Result<Seat, Fault> {
        if self.own.load(Ordering::Relaxed) >= self.allowed.load(Ordering::Relaxed) {
            return Err(self.refusal("lag"));
        }
        let before = self.inflight.inc();
        self.own.fetch_add(1, Ordering::Relaxed);
        let seat = Seat(self.inflight.clone(), self.own.clone());
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
        let mut lane = Lane::new(Instant::now());
        let mut said: Option<Instant> = None;
        loop {
            let due = Instant::now() + if self.inflight.get() > 0 { TICK } else { IDLE_TICK };
            sleep_until(due).await;
            let now = Instant::now();
            let lag = now.saturating_duration_since(due);
            let allowed = lane.allowed(now, lag > self.limits.max_lag, self.own.load(Ordering::Relaxed));
            if allowed < ANY && said.is_none_or(|said| now - said >= SAY_EVERY) {
                tracing::warn!(?lag, "a lane is behind: new requests are refused until it is not");
                said = Some(now);
            }
            self.allowed.store(allowed, Ordering::Relaxed);
        }
    }
}

/// No bound on a lane's requests.
const ANY: u32 = u32::MAX;

/// How many requests a lane may have, by how punctual it is.
struct Lane {
    timer: Punctuality,
    allowed: u32,
}

impl Lane {
    const fn new(now: Instant) -> Self {
        Self { timer: Punctuality::new(now), allowed: ANY }
    }

    /// After a tick, with `own` requests being served.
    ///
    /// Each late tick of a lane that is or was behind takes an eighth of what is being served, each punctual one gives a
    /// little back: additive increase, multiplicative decrease. The bound is gone once half of it is not used.
    fn allowed(&mut self, now: Instant, late: bool, own: u32) -> u32 {
        let behind = self.timer.is_behind(now, late);
        self.allowed = match self.allowed {
            ANY if !behind => ANY,
            _ if late => own - own.div_ceil(8),
            allowed if allowed / 2 >= own => ANY,
            allowed => allowed.saturating_add(allowed / 64 + 1),
        };
        self.allowed
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

    #[test]
    fn a_lane_that_was_behind_takes_on_what_it_can_do_and_more_by_and_by() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let mut lane = Lane::new(start);
        assert_eq!(lane.allowed(start + ms(60), true, 100), ANY, "a stall");
        assert_eq!(lane.allowed(start + ms(120), true, 160), 140);
        assert_eq!(lane.allowed(start + ms(180), true, 140), 122, "it is still late with those");
        assert_eq!(lane.allowed(start + ms(185), false, 122), 124, "what it can do is not forgotten at once");
        assert_eq!(lane.allowed(start + ms(245), true, 124), 108, "nor is it found out anew");
        assert_eq!(lane.allowed(start + ms(250), false, 54), ANY, "half of it is not used");
    }

    #[test]
    fn a_lane_that_is_held_up_by_one_request_takes_on_no_other_until_it_is_punctual() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let mut lane = Lane::new(start);
        lane.allowed(start + ms(60), true, 1);
        assert_eq!(lane.allowed(start + ms(120), true, 1), 0);
        assert_eq!(lane.allowed(start + ms(125), false, 1), 1);
        assert_eq!(lane.allowed(start + ms(130), false, 0), ANY);
    }

    #[test]
    fn a_lane_refuses_beyond_what_it_may_have_and_another_does_not() {
        let metrics = Arc::new(Metrics::new());
        let limits = LoadLimits { max_inflight: 0, max_lag: Duration::from_millis(50) };
        let lanes = [Load::new(limits, metrics.clone()), Load::new(limits, metrics)];
        let seat = lanes[0].admit().expect("room");
        lanes[0].allowed.store(1, Ordering::Relaxed);
        assert!(lanes[0].admit().is_err() && lanes[1].admit().is_ok());
        drop(seat);
        assert!(lanes[0].admit().is_ok());
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
