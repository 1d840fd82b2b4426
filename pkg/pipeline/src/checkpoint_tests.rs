//! The checkpointer over a log that dies, tears and forgets, and over a database that is away or wrong.

use super::*;
use async_trait::async_trait;
use parking_lot::Mutex;
use signet_lineage::tlog::{FromTiles, consistency, inclusion};
use signet_lineage::verify::{checkpoint, extends, includes};
use signet_lineage::{Leaf, Position, Record, root_of};
use signet_spool::{Call, Config as SpoolConfig, MemoryLog, OpenFault, Recovered, SimFiles, Spool};
use signet_types::{LineageId, LogId, ManualClock};

const NOW_MS: u64 = 1_800_000_000_000;
const SEED: [u8; 48] =
    *b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20checkpoint key of these tests...";

fn signer() -> Signer {
    Signer::from_pkcs8(&SEED).expect("a seed in PKCS#8")
}

fn key(log: LogId) -> NoteKey {
    NoteKey::new(&format!("test.example/signet/{log}"), signer().public_key()).expect("a good name")
}

/// Rows by what the log ships; may be away.
#[derive(Default)]
struct Rows {
    leaves: Mutex<Vec<Hash>>,
    notes: Mutex<Vec<(TreeHead, String)>>,
    tiles: Mutex<Vec<(Tile, Vec<u8>)>>,
    away: Mutex<bool>,
}

impl Rows {
    fn up(&self) -> Result<(), TreeFault> {
        if *self.away.lock() { Err(TreeFault::Unavailable("away".to_owned())) } else { Ok(()) }
    }
}

#[async_trait]
impl TreeStore for Rows {
    async fn put_checkpoint(&self, _: LogId, _: u32, head: &TreeHead, note: &str) -> Result<(), TreeFault> {
        self.up()?;
        self.notes.lock().push((*head, note.to_owned()));
        Ok(())
    }

    async fn newest_checkpoint(&self, _: LogId) -> Result<Option<String>, TreeFault> {
        Ok(self.notes.lock().last().map(|(_, note)| note.clone()))
    }

    async fn put_tiles(&self, _: LogId, tiles: &[(Tile, Vec<u8>)]) -> Result<(), TreeFault> {
        self.up()?;
        self.tiles.lock().extend_from_slice(tiles);
        Ok(())
    }

    async fn tile(&self, _: LogId, level: u8, index: u64) -> Result<Option<Vec<u8>>, TreeFault> {
        let tiles = self.tiles.lock();
        let found = tiles.iter().rev().find(|(tile, _)| (tile.level, tile.index) == (level, index));
        Ok(found.map(|(_, hashes)| hashes.clone()))
    }

    async fn tile_ends(&self, _: LogId) -> Result<Vec<(u8, u64)>, TreeFault> {
        Ok(Vec::new())
    }

    async fn leaf_hashes(&self, _: LogId, from: u64, limit: u32) -> Result<Vec<Hash>, TreeFault> {
        self.up()?;
        let leaves = self.leaves.lock();
        Ok(leaves.iter().skip(usize::try_from(from).expect("small")).take(limit as usize).copied().collect())
    }
}

fn id(n: u64) -> LineageId {
    let mut bytes = [0; 16];
    bytes[..6].copy_from_slice(&(NOW_MS + n).to_be_bytes()[2..]);
    bytes[6] = 0x70;
    bytes[8..].copy_from_slice(&n.to_be_bytes());
    LineageId::from_bytes(bytes)
}

fn append(log: &dyn RecordLog, n: u64) -> Result<Hash, LogFault> {
    let seal = &mut |at: &Position| Record {
        id: id(n),
        log: at.log,
        epoch: at.epoch,
        seq: at.seq,
        payload: format!("{{\"n\":{n}}}").into_bytes().into(),
        key_id: [1; 32],
        sig: [n.to_le_bytes()[0] | 1; 64],
    };
    log.close(None, seal).map(|written| written.leaf_hash)
}

fn config(published: Option<TreeHead>) -> SpoolConfig {
    SpoolConfig {
        max_bytes: 1 << 20,
        segment_bytes: 4096,
        record_bytes: 320,
        recent_bytes: 1024,
        group_pause: Duration::ZERO,
        published,
        ..SpoolConfig::new("unused")
    }
}

