//! Writes records: what was drafted is signed at its place in the log.

use crate::fault::Fault;
use crate::signing::Signing;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use signet_lineage::{
    ControlStamp, Denials, Draft, Gateway, KeyRotation, KeyUse, OpenFacts, PublicKey, Receipt, Record, Signer,
};
use signet_spool::{LogFault, LogStats, Opened, RecordLog, Written};
use signet_telemetry::{Metrics, Step};
use signet_types::{Clock, LineageId};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Refusals before authentication that get a record of their own, a second; further ones fold into one.
const DENIALS_A_SECOND: u64 = 50;

/// About what the log asks for one request: with less room the next one is refused.
const ROOM: u64 = 8 << 10;

/// Bytes a minute that statements about the log itself may take beyond its bound: what a full log refuses has to be told, and a
/// flood of it must not fill the disk either.
const BEYOND_A_MINUTE: u64 = 128 << 10;

/// Longest wait for the disk or the database in the modes that wait for them. One that is away for longer refuses answers.
const SETTLE_MAX: Duration = Duration::from_secs(5);

/// By how much the wall clock may leave the monotonic one before a record says so.
const JUMP_MS: u64 = 2_000;

/// What an acknowledged record has survived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// It is written, so that the death of this process takes nothing: `spool`, and as far as RAM goes `memory`.
    Written,
    /// It is on the disk: `strict`.
    Synced,
    /// The database has it: `strict+db`.
    Stored,
}

/// What every record of this process says of it.
#[derive(Debug, Clone)]
pub struct Voice {
    /// The checkpoint origin without the log, `lineage.origin`.
    pub origin: String,
    /// The process.
    pub gateway: Arc<Gateway>,
    /// What an answer waits for.
    pub durability: Durability,
    /// `on_full = "degrade"`: serve without a record, count, and say so in a signed gap.
    pub degrade: bool,
}

/// A written record, as the answer shows it.
#[derive(Debug, Clone)]
pub struct Attested {
    /// The record.
    pub record: Arc<Record>,
    /// Its leaf hash.
    pub leaf_hash: [u8; 32],
    /// The value of `Lineage-Receipt`.
    pub receipt: String,
}

/// Writes records to the one log of this process.
pub struct Recorder {
    log: Arc<dyn RecordLog>,
    signing: Signing,
    voice: Voice,
    gateway: ArcSwap<Gateway>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    unrecorded: AtomicU64,
    /// The latest time that was signed, in milliseconds since the Unix epoch.
    latest_ms: AtomicU64,
    /// Where the wall clock (ms) and the monotonic one (ns) stood together. On Linux both are slewed alike, so only a step
    /// or a sleep of the machine parts them.
    together: Mutex<(u64, u64)>,
    denials: Mutex<Fold>,
    /// The minute, and the bytes written beyond the log's bound in it.
    beyond: Mutex<(u64, u64)>,
    /// What would be signed now would count nowhere.
    halted: AtomicBool,
}

/// Refusals of one second.
#[derive(Debug, Default)]
struct Fold {
    second: u64,
    alone: u64,
    folded: Option<Folded>,
}

#[derive(Debug)]
struct Folded {
    ids: Vec<LineageId>,
    from_ms: u64,
    counts: Vec<(&'static str, u64)>,
}

impl Recorder {
    /// A recorder over an open log.
    pub fn new(
        log: Arc<dyn RecordLog>,
        signer: Signer,
        voice: Voice,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (unrecorded, latest_ms, denials) = (AtomicU64::new(0), AtomicU64::new(0), Mutex::default());
        let (together, beyond) = (Mutex::new((clock.now_ms(), clock.mono_ns())), Mutex::default());
        let (signing, halted) = (Signing::new(signer), AtomicBool::new(false));
        let gateway = ArcSwap::new(voice.gateway.clone());
        Self { log, signing, voice, gateway, clock, metrics, unrecorded, latest_ms, together, denials, beyond, halted }
    }

    /// The log.
    pub fn log(&self) -> &Arc<dyn RecordLog> {
        &self.log
    }

    /// What every record says of this process.
    pub const fn voice(&self) -> &Voice {
        &self.voice
    }

