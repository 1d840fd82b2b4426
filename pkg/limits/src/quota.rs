//! The generic cell rate algorithm (ITU-T I.371, virtual scheduling form) in exact integers.
//!
//! State is one number, the theoretical arrival time (TAT): when a caller that spends at exactly its rate would next come.
//! With T the time one unit takes, `n` units at `now` are allowed if and only if `max(TAT, now) + n·T − now ≤ burst·T`.
//! T is a fraction of nanoseconds, so times are counted in units of 1/den ns and nothing ever drifts.

use std::fmt;
use std::time::Duration;

/// Longest time to refill a bucket, in ns: about 146 years, far from any overflow below.
const LONGEST_REFILL: u128 = 1 << 62;

/// A quota that cannot be kept exactly. The configuration is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuotaFault {
    /// A rate, period or burst of zero. "No limit" is having no quota.
    #[error("rate, period and burst must be over zero")]
    Zero,
    /// Units come faster than the clock counts.
    #[error("over 1,000,000,000 units a second: one unit must take at least 1 ns")]
    TooFast,
    /// Burst times interval is over 2^62 ns.
    #[error("an empty bucket would take over 146 years to fill")]
    TooSlow,
}

/// A rate and a burst. The first `burst` units at one instant are allowed, the next is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Numerator of the interval T in ns, reduced.
    num: u64,
    /// Its denominator; one ns has this many time units.
    den: u32,
    burst: u32,
}

/// The state of one key: its theoretical arrival time in the time units of its quota. A TAT that is not in the future is
/// the same as none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Tat(u128);

/// The answer to a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Come in.
    Allow {
        /// Units that would still be allowed at this instant.
        remaining: u32,
        /// Nanoseconds until the whole burst is there again.
        reset_ns: u64,
    },
    /// Not now. Nothing was charged.
    Deny {
        /// Nanoseconds after which the same check is allowed, if nothing else is charged until then. Never zero.
        wait_ns: u64,
    },
    /// Never: the cost is over the burst. Nothing was charged, and no retry helps.
    Never,
}

impl Quota {
    /// `rps` units a second, at most `burst` at once.
    ///
    /// # Errors
    /// See [`QuotaFault`].
    pub fn new(rps: u32, burst: u32) -> Result<Self, QuotaFault> {
        Self::per(rps, Duration::from_secs(1), burst)
    }

    /// `count` units every `period`, at most `burst` at once.
    ///
    /// # Errors
    /// See [`QuotaFault`].
    pub fn per(count: u32, period: Duration, burst: u32) -> Result<Self, QuotaFault> {
        let period = period.as_nanos();
        if count == 0 || period == 0 || burst == 0 {
            return Err(QuotaFault::Zero);
        }
        if period < u128::from(count) {
            return Err(QuotaFault::TooFast);
        }
        // A period is under 2^94 ns and a burst under 2^32, so this product cannot wrap.
        if period * u128::from(burst) > LONGEST_REFILL * u128::from(count) {
            return Err(QuotaFault::TooSlow);
        }
        let common = gcd(period, u128::from(count));
        let num = u64::try_from(period / common).map_err(|_| QuotaFault::TooSlow)?;
        let den = u32::try_from(u128::from(count) / common).expect("not over the count");
        Ok(Self { num, den, burst })
    }

    /// The most units at once.
    pub const fn burst(&self) -> u32 {
        self.burst
    }

    /// Judges `cost` units at `now_ns` for a key whose state is `tat`. The new state if it changes; a refusal and a cost
    /// of zero (a look without a charge) change none.
    ///
    /// An earlier `now_ns` than the one before never admits more.
    pub fn check(&self, tat: Tat, cost: u32, now_ns: u64) -> (Decision, Option<Tat>) {
        if cost > self.burst {
            return (Decision::Never, None);
        }
        // now < 2^96, TAT < 2^96 + 2^94, cost · num < 2^96: all far inside a u128.
        let now = self.instant(now_ns);
        let next = Tat(tat.0.max(now.0) + u128::from(cost) * u128::from(self.num));
        let ahead = next.0 - now.0;
        let capacity = u128::from(self.burst) * u128::from(self.num);
        if ahead > capacity && cost > 0 {
            return (Decision::Deny { wait_ns: self.ns_ceil(ahead - capacity) }, None);
        }
        // A state from a later clock can lie further ahead than a full bucket; then nothing remains.
        let remaining = capacity.saturating_sub(ahead) / u128::from(self.num);
        let remaining = u32::try_from(remaining).expect("not over the burst");
        let decision = Decision::Allow { remaining, reset_ns: self.ns_ceil(ahead) };
        (decision, (cost > 0).then_some(next))
    }

    /// Whether `tat` says nothing at `now_ns` and may be forgotten without a trace.
    pub fn is_forgettable(&self, tat: Tat, now_ns: u64) -> bool {
        tat <= self.instant(now_ns)
    }

    fn instant(&self, now_ns: u64) -> Tat {
        Tat(u128::from(now_ns) * u128::from(self.den))
    }

    fn ns_ceil(&self, units: u128) -> u64 {
        u64::try_from(units.div_ceil(u128::from(self.den))).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for Quota {
    /// The interval in words, for the start-up log: a mistaken unit shows at once.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let interval = Duration::from_nanos(self.num / u64::from(self.den));
        write!(f, "one every {interval:?}, at most {} at once", self.burst)
    }
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
#[path = "quota_tests.rs"]
mod tests;
