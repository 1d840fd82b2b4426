use crate::support::{Fixture, NOON};
use signet_cache::{Evidence, Finding, Label, LabelRow, LabelStore, RouteId, Verdict};
use signet_types::LineageId;
use std::sync::Arc;

const KEEP: u32 = 100;

fn row(n: u8, finding: Finding) -> LabelRow {
    let route = RouteId { model: "gpt-4o-mini".to_owned(), encoder: "table/é".to_owned(), generation: 7 };
    LabelRow { of: LineageId::from_bytes([n; 16]), route, finding, at_ms: NOON + u64::from(n) }
}

fn label(verdict: Verdict, evidence: Evidence) -> Finding {
    Finding::Label(Label { score_e6: 987_654, verdict, evidence, weight_e6: 20_000 })
}

fn wrong(n: u8) -> LabelRow {
    row(n, label(Verdict::Wrong, Evidence::Judge))
}

async fn add(store: &Arc<dyn LabelStore>, rows: &[LabelRow]) {
    store.add(rows, KEEP).await.expect("a write");
}

async fn since(store: &Arc<dyn LabelStore>, cursor: u64) -> (Vec<LabelRow>, u64) {
    store.labels(cursor, 1_000).await.expect("a read")
}

pub(crate) async fn labels_come_back_as_they_were_in_their_order(fixture: Fixture) {
    let store = fixture.stores.labels;
    assert_eq!(since(&store, 0).await, (vec![], 0));
    let all = [
        row(1, label(Verdict::Right, Evidence::Texts)),
        row(2, label(Verdict::Wrong, Evidence::Judge)),
        row(3, Finding::Reset),
        row(4, label(Verdict::Unknown, Evidence::Texts)),
        row(5, label(Verdict::Wrong, Evidence::Feedback)),
    ];
    add(&store, &all[..3]).await;
    add(&store, &all[3..]).await;
    assert_eq!(since(&store, 0).await.0, all);
}

pub(crate) async fn a_cursor_shows_only_the_labels_behind_it_page_by_page(fixture: Fixture) {
    let store = fixture.stores.labels;
    add(&store, &[wrong(1), wrong(2), wrong(3)]).await;
    let (page, cursor) = store.labels(0, 2).await.expect("a read");
    assert_eq!(page, [wrong(1), wrong(2)]);
    let (page, cursor) = store.labels(cursor, 2).await.expect("a read");
    assert_eq!(page, [wrong(3)]);
    assert_eq!(since(&store, cursor).await, (vec![], cursor));
    add(&store, &[wrong(4)]).await;
    assert_eq!(since(&store, cursor).await.0, [wrong(4)]);
}

pub(crate) async fn a_decision_is_labelled_once(fixture: Fixture) {
    let store = fixture.stores.labels;
    add(&store, &[wrong(1)]).await;
    add(&store, &[row(1, label(Verdict::Right, Evidence::Texts)), wrong(2), wrong(2)]).await;
    assert_eq!(since(&store, 0).await.0, [wrong(1), wrong(2)]);
}

pub(crate) async fn the_newest_labels_of_each_route_and_verdict_stay(fixture: Fixture) {
    let store = fixture.stores.labels;
    let right = |n| row(n, label(Verdict::Right, Evidence::Texts));
    let mut other = wrong(50);
    "another".clone_into(&mut other.route.model);
    add(&store, &[wrong(1), wrong(2), other.clone()]).await;
    for n in 10..14 {
        store.add(&[right(n)], 2).await.expect("a write");
    }
    assert_eq!(since(&store, 0).await.0, [wrong(1), wrong(2), other, right(12), right(13)]);
}
