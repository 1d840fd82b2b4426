//! The second look: who is scored again, and what a score decides.

use crate::fixture::{BOIL, FLOOR, HOUR_MS, NOW, POACH, POACH_POLITE, SEMANTIC, at_cosine, partition};
use async_trait::async_trait;
use signet_cache::{CacheKey, Decision, EmbedFault, Rescorer, Semantic};
use signet_testkit::{BruteForceIndex, TableEmbedder};
use signet_types::EntryId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Near synonyms in [`POACH`]: they pass every gate.
const STORE: &str = "How do I poach an egg in a store?";
const MISTAKES: [&str; 5] = [
    "How do I report a mistake by a company at a shop?",
    "How do I report an error by a company at a shop?",
    "How do I report a mistake by a firm at a shop?",
    "How do I report a mistake by a company at a store?",
    "How do I report an error by a firm at a store?",
];

/// Scores that a test writes down, and what was asked.
#[derive(Default)]
struct Scripted {
    scores: HashMap<&'static str, f32>,
    scored: Mutex<Vec<String>>,
    forgotten: Mutex<Vec<EntryId>>,
    on_score: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

#[async_trait]
impl Rescorer for Scripted {
    fn id(&self) -> &'static str {
        "scripted"
    }

    async fn rescore(&self, _: &Arc<str>, stored: &[(EntryId, Arc<str>)]) -> Result<Vec<f32>, EmbedFault> {
        self.scored.lock().expect("one test").extend(stored.iter().map(|(_, text)| text.to_string()));
        if let Some(act) = self.on_score.lock().expect("one test").take() {
            act();
        }
        let score = |(_, text): &(EntryId, Arc<str>)| self.scores.get(&**text).copied();
        stored.iter().map(score).collect::<Option<_>>().ok_or_else(|| EmbedFault("on purpose".to_owned()))
    }

    fn forget(&self, id: EntryId) {
        self.forgotten.lock().expect("one test").push(id);
    }
}

struct Layer {
    semantic: Arc<Semantic>,
    rescorer: Arc<Scripted>,
}

