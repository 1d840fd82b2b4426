//! What every [`ExactStore`] promises, as tests.

pub mod vectors;

use bytes::Bytes;
use signet_cache::{CacheKey, ExactStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::{JoinSet, yield_now};
use tokio::time::timeout;

const HOUR: Duration = Duration::from_hours(1);
/// Far beyond every budget; only a hang is longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A key that no other test uses, of this process or another at the same server.
pub fn unused_key() -> CacheKey {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    bytes[8..12].copy_from_slice(&std::process::id().to_be_bytes());
    CacheKey::from_bytes(bytes)
}

/// A value comes back byte for byte, whatever the bytes.
pub async fn a_value_comes_back_byte_for_byte(store: impl ExactStore) {
    for value in [&b""[..], b"\0\r\n$-1\r\n", &vec![0xff; 100_000]] {
        let key = unused_key();
        assert_eq!(store.get(&key).await.expect("an answer"), None);
        store.put(&key, Bytes::copy_from_slice(value), HOUR).await.expect("stored");
        assert_eq!(store.get(&key).await.expect("an answer").as_deref(), Some(value));
    }
}

/// A later value replaces an earlier one.
pub async fn a_later_value_replaces_an_earlier_one(store: impl ExactStore) {
    let key = unused_key();
    for value in [&b"one"[..], b"two"] {
        store.put(&key, Bytes::from_static(value), HOUR).await.expect("stored");
        assert_eq!(store.get(&key).await.expect("an answer").as_deref(), Some(value));
    }
}

/// What was removed is gone, and may be removed again.
pub async fn what_was_removed_is_gone_and_may_be_removed_again(store: impl ExactStore) {
    let (key, other) = (unused_key(), unused_key());
    for key in [&key, &other] {
        store.put(key, Bytes::from_static(b"one"), HOUR).await.expect("stored");
    }
    for _ in 0..2 {
        store.remove(&key).await.expect("removed");
        assert_eq!(store.get(&key).await.expect("an answer"), None);
    }
    assert!(store.get(&other).await.expect("an answer").is_some(), "nothing else was removed");
}

/// A value ends with its time.
pub async fn a_value_ends_with_its_time(store: impl ExactStore) {
    let (key, lasting) = (unused_key(), unused_key());
    store.put(&lasting, Bytes::from_static(b"lasting"), HOUR).await.expect("stored");
    store.put(&key, Bytes::from_static(b"brief"), Duration::from_micros(300)).await.expect("stored");
    let ends = async {
        while store.get(&key).await.expect("an answer").is_some() {
            yield_now().await;
        }
    };
    timeout(PATIENCE, ends).await.expect("it ends");
    assert!(store.get(&lasting).await.expect("an answer").is_some(), "the other one has time left");
}

/// Two hundred callers at once get their own values.
pub async fn two_hundred_callers_at_once_get_their_own_values(store: impl ExactStore) {
    let store = Arc::new(store);
    let mut tasks = JoinSet::new();
    for n in 0..200_usize {
        let (store, key) = (store.clone(), unused_key());
        tasks.spawn(async move {
            let marker = Bytes::from(format!("answer {n} ").repeat(n % 17 + 1));
            for _ in 0..5 {
                store.put(&key, marker.clone(), HOUR).await.expect("stored");
                assert_eq!(store.get(&key).await.expect("an answer"), Some(marker.clone()));
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("every answer belongs to its key");
    }
}

/// A module of tests that hold `$store`, an expression evaluated per test, to the contract of an exact store.
#[macro_export]
macro_rules! exact_store_contract {
    ($module:ident, $store:expr) => {
        $crate::exact_store_contract!(
            $module, $store,
            a_value_comes_back_byte_for_byte
            a_later_value_replaces_an_earlier_one
            what_was_removed_is_gone_and_may_be_removed_again
            a_value_ends_with_its_time
            two_hundred_callers_at_once_get_their_own_values
        );
    };
    ($module:ident, $store:expr, $($promise:ident)+) => {
        mod $module {
            use super::*;

            $(
                #[tokio::test]
                async fn $promise() {
                    $crate::contract::$promise($store).await;
                }
            )+
        }
    };
}
