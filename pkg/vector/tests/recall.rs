//! What the coarse search of a large place loses, over prompts that the embedded encoder has read.

mod texts;

use signet_cache::{Neighbour, Partition, PartitionParts, Place, VectorIndex};
use signet_types::{EntryId, TenantId};
use signet_vector::{FlatIndex, StaticEncoder};
use texts::Texts;

const OPENINGS: [&str; 8] = ["", "", "", "", "please", "hi", "could you tell me", "quick question"];
const ENDINGS: [&str; 8] = ["", "?", "?", " ?", " again", " please", " in short", " exactly"];

/// `prompt` asked a little differently.
fn reworded(prompt: &str, texts: &mut Texts) -> String {
    format!("{} {prompt}{}", texts.pick(&OPENINGS), texts.pick(&ENDINGS))
}

/// What a lookup asks for.
const K: usize = 8;
/// So many neighbours are asked for by nobody in a hurry: every row is scored.
const EXACT_K: usize = 1000;

fn place() -> Place {
    let parts = PartitionParts {
        tenant: TenantId::from_bytes([1; 16]),
        namespace: "",
        operation: "chat",
        targets: [0; 32],
        policy_generation: 0,
        shape: [0; 32],
    };
    Place { partition: Partition::derive(&parts), bucket: 0 }
}

fn entry(number: u32) -> EntryId {
    EntryId::from_bytes(u128::from(number).to_be_bytes())
}

/// Neighbours that an exact search returns, those of them that the coarse one does as well, and whether each was first.
#[derive(Default, Debug)]
struct Recall {
    expected: u32,
    kept: u32,
    first_expected: u32,
    first_kept: u32,
}

impl Recall {
    /// Panics if the coarse search returns what is not so.
    fn add(&mut self, exact: &[Neighbour], coarse: &[Neighbour]) {
        for found in coarse {
            let same = |other: &&Neighbour| other.id == found.id;
            let true_similarity = exact.iter().find(same).map_or(found.similarity, |other| other.similarity);
            assert!((found.similarity - true_similarity).abs() < f32::EPSILON, "scores are exact");
        }
        for (at, wanted) in exact.iter().take(K).enumerate() {
            // As near as the exact search's at this rank: among equals, either is right.
            let kept = u32::from(coarse.get(at).is_some_and(|found| found.similarity >= wanted.similarity));
            self.expected += 1;
            self.kept += kept;
            if at == 0 {
                self.first_expected += 1;
                self.first_kept += kept;
            }
        }
    }

    fn check(&self, what: &str) {
        let share = |kept: u32, of: u32| f64::from(kept) / f64::from(of);
        let (all, first) = (share(self.kept, self.expected), share(self.first_kept, self.first_expected));
        eprintln!("{what}: {all:.4} of {}, the first {first:.4} of {}", self.expected, self.first_expected);
        assert!(self.first_expected > 300, "{what}: there is something to find: {self:?}");
        assert!(all >= 0.99 && first >= 0.99, "{what}: {self:?}");
    }
}

fn recall(index: &FlatIndex, queries: &[Vec<f32>], floor: f32) -> Recall {
    let mut recall = Recall::default();
    for query in queries {
        let exact = index.nearest(&place(), query, EXACT_K, floor);
        recall.add(&exact, &index.nearest(&place(), query, K, floor));
    }
    recall
}

#[test]
fn of_a_hundred_thousand_prompts_the_neighbours_over_the_floor_are_found() {
    let (encoder, index, mut texts) = (StaticEncoder::embedded(), FlatIndex::new(200_000), Texts(1));
    let encode = |text: &str| encoder.encode(text).expect("plain English").to_vec();
    let mut queries = Vec::new();
    for number in 0..100_000 {
        let prompt = texts.prompt();
        index.insert(&place(), entry(number), &encode(&prompt));
        if number % 100 == 0 {
            queries.push(encode(&reworded(&prompt, &mut texts)));
        }
    }
    for floor in [0.97, 0.9, 0.7] {
        recall(&index, &queries, floor).check(&format!("prompts over {floor}"));
    }
}

/// Rows without structure, and queries at exactly the floor: the hardest case for the estimate.
#[test]
fn of_random_rows_the_neighbour_just_over_the_floor_is_found() {
    for (dims, floor) in [(256, 0.97f32), (256, 0.9), (384, 0.9), (100, 0.95)] {
        let (index, mut noise) = (FlatIndex::new(20_000), Noise(dims as u64));
        let mut queries = Vec::new();
        for number in 0..10_000 {
            let row = noise.unit(dims);
            index.insert(&place(), entry(number), &row);
            if number % 20 == 0 {
                queries.push(noise.at_cosine(&row, floor + 0.002));
            }
        }
        recall(&index, &queries, floor).check(&format!("{dims} dimensions at {floor}"));
    }
}

struct Noise(u64);

impl Noise {
    fn unit(&mut self, dims: usize) -> Vec<f32> {
        let mut next = || {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        };
        scaled_to_unit((0..dims).map(|_| next()).collect())
    }

    /// A unit vector at `cosine` to `row`, which is one.
    fn at_cosine(&mut self, row: &[f32], cosine: f32) -> Vec<f32> {
        let other = self.unit(row.len());
        let along: f32 = row.iter().zip(&other).map(|(a, b)| a * b).sum();
        let across = scaled_to_unit(row.iter().zip(&other).map(|(a, b)| b - along * a).collect());
        row.iter().zip(across).map(|(a, b)| cosine * a + (1.0 - cosine * cosine).sqrt() * b).collect()
    }
}

fn scaled_to_unit(vector: Vec<f32>) -> Vec<f32> {
    let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.into_iter().map(|x| x / norm).collect()
}
