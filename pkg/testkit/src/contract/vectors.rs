//! What every [`VectorIndex`] promises, as tests. Similarities may be off by rounding.

use signet_cache::{Neighbour, Partition, PartitionParts, Place, VectorIndex};
use signet_types::{EntryId, TenantId};

/// Furthest that the rounding of any index moves a similarity.
const ROUNDING: f32 = 0.01;
const DIMS: usize = 32;

fn place(tenant: u8, bucket: u64) -> Place {
    let parts = PartitionParts {
        tenant: TenantId::from_bytes([tenant; 16]),
        namespace: "",
        operation: "chat",
        targets: [0; 32],
        policy_generation: 0,
        shape: [0; 32],
    };
    Place { partition: Partition::derive(&parts), bucket }
}

fn id(n: u8) -> EntryId {
    EntryId::from_bytes([n; 16])
}

/// A vector at this cosine from the first axis, of unit length.
fn at(cosine: f32) -> Vec<f32> {
    let mut vector = vec![0.0; DIMS];
    (vector[0], vector[1]) = (cosine, (1.0 - cosine * cosine).sqrt());
    vector
}

/// Unit vectors that are the same on every run.
fn noise(count: usize) -> Vec<Vec<f32>> {
    let mut state = 7_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    };
    let mut unit = || {
        let vector: Vec<f32> = (0..DIMS).map(|_| next()).collect();
        let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        vector.iter().map(|x| x / length).collect()
    };
    (0..count).map(|_| unit()).collect()
}

fn ids(found: &[Neighbour]) -> Vec<EntryId> {
    found.iter().map(|neighbour| neighbour.id).collect()
}

/// The nearest come first, with their similarity.
pub async fn the_nearest_come_first_with_their_similarity(index: impl VectorIndex) {
    let here = place(1, 0);
    for (n, cosine) in [(1, 0.5), (2, 1.0), (3, 0.9), (4, -1.0)] {
        index.insert(&here, id(n), &at(cosine));
    }
    let found = index.nearest(&here, &at(1.0), 9, -1.0).await;
    assert_eq!(ids(&found), [id(2), id(3), id(1), id(4)]);
    for (neighbour, cosine) in found.iter().zip([1.0, 0.9, 0.5, -1.0]) {
        assert!((neighbour.similarity - cosine).abs() < ROUNDING, "{neighbour:?}");
    }
}

/// A vector equal to the one asked for is at 1, but for the last digits of a float.
pub async fn an_equal_vector_is_found_at_one(index: impl VectorIndex) {
    let here = place(1, 0);
    for (n, vector) in (0..).zip(noise(20)) {
        index.insert(&here, id(n), &vector);
    }
    for (n, vector) in (0..).zip(noise(20)) {
        assert_eq!(ids(&index.nearest(&here, &vector, 9, 0.999_99).await), [id(n)]);
    }
}

/// What is under the floor is left out, and so is what is beyond the number asked for.
pub async fn floor_and_number_bound_what_is_found(index: impl VectorIndex) {
    let here = place(1, 0);
    for (n, cosine) in [(1, 0.5), (2, 0.7), (3, 0.9)] {
        index.insert(&here, id(n), &at(cosine));
    }
    assert_eq!(ids(&index.nearest(&here, &at(1.0), 9, 0.6).await), [id(3), id(2)]);
    assert_eq!(ids(&index.nearest(&here, &at(1.0), 1, 0.6).await), [id(3)]);
    assert_eq!(index.nearest(&here, &at(1.0), 9, 0.95).await, []);
    assert_eq!(index.nearest(&here, &at(1.0), 0, 0.0).await, []);
}

/// A search sees its own place only: neither another tenant's nor another bucket.
pub async fn no_search_sees_another_place(index: impl VectorIndex) {
    let (here, bucket, tenant) = (place(1, 0), place(1, 1), place(2, 0));
    for (n, at_place) in [(1, &here), (2, &bucket), (3, &tenant)] {
        index.insert(at_place, id(n), &at(1.0));
    }
    for (n, at_place) in [(1, &here), (2, &bucket), (3, &tenant)] {
        assert_eq!(ids(&index.nearest(at_place, &at(1.0), 9, 0.0).await), [id(n)]);
    }
    assert_eq!(index.nearest(&place(2, 1), &at(1.0), 9, -1.0).await, []);
}

