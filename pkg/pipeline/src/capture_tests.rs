//! What the record may say, and what becomes of what was sealed.

use super::*;
use async_trait::async_trait;
use parking_lot::Mutex;
use signet_lineage::{ShipFault, TenantKey};
use signet_types::ManualClock;
use std::sync::atomic::AtomicU32;

/// Any X25519 public key: the base point.
const KEY: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VuAyEACQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\
                   -----END PUBLIC KEY-----\n";
const MAX: usize = 1 << 20;

/// A store that fails so many times first.
#[derive(Default)]
struct Rows {
    held: Mutex<Vec<Arc<CaptureRow>>>,
    fails: AtomicU32,
    swept: Mutex<Vec<u64>>,
}

impl Rows {
    fn fails(&self) -> Result<(), ShipFault> {
        let failing = self.fails.load(Ordering::Relaxed);
        self.fails.store(failing.saturating_sub(1), Ordering::Relaxed);
        if failing > 0 { Err(ShipFault::Unavailable("away".to_owned())) } else { Ok(()) }
    }
}

#[async_trait]
impl CaptureStore for Rows {
    async fn put_captures(&self, rows: &[Arc<CaptureRow>]) -> Result<(), ShipFault> {
        self.fails()?;
        self.held.lock().extend_from_slice(rows);
        Ok(())
    }

    async fn capture(&self, _: LineageId) -> Result<Option<Vec<u8>>, ShipFault> {
        Ok(None)
    }

    async fn captures(&self, _: Option<LineageId>, _: u32) -> Result<Vec<(LineageId, Vec<u8>)>, ShipFault> {
        Ok(Vec::new())
    }

    async fn erase_captures(&self, _: [u8; 16], _: u64) -> Result<u64, ShipFault> {
        Ok(0)
    }

    async fn sweep_captures(&self, before_ms: u64) -> Result<u64, ShipFault> {
        self.fails()?;
        self.swept.lock().push(before_ms);
        Ok(0)
    }
}

fn parts() -> (Arc<Capture>, CaptureWriter, Arc<Rows>, Arc<Metrics>) {
    let (rows, metrics) = (Arc::new(Rows::default()), Arc::new(Metrics::new()));
    let key = BreakGlassKey::from_pem(KEY).expect("a key");
    let (capture, writer) = capture(key, MAX, rows.clone(), metrics.clone());
    (Arc::new(capture), writer, rows, metrics)
}

fn sealed(by: &Arc<Capture>, request: usize, response: Option<usize>) -> (CaptureFacts, Option<Ready>) {
    let kept = Kept { by: by.clone(), request: vec![1; request].into() };
    let id = LineageId::generate(1);
    let opening = TenantKey::generate().opening(id);
    let response = response.map(|length| vec![2; length]);
    kept.seal((LogId::from_bytes([1; 16]), id, TenantId::from_bytes([3; 16])), &opening, response.as_deref())
}

fn dropped(metrics: &Metrics) -> bool {
    metrics.encode().contains("signet_queue_dropped_total{queue=\"captures\"}")
}

#[test]
fn bodies_are_kept_up_to_the_bound_and_beyond_it_the_record_says_so() {
    let (capture, _writer, _, metrics) = parts();
    for (request, response, kept) in [
        (0, Some(0), true),
        (1, Some(MAX - 1), true),
        (1, Some(MAX), false),
        (MAX + 1, Some(0), false),
        (1, None, false),
    ] {
        let (facts, ready) = sealed(&capture, request, response);
        assert_eq!(matches!(facts, CaptureFacts::Sealed(_)), kept, "{request} {response:?}");
        assert_eq!(facts == CaptureFacts::TooLarge, !kept);
        assert_eq!(ready.is_some(), kept);
    }
    assert!(!dropped(&metrics));
}

#[test]
fn pieces_are_held_up_to_the_bound() {
    let (capture, ..) = parts();
    let held = || Kept { by: capture.clone(), request: vec![0; MAX - 10].into() }.held();
    let whole = held().with(b"12345").and_then(|held| held.with(b"67890")).expect("just enough");
    assert_eq!(whole.bytes, b"1234567890");
    assert!(whole.with(b"1").is_none());
    assert!(held().with(&[0; 11]).is_none());
}

#[test]
fn a_full_queue_drops_bodies_and_says_so_and_room_comes_back() {
    let (capture, writer, _, metrics) = parts();
    let mut waiting = Vec::new();
    let (facts, refused) = loop {
        match sealed(&capture, 0, Some(MAX)) {
            (CaptureFacts::Sealed(_), ready) => waiting.extend(ready),
            other => break other,
        }
    };
    assert_eq!((facts, refused.is_none()), (CaptureFacts::Dropped, true));
    assert!(dropped(&metrics));
    assert_eq!(waiting.len() as u64, QUEUE_BYTES / (MAX as u64 + ROW_BYTES));
    // A record that was not written takes its bodies with it.
    waiting.pop();
    assert!(matches!(sealed(&capture, 0, Some(MAX)).0, CaptureFacts::Sealed(_)));
    drop(writer);
    assert_eq!(sealed(&capture, 1, Some(1)).0, CaptureFacts::Dropped, "nobody would store them");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_asked_again_until_it_has_what_the_record_names() {
    let (capture, writer, rows, metrics) = parts();
    rows.fails.store(5, Ordering::Relaxed);
    let (facts, ready) = sealed(&capture, 3, Some(4));
    ready.expect("sealed").hand_over(77);
    let writing = tokio::spawn(writer.run());
    tokio::time::sleep(Duration::from_mins(1)).await;
    let row = rows.held.lock().pop().expect("it is stored");
    assert_eq!(facts, CaptureFacts::Sealed(Sha256::digest(&row.sealed).into()));
    assert_eq!((row.at_ms, row.tenant), (77, TenantId::from_bytes([3; 16])));
    assert_eq!(capture.under_way.load(Ordering::Relaxed), 0, "its room is free again");
    drop(capture);
    writing.await.expect("it ends with the last sender");
    assert!(!dropped(&metrics));
}

#[tokio::test(start_paused = true)]
async fn at_the_end_what_is_queued_is_stored_and_an_absent_store_is_not_waited_for() {
    for away in [false, true] {
        let (capture, writer, rows, metrics) = parts();
        rows.fails.store(if away { u32::MAX } else { 0 }, Ordering::Relaxed);
        for _ in 0..2 * BATCH {
            sealed(&capture, 1, Some(1)).1.expect("sealed").hand_over(1);
        }
        drop(capture);
        writer.run().await;
        assert_eq!(rows.held.lock().len(), if away { 0 } else { 2 * BATCH });
        assert_eq!(dropped(&metrics), away);
    }
}

#[tokio::test(start_paused = true)]
async fn old_bodies_are_swept_though_none_are_kept_any_more() {
    let (clock, stop) = (Arc::new(ManualClock::at(100 * 86_400_000)), CancellationToken::new());
    let rows = Arc::new(Rows { fails: 1.into(), ..Rows::default() });
    let sweeping = tokio::spawn(sweep_captures(rows.clone(), clock, 30, stop.clone()));
    tokio::time::sleep(SWEEP_RETRY + SWEEP_EVERY + Duration::from_secs(1)).await;
    assert_eq!(*rows.swept.lock(), [70 * 86_400_000; 2]);
    stop.cancel();
    sweeping.await.expect("it ends");
}
