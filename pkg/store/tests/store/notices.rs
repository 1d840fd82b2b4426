use crate::support::{Fixture, NOON};
use signet_cache::{Notice, NoticeStore, Withdrawal};
use signet_types::{LineageId, TenantId};
use std::sync::Arc;

const LATER: u64 = NOON + 1000;

fn of_source(n: u8) -> Notice {
    Notice::Withdraw(Withdrawal::of_source(LineageId::from_bytes([n; 16]), NOON))
}

async fn since(store: &Arc<dyn NoticeStore>, cursor: u64) -> (Vec<Notice>, u64) {
    store.notices(cursor, NOON).await.expect("a read")
}

pub(crate) async fn notices_come_back_as_they_were_in_their_order(fixture: Fixture) {
    let store = fixture.stores.notices;
    assert_eq!(since(&store, 0).await, (vec![], 0));
    let all = [
        of_source(1),
        Notice::Semantic { off: true },
        Notice::Withdraw(Withdrawal {
            source: None,
            tenant: Some(TenantId::from_bytes([7; 16])),
            model: Some("gpt-4o-mini".to_owned()),
            namespace: Some("a b".to_owned()),
            stored_by_ms: NOON,
        }),
        Notice::Erase { tenant: TenantId::from_bytes([8; 16]), stored_by_ms: NOON },
        Notice::Semantic { off: false },
    ];
    for notice in &all {
        store.post(notice, NOON, LATER).await.expect("a write");
    }
    assert_eq!(since(&store, 0).await.0, all);
}

pub(crate) async fn a_cursor_shows_only_the_notices_behind_it(fixture: Fixture) {
    let store = fixture.stores.notices;
    store.post(&of_source(1), NOON, LATER).await.expect("a write");
    let (_, cursor) = since(&store, 0).await;
    assert_eq!(since(&store, cursor).await, (vec![], cursor));
    store.post(&of_source(2), NOON, LATER).await.expect("a write");
    assert_eq!(since(&store, cursor).await.0, [of_source(2)]);
}

pub(crate) async fn a_notice_without_meaning_is_left_out_and_goes_with_the_next_one(fixture: Fixture) {
    let store = fixture.stores.notices;
    store.post(&of_source(1), NOON, NOON + 5).await.expect("a write");
    assert_eq!(store.notices(0, NOON + 4).await.expect("a read").0, [of_source(1)]);
    assert_eq!(store.notices(0, NOON + 5).await.expect("a read").0, []);
    store.post(&of_source(2), NOON + 6, LATER).await.expect("a write");
    assert_eq!(since(&store, 0).await.0, [of_source(2)], "the first one was removed");
}
