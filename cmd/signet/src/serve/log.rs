//! Opening the writer log, and the records that say what was found.

use super::Stop;
use anyhow::anyhow;
use signet_config::{Config, LineageMode};
use signet_lineage::{
    Columns, Draft, KeyRotation, KeyUse, Kind, LOST_BY_DATABASE, OpenFacts, PublicKey, Record, Recovery, Signer,
};
use signet_pipeline::{Recorder, Regression, TreeFiles};
use signet_spool::{Config as SpoolConfig, Disk, Gap, MemoryLog, OpenFault, Opened, RecordLog, Recovered, Spool};
use signet_types::{Clock, LogId};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const LOCK_RETRY: Duration = Duration::from_millis(50);
const SEGMENT_MIN: u64 = 64 << 10;
const SEGMENT_MAX: u64 = 64 << 20;
/// Unshipped records that `memory` mode holds, in bytes.
const MEMORY_BOUND: u64 = 256 << 20;

/// Leaf hashes that a `gap` record names, 64 bytes each.
const LEAVES_MAX: usize = 1 << 16;

/// An open log and what its opening found; nothing for a log in memory, which is always new.
pub(crate) struct OpenLog {
    pub(crate) log: Arc<dyn RecordLog>,
    found: Option<Recovered>,
    /// A checkpoint of it is there, so its checkpoint key is named in it.
    published: bool,
    /// The log that was set aside in its favour, and its size.
    replaces: Option<(LogId, u64)>,
}

/// What a database holds of a log: its next seq, and the leaf hash of the last record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stored {
    pub(crate) next_seq: u64,
    pub(crate) last_leaf: Option<[u8; 32]>,
}

impl Stored {
    /// Whether the log at hand holds something else where the database ends: another process wrote the log on.
    fn contradicts(&self, log: &Spool) -> bool {
        let Some((seq, theirs)) = self.next_seq.checked_sub(1).zip(self.last_leaf) else { return false };
        let ours = log.reread_leaves(seq, 1).unwrap_or_default();
        ours.first().is_some_and(|ours| *ours != theirs)
    }
}

impl OpenLog {
    fn found(log: Spool, found: Recovered, published: bool) -> Self {
        Self { log: Arc::new(log), found: Some(found), published, replaces: None }
    }

    /// Whether nobody could ever sign a checkpoint of it again: it has to be sealed.
    pub(crate) fn is_untold(&self) -> bool {
        self.found.as_ref().is_some_and(|found| found.untold.is_some())
    }

    fn is_sealed(&self, dir: &Path) -> Result<bool, Stop> {
        let newest = self.newest(dir)?;
        Ok(newest.is_some_and(|last| Columns::read(&last.payload).is_ok_and(|columns| columns.kind == Kind::LogSeal)))
    }

