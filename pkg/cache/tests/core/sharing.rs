//! Two replicas over one shared index: the second holds nothing of what it serves.

use crate::fixture::{
    BOIL, CONFIG, HOUR_MS, NOW, POACH, POACH_POLITE, POACH_SPELLED, SECRET, SEMANTIC, embedder, entry, exact, is_miss,
    partition, semantic,
};
use signet_cache::{
    Ask, Cache, CacheKey, Entry, EntryRow, EntryStore, Keyring, Lookup, Partition, ReadPolicy, Semantic, SharedIndex,
    SharedSearch, Withdrawal,
};
use signet_testkit::{MemoryKeyStore, MemorySharedIndex, TableEmbedder, Trouble};
use std::sync::Arc;

/// Members of a fleet share the index and the keys, and nothing else: no exact layer, no rows that follow.
struct Member {
    cache: Cache,
    keys: Arc<Keyring>,
    index: Arc<MemorySharedIndex>,
}

impl Member {
    fn of(index: &Arc<MemorySharedIndex>, key_store: &Arc<MemoryKeyStore>, embedder: TableEmbedder) -> Self {
        let keys = Arc::new(Keyring::new(key_store.clone(), SECRET));
        let search = SharedSearch::new(index.clone(), keys.clone());
        let layer = Semantic::shared(SEMANTIC, Arc::new(embedder), search);
        let cache = Cache::new(CONFIG, None, Some(layer), keys.clone());
        Self { cache, keys, index: index.clone() }
    }

    fn pair() -> (Self, Self) {
        let (index, key_store) = (Arc::default(), Arc::default());
        (Self::of(&index, &key_store, embedder()), Self::of(&index, &key_store, embedder()))
    }

    /// Stores an answer as a replica does.
    async fn store(&self, entry: &Entry) {
        let layer = self.cache.semantic().expect("on");
        let text = entry.question.as_deref().expect("a question");
        let prepared = layer.prepare(&entry.partition, text).await.expect("eligible");
        let findable = layer.findable(&prepared).expect("embedded");
        self.cache.insert(Arc::new(entry.clone()), Some(prepared));
        let keys = self.keys.current(entry.partition.tenant()).await;
        let row = EntryRow {
            id: entry.id,
            key: entry.key,
            partition: *entry.partition.as_bytes(),
            tenant: entry.partition.tenant(),
            created_ms: entry.created_ms,
            expires_ms: entry.expires_ms,
            sealed: keys.seal.seal(&entry.partition, &entry.key, entry.encode()),
        };
        self.index.entries.put(&[row]).await.expect("stored");
        self.index.put(&[findable.row(entry, &keys).expect("a row")]).await.expect("stored");
    }

    async fn ask(&self, partition: &Partition, text: &str, now_ms: u64) -> Lookup {
        let key = CacheKey::derive(partition, text.as_bytes());
        let read = ReadPolicy { exact: true, semantic: true, floor: None, shadow: false, max_age_ms: None };
        self.cache.lookup(&Ask { partition, key: &key, question: Ok(text), read, now_ms }).await
    }

    fn holds_nothing(&self) -> bool {
        self.cache.local_entries() == 0 && self.cache.semantic().expect("on").is_empty()
    }
}

#[tokio::test]
async fn a_replica_that_holds_nothing_serves_what_another_has_stored() {
    let ((one, two), home) = (Member::pair(), partition(1, ""));
    let stored = entry(home, POACH);
    one.store(&stored).await;
    assert!(two.holds_nothing());
    let found = two.ask(&home, POACH_SPELLED, NOW).await;
    let Lookup::Semantic(answer, decision) = found else { panic!("{found:?}") };
    assert_eq!((answer.id, decision.tier), (stored.id, Some("vector")));
    assert!(decision.similarity.is_some_and(|similarity| (similarity - 0.95).abs() < 1e-3), "{decision:?}");
    // From now on it holds it, and needs the index no more for the same words.
    two.index.switch.breaks(Trouble::Down);
    assert_eq!(exact(&two.ask(&home, POACH, NOW).await), Some(stored.id));
    assert_eq!(semantic(&two.ask(&home, POACH_POLITE, NOW).await), Some(stored.id));
}

#[tokio::test]
async fn the_very_same_request_is_an_exact_hit_wherever_it_was_stored() {
    let ((one, two), home) = (Member::pair(), partition(1, ""));
    let stored = entry(home, POACH);
    one.store(&stored).await;
    assert_eq!(exact(&two.ask(&home, POACH, NOW).await), Some(stored.id));
}

