//! The arithmetic against an exact token bucket, and the limits of what can be configured.

use super::*;
use proptest::prelude::*;

/// A bucket in exact rationals: tokens times `period`, filled by `count` a ns.
struct Bucket {
    count: u128,
    period: u128,
    burst: u128,
    level: u128,
    at_ns: u64,
}

impl Bucket {
    fn full(count: u32, period_ns: u64, burst: u32) -> Self {
        let (count, period, burst) = (u128::from(count), u128::from(period_ns), u128::from(burst));
        Self { count, period, burst, level: burst * period, at_ns: 0 }
    }

    /// Whole tokens left if `cost` is allowed.
    fn take(&mut self, cost: u32, now_ns: u64) -> Option<u128> {
        let gained = u128::from(now_ns - self.at_ns) * self.count;
        (self.level, self.at_ns) = ((self.level + gained).min(self.burst * self.period), now_ns);
        self.level = self.level.checked_sub(u128::from(cost) * self.period)?;
        Some(self.level / self.period)
    }
}

fn allowed(decision: Decision) -> bool {
    matches!(decision, Decision::Allow { .. })
}

/// One key over virtual time.
struct Key {
    quota: Quota,
    tat: Tat,
}

impl Key {
    fn new(quota: Quota) -> Self {
        Self { quota, tat: Tat::default() }
    }

    fn check(&mut self, cost: u32, now_ns: u64) -> Decision {
        let (decision, next) = self.quota.check(self.tat, cost, now_ns);
        self.tat = next.unwrap_or(self.tat);
        decision
    }
}

fn any_quota() -> impl Strategy<Value = (u32, u64, u32)> {
    let count = prop_oneof![1u32..100, Just(3), Just(1_000_000_000), any::<u32>()];
    let period = prop_oneof![Just(1_000_000_000u64), 1u64..5_000, Just(86_400_000_000_000)];
    (count, period, prop_oneof![1u32..20, any::<u32>()])
}

fn quota(count: u32, period_ns: u64, burst: u32) -> Result<Quota, QuotaFault> {
    Quota::per(count, Duration::from_nanos(period_ns), burst)
}

