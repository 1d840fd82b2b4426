//! The index against a naive f32 search, and its bound.

use super::*;
use proptest::prelude::*;
use signet_cache::{Partition, PartitionParts};
use signet_types::TenantId;
use std::collections::BTreeMap as Model;

/// Furthest that int8 rounding moved a cosine of 48 dimensions in these tests, with room.
const ROUNDING: f32 = 0.01;

fn place(number: u8) -> Place {
    let parts = PartitionParts {
        tenant: TenantId::from_bytes([number; 16]),
        namespace: "",
        operation: "chat",
        targets: [0; 32],
        policy_generation: 0,
        shape: [0; 32],
    };
    Place { partition: Partition::derive(&parts), bucket: u64::from(number) }
}

fn entry(number: u64) -> EntryId {
    EntryId::from_bytes(u128::from(number).to_be_bytes())
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
    let cosine = dot(a, b) / (dot(a, a) * dot(b, b)).sqrt();
    #[expect(clippy::cast_possible_truncation, reason = "a cosine")]
    let cosine = cosine as f32;
    cosine
}

/// A small generator, so that the recall test is the same on every run.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    fn vector(&mut self, dims: usize) -> Vec<f32> {
        (0..dims).map(|_| self.next()).collect()
    }
}

#[derive(Debug, Clone)]
enum Step {
    Insert(u8, u64, Vec<f32>),
    Remove(u8, u64),
    Search(u8, Vec<f32>, f32),
}

fn any_step() -> impl Strategy<Value = Step> {
    let vector = || prop::collection::vec(-1.0f32..1.0, 48);
    prop_oneof![
        4 => (0u8..3, 0u64..40, vector()).prop_map(|(p, id, v)| Step::Insert(p, id, v)),
        1 => (0u8..3, 0u64..40).prop_map(|(p, id)| Step::Remove(p, id)),
        2 => (0u8..3, vector(), -0.3f32..0.6).prop_map(|(p, v, floor)| Step::Search(p, v, floor)),
    ]
}

fn check_search(
    found: &[Neighbour],
    rows: &Model<(u8, u64), Vec<f32>>,
    at: u8,
    query: &[f32],
    floor: f32,
) -> Result<(), TestCaseError> {
    let exact =
        |id: EntryId| rows.iter().find(|((p, i), _)| *p == at && entry(*i) == id).map(|(_, v)| cosine(v, query));
    prop_assert!(found.is_sorted_by(|a, b| a.similarity >= b.similarity));
    for neighbour in found {
        let exact = exact(neighbour.id).expect("it is in this place");
        prop_assert!((exact - neighbour.similarity).abs() < ROUNDING, "{} {}", exact, neighbour.similarity);
        prop_assert!(neighbour.similarity >= floor);
    }
    let sure = rows.iter().filter(|((p, _), v)| *p == at && cosine(v, query) >= floor + ROUNDING);
    for ((_, id), _) in sure {
        prop_assert!(found.iter().any(|n| n.id == entry(*id)), "{} is missing", id);
    }
    Ok(())
}

proptest! {
    #[test]
    fn it_finds_what_a_naive_search_finds(steps in prop::collection::vec(any_step(), 1..120)) {
        let index = FlatIndex::new(1000);
        let mut rows: Model<(u8, u64), Vec<f32>> = Model::new();
        for step in steps {
            match step {
                Step::Insert(at, id, vector) => {
                    index.insert(&place(at), entry(id), &vector);
                    rows.insert((at, id), vector);
                }
                Step::Remove(at, id) => {
                    index.remove(&place(at), entry(id));
                    rows.remove(&(at, id));
                }
                Step::Search(at, query, floor) => {
                    check_search(&index.nearest(&place(at), &query, 100, floor), &rows, at, &query, floor)?;
                }
            }
            prop_assert_eq!(index.len(), rows.len());
        }
    }

    #[test]
    fn fewer_neighbours_are_the_first_of_more(k in 0usize..12, seed in any::<u64>()) {
        let (index, mut noise) = (FlatIndex::new(1000), Noise(seed));
        for id in 0..150 {
            index.insert(&place(0), entry(id), &noise.vector(16));
        }
        let query = noise.vector(16);
        let all = index.nearest(&place(0), &query, 150, -1.0);
        prop_assert_eq!(all.len(), 150);
        prop_assert_eq!(index.nearest(&place(0), &query, k, -1.0), all[..k].to_vec());
    }

    #[test]
    fn the_newest_writes_stay_when_the_bound_is_reached(
        writes in prop::collection::vec((0u8..4, 0u64..12), 1..80),
        bound in 0usize..9,
    ) {
        let index = FlatIndex::new(bound);
        for &(at, id) in &writes {
            index.insert(&place(at), entry(id), &[1.0, 2.0]);
        }
        let mut queue: Vec<(u8, u64)> = Vec::new();
        for write in &writes {
            queue.retain(|held| held != write);
            queue.push(*write);
            if queue.len() > bound {
                queue.remove(0);
            }
        }
        prop_assert_eq!(index.len(), queue.len());
        for at in 0..4 {
            let mut found: Vec<EntryId> =
                index.nearest(&place(at), &[1.0, 2.0], 99, 0.9).into_iter().map(|n| n.id).collect();
            let mut want: Vec<EntryId> = queue.iter().filter(|(p, _)| *p == at).map(|&(_, id)| entry(id)).collect();
            found.sort();
            want.sort();
            prop_assert_eq!(found, want);
        }
    }

    #[test]
    fn no_vector_makes_it_panic(vector in prop::collection::vec(any::<f32>(), 0..40), floor in any::<f32>()) {
        let index = FlatIndex::new(10);
        index.insert(&place(0), entry(1), &vector);
        for found in index.nearest(&place(0), &vector, 3, floor) {
            prop_assert!((-1.0..=1.0).contains(&found.similarity) && found.similarity >= floor);
        }
    }
}

