//! The semantic layer by itself: which stored question is the one being asked.

use crate::fixture::{
    BOIL, FLOOR, HOUR_MS, NOW, POACH, POACH_POLITE, POACH_SPELLED, SEMANTIC, at_cosine, embedder, partition,
};
use async_trait::async_trait;
use signet_cache::{
    CacheKey, Decision, Embedder, Mode, Neighbour, Partition, Place, Prepared, Question, Semantic, SemanticConfig,
    VectorIndex,
};
use signet_testkit::{BruteForceIndex, TableEmbedder};
use signet_types::EntryId;
use std::sync::Arc;

struct Layer {
    semantic: Semantic,
    embedder: Arc<TableEmbedder>,
    index: Arc<BruteForceIndex>,
}

impl Layer {
    fn new() -> Self {
        Self::with(SEMANTIC, embedder(), BruteForceIndex::default())
    }

    fn with(config: SemanticConfig, embedder: TableEmbedder, index: BruteForceIndex) -> Self {
        let (embedder, index) = (Arc::new(embedder), Arc::new(index));
        let semantic = Semantic::new(config, embedder.clone(), index.clone());
        Self { semantic, embedder, index }
    }

    async fn prepare(&self, home: &Partition, text: &str) -> Prepared {
        self.semantic.prepare(home, text).await.expect("eligible")
    }

    /// Stores a question under an id of its own.
    async fn learn(&self, n: u8, home: &Partition, text: &str) -> CacheKey {
        let key = CacheKey::derive(home, text.as_bytes());
        self.semantic.insert(id(n), key, NOW + HOUR_MS, self.prepare(home, text).await);
        self.assert_consistent();
        key
    }

    async fn ask(&self, home: &Partition, text: &str) -> (Option<CacheKey>, Decision) {
        self.semantic.decide(&self.prepare(home, text).await, None, NOW).await
    }

    async fn knows(&self, home: &Partition, text: &str) -> bool {
        self.ask(home, text).await.0.is_some()
    }

    /// Every question has its vector or waits for it, and no vector is left over.
    fn assert_consistent(&self) {
        assert_eq!(self.index.len() + self.semantic.waiting(), self.semantic.len());
    }
}

fn id(n: u8) -> EntryId {
    EntryId::from_bytes([n; 16])
}

#[tokio::test]
async fn the_same_words_are_a_hit_whatever_their_vectors() {
    let rows = [(POACH, [1.0, 0.0]), (POACH_POLITE, [0.0, 1.0])];
    let (layer, home) =
        (Layer::with(SEMANTIC, TableEmbedder::new(&rows), BruteForceIndex::default()), partition(1, ""));
    let key = layer.learn(1, &home, POACH).await;
    let (found, decision) = layer.ask(&home, POACH_POLITE).await;
    assert_eq!(found, Some(key));
    let expected = Decision {
        tier: Some("same-words"),
        similarity: Some(1.0),
        candidate: Some(key),
        floor: Some(FLOOR),
        ..Decision::default()
    };
    assert_eq!(decision, expected);
}

#[tokio::test]
async fn a_neighbour_over_the_floor_that_passes_every_gate_is_a_hit() {
    let (layer, home) = (Layer::new(), partition(1, ""));
    let key = layer.learn(1, &home, POACH).await;
    let (found, decision) = layer.ask(&home, POACH_SPELLED).await;
    assert_eq!(found, Some(key));
    assert_eq!((decision.tier, decision.refused_by, decision.shadowed), (Some("vector"), None, false));
    let similarity = decision.similarity.expect("a candidate");
    assert!((similarity - 0.95).abs() < 1e-5, "{similarity}");
}

#[tokio::test]
async fn a_neighbour_at_the_floor_is_a_hit_and_one_just_under_it_is_not() {
    let home = partition(1, "");
    let similarity = {
        let layer = Layer::new();
        layer.learn(1, &home, POACH).await;
        layer.ask(&home, POACH_SPELLED).await.1.similarity.expect("a candidate")
    };
    for (floor, hit) in [(similarity, true), (similarity.next_up(), false)] {
        let config = SemanticConfig { floor, ..SEMANTIC };
        let layer = Layer::with(config, embedder(), BruteForceIndex::default());
        layer.learn(1, &home, POACH).await;
        let (found, decision) = layer.ask(&home, POACH_SPELLED).await;
        assert_eq!(found.is_some(), hit);
        assert_eq!(decision.tier.is_some(), hit);
    }
}

