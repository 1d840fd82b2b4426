//! Answers past their lifetime: for the very same request only, within the window only, and never what was taken back.

use crate::fixture::{
    CONFIG, EVERYTHING, HOUR_MS, NOW, POACH, POACH_POLITE, Replica, SEMANTIC, entry, is_miss, partition,
};
use signet_cache::{Ask, CacheKey, Config, Entry, Partition, ReadPolicy};
use signet_types::EntryId;
use std::sync::Arc;
use std::time::Duration;

const MINUTE: Duration = Duration::from_mins(1);
const EXPIRED: u64 = NOW + HOUR_MS;

fn replica() -> Replica {
    Replica::with(Config { stale_if_error: MINUTE, ..CONFIG }, SEMANTIC)
}

async fn stale(
    replica: &Replica,
    home: &Partition,
    read: ReadPolicy,
    window: Duration,
    now_ms: u64,
) -> Option<EntryId> {
    let key = CacheKey::derive(home, POACH.as_bytes());
    let ask = Ask { partition: home, key: &key, question: Ok(POACH), read, now_ms };
    replica.cache.stale(&ask, window).await.map(|entry: Arc<Entry>| entry.id)
}

#[tokio::test]
async fn an_expired_answer_serves_its_own_request_until_the_window_ends() {
    let (replica, home) = (replica(), partition(1, ""));
    let held = entry(home, POACH);
    replica.keep(&held).await;
    assert!(is_miss(&replica.ask_so(&home, POACH, EVERYTHING, EXPIRED).await), "it is no hit any more");
    let ends = EXPIRED + 60_000;
    assert_eq!(stale(&replica, &home, EVERYTHING, Duration::MAX, EXPIRED).await, Some(held.id));
    assert_eq!(stale(&replica, &home, EVERYTHING, Duration::MAX, ends - 1).await, Some(held.id));
    assert_eq!(stale(&replica, &home, EVERYTHING, Duration::MAX, ends).await, None, "the window is over");
}

#[tokio::test]
async fn a_caller_may_make_the_window_shorter_but_not_longer() {
    let (replica, home) = (replica(), partition(1, ""));
    replica.keep(&entry(home, POACH)).await;
    let second = Duration::from_secs(1);
    assert!(stale(&replica, &home, EVERYTHING, second, EXPIRED + 999).await.is_some());
    assert_eq!(stale(&replica, &home, EVERYTHING, second, EXPIRED + 1000).await, None);
    assert_eq!(stale(&replica, &home, EVERYTHING, Duration::from_hours(1), EXPIRED + 60_000).await, None);
}

#[tokio::test]
async fn without_the_setting_nothing_is_served_past_its_lifetime() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    replica.store(&entry(home, POACH)).await;
    assert_eq!(stale(&replica, &home, EVERYTHING, Duration::MAX, EXPIRED).await, None);
}

#[tokio::test]
async fn a_caller_who_reads_no_cache_or_only_younger_answers_gets_no_stale_one() {
    let (replica, home) = (replica(), partition(1, ""));
    replica.keep(&entry(home, POACH)).await;
    let fresh_only = ReadPolicy { exact: false, ..EVERYTHING };
    assert_eq!(stale(&replica, &home, fresh_only, Duration::MAX, EXPIRED).await, None);
    let young = ReadPolicy { max_age_ms: Some(HOUR_MS - 1), ..EVERYTHING };
    assert_eq!(stale(&replica, &home, young, Duration::MAX, EXPIRED).await, None);
}

#[tokio::test]
async fn another_replica_finds_a_stale_answer_in_the_shared_layer_and_adopts_it_within_the_window() {
    let (writer, home) = (replica(), partition(1, ""));
    let held = entry(home, POACH);
    writer.share(&held).await;
    let config = Config { stale_if_error: MINUTE, ..CONFIG };
    let reader = Replica::over(config, SEMANTIC, writer.shared.clone(), writer.key_store.clone());
    assert_eq!(stale(&reader, &home, EVERYTHING, Duration::MAX, EXPIRED).await, Some(held.id));
    reader.cache.adopt(held.clone(), EXPIRED).await;
    assert!(reader.cache.held(&held.key).is_some(), "kept for the window");
    assert!(is_miss(&reader.ask_so(&home, POACH_POLITE, EVERYTHING, EXPIRED).await), "for its own request only");
    let late = Replica::over(config, SEMANTIC, writer.shared.clone(), writer.key_store.clone());
    late.cache.adopt(held.clone(), EXPIRED + 60_000).await;
    assert!(late.cache.held(&held.key).is_none(), "past the window");
}
