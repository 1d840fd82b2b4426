//! Taking in entries that another process stored, and forgetting them.

use crate::fixture::{
    BOIL, CONFIG, HOUR_MS, NOW, POACH, POACH_POLITE, Replica, SECRET, SEMANTIC, entry, exact, is_miss, partition,
    semantic,
};
use async_trait::async_trait;
use signet_cache::{Cache, EmbedFault, Embedder, Entry, EntryRow, EntryStore, Keyring, Partition, Semantic};
use signet_testkit::{BruteForceIndex, MemoryEntryStore, MemoryKeyStore};
use std::sync::{Arc, OnceLock, Weak};

#[tokio::test]
async fn an_adopted_entry_is_served_exactly_and_to_rephrased_questions() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    let theirs = entry(home, POACH);
    replica.cache.adopt(theirs.clone(), NOW).await;
    assert!(replica.cache.holds(&theirs.key, theirs.id));
    assert_eq!(exact(&replica.ask(&home, POACH).await), Some(theirs.id));
    assert_eq!(semantic(&replica.ask(&home, POACH_POLITE).await), Some(theirs.id));
}

#[tokio::test]
async fn of_two_entries_under_one_key_the_newer_one_stays() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    let (older, mut newer) = (entry(home, POACH), entry(home, POACH));
    newer.created_ms += 1;
    for order in [[&older, &newer], [&newer, &older]] {
        for theirs in order {
            replica.cache.adopt(theirs.clone(), NOW).await;
        }
        assert!(replica.cache.holds(&newer.key, newer.id));
        assert!(!replica.cache.holds(&older.key, older.id));
        assert_eq!(replica.cache.semantic().expect("on").len(), 1);
        replica.cache.forget(&newer.key, newer.id);
    }
}

/// A refreshed answer can be made in the same millisecond as the one it replaces, whose row arrives later.
#[tokio::test]
async fn of_two_entries_of_one_age_the_one_held_stays() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    let (held, late) = (entry(home, POACH), entry(home, POACH));
    replica.cache.adopt(held.clone(), NOW).await;
    replica.cache.adopt(late.clone(), NOW).await;
    assert!(replica.cache.holds(&held.key, held.id));
    assert!(!replica.cache.holds(&late.key, late.id));
}

#[tokio::test]
async fn an_expired_entry_is_not_adopted() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    let theirs = entry(home, POACH);
    replica.cache.adopt(theirs.clone(), theirs.expires_ms).await;
    assert!(!replica.cache.holds(&theirs.key, theirs.id));
    assert!(replica.cache.semantic().expect("on").is_empty());
    replica.cache.adopt(theirs.clone(), theirs.expires_ms - 1).await;
    assert!(replica.cache.holds(&theirs.key, theirs.id));
}

/// An encoder that stores a newer answer to the same question while it is asked.
struct Meddler {
    cache: OnceLock<Weak<Cache>>,
    newer: Entry,
}

#[async_trait]
impl Embedder for Meddler {
    fn id(&self) -> &'static str {
        "meddler"
    }

    async fn embed(&self, _: &str) -> Result<Arc<[f32]>, EmbedFault> {
        let cache = self.cache.get().and_then(Weak::upgrade).expect("set");
        cache.insert(Arc::new(self.newer.clone()), None);
        Ok(Arc::from([1.0]))
    }
}

#[tokio::test]
async fn a_newer_answer_that_comes_while_an_older_one_is_adopted_stays() {
    let home = partition(1, "");
    let (older, mut newer) = (entry(home, POACH), entry(home, POACH));
    newer.created_ms += 1;
    newer.question = None;
    let meddler = Arc::new(Meddler { cache: OnceLock::new(), newer: newer.clone() });
    let layer = Semantic::new(SEMANTIC, meddler.clone(), Arc::new(BruteForceIndex::default()));
    let keys = Arc::new(Keyring::new(Arc::new(MemoryKeyStore::default()), SECRET));
    let cache = Arc::new(Cache::new(CONFIG, None, Some(layer), keys));
    meddler.cache.set(Arc::downgrade(&cache)).expect("set once");
    cache.adopt(entry(home, BOIL), NOW).await; // a question alone in its place would not be embedded
    cache.adopt(older.clone(), NOW).await;
    assert!(cache.holds(&newer.key, newer.id));
    assert!(!cache.semantic().expect("on").holds(older.id), "the older question is not findable");
}

#[tokio::test]
async fn an_entry_is_forgotten_in_both_layers_and_another_under_its_key_is_not() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    let (one, other) = (entry(home, POACH), entry(home, POACH));
    replica.keep(&one).await;
    replica.cache.forget(&one.key, other.id);
    assert_eq!(exact(&replica.ask(&home, POACH).await), Some(one.id));
    assert_eq!(semantic(&replica.ask(&home, POACH_POLITE).await), Some(one.id));
    replica.cache.forget(&one.key, one.id);
    assert!(!replica.cache.holds(&one.key, one.id));
    assert!(is_miss(&replica.ask(&home, POACH).await));
    assert!(replica.cache.semantic().expect("on").is_empty());
}

#[tokio::test]
async fn holding_means_this_very_entry_and_that_its_question_is_findable() {
    let (replica, home) = (Replica::new(), partition(1, ""));
    let (one, other) = (entry(home, POACH), entry(home, POACH));
    assert!(!replica.cache.holds(&one.key, one.id));
    replica.cache.insert(Arc::new(one.clone()), None);
    assert!(!replica.cache.holds(&one.key, one.id), "its question is not findable");
    replica.cache.adopt(one.clone(), NOW).await;
    assert!(replica.cache.holds(&one.key, one.id));
    assert!(!replica.cache.holds(&other.key, other.id));
}

#[tokio::test]
async fn durable_rows_carry_entries_to_a_replica_that_starts_cold() {
    let (writer, rows, home) = (Replica::new(), MemoryEntryStore::default(), partition(1, ""));
    let held = entry(home, POACH);
    let row = EntryRow {
        id: held.id,
        key: held.key,
        partition: *home.as_bytes(),
        tenant: home.tenant(),
        created_ms: held.created_ms,
        expires_ms: held.expires_ms,
        sealed: writer.sealed(&held).await,
    };
    let forged = EntryRow { tenant: partition(2, "").tenant(), ..row.clone() };
    rows.put(&[forged, row]).await.expect("stored");
    let reader = writer.sibling();
    let mut opened = 0;
    for row in rows.since(0, NOW, 10).await.expect("rows").0 {
        let place = Partition::from_row(row.tenant, row.partition);
        if let Some(found) = reader.cache.open(&place, &row.key, &row.sealed).await {
            opened += 1;
            reader.cache.adopt(found, NOW + HOUR_MS / 2).await;
        }
    }
    assert_eq!(opened, 1, "the row under another tenant does not open");
    assert_eq!(semantic(&reader.ask(&home, POACH_POLITE).await), Some(held.id));
}
