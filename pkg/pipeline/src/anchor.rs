//! Takes checkpoints to where the log's operator cannot take them back: a file on other storage, an endpoint of someone
//! else, the database that replicas share.
//!
//! An anchor that is away costs nothing but its own age. Each has a task of its own and always gets the newest checkpoint:
//! one pins everything before it. Giving one twice is harmless, so a try of unknown outcome is repeated.

use crate::checkpoint::{Published, Shown};
use crate::tree_files::TreeFiles;
use async_trait::async_trait;
use bytes::Bytes;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use http::uri::PathAndQuery;
use signet_lineage::tlog::{Tile, anchored};
use signet_lineage::{TreeFault, TreeStore};
use signet_provider::{HttpProvider, Provider, RequestHeaders};
use signet_spool::{Mark, RecordLog};
use signet_telemetry::Metrics;
use signet_types::Clock;
use std::fs::{File, OpenOptions};
use std::future::poll_fn;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long one try may take.
const TRY: Duration = Duration::from_secs(10);
const BACKOFF: [Duration; 6] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
];
/// How often an anchor's age is told.
const BEAT: Duration = Duration::from_secs(1);

/// Why a checkpoint is not anchored. The text is for the log; it holds no credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AnchorFault(pub String);

/// Somewhere to take checkpoints.
///
/// A witness would be one that answers with a signature line of its own (C2SP tlog-witness, tlog-cosignature): its `put`
/// would ask for the size that the witness has, give the consistency proof from there, and hand the line on to where
/// checkpoints are shown.
#[async_trait]
pub trait Anchor: Send + Sync + 'static {
    /// Its name in metrics and faults.
    fn name(&self) -> &str;
    /// Keeps a checkpoint for good. Keeping it twice is no fault.
    ///
    /// # Errors
    /// It is not known to be kept.
    async fn put(&self, checkpoint: &Published) -> Result<(), AnchorFault>;
}

/// A file that is only appended to, in the form of [`signet_lineage::tlog::notes_in`].
#[derive(Debug)]
pub struct FileAnchor {
    name: String,
    path: PathBuf,
    /// The last write may not be on the disk, whatever the file shows.
    unsure: Arc<AtomicBool>,
}

impl FileAnchor {
    /// The file at `path`, which need not exist; its folder must.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { name: path.display().to_string(), path, unsure: Arc::default() }
    }
}

#[async_trait]
impl Anchor for FileAnchor {
    fn name(&self) -> &str {
        &self.name
    }

    async fn put(&self, checkpoint: &Published) -> Result<(), AnchorFault> {
        let (path, note, unsure) = (self.path.clone(), checkpoint.note.clone(), self.unsure.clone());
        let write = move || {
            // Set until all is well: after a failed fsync the pages may be gone although they can be read.
            let again = unsure.swap(true, Ordering::Relaxed);
            append(&path, &note, again)?;
            unsure.store(false, Ordering::Relaxed);
            Ok::<_, io::Error>(())
        };
        let done = tokio::task::spawn_blocking(write).await;
        done.map_err(|error| AnchorFault(error.to_string()))?.map_err(|error| AnchorFault(error.to_string()))
    }
}