#[tokio::test]
async fn a_caller_may_raise_the_floor_and_never_lower_it() {
    let (layer, home) = (Layer::new(), partition(1, ""));
    let key = layer.learn(1, &home, POACH).await;
    let asked = layer.prepare(&home, POACH_SPELLED).await;
    let decide = |floor| layer.semantic.decide(&asked, Some(floor), NOW);
    let (found, decision) = decide(0.96).await;
    assert_eq!((found, decision.floor, decision.tier), (None, Some(0.96), None));
    assert_eq!(decide(0.94).await.0, Some(key));
    let rows = [(POACH, [1.0, 0.0]), (POACH_SPELLED, at_cosine(0.85))];
    let layer = Layer::with(SEMANTIC, TableEmbedder::new(&rows), BruteForceIndex::default());
    layer.learn(1, &home, POACH).await;
    let asked = layer.prepare(&home, POACH_SPELLED).await;
    for lower in [0.8, 0.0, -1.0, f32::NEG_INFINITY, f32::NAN] {
        let (found, decision) = layer.semantic.decide(&asked, Some(lower), NOW).await;
        assert_eq!((found, decision.floor), (None, Some(FLOOR)), "{lower}");
    }
}

#[tokio::test]
async fn a_refused_candidate_is_recorded_with_its_gate_and_similarity() {
    let (layer, home) = (Layer::new(), partition(1, ""));
    layer.learn(1, &home, POACH).await;
    let (found, decision) = layer.ask(&home, BOIL).await;
    assert_eq!((found, decision.tier, decision.refused_by), (None, None, Some("words")));
    let similarity = decision.similarity.expect("the refused candidate's");
    assert!((similarity - 0.99).abs() < 1e-5, "{similarity}");
}

#[tokio::test]
async fn a_candidate_behind_a_refused_one_may_still_be_served() {
    let rows = [(BOIL, [1.0, 0.0]), (POACH, at_cosine(0.95)), (POACH_SPELLED, [1.0, 0.0])];
    let (layer, home) =
        (Layer::with(SEMANTIC, TableEmbedder::new(&rows), BruteForceIndex::default()), partition(1, ""));
    layer.learn(1, &home, BOIL).await;
    let key = layer.learn(2, &home, POACH).await;
    let (found, decision) = layer.ask(&home, POACH_SPELLED).await;
    assert_eq!((found, decision.tier, decision.refused_by), (Some(key), Some("vector"), None));
    let similarity = decision.similarity.expect("the one served");
    assert!((similarity - 0.95).abs() < 1e-5, "{similarity}");
}

#[tokio::test]
async fn of_several_refused_candidates_the_nearest_is_recorded() {
    let rows = [(POACH, [1.0, 0.0]), (BOIL, at_cosine(0.98)), ("Who poached an egg?", at_cosine(0.93))];
    let (layer, home) =
        (Layer::with(SEMANTIC, TableEmbedder::new(&rows), BruteForceIndex::default()), partition(1, ""));
    layer.learn(1, &home, BOIL).await;
    layer.learn(2, &home, "Who poached an egg?").await;
    let (found, decision) = layer.ask(&home, POACH).await;
    assert_eq!((found, decision.refused_by), (None, Some("words")));
    assert!((decision.similarity.expect("the nearest") - 0.98).abs() < 1e-5);
}

#[tokio::test]
async fn shadow_mode_decides_and_does_not_serve() {
    let config = SemanticConfig { mode: Mode::Shadow, ..SEMANTIC };
    let (layer, home) = (Layer::with(config, embedder(), BruteForceIndex::default()), partition(1, ""));
    layer.learn(1, &home, POACH).await;
    for (text, tier) in [(POACH_POLITE, "same-words"), (POACH_SPELLED, "vector")] {
        let (found, decision) = layer.ask(&home, text).await;
        assert_eq!((found, decision.tier, decision.shadowed), (None, Some(tier), true));
    }
    let (found, decision) = layer.ask(&home, BOIL).await;
    assert_eq!((found, decision.tier, decision.shadowed), (None, None, false));
}

#[tokio::test]
async fn an_expired_question_is_not_served_by_either_tier() {
    let (layer, home) = (Layer::new(), partition(1, ""));
    layer.learn(1, &home, POACH).await;
    for text in [POACH_POLITE, POACH_SPELLED] {
        let asked = layer.prepare(&home, text).await;
        assert!(layer.semantic.decide(&asked, None, NOW + HOUR_MS - 1).await.0.is_some());
        let (found, decision) = layer.semantic.decide(&asked, None, NOW + HOUR_MS).await;
        assert_eq!((found, decision.tier, decision.similarity), (None, None, None));
    }
}