fn open(files: &SimFiles, published: Option<TreeHead>) -> Result<(Arc<Spool>, Recovered), OpenFault> {
    let clock = Arc::new(ManualClock::at(NOW_MS));
    Spool::open_on(Arc::new(files.clone()), config(published), clock, None).map(|(log, found)| (Arc::new(log), found))
}

struct Bench {
    checkpointer: Checkpointer,
    shown: Shown,
    rows: Arc<Rows>,
    metrics: Arc<Metrics>,
}

fn bench(log: Arc<dyn RecordLog>, files: Option<&SimFiles>) -> Bench {
    let (rows, metrics) = (Arc::new(Rows::default()), Arc::new(Metrics::new()));
    let (checkpointer, shown) = Checkpointer::new(CheckpointParts {
        name: key(log.id()).name().to_owned(),
        log,
        files: files.map(tree_files),
        store: rows.clone(),
        keys: Arc::new(CheckpointKeys::new(signer(), Vec::new())),
        ring: None,
        cadence: Cadence { every: Duration::from_secs(1), leaves: 4096 },
        clock: Arc::new(ManualClock::at(NOW_MS)),
        metrics: metrics.clone(),
        note: Box::new(|_| ()),
    });
    Bench { checkpointer, shown, rows, metrics }
}

fn tree_files(files: &SimFiles) -> Arc<TreeFiles> {
    Arc::new(TreeFiles::new(Arc::new(files.clone())))
}

fn persisted(files: &SimFiles, log: LogId) -> Option<TreeHead> {
    tree_files(files).persisted(log, &[signer().public_key()]).expect("sound").map(|(head, _)| head)
}

fn shown(seen: &Shown) -> Option<TreeHead> {
    seen.borrow().as_ref().map(|published| published.head)
}

fn head_of(leaves: &[Hash]) -> TreeHead {
    TreeHead { size: leaves.len() as u64, root: root_of(leaves) }
}

/// A run of appends, syncs and checkpoints; what was shown is told, and what was appended.
#[derive(Default)]
struct Told {
    leaves: Vec<Hash>,
    durable: usize,
    shown: Vec<TreeHead>,
}

async fn run(files: &SimFiles, told: &mut Told, from: u64) -> Option<()> {
    let log_id = Spool::open_on(Arc::new(files.clone()), config(None), Arc::new(ManualClock::at(NOW_MS)), None);
    let (log, found) = log_id.ok()?;
    let log = Arc::new(log);
    told.leaves.truncate(usize::try_from(found.next_seq).expect("small"));
    let Bench { mut checkpointer, shown: seen, .. } = bench(log.clone(), Some(files));
    for n in from..from + 30 {
        told.leaves.push(append(&*log, n).ok()?);
        if n % 3 == 0 {
            log.sync().ok()?;
            told.durable = told.leaves.len();
        }
        if n % 4 == 0 {
            let outcome = checkpointer.step().await;
            told.shown.extend(shown(&seen));
            outcome.ok()?;
        }
    }
    Some(())
}

/// Whatever is persisted is no smaller than what was shown, consistent with it, and of this log's durable leaves.
fn check(files: &SimFiles, told: &Told, call: u64) {
    let Ok(Some(log)) = peek(files) else {
        assert!(told.shown.is_empty(), "crash at {call}");
        return;
    };
    let persisted = persisted(files, log);
    let (spool, _) = open(files, persisted).expect("the log has what was signed");
    let tree = spool.published_tree();
    for head in told.shown.iter().chain(&persisted) {
        let size = usize::try_from(head.size).expect("small");
        assert!(head.size <= tree.size(), "crash at {call}: signed over what is lost");
        assert_eq!(*head, head_of(&told.leaves[..size]), "crash at {call}: not a head of this log");
    }
    assert!(told.shown.last().is_none_or(|last| persisted.is_some_and(|head| head.size >= last.size)));
}

fn peek(files: &SimFiles) -> Result<Option<LogId>, OpenFault> {
    let (log, found) = open(&files.after_crash(), None)?;
    Ok(Some(log.id()).filter(|_| !found.fresh))
}

