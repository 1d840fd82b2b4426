//! The shipper: carries records from the writer log to the database, in order, exactly once.
//!
//! It keeps no position of its own: the database's `next_seq` under the fence is the position. A database that is away
//! costs lag, never a record; the log holds what is not shipped.
//!
//! Records that are missing from the log are passed only where a signed `gap` record, durable in the same log, names exactly
//! those. At any other hole shipping waits: what stands behind it would prove nothing.
//!
//! A database that stands before what it had confirmed was rolled back or restored from an old copy. It gets the records
//! again from what the log retains, and someone is told meanwhile.

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
/// Pauses with nothing to ship after which the database is asked whether it still stands where it stood: about 10 s.
const IDLE_PAUSES: u32 = 100;
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

/// The database lost what it had confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Regression {
    /// The first record that it does not hold.
    pub first_seq: u64,
    /// The last one that it had confirmed.
    pub last_seq: u64,
    /// The log does not hold the first one any more: nothing is shipped until the database or the log gets it back.
    pub gone: bool,
}

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
    /// The furthest that the database ever stood, as far as this process knows.
    confirmed: u64,
    on_regression: Box<dyn Fn(Option<Regression>) + Send + Sync>,
    regression: Option<Regression>,
    idle: u32,
}

impl Shipper {
    /// A shipper of `log` into `store`; `row` makes the log known there.
    pub fn new(log: Arc<dyn RecordLog>, store: Arc<dyn RecordStore>, row: LogRow) -> Self {
        // Segments are removed only once the database has confirmed them. A log in RAM holds none.
        let removed = Some(log.holds_from()).filter(|from| *from != u64::MAX).unwrap_or(0);
        let confirmed = log.stats().shipped_seq.max(removed);
        Self {
            log,
            store,
            row,
            faults: 0,
            draining: false,
            at_once: false,
            gaps: Vec::new(),
            on_hole: Box::new(|_| ()),
            hole: None,
            confirmed,
            on_regression: Box::new(|_| ()),
            regression: None,
            idle: 0,
        }
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

    /// With someone who is told when the database lost what it had confirmed, when that changes, and when it has all again.
    #[must_use]
    pub fn watched(mut self, on_regression: impl Fn(Option<Regression>) + Send + Sync + 'static) -> Self {
        self.on_regression = Box::new(on_regression);
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
            None => match self.register().await {
                Ok(seq) => {
                    self.stands_at(seq, next);
                    seq
                }
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
        let begins = batch.first().map_or(self.confirmed, |first| first.seq);
        if begins > from {
            return self.pass((from, begins - 1), next).await;
        }
        if batch.is_empty() {
            self.idle(from, next).await;
            return Ok(());
        }
        let full = batch.len() == BATCH_RECORDS;
        let batch: Vec<Record> = batch.into_iter().map(Arc::unwrap_or_clone).collect();
        match self.store.ship(self.row.log, self.row.epoch, &batch).await {
            Ok(seq) => {
                self.faults = 0;
                self.stands_at(seq, next);
                self.tell(None);
                if !full && !self.draining {
                    self.pause(seq).await;
                }
                Ok(())
            }
            Err(fault) => self.failed(fault, next).await,
        }
    }

    /// Makes the log known, and lets the database compare its last record of it with ours: two processes on copies of one
    /// folder have the same epoch and key, and one of them must not ship behind the other's records.
    async fn register(&self) -> Result<u64, ShipFault> {
        let next = self.store.register(&self.row).await?.next_seq;
        let last = next.checked_sub(1).map(|seq| (seq, self.log.read_from(seq, 1, 1).unwrap_or_default()));
        if let Some((seq, held)) = last
            && let Some(ours) = held.first().filter(|ours| ours.seq == seq)
        {
            self.store.ship(self.row.log, self.row.epoch, std::slice::from_ref(&**ours)).await?;
        }
        Ok(next)
    }

    /// Takes in where the database stands. The log is told also that it lost something, so that it removes no segment
    /// that has to be shipped again.
    fn stands_at(&mut self, seq: u64, next: &mut Option<u64>) {
        *next = Some(seq);
        self.idle = 0;
        self.log.shipped(seq);
        if seq >= self.confirmed {
            self.confirmed = seq;
            self.regressed(None);
        } else if self.regression.is_none_or(|known| seq < known.first_seq) {
            self.regressed(Some(Regression { first_seq: seq, last_seq: self.confirmed - 1, gone: false }));
        }
    }

    fn regressed(&mut self, regression: Option<Regression>) {
        if regression == self.regression {
            return;
        }
        let log = self.row.log;
        match regression {
            Some(Regression { first_seq, last_seq, gone: false }) => {
                tracing::error!(%log, first_seq, last_seq, "DB_REGRESSION: the database lost records that it had confirmed; they are shipped again");
            }
            Some(Regression { first_seq, last_seq, gone: true }) => {
                tracing::error!(%log, first_seq, last_seq, "DB_REGRESSION: the database lost records that it had confirmed, and the log does not hold them any more; shipping waits");
            }
            None => tracing::warn!(%log, next = self.confirmed, "the database holds again what it had confirmed"),
        }
        self.regression = regression;
        (self.on_regression)(regression);
    }

    /// Nothing to ship. Once in a while the database is asked where it stands: a loss should not wait for the next record.
    async fn idle(&mut self, from: u64, next: &mut Option<u64>) {
        self.pause(from).await;
        self.idle += 1;
        if self.idle >= IDLE_PAUSES {
            *next = None;
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
            if missing.0 < self.confirmed {
                self.regressed(Some(Regression { first_seq: missing.0, last_seq: self.confirmed - 1, gone: true }));
            } else {
                self.tell(Some(missing));
            }
            // It may have been restored meanwhile.
            *next = None;
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
                self.stands_at(seq, next);
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
                self.stands_at(expected, next);
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
