//! Retention: drops records that are older than the operator keeps them, behind a signed record that says so.
//!
//! In this order, so that nothing is ever gone without it, whatever dies in between: 1. the tree over what is to go is computed
//! anew from the rows and compared with the log's newest checkpoint 2. its tiles are stored, down to the leaf hashes, so that
//! proofs go on 3. the `prune` record is signed into this process's own log, is in the database, and is covered by a
//! checkpoint that every anchor has 4. the store notes it 5. the store drops what is noted. A turn that begins behind a crash
//! does again what was not noted: a second `prune` of the same records says nothing new. So is one by another replica.
//!
//! Any log of the database is pruned by any process, also one that nobody writes any more. Of a log that is written nothing
//! goes above its newest checkpoint; one of which no record is young enough to stay, and which may have died before its last
//! checkpoint, goes to its end: what pins it is the anchored checkpoint over the `prune`.
//!
//! A `prune` grows old too. Before it goes, what it says is signed again, or the log that holds it waits.

use crate::anchor::{Anchor, AnchorFault};
use crate::checkpoint::{Published, Shown};
use crate::fault::Fault;
use crate::recorder::Recorder;
use crate::tree::{TreeView, ViewFault};
use crate::tree_files::Hash;
use serde::Serialize;
use signet_lineage::tlog::{Tile, TileFault, Tiles};
use signet_lineage::{
    Draft, PruneStore, PrunedLog, Record, RecordStore, ShipFault, TreeFault, TreeHead, TreeStore, gap_leaves,
};
use signet_types::{Clock, LogId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// Between two turns, and before the first: a clock that is wrong at the start is mostly right by then.
const EVERY: Duration = Duration::from_hours(1);
/// By how much the turns of replicas are apart, at most.
const SPREAD_S: u16 = 600;
/// Leaf hashes read at a time.
const PAGE: u64 = 4096;
/// Records of one log that one `prune` adds, at most: their tiles are in RAM until the root was compared, 32 MiB.
const STEP: u64 = 1 << 20;
/// Tiles stored in one transaction.
const TILES: usize = 64;
/// How many records behind a hole are looked at for the `gap` that declares it.
const GAP_WITHIN: u32 = 64;
/// How long a checkpoint over the new records may take, and then each anchor.
const COVERED: Duration = Duration::from_mins(2);
const ANCHORED: Duration = Duration::from_secs(10);

/// Why nothing more is dropped now. What is not noted stays.
#[derive(Debug, thiserror::Error)]
pub enum PruneFault {
    /// The store is away, or refused.
    #[error(transparent)]
    Store(#[from] ShipFault),
    /// So is its part with the trees.
    #[error(transparent)]
    Tree(#[from] TreeFault),
    /// Nobody who owns the tables has said that records of that age may go.
    #[error(
        "the database keeps records {}, and lineage.retain_days is {wanted}: the owner of its tables has to run \
         SELECT lineage_retain({wanted})",
        .kept.map_or_else(|| "for ever".to_owned(), |days| format!("for {days} days"))
    )]
    Kept {
        /// The days of the configuration.
        wanted: u32,
        /// The owner's, if they were ever set.
        kept: Option<u32>,
    },
    /// The tree cannot be read.
    #[error(transparent)]
    View(#[from] ViewFault),
    /// A tile is missing.
    #[error(transparent)]
    Tile(#[from] TileFault),
    /// The log took no record, or it is not known to be in the database.
    #[error("the prune record is not known to be stored: {0}")]
    Log(#[from] Fault),
    /// An anchor has not got the checkpoint.
    #[error("a checkpoint over the prune record is not anchored: {0}")]
    Anchor(#[from] AnchorFault),
    /// There is none.
    #[error("no checkpoint covers the prune record within {COVERED:?}")]
    Uncovered,
    /// The rows are not what the log published: an alarm.
    #[error("the stored records of log {log} below seq {below} do not hash to its checkpoint of size {size}")]
    Differs {
        /// The log.
        log: LogId,
        /// Where it was to begin.
        below: u64,
        /// The size of the checkpoint.
        size: u64,
    },
    /// A row is gone and nothing tells its leaf.
    #[error("the leaf of log {log} at seq {seq} is not known")]
    Missing {
        /// The log.
        log: LogId,
        /// The place.
        seq: u64,
    },
}

/// Where a log begins now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PrunedTo {
    /// The log.
    pub log: LogId,
    /// Its records below are gone, or will be once the day that holds them may go.
    pub below_seq: u64,
}

/// What a turn came to.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pruned {
    /// Logs of which something was pruned, or a `prune` signed again.
    pub logs: Vec<PrunedTo>,
    /// Days (Postgres) or records (`SQLite`) that were dropped.
    pub dropped: u64,
    /// Logs that could not be pruned, and why.
    pub left: Vec<String>,
}

/// What pruning needs.
pub struct PruneParts {
    /// Writes the records that say so.
    pub recorder: Arc<Recorder>,
    /// The trees of all logs.
    pub view: Arc<TreeView>,
    /// The checkpoints of the own log.
    pub shown: Shown,
    /// Shipped records.
    pub records: Arc<dyn RecordStore>,
    /// Shipped trees.
    pub trees: Arc<dyn TreeStore>,
    /// Drops them.
    pub store: Arc<dyn PruneStore>,
    /// Who has to have the checkpoint over a `prune` before anything goes.
    pub anchors: Vec<Box<dyn Anchor>>,
    /// Whole days that records are kept beside today; at least 1.
    pub days: u32,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Is told what is wrong, or that nothing is.
    pub note: Box<dyn Fn(Option<String>) + Send + Sync>,
}

/// Drops records by age, one turn at a time.
pub struct Pruner {
    parts: PruneParts,
    alone: Mutex<()>,
}

impl std::fmt::Debug for Pruner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pruner").field("days", &self.parts.days).finish_non_exhaustive()
    }
}

/// What one log's `prune` is to say.
#[derive(Debug)]
struct Plan {
    below: u64,
    peaks: Vec<Hash>,
}

type Noted = BTreeMap<LogId, PrunedLog>;

impl Pruner {
    /// A pruner of these parts.
    pub fn new(parts: PruneParts) -> Self {
        Self { parts, alone: Mutex::new(()) }
    }

    /// A turn each hour until `stop`.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let [high, low, ..] = self.parts.recorder.log().id().as_uuid().into_bytes().map(u16::from);
        let between = EVERY + Duration::from_secs(((high << 8 | low) % SPREAD_S).into());
        if let Err(fault @ PruneFault::Kept { .. }) = self.permitted().await {
            self.tell(&Err(fault));
        }
        while tokio::time::timeout(between, stop.cancelled()).await.is_err() {
            self.turn().await.ok();
        }
    }

    fn tell(&self, outcome: &Result<Pruned, PruneFault>) {
        let said = match outcome {
            Ok(pruned) => Some(pruned.left.join("; ")).filter(|left| !left.is_empty()),
            Err(fault) => Some(fault.to_string()),
        };
        if let Some(fault) = &said {
            tracing::warn!(fault, "records that are old enough were not all dropped");
        }
        (self.parts.note)(said);
    }

    /// Drops what is old enough. Whoever asked may be gone meanwhile: it is done to its end.
    ///
    /// # Errors
    /// As [`PruneFault`] says; the next turn goes on.
    pub async fn turn(self: &Arc<Self>) -> Result<Pruned, PruneFault> {
        let own = Arc::clone(self);
        let turn = async move {
            let outcome = own.to_the_end().await;
            own.tell(&outcome);
            outcome
        };
        tokio::spawn(turn).await.expect("a turn does not panic")
    }

    /// Before anything is signed that could not be done.
    async fn permitted(&self) -> Result<(), PruneFault> {
        let wanted = self.parts.days;
        let kept = self.parts.store.retained(wanted).await?;
        if kept.is_some_and(|kept| kept <= wanted) { Ok(()) } else { Err(PruneFault::Kept { wanted, kept }) }
    }

    async fn to_the_end(&self) -> Result<Pruned, PruneFault> {
        let _alone = self.alone.lock().await;
        self.permitted().await?;
        let (mut all, mut go_on) = (Pruned::default(), true);
        while go_on {
            let step;
            (step, go_on) = self.step().await?;
            let newer = |old: &PrunedTo| !step.logs.iter().any(|new| new.log == old.log);
            all.logs.retain(newer);
            all.logs.extend(step.logs);
            all.dropped += step.dropped;
            all.left = step.left;
        }
        if all.dropped > 0 || !all.logs.is_empty() {
            tracing::info!(logs = all.logs.len(), dropped = all.dropped, "old records were dropped");
        }
        Ok(all)
    }

    /// One `prune` a log at most; whether there is more to do.
    async fn step(&self) -> Result<(Pruned, bool), PruneFault> {
        let noted: Noted = self.parts.store.pruned().await?.into_iter().map(|pruned| (pruned.log, pruned)).collect();
        let (mut plans, mut left, mut more) = (BTreeMap::new(), Vec::new(), false);
        for (log, (from, below)) in self.due(&noted).await? {
            match self.plan(log, from, below).await {
                Ok(plan) => {
                    more |= below - from == STEP;
                    plans.insert(log, plan);
                }
                Err(fault) => left.push(format!("log {log}: {fault}")),
            }
        }
        keep_said(&mut plans, &noted);
        let mut logs = Vec::new();
        for record in self.say(&plans).await? {
            self.parts.store.note_prune(&record).await?;
        }
        logs.extend(plans.into_iter().map(|(log, plan)| PrunedTo { log, below_seq: plan.below }));
        let dropped = self.parts.store.drop_pruned(self.parts.days).await?;
        Ok((Pruned { logs, dropped, left }, more))
    }

    /// The logs for which a `prune` is due: where they begin, and where they are to. They begin further on, or the record
    /// that says where is about to go itself.
    async fn due(&self, noted: &Noted) -> Result<BTreeMap<LogId, (u64, u64)>, PruneFault> {
        let mut wanted = BTreeMap::new();
        for row in self.parts.records.logs().await? {
            let from = noted.get(&row.log).map_or(0, |pruned| pruned.below_seq);
            let expired = self.parts.store.expired_below(row.log, from, self.parts.days, self.parts.clock.now_ms());
            let expired = expired.await?;
            let own = row.log == self.parts.recorder.log().id();
            let below = if expired < row.next_seq || own {
                let newest = self.view().newest_head(row.log).await?;
                expired.min(newest.map_or(0, |head| head.size))
            } else {
                expired
            };
            wanted.insert(row.log, (from, below.clamp(from, from.saturating_add(STEP))));
        }
        let is_due = |log: &LogId, (from, below): (u64, u64)| {
            let goes = |by: &(LogId, u64)| wanted.get(&by.0).is_some_and(|(_, below)| by.1 < *below);
            below > from || noted.get(log).is_some_and(|pruned| goes(&pruned.by))
        };
        Ok(wanted.iter().filter(|(log, place)| is_due(log, **place)).map(|(log, place)| (*log, *place)).collect())
    }

    /// The tree over the records below, stored down to its leaf hashes once it was compared with the log's newest checkpoint.
    async fn plan(&self, log: LogId, from: u64, below: u64) -> Result<Plan, PruneFault> {
        let newest = self.view().newest_head(log).await?;
        let differs = |head: TreeHead| PruneFault::Differs { log, below, size: head.size };
        let (mut tiles, mut full) = (self.resume(log, from).await?, Vec::new());
        if let Some(head) = newest.filter(|head| (from..below).contains(&head.size)) {
            self.grow(log, &mut tiles, head.size, &mut full).await?;
            if tiles.head() != head {
                return Err(differs(head));
            }
        }
        self.grow(log, &mut tiles, below, &mut full).await?;
        if let Some(head) = newest.filter(|head| head.size >= below)
            && !self.view().begins_with(log, tiles.head(), head).await?
        {
            return Err(differs(head));
        }
        full.extend(tiles.partial().map(|(tile, hashes)| (tile, hashes.as_flattened().to_vec())));
        for some in full.chunks(TILES) {
            self.parts.trees.put_tiles(log, some).await?;
        }
        Ok(Plan { below, peaks: tiles.peaks() })
    }

    /// The tree where a log begins, out of its tiles.
    async fn resume(&self, log: LogId, from: u64) -> Result<Tiles, PruneFault> {
        let mut edge = BTreeMap::new();
        for tile in Tile::partial(from) {
            edge.insert(tile, self.view().hashes(log, tile, from).await?.unwrap_or_default());
        }
        Tiles::resume(from, |tile| Ok(edge.remove(&tile).unwrap_or_default()))
    }

    async fn grow(
        &self,
        log: LogId,
        tiles: &mut Tiles,
        size: u64,
        full: &mut Vec<(Tile, Vec<u8>)>,
    ) -> Result<(), PruneFault> {
        while tiles.size() < size {
            for leaf in self.leaves(log, tiles.size(), size).await? {
                tiles.push(leaf, |tile, hashes| full.push((tile, hashes.as_flattened().to_vec())));
            }
        }
        Ok(())
    }

    /// Some of the leaf hashes `from..below`, at least one: of the rows; of a record that is missing, what its `gap` says or
    /// the own log's files.
    async fn leaves(&self, log: LogId, from: u64, below: u64) -> Result<Vec<Hash>, PruneFault> {
        let most = (below - from).min(PAGE);
        let mut leaves = self.parts.trees.leaf_hashes(log, from, u32::try_from(most).expect("a page")).await?;
        if leaves.is_empty() {
            let behind = self.parts.records.records(log, from, GAP_WITHIN).await?;
            leaves = behind.iter().find_map(|record| gap_leaves(record, from)).unwrap_or_default();
            leaves.truncate(usize::try_from(most).expect("a page"));
        }
        if leaves.is_empty() {
            let width = u16::try_from(from % 256 + 1).expect("at most 256");
            let read = self.view().hashes(log, Tile { level: 0, index: from / 256, width }, below).await?;
            leaves.extend(read.and_then(|hashes| hashes.last().copied()));
        }
        if leaves.is_empty() { Err(PruneFault::Missing { log, seq: from }) } else { Ok(leaves) }
    }

    /// Signs what is planned; returns once the database has it and a checkpoint over it is with every anchor.
    async fn say(&self, plans: &BTreeMap<LogId, Plan>) -> Result<Vec<Arc<Record>>, PruneFault> {
        let (recorder, mut said) = (&self.parts.recorder, Vec::with_capacity(plans.len()));
        for (log, Plan { below, peaks }) in plans {
            said.push(recorder.write_stored(&Draft::prune(&recorder.stamp(), *log, *below, peaks)).await?);
        }
        let Some(last) = said.iter().map(|record| record.seq).max() else { return Ok(said) };
        let published = self.covered(last).await?;
        for anchor in &self.parts.anchors {
            let put = tokio::time::timeout(ANCHORED, anchor.put(&published)).await;
            put.unwrap_or_else(|_| Err(AnchorFault(format!("no answer within {ANCHORED:?}"))))?;
        }
        Ok(said)
    }

    async fn covered(&self, seq: u64) -> Result<Arc<Published>, PruneFault> {
        let mut shown = self.parts.shown.clone();
        let covers = |shown: &Option<Arc<Published>>| shown.as_ref().is_some_and(|shown| shown.head.size > seq);
        let found = tokio::time::timeout(COVERED, shown.wait_for(covers)).await;
        found.ok().and_then(Result::ok).and_then(|shown| shown.clone()).ok_or(PruneFault::Uncovered)
    }

    const fn view(&self) -> &Arc<TreeView> {
        &self.parts.view
    }
}

/// Leaves out what would take a `prune` away that is not signed again.
fn keep_said(plans: &mut BTreeMap<LogId, Plan>, noted: &Noted) {
    loop {
        let lost = |log: &LogId, plan: &Plan| {
            let goes = |pruned: &&PrunedLog| pruned.by.0 == *log && pruned.by.1 < plan.below;
            noted.values().filter(goes).any(|pruned| !plans.contains_key(&pruned.log))
        };
        let Some(log) = plans.iter().find(|(log, plan)| lost(log, plan)).map(|(log, _)| *log) else { return };
        plans.remove(&log);
    }
}

#[cfg(test)]
#[path = "prune_tests.rs"]
mod tests;