    /// Whether a record in the folder `dir` of a log that is taken up lets `key` sign its checkpoints.
    pub(crate) fn has_rotated_to(&self, dir: &Path, key: &PublicKey) -> Result<bool, Stop> {
        if self.found.as_ref().is_none_or(|found| found.fresh) {
            return Ok(false);
        }
        let facts =
            ["\"kind\":\"key_rotate\"".to_owned(), format!("\"new_key\":\"{}\"", super::keys::hex(key.as_bytes()))];
        let mut rotated = false;
        let read = signet_spool::read_records(dir, 0, |record| {
            rotated |=
                std::str::from_utf8(&record.payload).is_ok_and(|text| facts.iter().all(|fact| text.contains(fact)));
            if rotated { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        read.map_err(|fault| anyhow!(fault).context("reading the lineage log"))?;
        Ok(rotated)
    }

    /// The last record that is left of a log that is taken up; `dir` is its folder.
    pub(crate) fn newest(&self, dir: &Path) -> Result<Option<Arc<Record>>, Stop> {
        let Some(found) = self.found.as_ref().filter(|found| !found.fresh) else { return Ok(None) };
        let last = self.log.read_from(found.next_seq.saturating_sub(1), 1, 1);
        if let Some(last) = last.map_err(|fault| anyhow!(fault))?.pop() {
            return Ok(Some(last));
        }
        // The last one is not readable.
        let newest = signet_spool::newest_record(dir);
        Ok(newest.map_err(|fault| anyhow!(fault).context("reading the lineage log"))?.map(Arc::new))
    }
}

/// Opens the log that the configuration asks for.
///
/// A `strict` log in which records are missing is refused: its promise is broken, and someone has to know. With
/// `accept_gap` it is opened, and a signed record says what is missing.
pub(crate) fn open(
    config: &Config,
    (keys, accept_gap): (&[PublicKey], bool),
    clock: &Arc<dyn Clock>,
    checkpoint_keys: &[PublicKey],
    stored: impl Fn(LogId) -> Option<Stored>,
) -> Result<OpenLog, Stop> {
    if config.lineage.mode == LineageMode::Memory {
        let log = MemoryLog::new(LogId::generate(clock.now_ms()), MEMORY_BOUND);
        return Ok(OpenLog { log: Arc::new(log), found: None, published: false, replaces: None });
    }
    let keys = keys.iter().map(|key| *key.as_bytes()).collect();
    let mut spool = spool_config(config, Some(keys).filter(|_| !accept_gap));
    let started = Instant::now();
    let known = Spool::peek(&spool).map_err(|fault| anyhow!(fault).context("opening the lineage log"))?;
    let stored = known.and_then(stored);
    let files = TreeFiles::new(Arc::new(Disk::new(&config.lineage.dir)));
    let signed = known.map(|log| files.persisted(log, checkpoint_keys)).transpose();
    let signed = signed.map_err(|fault| anyhow!(fault).context("opening the lineage log"))?.flatten();
    spool.published = signed.map(|(head, _)| head);
    let published = spool.published.is_some();
    loop {
        match Spool::open(spool.clone(), clock.clone(), stored.map(|stored| stored.next_seq)) {
            Err(fault @ OpenFault::Behind { log, have, .. }) => {
                // Going on would use seqs twice.
                tracing::error!(%fault, "the lineage log was restored or damaged; it is moved aside and a new one begins");
                return begin_anew(spool, clock, (log, have));
            }
            Ok((log, found)) if stored.is_some_and(|stored| stored.contradicts(&log)) => {
                let aside = (log.id(), found.next_seq);
                tracing::error!(log = %aside.0, "another process wrote the lineage log on, from a copy of its folder; it is moved aside and a new one begins");
                drop(log);
                return begin_anew(spool, clock, aside);
            }
            Ok((log, found)) => {
                let opened = OpenLog::found(log, found, published);
                if !opened.is_sealed(&config.lineage.dir)? {
                    return Ok(opened);
                }
                let aside = (opened.log.id(), opened.log.stats().next_seq);
                drop(opened);
                return begin_anew(spool, clock, aside);
            }
            Err(OpenFault::Held) if started.elapsed() < config.server.lock_wait => std::thread::sleep(LOCK_RETRY),
            Err(fault @ OpenFault::Held) => return Err(Stop::locked(fault.into())),
            Err(fault @ OpenFault::Undeclared { .. }) => {
                let advice =
                    "a strict log is not continued over a loss: restore its files, or start once with --accept-gap";
                return Err(Stop::config(anyhow!(fault).context(advice)));
            }
            Err(fault) => return Err(anyhow!(fault).context("opening the lineage log").into()),
        }
    }
}

/// Moves a log aside and begins another.
fn begin_anew(mut spool: SpoolConfig, clock: &Arc<dyn Clock>, aside: (LogId, u64)) -> Result<OpenLog, Stop> {
    (spool.published, spool.gap_keys) = (None, None);
    let (log, found) = Spool::start_new_log(spool, clock.clone()).map_err(|fault| anyhow!(fault))?;
    Ok(OpenLog { replaces: Some(aside), ..OpenLog::found(log, found, false) })
}

/// Ends a log of which no checkpoint can be signed any more, with all that was found in it, and begins another. What the
/// database has not got of it is shipped out of the folder in which it is set aside.
pub(crate) fn seal(
    opened: OpenLog,
    recorder: Recorder,
    config: &Config,
    clock: &Arc<dyn Clock>,
    checkpoints: &Signer,
) -> Result<OpenLog, Stop> {
    let seq = opened.found.as_ref().and_then(|found| found.untold);
    tracing::error!(log = %opened.log.id(), seq, "nothing tells the leaf hash of a missing record; the log is sealed and a new one begins");
    let key = recorder.attest_key();
    announce(opened, &recorder, &key, checkpoints)?;
    write(&recorder, None, &Draft::log_seal(&recorder.stamp()))?;
    recorder.log().sync().map_err(|fault| anyhow!(fault).context("sealing the lineage log"))?;
    let aside = (recorder.log().id(), recorder.stats().next_seq);
    drop(recorder);
    begin_anew(spool_config(config, None), clock, aside)
}

/// Segments are small enough that a small log has several, and shipped ones make room before it is full.
fn spool_config(config: &Config, keys: Option<Vec<[u8; 32]>>) -> SpoolConfig {
    let max_bytes = config.lineage.spool_max_bytes;
    let strict = matches!(config.lineage.mode, LineageMode::Strict | LineageMode::StrictDb);
    // Where answers wait for the disk, a group is what came while the disk was busy with the last one.
    let group_pause = if strict { Duration::ZERO } else { SpoolConfig::new("").group_pause };
    SpoolConfig {
        group_pause,
        gap_keys: keys.filter(|_| strict),
        max_bytes,
        retain_bytes: config.lineage.retain_bytes.min(max_bytes / 2),
        segment_bytes: (max_bytes / 8).clamp(SEGMENT_MIN, SEGMENT_MAX).min(max_bytes / 2),
        ..SpoolConfig::new(&config.lineage.dir)
    }
}

/// Writes the first records of this epoch: a new log's `log_open`, or what recovery found. Returns the `gap` records.
pub(crate) fn announce(
    opened: OpenLog,
    recorder: &Recorder,
    key: &PublicKey,
    checkpoints: &Signer,
) -> Result<Vec<Arc<Record>>, Stop> {
    let stamp = recorder.stamp();
    let Some(found) = opened.found.filter(|found| !found.fresh) else {
        let open = Draft::log_open(&stamp, &recorder.voice().origin, key);
        let open = open.naming_checkpoint_key(&checkpoints.public_key());
        let open = opened.replaces.into_iter().fold(open, |open, (log, size)| open.replacing(log, size));
        write(recorder, None, &open)?;
        return Ok(Vec::new());
    };
    let recovery = Recovery {
        clean: found.clean,
        same_boot: found.same_boot,
        last_seq: found.next_seq.checked_sub(1),
        lost: None,
        lost_tail_possible: !found.clean && !found.same_boot,
    };
    write(recorder, None, &Draft::recovery(&stamp, &recovery))?;
    if !opened.published && !names(recorder, &checkpoints.public_key()) {
        let name = format!("{}/{}", recorder.voice().origin, recorder.log().id());
        let rotation = KeyRotation { key_use: KeyUse::Checkpoint, old: None, new: checkpoints };
        write(recorder, None, &Draft::key_rotate(&recorder.stamp(), &name, &rotation))?;
    }
    let mut gaps = Vec::with_capacity(found.gaps.len());
    for gap in &found.gaps {
        let Gap { first_seq, last_seq, leaves } = gap;
        let known: Vec<[u8; 32]> = leaves.iter().map(|(_, leaf)| *leaf).collect();
        let all = Some(&known[..]).filter(|_| gap.is_told() && known.len() <= LEAVES_MAX);
        // What is older than the segments was confirmed by the database once, or they would be there.
        let lost_by_database = *last_seq < recorder.log().holds_from();
        let reason = if lost_by_database { LOST_BY_DATABASE } else { "unreadable" };
        tracing::error!(first_seq, last_seq, reason, "lineage records are missing");
        let stamp = recorder.stamp();
        write(recorder, None, &Draft::gap(&stamp, *first_seq, *last_seq, reason, all))?;
        gaps.extend(recorder.log().find(stamp.id));
    }
    if found.undecided > 0 {
        tracing::warn!(requests = found.undecided, "requests whose records may be among the unreadable ones stay open");
    }
    for (orphan, facts) in found.orphans {
        let bytes = found.progress.get(&orphan.id).copied().unwrap_or(0);
        interrupted(recorder, orphan, &facts, bytes)?;
    }
    Ok(gaps)
}

/// Whether the log's first record, if it is still there, names this checkpoint key. A log that was begun before there were
/// checkpoints names none.
fn names(recorder: &Recorder, checkpoints: &PublicKey) -> bool {
    let first = recorder.log().read_from(0, 1, 1).ok().and_then(|records| records.into_iter().next());
    let digits = super::keys::hex(checkpoints.as_bytes());
    let fact = format!("\"checkpoint_key\":\"{digits}\"");
    first
        .is_some_and(|record| record.seq == 0 && record.payload.windows(fact.len()).any(|part| part == fact.as_bytes()))
}

/// A request whose end nobody saw gets its record under the id that its caller may hold.
/// At least so many `bytes` of the answer were on their way.
fn interrupted(recorder: &Recorder, orphan: Opened, facts: &[u8], bytes: u64) -> Result<(), Stop> {
    match OpenFacts::decode(facts) {
        Ok(facts) => {
            let stamp = recorder.stamp();
            let mut draft = facts.interrupted(stamp.at_ms, &stamp.gateway);
            if let Some(exchange) = draft.exchange.as_mut() {
                exchange.response.bytes = bytes;
            }
            write(recorder, Some(orphan), &draft)
        }
        Err(fault) => {
            tracing::error!(id = %orphan.id, %fault, "an interrupted request cannot be read");
            Ok(())
        }
    }
}

/// A full log takes these too: they are few, and a log that refused them could never be started and shipped again.
fn write(recorder: &Recorder, opened: Option<Opened>, draft: &Draft) -> Result<(), Stop> {
    let opened = opened.unwrap_or_else(|| Opened::control(draft.id));
    if recorder.write_opened(Some(opened), draft) {
        Ok(())
    } else {
        Err(anyhow!("the first records of the lineage log cannot be written").into())
    }
}

/// What `/readyz` says of records that nobody declared missing.
pub(crate) fn undeclared((from, to): (u64, u64)) -> String {
    format!(
        "records {from} to {to} are missing from the lineage log and no signed record says so: nothing behind them reaches \
         the database. Restore the log's files, or restart: a start signs a gap record for what it cannot read"
    )
}

/// What it says of records that the database lost.
pub(crate) fn regressed(lost: &Regression) -> String {
    let what = format!("the database lost records {} to {}, which it had confirmed", lost.first_seq, lost.last_seq);
    if lost.gone {
        format!(
            "{what}, and the lineage log does not hold all of them any more: nothing reaches the database. Restore a newer \
             copy of the database, or restart: a start signs a gap record, and verify says DB_REGRESSION from then on"
        )
    } else {
        format!("{what}; they are shipped again from the lineage log")
    }
}
