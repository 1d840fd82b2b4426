//! Time is a parameter, so that tests own it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// Where wall-clock and monotonic time come from.
///
/// Wall time labels records and bounds entry lifetimes; it may jump. Monotonic time measures spans and feeds the
/// limiter; it never goes back.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;
    /// Nanoseconds since an arbitrary start, the same start for the life of this clock.
    fn mono_ns(&self) -> u64;
}

/// The machine's own clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock whose monotonic zero is now.
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    fn now_ms(&self) -> u64 {
        let since = std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn mono_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A clock that moves only when told to.
#[derive(Debug)]
pub struct ManualClock {
    wall_ms: AtomicU64,
    mono_ns: AtomicU64,
}

impl ManualClock {
    /// A clock that stands at `wall_ms` (milliseconds since the Unix epoch), monotonic zero.
    pub fn at(wall_ms: u64) -> Self {
        Self { wall_ms: AtomicU64::new(wall_ms), mono_ns: AtomicU64::new(0) }
    }

    /// Moves both clocks forward.
    pub fn advance(&self, by: Duration) {
        self.wall_ms.fetch_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
        self.mono_ns.fetch_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// Sets the wall clock alone, as an operator or NTP would.
    pub fn set_wall_ms(&self, wall_ms: u64) {
        self.wall_ms.store(wall_ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> u64 {
        self.wall_ms.load(Ordering::SeqCst)
    }

    fn mono_ns(&self) -> u64 {
        self.mono_ns.load(Ordering::SeqCst)
    }
}
