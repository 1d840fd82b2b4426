//! Sealed bodies: kept once, gone when erased, gone when old.

use crate::support::{Fixture, NOON, tenant};
use signet_lineage::CaptureRow;
use signet_types::LineageId;
use std::sync::Arc;

fn row(n: u8, of: u8, at_ms: u64) -> Arc<CaptureRow> {
    let id = LineageId::from_bytes([n; 16]);
    Arc::new(CaptureRow { id, tenant: tenant(100 + of), at_ms, sealed: vec![n; 70_000] })
}

async fn held(fixture: &Fixture) -> Vec<u8> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let page = fixture.stores.captures.captures(after, 2).await.expect("an answer");
        let Some((last, _)) = page.last() else { return ids };
        after = Some(*last);
        for (id, sealed) in page {
            assert_eq!(sealed, vec![id.as_bytes()[0]; 70_000]);
            ids.push(id.as_bytes()[0]);
        }
    }
}

pub(crate) async fn sealed_bodies_are_kept_once_and_found_by_their_record(fixture: Fixture) {
    let captures = &fixture.stores.captures;
    let rows = [row(3, 1, NOON), row(1, 1, NOON), row(2, 2, NOON)];
    captures.put_captures(&rows).await.expect("kept");
    captures.put_captures(&rows).await.expect("once more is no harm");
    let other = CaptureRow { sealed: vec![9], ..CaptureRow::clone(&rows[0]) };
    captures.put_captures(&[Arc::new(other)]).await.expect("left out");
    assert_eq!(held(&fixture).await, [1, 2, 3]);
    assert_eq!(captures.capture(rows[0].id).await.expect("an answer"), Some(rows[0].sealed.clone()));
    assert_eq!(captures.capture(row(9, 1, NOON).id).await.expect("an answer"), None);
}

pub(crate) async fn what_was_erased_is_gone_and_does_not_come_back_from_a_late_writer(fixture: Fixture) {
    let captures = &fixture.stores.captures;
    let rows = [row(1, 1, NOON), row(2, 1, NOON), row(3, 2, NOON), row(4, 2, NOON)];
    captures.put_captures(&rows[..3]).await.expect("kept");
    let one = *rows[0].id.as_bytes();
    assert_eq!(captures.erase_captures(one, i64::MAX.unsigned_abs()).await.expect("erased"), 1);
    assert_eq!(captures.erase_captures(one, 1).await.expect("a lower bound undoes nothing"), 0);
    assert_eq!(captures.erase_captures(*tenant(102).as_bytes(), NOON).await.expect("erased"), 1);
    captures.put_captures(&rows).await.expect("left out");
    assert_eq!(held(&fixture).await, [2]);
    captures.put_captures(&[row(5, 2, NOON + 1)]).await.expect("a later answer of the tenant is kept");
    assert_eq!(held(&fixture).await, [2, 5]);
}

pub(crate) async fn what_is_old_or_was_erased_is_swept(fixture: Fixture) {
    let captures = &fixture.stores.captures;
    captures.put_captures(&[row(1, 1, NOON - 1), row(2, 1, NOON), row(3, 2, NOON)]).await.expect("kept");
    // As if its insert had begun before the erasure was visible.
    fixture
        .execute("INSERT INTO capture_erased (what, until_ms) SELECT id, at_ms FROM capture WHERE tenant <> (SELECT tenant FROM capture ORDER BY id LIMIT 1)")
        .await;
    assert_eq!(captures.sweep_captures(NOON).await.expect("swept"), 2);
    assert_eq!(held(&fixture).await, [2]);
    assert_eq!(captures.sweep_captures(NOON).await.expect("swept"), 0);
}
