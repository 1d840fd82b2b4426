//! Signs checkpoints of the writer log: how large its tree is, and its root. One thread, off the path of requests.
//!
//! In this order, so that no two checkpoints can be inconsistent and none covers what a power cut could take: the leaves are
//! durable; their hashes are computed anew from the files; the root over them is that of the log's own tree; the tiles are
//! on the disk; the note is signed and has its name on the disk; only then is it shown. The next one grows out of the tiles
//! of the one before, never out of anything else.
//!
//! A log in memory has no files: its leaves are read back from the database, and its checkpoints are there before they are
//! shown.
//!
//! Whatever goes wrong here costs checkpoints, never an answer. After any fault the state is read again from what was
//! persisted. Roots that differ twice end the signing for good: going on would sign a second history.

use crate::keyring::{Ring, Standing};
use crate::signing::CheckpointKeys;
use crate::tree_files::{Hash, PersistedFault, TreeFiles};
use signet_lineage::tlog::{Checkpoint, NoteKey, Tile, TileFault, Tiles};
use signet_lineage::{KeyUse, Signer, TreeFault, TreeHead, TreeStore};
use signet_spool::{LogFault, RecordLog};
use signet_telemetry::Metrics;
use signet_types::Clock;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How often it looks whether one is due.
const BEAT: Duration = Duration::from_millis(50);
/// Leaves read at a time.
const CHUNK: u64 = 4096;
/// Full tiles held until the root over them was compared, 8 KiB each. Beyond, they are computed a second time.
const HELD_TILES: usize = 1024;

/// A checkpoint that others may know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The signed note.
    pub note: String,
    /// What it says.
    pub head: TreeHead,
    /// When it was signed, or taken up again by this process; milliseconds since the Unix epoch.
    pub at_ms: u64,
}

/// The newest checkpoint; none before the first.
pub type Shown = watch::Receiver<Option<Arc<Published>>>;

/// When a checkpoint is due: the log has grown, and this long has passed, or it has grown by so many leaves.
#[derive(Debug, Clone, Copy)]
pub struct Cadence {
    /// Time between two checkpoints.
    pub every: Duration,
    /// Growth that does not wait for it.
    pub leaves: u64,
}

