//! A new key takes over from the one that signs records, while answers go on.
//!
//! The order is such that no kill leaves a log without its key: 1. the new key is kept beside the old one 2. the rotation is
//! written, and is on the disk 3. the new key takes the old one's place. A start looks which of both the log names.

use crate::fault::Fault;
use crate::recorder::Recorder;
use signet_lineage::{PublicKey, Record, Signer};
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
    /// The record.
    pub record: Arc<Record>,
    /// The key that signs it and what is before it.
    pub old: PublicKey,
    /// The key that signs behind it.
    pub key: PublicKey,
}

/// Rotates the key that signs records, one rotation at a time.
pub struct Rotation {
    recorder: Arc<Recorder>,
    place: Box<dyn KeyPlace>,
    alone: Mutex<()>,
}

impl Debug for Rotation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rotation").finish_non_exhaustive()
    }
}

impl Rotation {
    /// For a log that signs in the order of its seqs, which one in memory does not.
    pub fn new(recorder: Arc<Recorder>, place: Box<dyn KeyPlace>) -> Self {
        Self { recorder, place, alone: Mutex::new(()) }
    }

    /// Makes a key and lets it take over. Whoever asked may be gone meanwhile: it is done to its end.
    ///
    /// # Errors
    /// As [`RotateFault`] says.
    pub async fn rotate(self: &Arc<Self>) -> Result<Rotated, RotateFault> {
        let own = Arc::clone(self);
        tokio::spawn(async move { own.turn().await }).await.expect("a rotation does not panic")
    }

    async fn turn(&self) -> Result<Rotated, RotateFault> {
        let _alone = self.alone.lock().await;
        if self.recorder.is_halted() {
            return Err(RotateFault::Void);
        }
        let new = Signer::generate();
        let (old, key) = (self.recorder.attest_key(), new.public_key());
        self.place.keep(&new, &old).map_err(RotateFault::Kept)?;
        let record = self.recorder.rotate(new).await?;
        self.place.install().map_err(RotateFault::Installed)?;
        tracing::info!(seq = record.seq, "another key signs the records behind");
        Ok(Rotated { record, old, key })
    }
}
