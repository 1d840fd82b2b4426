//! Takes keyrings that offline roots signed, wherever they turn up: in the database that all replicas share, and in a file.
//!
//! Both are looked at every second, so that a revocation is known everywhere within seconds; a database that hangs delays
//! the next look by [`ASK`] and no more. Neither place is believed: the roots' signatures are checked here, and a version
//! below the one in force is refused, also after a restart, since the one that was taken is kept.

use parking_lot::RwLock;
use signet_lineage::verify::{KeyVerdict, Keyring, KeyringFault, RootPolicy};
use signet_lineage::{KeyUse, KeyringStore, PublicKey, ShipFault};
use signet_types::LogId;
use std::fmt::{self, Debug, Formatter};
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);
/// Longest wait for the database.
const ASK: Duration = Duration::from_secs(5);
/// Keyrings read from the database at once. A row that is none of ours must not hide one that is.
const ROWS: u32 = 16;
/// No keyring is larger.
const FILE_MAX: u64 = 1 << 20;

/// Why a keyring was not taken. The fault is with whoever put it where it was found.
#[derive(Debug, thiserror::Error)]
pub enum RingFault {
    /// It proves nothing.
    #[error(transparent)]
    Keyring(#[from] KeyringFault),
    /// A later one is in force.
    #[error("version {found} is older than version {held}, which is in force")]
    Older {
        /// Of the one that was refused.
        found: u64,
        /// Of the one in force.
        held: u64,
    },
    /// Enough roots signed two keyrings of one version.
    #[error("another keyring of version {version} is in force")]
    Other {
        /// The version.
        version: u64,
    },
    /// It is in force, but a restart would not know it.
    #[error("the keyring is in force but cannot be kept for the next start: {0}")]
    Kept(io::Error),
    /// The file could not be read.
    #[error("the keyring file: {0}")]
    File(io::Error),
    /// The database is away.
    #[error(transparent)]
    Store(#[from] ShipFault),
}

/// Writes bytes where the next start finds them.
pub type Keep = Box<dyn Fn(&[u8]) -> io::Result<()> + Send + Sync>;

/// What taking keyrings needs.
pub struct RingParts {
    /// Who must have signed.
    pub roots: RootPolicy,
    /// The database.
    pub store: Arc<dyn KeyringStore>,
    /// A file to look at too.
    pub file: Option<PathBuf>,
    /// Keeps the one in force for the next start.
    pub keep: Keep,
}

/// The keyring in force.
pub struct Ring {
    parts: RingParts,
    held: RwLock<Option<Arc<Keyring>>>,
}

impl Debug for Ring {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("held", &self.held.read()).finish_non_exhaustive()
    }
}

/// What the keyring says of a key that signs now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It counts.
    Good,
    /// It signs, but what it signs will not count everywhere, or not for long.
    Doubtful(String),
    /// What it signs counts nowhere.
    Void(String),
}

impl Ring {
    /// With the keyring that an earlier process kept, if there is one.
    ///
    /// # Errors
    /// What was kept is not signed by these roots.
    pub fn new(parts: RingParts, kept: Option<&[u8]>) -> Result<Self, KeyringFault> {
        let held = kept.map(|kept| Keyring::open(kept, &parts.roots)).transpose()?;
        Ok(Self { parts, held: RwLock::new(held.map(Arc::new)) })
    }

    /// The keyring in force.
    pub fn held(&self) -> Option<Arc<Keyring>> {
        self.held.read().clone()
    }

    /// Gives a keyring to every replica, this one first. Returns its version.
    ///
    /// # Errors
    /// Why it was not taken, or that the others do not get it.
    pub async fn publish(&self, envelope: &[u8]) -> Result<u64, RingFault> {
        let version = Keyring::open(envelope, &self.parts.roots)?.version;
        self.take(envelope)?;
        // One that is there already is not replaced: it may be this one.
        let published = tokio::time::timeout(ASK, self.parts.store.publish(version, envelope)).await;
        published.map_err(|_| late())??;
        Ok(version)
    }

    /// Looks until `stop`; behind each look `then` gets the faults that were met. A database that is away is none of them:
    /// that is noticed elsewhere.
    pub async fn run(self: Arc<Self>, stop: CancellationToken, then: impl Fn(&[RingFault]) + Send) {
        loop {
            then(&self.look().await);
            if tokio::time::timeout(EVERY, stop.cancelled()).await.is_ok() {
                return;
            }
        }
    }

