//! The order in which targets are asked.

use super::*;
use crate::board::Board;
use crate::window::{Middle, Tally};
use proptest::prelude::*;
use signet_types::SystemClock;
use std::sync::Arc;

/// Targets `p0`, `p1`, … of these tiers and weights.
fn targets(of: &[(usize, u32)]) -> Vec<Target> {
    let board = Board::new(Arc::new(SystemClock::new()));
    let target = |(at, &(tier, weight)): (usize, &(usize, u32))| {
        let (provider, model) = (format!("p{at}").parse().expect("a name"), "m".parse().expect("a name"));
        let member = board.member(&provider, Some(&model));
        Target { provider, model, tier, weight, index: at, member }
    };
    of.iter().enumerate().map(target).collect()
}

fn view() -> View {
    View { circuit: Circuit::Closed, not_before: None, in_flight: 0, tally: Tally::default(), ttft: None }
}

fn slow(ms: u64, of: u32) -> View {
    View { ttft: Some(Middle { p50: Duration::from_millis(ms), of }), ..view() }
}

fn failing(calls: u32, failures: u32) -> View {
    View { tally: Tally { calls, failures }, ..view() }
}

fn in_flight(in_flight: u32) -> View {
    View { in_flight, ..view() }
}

fn order(targets: &[Target], views: &[View], affinity: u64) -> Vec<usize> {
    plan(targets, views, Affinity(affinity)).steps.iter().map(|step| step.target).collect()
}

fn whys(views: &[View]) -> Vec<&'static str> {
    let targets = targets(&vec![(0, 1); views.len()]);
    let mut steps = plan(&targets, views, Affinity(1)).steps;
    steps.sort_by_key(|step| step.target);
    steps.iter().map(|step| step.why.as_str()).collect()
}

#[test]
fn shares_are_as_the_weights_say_and_the_same_affinity_goes_to_the_same_member() {
    let (members, views) = (targets(&[(0, 3), (0, 1)]), [view(); 2]);
    let first = |affinity| order(&members, &views, affinity)[0];
    let to_the_heavy = (0..10_000).filter(|&affinity| first(affinity) == 0).count();
    assert!((7300..7700).contains(&to_the_heavy), "{to_the_heavy} of 10,000 for a weight of 3 to 1");
    assert!((0..100).all(|affinity| first(affinity) == first(affinity)));
}

#[test]
fn a_member_that_goes_moves_its_own_share_only() {
    let members = targets(&[(0, 1), (0, 1), (0, 1)]);
    let gone = View { circuit: Circuit::Probing, ..view() };
    for affinity in 0..1000 {
        let (all, rest) = (order(&members, &[view(); 3], affinity), order(&members, &[view(), gone, view()], affinity));
        if all[0] == 1 {
            assert_eq!(rest[0], all[1], "to the second choice of each");
        } else {
            assert_eq!(rest[0], all[0]);
        }
        assert_eq!(rest[2], 1);
    }
}

#[test]
fn a_member_over_its_share_of_the_calls_under_way_stands_behind_its_equals() {
    // Five calls on the way with this one: a member takes at most 1.25 × 5 / 2, rounded up.
    assert_eq!(whys(&[in_flight(4), in_flight(0)]), ["busy", "ready"]);
    assert_eq!(whys(&[in_flight(3), in_flight(1)]), ["ready", "ready"]);
    assert_eq!(whys(&[in_flight(0), in_flight(0)]), ["ready", "ready"]);
    let members = targets(&[(0, 1), (0, 1), (1, 1)]);
    for affinity in 0..100 {
        assert_eq!(order(&members, &[in_flight(9), view(), view()], affinity), [1, 0, 2], "before the next tier");
    }
}

#[test]
fn a_much_slower_member_is_an_outlier_if_enough_calls_say_so() {
    assert_eq!(whys(&[slow(100, 50), slow(310, 50)]), ["ready", "outlier"]);
    assert_eq!(whys(&[slow(100, 50), slow(300, 50)]), ["ready", "ready"]);
    assert_eq!(whys(&[slow(100, 50), slow(900, 49)]), ["ready", "ready"]);
    assert_eq!(whys(&[slow(100, 49), slow(900, 50)]), ["ready", "ready"], "nobody to compare it with");
    assert_eq!(whys(&[slow(100, 50)]), ["ready"]);
}