/// Why there was no checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointFault {
    /// The leaves do not hash to the log's tree, or to the checkpoint before: memory or a file changed.
    #[error("the leaves below {size} do not hash to the tree that the log holds")]
    Mismatch {
        /// Size of the tree.
        size: u64,
    },
    /// A leaf is neither in the log nor in the database.
    #[error("the leaf at {seq} cannot be read")]
    Missing {
        /// Its place.
        seq: u64,
    },
    /// The log could not be read.
    #[error(transparent)]
    Log(#[from] LogFault),
    /// The last checkpoint cannot be gone on from.
    #[error(transparent)]
    Persisted(#[from] PersistedFault),
    /// A file could not be written or read.
    #[error("a file of the tree: {0}")]
    Io(#[from] io::Error),
    /// The database could not be asked, or refused.
    #[error(transparent)]
    Store(#[from] TreeFault),
    /// A file of the tree is not what it should be.
    #[error(transparent)]
    Tile(#[from] TileFault),
    /// What would be signed would count nowhere.
    #[error("{0}")]
    Void(String),
}

impl CheckpointFault {
    const fn kind(&self) -> &'static str {
        match self {
            Self::Mismatch { .. } => "mismatch",
            Self::Missing { .. } => "missing",
            Self::Log(_) => "log",
            Self::Persisted(_) => "persisted",
            Self::Io(_) | Self::Tile(_) => "io",
            Self::Store(_) => "store",
            Self::Void(_) => "void",
        }
    }
}

/// What signing needs.
pub struct CheckpointParts {
    /// The log.
    pub log: Arc<dyn RecordLog>,
    /// Its files; none for a log in memory.
    pub files: Option<Arc<TreeFiles>>,
    /// The database.
    pub store: Arc<dyn TreeStore>,
    /// The name under which notes are signed, `<lineage.origin>/<log>`.
    pub name: String,
    /// The checkpoint keys.
    pub keys: Arc<CheckpointKeys>,
    /// What offline roots say of them.
    pub ring: Option<Arc<Ring>>,
    /// When.
    pub cadence: Cadence,
    /// Clocks.
    pub clock: Arc<dyn Clock>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Is told what is wrong, or that nothing is.
    pub note: Box<dyn Fn(Option<String>) + Send + Sync>,
}

/// Signs the checkpoints of one log.
pub struct Checkpointer {
    parts: CheckpointParts,
    /// The tree of the last checkpoint; none if it has to be read again.
    tiles: Option<Tiles>,
    shown: watch::Sender<Option<Arc<Published>>>,
    /// Roots differed when the last one was tried.
    suspect: bool,
    failing: bool,
}

impl Checkpointer {
    /// A checkpointer, and where its checkpoints are shown.
    pub fn new(parts: CheckpointParts) -> (Self, Shown) {
        let (shown, seen) = watch::channel(None);
        (Self { parts, tiles: None, shown, suspect: false, failing: false }, seen)
    }

    /// Signs what is due until `stop`, then once more for what the log's end added.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut last = Instant::now();
        let mut go_on = self.attempt().await;
        while go_on && tokio::time::timeout(BEAT, stop.cancelled()).await.is_err() {
            if self.is_due(last.elapsed()) {
                last = Instant::now();
                go_on = self.attempt().await;
            }
        }
        if go_on {
            self.attempt().await;
        }
    }

    fn is_due(&self, elapsed: Duration) -> bool {
        let Cadence { every, leaves } = self.parts.cadence;
        let size = self.tiles.as_ref().map_or(0, Tiles::size);
        let grown = self.parts.log.published_tree().size().saturating_sub(size);
        let many = grown >= leaves && !self.failing;
        many || ((grown > 0 || self.failing) && elapsed >= every)
    }

    /// One step, and what a fault in it means; whether there may be another.
    async fn attempt(&mut self) -> bool {
        let Err(fault) = self.step().await else {
            (self.suspect, self.failing) = (false, false);
            (self.parts.note)(None);
            return true;
        };
        self.parts.metrics.checkpoint_fault(fault.kind());
        let mismatch = matches!(fault, CheckpointFault::Mismatch { .. });
        let over = mismatch && self.suspect;
        if over {
            tracing::error!(%fault, "no more checkpoints are signed by this process");
            (self.parts.note)(Some(format!("{fault}, twice; no more checkpoints are signed")));
        } else {
            if !self.failing {
                tracing::error!(%fault, "no checkpoint was signed");
            }
            (self.parts.note)(Some(fault.to_string()));
        }
        (self.suspect, self.failing) = (mismatch, true);
        !over
    }

    /// Signs a checkpoint if the log has grown; whether it did.
    ///
    /// # Errors
    /// Why not. The state is read again at the next step.
    pub async fn step(&mut self) -> Result<bool, CheckpointFault> {
        let tree = self.parts.log.published_tree();
        let tiles = self.load().await?;
        let head = tree.head();
        if head.size <= tiles.size() {
            let same = head == tiles.head();
            self.tiles = Some(tiles).filter(|_| same);
            return if same { Ok(false) } else { Err(CheckpointFault::Mismatch { size: head.size }) };
        }
        let Some(signer) = self.parts.keys.covering(head.size) else {
            self.tiles = Some(tiles);
            return Ok(false);
        };
        self.may_sign(&signer, head.size)?;
        let next = self.grow(&tiles, head).await?;
        let origin = self.parts.name.clone();
        let key = NoteKey::new(&origin, signer.public_key()).expect("the configuration is checked for it");
        let note = Checkpoint { origin, head }.sign(&key, &signer);
        match &self.parts.files {
            Some(files) => files.put_checkpoint(&note)?,
            None => self.parts.store.put_checkpoint(self.log(), self.parts.log.epoch(), &head, &note).await?,
        }
        self.show(head, note);
        if let Some(files) = &self.parts.files {
            files.drop_partial(tiles.size(), head.size);
        }
        self.tiles = Some(next);
        Ok(true)
    }

    fn may_sign(&self, signer: &Signer, size: u64) -> Result<(), CheckpointFault> {
        let Some(ring) = &self.parts.ring else { return Ok(()) };
        match ring.standing(self.log(), KeyUse::Checkpoint, &signer.public_key(), size.saturating_sub(1)) {
            Standing::Void(why) => Err(CheckpointFault::Void(why)),
            Standing::Good | Standing::Doubtful(_) => Ok(()),
        }
    }

    fn log(&self) -> signet_types::LogId {
        self.parts.log.id()
    }

    fn show(&self, head: TreeHead, note: String) {
        self.parts.metrics.checkpoint(head.size);
        self.shown.send_replace(Some(Arc::new(Published { note, head, at_ms: self.parts.clock.now_ms() })));
    }

    /// The tree of the last checkpoint.
    async fn load(&mut self) -> Result<Tiles, CheckpointFault> {
        if let Some(tiles) = self.tiles.take() {
            return Ok(tiles);
        }
        let Some(files) = self.parts.files.clone() else {
            let last = self.shown.borrow().as_ref().map(|published| published.head);
            return match last {
                Some(head) => self.grow(&Tiles::default(), head).await,
                None => Ok(Tiles::default()),
            };
        };
        let Some((head, note)) = files.persisted(self.log(), &self.parts.keys.all())? else {
            return Ok(Tiles::default());
        };
        let read = |tile| Ok::<_, CheckpointFault>(files.hashes(tile, head.size)?.unwrap_or_default());
        let tiles = match Tiles::resume(head.size, read) {
            Ok(tiles) if tiles.head() == head => tiles,
            _ => {
                tracing::warn!(size = head.size, "tiles are missing or damaged; they are made again");
                self.grow(&Tiles::default(), head).await?
            }
        };
        // It has its name, but perhaps not on the disk yet.
        files.confirm()?;
        if self.shown.borrow().as_ref().is_none_or(|shown| shown.head != head) {
            self.show(head, note);
        }
        Ok(tiles)
    }

    /// The tree of `head`, grown out of `from`, with all its tiles where they belong. Nothing is written unless the root
    /// over what was read is that of `head`.
    async fn grow(&self, from: &Tiles, head: TreeHead) -> Result<Tiles, CheckpointFault> {
        let fits = |tiles: &Tiles| (tiles.head() == head).then_some(()).ok_or(mismatch(head));
        let (mut full_tiles, mut all) = (Vec::new(), true);
        // Rows hold the hashes of level 0.
        let lowest = u8::from(self.parts.files.is_none());
        let mut next = self
            .fold(from.clone(), head.size, |tile, hashes| {
                all &= full_tiles.len() < HELD_TILES || lowest > 0;
                if all && tile.level >= lowest {
                    full_tiles.push((tile, hashes.to_vec()));
                }
                Ok(())
            })
            .await?;
        fits(&next)?;
        let Some(files) = &self.parts.files else {
            full_tiles.extend(next.partial().map(|(tile, hashes)| (tile, hashes.to_vec())));
            full_tiles.retain(|(tile, _)| tile.level >= lowest);
            let bytes = |(tile, hashes): (Tile, Vec<Hash>)| (tile, hashes.as_flattened().to_vec());
            let tiles: Vec<_> = full_tiles.into_iter().map(bytes).collect();
            if !tiles.is_empty() {
                self.parts.store.put_tiles(self.log(), &tiles).await?;
            }
            return Ok(next);
        };
        if all {
            full_tiles.iter().try_for_each(|(tile, hashes)| files.put(*tile, hashes))?;
        } else {
            next = self.fold(from.clone(), head.size, |tile, hashes| files.put(tile, hashes)).await?;
            fits(&next)?;
        }
        next.partial().try_for_each(|(tile, hashes)| files.put(tile, hashes))?;
        files.settle()?;
        Ok(next)
    }

    /// Appends the leaves up to `size`; `full` gets the tiles that they fill.
    async fn fold(
        &self,
        mut tiles: Tiles,
        size: u64,
        mut full: impl FnMut(Tile, &[Hash]) -> io::Result<()>,
    ) -> Result<Tiles, CheckpointFault> {
        while tiles.size() < size {
            let mut done = Ok(());
            for leaf in self.leaves(tiles.size(), size).await? {
                tiles.push(leaf, |tile, hashes| {
                    if done.is_ok() {
                        done = full(tile, hashes);
                    }
                });
            }
            done?;
        }
        Ok(tiles)
    }

    /// Some of the leaf hashes `from..below`, at least one: from the log's files, or from the database where they are no
    /// longer there.
    async fn leaves(&self, from: u64, below: u64) -> Result<Vec<Hash>, CheckpointFault> {
        let held = self.parts.log.holds_from();
        let most = below.min(from + CHUNK) - from;
        let stored = |most: u64| self.parts.store.leaf_hashes(self.log(), from, u32::try_from(most).expect("a chunk"));
        let leaves = if from < held {
            stored(most.min(held - from)).await?
        } else {
            match self.parts.log.reread_leaves(from, usize::try_from(most).expect("a chunk")) {
                Ok(leaves) => leaves,
                // Not readable in the files, and shipped before: the root over all of them judges what the database says.
                Err(fault) => stored(most).await.ok().filter(|leaves| !leaves.is_empty()).ok_or(fault)?,
            }
        };
        if leaves.is_empty() { Err(CheckpointFault::Missing { seq: from }) } else { Ok(leaves) }
    }
}

const fn mismatch(head: TreeHead) -> CheckpointFault {
    CheckpointFault::Mismatch { size: head.size }
}

#[cfg(test)]
#[path = "checkpoint_tests.rs"]
mod tests;
