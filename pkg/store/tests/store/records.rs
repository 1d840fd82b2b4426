use crate::support::{Fixture, NOON, log_row, new_log, record_at, records, tenant};
use signet_lineage::{Columns, Leaf, RecordStore, ShipFault};
use signet_types::{LineageId, LogId};
use std::sync::Arc;

async fn registered(fixture: &Fixture) -> (Arc<dyn RecordStore>, LogId) {
    let (store, log) = (fixture.stores.records.clone(), new_log());
    let row = store.register(&log_row(log, 1)).await.expect("a new log");
    assert_eq!(row, log_row(log, 1));
    (store, log)
}

async fn seqs(store: &Arc<dyn RecordStore>, log: LogId) -> Vec<u64> {
    store.records(log, 0, 10_000).await.expect("a read").iter().map(|record| record.seq).collect()
}

pub(crate) async fn a_shipped_batch_is_found_again_byte_for_byte(fixture: Fixture) {
    let (store, log) = registered(&fixture).await;
    let batch = records(log, 0..5);
    assert_eq!(store.ship(log, 1, &batch).await.expect("shipped"), 5);
    assert_eq!(store.records(log, 0, 100).await.expect("a read"), batch);
    for record in &batch {
        assert_eq!(store.find(record.id, None).await.expect("a read").as_ref(), Some(record));
    }
    assert_eq!(store.find(LineageId::generate(NOON), None).await.expect("a read"), None);
}

pub(crate) async fn a_batch_shipped_twice_is_held_once(fixture: Fixture) {
    let (store, log) = registered(&fixture).await;
    let batch = records(log, 0..5);
    for _ in 0..3 {
        assert_eq!(store.ship(log, 1, &batch).await.expect("shipped"), 5);
    }
    assert_eq!(store.ship(log, 1, &[]).await.expect("nothing to do"), 5);
    assert_eq!(seqs(&store, log).await, [0, 1, 2, 3, 4]);
}

pub(crate) async fn an_overlapping_batch_adds_only_what_is_new(fixture: Fixture) {
    let (store, log) = registered(&fixture).await;
    let batch = records(log, 0..10);
    store.ship(log, 1, &batch[..6]).await.expect("shipped");
    assert_eq!(store.ship(log, 1, &batch[3..]).await.expect("shipped"), 10);
    assert_eq!(store.ship(log, 1, &batch[2..5]).await.expect("held already"), 10);
    assert_eq!(store.records(log, 0, 100).await.expect("a read"), batch);
}

pub(crate) async fn a_later_epoch_fences_the_earlier_one(fixture: Fixture) {
    let (store, log) = registered(&fixture).await;
    let batch = records(log, 0..4);
    store.ship(log, 1, &batch[..2]).await.expect("shipped");
    let taken = store.register(&log_row(log, 2)).await.expect("a takeover");
    assert_eq!((taken.epoch, taken.next_seq), (2, 2));

    let late = store.ship(log, 1, &batch[2..]).await;
    assert!(matches!(late, Err(ShipFault::Fenced { ours: 1, found: 2 })), "{late:?}");
    let again = store.register(&log_row(log, 1)).await;
    assert!(matches!(again, Err(ShipFault::Fenced { ours: 1, found: 2 })), "{again:?}");
    assert_eq!(store.ship(log, 2, &batch[2..]).await.expect("the new owner ships"), 4);
}

pub(crate) async fn the_same_epoch_with_another_key_is_a_second_writer(fixture: Fixture) {
    let (store, log) = registered(&fixture).await;
    let twin = signet_lineage::LogRow { attest_key: [8; 32], ..log_row(log, 1) };
    let found = store.register(&twin).await;
    assert!(matches!(found, Err(ShipFault::Fenced { ours: 1, found: 1 })), "{found:?}");
    store.register(&log_row(log, 1)).await.expect("registering again is harmless");
}

