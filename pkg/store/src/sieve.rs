//! One row per key, in key order.

use signet_cache::EntryRow;
use std::collections::BTreeMap;

/// The newest row of each key, the later of equally old ones; sorted by key, so that writers who meet in the database take
/// row locks in one order and cannot deadlock.
pub(crate) fn newest_per_key(rows: &[EntryRow]) -> Vec<EntryRow> {
    let mut newest: BTreeMap<[u8; 32], &EntryRow> = BTreeMap::new();
    for row in rows {
        let kept = newest.entry(*row.key.as_bytes()).or_insert(row);
        if row.created_ms >= kept.created_ms {
            *kept = row;
        }
    }
    newest.into_values().cloned().collect()
}
