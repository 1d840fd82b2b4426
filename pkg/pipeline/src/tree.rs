//! What anyone may read of the trees: checkpoints, tiles, entries, and the proof that a record is among them. Of this
//! process's own log from its files, of other logs from the database.

use crate::checkpoint::Shown;
use crate::tree_files::{Hash, TreeFiles};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use signet_lineage::tlog::{FromTiles, Tile, TileFault, consistency, inclusion, proof_file, push_entry};
use signet_lineage::verify::{extends, includes};
use signet_lineage::{Leaf, Record, RecordStore, TreeHead, TreeStore};
use signet_spool::RecordLog;
use signet_types::LogId;
use std::sync::Arc;
use tokio::runtime::Handle;

/// What a view is made of.
pub struct TreeParts {
    /// The log of this process.
    pub log: Arc<dyn RecordLog>,
    /// Its checkpoints.
    pub shown: Shown,
    /// Its files; none for a log in memory.
    pub files: Option<Arc<TreeFiles>>,
    /// Shipped records.
    pub records: Arc<dyn RecordStore>,
    /// Shipped checkpoints and tiles.
    pub store: Arc<dyn TreeStore>,
    /// Gives the text of `/v1/lineage/keys`.
    pub keys: Box<dyn Fn() -> String + Send + Sync>,
    /// Where the database is asked.
    pub services: Handle,
}

/// The trees of all logs, for reading.
pub struct TreeView(TreeParts);

/// Why something cannot be read now; the text is for the log.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ViewFault(String);

impl From<TileFault> for ViewFault {
    fn from(fault: TileFault) -> Self {
        Self(fault.to_string())
    }
}

fn away(fault: impl std::fmt::Display) -> ViewFault {
    ViewFault(fault.to_string())
}

impl TreeView {
    /// A view of these parts.
    pub const fn new(parts: TreeParts) -> Self {
        Self(parts)
    }

    /// The public keys of this process: PEM of the keys that sign records or did so, and the verifier key of the one that
    /// signs checkpoints.
    pub fn keys(&self) -> String {
        (self.0.keys)()
    }

    /// The newest checkpoint of a log.
    ///
    /// # Errors
    /// The database is away.
    pub async fn checkpoint(&self, log: LogId) -> Result<Option<String>, ViewFault> {
        if log == self.0.log.id() {
            return Ok(self.0.shown.borrow().as_ref().map(|shown| shown.note.clone()));
        }
        self.0.store.newest_checkpoint(log).await.map_err(away)
    }