    /// The process, as records that no request makes say it from now on. Another configuration is another gateway.
    pub fn speak_as(&self, gateway: Arc<Gateway>) {
        self.gateway.store(gateway);
    }

    /// The process, as records say it.
    pub fn gateway(&self) -> Arc<Gateway> {
        self.gateway.load_full()
    }

    /// Whether an answer waits for the disk or the database.
    pub(crate) fn waits(&self) -> bool {
        self.voice.durability != Durability::Written
    }

    /// The log's figures.
    pub fn stats(&self) -> LogStats {
        self.log.stats()
    }

    /// Whether a full log refuses requests now.
    pub fn is_refusing(&self) -> bool {
        !self.voice.degrade && self.log.stats().bytes.saturating_add(ROOM) > self.log.bound()
    }

    /// Stops signing, because the key no longer counts; or goes on. Whether that changes anything.
    pub fn halt(&self, halted: bool) -> bool {
        self.halted.swap(halted, Ordering::AcqRel) != halted
    }

    /// Whether nothing is signed because the key no longer counts.
    pub(crate) fn is_halted(&self) -> bool {
        self.halted.load(Ordering::Acquire)
    }

    /// Makes it known that a request is about to go upstream; room for its record is reserved.
    ///
    /// # Errors
    /// [`Fault::LineageUnavailable`] where the log takes nothing; no money has been spent then.
    pub(crate) fn open(&self, facts: &OpenFacts) -> Result<Option<Opened>, Fault> {
        let opened = if self.is_halted() { Err(void()) } else { self.log.open(facts.id, &facts.encode()) };
        match opened {
            Ok(opened) => Ok(Some(opened)),
            Err(fault) => self.excuse(&fault).map(|()| None),
        }
    }

    /// Signs and appends one record.
    ///
    /// # Errors
    /// [`Fault::LineageUnavailable`] where the log takes nothing and the policy is to refuse.
    pub(crate) fn close(&self, opened: Option<Opened>, draft: &Draft) -> Result<Option<Attested>, Fault> {
        let started = Instant::now();
        let written = self.append(opened, draft);
        self.metrics.step(Step::Attest, started.elapsed());
        match written {
            Ok(written) => Ok(Some(self.attested(written))),
            Err(fault) => self.excuse(&fault).map(|()| None),
        }
    }

    fn append(&self, opened: Option<Opened>, draft: &Draft) -> Result<Written, LogFault> {
        if self.is_halted() {
            return Err(void());
        }
        let mut prepared = Some(draft.prepare());
        self.log.close(opened, &mut |position| {
            let prepared = prepared.take().unwrap_or_else(|| draft.prepare());
            prepared.seal(position, &self.signing.at(position.seq))
        })
    }

    /// The key that signs the next record.
    pub fn attest_key(&self) -> PublicKey {
        self.signing.newest().public_key()
    }

    /// The keys that this process has signed with, oldest first.
    pub fn attest_keys(&self) -> Vec<PublicKey> {
        self.signing.all()
    }

    /// Writes the record with which `new` takes over from `old`. If they sign records, `old` signs this one and `new` all that
    /// follow. Rotations must not overlap, and the log must be able to sign one record alone: one in memory is not.
    ///
    /// # Errors
    /// The log takes nothing, and the old key goes on.
    pub(crate) fn rotate(&self, key_use: KeyUse, old: PublicKey, new: &Arc<Signer>) -> Result<Arc<Record>, Fault> {
        let name = format!("{}/{}", self.voice.origin, self.log.id());
        let rotation = KeyRotation { key_use, old: Some(old), new };
        let draft = Draft::key_rotate(&self.stamp(), &name, &rotation);
        let mut sealed = false;
        let written = self.log.close_alone(Some(Opened::control(draft.id)), &mut |position| {
            let record = draft.seal(position, &self.signing.at(position.seq));
            sealed = key_use == KeyUse::Attest;
            if sealed {
                self.signing.behind(position.seq, Arc::clone(new));
            }
            record
        });
        written.map(|written| written.record).map_err(|fault| {
            // One before it may still wait for its first record.
            if sealed {
                self.signing.withdraw();
            }
            tracing::error!(%fault, "the rotation of a key was not written");
            Fault::LineageUnavailable
        })
    }