#[test]
fn a_member_that_fails_much_more_often_is_an_outlier_if_enough_calls_say_so() {
    assert_eq!(whys(&[failing(50, 0), failing(50, 10)]), ["ready", "outlier"]);
    assert_eq!(whys(&[failing(50, 0), failing(50, 9)]), ["ready", "ready"], "under a fifth");
    assert_eq!(whys(&[failing(50, 0), failing(49, 20)]), ["ready", "ready"]);
    assert_eq!(whys(&[failing(50, 10), failing(50, 24)]), ["ready", "ready"], "they all fail");
}

#[test]
fn at_most_half_of_a_tier_is_out_for_being_worse() {
    assert_eq!(
        whys(&[slow(1, 50), slow(1, 50), slow(50, 50), slow(900, 50)]),
        ["ready", "ready", "outlier", "outlier"]
    );
    let open = View { circuit: Circuit::Probing, ..slow(1, 50) };
    assert_eq!(whys(&[open, slow(1, 50), slow(90, 50), slow(900, 50)]), ["open", "ready", "ready", "outlier"]);
    assert_eq!(whys(&[open, slow(900, 50)]), ["open", "ready"]);
}

#[test]
fn who_should_get_no_calls_stands_last_the_least_bad_first() {
    let now = Instant::now();
    let (soon, late) = (now + Duration::from_secs(1), now + Duration::from_secs(2));
    let open = |until| View { circuit: Circuit::Open { until }, ..view() };
    let limited = |until| View { not_before: Some(until), ..view() };
    let members = targets(&[(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)]);
    let views = [open(late), limited(late), open(soon), limited(soon), view()];
    assert_eq!(order(&members, &views, 7), [4, 3, 1, 2, 0]);
    let probing = View { circuit: Circuit::Due, ..view() };
    assert_eq!(order(&members[..2], &[probing, view()], 7), [0, 1], "a probe has its usual place");
}

fn any_view() -> impl Strategy<Value = View> {
    let now = Instant::now();
    let until = (0u64..5).prop_map(move |s| now + Duration::from_secs(s));
    let circuit = prop_oneof![
        3 => Just(Circuit::Closed),
        1 => until.clone().prop_map(|until| Circuit::Open { until }),
        1 => Just(Circuit::Due),
        1 => Just(Circuit::Probing),
    ];
    let ttft = proptest::option::of((1u64..1000, 0u32..100));
    (circuit, proptest::option::weighted(0.2, until), 0u32..50, (0u32..100, 0u32..100), ttft).prop_map(
        |(circuit, not_before, in_flight, (calls, failures), ttft)| View {
            circuit,
            not_before,
            in_flight,
            tally: Tally { calls, failures: failures.min(calls) },
            ttft: ttft.map(|(ms, of)| Middle { p50: Duration::from_millis(ms), of }),
        },
    )
}

proptest! {
    #[test]
    fn every_target_is_planned_once_and_no_tier_before_an_earlier_one_that_takes_calls(
        (members, views) in proptest::collection::vec(((0usize..4, 1u32..10), any_view()), 1..12).prop_map(|of| {
            let (mut places, views): (Vec<_>, Vec<_>) = of.into_iter().unzip();
            places.sort_by_key(|place| place.0);
            (places, views)
        }),
        affinity in any::<u64>(),
    ) {
        let targets = targets(&members);
        let steps = plan(&targets, &views, Affinity(affinity)).steps;
        let mut each: Vec<_> = steps.iter().map(|step| step.target).collect();
        each.sort_unstable();
        prop_assert_eq!(each, (0..targets.len()).collect::<Vec<_>>());
        let first_out = steps.iter().position(|step| step.why.is_out()).unwrap_or(steps.len());
        prop_assert!(steps[first_out..].iter().all(|step| step.why.is_out()));
        prop_assert!(steps[..first_out].is_sorted_by_key(|step| targets[step.target].tier));
        for tier in 0..4 {
            let of_tier: Vec<_> = steps.iter().filter(|step| targets[step.target].tier == tier).collect();
            let outliers = of_tier.iter().filter(|step| step.why == Why::Outlier).count();
            let out = of_tier.iter().filter(|step| step.why.is_out()).count();
            prop_assert!(outliers == 0 || out * 2 <= of_tier.len(), "outliers are never more than what is left");
        }
    }
}
