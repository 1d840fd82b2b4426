//! Processes that age, prune, die and start again, over real databases; the verifier says what is left of their logs.

use super::*;
use crate::checkpoint::{Cadence, CheckpointParts, Checkpointer};
use crate::recorder::{Durability, Voice};
use crate::ship::Shipper;
use crate::signing::CheckpointKeys;
use crate::tree::TreeParts;
use crate::tree_files::TreeFiles;
use async_trait::async_trait;
use parking_lot::Mutex as Lock;
use signet_lineage::tlog::NoteKey;
use signet_lineage::verify::{Options as Judging, Pinned, Report, Verifier, proof_file};
use signet_lineage::{Gateway, KeySet, LogRow, Receipt, Recovery, Signer};
use signet_spool::{Config as SpoolConfig, Disk, RecordLog as _, Spool};
use signet_store::{Options, Stores};
use signet_telemetry::Metrics;
use signet_types::{ManualClock, SystemClock};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinSet};

#[path = "prune_turn_tests.rs"]
mod turns;

const DAYS: u32 = 3;
const DAY: Duration = Duration::from_hours(24);
const ORIGIN: &str = "test.example/signet";

fn signer(name: u8) -> Signer {
    let mut seed = *b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20one key of these tests: number..";
    seed[47] = name;
    Signer::from_pkcs8(&seed).expect("a seed in PKCS#8")
}

/// A database, and a clock five days ago.
struct Place {
    stores: Stores,
    clock: Arc<ManualClock>,
    folder: TempDir,
    faults: Arc<Faults>,
    /// Notes that an anchor got.
    anchored: Arc<Lock<Vec<String>>>,
    /// The pinned keys.
    keys: Lock<String>,
}

impl Place {
    async fn sqlite() -> Self {
        Self::at("sqlite://signet.db".to_owned()).await
    }

    async fn at(url: String) -> Self {
        let folder = TempDir::new().expect("a folder");
        let stores = Stores::open(&Options::new(url, folder.path())).expect("a good URL");
        stores.migrate().await.expect("the schema");
        let clock = Arc::new(ManualClock::at(SystemClock::new().now_ms()));
        clock.set_wall_ms(clock.now_ms() - 5 * 86_400_000);
        let keys = Lock::new(KeySet::new([signer(0).public_key()]).expect("a key").to_string());
        Self { stores, clock, folder, faults: Arc::default(), anchored: Arc::default(), keys }
    }

    /// Everything, as an auditor with the pinned keys and the anchors reads it.
    async fn judged(&self, receipts: &[Receipt]) -> Report {
        let pinned = Pinned::parse(&self.keys.lock()).expect("keys");
        let mut verifier = Verifier::trusting(pinned, Judging::default());
        for row in self.stores.records.logs().await.expect("read") {
            let log = row.log;
            verifier.log(row);
            if let Some(note) = self.stores.trees.newest_checkpoint(log).await.expect("read") {
                verifier.held(&note);
            }
            for (record, beside) in self.stores.stored(log, 0, 10_000).await.expect("read") {
                verifier.row(record, beside);
            }
        }
        self.anchored.lock().iter().for_each(|note| assert!(verifier.kept(note)));
        receipts.iter().cloned().for_each(|receipt| verifier.receipt(receipt));
        verifier.finish()
    }

    async fn seqs(&self, log: LogId) -> Vec<u64> {
        let records = self.stores.records.records(log, 0, 10_000).await.expect("read");
        records.iter().map(|record| record.seq).collect()
    }

    async fn pruned_to(&self, log: LogId) -> Option<u64> {
        let noted = self.stores.prunes.pruned().await.expect("read");
        noted.iter().find(|pruned| pruned.log == log).map(|pruned| pruned.below_seq)
    }
}

/// Lets so many calls happen that change something; then it is as if the process were dead.
struct Faults(AtomicU32);

impl Default for Faults {
    fn default() -> Self {
        Self(AtomicU32::new(u32::MAX))
    }
}

