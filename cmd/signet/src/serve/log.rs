//! Opening the writer log, and the records that say what was found.

use super::Stop;
use anyhow::anyhow;
use signet_config::{Config, LineageMode};
use signet_lineage::{Draft, KeyRotation, KeyUse, LOST_BY_DATABASE, OpenFacts, PublicKey, Record, Recovery, Signer};
use signet_pipeline::{Recorder, TreeFiles};
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
}

impl OpenLog {
    /// The last record that is left of a log that is taken up; `dir` is its folder.
    pub(crate) fn newest(&self, dir: &Path) -> Result<Option<Arc<Record>>, Stop> {
        let Some(found) = self.found.as_ref().filter(|found| !found.fresh) else { return Ok(None) };
        let last = self.log.read_from(found.next_seq.saturating_sub(1), 1, 1);
        if let Some(last) = last.map_err(|fault| anyhow!(fault))?.pop() {
            return Ok(Some(last));
        }
        // The last one is not readable.
        let mut newest = None;
        let read = signet_spool::read_records(dir, 0, |record| {
            newest = Some(Arc::new(record));
            ControlFlow::Continue(())
        });
        read.map_err(|fault| anyhow!(fault).context("reading the lineage log"))?;
        Ok(newest)
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
    checkpoint_key: &PublicKey,
    stored: impl Fn(LogId) -> Option<u64>,
) -> Result<OpenLog, Stop> {
    if config.lineage.mode == LineageMode::Memory {
        let log = MemoryLog::new(LogId::generate(clock.now_ms()), MEMORY_BOUND);
        return Ok(OpenLog { log: Arc::new(log), found: None, published: false });
    }
    let keys = keys.iter().map(|key| *key.as_bytes()).collect();
    let mut spool = spool_config(config, Some(keys).filter(|_| !accept_gap));
    let started = Instant::now();
    let known = Spool::peek(&spool).map_err(|fault| anyhow!(fault).context("opening the lineage log"))?;
    let stored = known.and_then(stored);
    let files = TreeFiles::new(Arc::new(Disk::new(&config.lineage.dir)));
    let signed = known.map(|log| files.persisted(log, checkpoint_key)).transpose();
    let signed = signed.map_err(|fault| anyhow!(fault).context("opening the lineage log"))?.flatten();
    spool.published = signed.map(|(head, _)| head);
    let published = spool.published.is_some();
    loop {
        match Spool::open(spool.clone(), clock.clone(), stored) {
            Err(fault @ OpenFault::Behind { .. }) => {
                // Going on would use seqs twice. What the old log still holds beyond the database stays in its folder.
                tracing::error!(%fault, "the lineage log was restored or damaged; it is moved aside and a new one begins");
                spool.published = None;
                let (log, found) = Spool::start_new_log(spool, clock.clone()).map_err(|fault| anyhow!(fault))?;
                return Ok(OpenLog { log: Arc::new(log), found: Some(found), published: false });
            }
            Ok((log, found)) => return Ok(OpenLog { log: Arc::new(log), found: Some(found), published }),
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
        write(recorder, None, &open.naming_checkpoint_key(&checkpoints.public_key()))?;
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
        interrupted(recorder, orphan, &facts)?;
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
fn interrupted(recorder: &Recorder, orphan: Opened, facts: &[u8]) -> Result<(), Stop> {
    match OpenFacts::decode(facts) {
        Ok(facts) => {
            let stamp = recorder.stamp();
            let draft = facts.interrupted(stamp.at_ms, &stamp.gateway);
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
