//! The data folder: one process at a time, private files.

use super::Stop;
use anyhow::{Context, anyhow};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

const LOCK_RETRY: Duration = Duration::from_millis(50);

/// The folder's lock; released when dropped or when the process dies.
pub(crate) struct FolderLock(#[expect(dead_code, reason = "held, never read")] File);

/// Makes the folder if need be and takes its lock, waiting up to `wait` for a predecessor that is still ending.
pub(crate) fn take(folder: &Path, wait: Duration) -> Result<FolderLock, Stop> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("making the data folder {}", folder.display()))?;
    let path = folder.join("LOCK");
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let file = file.with_context(|| format!("opening {}", path.display()))?;
    let started = Instant::now();
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(FolderLock(file)),
            Err(rustix::io::Errno::WOULDBLOCK) if started.elapsed() < wait => std::thread::sleep(LOCK_RETRY),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let cause = anyhow!("another process uses the data folder {} (waited {wait:?})", folder.display());
                return Err(Stop::locked(cause));
            }
            Err(error) => return Err(anyhow!(error).context(format!("locking {}", path.display())).into()),
        }
    }
}

/// Reads a private file, or writes what `make` gives: whole or not at all, readable by the owner only.
pub(crate) fn read_or_make(path: &Path, make: impl FnOnce() -> Vec<u8>) -> anyhow::Result<Vec<u8>> {
    match fs::read(path) {
        Ok(bytes) => Ok(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let bytes = make();
            write_private(path, &bytes)?;
            Ok(bytes)
        }
        Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
    }
}

/// Writes where this process listens to `listen` in the data folder, for scripts that let the system choose ports.
pub(crate) fn publish(folder: &Path, public: SocketAddr, private: SocketAddr) -> anyhow::Result<()> {
    write_private(&folder.join("listen"), format!("server={public}\nadmin={private}\n").as_bytes())
}

/// Replaces a private file in one step.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let scratch = path.with_extension("new");
    let write = || -> std::io::Result<()> {
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&scratch)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&scratch, path)?;
        File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
    };
    write().with_context(|| format!("writing {}", path.display()))
}
