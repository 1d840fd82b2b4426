//! The shipper: carries records from the writer log to the database, in order, exactly once.
//!
//! It keeps no position of its own: the database's `next_seq` under the fence is the position. A database that is away
//! costs lag, never a record; the log holds what is not shipped.
//!
//! Records that are missing from the log are passed only where a signed `gap` record, durable in the same log, names exactly
//! those. At any other hole shipping waits: what stands behind it would prove nothing.

use signet_lineage::{DeclaredGap, LogRow, Record, RecordStore, ShipFault};
use signet_spool::{Mark, RecordLog};
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const BATCH_RECORDS: usize = 1_000;
const BATCH_BYTES: usize = 4 << 20;
/// Between batches that were not full. Shipping at once whatever is there makes many small transactions, each with the
/// same fixed cost; a pause makes few large ones, and the log keeps what waits.
const PAUSE: Duration = Duration::from_millis(100);
const BACKOFF: [Duration; 5] = [
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];

/// Why the shipper ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShipEnd {
    /// Told to, with everything shipped or the time for it over.
    #[error("{left} records are not in the database and stay in the log")]
    Stopped {
        /// Records that the database does not hold yet.
        left: u64,
    },
    /// Another process owns the log, or the database holds what we did not sign: this process must stop.
    #[error("{0}")]
    Fatal(String),
}

/// Missing records, first and last seq, that nothing declares; none once shipping goes on.
pub type Hole = Option<(u64, u64)>;

/// Ships one log.
pub struct Shipper {
    log: Arc<dyn RecordLog>,
    store: Arc<dyn RecordStore>,
    row: LogRow,
    faults: usize,
    draining: bool,
    at_once: bool,
    /// Control records that may declare records missing.
    gaps: Vec<(DeclaredGap, Arc<Record>)>,
    on_hole: Box<dyn Fn(Hole) + Send + Sync>,
    hole: Hole,
}

impl Shipper {
    /// A shipper of `log` into `store`; `row` makes the log known there.
    pub fn new(log: Arc<dyn RecordLog>, store: Arc<dyn RecordStore>, row: LogRow) -> Self {
        let on_hole = Box::new(|_| ());
        Self { log, store, row, faults: 0, draining: false, at_once: false, gaps: Vec::new(), on_hole, hole: None }
    }

    /// Ships each record as soon as it is on the disk: answers wait for it.
    #[must_use]
    pub const fn at_once(mut self, at_once: bool) -> Self {
        self.at_once = at_once;
        self
    }

    /// With `gap` records of this log over which it may go, and with someone who is told of a hole that none of them
    /// declares, and again when shipping goes on. A record that declares nothing or was signed by another key is left out.
    #[must_use]
    pub fn over(mut self, gaps: Vec<Arc<Record>>, on_hole: impl Fn(Hole) + Send + Sync + 'static) -> Self {
        let read = |record: Arc<Record>| Some((DeclaredGap::read(&record, &self.row.attest_key)?, record));
        self.gaps = gaps.into_iter().filter_map(read).filter(|(gap, _)| gap.log == self.row.log).collect();
        self.on_hole = Box::new(on_hole);
        self
    }

    /// Ships until `stop`, then until the log is empty or `grace` is over.
    pub async fn run(mut self, stop: CancellationToken, grace: Duration) -> ShipEnd {
        let mut next = None;
        let until_stop = stop.clone().cancelled_owned();
        tokio::pin!(until_stop);
        loop {
            let shipped = tokio::select! {
                biased;
                () = &mut until_stop => break,
                shipped = self.step(&mut next) => shipped,
            };
            if let Err(fatal) = shipped {
                return fatal;
            }
        }
        let drained = tokio::time::timeout(grace, self.drain(&mut next)).await;
        match drained {
            Ok(Err(fatal)) => fatal,
            _ => ShipEnd::Stopped { left: self.left(next) },
        }
    }

    fn left(&self, next: Option<u64>) -> u64 {
        let stats = self.log.stats();
        stats.next_seq.saturating_sub(next.unwrap_or(stats.shipped_seq))
    }

    async fn drain(&mut self, next: &mut Option<u64>) -> Result<(), ShipEnd> {
        self.draining = true;
        if let Err(fault) = self.log.sync() {
            tracing::error!(%fault, "the log was not synced at the end");
        }
        while self.left(*next) > 0 {
            self.step(next).await?;
        }
        Ok(())
    }

