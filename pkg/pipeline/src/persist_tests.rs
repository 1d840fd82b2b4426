use super::*;
use crate::fixture::entry;
use bytes::Bytes;
use parking_lot::Mutex;
use signet_cache::{HideKey, SealKey, StoreFault};
use signet_lineage::TenantKey;
use signet_types::{ManualClock, TenantId};

/// How many rows came with each call.
#[derive(Default)]
struct Counted(Mutex<Vec<usize>>);

#[async_trait::async_trait]
impl EntryStore for Counted {
    async fn put(&self, rows: &[EntryRow]) -> Result<(), StoreFault> {
        self.0.lock().push(rows.len());
        Ok(())
    }

    async fn since(&self, cursor: u64, _now_ms: u64, _limit: u32) -> Result<(Vec<EntryRow>, u64), StoreFault> {
        Ok((Vec::new(), cursor))
    }

    async fn latest(&self, _now_ms: u64, _limit: u32) -> Result<Vec<EntryRow>, StoreFault> {
        Ok(Vec::new())
    }

    async fn sweep(&self, _now_ms: u64) -> Result<u64, StoreFault> {
        Ok(0)
    }
}

fn send(outbox: &Outbox, key: u8) {
    let keys = TenantKeys {
        tenant: TenantId::from_bytes([7; 16]),
        epoch: 1,
        proof: TenantKey::from_bytes([3; 32].into()),
        seal: SealKey::derive(&[3; 32], 1),
        hide: HideKey::derive(&[3; 32]),
        unstored: None,
    };
    outbox.send(&Arc::new(entry(key, Bytes::from_static(b"{}"))), 2, &Arc::new(keys), None);
}

fn carrier() -> (Outbox, Carrier, Arc<Counted>) {
    let store = Arc::<Counted>::default();
    let (clock, metrics) = (Arc::new(ManualClock::at(1)), Arc::new(Metrics::new()));
    let (outbox, carrier) = outbox(None, Some(store.clone()), None, clock, metrics);
    (outbox, carrier, store)
}

#[tokio::test(start_paused = true)]
async fn what_comes_within_a_few_milliseconds_is_stored_in_one_go_and_not_before() {
    let (outbox, carrier, store) = carrier();
    let carrying = tokio::spawn(carrier.run());
    send(&outbox, 1);
    tokio::time::sleep(LINGER / 2).await;
    send(&outbox, 2);
    assert!(store.0.lock().is_empty(), "the caller who was just answered may ask again now");
    tokio::time::sleep(LINGER).await;
    assert_eq!(*store.0.lock(), [2]);
    drop(outbox);
    carrying.await.expect("it ends with its queue");
}

#[tokio::test(start_paused = true)]
async fn what_a_closed_queue_holds_is_stored_at_once() {
    let (outbox, carrier, store) = carrier();
    send(&outbox, 1);
    send(&outbox, 2);
    drop(outbox);
    let started = tokio::time::Instant::now();
    carrier.run().await;
    assert_eq!((store.0.lock().as_slice(), started.elapsed()), (&[2][..], Duration::ZERO));
}