impl Faults {
    fn after(&self, calls: u32) {
        self.0.store(calls, Ordering::SeqCst);
    }

    fn call(&self) -> Result<(), String> {
        let left = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        left.map(drop).map_err(|_| "dead".to_owned())
    }
}

/// The database as a process sees it that may die at any call; one leaf hash may be gone or wrong.
struct Mortal {
    stores: Stores,
    faults: Arc<Faults>,
    hidden: Lock<Vec<(LogId, u64)>>,
    wrong: Lock<Vec<(LogId, u64)>>,
}

#[async_trait]
impl PruneStore for Mortal {
    async fn retained(&self, days: u32) -> Result<Option<u32>, ShipFault> {
        self.stores.prunes.retained(days).await
    }

    async fn expired_below(&self, log: LogId, from: u64, days: u32, now_ms: u64) -> Result<u64, ShipFault> {
        self.stores.prunes.expired_below(log, from, days, now_ms).await
    }

    async fn pruned(&self) -> Result<Vec<PrunedLog>, ShipFault> {
        self.stores.prunes.pruned().await
    }

    async fn note_prune(&self, record: &Record) -> Result<(), ShipFault> {
        self.faults.call().map_err(ShipFault::Unavailable)?;
        self.stores.prunes.note_prune(record).await
    }

    async fn drop_pruned(&self, days: u32) -> Result<u64, ShipFault> {
        self.faults.call().map_err(ShipFault::Unavailable)?;
        self.stores.prunes.drop_pruned(days).await
    }
}

#[async_trait]
impl TreeStore for Mortal {
    async fn put_checkpoint(&self, log: LogId, epoch: u32, head: &TreeHead, note: &str) -> Result<(), TreeFault> {
        self.stores.trees.put_checkpoint(log, epoch, head, note).await
    }

    async fn newest_checkpoint(&self, log: LogId) -> Result<Option<String>, TreeFault> {
        self.stores.trees.newest_checkpoint(log).await
    }

    async fn put_tiles(&self, log: LogId, tiles: &[(Tile, Vec<u8>)]) -> Result<(), TreeFault> {
        self.faults.call().map_err(TreeFault::Unavailable)?;
        self.stores.trees.put_tiles(log, tiles).await
    }

    async fn tile(&self, log: LogId, level: u8, index: u64) -> Result<Option<Vec<u8>>, TreeFault> {
        self.stores.trees.tile(log, level, index).await
    }

    async fn tile_ends(&self, log: LogId) -> Result<Vec<(u8, u64)>, TreeFault> {
        self.stores.trees.tile_ends(log).await
    }

    async fn leaf_hashes(&self, log: LogId, from: u64, limit: u32) -> Result<Vec<Hash>, TreeFault> {
        let mut leaves = self.stores.trees.leaf_hashes(log, from, limit).await?;
        let within = |places: &Lock<Vec<(LogId, u64)>>| {
            let at = places.lock().iter().copied().find(|(of, seq)| *of == log && *seq >= from);
            at.map(|(_, seq)| usize::try_from(seq - from).expect("small")).filter(|at| *at < leaves.len())
        };
        let (hidden, wrong) = (within(&self.hidden), within(&self.wrong));
        if let Some(at) = wrong {
            leaves[at][0] ^= 1;
        }
        leaves.truncate(hidden.unwrap_or(leaves.len()));
        Ok(leaves)
    }
}

struct Keeping {
    notes: Arc<Lock<Vec<String>>>,
    faults: Arc<Faults>,
}

#[async_trait]
impl Anchor for Keeping {
    fn name(&self) -> &'static str {
        "a list"
    }

    async fn put(&self, checkpoint: &Published) -> Result<(), AnchorFault> {
        self.faults.call().map_err(AnchorFault)?;
        self.notes.lock().push(checkpoint.note.clone());
        Ok(())
    }
}

/// One gateway's log with all that looks after it.
struct Process {
    recorder: Arc<Recorder>,
    log: LogId,
    view: Arc<TreeView>,
    shown: Shown,
    pruner: Arc<Pruner>,
    store: Arc<Mortal>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
    signing: AbortHandle,
}