    /// Waits until the requests opened so far would be known after a power cut, where the mode promises that.
    ///
    /// # Errors
    /// [`Fault::LineageUnavailable`] where the disk fails or hangs.
    pub(crate) async fn opened(&self) -> Result<(), Fault> {
        if self.voice.durability == Durability::Written { Ok(()) } else { self.synced().await }
    }

    /// Waits until the records written so far are as safe as the mode promises an answer's record to be.
    ///
    /// # Errors
    /// [`Fault::LineageUnavailable`] where they are not in time; the answer must be withheld then.
    pub(crate) async fn settled(&self) -> Result<(), Fault> {
        match self.voice.durability {
            Durability::Written => Ok(()),
            Durability::Synced => self.synced().await,
            Durability::Stored => {
                let mark = self.log.mark();
                self.settle(poll_fn(|cx| self.log.poll_shipped(mark, cx))).await
            }
        }
    }

    /// Writes a record and waits until the database has it, whatever the mode.
    ///
    /// # Errors
    /// [`Fault::LineageUnavailable`] where it is not there in time.
    pub(crate) async fn write_stored(&self, draft: &Draft) -> Result<Arc<Record>, Fault> {
        let written = self.append(None, draft).map_err(|fault| {
            tracing::error!(%fault, kind = ?draft.kind, "a control record was not written");
            Fault::LineageUnavailable
        })?;
        let mark = self.log.mark();
        self.settle(poll_fn(|cx| self.log.poll_shipped(mark, cx))).await?;
        Ok(written.record)
    }

    /// Waits until the records written so far are on the disk, whatever the mode.
    ///
    /// # Errors
    /// [`Fault::LineageUnavailable`] where the disk fails or hangs.
    pub(crate) async fn synced(&self) -> Result<(), Fault> {
        let mark = self.log.mark();
        self.settle(poll_fn(|cx| self.log.poll_synced(mark, cx))).await
    }

    async fn settle(&self, done: impl Future<Output = Result<(), LogFault>>) -> Result<(), Fault> {
        let started = Instant::now();
        let done = tokio::time::timeout(SETTLE_MAX, done).await;
        self.metrics.step(Step::Settle, started.elapsed());
        match done {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(fault)) => tracing::error!(%fault, "a record is not safe; its answer is withheld"),
            Err(_) => tracing::error!(limit = ?SETTLE_MAX, "a record was not safe in time; its answer is withheld"),
        }
        Err(Fault::LineageUnavailable)
    }

    fn attested(&self, written: Written) -> Attested {
        let Written { record, leaf_hash } = written;
        let receipt = Receipt {
            origin: self.voice.origin.clone(),
            log: record.log,
            epoch: record.epoch,
            seq: record.seq,
            leaf_hash,
        };
        Attested { receipt: receipt.to_string(), leaf_hash, record }
    }

    fn excuse(&self, fault: &LogFault) -> Result<(), Fault> {
        if !self.voice.degrade {
            tracing::error!(%fault, "no record can be written; the request is refused");
            return Err(Fault::LineageUnavailable);
        }
        self.unrecorded.fetch_add(1, Ordering::Relaxed);
        self.metrics.record("unrecorded");
        Ok(())
    }

