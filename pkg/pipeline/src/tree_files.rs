//! What a log publishes of its tree, as files in its folder: `checkpoint`, and `tile/<level>/<index>` (C2SP tlog-tiles).
//!
//! A file gets its name once it is whole and on the disk. Full tiles never change; partial ones are kept for the checkpoint
//! that is there, and go when the next one is.

use parking_lot::Mutex;
use signet_lineage::tlog::{NoteKey, TILE_WIDTH, Tile};
use signet_lineage::verify::{NoteFault, checkpoint};
use signet_lineage::{PublicKey, TreeHead};
use signet_spool::Files;
use signet_types::LogId;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

pub(crate) type Hash = [u8; 32];

const CHECKPOINT: &str = "checkpoint";

/// The files of one log's tree.
#[derive(Debug)]
pub struct TreeFiles {
    files: Arc<dyn Files>,
    dirs: Mutex<Dirs>,
}

#[derive(Debug, Default)]
struct Dirs {
    /// Known to be there.
    made: BTreeSet<String>,
    /// Changed, and not synced since.
    changed: BTreeSet<String>,
}

/// Why the checkpoint in a folder cannot be gone on from.
#[derive(Debug, thiserror::Error)]
pub enum PersistedFault {
    /// It was written whole, so someone changed it, or the disk did.
    #[error("the checkpoint in the log's folder is damaged: {0}")]
    Damaged(NoteFault),
    /// Another key signed it.
    #[error("the checkpoint in the log's folder was signed by another key than the checkpoint key at hand")]
    Foreign,
    /// It could not be read.
    #[error("reading the checkpoint in the log's folder: {0}")]
    Io(#[from] io::Error),
}

impl TreeFiles {
    /// Over the folder of a log.
    pub fn new(files: Arc<dyn Files>) -> Self {
        Self { files, dirs: Mutex::default() }
    }

    /// The checkpoint of `log` that was signed last, if there is any; its signature is checked. What stands there of
    /// another log was left behind when that one was moved aside, and counts for nothing.
    ///
    /// # Errors
    /// It is not one that one of `keys` signed.
    pub fn persisted(&self, log: LogId, keys: &[PublicKey]) -> Result<Option<(TreeHead, String)>, PersistedFault> {
        let Some(bytes) = self.read(CHECKPOINT)? else { return Ok(None) };
        let damaged = |what| PersistedFault::Damaged(NoteFault::Form(what));
        let note = String::from_utf8(bytes).map_err(|_| damaged("it is not text"))?;
        let origin = note.lines().next().unwrap_or_default();
        let names: Option<Vec<_>> = keys.iter().map(|key| NoteKey::new(origin, *key)).collect();
        let names = names.ok_or(damaged("its first line names no log"))?;
        if origin.rsplit_once('/').is_some_and(|(_, id)| id.parse::<LogId>().is_ok_and(|other| other != log)) {
            return Ok(None);
        }
        match checkpoint(&note, &names) {
            Ok(checked) => Ok(Some((checked.head, note))),
            Err(NoteFault::Unsigned) => Err(PersistedFault::Foreign),
            Err(fault) => Err(PersistedFault::Damaged(fault)),
        }
    }

    /// Keeps a checkpoint in place of the one before.
    pub(crate) fn put_checkpoint(&self, note: &str) -> io::Result<()> {
        self.write(CHECKPOINT, note.as_bytes())?;
        self.settle()
    }

    /// Makes durable that the checkpoint that is there has its name.
    pub(crate) fn confirm(&self) -> io::Result<()> {
        self.files.sync_dir("")
    }

    /// Writes a tile; its name is durable after [`TreeFiles::settle`].
    pub(crate) fn put(&self, tile: Tile, hashes: &[Hash]) -> io::Result<()> {
        self.write(&tile.to_string(), hashes.as_flattened())
    }

    /// Makes names durable.
    pub(crate) fn settle(&self) -> io::Result<()> {
        let changed = std::mem::take(&mut self.dirs.lock().changed);
        let done = changed.iter().try_for_each(|dir| self.files.sync_dir(dir));
        if done.is_err() {
            self.dirs.lock().made.clear();
        }
        done
    }

    /// Removes the partial tiles of the tree of `old` leaves that the one of `size` leaves has not. What cannot be removed
    /// stays and harms nobody.
    pub(crate) fn drop_partial(&self, old: u64, size: u64) {
        let kept: Vec<Tile> = Tile::partial(size).collect();
        for tile in Tile::partial(old).filter(|tile| !kept.contains(tile)) {
            let name = tile.to_string();
            drop(self.files.unlink(&name));
            let in_use = kept.iter().any(|other| (other.level, other.index) == (tile.level, tile.index));
            if let (false, Some((dir, _))) = (in_use, name.rsplit_once('/')) {
                self.dirs.lock().made.remove(dir);
                drop(self.files.remove_dir(dir));
            }
        }
    }

    /// The hashes of a tile of a tree that has at least its leaves; none if no file holds them all. `size` is that of the
    /// checkpoint that is there: a tile that was partial may be wider by now.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn hashes(&self, tile: Tile, size: u64) -> io::Result<Option<Vec<Hash>>> {
        let whole = Tile { width: 256, ..tile };
        let edge = Tile::partial(size).find(|edge| (edge.level, edge.index) == (tile.level, tile.index));
        for candidate in [Some(tile), Some(whole), edge].into_iter().flatten() {
            let Some(bytes) = self.read(&candidate.to_string())? else { continue };
            let (hashes, rest) = bytes.as_chunks::<32>();
            if rest.is_empty() && hashes.len() >= usize::from(tile.width) && hashes.len() <= TILE_WIDTH {
                return Ok(Some(hashes[..usize::from(tile.width)].to_vec()));
            }
        }
        Ok(None)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let dir = name.rsplit_once('/').map_or("", |(dir, _)| dir);
        self.make(dir)?;
        let temporary = format!("{name}.tmp");
        let file = self.files.create(&temporary)?;
        file.write_at(bytes, 0)?;
        file.sync()?;
        self.files.rename(&temporary, name)?;
        self.dirs.lock().changed.insert(dir.to_owned());
        Ok(())
    }

    fn make(&self, dir: &str) -> io::Result<()> {
        if dir.is_empty() || self.dirs.lock().made.contains(dir) {
            return Ok(());
        }
        self.files.make_dir(dir)?;
        let mut dirs = self.dirs.lock();
        let mut above = dir;
        while !above.is_empty() {
            above = above.rsplit_once('/').map_or("", |(above, _)| above);
            dirs.changed.insert(above.to_owned());
        }
        dirs.made.insert(dir.to_owned());
        Ok(())
    }

    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let file = match self.files.open(name) {
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(None),
            other => other?,
        };
        // A tile has 8 KiB, a note far less; nothing else is read here.
        let (mut bytes, mut done) = (vec![0; 64 << 10], 0);
        while done < bytes.len() {
            match file.read_at(&mut bytes[done..], done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        bytes.truncate(done);
        Ok(Some(bytes))
    }
}