impl Process {
    /// With the log in the folder `name`, a new one or as it was left.
    fn start(place: &Place, name: &str) -> Self {
        let dir = place.folder.path().join(name);
        let (spool, found) = Spool::open(SpoolConfig::new(&dir), place.clock.clone(), None).expect("a log");
        let log = Arc::new(spool);
        let gateway = Gateway {
            version: "1".to_owned(),
            instance: name.to_owned(),
            config_sha256: [0; 32],
            durability: "spool".to_owned(),
        };
        let voice = Voice {
            origin: ORIGIN.to_owned(),
            gateway: Arc::new(gateway),
            durability: Durability::Written,
            degrade: false,
        };
        let metrics = Arc::new(Metrics::new());
        let recorder = Arc::new(Recorder::new(log.clone(), signer(0), voice, place.clock.clone(), metrics.clone()));
        let key = NoteKey::new(&format!("{ORIGIN}/{}", log.id()), signer(1).public_key()).expect("a good name");
        let first = if found.fresh {
            let mut keys = place.keys.lock();
            *keys = format!("{keys}{key}\n");
            let opening = Draft::log_open(&recorder.stamp(), ORIGIN, &signer(0).public_key());
            opening.naming_checkpoint_key(key.public_key())
        } else {
            let (clean, same_boot, lost_tail_possible) = (found.clean, true, false);
            let last_seq = found.next_seq.checked_sub(1);
            Draft::recovery(&recorder.stamp(), &Recovery { clean, same_boot, last_seq, lost: None, lost_tail_possible })
        };
        assert!(recorder.write(&first));
        Self::over(place, (recorder, key, metrics), &dir)
    }

    fn over(place: &Place, (recorder, key, metrics): (Arc<Recorder>, NoteKey, Arc<Metrics>), dir: &Path) -> Self {
        let (log, stores) = (recorder.log().clone(), &place.stores);
        let (hidden, wrong) = (Lock::default(), Lock::default());
        let store = Arc::new(Mortal { stores: stores.clone(), faults: place.faults.clone(), hidden, wrong });
        let files = Arc::new(TreeFiles::new(Arc::new(Disk::new(dir))));
        let (checkpointer, shown) = Checkpointer::new(CheckpointParts {
            log: log.clone(),
            files: Some(files.clone()),
            store: stores.trees.clone(),
            name: key.name().to_owned(),
            keys: Arc::new(CheckpointKeys::new(signer(1), Vec::new())),
            ring: None,
            cadence: Cadence { every: Duration::from_millis(20), leaves: 1 },
            clock: place.clock.clone(),
            metrics,
            note: Box::new(|_| ()),
        });
        let view = Arc::new(TreeView::new(TreeParts {
            log: log.clone(),
            shown: shown.clone(),
            files: Some(files.clone()),
            records: stores.records.clone(),
            store: store.clone(),
            keys: Box::new(String::new),
            services: Handle::current(),
        }));
        let in_store = crate::anchor::StoreAnchor::new(log.clone(), files, stores.trees.clone());
        let kept = Keeping { notes: place.anchored.clone(), faults: place.faults.clone() };
        let pruner = Arc::new(Pruner::new(PruneParts {
            recorder: recorder.clone(),
            view: view.clone(),
            shown: shown.clone(),
            records: stores.records.clone(),
            trees: store.clone(),
            store: store.clone(),
            anchors: vec![Box::new(in_store), Box::new(kept)],
            days: DAYS,
            clock: place.clock.clone(),
            note: Box::new(|_| ()),
        }));
        let attest_key = *recorder.attest_key().as_bytes();
        let row = LogRow { log: log.id(), origin: ORIGIN.to_owned(), epoch: log.epoch(), attest_key, next_seq: 0 };
        let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
        let shipper = Shipper::new(log.clone(), stores.records.clone(), row).at_once(true);
        let until = stop.clone();
        tasks.spawn(async move { drop(shipper.run(until, Duration::from_secs(5)).await) });
        let signing = tasks.spawn(checkpointer.run(stop.clone()));
        Self { log: log.id(), recorder, view, shown, pruner, store, stop, tasks, signing }
    }

