//! What the tests of several subjects make up.

use bytes::Bytes;
use signet_cache::{CacheKey, Entry, Origin, Partition, Source, Stored};
use signet_types::{EntryId, LineageId, LogId, TenantId};

/// An entry of tenant 7 that was answered by record 1.
pub(crate) fn entry(key: u8, body: Bytes) -> Entry {
    let source = Source {
        id: LineageId::generate(1),
        log: LogId::from_bytes([1; 16]),
        epoch: 1,
        seq: 1,
        leaf_hash: [0; 32],
        response_fp: [0; 16],
        key_epoch: 1,
    };
    Entry {
        id: EntryId::generate(1),
        key: CacheKey::from_bytes([key; 32]),
        partition: Partition::from_row(TenantId::from_bytes([7; 16]), [1; 32]),
        body: Stored::Json(body),
        question: None,
        created_ms: 1,
        expires_ms: 2,
        source,
        origin: Origin::default(),
    }
}