#[tokio::test]
async fn no_crash_or_power_cut_at_any_file_call_leaves_a_checkpoint_that_the_log_does_not_have() {
    let whole = SimFiles::new();
    run(&whole, &mut Told::default(), 0).await.expect("no fault");
    let calls = whole.calls();
    assert!(calls > 150, "{calls} calls mean something");
    let keeps: [fn(usize, usize) -> bool; 3] = [|_, _| false, |_, _| true, |file, sector| (file + sector) % 2 == 0];
    for call in 0..calls {
        let files = SimFiles::new();
        files.crash_at(call);
        let mut told = Told::default();
        run(&files, &mut told, 0).await;
        check(&files.after_crash(), &told, call);
        for keep in keeps {
            check(&files.after_power_loss(keep), &told, call);
        }
    }
}

#[tokio::test]
async fn a_checkpointer_that_died_anywhere_goes_on_with_consistent_checkpoints() {
    let whole = SimFiles::new();
    run(&whole, &mut Told::default(), 0).await.expect("no fault");
    for call in 0..whole.calls() {
        let files = SimFiles::new();
        files.crash_at(call);
        let mut told = Told::default();
        run(&files, &mut told, 0).await;
        let files = files.after_crash();
        // What was written and not acknowledged may be there as well.
        let (log, _) = open(&files, None).expect("sound");
        told.leaves = log.reread_leaves(0, 1000).expect("readable");
        drop(log);
        run(&files, &mut told, 100).await.expect("no fault");
        for pair in told.shown.windows(2) {
            assert!(pair[0].size <= pair[1].size, "crash at {call}: a checkpoint shrank");
        }
        for head in &told.shown {
            let size = usize::try_from(head.size).expect("small");
            assert_eq!(*head, head_of(&told.leaves[..size]), "crash at {call}: two histories");
        }
    }
}

#[tokio::test]
async fn tiles_of_a_checkpoint_prove_every_leaf_and_every_earlier_checkpoint() {
    let files = SimFiles::new();
    let big = SpoolConfig { segment_bytes: 1 << 16, ..config(None) };
    let clock = Arc::new(ManualClock::at(NOW_MS));
    let (log, _) = Spool::open_on(Arc::new(files.clone()), big, clock, None).expect("fresh");
    let log = Arc::new(log);
    let Bench { mut checkpointer, shown: seen, .. } = bench(log.clone(), Some(&files));
    let (mut leaves, mut heads) = (Vec::new(), Vec::new());
    for n in 0..700 {
        leaves.push(append(&*log, n).expect("room"));
        if [0, 254, 255, 256, 300, 511, 699].contains(&n) {
            log.sync().expect("no fault");
            assert!(checkpointer.step().await.expect("no fault"));
            heads.extend(shown(&seen));
        }
    }
    let head = *heads.last().expect("several");
    assert_eq!(head, head_of(&leaves));
    let tree = tree_files(&files);
    let mut tiles = FromTiles::new(head.size, |tile| {
        tree.hashes(tile, head.size).map_err(CheckpointFault::Io)?.ok_or(CheckpointFault::Tile(TileFault))
    });
    for (seq, leaf) in (0..).zip(&leaves) {
        let path = inclusion(&mut tiles, seq, head.size).expect("all tiles are there");
        assert!(includes(&head.root, head.size, seq, leaf, &path));
    }
    for old in &heads {
        let path = consistency(&mut tiles, old.size, head.size).expect("all tiles are there");
        assert!(extends(old.size, &old.root, head.size, &head.root, &path));
    }
    let partial: Vec<String> = files.names().into_iter().filter(|name| name.contains(".p/")).collect();
    assert_eq!(partial, ["tile/0/002.p/188", "tile/1/000.p/2"], "only those of the checkpoint that is there");
    let note = seen.borrow().as_ref().expect("several").note.clone();
    assert_eq!(checkpoint(&note, &[key(log.id())]).expect("signed").head, head);
}

