//! The per-address limiter that stands in front of everything else.

use crate::address::AddressKey;
use crate::quota::{Decision, Quota};
use crate::shard::Shard;
use ahash::RandomState;
use parking_lot::Mutex;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

const SHARDS: usize = 64;

/// Something that admits or refuses. `now_ns` is a monotonic clock's time in ns, the same clock for every call.
pub trait Limiter: Send + Sync + 'static {
    /// Charges `cost` units to `key`, or refuses and charges nothing. A cost of 0 looks without charging.
    fn check(&self, key: AddressKey, cost: u32, now_ns: u64) -> Decision;
}

/// One quota for each address, in bounded memory.
///
/// At most `max_keys` addresses (rounded up to a multiple of 64) are tracked one by one. A tracked address is dropped
/// only when that changes nothing; while all are live, new ones share 16,384 overflow cells and may be refused early.
/// Nobody is ever admitted beyond the quota.
///
/// Memory is at most 32 bytes an entry and 5 a slot of the index, doubled by growth: 262,144 keys are 14 to 22 MB when
/// full, and the cells 256 kB.
pub struct IpLimiter {
    quota: Quota,
    hasher: RandomState,
    shards: Vec<Mutex<Shard>>,
    overflowed: AtomicU64,
}

impl IpLimiter {
    /// Addresses tracked unless told otherwise.
    pub const DEFAULT_MAX_KEYS: usize = 262_144;

    /// A limiter that tracks at most `max_keys` addresses. The hash is keyed anew in each process, so that callers cannot
    /// choose addresses that collide.
    pub fn new(quota: Quota, max_keys: usize) -> Self {
        let shard = || Mutex::new(Shard::new(max_keys.div_ceil(SHARDS)));
        Self {
            quota,
            hasher: RandomState::new(),
            shards: std::iter::repeat_with(shard).take(SHARDS).collect(),
            overflowed: AtomicU64::new(0),
        }
    }

    /// The quota of each address.
    pub const fn quota(&self) -> Quota {
        self.quota
    }

    /// Number of addresses tracked at the moment.
    pub fn tracked(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// Number of charges so far that went to an overflow cell. If it grows, `max_keys` is too small or a flood is on.
    pub fn overflowed(&self) -> u64 {
        self.overflowed.load(Ordering::Relaxed)
    }
}

impl Limiter for IpLimiter {
    fn check(&self, key: AddressKey, cost: u32, now_ns: u64) -> Decision {
        let hash = self.hasher.hash_one(key);
        // The table itself uses the lowest and highest bits, the overflow cells the third byte.
        let shard = usize::from(hash.to_le_bytes()[4]) % SHARDS;
        let outcome = self.shards[shard].lock().check(&self.quota, &self.hasher, (key, hash), cost, now_ns);
        if outcome.overflowed {
            self.overflowed.fetch_add(1, Ordering::Relaxed);
        }
        outcome.decision
    }
}

impl fmt::Debug for IpLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IpLimiter").field("quota", &self.quota).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "limiter_tests.rs"]
mod tests;