proptest! {
    #[test]
    fn it_decides_as_an_exact_token_bucket_does(
        (count, period, burst) in any_quota(),
        steps in prop::collection::vec((0u64..4, 1u32..4), 1..200),
    ) {
        let Ok(quota) = quota(count, period, burst) else { return Ok(()) };
        let (mut key, mut bucket) = (Key::new(quota), Bucket::full(count, period, burst));
        let interval = period / u64::from(count);
        let mut now = 0u64;
        for (gap, cost) in steps {
            now += gap * interval / 2 + gap % 2;
            let decision = key.check(cost.min(burst), now);
            match bucket.take(cost.min(burst), now) {
                Some(left) => prop_assert!(
                    matches!(decision, Decision::Allow { remaining, .. } if u128::from(remaining) == left),
                    "{:?} with {} left", decision, left
                ),
                None => prop_assert!(matches!(decision, Decision::Deny { .. }), "{:?}", decision),
            }
        }
    }

    #[test]
    fn no_interval_admits_more_than_burst_and_rate(
        rate in 1u32..1000,
        burst in 1u32..10,
        gaps in prop::collection::vec(0u64..5_000_000, 1..150),
    ) {
        let mut key = Key::new(Quota::new(rate, burst).expect("a small quota"));
        let mut now = 0;
        let mut admitted: Vec<u64> = Vec::new();
        for gap in gaps {
            now += gap;
            if allowed(key.check(1, now)) {
                admitted.push(now);
            }
        }
        for (from, start) in admitted.iter().enumerate() {
            for (to, end) in admitted.iter().enumerate().skip(from) {
                let most = u64::from(burst) + (end - start) * u64::from(rate) / 1_000_000_000;
                prop_assert!((to - from + 1) as u64 <= most);
            }
        }
    }

    #[test]
    fn a_refusal_changes_nothing_and_its_wait_is_exact(
        (count, period, burst) in any_quota(),
        spend in prop::collection::vec(1u32..5, 1..30),
        cost in 1u32..5,
        start in 0u64..1_000_000_000_000,
    ) {
        let Ok(quota) = quota(count, period, burst) else { return Ok(()) };
        let mut key = Key::new(quota);
        for spent in spend {
            key.check(spent.min(burst), start);
        }
        let (before, cost) = (key.tat, cost.min(burst));
        let Decision::Deny { wait_ns } = key.check(cost, start) else { return Ok(()) };
        prop_assert_eq!(key.tat, before);
        prop_assert!(wait_ns > 0);
        if let Decision::Deny { wait_ns: later } = key.check(cost, start + wait_ns - 1) {
            prop_assert!(later <= wait_ns, "waits never grow while nothing is charged");
        } else {
            prop_assert!(false, "one nanosecond early must be refused");
        }
        prop_assert!(allowed(key.check(cost, start + wait_ns)), "at the end of the wait it is allowed");
    }

    #[test]
    fn an_earlier_clock_never_admits_more(
        (count, period, burst) in any_quota(),
        tat in any::<u64>(), cost in 1u32..5, now in any::<u64>(), earlier in any::<u64>(),
    ) {
        let Ok(quota) = quota(count, period, burst) else { return Ok(()) };
        let (tat, earlier) = (quota.instant(tat), earlier.min(now));
        if allowed(quota.check(tat, cost, earlier).0) {
            prop_assert!(allowed(quota.check(tat, cost, now).0));
        }
    }

    #[test]
    fn a_cost_of_n_is_n_costs_of_one(
        (count, period, burst) in any_quota(),
        used in 0u32..12, n in 0u32..12, now in 0u64..u64::MAX / 2,
    ) {
        let Ok(quota) = quota(count, period, burst) else { return Ok(()) };
        let mut whole = Key::new(quota);
        for _ in 0..used {
            whole.check(1, now);
        }
        let mut single = Key { quota, tat: whole.tat };
        let ones = (0..n).all(|_| allowed(single.check(1, now)));
        prop_assert_eq!(allowed(whole.check(n, now)), ones);
        if ones {
            prop_assert_eq!(whole.tat, single.tat);
        }
    }

    #[test]
    fn any_quota_and_any_time_either_work_or_are_refused_at_construction(
        count in any::<u32>(), period in any::<u64>(), burst in any::<u32>(),
        tat in any::<u64>(), now in any::<u64>(), cost in any::<u32>(),
    ) {
        if let Ok(quota) = quota(count, period, burst) {
            let (decision, next) = quota.check(quota.instant(tat), cost, now);
            prop_assert_eq!(next.is_some(), allowed(decision) && cost > 0);
            prop_assert_eq!(matches!(decision, Decision::Never), cost > burst);
        }
    }

    #[test]
    fn nothing_remains_exactly_when_the_next_is_refused(
        rate in 1u32..1000, burst in 1u32..6, gaps in prop::collection::vec(0u64..3_000_000, 1..60),
    ) {
        let mut key = Key::new(Quota::new(rate, burst).expect("a small quota"));
        let mut now = 0;
        for gap in gaps {
            now += gap;
            if let Decision::Allow { remaining, reset_ns } = key.check(1, now) {
                let mut next = Key { quota: key.quota, tat: key.tat };
                prop_assert_eq!(remaining == 0, !allowed(next.check(1, now)));
                let later = key.quota.check(key.tat, 0, now + reset_ns).0;
                prop_assert_eq!(later, Decision::Allow { remaining: burst, reset_ns: 0 });
            }
        }
    }
}