#[tokio::test]
async fn every_gate_judges_what_the_index_found() {
    let ((one, two), home) = (Member::pair(), partition(1, ""));
    one.store(&entry(home, BOIL)).await;
    let found = two.ask(&home, POACH, NOW).await;
    let Lookup::Miss(miss) = found else { panic!("{found:?}") };
    assert!(miss.decision.refused_by.is_some() && miss.decision.tier.is_none(), "{:?}", miss.decision);
    assert!(miss.decision.similarity.is_some_and(|similarity| similarity > 0.98));
    // The nearest one is refused, and the next one serves.
    let stored = entry(home, POACH_SPELLED);
    one.store(&stored).await;
    assert_eq!(semantic(&two.ask(&home, POACH, NOW).await), Some(stored.id));
}

#[tokio::test]
async fn no_other_tenant_or_namespace_meets_it() {
    let ((one, two), home) = (Member::pair(), partition(1, ""));
    one.store(&entry(home, POACH)).await;
    for elsewhere in [partition(2, ""), partition(1, "other")] {
        assert!(is_miss(&two.ask(&elsewhere, POACH_SPELLED, NOW).await));
    }
}

#[tokio::test]
async fn another_encoder_does_not_meet_old_vectors() {
    let (index, key_store): (Arc<MemorySharedIndex>, _) = (Arc::default(), Arc::default());
    let home = partition(1, "");
    Member::of(&index, &key_store, embedder()).store(&entry(home, POACH)).await;
    let renamed = Member::of(&index, &key_store, embedder().named("another"));
    assert!(is_miss(&renamed.ask(&home, POACH_SPELLED, NOW).await));
    let same = Member::of(&index, &key_store, embedder());
    assert!(semantic(&same.ask(&home, POACH_SPELLED, NOW).await).is_some());
}

#[tokio::test]
async fn what_was_taken_back_or_has_expired_is_not_served() {
    let ((one, two), home) = (Member::pair(), partition(1, ""));
    let stored = entry(home, POACH);
    one.store(&stored).await;
    assert!(is_miss(&two.ask(&home, POACH_SPELLED, NOW + HOUR_MS).await));
    two.cache.withdrawals().add(Withdrawal::of_source(stored.source.id, NOW));
    let found = two.ask(&home, POACH_SPELLED, NOW).await;
    let Lookup::Miss(miss) = found else { panic!("{found:?}") };
    assert_eq!(miss.decision.tier, None);
    assert!(two.holds_nothing());
}

#[tokio::test]
async fn an_index_that_fails_is_a_miss_and_is_counted() {
    let ((one, two), home) = (Member::pair(), partition(1, ""));
    one.store(&entry(home, POACH)).await;
    for (n, trouble) in (1..).zip([Trouble::Down, Trouble::Slow, Trouble::Confused]) {
        two.index.switch.breaks(trouble);
        assert!(is_miss(&two.ask(&home, POACH_SPELLED, NOW).await), "{trouble:?}");
        assert_eq!(two.cache.semantic().and_then(Semantic::search).expect("shared").failed(), n);
    }
    two.index.switch.mend();
    assert!(semantic(&two.ask(&home, POACH_SPELLED, NOW).await).is_some());
}

#[tokio::test]
async fn a_moved_or_damaged_row_is_passed_over_and_counted() {
    let ((one, two), home) = (Member::pair(), partition(1, ""));
    one.store(&entry(home, POACH)).await;
    let good = one.index.rows().remove(0);
    let mut damaged = good.clone();
    damaged.question[20] ^= 1;
    one.index.put(&[damaged]).await.expect("stored");
    assert!(is_miss(&two.ask(&home, POACH_SPELLED, NOW).await));
    assert_eq!(two.cache.semantic().and_then(Semantic::search).expect("shared").unreadable(), 1);
    one.index.put(&[good]).await.expect("stored");
    assert!(semantic(&two.ask(&home, POACH_SPELLED, NOW).await).is_some());
}

#[tokio::test]
async fn an_erased_tenant_finds_nothing_under_its_next_key() {
    let (index, key_store): (Arc<MemorySharedIndex>, Arc<MemoryKeyStore>) = (Arc::default(), Arc::default());
    let home = partition(1, "");
    let one = Member::of(&index, &key_store, embedder());
    one.store(&entry(home, POACH)).await;
    one.keys.erase(home.tenant()).await.expect("erased");
    one.cache.drop_tenant(home.tenant());
    let two = Member::of(&index, &key_store, embedder());
    for member in [one, two] {
        assert!(is_miss(&member.ask(&home, POACH_SPELLED, NOW).await));
        assert_eq!(member.cache.semantic().and_then(Semantic::search).expect("shared").unreadable(), 0);
    }
}

#[tokio::test]
async fn a_row_shows_neither_the_question_nor_its_vector() {
    let ((one, _), home) = (Member::pair(), partition(1, ""));
    one.store(&entry(home, POACH)).await;
    let row = one.index.rows().remove(0);
    assert!(!row.question.windows(5).any(|part| part == b"poach"));
    assert_ne!(row.vector, [1.0, 0.0]);
    assert_ne!(&row.place, home.as_bytes());
}
