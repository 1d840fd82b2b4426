//! Lookups under the terms of a route: what labels allow, and what is drawn to be labelled.

use crate::fixture::{BOIL, EVERYTHING, NOW, POACH, POACH_SPELLED, Replica, entry, exact, partition, semantic};
use signet_cache::{Ask, CacheKey, Lookup, Miss, Partition, ReadPolicy, Terms};

/// [`POACH_SPELLED`] is at 0.95 from [`POACH`].
const ON: Terms = Terms { serve_from: Some(0.9), look_from: 0.9, sampled: false };

async fn ask(replica: &Replica, home: &Partition, text: &str, read: ReadPolicy, terms: &Terms) -> Lookup {
    let key = CacheKey::derive(home, text.as_bytes());
    replica.cache.lookup_under(&Ask { partition: home, key: &key, question: Ok(text), read, now_ms: NOW }, terms).await
}

#[track_caller]
fn miss(found: Lookup) -> Miss {
    let Lookup::Miss(miss) = found else { panic!("a miss: {found:?}") };
    miss
}

#[tokio::test]
async fn a_sampled_hit_is_a_miss_that_brings_its_candidate() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    let held = entry(home, POACH);
    replica.keep(&held).await;
    assert_eq!(semantic(&ask(&replica, &home, POACH_SPELLED, EVERYTHING, &ON).await), Some(held.id));
    let drawn = Terms { sampled: true, ..ON };
    let missed = miss(ask(&replica, &home, POACH_SPELLED, EVERYTHING, &drawn).await);
    assert_eq!(missed.candidate.map(|entry| entry.id), Some(held.id));
    assert_eq!((missed.decision.tier, missed.decision.sampled), (Some("vector"), true));
    assert!(missed.prepared.is_some());
    assert_eq!(
        exact(&ask(&replica, &home, POACH, EVERYTHING, &drawn).await),
        Some(held.id),
        "exact hits are not drawn"
    );
    assert!(miss(ask(&replica, &home, BOIL, EVERYTHING, &drawn).await).candidate.is_none(), "the gates refuse it");
}

#[tokio::test]
async fn a_route_in_shadow_serves_nothing_and_its_decisions_are_drawn_all_the_same() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    let held = entry(home, POACH);
    replica.keep(&held).await;
    let shadow = Terms { serve_from: None, ..ON };
    let missed = miss(ask(&replica, &home, POACH_SPELLED, EVERYTHING, &shadow).await);
    assert_eq!((missed.decision.tier, missed.decision.shadowed), (Some("vector"), true));
    assert!(missed.candidate.is_none());
    let drawn = Terms { sampled: true, ..shadow };
    let missed = miss(ask(&replica, &home, POACH_SPELLED, EVERYTHING, &drawn).await);
    assert_eq!(missed.candidate.map(|entry| entry.id), Some(held.id));
}

#[tokio::test]
async fn under_the_floor_that_labels_set_a_candidate_is_no_hit_but_may_be_drawn() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    replica.keep(&entry(home, POACH)).await;
    let raised = Terms { serve_from: Some(0.96), ..ON };
    let missed = miss(ask(&replica, &home, POACH_SPELLED, EVERYTHING, &raised).await);
    assert_eq!((missed.decision.tier, missed.decision.floor), (None, Some(0.96)));
    assert!(missed.candidate.is_none() && !missed.decision.shadowed);
    let drawn = Terms { sampled: true, ..raised };
    assert!(miss(ask(&replica, &home, POACH_SPELLED, EVERYTHING, &drawn).await).candidate.is_some());
    let choosy = ReadPolicy { floor: Some(0.97), ..EVERYTHING };
    assert!(
        miss(ask(&replica, &home, POACH_SPELLED, choosy, &drawn).await).candidate.is_none(),
        "no hit to that caller"
    );
    assert!(semantic(&ask(&replica, &home, POACH_SPELLED, choosy, &ON).await).is_none());
}
