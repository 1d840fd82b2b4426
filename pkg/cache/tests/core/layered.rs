//! The layers together: exact before semantic, and a semantic hit is an exact entry.

use crate::fixture::{
    BOIL, CONFIG, EVERYTHING, HOUR_MS, NOW, POACH, POACH_POLITE, POACH_SPELLED, Replica, SEMANTIC, entry, exact,
    is_miss, partition, semantic,
};
use signet_cache::{Ask, CacheKey, Lookup, Miss, Mode, ReadPolicy, SemanticConfig};

fn miss(found: Lookup) -> Miss {
    if let Lookup::Miss(miss) = found { miss } else { panic!("{found:?}") }
}

#[tokio::test]
async fn the_very_same_request_is_an_exact_hit_and_a_rephrased_one_a_semantic_hit() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    let held = entry(home, POACH);
    replica.keep(&held).await;
    assert_eq!(exact(&replica.ask(&home, POACH).await), Some(held.id));
    for (text, tier) in [(POACH_POLITE, "same-words"), (POACH_SPELLED, "vector")] {
        let found = replica.ask(&home, text).await;
        let Lookup::Semantic(served, decision) = &found else { panic!("{found:?}") };
        assert_eq!((served.id, decision.tier), (held.id, Some(tier)));
    }
}

#[tokio::test]
async fn a_semantic_hit_prolongs_nothing_and_writes_no_exact_entry() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    let held = entry(home, POACH);
    replica.keep(&held).await;
    assert!(semantic(&replica.ask_so(&home, POACH_POLITE, EVERYTHING, NOW + HOUR_MS - 1).await).is_some());
    assert!(!replica.cache.holds(&CacheKey::derive(&home, POACH_POLITE.as_bytes()), held.id));
    assert!(is_miss(&replica.ask_so(&home, POACH_POLITE, EVERYTHING, NOW + HOUR_MS).await));
    assert!(replica.shared.is_empty());
}

#[tokio::test]
async fn a_question_whose_answer_is_gone_is_a_miss_that_claims_no_hit() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    let held = entry(home, POACH);
    let layer = replica.cache.semantic().expect("on");
    let prepared = layer.prepare(&home, POACH).await.expect("eligible");
    layer.insert(held.id, held.key, held.expires_ms, prepared);
    for text in [POACH_POLITE, POACH_SPELLED] {
        let missed = miss(replica.ask(&home, text).await);
        assert_eq!(missed.decision.tier, None, "{text}");
        assert!(missed.prepared.is_some(), "the fresh answer will fill it");
    }
    replica.share(&held).await;
    assert_eq!(semantic(&replica.ask(&home, POACH_POLITE).await), Some(held.id), "fetched from the shared layer");
    assert_eq!(replica.faults(), (0, 0));
}

#[tokio::test]
async fn a_semantic_answer_older_than_wanted_is_a_miss() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    replica.keep(&entry(home, POACH)).await;
    let read = ReadPolicy { max_age_ms: Some(1_000), ..EVERYTHING };
    assert!(semantic(&replica.ask_so(&home, POACH_POLITE, read, NOW + 1_000).await).is_some());
    assert!(is_miss(&replica.ask_so(&home, POACH_POLITE, read, NOW + 1_001).await));
}

#[tokio::test]
async fn a_caller_can_raise_the_floor_of_a_lookup() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    replica.keep(&entry(home, POACH)).await;
    let read = ReadPolicy { floor: Some(0.96), ..EVERYTHING };
    assert!(is_miss(&replica.ask_so(&home, POACH_SPELLED, read, NOW).await));
    let read = ReadPolicy { floor: Some(0.1), ..EVERYTHING };
    assert!(semantic(&replica.ask_so(&home, POACH_SPELLED, read, NOW).await).is_some());
}

#[tokio::test]
async fn another_question_is_a_miss_that_names_the_gate_and_can_be_filled() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    replica.keep(&entry(home, POACH)).await;
    let missed = miss(replica.ask(&home, BOIL).await);
    assert_eq!(missed.decision.refused_by, Some("words"));
    let fresh = entry(home, BOIL);
    replica.cache.insert(std::sync::Arc::new(fresh.clone()), missed.prepared);
    assert_eq!(semantic(&replica.ask(&home, "how do I boil an egg in a shop").await), Some(fresh.id));
}

#[tokio::test]
async fn shadow_mode_serves_exact_hits_only_and_says_what_it_would_have_done() {
    let config = SemanticConfig { mode: Mode::Shadow, ..SEMANTIC };
    let (replica, home) = (Replica::with(CONFIG, config), partition(1, ""));
    let held = entry(home, POACH);
    replica.keep(&held).await;
    assert_eq!(exact(&replica.ask(&home, POACH).await), Some(held.id));
    let missed = miss(replica.ask(&home, POACH_POLITE).await);
    assert_eq!((missed.decision.tier, missed.decision.shadowed), (Some("same-words"), true));
    assert!(missed.prepared.is_some(), "shadow mode fills the layer");
}

