//! Bodies of answers on routes that keep them, sealed for an offline key.
//!
//! They are sealed before the record is signed, so that it can name the SHA-256 of what was sealed, and room in the queue is
//! taken before that: a record says `sealed` only of what is on its way. The way is short but not safe: what is in the queue when the
//! process is killed, or when it ends while the store is away, is lost, and `verify` says that it is not there. A full queue drops
//! the bodies and not the answer; the record says so, and a metric counts them.

use bytes::Bytes;
use sha2::{Digest, Sha256};
use signet_lineage::{BreakGlassKey, CaptureFacts, CaptureRow, CaptureStore, Opening};
use signet_telemetry::Metrics;
use signet_types::{Clock, LineageId, LogId, TenantId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Sealed bytes under way at most.
const QUEUE_BYTES: u64 = 64 << 20;
/// What a row costs beside its bytes, so that many small ones have a bound too.
const ROW_BYTES: u64 = 1 << 10;
const BATCH: usize = 16;
const RETRY: Duration = Duration::from_secs(1);
const SWEEP_EVERY: Duration = Duration::from_hours(1);
/// While the store is away.
const SWEEP_RETRY: Duration = Duration::from_mins(1);

/// Seals and hands over; held by the pipeline.
pub struct Capture {
    key: BreakGlassKey,
    max_bytes: usize,
    queue: mpsc::UnboundedSender<Sealed>,
    under_way: Arc<AtomicU64>,
    metrics: Arc<Metrics>,
}

/// Stores what was handed over: runs on the services runtime.
pub struct CaptureWriter {
    queue: mpsc::UnboundedReceiver<Sealed>,
    store: Arc<dyn CaptureStore>,
    metrics: Arc<Metrics>,
}

/// Bodies up to `max_bytes`, both together, are sealed for `key`; the writer puts them into `store`.
pub fn capture(
    key: BreakGlassKey,
    max_bytes: usize,
    store: Arc<dyn CaptureStore>,
    metrics: Arc<Metrics>,
) -> (Capture, CaptureWriter) {
    let (sender, queue) = mpsc::unbounded_channel();
    let writer = CaptureWriter { queue, store, metrics: metrics.clone() };
    (Capture { key, max_bytes, queue: sender, under_way: Arc::default(), metrics }, writer)
}

/// A place in the queue; given back when it is dropped.
struct Room {
    bytes: u64,
    of: Arc<AtomicU64>,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.of.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

struct Sealed {
    row: Arc<CaptureRow>,
    _room: Room,
}

/// A request whose route keeps bodies, until its answer ends.
pub(crate) struct Kept {
    pub(crate) by: Arc<Capture>,
    pub(crate) request: Bytes,
}

impl Kept {
    /// What the record is to say, and what is to be handed over once it is written. `response` is none where it is not all
    /// here.
    pub(crate) fn seal(
        self,
        (log, id, tenant): (LogId, LineageId, TenantId),
        opening: &Opening,
        response: Option<&[u8]>,
    ) -> (CaptureFacts, Option<Ready>) {
        let Self { by, request } = self;
        let Some(response) = response.filter(|response| request.len() + response.len() <= by.max_bytes) else {
            return (CaptureFacts::TooLarge, None);
        };
        let Some(room) = by.room((request.len() + response.len()) as u64 + ROW_BYTES) else {
            by.metrics.dropped("captures", 1);
            return (CaptureFacts::Dropped, None);
        };
        let sealed = by.key.seal((log, id), opening, &request, response);
        let facts = CaptureFacts::Sealed(Sha256::digest(&sealed).into());
        (facts, Some(Ready { by, row: CaptureRow { id, tenant, at_ms: 0, sealed }, room }))
    }

    /// To hold a response that comes in pieces.
    pub(crate) fn held(&self) -> Held {
        Held { bytes: Vec::new(), room: self.by.max_bytes.saturating_sub(self.request.len()) }
    }
}

/// Sealed bodies whose record is being written.
pub(crate) struct Ready {
    by: Arc<Capture>,
    row: CaptureRow,
    room: Room,
}

impl Ready {
    /// Hands them over: the record is there. `at_ms` is when the answer was complete.
    pub(crate) fn hand_over(self, at_ms: u64) {
        let Self { by, row, room } = self;
        let row = Arc::new(CaptureRow { at_ms, ..row });
        // It fails only where the writer is gone, which outlives the pipeline.
        drop(by.queue.send(Sealed { row, _room: room }));
    }
}

impl Capture {
    fn room(&self, bytes: u64) -> Option<Room> {
        let room = Room { bytes, of: self.under_way.clone() };
        let before = self.under_way.fetch_add(bytes, Ordering::Relaxed);
        (before + bytes <= QUEUE_BYTES && !self.queue.is_closed()).then_some(room)
    }
}

/// The pieces of a response, while they may still be kept.
pub(crate) struct Held {
    pub(crate) bytes: Vec<u8>,
    room: usize,
}

impl Held {
    /// Adds a piece; none where that is too much.
    pub(crate) fn with(mut self, piece: &[u8]) -> Option<Self> {
        self.room = self.room.checked_sub(piece.len())?;
        self.bytes.extend_from_slice(piece);
        Some(self)
    }
}

impl CaptureWriter {
    /// Stores until every [`Capture`] is gone and the queue is empty. Behind that a store that is away is not waited for.
    pub async fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH);
        while self.queue.recv_many(&mut batch, BATCH).await > 0 {
            let rows: Vec<_> = batch.iter().map(|sealed| sealed.row.clone()).collect();
            while let Err(fault) = self.store.put_captures(&rows).await {
                tracing::warn!(%fault, rows = rows.len(), "sealed bodies were not stored");
                if self.queue.is_closed() {
                    self.metrics.dropped("captures", rows.len() as u64);
                    break;
                }
                tokio::time::sleep(RETRY).await;
            }
            batch.clear();
        }
    }
}

/// Removes sealed bodies that are older than `days`, whether any are kept now or not, until told to stop.
pub async fn sweep_captures(store: Arc<dyn CaptureStore>, clock: Arc<dyn Clock>, days: u64, stop: CancellationToken) {
    let age_ms = days.saturating_mul(86_400_000);
    loop {
        let wait = match store.sweep_captures(clock.now_ms().saturating_sub(age_ms)).await {
            Ok(0) => SWEEP_EVERY,
            Ok(removed) => {
                tracing::info!(removed, "old sealed bodies were removed");
                SWEEP_EVERY
            }
            Err(fault) => {
                tracing::debug!(%fault, "old sealed bodies were not removed");
                SWEEP_RETRY
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

#[cfg(test)]
#[path = "capture_tests.rs"]
mod tests;