pub(crate) async fn a_batch_beyond_the_end_is_a_gap(fixture: Fixture) {
    let (store, log) = registered(&fixture).await;
    let batch = records(log, 0..9);
    store.ship(log, 1, &batch[..3]).await.expect("shipped");
    let found = store.ship(log, 1, &batch[5..]).await;
    assert!(matches!(found, Err(ShipFault::Gap { expected: 3, found: 5 })), "{found:?}");
    assert_eq!(seqs(&store, log).await, [0, 1, 2]);
}

pub(crate) async fn a_batch_with_a_hole_or_a_stray_record_changes_nothing(fixture: Fixture) {
    let (store, log) = registered(&fixture).await;
    let mut batch = records(log, 0..4);
    batch.remove(2);
    let found = store.ship(log, 1, &batch).await;
    assert!(matches!(found, Err(ShipFault::Gap { expected: 2, found: 3 })), "{found:?}");

    let mut batch = records(log, 0..2);
    batch[1] = record_at(new_log(), 1, tenant(1), NOON);
    store.ship(log, 1, &batch).await.expect_err("a record of another log");
    assert_eq!(seqs(&store, log).await, [0; 0]);
}

pub(crate) async fn another_record_at_a_held_seq_is_equivocation_and_changes_nothing(fixture: Fixture) {
    let (store, log) = registered(&fixture).await;
    let batch = records(log, 0..4);
    store.ship(log, 1, &batch[..3]).await.expect("shipped");
    let mut forged = batch.clone();
    forged[1].sig[0] ^= 1;
    let found = store.ship(log, 1, &forged).await;
    assert!(matches!(found, Err(ShipFault::Equivocation { seq: 1 })), "{found:?}");
    assert_eq!(store.records(log, 0, 100).await.expect("a read"), batch[..3]);
    assert_eq!(store.logs().await.expect("a read")[0].next_seq, 3);
}

pub(crate) async fn an_unregistered_log_and_a_missed_takeover_are_not_shipped_to(fixture: Fixture) {
    let (store, log) = registered(&fixture).await;
    let stranger = new_log();
    let found = store.ship(stranger, 1, &records(stranger, 0..1)).await;
    assert!(matches!(found, Err(ShipFault::Unavailable(_))), "{found:?}");
    let found = store.ship(log, 2, &records(log, 0..1)).await;
    assert!(matches!(found, Err(ShipFault::Unavailable(_))), "{found:?}");
    assert_eq!(seqs(&store, log).await, [0; 0]);
}

pub(crate) async fn a_record_is_found_by_its_own_tenant_only(fixture: Fixture) {
    let (store, log) = registered(&fixture).await;
    let record = record_at(log, 0, tenant(1), NOON);
    store.ship(log, 1, std::slice::from_ref(&record)).await.expect("shipped");
    assert_eq!(store.find(record.id, Some(tenant(1))).await.expect("a read"), Some(record.clone()));
    assert_eq!(store.find(record.id, Some(tenant(2))).await.expect("a read"), None);
}

pub(crate) async fn records_come_in_pages_and_show_holes(fixture: Fixture) {
    let (store, log) = registered(&fixture).await;
    let other = new_log();
    store.register(&log_row(other, 1)).await.expect("a new log");
    let batch = records(log, 0..25);
    store.ship(log, 1, &batch).await.expect("shipped");
    store.ship(other, 1, &records(other, 0..3)).await.expect("shipped");
    let mut read = Vec::new();
    loop {
        let from = read.last().map_or(0, |record: &signet_lineage::Record| record.seq + 1);
        let page = store.records(log, from, 10).await.expect("a read");
        assert!(page.len() <= 10);
        if page.is_empty() {
            break;
        }
        read.extend(page);
    }
    assert_eq!(read, batch);
    fixture.execute("DELETE FROM lineage_entry WHERE seq BETWEEN 8 AND 11").await;
    let page = store.records(log, 7, 3).await.expect("a read");
    assert_eq!(page.iter().map(|record| record.seq).collect::<Vec<_>>(), [7, 12, 13]);
}

