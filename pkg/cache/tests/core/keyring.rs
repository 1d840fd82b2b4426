//! Tenant keys: the same on all replicas, or marked as unstored.

use crate::fixture::{SECRET, entry, partition, tenant};
use signet_cache::{Keyring, TenantKeys};
use signet_testkit::{MemoryKeyStore, Trouble};
use std::sync::Arc;
use tokio::task::JoinSet;

fn ring(store: &Arc<MemoryKeyStore>) -> Keyring {
    Keyring::new(store.clone(), SECRET)
}

/// What tells two keys apart.
fn print(keys: &TenantKeys) -> [u8; 32] {
    *keys.proof.expose()
}

#[tokio::test]
async fn the_current_key_is_the_same_every_time_and_asked_of_the_store_once() {
    let store = Arc::new(MemoryKeyStore::default());
    let ring = ring(&store);
    let first = ring.current(tenant(1)).await;
    assert_eq!((first.tenant, first.epoch, first.seal.epoch()), (tenant(1), 1, 1));
    assert!(first.unstored.is_none());
    let other = ring.current(tenant(2)).await;
    assert_ne!(print(&first), print(&other));
    for _ in 0..3 {
        assert!(Arc::ptr_eq(&ring.current(tenant(1)).await, &first));
        assert!(Arc::ptr_eq(&ring.current(tenant(2)).await, &other));
    }
    assert_eq!(store.switch.calls(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_all_replicas_at_once_the_first_writer_wins() {
    let store = Arc::new(MemoryKeyStore::default());
    let rings = [Arc::new(ring(&store)), Arc::new(ring(&store))];
    let mut tasks = JoinSet::new();
    for n in 0..8 {
        let ring = rings[n % 2].clone();
        tasks.spawn(async move { ring.current(tenant(1)).await });
    }
    let found: Vec<_> = tasks.join_all().await;
    assert_eq!(store.epochs(tenant(1)).len(), 1);
    let winner = print(&*rings[0].current(tenant(1)).await);
    assert!(found.iter().all(|keys| print(keys) == winner && keys.epoch == 1 && keys.unstored.is_none()));
}

#[tokio::test]
async fn a_replica_opens_what_another_sealed() {
    let store = Arc::new(MemoryKeyStore::default());
    let (writer, reader) = (ring(&store), ring(&store));
    let held = entry(partition(1, ""), "a");
    let sealed = writer.current(tenant(1)).await.seal.seal(&held.partition, &held.key, held.encode());
    let keys = reader.at_epoch(tenant(1), 1).await.expect("stored");
    assert_eq!(keys.seal.open(&held.partition, &held.key, &sealed), Ok(held.encode()));
}

#[tokio::test]
async fn while_the_store_fails_the_key_is_marked_unstored_and_stays_the_same() {
    for trouble in [Trouble::Down, Trouble::Slow, Trouble::Confused] {
        let store = Arc::new(MemoryKeyStore::default());
        store.switch.breaks(trouble);
        let ring = ring(&store);
        let (one, again) = (ring.current(tenant(1)).await, ring.current(tenant(1)).await);
        assert_eq!((one.tenant, one.epoch), (tenant(1), 0));
        assert!(Arc::ptr_eq(&one, &again), "{trouble:?}: the store is not asked for every request");
        assert_eq!(store.switch.calls(), 1);
        assert!(one.unstored.is_some());
        assert_ne!(print(&one), print(&*ring.current(tenant(2)).await));
        store.switch.mend();
        assert!(store.epochs(tenant(1)).is_empty());
        assert!(ring.at_epoch(tenant(1), 0).await.is_none(), "nothing is sealed with it");
    }
}

#[tokio::test]
async fn an_outage_that_one_tenant_found_is_not_waited_for_by_the_next() {
    let store = Arc::new(MemoryKeyStore::default());
    store.switch.breaks(Trouble::Slow);
    let ring = ring(&store);
    for n in 1..50 {
        assert!(ring.current(tenant(n)).await.unstored.is_some());
        assert!(ring.at_epoch(tenant(n), 1).await.is_none());
    }
    assert_eq!(store.switch.calls(), 1);
    let confused = Arc::new(MemoryKeyStore::default());
    confused.switch.breaks(Trouble::Confused);
    let other = Keyring::new(confused.clone(), SECRET);
    for n in 1..5 {
        assert!(other.current(tenant(n)).await.unstored.is_some());
    }
    assert_eq!(confused.switch.calls(), 4, "a store that answers is not away");
}

#[tokio::test]
async fn the_wrapped_bytes_of_an_unstored_key_open_under_the_secret_and_no_other() {
    let down = Arc::new(MemoryKeyStore::default());
    down.switch.breaks(Trouble::Down);
    let lost = ring(&down).current(tenant(1)).await;
    let wrapped = lost.unstored.clone().expect("unstored");
    let store = Arc::new(MemoryKeyStore::default());
    store.rotate(tenant(1), 1, wrapped.clone());
    store.rotate(tenant(2), 1, wrapped);
    assert_eq!(print(&*ring(&store).current(tenant(1)).await), print(&lost), "as an auditor recovers it");
    assert!(ring(&store).at_epoch(tenant(2), 1).await.is_none(), "not for another tenant");
    assert!(Keyring::new(store, [1; 32]).at_epoch(tenant(1), 1).await.is_none(), "not under another secret");
}

#[tokio::test]
async fn a_tenant_whose_key_is_known_does_not_notice_that_the_store_fails() {
    let store = Arc::new(MemoryKeyStore::default());
    let ring = ring(&store);
    let (one, two) = (ring.current(tenant(1)).await, ring.current(tenant(2)).await);
    store.switch.breaks(Trouble::Hanging);
    assert!(Arc::ptr_eq(&ring.current(tenant(1)).await, &one));
    assert!(Arc::ptr_eq(&ring.current(tenant(2)).await, &two));
    assert!(Arc::ptr_eq(&ring.at_epoch(tenant(1), 1).await.expect("known"), &one));
}

#[tokio::test]
async fn keys_of_an_older_epoch_are_found_and_remembered() {
    let store = Arc::new(MemoryKeyStore::default());
    let old = ring(&store).current(tenant(1)).await;
    let unrelated = Arc::new(MemoryKeyStore::default());
    ring(&unrelated).current(tenant(1)).await;
    let (_, second) = unrelated.epochs(tenant(1)).remove(0);
    store.rotate(tenant(1), 2, second);
    let ring = ring(&store);
    let current = ring.current(tenant(1)).await;
    assert_eq!(current.epoch, 2);
    let found = ring.at_epoch(tenant(1), 1).await.expect("stored");
    assert_eq!((found.epoch, print(&found)), (1, print(&old)));
    assert!(ring.at_epoch(tenant(1), 3).await.is_none());
    let calls = store.switch.calls();
    store.switch.breaks(Trouble::Down);
    assert!(Arc::ptr_eq(&ring.at_epoch(tenant(1), 1).await.expect("remembered"), &found));
    assert!(Arc::ptr_eq(&ring.at_epoch(tenant(1), 2).await.expect("current"), &current));
    assert_eq!(store.switch.calls(), calls);
}

#[tokio::test]
async fn a_key_that_another_secret_wrapped_is_treated_as_unstored_and_left_alone() {
    let store = Arc::new(MemoryKeyStore::default());
    let rightful = ring(&store).current(tenant(1)).await;
    let before = store.epochs(tenant(1));
    let stranger = Keyring::new(store.clone(), [1; 32]);
    let keys = stranger.current(tenant(1)).await;
    assert_eq!(keys.epoch, 0);
    assert!(keys.unstored.is_some());
    assert_ne!(print(&keys), print(&rightful));
    assert!(stranger.at_epoch(tenant(1), 1).await.is_none());
    assert_eq!(store.epochs(tenant(1)), before);
}

#[test]
fn a_tenant_depends_on_kind_credential_and_secret_and_on_nothing_else() {
    let ring = ring(&Arc::default());
    let one = ring.tenant_of("bearer", b"sk-1");
    assert_eq!(Keyring::new(Arc::<MemoryKeyStore>::default(), SECRET).tenant_of("bearer", b"sk-1"), one);
    assert_ne!(ring.tenant_of("bearer", b"sk-2"), one);
    assert_ne!(ring.tenant_of("basic", b"sk-1"), one);
    assert_ne!(ring.tenant_of("bearers", b"k-1"), one, "kind and credential do not run together");
    assert_ne!(Keyring::new(Arc::<MemoryKeyStore>::default(), [1; 32]).tenant_of("bearer", b"sk-1"), one);
    assert_ne!(ring.tenant_of("bearer", b""), ring.tenant_of("", b""));
    let long = [b'k'; 10_000];
    assert_ne!(ring.tenant_of("bearer", &long), ring.tenant_of("bearer", &long[1..]));
}

#[test]
fn nobody_gets_a_new_key_every_time() {
    let ring = ring(&Arc::default());
    let (one, other) = (ring.for_nobody(), ring.for_nobody());
    assert_eq!((one.tenant, one.epoch), (tenant(0), 0));
    assert!(one.unstored.is_some() && one.unstored != other.unstored);
    assert_ne!(print(&one), print(&other));
}

#[test]
fn credentials_that_look_alike_are_tenants_of_their_own() {
    let ring = ring(&Arc::default());
    let credentials = [
        ("name", "anonymous"),
        ("authorization", "anonymous"),
        ("authorization", "Bearer anonymous"),
        ("authorization", "bearer anonymous"),
        ("authorization", "Bearer anonymou\u{455}"),
        ("authorization", "Bearer caf\u{e9}"),
        ("authorization", "Bearer cafe\u{301}"),
        ("authorization", "Bearer \u{ff41}"),
        ("authorization", "Bearer a"),
        ("authorization", "Bearer a\u{200b}"),
        ("authorization", "Bearer  a"),
        ("authorization", ""),
        ("authorizatio", "n\0Bearer a"),
    ];
    let tenants: std::collections::HashSet<_> =
        credentials.iter().map(|(kind, credential)| ring.tenant_of(kind, credential.as_bytes())).collect();
    assert_eq!(tenants.len(), credentials.len());
    let elsewhere = Keyring::new(Arc::new(MemoryKeyStore::default()), [43; 32]);
    let same = credentials.iter().filter(|(kind, text)| tenants.contains(&elsewhere.tenant_of(kind, text.as_bytes())));
    assert_eq!(same.count(), 0, "another deployment's secret, other tenants");
}