/// Appends a note unless it is the last one there. A fragment at the end is closed off by an empty line.
fn append(path: &Path, note: &str, again: bool) -> io::Result<()> {
    let fresh = !path.exists();
    let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    let entry = anchored(note);
    let end = tail(&mut file, entry.len())?;
    if again || end != entry.as_bytes() {
        let whole = end.is_empty() || end.ends_with(b"\n\n");
        file.write_all(format!("{}{entry}", if whole { "" } else { "\n\n" }).as_bytes())?;
    }
    file.sync_all()?;
    if fresh {
        File::open(path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

fn tail(file: &mut File, most: usize) -> io::Result<Vec<u8>> {
    let len = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(len.saturating_sub(most as u64)))?;
    let mut end = Vec::with_capacity(most);
    file.read_to_end(&mut end)?;
    Ok(end)
}

/// An endpoint that gets each note as the body of a POST and keeps it before it answers with a status below 300.
pub struct HttpAnchor {
    provider: Arc<HttpProvider>,
    path: PathAndQuery,
}

impl HttpAnchor {
    /// At `path` of the server that `provider` reaches with its own credential.
    pub fn new(provider: Arc<HttpProvider>, path: PathAndQuery) -> Self {
        Self { provider, path }
    }
}

#[async_trait]
impl Anchor for HttpAnchor {
    fn name(&self) -> &str {
        self.provider.name().as_str()
    }

    async fn put(&self, checkpoint: &Published) -> Result<(), AnchorFault> {
        let mut headers = RequestHeaders::default();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        let note = Bytes::from(checkpoint.note.clone());
        let reply = self.provider.post(&self.path, &headers, note, Some(Instant::now() + TRY)).await;
        let reply = reply.map_err(|error| AnchorFault(error.to_string()))?;
        if reply.status.is_success() { Ok(()) } else { Err(AnchorFault(format!("status {}", reply.status))) }
    }
}

/// The database, where other replicas find the checkpoints of this log, and the tiles above level 0.
pub struct StoreAnchor {
    log: Arc<dyn RecordLog>,
    files: Arc<TreeFiles>,
    store: Arc<dyn TreeStore>,
}

impl StoreAnchor {
    /// From the files of `log` into `store`.
    pub fn new(log: Arc<dyn RecordLog>, files: Arc<TreeFiles>, store: Arc<dyn TreeStore>) -> Self {
        Self { log, files, store }
    }

    async fn put_tiles(&self, size: u64) -> Result<(), AnchorFault> {
        let away = |fault: TreeFault| AnchorFault(fault.to_string());
        let ends = self.store.tile_ends(self.log.id()).await.map_err(away)?;
        for level in (1_u8..8).take_while(|level| size >> (8 * u32::from(*level)) > 0) {
            let hashes = size >> (8 * u32::from(level));
            // The last one there may have been partial.
            let first = ends.iter().find(|(of, _)| *of == level).map_or(0, |(_, last)| *last);
            for index in first..hashes.div_ceil(256) {
                let width = u16::try_from((hashes - index * 256).min(256)).expect("at most 256");
                let tile = Tile { level, index, width };
                let read = self.files.hashes(tile, size).map_err(|error| AnchorFault(error.to_string()))?;
                // A newer checkpoint has taken its place; that one comes next.
                let Some(hashes) = read else { continue };
                let tiles = [(tile, hashes.as_flattened().to_vec())];
                self.store.put_tiles(self.log.id(), &tiles).await.map_err(away)?;
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Anchor for StoreAnchor {
    fn name(&self) -> &'static str {
        "store"
    }

    /// Behind the records that it covers: until the database has taken them, another process may turn out to be writing the
    /// log, and nobody should find a checkpoint of what is then another history.
    async fn put(&self, checkpoint: &Published) -> Result<(), AnchorFault> {
        let last = Mark::record(checkpoint.head.size.saturating_sub(1));
        let shipped = poll_fn(|cx| self.log.poll_shipped(last, cx)).await;
        shipped.map_err(|fault| AnchorFault(fault.to_string()))?;
        self.put_tiles(checkpoint.head.size).await?;
        let put = self.store.put_checkpoint(self.log.id(), self.log.epoch(), &checkpoint.head, &checkpoint.note);
        put.await.map_err(|fault| AnchorFault(fault.to_string()))
    }
}

/// Is told an anchor's name and what is wrong with it, or that nothing is.
type Note = Box<dyn Fn(&str, Option<String>) + Send + Sync>;

/// Keeps one anchor up to date.
pub struct Anchoring {
    anchor: Box<dyn Anchor>,
    shown: Shown,
    every: Duration,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    note: Note,
    /// Size and time of the newest checkpoint that it has.
    kept: Option<(u64, u64)>,
    tried: u32,
}

impl Anchoring {
    /// Takes what is shown to `anchor`, at most once in `every`.
    pub fn new(
        anchor: Box<dyn Anchor>,
        shown: Shown,
        every: Duration,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
        note: impl Fn(&str, Option<String>) + Send + Sync + 'static,
    ) -> Self {
        Self { anchor, shown, every, clock, metrics, note: Box::new(note), kept: None, tried: 0 }
    }

    /// Runs until `stop`, and then tries once more if there is something new.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut due = Instant::now();
        while tokio::time::timeout(BEAT.min(self.every), stop.cancelled()).await.is_err() {
            if Instant::now() >= due && self.newest().is_some() {
                due = Instant::now() + self.attempt().await;
            }
            self.tell_age();
        }
        if self.newest().is_some() {
            self.attempt().await;
        }
    }

    /// The checkpoint that is shown, if the anchor has it not.
    fn newest(&self) -> Option<Arc<Published>> {
        let kept = self.kept.map(|(size, _)| size);
        self.shown.borrow().clone().filter(|shown| Some(shown.head.size) != kept)
    }

    /// One try; how long to wait before the next.
    async fn attempt(&mut self) -> Duration {
        let Some(newest) = self.newest() else { return self.every };
        let put = tokio::time::timeout(TRY, self.anchor.put(&newest)).await;
        let outcome = put.unwrap_or_else(|_| Err(AnchorFault(format!("no answer within {TRY:?}"))));
        match outcome {
            Ok(()) => {
                self.kept = Some((newest.head.size, newest.at_ms));
                self.tried = 0;
                self.every
            }
            Err(fault) => {
                self.metrics.anchor_failed(self.anchor.name());
                if self.tried == 0 {
                    tracing::warn!(anchor = self.anchor.name(), %fault, "a checkpoint is not anchored");
                }
                (self.note)(self.anchor.name(), self.is_stale().then(|| fault.to_string()));
                self.tried += 1;
                BACKOFF[(self.tried as usize - 1).min(BACKOFF.len() - 1)]
            }
        }
    }

    /// Three turns were missed.
    fn is_stale(&self) -> bool {
        self.age() > 3 * self.every.max(BACKOFF[4])
    }

    /// How old the newest checkpoint is that the anchor has; nothing while no newer one is shown.
    fn age(&self) -> Duration {
        let Some(newest) = self.newest() else { return Duration::ZERO };
        let since = self.kept.map_or(newest.at_ms, |(_, at_ms)| at_ms);
        Duration::from_millis(self.clock.now_ms().saturating_sub(since))
    }

    fn tell_age(&self) {
        self.metrics.anchor_age(self.anchor.name(), self.age());
        if !self.is_stale() {
            (self.note)(self.anchor.name(), None);
        }
    }
}

#[cfg(test)]
#[path = "anchor_tests.rs"]
mod tests;