    /// Takes a refusal before authentication into this second's fold, if there are many; the id that the answer carries.
    pub(crate) fn fold(&self, reason: &'static str) -> Option<LineageId> {
        let now_ms = self.clock.now_ms();
        let mut fold = self.denials.lock();
        if fold.second != now_ms / 1000 {
            let before = std::mem::take(&mut *fold);
            fold.second = now_ms / 1000;
            drop(fold);
            self.write_fold(before);
            fold = self.denials.lock();
        }
        if fold.alone < DENIALS_A_SECOND {
            fold.alone += 1;
            return None;
        }
        let folded = fold.folded.get_or_insert_with(|| Folded { ids: Vec::new(), from_ms: now_ms, counts: Vec::new() });
        match folded.counts.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += 1,
            None => folded.counts.push((reason, 1)),
        }
        let id = LineageId::generate(now_ms);
        folded.ids.push(id);
        Some(id)
    }

    /// Writes what is due: a jump of the clock, the fold of a second that has passed, and the gap that a full log left.
    pub fn tick(&self) {
        self.write_jump();
        let now_ms = self.clock.now_ms();
        let due = {
            let mut fold = self.denials.lock();
            (fold.second != now_ms / 1000).then(|| std::mem::take(&mut *fold))
        };
        if let Some(fold) = due {
            self.write_fold(fold);
        }
        self.write_gap();
        let stats = self.log.stats();
        let oldest = self.log.read_from(stats.shipped_seq, 1, 1).ok().and_then(|records| records.first().cloned());
        let lag_ms = oldest.map_or(0, |record| now_ms.saturating_sub(record.id.unix_ms()));
        self.metrics.spool(stats.bytes, Duration::from_millis(lag_ms));
    }

    fn write_fold(&self, fold: Fold) {
        let Some(folded) = fold.folded else { return };
        let now_ms = self.clock.now_ms();
        let denials = Denials { counts: folded.counts, ids: folded.ids, span_ms: (folded.from_ms, now_ms) };
        self.write_of_log(&Draft::denials(&self.stamp(), &denials));
    }

    /// A jump starts the signed times anew: one into the far future would hold them there for good.
    fn write_jump(&self) {
        let (wall_ms, mono_ns) = (self.clock.now_ms(), self.clock.mono_ns());
        let mut together = self.together.lock();
        let due_ms = together.0.saturating_add(mono_ns.saturating_sub(together.1) / 1_000_000);
        if wall_ms.abs_diff(due_ms) <= JUMP_MS {
            return;
        }
        self.latest_ms.store(wall_ms, Ordering::Relaxed);
        if self.write_of_log(&Draft::clock(&self.stamp(), due_ms, wall_ms)) {
            *together = (wall_ms, mono_ns);
        }
    }

    /// The time to sign now: never before one that was signed, but behind a record of a jump.
    pub(crate) fn now_ms(&self) -> u64 {
        let now_ms = self.clock.now_ms();
        self.latest_ms.fetch_max(now_ms, Ordering::Relaxed).max(now_ms)
    }

    fn write_gap(&self) {
        let missed = self.unrecorded.swap(0, Ordering::Relaxed);
        if missed > 0 && !self.write_of_log(&Draft::unrecorded(&self.stamp(), missed, "log_full")) {
            self.unrecorded.fetch_add(missed, Ordering::Relaxed);
        }
    }

    /// Id, time and speaker of a control record written now.
    pub fn stamp(&self) -> ControlStamp {
        let at_ms = self.now_ms();
        ControlStamp { id: LineageId::generate(at_ms), at_ms, gateway: self.gateway() }
    }

    /// Writes a record that no request waits for; whether it was written.
    pub fn write(&self, draft: &Draft) -> bool {
        self.write_opened(None, draft)
    }

    /// Writes a statement about the log itself, which a full log takes too, so many bytes a minute.
    fn write_of_log(&self, draft: &Draft) -> bool {
        let written = match self.append(None, draft) {
            Err(fault @ LogFault::Full { .. }) => {
                let minute = self.clock.mono_ns() / 60_000_000_000;
                let mut beyond = self.beyond.lock();
                if beyond.0 != minute {
                    *beyond = (minute, 0);
                }
                if beyond.1 >= BEYOND_A_MINUTE {
                    return false;
                }
                let written = self.append(Some(Opened::control(draft.id)), draft).map_err(|_| fault);
                beyond.1 += written.as_ref().map_or(0, |written| written.record.payload.len() as u64 + 256);
                written
            }
            other => other,
        };
        Self::told(&written, draft)
    }

    /// As [`Recorder::write`], for a request that an earlier process opened.
    pub fn write_opened(&self, opened: Option<Opened>, draft: &Draft) -> bool {
        Self::told(&self.append(opened, draft), draft)
    }

    fn told(written: &Result<Written, LogFault>, draft: &Draft) -> bool {
        if let Err(fault) = written {
            tracing::error!(%fault, kind = ?draft.kind, "a control record was not written");
        }
        written.is_ok()
    }
}

fn void() -> LogFault {
    LogFault::Failed("the key that signs its records no longer counts".to_owned())
}

#[cfg(test)]
#[path = "recorder_tests.rs"]
mod tests;
