//! What is published of the log's tree: the thread that signs checkpoints, the tasks that take them to anchors, and the view
//! that the listeners show.

use super::build::{self, Common};
use super::keys::KeyFile;
use anyhow::{Context, Result, bail};
use http::uri::PathAndQuery;
use signet_config::{AnchorPlace, Config, LineageMode};
use signet_http::Health;
use signet_lineage::KeySet;
use signet_lineage::tlog::NoteKey;
use signet_pipeline::{
    Anchor, Anchoring, Cadence, CheckpointKeys, CheckpointParts, Checkpointer, FileAnchor, HttpAnchor, PruneParts,
    Pruner, Recorder, Ring, Shown, StoreAnchor, TreeFiles, TreeParts, TreeView,
};
use signet_provider::{HttpProvider, ProviderConfig, Timeouts};
use signet_spool::Disk;
use signet_store::Stores;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const ANCHOR_TRY: Duration = Duration::from_secs(10);

/// What it is made of.
#[derive(Clone, Copy)]
pub(crate) struct Of<'a> {
    pub(crate) config: &'a Config,
    pub(crate) common: &'a Common,
    pub(crate) recorder: &'a Arc<Recorder>,
    pub(crate) stores: &'a Stores,
    pub(crate) health: &'a Arc<Health>,
    pub(crate) ring: &'a Option<Arc<Ring>>,
}

/// The running parts.
pub(crate) struct Tree {
    pub(crate) view: Arc<TreeView>,
    shown: Shown,
    files: Option<Arc<TreeFiles>>,
    signing: Mutex<Option<JoinHandle<()>>>,
    anchoring: TaskTracker,
    /// Ends the signing, and after it the anchoring.
    stop: CancellationToken,
    stop_anchors: CancellationToken,
}

impl Tree {
    pub(crate) fn start(of: Of<'_>, signers: Arc<CheckpointKeys>, services: &Handle) -> Result<Self> {
        let Of { config, common, recorder, stores, health, ring } = of;
        let log = recorder.log().clone();
        let name = format!("{}/{}", config.lineage.origin, log.id());
        if signers.all().into_iter().any(|key| NoteKey::new(&name, key).is_none()) {
            bail!("lineage.origin is no key name");
        }
        let on_disk = config.lineage.mode != LineageMode::Memory;
        let files = on_disk.then(|| Arc::new(TreeFiles::new(Arc::new(Disk::new(&config.lineage.dir)))));
        let told = health.clone();
        let (checkpointer, shown) = Checkpointer::new(CheckpointParts {
            log: log.clone(),
            files: files.clone(),
            store: stores.trees.clone(),
            name: name.clone(),
            keys: signers.clone(),
            ring: ring.clone(),
            cadence: Cadence { every: config.lineage.checkpoint_every, leaves: config.lineage.checkpoint_every_leaves },
            clock: common.clock.clone(),
            metrics: common.metrics.clone(),
            note: Box::new(move |fault| told.note("checkpoint", fault)),
        });
        let view = TreeView::new(TreeParts {
            log: log.clone(),
            shown: shown.clone(),
            files: files.clone(),
            records: stores.records.clone(),
            store: stores.trees.clone(),
            keys: keys(config, recorder.clone(), (name, signers), ring.clone()),
            services: services.clone(),
        });
        let anchors = everywhere(of, files.as_ref())?;
        let (stop, stop_anchors, anchoring) = (CancellationToken::new(), CancellationToken::new(), TaskTracker::new());
        for task in tasks(anchors, config, common, health, &shown) {
            anchoring.spawn_on(task.run(stop_anchors.clone()), services);
        }
        let (on, until) = (services.clone(), stop.clone());
        // A thread of its own: it hashes, and waits for the disk.
        let signing = thread::Builder::new().name("lineage-tree".into());
        let signing = signing.spawn(move || on.block_on(checkpointer.run(until))).context("starting a thread")?;
        let signing = Mutex::new(Some(signing));
        Ok(Self { view: Arc::new(view), shown, files, signing, anchoring, stop, stop_anchors })
    }

    /// Drops old records, if the operator wants that.
    pub(crate) fn pruner(&self, of: Of<'_>) -> Result<Option<Arc<Pruner>>> {
        let Of { config, common, recorder, stores, health, .. } = of;
        if config.lineage.retain_days == 0 {
            return Ok(None);
        }
        let told = health.clone();
        Ok(Some(Arc::new(Pruner::new(PruneParts {
            recorder: recorder.clone(),
            view: self.view.clone(),
            shown: self.shown.clone(),
            records: stores.records.clone(),
            trees: stores.trees.clone(),
            store: stores.prunes.clone(),
            anchors: everywhere(of, self.files.as_ref())?,
            days: config.lineage.retain_days,
            clock: common.clock.clone(),
            note: Box::new(move |fault| told.note("prune", fault)),
        }))))
    }