pub(crate) async fn what_cannot_be_parsed_is_shipped_all_the_same(fixture: Fixture) {
    let (store, log) = registered(&fixture).await;
    let mut batch = records(log, 0..3);
    batch[1].payload = b"{not json".as_slice().into();
    assert_eq!(store.ship(log, 1, &batch).await.expect("shipped"), 3);
    assert_eq!(store.find(batch[1].id, None).await.expect("a read").as_ref(), Some(&batch[1]));
    assert_eq!(store.find(batch[1].id, Some(tenant(1))).await.expect("a read"), None);
}

pub(crate) async fn a_nul_in_a_model_name_does_not_stop_the_log(fixture: Fixture) {
    let (store, log) = registered(&fixture).await;
    let mut record = record_at(log, 0, tenant(1), NOON);
    let payload = String::from_utf8(record.payload.to_vec()).expect("text").replace("small", r"small\u0000");
    record.payload = payload.into_bytes().into();
    assert_eq!(store.ship(log, 1, std::slice::from_ref(&record)).await.expect("shipped"), 1);
    assert_eq!(store.find(record.id, Some(tenant(1))).await.expect("a read"), Some(record));
}

pub(crate) async fn batches_larger_than_one_statement_arrive_whole(fixture: Fixture) {
    let (store, log) = registered(&fixture).await;
    let batch = records(log, 0..2345);
    assert_eq!(store.ship(log, 1, &batch).await.expect("shipped"), 2345);
    assert_eq!(seqs(&store, log).await, (0..2345).collect::<Vec<_>>());
}

pub(crate) async fn shipping_from_many_tasks_at_once_holds_every_record_once(fixture: Fixture) {
    let (store, log) = registered(&fixture).await;
    let batch = Arc::new(records(log, 0..200));
    let mut tasks = tokio::task::JoinSet::new();
    for start in [0_usize, 0, 0, 0, 50, 100, 150, 199] {
        let (store, batch) = (store.clone(), batch.clone());
        tasks.spawn(async move { store.ship(log, 1, &batch[start..]).await });
    }
    for done in tasks.join_all().await {
        assert!(matches!(done, Ok(200) | Err(ShipFault::Gap { expected: 0, .. })), "{done:?}");
    }
    assert_eq!(seqs(&store, log).await, (0..200).collect::<Vec<_>>());
}

pub(crate) async fn logs_are_listed_by_id(fixture: Fixture) {
    let store = fixture.stores.records.clone();
    let mut logs: Vec<_> = (0..5).map(|_| log_row(new_log(), 3)).collect();
    for log in logs.iter().rev() {
        store.register(log).await.expect("a new log");
    }
    logs.sort_by_key(|log| log.log);
    assert_eq!(store.logs().await.expect("a read"), logs);
}