#[test]
fn rounding_to_int8_keeps_the_neighbours_over_nine_tenths() {
    let (index, mut noise) = (FlatIndex::new(10_000), Noise(7));
    let centres: Vec<Vec<f32>> = (0..100).map(|_| noise.vector(256)).collect();
    let mut near =
        |centre: &[f32], width: f32| -> Vec<f32> { centre.iter().map(|x| x + width * noise.next()).collect() };
    let rows: Vec<Vec<f32>> =
        (0..1000u16).map(|i| near(&centres[usize::from(i % 100)], 0.1 + f32::from(i) / 1500.0)).collect();
    for (id, row) in (0..).zip(&rows) {
        index.insert(&place(0), entry(id), row);
    }
    let (mut expected, mut kept, mut worst) = (0, 0, 0.0f32);
    for centre in &centres {
        let query = near(centre, 0.1);
        let found = index.nearest(&place(0), &query, 100, 0.9);
        for (id, row) in (0..).zip(&rows) {
            let exact = cosine(row, &query);
            let got = found.iter().find(|n| n.id == entry(id));
            expected += u32::from(exact >= 0.9);
            kept += u32::from(exact >= 0.9 && got.is_some());
            worst = got.map_or(worst, |n| worst.max((n.similarity - exact).abs()));
        }
    }
    assert!(expected > 300, "the test has neighbours to find: {expected}");
    assert!(f64::from(kept) >= 0.99 * f64::from(expected), "{kept} of {expected}");
    assert!(worst < 0.002, "{worst}");
}

#[test]
fn an_equal_vector_is_exactly_as_similar_as_the_header_says() {
    let (index, mut noise) = (FlatIndex::new(10), Noise(3));
    let vector = noise.vector(256);
    index.insert(&place(0), entry(1), &vector);
    let found = index.nearest(&place(0), &vector, 1, 0.999_99);
    assert_eq!(format!("{:.3}", found[0].similarity), "1.000");
}

#[test]
fn vectors_without_a_direction_are_neither_stored_nor_found() {
    let index = FlatIndex::new(10);
    index.insert(&place(0), entry(1), &[1.0, 0.0]);
    for bad in [&[][..], &[0.0, 0.0], &[f32::NAN, 1.0], &[f32::INFINITY, 1.0]] {
        index.insert(&place(0), entry(2), bad);
        index.insert(&place(1), entry(2), bad);
        assert_eq!(index.nearest(&place(0), bad, 5, -1.0), []);
    }
    assert_eq!(index.len(), 1);
}

#[test]
fn a_vector_of_another_length_is_neither_stored_nor_found() {
    let index = FlatIndex::new(10);
    index.insert(&place(0), entry(1), &[1.0, 0.0]);
    index.insert(&place(0), entry(2), &[1.0, 0.0, 0.0]);
    assert_eq!(index.len(), 1);
    assert_eq!(index.nearest(&place(0), &[1.0, 0.0, 0.0], 5, -1.0), []);
}

#[test]
fn a_nan_floor_finds_nothing() {
    let index = FlatIndex::new(10);
    index.insert(&place(0), entry(1), &[1.0, 0.0]);
    assert_eq!(index.nearest(&place(0), &[1.0, 0.0], 5, f32::NAN), []);
}

#[test]
fn a_place_never_shows_another_places_vectors() {
    let index = FlatIndex::new(10);
    index.insert(&place(0), entry(1), &[1.0, 0.0]);
    let bucket = Place { bucket: 99, ..place(0) };
    assert_eq!(index.nearest(&bucket, &[1.0, 0.0], 5, -1.0), []);
    assert_eq!(index.nearest(&place(1), &[1.0, 0.0], 5, -1.0), []);
}

