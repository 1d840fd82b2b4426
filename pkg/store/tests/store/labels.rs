use crate::support::{Fixture, NOON};
use signet_cache::{Evidence, Finding, Label, LabelRow, LabelStore, Mark, RouteId, Tier, Verdict};
use signet_types::LineageId;
use std::sync::Arc;

fn route() -> RouteId {
    RouteId { model: "gpt-4o-mini".to_owned(), encoder: "table/é".to_owned(), generation: 7 }
}

fn row(n: u8, finding: Finding) -> LabelRow {
    let route = route();
    LabelRow { of: LineageId::from_bytes([n; 16]), route, finding, at_ms: NOON + u64::from(n) }
}

fn label(verdict: Verdict, evidence: Evidence) -> Finding {
    Finding::Label(Label { score_e6: 987_654, tier: Some(Tier::Vector), verdict, evidence, weight_e6: 20_000 })
}

fn wrong(n: u8) -> LabelRow {
    row(n, label(Verdict::Wrong, Evidence::Judge))
}

async fn add(store: &Arc<dyn LabelStore>, rows: &[LabelRow]) {
    store.add(rows).await.expect("a write");
}

async fn since(store: &Arc<dyn LabelStore>, cursor: u64) -> (Vec<LabelRow>, u64) {
    read_page(store, cursor, 1_000).await
}

/// The rows without their numbers, which have to rise.
async fn read_page(store: &Arc<dyn LabelStore>, cursor: u64, limit: u32) -> (Vec<LabelRow>, u64) {
    let (rows, behind) = store.labels(cursor, limit).await.expect("a read");
    let numbers: Vec<u64> = rows.iter().map(|(number, _)| *number).collect();
    assert!(numbers.iter().all(|number| *number > cursor) && numbers.is_sorted(), "{numbers:?} behind {cursor}");
    assert_eq!(behind, numbers.last().copied().unwrap_or(cursor));
    (rows.into_iter().map(|(_, row)| row).collect(), behind)
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
    let (page, cursor) = read_page(&store, 0, 2).await;
    assert_eq!(page, [wrong(1), wrong(2)]);
    let (page, cursor) = read_page(&store, cursor, 2).await;
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

fn mark(upto: u64) -> Mark {
    Mark { upto, bound_e9: 10_000_000, sums_e12: [upto.cast_signed(), -1], alarmed_ago: [None, Some(3)] }
}

pub(crate) async fn what_is_in_a_mark_is_removed_but_for_the_newest_of_each_kind(fixture: Fixture) {
    let store = fixture.stores.labels;
    let right = |n| row(n, label(Verdict::Right, Evidence::Texts));
    let complaint = |n| row(n, label(Verdict::Wrong, Evidence::Feedback));
    let mut other = wrong(50);
    "another".clone_into(&mut other.route.model);
    let early = [other.clone(), complaint(1), wrong(2), complaint(3), right(4), right(5), complaint(6)];
    add(&store, &early).await;
    let (_, upto) = since(&store, 0).await;
    add(&store, &[right(7)]).await;
    store.mark(&route(), &mark(upto), 2).await.expect("a write");
    let left = [other, complaint(3), right(4), right(5), complaint(6), right(7)];
    assert_eq!(since(&store, 0).await.0, left, "complaints push out no sample, and later rows stay");
    assert_eq!(store.marks().await.expect("a read"), [(route(), mark(upto))]);
}

pub(crate) async fn what_is_in_a_mark_and_before_a_reset_is_removed(fixture: Fixture) {
    let store = fixture.stores.labels;
    add(&store, &[wrong(1), row(2, Finding::Reset), wrong(3), wrong(4)]).await;
    let (_, upto) = since(&store, 0).await;
    add(&store, &[row(5, Finding::Reset)]).await;
    store.mark(&route(), &mark(upto), 100).await.expect("a write");
    let left = [row(2, Finding::Reset), wrong(3), wrong(4), row(5, Finding::Reset)];
    assert_eq!(since(&store, 0).await.0, left);
}

pub(crate) async fn a_later_mark_stays_and_each_route_has_its_own(fixture: Fixture) {
    let store = fixture.stores.labels;
    let other = RouteId { generation: 8, ..route() };
    for (route, upto) in [(route(), 5), (other.clone(), 2), (route(), 9), (route(), 7)] {
        store.mark(&route, &mark(upto), 100).await.expect("a write");
    }
    let mut marks = store.marks().await.expect("a read");
    marks.sort_by_key(|(route, _)| route.generation);
    assert_eq!(marks, [(route(), mark(9)), (other, mark(2))]);
}