/// Questions that no gate lets pass for one another, with one vector.
const ANIMALS: [&str; 6] = [
    "What do whales eat?",
    "What do herons eat?",
    "What do badgers eat?",
    "What do otters eat?",
    "What do lizards eat?",
    "What do spiders eat?",
];

fn animals(max_entries: usize) -> Layer {
    let rows = ANIMALS.map(|text| (text, [1.0, 0.0]));
    Layer::with(SemanticConfig { max_entries, ..SEMANTIC }, TableEmbedder::new(&rows), BruteForceIndex::default())
}

async fn known(layer: &Layer, home: &Partition) -> Vec<usize> {
    let mut known = Vec::new();
    for (n, text) in ANIMALS.iter().enumerate() {
        if layer.knows(home, text).await {
            known.push(n);
        }
    }
    known
}

#[tokio::test]
async fn beyond_its_bound_the_oldest_question_leaves_and_its_vector_with_it() {
    let (layer, home) = (animals(3), partition(1, ""));
    for (n, text) in (0..).zip(ANIMALS) {
        layer.learn(n, &home, text).await;
        assert!(layer.semantic.len() <= 3);
    }
    assert_eq!(known(&layer, &home).await, [3, 4, 5]);
    assert_eq!(layer.index.len(), 3);
}

#[tokio::test]
async fn whoever_holds_no_more_than_a_fair_share_loses_nothing_to_a_flood() {
    let layer = animals(6);
    let (mine, theirs, flooded) = (partition(1, ""), partition(2, ""), partition(3, ""));
    for (n, home, text) in [(1, &mine, 0), (2, &mine, 1), (3, &theirs, 0)] {
        layer.learn(n, home, ANIMALS[text]).await;
    }
    for n in 0..40 {
        // Namespaces of its own give nobody a second share.
        let flooded = if n % 2 == 0 { flooded } else { partition(3, "n") };
        layer.learn(100 + n, &flooded, ANIMALS[usize::from(n / 2) % 6]).await;
    }
    assert_eq!((layer.semantic.len(), known(&layer, &mine).await), (6, vec![0, 1]));
    assert_eq!(known(&layer, &theirs).await, [0]);
    layer.learn(4, &mine, ANIMALS[2]).await;
    layer.learn(5, &mine, ANIMALS[3]).await;
    assert_eq!(known(&layer, &mine).await, [1, 2, 3], "whoever holds most gives way, whoever that is");
    layer.semantic.remove_tenant(crate::fixture::tenant(3));
    assert!(layer.semantic.len() >= 3 && known(&layer, &flooded).await.is_empty());
}

#[tokio::test]
async fn a_question_that_is_answered_again_counts_as_new() {
    let (layer, home) = (animals(3), partition(1, ""));
    for (n, at) in [(1, 0), (2, 1), (3, 2), (4, 0), (5, 3)] {
        layer.learn(n, &home, ANIMALS[at]).await;
    }
    assert_eq!(known(&layer, &home).await, [0, 2, 3]);
}

#[tokio::test]
async fn an_entry_that_is_learnt_twice_stays_findable_and_counts_as_new() {
    let (layer, home) = (animals(2), partition(1, ""));
    layer.learn(1, &home, ANIMALS[0]).await;
    layer.learn(2, &home, ANIMALS[1]).await;
    for _ in 0..3 {
        layer.learn(1, &home, ANIMALS[0]).await;
    }
    assert_eq!(layer.semantic.len(), 2);
    assert_eq!(layer.ask(&home, ANIMALS[0]).await.1.tier, Some("same-words"));
    layer.learn(3, &home, ANIMALS[2]).await;
    assert_eq!(known(&layer, &home).await, [0, 2]);
}

#[tokio::test]
async fn an_id_that_comes_with_another_question_leaves_nothing_of_its_former_one() {
    let (layer, home) = (animals(2), partition(1, ""));
    layer.learn(1, &home, ANIMALS[0]).await;
    let key = layer.learn(1, &home, ANIMALS[1]).await;
    assert_eq!((layer.semantic.len(), known(&layer, &home).await), (1, vec![1]));
    layer.learn(2, &home, ANIMALS[0]).await;
    assert_eq!(layer.ask(&home, ANIMALS[1]).await.0, Some(key), "both have room");
}

#[tokio::test]
async fn a_layer_without_room_holds_nothing() {
    let (layer, home) = (animals(0), partition(1, ""));
    layer.learn(1, &home, ANIMALS[0]).await;
    assert!(layer.semantic.is_empty() && layer.index.is_empty());
}