pub(crate) async fn the_copies_beside_a_record_are_what_it_says(fixture: Fixture) {
    let (store, log) = registered(&fixture).await;
    let parent = new_log();
    let mut batch = records(log, 0..3);
    let cited = format!(r#""parents":[{{"log_id":"{parent}","seq":77}}]"#);
    let payload = String::from_utf8(batch[1].payload.to_vec()).expect("text").replace(r#""parents":[]"#, &cited);
    batch[1].payload = payload.into_bytes().into();
    batch[2].payload = b"{".as_slice().into();
    store.ship(log, 1, &batch).await.expect("shipped");
    let found = fixture.stores.stored(log, 0, 9).await.expect("a read");
    assert_eq!(found.iter().map(|(record, _)| record.clone()).collect::<Vec<_>>(), batch);
    for (record, stored) in &found {
        assert_eq!(stored.columns, Columns::read(&record.payload).ok());
        assert_eq!(stored.leaf_hash, Some(Leaf::of(record).hash()));
    }
    assert_eq!(found[1].1.columns.as_ref().expect("a statement").parent, Some((parent, 77)));

    fixture
        .execute(if fixture.entries == "lineage_record" {
            "UPDATE lineage_entry SET kind = 99, status = 500 WHERE seq = 0"
        } else {
            "UPDATE lineage_entry SET kind = 'made up', status = 500 WHERE seq = 0"
        })
        .await;
    let (record, stored) = fixture.stores.stored(log, 0, 1).await.expect("a read").remove(0);
    let (stored, signed) = (stored.columns.expect("columns"), Columns::read(&record.payload).expect("a statement"));
    assert!(stored.kind != signed.kind && stored.status == Some(500), "{stored:?}");
}

/// Columns may be narrower than what is signed; what they hold is compared all the same.
pub(crate) async fn values_that_their_columns_cannot_hold_are_no_difference(fixture: Fixture) {
    let (store, log) = registered(&fixture).await;
    let mut batch = records(log, 0..2);
    for (record, (decision, tokens, epoch)) in
        batch.iter_mut().zip([("of-tomorrow", 1_u64 << 40, u32::MAX), ("", (1 << 31) - 1, 1)])
    {
        let text = String::from_utf8(record.payload.to_vec()).expect("text");
        let text = text.replace(r#""decision":"miss""#, &format!(r#""decision":"{decision}""#));
        record.payload = text.replace(r#""in":12"#, &format!(r#""in":{tokens}"#)).into_bytes().into();
        record.epoch = epoch;
    }
    store.ship(log, 1, &batch).await.expect("shipped");
    let found = fixture.stores.stored(log, 0, 9).await.expect("a read");
    for ((record, stored), sent) in found.iter().zip(&batch) {
        assert_eq!((record, &stored.columns), (sent, &Columns::read(&sent.payload).ok()));
    }
}

pub(crate) async fn a_tenants_records_are_listed_newest_first_page_by_page(fixture: Fixture) {
    let (store, log) = registered(&fixture).await;
    let batch: Vec<_> = (0..9).map(|seq| record_at(log, seq, tenant(u8::from(seq % 3 == 0)), NOON + 7 * seq)).collect();
    store.ship(log, 1, &batch).await.expect("shipped");
    for of in [None, Some(tenant(0)), Some(tenant(1)), Some(tenant(2))] {
        let mut expected: Vec<_> = batch.iter().filter_map(|record| Columns::read(&record.payload).ok()).collect();
        expected.retain(|columns| of.is_none() || columns.tenant == of);
        expected.reverse();
        let (mut listed, mut before) = (Vec::new(), None);
        loop {
            let page = store.list(of, before, 2).await.expect("a read");
            assert!(page.len() <= 2);
            let Some(last) = page.last() else { break };
            before = Some(last.id);
            listed.extend(page);
        }
        assert_eq!(listed, expected, "{of:?}");
    }
}

pub(crate) async fn a_payload_that_is_erased_leaves_its_row_and_its_leaf(fixture: Fixture) {
    let (store, log) = registered(&fixture).await;
    let batch = records(log, 0..4);
    store.ship(log, 1, &batch).await.expect("shipped");
    assert!(!store.is_erased(log, 2).await.expect("a read"));
    assert!(store.erase(&batch[2]).await.expect("erased"));
    assert!(!store.erase(&batch[2]).await.expect("it was gone"));
    assert!(store.is_erased(log, 2).await.expect("a read") && !store.is_erased(log, 1).await.expect("a read"));
    assert_eq!(store.find(batch[2].id, None).await.expect("a read"), None);
    assert_eq!(seqs(&store, log).await, [0, 1, 3]);
    let rows = fixture.stores.stored(log, 0, 10).await.expect("a read");
    let (left, beside) = &rows[2];
    let leaf = Leaf::of(&batch[2]);
    assert!(beside.erased && left.payload.is_empty());
    assert_eq!((beside.payload_sha256, beside.leaf_hash), (Some(leaf.payload_sha256()), Some(leaf.hash())));
    assert_eq!(fixture.stores.trees.leaf_hashes(log, 0, 10).await.expect("a read").len(), 4);
    assert_eq!(store.list(None, None, 10).await.expect("a read").len(), 4);
    // Shipped once more, as after an outage: it stays gone.
    assert_eq!(store.ship(log, 1, &batch).await.expect("held"), 4);
    assert!(store.is_erased(log, 2).await.expect("a read"));
}