    async fn look(&self) -> Vec<RingFault> {
        let mut faults = Vec::new();
        // At once, whatever the database does.
        match self.read_file().await {
            Ok(found) => faults.extend(found.and_then(|bytes| self.take(&bytes).err())),
            Err(error) => faults.push(RingFault::File(error)),
        }
        match tokio::time::timeout(ASK, self.parts.store.keyrings(self.version(), ROWS)).await {
            // The highest that proves itself is taken; those below it have been.
            Ok(Ok(rows)) => {
                for row in rows {
                    match self.take(&row) {
                        Ok(()) => break,
                        Err(fault) => faults.push(fault),
                    }
                }
            }
            Ok(Err(fault)) => tracing::debug!(%fault, "the keyrings in the database cannot be read"),
            Err(_) => tracing::debug!("the database does not give its keyrings in time"),
        }
        faults
    }

    fn version(&self) -> u64 {
        self.held.read().as_ref().map_or(0, |held| held.version)
    }

    async fn read_file(&self) -> io::Result<Option<Vec<u8>>> {
        let Some(path) = self.parts.file.clone() else { return Ok(None) };
        let read = move || {
            let mut bytes = Vec::new();
            match File::open(&path) {
                Ok(file) => file.take(FILE_MAX + 1).read_to_end(&mut bytes).map(|_| Some(bytes)),
                // It may still be to come.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            }
        };
        tokio::task::spawn_blocking(read).await.map_err(io::Error::other)?
    }

    /// Takes a keyring that is newer than the one in force.
    fn take(&self, envelope: &[u8]) -> Result<(), RingFault> {
        let ring = Keyring::open(envelope, &self.parts.roots)?;
        let mut held = self.held.write();
        match held.as_deref() {
            Some(held) if *held == ring => return Ok(()),
            Some(held) if held.version > ring.version => {
                return Err(RingFault::Older { found: ring.version, held: held.version });
            }
            Some(held) if held.version == ring.version => return Err(RingFault::Other { version: ring.version }),
            _ => {}
        }
        tracing::info!(version = ring.version, entries = ring.entries.len(), "another keyring is in force");
        *held = Some(Arc::new(ring));
        drop(held);
        (self.parts.keep)(envelope).map_err(RingFault::Kept)
    }

    /// What the keyring in force says of `key` in `log`, where `at` is the place that it would sign next. A revoked key is
    /// void at any place: what it signs below could be anybody's.
    pub fn standing(&self, log: LogId, key_use: KeyUse, key: &PublicKey, at: u64) -> Standing {
        let Some(held) = self.held() else { return Standing::Good };
        let (id, version) = (key.key_id(), held.version);
        let (what, text) = (key_use.as_str(), key.key_id_text());
        let last = held.judge(log, key_use, &id, u64::MAX);
        match (last, held.judge(log, key_use, &id, at)) {
            (KeyVerdict::Revoked, _) | (_, KeyVerdict::Revoked) => {
                Standing::Void(format!("keyring version {version} revokes the {what} key {text}"))
            }
            (_, KeyVerdict::Retired) => {
                Standing::Void(format!("keyring version {version} retires the {what} key {text} before place {at}"))
            }
            (_, KeyVerdict::Unknown) => Standing::Doubtful(format!(
                "keyring version {version} does not name the {what} key {text} at place {at}"
            )),
            (KeyVerdict::Retired, KeyVerdict::Good) => Standing::Doubtful(format!(
                "keyring version {version} retires the {what} key {text}, which is still in force: rotate before that place"
            )),
            (_, KeyVerdict::Good) => Standing::Good,
        }
    }

    /// The lines of a file of pinned keys by which others know what is revoked in `log`.
    pub fn pinned_text(&self, log: LogId) -> String {
        let Some(held) = self.held() else { return String::new() };
        let ours = held.entries.iter().filter(|entry| entry.log.is_none_or(|other| other == log));
        let line = |(key, good): (PublicKey, u64)| format!("revoked {} {log} {good}\n", key.key_id_text());
        let lines: String = ours.filter_map(|entry| Some((entry.key, entry.revoked?))).map(line).collect();
        format!("# keyring version {}\n{lines}", held.version)
    }
}

fn late() -> ShipFault {
    ShipFault::Unavailable("the database did not answer in time; the keyring is in force here only".to_owned())
}

#[cfg(test)]
#[path = "keyring_tests.rs"]
mod tests;