#[tokio::test]
async fn a_removed_question_is_gone_with_its_vector() {
    let (layer, home) = (animals(3), partition(1, ""));
    for n in 0..3 {
        layer.learn(n, &home, ANIMALS[usize::from(n)]).await;
    }
    for _ in 0..2 {
        layer.semantic.remove(id(1));
        layer.assert_consistent();
        assert_eq!(known(&layer, &home).await, [0, 2]);
    }
    layer.learn(3, &home, ANIMALS[3]).await;
    assert_eq!(known(&layer, &home).await, [0, 2, 3], "there was room again");
}

#[tokio::test]
async fn a_newer_question_of_the_same_words_replaces_the_older() {
    let (layer, home) = (Layer::new(), partition(1, ""));
    let older = layer.learn(1, &home, POACH).await;
    let newer = layer.learn(2, &home, POACH_POLITE).await;
    assert_ne!(older, newer);
    assert_eq!(layer.semantic.len(), 1);
    assert_eq!(layer.ask(&home, POACH).await.0, Some(newer));
    assert_eq!(layer.ask(&home, POACH_SPELLED).await.0, Some(newer));
    layer.semantic.remove(id(1));
    assert_eq!(layer.ask(&home, POACH).await.0, Some(newer), "the replaced id means nothing any more");
}

#[tokio::test]
async fn tenants_and_namespaces_never_meet_even_if_the_index_confuses_them() {
    for index in [BruteForceIndex::default(), BruteForceIndex::leaky()] {
        let layer = Layer::with(SEMANTIC, embedder(), index);
        let (home, other_tenant, other_space) = (partition(1, ""), partition(2, ""), partition(1, "b"));
        let key = layer.learn(1, &home, POACH).await;
        for foreign in [&other_tenant, &other_space] {
            for text in [POACH, POACH_POLITE, POACH_SPELLED] {
                let (found, decision) = layer.ask(foreign, text).await;
                assert_eq!((found, decision.tier, decision.similarity), (None, None, None), "{text}");
            }
        }
        let theirs = layer.learn(2, &other_tenant, POACH).await;
        assert_eq!(layer.semantic.len(), 2, "equal words elsewhere replace nothing");
        assert_eq!(layer.ask(&home, POACH_POLITE).await.0, Some(key));
        assert_eq!(layer.ask(&other_tenant, POACH_POLITE).await.0, Some(theirs));
    }
}

#[tokio::test]
async fn an_encoder_that_fails_leaves_the_same_words_tier() {
    let (layer, home) = (Layer::new(), partition(1, ""));
    let key = layer.learn(1, &home, POACH).await;
    layer.embedder.set_broken(true);
    assert_eq!(layer.ask(&home, POACH_POLITE).await.0, Some(key));
    let (found, decision) = layer.ask(&home, POACH_SPELLED).await;
    assert_eq!((found, decision.similarity), (None, None));
    // What was learnt without a vector is found by its words too, and has no vector to leave behind.
    let prepared = layer.prepare(&home, BOIL).await;
    let boiled = CacheKey::derive(&home, BOIL.as_bytes());
    layer.semantic.insert(id(2), boiled, NOW + HOUR_MS, prepared);
    layer.embedder.set_broken(false);
    assert_eq!((layer.semantic.len(), layer.index.len(), layer.semantic.waiting()), (2, 0, 1));
    assert_eq!(layer.ask(&home, BOIL).await.0, Some(boiled));
    assert_eq!((layer.index.len(), layer.semantic.waiting()), (1, 0), "what waited got its vector");
    assert_eq!(layer.ask(&home, POACH_SPELLED).await.0, Some(key));
}

#[tokio::test]
async fn a_question_is_embedded_when_another_one_is_asked_in_its_place() {
    let (layer, home) = (Layer::new(), partition(1, ""));
    let key = layer.learn(1, &home, POACH).await;
    assert!(!layer.knows(&partition(2, ""), POACH).await);
    assert_eq!((layer.index.len(), layer.semantic.waiting()), (0, 1), "that was asked elsewhere");
    assert_eq!(layer.ask(&home, POACH_SPELLED).await.0, Some(key));
    assert_eq!((layer.index.len(), layer.semantic.waiting()), (1, 0));
}

#[tokio::test]
async fn a_question_that_leaves_before_it_was_embedded_leaves_nothing() {
    let (layer, home) = (Layer::new(), partition(1, ""));
    layer.learn(1, &home, POACH).await;
    layer.semantic.remove(id(1));
    assert_eq!(layer.semantic.waiting(), 0);
    assert!(!layer.knows(&home, POACH_SPELLED).await);
    assert!(layer.semantic.is_empty() && layer.index.is_empty());
}