#[tokio::test]
async fn a_layer_that_is_off_is_neither_consulted_nor_filled() {
    let config = SemanticConfig { mode: Mode::Off, ..SEMANTIC };
    let (replica, home) = (Replica::with(CONFIG, config), partition(1, ""));
    replica.keep(&entry(home, POACH)).await;
    assert!(replica.cache.semantic().is_none());
    let missed = miss(replica.ask(&home, POACH_POLITE).await);
    assert!(missed.prepared.is_none());
    assert_eq!(missed.decision, signet_cache::Decision::default());
    assert!(exact(&replica.ask(&home, POACH).await).is_some());
}

#[tokio::test]
async fn a_request_that_reads_no_semantic_answers_still_gets_its_question_prepared() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    replica.keep(&entry(home, POACH)).await;
    let read = ReadPolicy { semantic: false, ..EVERYTHING };
    let missed = miss(replica.ask_so(&home, POACH_POLITE, read, NOW).await);
    assert_eq!(missed.decision, signet_cache::Decision::default());
    assert!(missed.prepared.is_some());
}

#[tokio::test]
async fn an_answer_to_the_very_same_request_is_exact_whichever_layer_found_it() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    let held = entry(home, POACH);
    replica.keep(&held).await;
    let read = ReadPolicy { exact: false, ..EVERYTHING };
    assert_eq!(exact(&replica.ask_so(&home, POACH, read, NOW).await), Some(held.id));
    assert_eq!(semantic(&replica.ask_so(&home, POACH_POLITE, read, NOW).await), Some(held.id));
}

#[tokio::test]
async fn an_exact_hit_from_the_shared_layer_makes_its_question_findable() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    let held = entry(home, POACH);
    replica.share(&held).await;
    assert_eq!(exact(&replica.ask(&home, POACH).await), Some(held.id));
    assert_eq!(semantic(&replica.ask(&home, POACH_POLITE).await), Some(held.id));
    assert_eq!(semantic(&replica.ask(&home, POACH_SPELLED).await), Some(held.id));
}

#[tokio::test]
async fn a_semantic_answer_fetched_from_the_shared_layer_leaves_its_question_findable() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    let held = entry(home, POACH);
    let layer = replica.cache.semantic().expect("on");
    let prepared = layer.prepare(&home, POACH).await.expect("eligible");
    layer.insert(held.id, held.key, held.expires_ms, prepared);
    replica.share(&held).await;
    for _ in 0..3 {
        let found = replica.ask(&home, POACH_POLITE).await;
        let Lookup::Semantic(_, decision) = &found else { panic!("{found:?}") };
        assert_eq!(decision.tier, Some("same-words"));
        assert_eq!(layer.len(), 1);
    }
}

#[tokio::test]
async fn an_ineligible_request_is_a_miss_with_its_reason_and_still_an_exact_hit() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    let text = "Where is my parcel?";
    let missed = miss(replica.ask(&home, text).await);
    assert!(missed.decision.ineligible.is_some() && missed.prepared.is_none());
    let key = CacheKey::derive(&home, text.as_bytes());
    let ask = Ask { partition: &home, key: &key, question: Err("tools"), read: EVERYTHING, now_ms: NOW };
    let missed = miss(replica.cache.lookup(&ask).await);
    assert_eq!((missed.decision.ineligible, missed.prepared.is_none()), (Some("tools"), true));
    let held = entry(home, text);
    replica.keep(&held).await;
    assert_eq!(exact(&replica.cache.lookup(&ask).await), Some(held.id));
}

#[tokio::test]
async fn tenants_and_namespaces_with_equal_prompts_never_share_an_answer() {
    let replica = Replica::new();
    let homes = [partition(1, ""), partition(2, ""), partition(1, "b")];
    let mut held = Vec::new();
    for home in homes {
        for text in [POACH, POACH_POLITE, POACH_SPELLED] {
            let found = replica.ask(&home, text).await;
            assert!(is_miss(&found), "{found:?}");
        }
        held.push(entry(home, POACH));
        replica.store(&held[held.len() - 1]).await;
    }
    for (home, own) in homes.iter().zip(&held) {
        assert_eq!(exact(&replica.ask(home, POACH).await), Some(own.id));
        assert_eq!(semantic(&replica.ask(home, POACH_POLITE).await), Some(own.id));
        assert_eq!(semantic(&replica.ask(home, POACH_SPELLED).await), Some(own.id));
    }
}

#[tokio::test]
async fn an_encoder_that_fails_costs_vector_hits_and_nothing_else() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    let held = entry(home, POACH);
    replica.keep(&held).await;
    replica.embedder.set_broken(true);
    assert_eq!(exact(&replica.ask(&home, POACH).await), Some(held.id));
    assert_eq!(semantic(&replica.ask(&home, POACH_POLITE).await), Some(held.id));
    assert!(is_miss(&replica.ask(&home, POACH_SPELLED).await));
}