#[tokio::test]
async fn a_bit_that_flipped_in_the_file_stops_the_signing_and_not_the_log() {
    let files = SimFiles::new();
    let (log, _) = open(&files, None).expect("fresh");
    for n in 0..5 {
        append(&*log, n).expect("room");
    }
    log.sync().expect("no fault");
    let Bench { mut checkpointer, shown: seen, metrics, .. } = bench(log.clone(), Some(&files));
    let name = files.names().into_iter().find(|name| name.starts_with("seg-")).expect("a segment");
    let whole = files.content(&name);
    // A changed signature under a checksum that fits: nothing below the hash notices it.
    files.edit(&name, |bytes| reseal(bytes, &log));
    assert!(checkpointer.attempt().await, "once may be memory: it is read again");
    assert!(metrics.encode().contains("signet_checkpoint_faults_total{fault=\"mismatch\"} 1"));
    files.edit(&name, |bytes| bytes.clone_from(&whole));
    assert!(checkpointer.attempt().await);
    assert_eq!(shown(&seen).map(|head| head.size), Some(5));

    for n in 5..9 {
        append(&*log, n).expect("room");
    }
    log.sync().expect("no fault");
    files.edit(&name, |bytes| reseal(bytes, &log));
    assert!(checkpointer.attempt().await);
    assert!(!checkpointer.attempt().await, "twice is no accident");
    assert_eq!(shown(&seen).map(|head| head.size), Some(5), "nothing was signed over it");
    append(&*log, 9).expect("the log goes on");
}

/// Changes the last record of a segment and its frame's checksum.
fn reseal(bytes: &mut [u8], log: &Spool) {
    let tail = bytes.windows(64).rposition(|run| run[0] != 0 && run.iter().all(|byte| *byte == run[0]));
    let sig = tail.expect("signatures of one byte each");
    let frame = sig - 68; // its head, the id and the key id
    bytes[sig] ^= 1;
    let body = u32::from_le_bytes(bytes[frame..frame + 4].try_into().expect("4 bytes")) as usize;
    let first_seq = u64::from_le_bytes(bytes[40..48].try_into().expect("8 bytes"));
    let seed = crc32c::crc32c_append(crc32c::crc32c(log.id().as_bytes()), &first_seq.to_le_bytes());
    let crc = crc32c::crc32c_append(seed, &bytes[frame..frame + 4]);
    let crc = crc32c::crc32c_append(crc, &bytes[frame + 8..frame + 20 + body]);
    bytes[frame + 4..frame + 8].copy_from_slice(&crc.to_le_bytes());
}

#[tokio::test]
async fn a_file_that_cannot_be_written_costs_a_checkpoint_and_is_written_at_the_next() {
    for call in [Call::Create, Call::Write, Call::Sync, Call::Rename, Call::SyncDir] {
        let files = SimFiles::new();
        let (log, _) = open(&files, None).expect("fresh");
        let Bench { mut checkpointer, shown: seen, .. } = bench(log.clone(), Some(&files));
        append(&*log, 0).expect("room");
        log.sync().expect("no fault");
        checkpointer.step().await.expect("no fault");
        append(&*log, 1).expect("room");
        log.sync().expect("no fault");
        files.fail_next(call, io::ErrorKind::StorageFull);
        assert!(checkpointer.step().await.is_err(), "{call:?}");
        assert_eq!(shown(&seen).map(|head| head.size), Some(1), "{call:?}: nothing is shown that is not kept");
        append(&*log, 2).expect("the log goes on");
        log.sync().expect("no fault");
        assert!(checkpointer.step().await.expect("no fault"), "{call:?}");
        assert_eq!((shown(&seen), persisted(&files, log.id())), (Some(log.published_tree().head()), shown(&seen)));
    }
}

#[tokio::test]
async fn missing_and_damaged_tiles_are_made_again_from_the_log() {
    let files = SimFiles::new();
    let (log, _) = open(&files, None).expect("fresh");
    let mut first = bench(log.clone(), Some(&files));
    for n in 0..9 {
        append(&*log, n).expect("room");
    }
    log.sync().expect("no fault");
    first.checkpointer.step().await.expect("no fault");
    files.edit("tile/0/000.p/9", |bytes| bytes[40] ^= 1);
    append(&*log, 9).expect("room");
    log.sync().expect("no fault");
    let Bench { mut checkpointer, shown: seen, .. } = bench(log.clone(), Some(&files));
    assert!(checkpointer.step().await.expect("made again"));
    assert_eq!(shown(&seen), Some(log.published_tree().head()));
}

#[tokio::test]
async fn what_the_disk_does_not_have_is_in_no_checkpoint() {
    let files = SimFiles::new();
    let (log, _) = open(&files, None).expect("fresh");
    let Bench { mut checkpointer, shown: seen, .. } = bench(log.clone(), Some(&files));
    append(&*log, 0).expect("room");
    assert!(!checkpointer.step().await.expect("no fault"));
    log.sync().expect("no fault");
    append(&*log, 1).expect("room");
    assert!(checkpointer.step().await.expect("no fault"));
    assert_eq!(shown(&seen).map(|head| head.size), Some(1));
}

