//! The exact layers: in process first, then shared; anything wrong is a miss.

use crate::fixture::{CONFIG, EVERYTHING, HOUR_MS, NOW, POACH, Replica, SEMANTIC, entry, exact, is_miss, partition};
use signet_cache::{Ask, Cache, CacheKey, Config, Entry, Keyring, Lookup, ReadPolicy, Stored};
use signet_testkit::{MemoryKeyStore, Trouble};
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn an_answer_held_in_process_is_served_without_asking_the_shared_layer() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    let held = entry(home, POACH);
    replica.keep(&held).await;
    let found = replica.ask(&home, POACH).await;
    assert_eq!(exact(&found), Some(held.id));
    assert_eq!(replica.shared.switch.calls(), 0);
}

#[tokio::test]
async fn a_shared_hit_is_kept_in_process() {
    let (writer, home) = (Replica::new(), partition(1, ""));
    let held = entry(home, POACH);
    writer.store(&held).await;
    let reader = writer.sibling();
    let found = reader.ask(&home, POACH).await;
    let Lookup::Exact(served) = &found else { panic!("{found:?}") };
    assert_eq!(served.encode(), held.encode());
    assert!(reader.cache.holds(&held.key, held.id));
    reader.shared.switch.breaks(Trouble::Down);
    assert_eq!(exact(&reader.ask(&home, POACH).await), Some(held.id), "from the process now");
    assert_eq!(reader.faults(), (0, 0));
}

#[tokio::test]
async fn a_cache_without_a_shared_layer_misses_and_counts_nothing() {
    let keys = Arc::new(Keyring::new(Arc::new(MemoryKeyStore::default()), [1; 32]));
    let (cache, home) = (Cache::new(CONFIG, None, None, keys), partition(1, ""));
    let key = CacheKey::derive(&home, b"a");
    let ask = Ask { partition: &home, key: &key, question: Ok("a"), read: EVERYTHING, now_ms: NOW };
    assert!(is_miss(&cache.lookup(&ask).await));
}

#[tokio::test]
async fn a_shared_value_of_another_tenant_is_a_miss_and_counted() {
    let (replica, mine, theirs) = (Replica::new(), partition(1, ""), partition(2, ""));
    let stolen = replica.sealed(&entry(theirs, POACH)).await;
    replica.share_under(&CacheKey::derive(&mine, POACH.as_bytes()), stolen).await;
    assert!(is_miss(&replica.ask(&mine, POACH).await));
    assert_eq!(replica.faults(), (0, 1));
}

#[tokio::test]
async fn a_shared_value_moved_under_another_key_or_namespace_is_a_miss_and_counted() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    let (elsewhere, other_text) = (entry(partition(1, "b"), POACH), entry(home, "Who wrote Dracula?"));
    for (n, moved) in [elsewhere, other_text].iter().enumerate() {
        replica.share_under(&CacheKey::derive(&home, POACH.as_bytes()), replica.sealed(moved).await).await;
        assert!(is_miss(&replica.ask(&home, POACH).await));
        assert_eq!(replica.faults(), (0, n as u64 + 1));
    }
}

#[tokio::test]
async fn a_damaged_cut_or_foreign_shared_value_is_a_miss_and_counted() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    let held = entry(home, POACH);
    let sealed = replica.sealed(&held).await;
    let flipped = |at: usize| {
        let mut bytes = sealed.clone();
        bytes[at] ^= 1;
        bytes
    };
    let other_version = {
        let mut plain = held.encode();
        plain[0] += 1;
        let keys = replica.keys.current(home.tenant()).await;
        keys.seal.seal(&home, &held.key, plain)
    };
    let wrong = [
        flipped(0),
        flipped(4),
        flipped(10),
        flipped(sealed.len() / 2),
        flipped(sealed.len() - 1),
        sealed[..sealed.len() / 2].to_vec(),
        sealed[..3].to_vec(),
        Vec::new(),
        b"{\"id\":\"chatcmpl-1\"}".to_vec(),
        held.encode(),
        other_version,
    ];
    for (n, value) in wrong.into_iter().enumerate() {
        replica.share_under(&held.key, value).await;
        assert!(is_miss(&replica.ask(&home, POACH).await), "value {n}");
        assert_eq!(replica.faults(), (0, n as u64 + 1), "value {n}");
    }
    replica.share_under(&held.key, sealed).await;
    assert_eq!(exact(&replica.ask(&home, POACH).await), Some(held.id));
}