#[test]
fn the_burst_is_allowed_at_one_instant_and_one_more_is_not() {
    let mut key = Key::new(Quota::new(50, 100).expect("good"));
    for left in (0..100).rev() {
        assert!(matches!(key.check(1, 5), Decision::Allow { remaining, .. } if remaining == left));
    }
    assert_eq!(key.check(1, 5), Decision::Deny { wait_ns: 20_000_000 });
    assert!(allowed(key.check(1, 20_000_005)), "allowed on equality");
}

#[test]
fn no_extra_unit_slips_through_as_time_advances_by_nanoseconds() {
    for rate in [100_000_000, 300_000_000, 70_000_001] {
        let mut key = Key::new(Quota::new(rate, 5).expect("good"));
        let admitted = (0..100_000).filter(|&now| allowed(key.check(1, now))).count() as u64;
        // While burst remains nothing is lost to the cap, so the count is exact.
        assert_eq!(admitted, 5 + 99_999 * u64::from(rate) / 1_000_000_000, "{rate}/s");
    }
}

#[test]
fn thirds_of_a_second_do_not_drift() {
    let mut key = Key::new(Quota::new(3, 1).expect("good"));
    let mut now = 0;
    for _ in 0..300_000 {
        assert!(allowed(key.check(1, now)));
        let Decision::Deny { wait_ns } = key.check(1, now) else { panic!("the burst is one") };
        now += wait_ns;
    }
    let exact = 100_000 * 1_000_000_000;
    assert!((exact..exact + 1_000_000).contains(&now), "{now}");
}

#[test]
fn rates_mean_units_a_second_and_the_interval_can_be_read_in_the_log() {
    let quota = Quota::new(4000, 10).expect("good");
    assert_eq!(quota.to_string(), "one every 250µs, at most 10 at once");
    let mut key = Key::new(quota);
    let admitted = (0..1_000_000_000).step_by(1_000).filter(|&now| allowed(key.check(1, now))).count();
    assert_eq!(admitted, 10 + 3999);
}

#[test]
fn quotas_that_cannot_be_kept_exactly_are_refused_with_the_reason() {
    assert_eq!(Quota::new(0, 1), Err(QuotaFault::Zero));
    assert_eq!(Quota::new(1, 0), Err(QuotaFault::Zero));
    assert_eq!(Quota::new(2_000_000_000, 1), Err(QuotaFault::TooFast));
    assert!(Quota::new(1_000_000_000, u32::MAX).is_ok());
    let day = Duration::from_hours(24);
    assert!(Quota::per(1, day, 50_000).is_ok());
    assert_eq!(Quota::per(1, day, u32::MAX), Err(QuotaFault::TooSlow));
    assert_eq!(Quota::per(1, Duration::MAX, 1), Err(QuotaFault::TooSlow));
}

#[test]
fn a_cost_over_the_burst_is_never_allowed_and_charges_nothing() {
    let mut key = Key::new(Quota::new(5, 2).expect("good"));
    assert_eq!(key.check(1_000_000, 0), Decision::Never);
    assert!(allowed(key.check(2, 0)), "nothing was charged");
}

#[test]
fn a_look_charges_nothing() {
    let mut key = Key::new(Quota::new(5, 2).expect("good"));
    assert!(allowed(key.check(2, 0)));
    assert!(matches!(key.check(0, 0), Decision::Allow { remaining: 0, .. }));
    assert!(matches!(key.check(0, 200_000_000), Decision::Allow { remaining: 1, .. }));
}

#[test]
fn a_key_whose_time_has_passed_starts_afresh() {
    let mut key = Key::new(Quota::new(1, 2).expect("good"));
    assert!(allowed(key.check(2, 0)));
    assert!(matches!(key.check(2, 1_999_999_999), Decision::Deny { wait_ns: 1 }));
    assert!(matches!(key.check(2, 2_000_000_000), Decision::Allow { remaining: 0, .. }));
    assert!(matches!(key.check(1, 1_000_000_000_000_000_000), Decision::Allow { remaining: 1, .. }));
}