/// A second vector of an entry replaces its first.
pub async fn a_second_vector_of_an_entry_replaces_the_first(index: impl VectorIndex) {
    let here = place(1, 0);
    index.insert(&here, id(1), &at(1.0));
    index.insert(&here, id(1), &at(0.5));
    let found = index.nearest(&here, &at(1.0), 9, -1.0).await;
    assert_eq!(ids(&found), [id(1)]);
    assert!((found[0].similarity - 0.5).abs() < ROUNDING, "{found:?}");
}

/// What was removed is not found, and may be removed again; its neighbours stay.
pub async fn what_was_removed_is_not_found(index: impl VectorIndex) {
    let here = place(1, 0);
    index.insert(&here, id(1), &at(1.0));
    index.insert(&here, id(2), &at(0.9));
    for _ in 0..2 {
        index.remove(&here, id(1));
        assert_eq!(ids(&index.nearest(&here, &at(1.0), 9, 0.0).await), [id(2)]);
    }
    index.remove(&place(1, 1), id(2));
    assert_eq!(ids(&index.nearest(&here, &at(1.0), 9, 0.0).await), [id(2)], "removed elsewhere");
}

/// A vector without a direction is not stored and finds nothing.
pub async fn vectors_without_a_direction_are_neither_stored_nor_find_any(index: impl VectorIndex) {
    let here = place(1, 0);
    let odd = |value: f32| [&[value][..], &at(1.0)[1..]].concat();
    let odd = [vec![], vec![0.0; DIMS], odd(f32::NAN), odd(f32::INFINITY), odd(f32::NEG_INFINITY)];
    for (n, vector) in (1..).zip(&odd) {
        index.insert(&here, id(n), vector);
    }
    index.insert(&here, id(99), &at(1.0));
    for vector in &odd {
        assert_eq!(index.nearest(&here, vector, 9, -1.0).await, [], "{vector:?}");
    }
    assert_eq!(ids(&index.nearest(&here, &at(1.0), 99, -1.0).await), [id(99)]);
}

/// A vector of another length in the same place neither is found by the others nor finds them.
pub async fn vectors_of_another_length_do_not_meet(index: impl VectorIndex) {
    let here = place(1, 0);
    index.insert(&here, id(1), &at(1.0));
    index.insert(&here, id(2), &at(1.0)[..DIMS / 2]);
    assert_eq!(ids(&index.nearest(&here, &at(1.0), 9, -1.0).await), [id(1)]);
    let shorter = index.nearest(&here, &at(1.0)[..DIMS / 2], 9, -1.0).await;
    assert!(!ids(&shorter).contains(&id(1)), "{shorter:?}");
}

/// Among many, what is found is what comparing with each one finds.
pub async fn among_many_it_finds_what_comparing_with_each_finds(index: impl VectorIndex) {
    const FLOOR: f32 = 0.3;
    let (here, held) = (place(1, 0), noise(150));
    for (n, vector) in (0..).zip(&held) {
        index.insert(&here, id(n), vector);
    }
    let mut over = 0;
    for asked in noise(190).iter().skip(150) {
        let found = index.nearest(&here, asked, held.len(), FLOOR).await;
        for (n, vector) in (0..).zip(&held) {
            let cosine: f32 = vector.iter().zip(asked).map(|(a, b)| a * b).sum();
            let hit = found.iter().find(|neighbour| neighbour.id == id(n));
            over += u32::from(cosine >= FLOOR);
            match hit {
                Some(hit) => assert!((hit.similarity - cosine).abs() < ROUNDING, "{hit:?} is at {cosine}"),
                None => assert!(cosine < FLOOR + ROUNDING, "one at {cosine} is missing"),
            }
        }
        assert!(found.is_sorted_by(|a, b| a.similarity >= b.similarity), "{found:?}");
    }
    assert!(over > 100, "too few neighbours to tell: {over}");
}

/// A module of tests that hold `$index`, an expression evaluated per test, to the contract of a vector index.
#[macro_export]
macro_rules! vector_index_contract {
    ($module:ident, $index:expr) => {
        $crate::vector_index_contract!(
            $module, $index,
            the_nearest_come_first_with_their_similarity
            an_equal_vector_is_found_at_one
            floor_and_number_bound_what_is_found
            no_search_sees_another_place
            a_second_vector_of_an_entry_replaces_the_first
            what_was_removed_is_not_found
            vectors_without_a_direction_are_neither_stored_nor_find_any
            vectors_of_another_length_do_not_meet
            among_many_it_finds_what_comparing_with_each_finds
        );
    };
    ($module:ident, $index:expr, $($promise:ident)+) => {
        mod $module {
            use super::*;

            $(
                #[tokio::test]
                async fn $promise() {
                    $crate::contract::vectors::$promise($index).await;
                }
            )+
        }
    };
}