    /// Signs what the end of the log added, and anchors it; waits for either no longer than `grace`.
    pub(crate) async fn finish(&self, grace: Duration) {
        self.stop.cancel();
        let signing = self.signing.lock().unwrap_or_else(PoisonError::into_inner).take();
        let joined = tokio::task::spawn_blocking(move || signing.map(JoinHandle::join));
        if tokio::time::timeout(grace, joined).await.is_err() {
            tracing::warn!("the last records have no checkpoint");
        }
        self.stop_anchors.cancel();
        self.anchoring.close();
        if tokio::time::timeout(grace, self.anchoring.wait()).await.is_err() {
            tracing::warn!("the last checkpoint is not anchored everywhere");
        }
    }
}

impl Drop for Tree {
    /// For an end before its time: nothing may run on when the runtime is gone.
    fn drop(&mut self) {
        self.stop.cancel();
        self.stop_anchors.cancel();
    }
}

/// The keys of records in PEM, those of the past too, those of checkpoints as verifier keys, and what the keyring revokes: what
/// `verify --key` takes.
fn keys(
    config: &Config,
    recorder: Arc<Recorder>,
    (name, checkpoints): (String, Arc<CheckpointKeys>),
    ring: Option<Arc<Ring>>,
) -> Box<dyn Fn() -> String + Send + Sync> {
    let before = KeyFile::of(config).old();
    Box::new(move || {
        let keys = KeySet::new(before.iter().copied().chain(recorder.attest_keys()));
        let ring = ring.as_ref().map(|ring| ring.pinned_text(recorder.log().id())).unwrap_or_default();
        let notes = checkpoints.all().into_iter().filter_map(|key| NoteKey::new(&name, key));
        let notes: String = notes.flat_map(|key| [key.to_string(), "\n".to_owned()]).collect();
        format!("{}{notes}{ring}", keys.map(|keys| keys.to_string()).unwrap_or_default())
    })
}

/// Drops old records, if that is wanted, once the schema is there.
pub(crate) async fn prune(pruner: Option<Arc<Pruner>>, migrated: CancellationToken, stop: CancellationToken) {
    let Some(pruner) = pruner else { return };
    migrated.cancelled().await;
    pruner.run(stop).await;
}

/// The anchors of the configuration, and the database.
fn everywhere(of: Of<'_>, files: Option<&Arc<TreeFiles>>) -> Result<Vec<Box<dyn Anchor>>> {
    let mut anchors = anchors(of.config)?;
    if let Some(files) = files {
        let (log, store) = (of.recorder.log().clone(), of.stores.trees.clone());
        anchors.push(Box::new(StoreAnchor::new(log, files.clone(), store)));
    }
    Ok(anchors)
}

fn anchors(config: &Config) -> Result<Vec<Box<dyn Anchor>>> {
    config.lineage.anchors.iter().map(anchor).collect()
}

fn anchor(place: &AnchorPlace) -> Result<Box<dyn Anchor>> {
    let (url, token, way) = match place {
        AnchorPlace::File(path) => return Ok(Box::new(FileAnchor::new(path))),
        AnchorPlace::Http { url, token, way } => (url, token, way),
    };
    let mut server = url.clone();
    server.set_path("/");
    let name = url.as_str().parse().context("lineage.anchor.url")?;
    let mut built = ProviderConfig::new(name, server);
    built.api_key.clone_from(token);
    build::go(&mut built, way).context("lineage.anchor")?;
    built.timeouts = Timeouts { connect: ANCHOR_TRY, first_byte: ANCHOR_TRY, idle: ANCHOR_TRY, total: ANCHOR_TRY };
    let path: PathAndQuery = url.path().parse().context("lineage.anchor.url")?;
    Ok(Box::new(HttpAnchor::new(Arc::new(HttpProvider::new(built).context("lineage.anchor.url")?), path)))
}

/// A task an anchor. What is wrong with any of them is one line of `/readyz`.
fn tasks(
    anchors: Vec<Box<dyn Anchor>>,
    config: &Config,
    common: &Common,
    health: &Arc<Health>,
    shown: &Shown,
) -> Vec<Anchoring> {
    let stale: Arc<Mutex<BTreeMap<String, String>>> = Arc::default();
    let task = |anchor| {
        let (stale, health) = (stale.clone(), health.clone());
        let note = move |name: &str, fault: Option<String>| {
            let mut stale = stale.lock().unwrap_or_else(PoisonError::into_inner);
            match fault {
                Some(fault) => drop(stale.insert(name.to_owned(), fault)),
                None => drop(stale.remove(name)),
            }
            let all: Vec<String> = stale.iter().map(|(name, fault)| format!("{name}: {fault}")).collect();
            health.note("anchor", (!all.is_empty()).then(|| all.join("; ")));
        };
        let (clock, metrics) = (common.clock.clone(), common.metrics.clone());
        Anchoring::new(anchor, shown.clone(), config.lineage.anchor_every, clock, metrics, note)
    };
    anchors.into_iter().map(task).collect()
}