impl Layer {
    /// What the table says of each text's cosine to [`STORE`], and what it scores when looked at again.
    fn new(texts: &[(&'static str, f32, Option<f32>)]) -> Self {
        let scores = texts.iter().filter_map(|(text, _, score)| Some((*text, (*score)?))).collect();
        let rescorer = Arc::new(Scripted { scores, ..Scripted::default() });
        let rows: Vec<_> = texts.iter().map(|(text, cosine, _)| (*text, at_cosine(*cosine))).collect();
        let embedder = Arc::new(TableEmbedder::new(&[&rows[..], &[(STORE, [1.0, 0.0])]].concat()));
        let semantic = Semantic::new(SEMANTIC, embedder, Arc::new(BruteForceIndex::default()));
        Self { semantic: Arc::new(semantic.rescored(rescorer.clone())), rescorer }
    }

    async fn learn(&self, n: u8, text: &str) -> CacheKey {
        let (home, id) = (partition(1, ""), EntryId::from_bytes([n; 16]));
        let key = CacheKey::derive(&home, text.as_bytes());
        let prepared = self.semantic.prepare(&home, text).await.expect("eligible");
        self.semantic.insert(id, key, NOW + HOUR_MS, prepared);
        key
    }

    async fn ask(&self, text: &str) -> (Option<CacheKey>, Decision) {
        let prepared = self.semantic.prepare(&partition(1, ""), text).await.expect("eligible");
        self.semantic.decide(&prepared, None, NOW).await
    }

    fn scored(&self) -> Vec<String> {
        self.rescorer.scored.lock().expect("one test").clone()
    }
}

#[tokio::test]
async fn a_candidate_is_served_for_its_score_and_not_for_its_first_similarity() {
    for (similarity, score, hit) in [(0.71, FLOOR, true), (0.71, FLOOR.next_down(), false), (0.99, 0.5, false)] {
        let layer = Layer::new(&[(POACH, similarity, Some(score))]);
        let key = layer.learn(1, POACH).await;
        let (found, decision) = layer.ask(STORE).await;
        assert_eq!(found, hit.then_some(key), "{similarity} {score}");
        assert_eq!(decision.tier, hit.then_some("vector"));
        assert_eq!((decision.similarity, decision.floor, decision.refused_by), (Some(score), Some(FLOOR), None));
    }
}

#[tokio::test]
async fn what_lies_too_far_by_the_first_encoder_is_not_looked_at_again() {
    let layer = Layer::new(&[(POACH, 0.69, Some(1.0))]);
    layer.learn(1, POACH).await;
    assert_eq!(layer.ask(STORE).await.0, None);
    assert!(layer.scored().is_empty());
}

#[tokio::test]
async fn a_candidate_that_a_gate_refuses_is_never_scored() {
    let layer = Layer::new(&[(BOIL, 0.99, Some(1.0)), (POACH, 0.8, Some(0.95))]);
    layer.learn(1, BOIL).await;
    assert!(layer.ask(STORE).await.1.refused_by.is_some());
    assert!(layer.scored().is_empty());
    let key = layer.learn(2, POACH).await;
    assert_eq!(layer.ask(STORE).await.0, Some(key));
    assert_eq!(layer.scored(), [POACH]);
}

#[tokio::test]
async fn the_best_score_wins_and_of_equal_ones_the_nearer() {
    for (scores, best) in [([0.93, 0.96, 0.95], 1), ([0.96, 0.95, 0.96], 0), ([0.91, 0.92, 0.93], 2)] {
        let near = [0.9, 0.85, 0.8];
        let texts: Vec<_> = (0..3).map(|n| (MISTAKES[n], near[n], Some(scores[n]))).collect();
        let layer = Layer::new(&[&texts[..], &[(MISTAKES[4], 1.0, None)]].concat());
        let mut keys = Vec::new();
        for (n, text) in (1..).zip(&MISTAKES[..3]) {
            keys.push(layer.learn(n, text).await);
        }
        let (found, decision) = layer.ask(MISTAKES[4]).await;
        assert_eq!((found, decision.similarity), (Some(keys[best]), Some(scores[best])));
    }
}

#[tokio::test]
async fn the_nearest_three_are_scored() {
    let near = [0.8, 0.9, 0.75, 0.95];
    let texts: Vec<_> = (0..4).map(|n| (MISTAKES[n], near[n], Some(0.5))).collect();
    let layer = Layer::new(&[&texts[..], &[(MISTAKES[4], 1.0, None)]].concat());
    for (n, text) in (1..).zip(&MISTAKES[..4]) {
        layer.learn(n, text).await;
    }
    assert_eq!(layer.ask(MISTAKES[4]).await.0, None);
    assert_eq!(layer.scored(), [MISTAKES[3], MISTAKES[1], MISTAKES[0]]);
}

#[tokio::test]
async fn without_scores_there_is_no_hit_and_no_similarity() {
    let layer = Layer::new(&[(POACH, 0.99, None)]);
    layer.learn(1, POACH).await;
    let (found, decision) = layer.ask(STORE).await;
    assert_eq!((found, decision), (None, Decision { floor: Some(FLOOR), ..Decision::default() }));
    assert_eq!(layer.scored(), [POACH]);
}

#[tokio::test]
async fn a_score_that_is_no_number_is_no_hit() {
    let layer = Layer::new(&[(POACH, 0.99, Some(f32::NAN))]);
    layer.learn(1, POACH).await;
    let (found, decision) = layer.ask(STORE).await;
    assert_eq!((found, decision.similarity, decision.tier), (None, None, None));
}

#[tokio::test]
async fn the_same_words_are_served_without_a_second_look() {
    let layer = Layer::new(&[(POACH, 0.99, None), (POACH_POLITE, 0.99, None)]);
    let key = layer.learn(1, POACH).await;
    let (found, decision) = layer.ask(POACH_POLITE).await;
    assert_eq!((found, decision.tier), (Some(key), Some("same-words")));
    assert!(layer.scored().is_empty());
}

#[tokio::test]
async fn a_question_that_leaves_while_it_is_scored_is_not_served() {
    let layer = Layer::new(&[(POACH, 0.99, Some(1.0))]);
    layer.learn(1, POACH).await;
    let semantic = layer.semantic.clone();
    let leave = move || semantic.remove(EntryId::from_bytes([1; 16]));
    *layer.rescorer.on_score.lock().expect("one test") = Some(Box::new(leave));
    let (found, decision) = layer.ask(STORE).await;
    assert_eq!((found, decision.tier), (None, None));
    assert_eq!(*layer.rescorer.forgotten.lock().expect("one test"), [EntryId::from_bytes([1; 16])]);
}

#[tokio::test]
async fn both_encoders_are_named() {
    assert_eq!(Layer::new(&[]).semantic.encoder(), "table+scripted");
}