    /// The bytes of a tile; none if the newest checkpoint does not cover it.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn tile(self: &Arc<Self>, log: LogId, tile: Tile) -> Result<Option<Vec<u8>>, ViewFault> {
        let Some(head) = self.head_over(log, tile).await? else { return Ok(None) };
        Ok(self.hashes(log, tile, head.size).await?.map(|hashes| hashes.as_flattened().to_vec()))
    }

    /// A bundle of entries: each leaf behind its length. The entry of a record that was lost before any head covered it is
    /// empty. `tile` is the tile of level 0 over the same leaves.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn entries(self: &Arc<Self>, log: LogId, tile: Tile) -> Result<Option<Vec<u8>>, ViewFault> {
        let Some(head) = self.head_over(log, tile).await? else { return Ok(None) };
        let Some(hashes) = self.hashes(log, tile, head.size).await? else { return Ok(None) };
        let mut leaves = self.leaves(log, tile).await?.into_iter().peekable();
        let mut bundle = Vec::with_capacity(hashes.len() * (Leaf::LEN + 2));
        for (seq, hash) in tile.leaves().zip(&hashes) {
            match leaves.next_if(|leaf| leaf.seq() == seq) {
                Some(leaf) if leaf.hash() == *hash => push_entry(&mut bundle, leaf.as_bytes()),
                None if *hash == empty_entry() => push_entry(&mut bundle, &[]),
                _ => return Ok(None),
            }
        }
        Ok(Some(bundle))
    }

    /// The proof that a record is in its log's tree (C2SP tlog-proof), with the newest checkpoint; none while none covers
    /// it. It is checked before it is given away.
    pub async fn proof(self: &Arc<Self>, record: &Record) -> Option<String> {
        match self.prove(record).await {
            Ok(proof) => proof,
            Err(fault) => {
                tracing::warn!(%fault, log = %record.log, seq = record.seq, "a proof cannot be made");
                None
            }
        }
    }

    async fn prove(self: &Arc<Self>, record: &Record) -> Result<Option<String>, ViewFault> {
        let (log, seq) = (record.log, record.seq);
        let Some(note) = self.checkpoint(log).await? else { return Ok(None) };
        let head = head_of(&note).ok_or_else(|| away("a checkpoint without a head"))?;
        if seq >= head.size {
            return Ok(None);
        }
        // The tree of this checkpoint, whatever was signed meanwhile.
        let mut tiles = FromTiles::new(head.size, self.reader(log, head.size));
        let work = move || inclusion(&mut tiles, seq, head.size);
        let path = tokio::task::spawn_blocking(work).await.map_err(away)??;
        let leaf = Leaf::of(record);
        if !includes(&head.root, head.size, seq, &leaf.hash(), &path) {
            return Err(away("the tiles do not lead from the record to the checkpoint"));
        }
        Ok(Some(proof_file(seq, leaf.as_bytes(), &path, &note)))
    }

    /// Reads the tiles of the tree of `size` leaves; for threads that may wait.
    fn reader(self: &Arc<Self>, log: LogId, size: u64) -> impl FnMut(Tile) -> Result<Vec<Hash>, ViewFault> + use<> {
        let (view, services) = (Arc::clone(self), self.0.services.clone());
        move |tile| services.block_on(view.hashes(log, tile, size))?.ok_or_else(|| away("a tile is gone"))
    }

    /// What the newest checkpoint of a log says.
    pub(crate) async fn newest_head(&self, log: LogId) -> Result<Option<TreeHead>, ViewFault> {
        Ok(self.checkpoint(log).await?.as_deref().and_then(head_of))
    }

    /// Whether the tree of the checkpoint `head`, which is not the smaller one, begins with `old`.
    pub(crate) async fn begins_with(
        self: &Arc<Self>,
        log: LogId,
        old: TreeHead,
        head: TreeHead,
    ) -> Result<bool, ViewFault> {
        let mut tiles = FromTiles::new(head.size, self.reader(log, head.size));
        let work = move || consistency(&mut tiles, old.size, head.size);
        let path = tokio::task::spawn_blocking(work).await.map_err(away)??;
        Ok(extends(old.size, &old.root, head.size, &head.root, &path))
    }

    /// The head of the newest checkpoint, if its tree has all of the tile.
    async fn head_over(&self, log: LogId, tile: Tile) -> Result<Option<TreeHead>, ViewFault> {
        let head = self.newest_head(log).await?;
        let end = |tile: Tile| tile.index.checked_mul(256)?.checked_add(u64::from(tile.width));
        let width = |head: &TreeHead| head.size.checked_shr(8 * u32::from(tile.level)).unwrap_or(0);
        Ok(head.filter(|head| end(tile).is_some_and(|end| end <= width(head))))
    }

    /// The hashes of a tile that the tree of `size` leaves has.
    pub(crate) async fn hashes(&self, log: LogId, tile: Tile, size: u64) -> Result<Option<Vec<Hash>>, ViewFault> {
        let files = self.0.files.as_ref().filter(|_| log == self.0.log.id());
        // A checkpoint signed since has other partial tiles, which hold these hashes too; one signed while they are looked
        // for may take them away once more.
        for files in files.into_iter().chain(files) {
            let newest = self.0.shown.borrow().as_ref().map_or(size, |shown| shown.head.size);
            let files = files.clone();
            let read = tokio::task::spawn_blocking(move || files.hashes(tile, newest)).await;
            if let Some(found) = read.map_err(away)?.map_err(away)? {
                return Ok(Some(found));
            }
        }
        let width = usize::from(tile.width);
        let mut hashes = if tile.level == 0 {
            let asked = self.0.store.leaf_hashes(log, tile.leaves().start, u32::from(tile.width));
            asked.await.map_err(away)?
        } else {
            let bytes = self.0.store.tile(log, tile.level, tile.index).await.map_err(away)?.unwrap_or_default();
            bytes.as_chunks::<32>().0.to_vec()
        };
        hashes.truncate(width);
        Ok(Some(hashes).filter(|hashes| hashes.len() == width))
    }

    /// The leaves of a bundle that can be told, in order.
    async fn leaves(&self, log: LogId, tile: Tile) -> Result<Vec<Leaf>, ViewFault> {
        let span = tile.leaves();
        if log == self.0.log.id() && self.0.log.holds_from() <= span.start {
            let (writer, mut next) = (self.0.log.clone(), span.start);
            let read = move || {
                let mut found = Vec::new();
                while next < span.end {
                    let batch = writer.read_from(next, 256, usize::MAX).map_err(away)?;
                    let Some(last) = batch.last() else { break };
                    next = last.seq + 1;
                    found.extend(batch.iter().filter(|record| record.seq < span.end).map(|record| Leaf::of(record)));
                }
                Ok(found)
            };
            return tokio::task::spawn_blocking(read).await.map_err(away)?;
        }
        let mut found = self.0.records.leaves(log, span.start, u32::from(tile.width)).await.map_err(away)?;
        found.retain(|leaf| leaf.seq() < span.end);
        Ok(found)
    }
}

/// The head in a checkpoint that was checked before.
fn head_of(note: &str) -> Option<TreeHead> {
    let mut lines = note.lines().skip(1);
    let size = lines.next()?.parse().ok()?;
    let root = STANDARD.decode(lines.next()?).ok()?.try_into().ok()?;
    Some(TreeHead { size, root })
}

/// `SHA-256(0x00)`: the leaf hash of the empty entry.
fn empty_entry() -> Hash {
    use sha2::{Digest, Sha256};
    Sha256::digest([0]).into()
}