    /// One batch, or one wait. A cancelled step is harmless: the database's `next_seq` decides what was applied.
    async fn step(&mut self, next: &mut Option<u64>) -> Result<(), ShipEnd> {
        let from = match *next {
            Some(seq) => seq,
            None => match self.store.register(&self.row).await {
                Ok(row) => *next.insert(row.next_seq),
                Err(fault) => return self.failed(fault, next).await,
            },
        };
        let batch = match self.log.read_from(from, BATCH_RECORDS, BATCH_BYTES) {
            Ok(batch) => batch,
            Err(fault) => {
                tracing::error!(%fault, from, "the log cannot be read");
                tokio::time::sleep(BACKOFF[4]).await;
                return Ok(());
            }
        };
        if batch.is_empty() {
            self.log.shipped(from);
            self.pause(from).await;
            return Ok(());
        }
        if batch[0].seq > from {
            return self.pass((from, batch[0].seq - 1), next).await;
        }
        let full = batch.len() == BATCH_RECORDS;
        let batch: Vec<Record> = batch.into_iter().map(Arc::unwrap_or_clone).collect();
        match self.store.ship(self.row.log, self.row.epoch, &batch).await {
            Ok(seq) => {
                self.faults = 0;
                *next = Some(seq);
                self.log.shipped(seq);
                self.tell(None);
                if !full && !self.draining {
                    self.pause(seq).await;
                }
                Ok(())
            }
            Err(fault) => self.failed(fault, next).await,
        }
    }

    /// Lets a batch grow; not where answers wait for it.
    async fn pause(&self, next: u64) {
        let pause = tokio::time::sleep(PAUSE);
        if !self.at_once {
            return pause.await;
        }
        let more = poll_fn(|cx| self.log.poll_synced(Mark::record(next), cx));
        tokio::pin!(pause);
        tokio::select! {
            more = more => {
                if more.is_err() {
                    pause.await; // a log that has failed says so at once and for ever
                }
            }
            () = &mut pause => {}
        }
    }

    /// Goes over missing records if a record that is safe on the disk declares them, else waits.
    async fn pass(&mut self, missing: (u64, u64), next: &mut Option<u64>) -> Result<(), ShipEnd> {
        let here = |gap: &&(DeclaredGap, Arc<Record>)| gap.0.from == missing.0 && gap.0.to <= missing.1;
        let Some((_, record)) = self.gaps.iter().find(here).filter(|(_, record)| self.is_held(record)) else {
            self.tell(Some(missing));
            tokio::time::sleep(BACKOFF[4]).await;
            return Ok(());
        };
        if record.seq >= self.log.stats().durable_seq {
            tokio::time::sleep(PAUSE).await;
            return Ok(());
        }
        match self.store.pass_gap(self.row.log, self.row.epoch, record).await {
            Ok(seq) => {
                tracing::warn!(log = %self.row.log, from = missing.0, next = seq, "shipping goes over records that are declared missing");
                self.faults = 0;
                *next = Some(seq);
                self.log.shipped(seq);
                Ok(())
            }
            Err(fault) => self.failed(fault, next).await,
        }
    }

    fn is_held(&self, record: &Record) -> bool {
        self.log.find(record.id).is_some_and(|held| *held == *record)
    }

    fn tell(&mut self, hole: Hole) {
        if hole != self.hole {
            if let Some((first_seq, last_seq)) = hole {
                tracing::error!(log = %self.row.log, first_seq, last_seq, "records are missing and nothing declares them; shipping waits");
            }
            self.hole = hole;
            (self.on_hole)(hole);
        }
    }

    async fn failed(&mut self, fault: ShipFault, next: &mut Option<u64>) -> Result<(), ShipEnd> {
        match fault {
            ShipFault::Fenced { .. } | ShipFault::Equivocation { .. } => {
                tracing::error!(%fault, log = %self.row.log, "shipping stops for good");
                return Err(ShipEnd::Fatal(fault.to_string()));
            }
            ShipFault::Gap { expected, .. } => {
                tracing::warn!(%fault, "shipping resumes where the database stands");
                *next = Some(expected);
            }
            ShipFault::Unavailable(_) => {
                if self.faults == 0 {
                    tracing::warn!(%fault, "the database is away; records stay in the log");
                }
                *next = None;
            }
        }
        tokio::time::sleep(BACKOFF[self.faults.min(BACKOFF.len() - 1)]).await;
        self.faults += 1;
        Ok(())
    }
}

#[cfg(test)]
#[path = "ship_tests.rs"]
mod tests;
