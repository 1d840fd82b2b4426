use crate::support::{Fixture, NOON, entry};
use signet_cache::{EntryRow, EntryStore};
use std::sync::Arc;

async fn all(store: &Arc<dyn EntryStore>, cursor: u64) -> (Vec<EntryRow>, u64) {
    store.since(cursor, NOON, 1000).await.expect("a read")
}

/// What counts: of each key the newest row, the later of equally old ones, where it appeared.
fn newest(rows: &[EntryRow]) -> Vec<EntryRow> {
    let beaten = |at: usize, row: &EntryRow| {
        let newer = |(other, rival): (usize, &EntryRow)| {
            rival.key == row.key && (rival.created_ms, other) > (row.created_ms, at)
        };
        rows.iter().enumerate().any(newer)
    };
    rows.iter().enumerate().filter(|(at, row)| !beaten(*at, row)).map(|(_, row)| row.clone()).collect()
}

pub(crate) async fn entries_come_back_in_the_order_of_appearance(fixture: Fixture) {
    let store = fixture.stores.entries;
    assert_eq!(all(&store, 0).await.0, []);
    let rows = [entry(3, NOON), entry(1, NOON), entry(2, NOON)];
    for row in &rows {
        store.put(std::slice::from_ref(row)).await.expect("a write");
    }
    assert_eq!(all(&store, 0).await.0, rows);
}

pub(crate) async fn a_cursor_shows_only_what_appeared_behind_it(fixture: Fixture) {
    let store = fixture.stores.entries;
    store.put(&[entry(1, NOON)]).await.expect("a write");
    let (_, cursor) = all(&store, 0).await;
    assert_eq!(all(&store, cursor).await.0, []);
    let next = entry(2, NOON);
    store.put(std::slice::from_ref(&next)).await.expect("a write");
    let (rows, cursor) = all(&store, cursor).await;
    assert_eq!(rows, [next]);
    assert_eq!(all(&store, cursor).await.0, []);
}

pub(crate) async fn pages_cover_everything_once(fixture: Fixture) {
    let store = fixture.stores.entries;
    let rows: Vec<_> = (0..=249).map(|n| entry(n, NOON)).collect();
    store.put(&rows).await.expect("a write");
    let (mut read, mut cursor) = (Vec::new(), 0);
    loop {
        let (page, behind) = store.since(cursor, NOON, 7).await.expect("a read");
        assert!(page.len() <= 7 && behind >= cursor);
        cursor = behind;
        if page.is_empty() {
            break;
        }
        read.extend(page);
    }
    assert_eq!(read, rows);
}

pub(crate) async fn a_newer_entry_replaces_an_older_one_and_appears_again(fixture: Fixture) {
    let store = fixture.stores.entries;
    store.put(&[entry(1, NOON), entry(2, NOON)]).await.expect("a write");
    let (_, cursor) = all(&store, 0).await;
    let (newer, same_age) = (entry(1, NOON + 1), entry(2, NOON));
    store.put(&[newer.clone(), same_age.clone()]).await.expect("a write");
    assert_eq!(newest(&all(&store, cursor).await.0), [newer.clone(), same_age.clone()]);
    assert_eq!(newest(&all(&store, 0).await.0), [newer, same_age]);
}

pub(crate) async fn an_older_entry_does_not_replace_a_newer_one(fixture: Fixture) {
    let store = fixture.stores.entries;
    let newer = entry(1, NOON + 5);
    store.put(std::slice::from_ref(&newer)).await.expect("a write");
    store.put(&[entry(1, NOON)]).await.expect("a write");
    assert_eq!(newest(&all(&store, 0).await.0), [newer]);
}

pub(crate) async fn a_key_twice_in_one_batch_keeps_the_newest(fixture: Fixture) {
    let store = fixture.stores.entries;
    let last = entry(1, NOON + 9);
    store.put(&[entry(1, NOON), last.clone(), entry(1, NOON + 3)]).await.expect("a write");
    assert_eq!(newest(&all(&store, 0).await.0), [last]);
}

pub(crate) async fn the_latest_come_first(fixture: Fixture) {
    let store = fixture.stores.entries;
    let rows: Vec<_> = (0..5).map(|n| entry(n, NOON)).collect();
    for row in &rows {
        store.put(std::slice::from_ref(row)).await.expect("a write");
    }
    let latest = store.latest(NOON, 2).await.expect("a read");
    assert_eq!(latest, [rows[4].clone(), rows[3].clone()]);
}

pub(crate) async fn expired_entries_are_left_out_and_swept(fixture: Fixture) {
    let store = fixture.stores.entries;
    let fresh = entry(2, NOON);
    store.put(&[entry(1, NOON - 60_000), fresh.clone()]).await.expect("a write");
    assert_eq!(all(&store, 0).await.0, std::slice::from_ref(&fresh), "one expires at this very millisecond");
    assert_eq!(store.sweep(NOON).await.expect("a sweep"), 0, "it expired not before now");
    assert_eq!(store.sweep(NOON + 1).await.expect("a sweep"), 1);
    assert_eq!(store.sweep(NOON + 1).await.expect("a sweep"), 0);
    assert_eq!(all(&store, 0).await.0, [fresh]);
}

pub(crate) async fn many_writers_of_the_same_keys_do_not_deadlock(fixture: Fixture) {
    let store = fixture.stores.entries;
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..4 {
        let store = store.clone();
        tasks.spawn(async move {
            for round in 0..5 {
                let mut rows: Vec<_> = (0..50).map(|n| entry(n, NOON + round)).collect();
                if writer % 2 == 0 {
                    rows.reverse();
                }
                store.put(&rows).await.expect("a write");
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(newest(&all(&store, 0).await.0).len(), 50);
}