    /// Writes records now; they are stored and covered by a checkpoint when it returns.
    async fn write(&self, count: u64) -> Vec<Arc<Record>> {
        let mut written = Vec::new();
        for _ in 1..count {
            let draft = Draft::clock(&self.recorder.stamp(), 1, 2);
            assert!(self.recorder.write(&draft));
            written.push(draft.id);
        }
        let last = self.recorder.write_stored(&Draft::clock(&self.recorder.stamp(), 1, 2)).await.expect("stored");
        self.pruner.covered(last.seq).await.expect("a checkpoint");
        let all = self.recorder.log().read_from(last.seq + 1 - count, 10_000, usize::MAX).expect("read");
        assert_eq!(all.len() as u64, count);
        all
    }

    async fn anchor(&self) {
        let shown = self.shown.borrow().clone().expect("a checkpoint");
        for anchor in &self.pruner.parts.anchors {
            anchor.put(&shown).await.expect("kept");
        }
    }

    /// It dies: what others do for it ends.
    async fn die(mut self) {
        self.stop.cancel();
        self.tasks.abort_all();
        while self.tasks.join_next().await.is_some() {}
    }

    /// It ends, with its last records stored.
    async fn end(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }

    async fn turn(&self) -> Result<Pruned, PruneFault> {
        self.pruner.turn().await
    }
}

#[track_caller]
fn holds(report: &Report) {
    assert_eq!(report.exit_code(), 0, "{report}");
}

