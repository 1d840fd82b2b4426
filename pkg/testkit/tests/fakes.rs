//! The fakes keep the contracts of what they stand for.

use signet_cache::{
    CacheKey, Embedder, EntryRow, EntryStore, ExactStore, KeyStore, Partition, Place, StoreFault, VectorIndex,
};
use signet_testkit::contract::unused_key;
use signet_testkit::{
    BruteForceIndex, MemoryEntryStore, MemoryExactStore, MemoryKeyStore, MemorySharedIndex, OverShared, TableEmbedder,
    Trouble, exact_store_contract, vector_index_contract,
};
use signet_types::{EntryId, TenantId};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{advance, timeout};

exact_store_contract!(memory, MemoryExactStore::default());
vector_index_contract!(brute_force, BruteForceIndex::default());
vector_index_contract!(shared, {
    let index = Arc::new(MemorySharedIndex::default());
    OverShared::new(index.clone(), index.entries.clone())
});

#[tokio::test(start_paused = true)]
async fn a_value_is_there_until_its_very_end() {
    let (store, key) = (MemoryExactStore::default(), unused_key());
    store.put(&key, vec![1].into(), Duration::from_mins(1)).await.expect("stored");
    advance(Duration::from_millis(59_999)).await;
    assert!(store.get(&key).await.expect("an answer").is_some());
    assert_eq!(store.len(), 1);
    advance(Duration::from_millis(1)).await;
    assert!(store.get(&key).await.expect("an answer").is_none());
    assert!(store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_broken_store_fails_as_told_and_keeps_its_values() {
    let (store, key) = (MemoryExactStore::default(), unused_key());
    store.put(&key, vec![1].into(), Duration::from_mins(1)).await.expect("stored");
    store.switch.breaks(Trouble::Down);
    assert!(matches!(store.get(&key).await, Err(StoreFault::Unavailable(_))));
    store.switch.breaks(Trouble::Slow);
    assert!(matches!(store.put(&key, vec![2].into(), Duration::from_secs(1)).await, Err(StoreFault::Timeout(_))));
    store.switch.breaks(Trouble::Confused);
    assert!(matches!(store.remove(&key).await, Err(StoreFault::Corrupt(_))));
    store.switch.breaks(Trouble::Hanging);
    timeout(Duration::from_secs(59), store.get(&key)).await.expect_err("no answer");
    store.switch.mend();
    assert_eq!(store.get(&key).await.expect("an answer").as_deref(), Some(&[1][..]));
    assert_eq!(store.switch.calls(), 6);
}

fn row(n: u8, expires_ms: u64) -> EntryRow {
    EntryRow {
        id: EntryId::from_bytes([n; 16]),
        key: CacheKey::from_bytes([n; 32]),
        partition: [0; 32],
        tenant: TenantId::from_bytes([0; 16]),
        created_ms: 0,
        expires_ms,
        sealed: vec![n],
    }
}

#[tokio::test]
async fn rows_come_in_the_order_of_their_appearance_without_gaps_and_without_expired_ones() {
    let store = MemoryEntryStore::default();
    store.put(&[row(3, 9), row(1, 5), row(2, 9)]).await.expect("stored");
    let (first, cursor) = store.since(0, 5, 1).await.expect("an answer");
    assert_eq!(first, [row(3, 9)]);
    store.put(&[row(4, 9)]).await.expect("stored");
    let (rest, cursor) = store.since(cursor, 5, 10).await.expect("an answer");
    assert_eq!(rest, [row(2, 9), row(4, 9)]);
    assert_eq!(store.since(cursor, 5, 10).await.expect("an answer"), (vec![], cursor));
    assert_eq!(store.latest(5, 2).await.expect("an answer"), [row(4, 9), row(2, 9)]);
    assert_eq!(store.latest(4, 9).await.expect("an answer").len(), 4);
}

#[tokio::test]
async fn a_sweep_removes_what_has_expired_and_no_cursor_goes_back() {
    let store = MemoryEntryStore::default();
    store.put(&[row(1, 5), row(2, 6)]).await.expect("stored");
    let (_, cursor) = store.since(0, 0, 10).await.expect("an answer");
    assert_eq!(store.sweep(6).await.expect("swept"), 1);
    assert_eq!(store.sweep(7).await.expect("swept"), 1);
    store.put(&[row(3, 9)]).await.expect("stored");
    assert_eq!(store.since(cursor, 0, 10).await.expect("an answer").0, [row(3, 9)]);
}

#[tokio::test]
async fn the_first_secret_and_the_first_tenant_key_win() {
    let (store, tenant, other) =
        (MemoryKeyStore::default(), TenantId::from_bytes([1; 16]), TenantId::from_bytes([2; 16]));
    assert_eq!(store.secret_or_insert([1; 32]).await.expect("an answer"), [1; 32]);
    assert_eq!(store.secret_or_insert([2; 32]).await.expect("an answer"), [1; 32]);
    assert_eq!(store.tenant_key_or_insert(tenant, b"a").await.expect("an answer"), (1, b"a".to_vec()));
    assert_eq!(store.tenant_key_or_insert(tenant, b"b").await.expect("an answer"), (1, b"a".to_vec()));
    assert_eq!(store.tenant_key_or_insert(other, b"c").await.expect("an answer"), (1, b"c".to_vec()));
    store.rotate(tenant, 2, b"d".to_vec());
    assert_eq!(store.tenant_key_or_insert(tenant, b"e").await.expect("an answer"), (2, b"d".to_vec()));
    assert_eq!(store.tenant_key(tenant, 1).await.expect("an answer"), Some(b"a".to_vec()));
    assert_eq!(store.tenant_key(other, 2).await.expect("an answer"), None);
    assert_eq!(store.epochs(tenant), [(1, b"a".to_vec()), (2, b"d".to_vec())]);
}

#[tokio::test]
async fn an_encoder_knows_its_table_only_and_gives_unit_vectors() {
    let encoder = TableEmbedder::new(&[("far", [3.0, 4.0])]);
    assert_eq!(*encoder.embed("far").await.expect("in the table"), [0.6, 0.8]);
    encoder.embed("near").await.expect_err("not in the table");
    encoder.set_broken(true);
    encoder.embed("far").await.expect_err("broken");
}

#[test]
fn the_index_finds_the_nearest_of_one_place_first() {
    let index = BruteForceIndex::default();
    let place = |n| Place { partition: Partition::from_row(TenantId::from_bytes([n; 16]), [n; 32]), bucket: 0 };
    let id = |n| EntryId::from_bytes([n; 16]);
    index.insert(&place(1), id(1), &[1.0, 0.0]);
    index.insert(&place(1), id(2), &[0.6, 0.8]);
    index.insert(&place(1), id(3), &[0.0, 1.0]);
    index.insert(&place(2), id(4), &[1.0, 0.0]);
    index.insert(&place(1), id(1), &[0.8, 0.6]);
    let ids = |k, floor| -> Vec<_> {
        index.nearest(&place(1), &[1.0, 0.0], k, floor).into_iter().map(|found| found.id).collect()
    };
    assert_eq!(ids(8, 0.5), [id(1), id(2)]);
    assert_eq!(ids(1, 0.5), [id(1)]);
    assert_eq!(ids(8, 0.8), [id(1)], "at the floor");
    assert_eq!(index.len(), 4);
    index.remove(&place(1), id(1));
    index.remove(&place(1), id(1));
    assert_eq!(ids(8, 0.5), [id(2)]);
    assert_eq!(index.len(), 3);
}