#[tokio::test]
async fn a_log_in_memory_signs_what_the_database_has_and_keeps_it_there_first() {
    let log = Arc::new(MemoryLog::new(LogId::generate(NOW_MS), 1 << 20));
    let Bench { mut checkpointer, shown: seen, rows, .. } = bench(log.clone(), None);
    let leaves: Vec<Hash> = (0..7).map(|n| append(&*log, n).expect("room")).collect();
    assert!(!checkpointer.step().await.expect("nothing is shipped"));
    rows.leaves.lock().extend(&leaves[..4]);
    log.shipped(4);
    *rows.away.lock() = true;
    assert!(checkpointer.step().await.is_err());
    assert_eq!(shown(&seen), None, "shown only once it is kept");
    *rows.away.lock() = false;
    assert!(checkpointer.step().await.expect("the database is back"));
    assert_eq!(shown(&seen), Some(head_of(&leaves[..4])));
    assert_eq!(rows.notes.lock().len(), 1);
    rows.leaves.lock().push([9; 32]);
    log.shipped(5);
    let fault = checkpointer.step().await.expect_err("another leaf is in the database");
    assert!(matches!(fault, CheckpointFault::Mismatch { size: 5 }), "{fault}");
}

#[tokio::test]
async fn a_restored_or_foreign_folder_is_told_from_a_sound_one_by_its_checkpoint() {
    let files = SimFiles::new();
    let (log, _) = open(&files, None).expect("fresh");
    append(&*log, 0).expect("room");
    log.sync().expect("no fault");
    let early = files.after_crash();
    append(&*log, 1).expect("room");
    log.sync().expect("no fault");
    let head = log.published_tree().head();
    drop(log);
    let behind = open(&early, Some(head)).expect_err("the folder has less than what was signed");
    assert!(matches!(behind, OpenFault::Behind { have: 1, want: 2, .. }), "{behind}");
    let other = TreeHead { root: [7; 32], ..head };
    let forked = open(&files, Some(other)).expect_err("another history was signed");
    assert!(matches!(forked, OpenFault::Forked { size: 2 }), "{forked}");
    open(&files, Some(head)).expect("its own checkpoint");
}

#[test]
fn leaves_of_records_are_what_the_files_are_hashed_to() {
    let files = SimFiles::new();
    let (log, _) = open(&files, None).expect("fresh");
    for n in 0..40 {
        append(&*log, n).expect("room");
    }
    log.sync().expect("no fault");
    let records = log.read_from(0, 1000, 1 << 20).expect("readable");
    let mut leaves = Vec::new();
    while leaves.len() < 40 {
        leaves.extend(log.reread_leaves(leaves.len() as u64, 7).expect("readable"));
    }
    let mut next = records.len() as u64;
    let mut expected: Vec<Hash> = records.iter().map(|record| Leaf::of(record).hash()).collect();
    while next < 40 {
        let more = log.read_from(next, 1000, 1 << 20).expect("readable");
        expected.extend(more.iter().map(|record| Leaf::of(record).hash()));
        next += more.len() as u64;
    }
    assert_eq!(leaves, expected);
}

#[tokio::test]
async fn a_leaf_that_no_file_holds_any_more_is_taken_from_the_database_if_the_root_over_it_is_the_logs_own() {
    let files = SimFiles::new();
    let (log, _) = open(&files, None).expect("fresh");
    let leaves: Vec<Hash> = (0..9).map(|n| append(&*log, n).expect("room")).collect();
    log.sync().expect("no fault");
    files.edit("seg-00000000000000000000.lsp", |bytes| {
        let at = bytes.windows(7).position(|part| part == b"{\"n\":4}").expect("the record");
        bytes[at] ^= 1;
    });
    let Bench { mut checkpointer, shown: seen, rows, .. } = bench(log, Some(&files));
    assert!(checkpointer.step().await.is_err(), "nobody has it");
    rows.leaves.lock().extend(leaves.iter().map(|_| [9; 32]));
    assert!(matches!(checkpointer.step().await, Err(CheckpointFault::Mismatch { .. })));
    rows.leaves.lock().clone_from(&leaves);
    assert!(checkpointer.step().await.expect("the database has it"));
    assert_eq!(shown(&seen), Some(head_of(&leaves)));
}