#[tokio::test]
async fn a_shared_layer_that_is_down_late_or_confused_is_a_miss_and_counted() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    let held = entry(home, POACH);
    replica.share(&held).await;
    for (n, trouble) in [Trouble::Down, Trouble::Slow, Trouble::Confused].into_iter().enumerate() {
        replica.shared.switch.breaks(trouble);
        assert!(is_miss(&replica.ask(&home, POACH).await), "{trouble:?}");
        assert_eq!(replica.faults(), (n as u64 + 1, 0), "{trouble:?}");
    }
    replica.shared.switch.mend();
    assert_eq!(exact(&replica.ask(&home, POACH).await), Some(held.id));
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_gives_up_on_a_hanging_shared_layer_leaves_the_cache_usable() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    let held = entry(home, POACH);
    replica.shared.switch.breaks(Trouble::Hanging);
    tokio::time::timeout(Duration::from_secs(1), replica.ask(&home, POACH)).await.expect_err("it hangs");
    replica.keep(&held).await;
    assert_eq!(exact(&replica.ask(&home, POACH).await), Some(held.id));
}

#[tokio::test]
async fn a_tenant_key_that_cannot_be_had_is_a_miss_and_counted() {
    let (writer, home) = (Replica::new(), partition(1, ""));
    writer.share(&entry(home, POACH)).await;
    let reader = writer.sibling();
    reader.key_store.switch.breaks(Trouble::Down);
    assert!(is_miss(&reader.ask(&home, POACH).await));
    assert_eq!(reader.faults(), (0, 1));
    reader.key_store.switch.mend();
    assert!(exact(&reader.ask(&home, POACH).await).is_some());
}

#[tokio::test]
async fn an_answer_is_never_served_at_or_after_its_end() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    let held = entry(home, POACH);
    replica.store(&held).await;
    let at = async |now| exact(&replica.ask_so(&home, POACH, EVERYTHING, now).await);
    assert_eq!(at(held.expires_ms - 1).await, Some(held.id));
    assert_eq!(at(held.expires_ms).await, None);
    assert_eq!(at(held.expires_ms + 1).await, None);
    assert_eq!(at(u64::MAX).await, None);
}

#[tokio::test]
async fn a_shared_answer_past_its_end_is_neither_served_nor_kept() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    let held = entry(home, POACH);
    replica.share(&held).await;
    assert!(is_miss(&replica.ask_so(&home, POACH, EVERYTHING, held.expires_ms).await));
    assert!(!replica.cache.holds(&held.key, held.id));
}

#[tokio::test]
async fn an_answer_older_than_wanted_is_a_miss_and_a_newer_shared_one_is_served_instead() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    let old = entry(home, POACH);
    replica.keep(&old).await;
    let read = ReadPolicy { max_age_ms: Some(5_000), ..EVERYTHING };
    assert_eq!(exact(&replica.ask_so(&home, POACH, read, NOW + 5_000).await), Some(old.id));
    assert!(is_miss(&replica.ask_so(&home, POACH, read, NOW + 5_001).await));
    let mut newer = entry(home, POACH);
    newer.created_ms = NOW + 4_000;
    replica.share(&newer).await;
    assert_eq!(exact(&replica.ask_so(&home, POACH, read, NOW + 5_001).await), Some(newer.id));
}