#[tokio::test]
async fn a_question_that_may_not_be_judged_is_not_prepared_and_the_reason_is_given() {
    let (layer, home) = (Layer::new(), partition(1, ""));
    for text in ["And in Paris?", "", "Where is my parcel?", "Cancel the order"] {
        let reason = layer.semantic.prepare(&home, text).await.expect_err("not eligible");
        assert_eq!(Question::read(text).expect_err("not eligible").as_str(), reason);
    }
}

#[tokio::test]
async fn a_question_about_now_is_served_to_the_same_words_only_and_until_it_expires() {
    let (layer, home) = (Layer::new(), partition(1, ""));
    let (asked, again) = ("What is the weather in Rome today?", "so what's the weather in Rome today");
    let prepared = layer.prepare(&home, asked).await;
    assert!(prepared.volatile());
    let key = CacheKey::derive(&home, asked.as_bytes());
    layer.semantic.insert(id(1), key, NOW + 60_000, prepared);
    let again = layer.prepare(&home, again).await;
    for (now, served) in [(NOW, Some(key)), (NOW + 59_999, Some(key)), (NOW + 60_000, None)] {
        assert_eq!(layer.semantic.decide(&again, None, now).await.0, served, "{now}");
    }
    assert!(layer.index.is_empty() && layer.semantic.waiting() == 0, "no vector may find it");
    assert!(!layer.prepare(&home, POACH).await.volatile());
}

#[tokio::test]
async fn a_text_too_long_to_be_judged_is_served_to_itself_apart_from_outer_white_space() {
    let (layer, home) = (Layer::new(), partition(1, ""));
    let long = "How do I poach an egg? ".repeat(100);
    let prepared = layer.prepare(&home, &long).await;
    let key = CacheKey::derive(&home, long.as_bytes());
    layer.semantic.insert(id(1), key, NOW + HOUR_MS, prepared);
    let (found, decision) = layer.ask(&home, &format!("\n{}\n", long.trim())).await;
    assert_eq!((found, decision.tier), (Some(key), Some("same-words")));
    assert!(!layer.knows(&home, &long.replacen("an egg", "an  egg", 1)).await);
    assert!(layer.index.is_empty() && layer.semantic.waiting() == 0, "no vector may find it");
}

#[tokio::test]
async fn the_layer_names_its_encoder() {
    let layer = Layer::new();
    assert_eq!(layer.semantic.encoder(), layer.embedder.id());
}

/// An index that lets other threads go first.
#[derive(Default)]
struct Polite(BruteForceIndex);

#[async_trait]
impl VectorIndex for Polite {
    fn insert(&self, place: &Place, id: EntryId, vector: &[f32]) {
        (0..20).for_each(|_| std::thread::yield_now());
        self.0.insert(place, id, vector);
    }

    async fn nearest(&self, place: &Place, vector: &[f32], k: usize, floor: f32) -> Vec<Neighbour> {
        self.0.nearest(place, vector, k, floor)
    }

    fn remove(&self, place: &Place, id: EntryId) {
        self.0.remove(place, id);
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

#[tokio::test]
async fn questions_that_are_learnt_at_once_leave_no_vector_behind() {
    let (index, home) = (Arc::new(Polite::default()), partition(1, ""));
    let embedder = TableEmbedder::new(&ANIMALS.map(|text| (text, [1.0, 0.0])));
    let layer = Semantic::new(SemanticConfig { max_entries: 2, ..SEMANTIC }, Arc::new(embedder), index.clone());
    let first = layer.prepare(&home, ANIMALS[0]).await.expect("eligible");
    layer.insert(id(9), CacheKey::derive(&home, b"first"), NOW + HOUR_MS, first); // from now on nobody is alone
    let mut prepared = Vec::new();
    for text in ANIMALS {
        prepared.push((layer.prepare(&home, text).await.expect("eligible"), CacheKey::derive(&home, text.as_bytes())));
    }
    let learn = |thread: u8| {
        for n in 0..200_u8 {
            let (question, key) = &prepared[usize::from(n) % ANIMALS.len()];
            let mut bytes = [0; 16];
            bytes[..2].copy_from_slice(&[thread, n]);
            layer.insert(EntryId::from_bytes(bytes), *key, NOW + HOUR_MS, question.clone());
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|thread| drop(scope.spawn(move || learn(thread)))));
    assert_eq!((layer.len(), index.len()), (2, 2));
}
