//! What happened, for the metrics.

use signet_cache::StoreFault;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Monotone counters.
#[derive(Debug, Default)]
pub struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
    writes: AtomicU64,
    timeouts: AtomicU64,
    unavailable: AtomicU64,
    corrupt: AtomicU64,
    refused: AtomicU64,
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lookups that found a value.
    pub hits: u64,
    /// Lookups that found none.
    pub misses: u64,
    /// Values stored or removed.
    pub writes: u64,
    /// Calls that were given up at their budget.
    pub timeouts: u64,
    /// Calls that found no server.
    pub unavailable: u64,
    /// Answers that cannot be right.
    pub corrupt: u64,
    /// Calls not made because of a run of failures.
    pub refused: u64,
}

impl Counters {
    /// The counters now.
    pub fn read(&self) -> Counts {
        Counts {
            hits: self.hits.load(Relaxed),
            misses: self.misses.load(Relaxed),
            writes: self.writes.load(Relaxed),
            timeouts: self.timeouts.load(Relaxed),
            unavailable: self.unavailable.load(Relaxed),
            corrupt: self.corrupt.load(Relaxed),
            refused: self.refused.load(Relaxed),
        }
    }

    pub(crate) fn looked_up(&self, found: bool) {
        if found { &self.hits } else { &self.misses }.fetch_add(1, Relaxed);
    }

    pub(crate) fn written(&self) {
        self.writes.fetch_add(1, Relaxed);
    }

    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    pub(crate) fn failed(&self, fault: &StoreFault) {
        match fault {
            StoreFault::Timeout(_) => &self.timeouts,
            StoreFault::Unavailable(_) => &self.unavailable,
            StoreFault::Corrupt(_) => &self.corrupt,
        }
        .fetch_add(1, Relaxed);
    }
}