#[tokio::test]
async fn the_longest_lifetime_binds_what_was_stored_under_a_longer_one() {
    let (writer, home) = (Replica::new(), partition(1, ""));
    let mut held = entry(home, POACH);
    held.expires_ms = NOW + 24 * HOUR_MS;
    writer.share(&held).await;
    let config = Config { ttl_max: Duration::from_hours(2), ..CONFIG };
    let reader = Replica::over(config, SEMANTIC, writer.shared.clone(), writer.key_store.clone());
    let at = async |now| exact(&reader.ask_so(&home, POACH, EVERYTHING, now).await);
    assert_eq!(at(NOW + 2 * HOUR_MS - 1).await, Some(held.id));
    assert_eq!(at(NOW + 2 * HOUR_MS).await, None);
}

#[tokio::test]
async fn an_entry_over_the_size_limit_is_neither_kept_nor_findable() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    let limit = CONFIG.max_entry_bytes;
    let mut held = entry(home, POACH);
    held.body = Stored::Json(Vec::new().into());
    let room = limit - held.weight();
    held.body = Stored::Json(vec![b'1'; room + 1].into());
    replica.keep(&held).await;
    assert!(!replica.cache.holds(&held.key, held.id));
    assert!(replica.cache.semantic().expect("on").is_empty());
    held.body = Stored::Json(vec![b'1'; room].into());
    replica.keep(&held).await;
    assert!(replica.cache.holds(&held.key, held.id), "at the limit");
}

#[tokio::test]
async fn a_shared_entry_over_the_size_limit_is_served_but_takes_no_room_in_process() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    let mut held = entry(home, POACH);
    held.body = Stored::Json(vec![b'1'; CONFIG.max_entry_bytes].into());
    replica.share(&held).await;
    assert_eq!(exact(&replica.ask(&home, POACH).await), Some(held.id));
    assert!(!replica.cache.holds(&held.key, held.id));
}

#[tokio::test]
async fn an_entry_of_another_partition_is_not_served_even_under_an_equal_key() {
    let (replica, mine, theirs) = (Replica::new(), partition(1, ""), partition(2, ""));
    let held = entry(theirs, POACH);
    replica.keep(&held).await;
    let ask = |partition| Ask { partition, key: &held.key, question: Err("form"), read: EVERYTHING, now_ms: NOW };
    assert!(is_miss(&replica.cache.lookup(&ask(&mine)).await));
    assert_eq!(exact(&replica.cache.lookup(&ask(&theirs)).await), Some(held.id));
}

#[tokio::test]
async fn a_request_that_does_not_read_the_exact_layers_gets_nothing_from_them() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    replica.store(&entry(home, POACH)).await;
    let read = ReadPolicy { exact: false, semantic: false, ..EVERYTHING };
    let calls = replica.shared.switch.calls();
    assert!(is_miss(&replica.ask_so(&home, POACH, read, NOW).await));
    assert_eq!(replica.shared.switch.calls(), calls);
}

/// A megabyte in process, and entries of which ten fill it.
fn crowded() -> (Replica, impl Fn(u32) -> Entry) {
    let config = Config { l1_max_bytes: 1 << 20, max_entry_bytes: 1 << 17, ..CONFIG };
    let large = |n: u32| {
        let mut large = entry(partition(1, ""), &n.to_string());
        (large.question, large.body) = (None, Stored::Json(vec![b'1'; 100_000].into()));
        large
    };
    (Replica::with(config, SEMANTIC), large)
}

#[test]
fn bursts_of_large_entries_stay_near_the_memory_budget() {
    let (replica, large) = crowded();
    let burst: Vec<_> = (0..60).map(large).collect();
    for held in &burst {
        replica.cache.insert(Arc::new(held.clone()), None);
    }
    let held = burst[..40].iter().filter(|held| replica.cache.holds(&held.key, held.id)).count();
    assert_eq!(held, 0, "of the oldest forty");
}

#[tokio::test]
async fn a_fresh_answer_is_found_again_however_full_the_process_is() {
    let (replica, large) = crowded();
    for n in 0..100 {
        let fresh = large(n);
        assert!(is_miss(&replica.ask(&fresh.partition, &n.to_string()).await));
        replica.cache.insert(Arc::new(fresh.clone()), None);
        assert_eq!(exact(&replica.ask(&fresh.partition, &n.to_string()).await), Some(fresh.id), "answer {n}");
    }
}
