//! Taking back what was stored.

use crate::fixture::{HOUR_MS, NOW, POACH, POACH_POLITE, Replica, entry, exact, is_miss, partition};
use signet_cache::{Withdrawal, Withdrawals};
use signet_types::{LineageId, TenantId};

fn rule() -> Withdrawal {
    Withdrawal { stored_by_ms: NOW, ..Withdrawal::default() }
}

#[test]
fn a_rule_takes_what_fits_all_it_says_and_was_stored_by_then() {
    let held = entry(partition(1, ""), POACH);
    let (tenant, other) = (held.partition.tenant(), TenantId::from_bytes([9; 16]));
    let model = |name: &str| Some(name.to_owned());
    let rows = [
        (rule(), true),
        (Withdrawal { stored_by_ms: NOW - 1, ..rule() }, false),
        (Withdrawal { source: Some(held.source.id), ..rule() }, true),
        (Withdrawal { source: Some(LineageId::from_bytes([9; 16])), ..rule() }, false),
        (Withdrawal { tenant: Some(tenant), ..rule() }, true),
        (Withdrawal { tenant: Some(other), ..rule() }, false),
        (Withdrawal { model: model("m"), ..rule() }, true),
        (Withdrawal { model: model("n"), ..rule() }, false),
        (Withdrawal { namespace: model(""), ..rule() }, true),
        (Withdrawal { namespace: model("a"), ..rule() }, false),
        (Withdrawal { tenant: Some(tenant), model: model("n"), ..rule() }, false),
        (Withdrawal { source: Some(held.source.id), tenant: Some(other), ..rule() }, false),
    ];
    for (rule, taken) in rows {
        let withdrawals = Withdrawals::default();
        assert!(!withdrawals.takes(&held));
        assert!(withdrawals.add(rule.clone()));
        assert!(!withdrawals.add(rule.clone()), "the same rule again");
        assert_eq!((withdrawals.takes(&held), withdrawals.len()), (taken, 1), "{rule:?}");
    }
}

#[test]
fn the_same_rule_once_more_reaches_further_and_never_less_far() {
    let held = entry(partition(1, ""), POACH);
    for first in [Withdrawal::of_source(held.source.id, NOW - 1), Withdrawal { stored_by_ms: NOW - 1, ..rule() }] {
        let withdrawals = Withdrawals::default();
        withdrawals.add(first.clone());
        assert!(!withdrawals.takes(&held));
        withdrawals.add(Withdrawal { stored_by_ms: NOW, ..first.clone() });
        assert!(withdrawals.takes(&held));
        withdrawals.add(first);
        assert_eq!((withdrawals.takes(&held), withdrawals.len()), (true, 1));
    }
}

#[test]
fn a_rule_goes_when_nothing_that_it_takes_can_be_left() {
    let withdrawals = Withdrawals::default();
    let held = entry(partition(1, ""), POACH);
    withdrawals.add(Withdrawal::of_source(held.source.id, NOW));
    withdrawals.add(rule());
    withdrawals.forget_before(NOW);
    assert_eq!((withdrawals.len(), withdrawals.takes(&held)), (2, true));
    withdrawals.forget_before(NOW + 1);
    assert_eq!((withdrawals.len(), withdrawals.takes(&held)), (0, false));
}

#[test]
fn until_it_is_known_what_was_taken_back_nothing_older_is_served() {
    let (withdrawals, held) = (Withdrawals::default(), entry(partition(1, ""), POACH));
    withdrawals.distrust_before(NOW + 1);
    assert!(withdrawals.takes(&held));
    withdrawals.distrust_before(NOW);
    assert!(!withdrawals.takes(&held), "this process stored it");
    withdrawals.distrust_before(NOW + 1);
    withdrawals.trust();
    assert!(!withdrawals.takes(&held));
}

#[tokio::test]
async fn an_answer_taken_back_is_served_from_no_layer_and_a_later_one_is() {
    let (writer, home) = (Replica::new(), partition(1, ""));
    let wrong = entry(home, POACH);
    writer.store(&wrong).await;
    for replica in [writer.sibling(), writer] {
        replica.cache.withdrawals().add(Withdrawal::of_source(wrong.source.id, NOW));
        assert!(is_miss(&replica.ask(&home, POACH).await));
        assert!(is_miss(&replica.ask(&home, POACH_POLITE).await));
        let mut right = entry(home, POACH);
        right.source.id = LineageId::from_bytes([7; 16]);
        right.expires_ms = NOW + HOUR_MS;
        replica.keep(&right).await;
        assert_eq!(exact(&replica.ask(&home, POACH).await), Some(right.id));
    }
}
