//! A new key takes over from the one that signs records, or checkpoints, while answers go on.
//!
//! The order is such that no kill leaves a log without its key: 1. the new key is kept beside the old one 2. the rotation is
//! written, and is on the disk 3. the new key takes the old one's place. A start looks which of both the log names.

use crate::fault::Fault;
use crate::recorder::Recorder;
use crate::signing::CheckpointKeys;
use signet_lineage::{KeyUse, PublicKey, Record, Signer};
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::sync::Arc;
use tokio::sync::Mutex;

/// Where the key of this process is kept.
pub trait KeyPlace: Send + Sync + 'static {
    /// Keeps `new` durably beside `in_force`, which must be in its place by then.
    ///
    /// # Errors
    /// It cannot be kept there.
    fn keep(&self, new: &Signer, in_force: &PublicKey) -> io::Result<()>;
    /// Puts the key that was kept in the place of the old one, which stays under another name.
    ///
    /// # Errors
    /// The old one is still in its place.
    fn install(&self) -> io::Result<()>;
}

/// Why no key took over, or not everywhere.
#[derive(Debug, thiserror::Error)]
pub enum RotateFault {
    /// The old key could not sign the rotation either.
    #[error("the key in force no longer counts, so it cannot name another: a new log has to begin with a new key")]
    Void,
    /// Nothing was signed.
    #[error("the new key cannot be kept, so the old one goes on: {0}")]
    Kept(io::Error),
    /// The log took no rotation, or it is not known to be on the disk.
    #[error("the rotation is not known to be in the log: {0}")]
    Log(#[from] Fault),
    /// The new key signs; a start will put it in its place.
    #[error("the new key signs, but its file is not in its place yet; the next start puts it there: {0}")]
    Installed(io::Error),
}

/// A rotation that was written.
#[derive(Debug)]
pub struct Rotated {
    /// What the keys sign.
    pub key_use: KeyUse,
    /// The record.
    pub record: Arc<Record>,
    /// The key before. If it signs records it signs this one too.
    pub old: PublicKey,
    /// The key from here on.
    pub key: PublicKey,
    /// The name under which it signs checkpoints.
    pub log_name: String,
}

/// Rotates the keys of a log, one rotation at a time.
pub struct Rotation {
    recorder: Arc<Recorder>,
    attest: Box<dyn KeyPlace>,
    checkpoints: (Arc<CheckpointKeys>, Box<dyn KeyPlace>),
    alone: Mutex<()>,
}

impl Debug for Rotation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rotation").finish_non_exhaustive()
    }
}

impl Rotation {
    /// For a log that signs in the order of its seqs, which one in memory does not. `attest` is where the key of records is,
    /// beside `checkpoints` that of those.
    pub fn new(
        recorder: Arc<Recorder>,
        attest: Box<dyn KeyPlace>,
        checkpoints: (Arc<CheckpointKeys>, Box<dyn KeyPlace>),
    ) -> Self {
        Self { recorder, attest, checkpoints, alone: Mutex::new(()) }
    }

    /// Makes a key and lets it take over. Whoever asked may be gone meanwhile: it is done to its end.
    ///
    /// # Errors
    /// As [`RotateFault`] says.
    pub async fn rotate(self: &Arc<Self>, key_use: KeyUse) -> Result<Rotated, RotateFault> {
        let own = Arc::clone(self);
        tokio::spawn(async move { own.turn(key_use).await }).await.expect("a rotation does not panic")
    }

    async fn turn(&self, key_use: KeyUse) -> Result<Rotated, RotateFault> {
        let _alone = self.alone.lock().await;
        if self.recorder.is_halted() {
            return Err(RotateFault::Void);
        }
        let (notes, note_place) = &self.checkpoints;
        let (place, old) = match key_use {
            KeyUse::Attest => (&self.attest, self.recorder.attest_key()),
            KeyUse::Checkpoint => (note_place, notes.newest()),
        };
        let new = Arc::new(Signer::generate());
        let key = new.public_key();
        place.keep(&new, &old).map_err(RotateFault::Kept)?;
        let record = match key_use {
            KeyUse::Attest => self.recorder.rotate(key_use, old, &new),
            KeyUse::Checkpoint => {
                notes.hold();
                let written = self.recorder.rotate(key_use, old, &new);
                notes.settle(written.as_ref().ok().map(|record| (record.seq, new)));
                written
            }
        }?;
        // Else a start after a power cut could find a key that no record names.
        self.recorder.synced().await?;
        place.install().map_err(RotateFault::Installed)?;
        tracing::info!(seq = record.seq, signs = key_use.as_str(), "another key is in force");
        let log_name = format!("{}/{}", self.recorder.voice().origin, record.log);
        Ok(Rotated { key_use, record, old, key, log_name })
    }
}