#[test]
fn the_youngest_of_equals_comes_first() {
    let index = FlatIndex::new(10);
    for id in 1..=3 {
        index.insert(&place(0), entry(id), &[1.0, 0.0]);
    }
    index.insert(&place(0), entry(1), &[1.0, 0.0]);
    let ids: Vec<EntryId> = index.nearest(&place(0), &[1.0, 0.0], 2, 0.5).into_iter().map(|n| n.id).collect();
    assert_eq!(ids, [entry(1), entry(3)]);
}

#[test]
fn concurrent_writers_keep_the_bound_and_lose_nothing_under_it() {
    let index = FlatIndex::new(500);
    std::thread::scope(|scope| {
        for writer in 0..4u64 {
            let index = &index;
            scope.spawn(move || {
                for number in 0..1000 {
                    let id = entry(writer * 10_000 + number);
                    index.insert(&place(u8::try_from(number % 7).expect("small")), id, &[1.0, 0.5]);
                    if number % 3 == 0 {
                        index.remove(&place(u8::try_from(number % 7).expect("small")), id);
                    }
                }
            });
        }
    });
    let found: usize = (0..7).map(|at| index.nearest(&place(at), &[1.0, 0.5], 9999, 0.0).len()).sum();
    assert_eq!(found, index.len());
    assert!(index.len() <= 500 && index.len() > 480, "{}", index.len());
}

#[test]
fn a_place_that_shrinks_keeps_its_rows_right() {
    let (index, mut noise) = (FlatIndex::new(4000), Noise(5));
    let rows: Vec<Vec<f32>> = (0..2000).map(|_| noise.vector(16)).collect();
    for (id, row) in (0..).zip(&rows) {
        index.insert(&place(0), entry(id), row);
    }
    for id in 0..1900 {
        index.remove(&place(0), entry(id));
    }
    for id in 1900..2000u16 {
        let found = index.nearest(&place(0), &rows[usize::from(id)], 1, 0.9999);
        assert_eq!(found[0].id, entry(id.into()));
    }
}

/// Rows over the first chunk and over the number from which codes are scanned.
const MANY: u16 = 5000;

#[test]
fn a_large_place_finds_each_of_its_rows_through_inserts_removals_and_replacements() {
    let (index, mut noise) = (FlatIndex::new(10_000), Noise(9));
    let mut rows: Vec<Vec<f32>> = (0..MANY).map(|_| noise.vector(64)).collect();
    for (id, row) in (0..).zip(&rows) {
        index.insert(&place(0), entry(id), row);
    }
    for id in (0..MANY).step_by(7) {
        index.remove(&place(0), entry(id.into()));
    }
    for id in (1..MANY).step_by(5) {
        rows[usize::from(id)] = noise.vector(64);
        index.insert(&place(0), entry(id.into()), &rows[usize::from(id)]);
    }
    for id in 0..MANY {
        let found = index.nearest(&place(0), &rows[usize::from(id)], 1, 0.9999);
        let expected = (id % 7 != 0 || id % 5 == 1).then(|| entry(id.into()));
        assert_eq!(found.first().map(|n| n.id), expected, "{id}");
    }
}

#[test]
fn what_a_large_place_returns_is_scored_like_in_a_small_one_and_never_under_the_floor() {
    let (index, mut noise) = (FlatIndex::new(10_000), Noise(11));
    let rows: Vec<Vec<f32>> = (0..MANY).map(|_| noise.vector(64)).collect();
    for (id, row) in (0..).zip(&rows) {
        index.insert(&place(0), entry(id), row);
    }
    let mut seen = 0;
    for row in rows.iter().take(300) {
        let query: Vec<f32> = row.iter().map(|x| x + noise.next()).collect();
        let all = index.nearest(&place(0), &query, 9999, 0.6);
        for found in index.nearest(&place(0), &query, 5, 0.6) {
            assert!(all.contains(&found), "{found:?}");
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen}");
}

#[test]
fn a_crowd_of_equals_keeps_the_exact_answer_in_front() {
    let (index, mut noise) = (FlatIndex::new(10_000), Noise(13));
    let centre = noise.vector(64);
    for id in 0..u64::from(MANY) {
        let near: Vec<f32> = centre.iter().map(|x| x + 0.2 * noise.next()).collect();
        index.insert(&place(0), entry(id), &near);
    }
    index.insert(&place(0), entry(99_999), &centre);
    index.insert(&place(0), entry(0), &noise.vector(64)); // so that it is not the last either
    let found = index.nearest(&place(0), &centre, 8, 0.9);
    assert_eq!((found[0].id, found.len()), (entry(99_999), 8));
}
