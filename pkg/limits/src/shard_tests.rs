//! The bounded table against an unbounded one.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

const QUOTA: (u32, u32) = (1000, 3);

fn quota() -> Quota {
    Quota::new(QUOTA.0, QUOTA.1).expect("a small quota")
}

struct Table {
    shard: Shard,
    hasher: RandomState,
}

impl Table {
    fn new(max_entries: usize) -> Self {
        Self { shard: Shard::new(max_entries), hasher: RandomState::new() }
    }

    fn check(&mut self, key: u32, cost: u32, now_ns: u64) -> Outcome {
        let key = AddressKey::V4(key);
        self.shard.check(&quota(), &self.hasher, (key, self.hasher.hash_one(key)), cost, now_ns)
    }

    fn check_index(&self) {
        assert_eq!(self.shard.index.len(), self.shard.entries.len());
        for (at, (key, _)) in (0..).zip(&self.shard.entries) {
            assert_eq!(self.shard.index.find(self.hasher.hash_one(key), |&held| held == at), Some(&at));
        }
    }
}

/// A limiter that forgets nothing.
#[derive(Default)]
struct Unbounded(HashMap<u32, Tat>);

impl Unbounded {
    fn check(&mut self, key: u32, cost: u32, now_ns: u64) -> Decision {
        let tat = self.0.entry(key).or_default();
        let (decision, next) = quota().check(*tat, cost, now_ns);
        *tat = next.unwrap_or(*tat);
        decision
    }

    fn live(&self, now_ns: u64) -> usize {
        self.0.values().filter(|&&tat| !quota().is_forgettable(tat, now_ns)).count()
    }
}

fn any_traffic() -> impl Strategy<Value = Vec<(u32, u32, u64)>> {
    prop::collection::vec((0u32..40, 0u32..3, 0u64..2_000_000), 1..400)
}

proptest! {
    #[test]
    fn dropping_keys_is_invisible_while_the_live_ones_fit(traffic in any_traffic()) {
        let (mut table, mut model, mut now) = (Table::new(8), Unbounded::default(), 0);
        for (key, cost, gap) in traffic {
            now += gap;
            if model.live(now) >= 8 {
                now += 10_000_000; // let all keys pass
            }
            let outcome = table.check(key, cost, now);
            prop_assert_eq!(outcome.decision, model.check(key, cost, now));
            prop_assert!(!outcome.overflowed);
            prop_assert!(table.shard.len() <= 8);
        }
        table.check_index();
    }

    #[test]
    fn a_full_table_refuses_early_but_never_admits_beyond_the_quota(traffic in any_traffic()) {
        let (mut table, mut now) = (Table::new(4), 0);
        let mut admitted: HashMap<u32, Vec<u64>> = HashMap::new();
        for (key, _, gap) in traffic {
            now += gap / 20;
            if matches!(table.check(key, 1, now).decision, Decision::Allow { .. }) {
                admitted.entry(key).or_default().push(now);
            }
            prop_assert!(table.shard.len() <= 4);
        }
        for times in admitted.values() {
            for (from, start) in times.iter().enumerate() {
                for (to, end) in times.iter().enumerate().skip(from) {
                    let most = u64::from(QUOTA.1) + (end - start) * u64::from(QUOTA.0) / 1_000_000_000;
                    prop_assert!((to - from + 1) as u64 <= most, "{} in {} ns", to - from + 1, end - start);
                }
            }
        }
    }
}

#[test]
fn a_thread_that_comes_late_cannot_spend_time_that_was_forgotten() {
    let mut table = Table::new(1);
    let spend = |table: &mut Table, now| {
        (0..4).filter(|_| matches!(table.check(1, 1, now).decision, Decision::Allow { .. })).count()
    };
    assert_eq!(spend(&mut table, 0), 3);
    table.check(2, 1, 3_000_000); // takes the one slot, as the first key has passed
    let late = spend(&mut table, 0);
    let on_time = spend(&mut table, 3_000_000);
    assert_eq!(late + on_time, 3, "3 ms at 1 a ms");
}

#[test]
fn a_key_that_passes_before_older_ones_makes_room() {
    let mut table = Table::new(2);
    table.check(1, 1, 0);
    table.check(2, 3, 0);
    table.check(3, 1, 1_000_000); // sweeps the first and leaves the second, which lasts until 3 ms
    let outcome = table.check(4, 1, 2_000_000);
    assert!(!outcome.overflowed, "the third has passed");
}

#[test]
fn a_key_that_was_charged_in_an_overflow_cell_brings_its_charge_along() {
    let mut table = Table::new(1);
    assert!(!table.check(1, 1, 0).overflowed);
    for _ in 0..3 {
        let outcome = table.check(2, 1, 0);
        assert!(outcome.overflowed && matches!(outcome.decision, Decision::Allow { .. }));
    }
    assert!(matches!(table.check(2, 1, 0).decision, Decision::Deny { wait_ns: 1_000_000 }));
    // At 1 ms the first key has passed, so there is room; the second has one unit, not three.
    let outcome = table.check(2, 1, 1_000_000);
    assert!(!outcome.overflowed && matches!(outcome.decision, Decision::Allow { remaining: 0, .. }));
}

#[test]
fn refused_and_looking_keys_take_no_room() {
    let mut table = Table::new(4);
    table.check(1, 0, 0);
    table.check(2, 99, 0);
    assert_eq!(table.shard.len(), 0);
}