async fn proofs_outlive_what_they_prove(place: Place) {
    let process = Process::start(&place, "a");
    let old = process.write(300).await;
    process.anchor().await;
    let before = process.shown.borrow().clone().expect("a checkpoint");
    place.clock.advance(5 * DAY);
    let young = process.write(20).await;
    process.anchor().await;
    let mut proofs = Vec::new();
    for record in [&old[2], &old[298], &young[0]] {
        proofs.push((record, process.view.proof(record).await.expect("a proof")));
    }
    let tile = |level, index, width| Tile { level, index, width };
    let full = process.view.tile(process.log, tile(0, 0, 256)).await.expect("read");
    assert!(process.view.entries(process.log, tile(0, 0, 256)).await.expect("read").is_some());
    let receipts = [&old[5], &young[5]].map(|record| Receipt::of(record, ORIGIN));
    let report = place.judged(&receipts).await;
    holds(&report);

    let turn = process.turn().await.expect("nothing is in the way");
    assert_eq!(turn.logs, [PrunedTo { log: process.log, below_seq: 301 }]);
    assert!(turn.dropped > 0 && turn.left.is_empty(), "{turn:?}");
    assert_eq!(place.seqs(process.log).await, (301..322).collect::<Vec<_>>(), "young ones, and the prune");
    assert_eq!(place.stores.records.find(old[7].id, None).await.expect("read"), None);
    let report = place.judged(&receipts).await;
    holds(&report);
    let text = report.to_string();
    assert!(text.contains("the 301 records of log") && text.contains("which was pruned"), "{text}");
    assert!(report.pins > 1, "the young receipt and the anchors over it: {report}");

    // What was proved before is proved still, and by another process too.
    let key: NoteKey = place.keys.lock().lines().last().and_then(|line| line.parse().ok()).expect("a key");
    for (record, proof) in &proofs {
        let hash = signet_lineage::Leaf::of(record).hash();
        proof_file(proof, &hash, std::slice::from_ref(&key)).expect("it holds");
    }
    let other = Process::start(&place, "b");
    for view in [&process.view, &other.view] {
        assert!(view.tile(process.log, tile(0, 0, 256)).await.expect("read") == full);
        let newest = view.newest_head(process.log).await.expect("read").expect("a checkpoint");
        assert!(view.begins_with(process.log, before.head, newest).await.expect("read"));
        assert!(view.proof(&old[2]).await.is_some(), "a new proof of an old record");
    }
    let entries = other.view.entries(process.log, tile(0, 0, 256)).await.expect("read");
    assert!(entries.is_none(), "the leaves are in the own segments only");
    let again = process.turn().await.expect("nothing is in the way");
    assert_eq!(again, Pruned::default());
    process.end().await;
    let process = Process::start(&place, "a");
    process.write(3).await;
    holds(&place.judged(&receipts).await);
    process.end().await;
    other.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_records_go_and_what_was_proved_of_them_stays_proved_in_sqlite() {
    proofs_outlive_what_they_prove(Place::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_nobody_writes_goes_to_its_end_and_who_says_so_says_it_again_before_that_goes() {
    let place = Place::sqlite().await;
    let dead = Process::start(&place, "dead");
    dead.write(30).await;
    dead.anchor().await;
    dead.signing.abort();
    while !dead.signing.is_finished() {
        tokio::task::yield_now().await;
    }
    for _ in 0..5 {
        let draft = Draft::clock(&dead.recorder.stamp(), 1, 2);
        dead.recorder.write_stored(&draft).await.expect("stored, behind its last checkpoint");
    }
    let gone = dead.log;
    dead.end().await;
    place.clock.advance(5 * DAY);
    let process = Process::start(&place, "a");
    let turn = process.turn().await.expect("nothing is in the way");
    assert_eq!(turn.logs, [PrunedTo { log: gone, below_seq: 36 }]);
    assert!(place.seqs(gone).await.is_empty());
    holds(&place.judged(&[]).await);

    // Days later the prune itself is old. An anchor that is away lets nothing go.
    process.write(10).await;
    place.clock.advance(5 * DAY);
    process.write(10).await;
    place.faults.after(2);
    assert!(matches!(process.turn().await, Err(PruneFault::Anchor(_))));
    place.faults.after(u32::MAX);
    assert_eq!(place.pruned_to(process.log).await, None);
    holds(&place.judged(&[]).await);
    let turn = process.turn().await.expect("nothing is in the way");
    assert_eq!(turn.logs.len(), 2, "its own old records, and once more the dead log: {turn:?}");
    let first = place.seqs(process.log).await[0];
    assert_eq!(Some(first), place.pruned_to(process.log).await);
    assert!(first > 10, "the first prune is gone");
    holds(&place.judged(&[]).await);
    process.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_at_any_step_of_pruning_loses_nothing_and_the_next_turn_ends_it() {
    let mut survived = 0;
    for calls in 0.. {
        let place = Place::sqlite().await;
        let dead = Process::start(&place, "dead");
        dead.write(270).await;
        dead.anchor().await;
        let gone = dead.log;
        dead.end().await;
        let process = Process::start(&place, "a");
        process.write(20).await;
        process.anchor().await;
        place.clock.advance(5 * DAY);
        process.write(5).await;
        place.faults.after(calls);
        let died = process.turn().await;
        place.faults.after(u32::MAX);
        holds(&place.judged(&[]).await);
        let own = process.log;
        process.die().await;
        let process = Process::start(&place, "a");
        process.write(1).await;
        holds(&place.judged(&[]).await);
        process.turn().await.expect("nothing is in the way");
        assert!(place.seqs(gone).await.is_empty(), "after {calls} calls");
        assert_eq!((place.seqs(own).await[0], place.pruned_to(gone).await), (21, Some(271)));
        holds(&place.judged(&[]).await);
        process.end().await;
        if died.is_ok_and(|turn| turn.left.is_empty()) {
            break;
        }
        survived += 1;
    }
    assert!(survived >= 6, "tiles twice, an anchor, two notes, dropping: {survived}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_that_prune_at_once_do_no_harm() {
    let place = Place::sqlite().await;
    let (a, b) = (Process::start(&place, "a"), Process::start(&place, "b"));
    for process in [&a, &b] {
        process.write(40).await;
        process.anchor().await;
    }
    place.clock.advance(5 * DAY);
    for process in [&a, &b] {
        process.write(5).await;
        process.anchor().await;
    }
    let (one, other) = tokio::join!(a.turn(), b.turn());
    assert!(one.expect("done").left.is_empty() && other.expect("done").left.is_empty());
    for log in [a.log, b.log] {
        assert_eq!((place.seqs(log).await[0], place.pruned_to(log).await), (41, Some(41)));
    }
    holds(&place.judged(&[]).await);
    a.end().await;
    b.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_do_not_hash_to_the_checkpoint_stay_for_the_auditor() {
    let place = Place::sqlite().await;
    let dead = Process::start(&place, "dead");
    dead.write(30).await;
    dead.anchor().await;
    let gone = dead.log;
    dead.end().await;
    let process = Process::start(&place, "a");
    process.write(30).await;
    place.clock.advance(5 * DAY);
    process.write(3).await;
    let both = [(gone, 7), (process.log, 7)];
    process.store.wrong.lock().extend(both);
    let turn = process.turn().await.expect("others could be pruned");
    assert_eq!(turn.left.iter().filter(|why| why.contains("do not hash to its checkpoint")).count(), 2, "{turn:?}");
    for (log, seq) in both {
        assert_eq!(place.pruned_to(log).await, None);
        assert!(place.seqs(log).await.contains(&seq));
        assert!(place.stores.trees.tile(log, 0, 0).await.expect("read").is_none(), "no tile of a false tree");
    }
    process.store.wrong.lock().clear();
    assert!(process.turn().await.expect("done").left.is_empty());
    holds(&place.judged(&[]).await);
    process.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn over_a_missing_record_it_goes_only_where_its_leaf_is_told() {
    let place = Place::sqlite().await;
    let untold = Process::start(&place, "untold");
    untold.write(9).await;
    untold.anchor().await;
    let other = untold.log;
    untold.end().await;
    let process = Process::start(&place, "a");
    process.write(9).await;
    place.clock.advance(5 * DAY);
    process.write(1).await;
    // Nobody says what is missing.
    process.store.hidden.lock().push((other, 5));
    let turn = process.turn().await.expect("the others can be pruned");
    assert!(turn.left.len() == 1 && turn.left[0].contains("at seq 5 is not known"), "{turn:?}");
    assert_eq!(place.pruned_to(other).await, None);
    assert!(place.pruned_to(process.log).await.is_some());
    process.end().await;

    let place = Place::sqlite().await;
    let dead = Process::start(&place, "dead");
    let old = dead.write(9).await;
    let leaf = signet_lineage::Leaf::of(&old[4]).hash();
    let declared = Draft::gap(&dead.recorder.stamp(), 5, 5, "unreadable", Some(&[leaf]));
    dead.recorder.write_stored(&declared).await.expect("stored");
    let told = dead.log;
    dead.write(262).await;
    dead.anchor().await;
    dead.end().await;
    let process = Process::start(&place, "a");
    process.write(9).await;
    place.clock.advance(5 * DAY);
    process.write(1).await;
    process.store.hidden.lock().extend([(told, 5), (process.log, 5)]);
    let turn = process.turn().await.expect("a gap tells one, and the own files the other");
    assert!(turn.left.is_empty(), "{turn:?}");
    assert_eq!((place.pruned_to(told).await, place.pruned_to(process.log).await), (Some(273), Some(10)));
    holds(&place.judged(&[]).await);
    process.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_of_erased_records_are_still_given_to_all_that_follow_the_log() {
    let place = Place::sqlite().await;
    let dead = Process::start(&place, "dead");
    let old = dead.write(9).await;
    dead.anchor().await;
    let log = dead.log;
    dead.end().await;
    let process = Process::start(&place, "a");
    let tile = Tile { level: 0, index: 0, width: 10 };
    let before = process.view.entries(log, tile).await.expect("read").expect("all leaves are there");
    assert!(place.stores.records.erase(&old[3]).await.expect("erased"));
    assert_eq!(process.view.entries(log, tile).await.expect("read"), Some(before));
    process.end().await;
}
