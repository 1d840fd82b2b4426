//! What serving needs, opened before anything runs.

use super::build::{self, Common};
use super::certificate::Certificate;
use super::keys::KeyFile;
use super::reload::{Reloader, Source};
use super::tree::{self, Tree};
use super::{Stop, keys, log, ring};
use anyhow::Result;
use signet_config::Config;
use signet_http::Health;
use signet_lineage::{PublicKey, Record};
use signet_minilm::Rescoring;
use signet_pipeline::{CheckpointKeys, Pruner, Recorder, Ring};
use signet_redis::RedisExactStore;
use signet_store::{PgVectorIndex, Stores};
use signet_telemetry::Metrics;
use signet_types::{Clock, LogId, SystemClock};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// How long a start asks the database what it holds of the log; a start never waits for a database that is away.
const ASK_STORE: Duration = Duration::from_secs(1);

/// All of it.
pub(super) struct Process {
    pub(super) config: Config,
    pub(super) reloader: Arc<Reloader>,
    pub(super) common: Common,
    pub(super) health: Arc<Health>,
    pub(super) recorder: Arc<Recorder>,
    pub(super) key: PublicKey,
    /// Signed records of what is missing from the log.
    pub(super) gaps: Vec<Arc<Record>>,
    pub(super) tree: Tree,
    pub(super) checkpoints: Arc<CheckpointKeys>,
    pub(super) ring: Option<Arc<Ring>>,
    /// Drops old records, where that is wanted.
    pub(super) pruner: Option<Arc<Pruner>>,
    pub(super) stores: Stores,
    pub(super) redis: Option<Arc<RedisExactStore>>,
    pub(super) index: Option<Arc<PgVectorIndex>>,
    pub(super) rescoring: Option<Arc<Rescoring>>,
    pub(super) certificate: Option<Certificate>,
    pub(super) services: Handle,
    pub(super) lanes: Vec<Handle>,
    /// Ends the listeners.
    pub(super) close: CancellationToken,
    /// Ends everything else.
    pub(super) stop: CancellationToken,
}

/// The log, and what signs into it.
struct Signed {
    recorder: Arc<Recorder>,
    key: PublicKey,
    gaps: Vec<Arc<Record>>,
    checkpoints: Arc<CheckpointKeys>,
    ring: Option<Arc<Ring>>,
}

pub(super) fn open(
    (config, source): (Config, Source),
    accept_gap: bool,
    (rescoring, certificate): (Option<Arc<Rescoring>>, Option<Certificate>),
    services: Handle,
    lanes: Vec<Handle>,
) -> Result<Process, Stop> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let common = Common { clock, metrics: Arc::new(Metrics::new()), board: build::board() };
    let (stores, redis, index) = places(&config, &services).map_err(Stop::config)?;
    let ask = |log| services.block_on(stored(&stores, log));
    let Signed { recorder, key, gaps, checkpoints, ring } = signed(&config, &common, accept_gap, &stores, ask)?;
    let health: Arc<Health> = Arc::default();
    let parts = tree::Of {
        config: &config,
        common: &common,
        recorder: &recorder,
        stores: &stores,
        health: &health,
        ring: &ring,
    };
    let tree = Tree::start(parts, checkpoints.clone(), &services)?;
    let pruner = tree.pruner(parts)?;
    let reloader = Arc::new(Reloader::new(source, config.clone(), common.clone(), recorder.clone(), health.clone()));
    let (close, stop) = (CancellationToken::new(), CancellationToken::new());
    Ok(Process {
        config,
        reloader,
        common,
        health,
        recorder,
        key,
        gaps,
        tree,
        checkpoints,
        ring,
        pruner,
        stores,
        redis,
        index,
        rescoring,
        certificate,
        services,
        lanes,
        close,
        stop,
    })
}

/// Where answers, records and vectors are kept.
type Places = (Stores, Option<Arc<RedisExactStore>>, Option<Arc<PgVectorIndex>>);

/// The services that the configuration names; none of them has to be there yet.
fn places(config: &Config, services: &Handle) -> Result<Places> {
    let _inside = services.enter();
    Ok((build::stores(config)?, build::redis(config)?, build::shared_index(config)?))
}

/// Opens the log with the keys that it goes on with. What was lost of it is sealed or told by signed records first.
fn signed(
    config: &Config,
    common: &Common,
    accept_gap: bool,
    stores: &Stores,
    ask: impl Fn(LogId) -> Option<log::Stored>,
) -> Result<Signed, Stop> {
    let (key_file, checkpoint_file) = (KeyFile::of(config), KeyFile::of_checkpoints(config));
    let (signer, checkpoints) = (keys::signer(config)?, keys::checkpoint_signer(config)?);
    let known = (key_file.known(&signer), checkpoint_file.known(&checkpoints));
    let mut opened = log::open(config, (&known.0, accept_gap), &common.clock, &known.1, ask)?;
    let dir = &config.lineage.dir;
    let checkpoints = checkpoint_file.brought_to_its_end(checkpoints, |key| opened.has_rotated_to(dir, key))?;
    let mut signer = key_file.in_force(signer, opened.newest(dir)?.as_deref())?;
    let ring = ring::open(config, stores.keyrings.clone())?;
    ring::may_begin(ring.as_deref(), opened.log.id(), &signer.public_key())?;
    if opened.is_untold() {
        let recorder = build::recorder(config, common, opened.log.clone(), signer);
        opened = log::seal(opened, recorder, config, &common.clock, &checkpoints)?;
        signer = keys::signer(config)?;
    }
    let key = signer.public_key();
    let recorder = Arc::new(build::recorder(config, common, opened.log.clone(), signer));
    let gaps = log::announce(opened, &recorder, &key, &checkpoints)?;
    let checkpoints = Arc::new(CheckpointKeys::new(checkpoints, checkpoint_file.old()));
    Ok(Signed { recorder, key, gaps, checkpoints, ring })
}

/// What the database holds of a log, if it can be asked now.
async fn stored(stores: &Stores, log: LogId) -> Option<log::Stored> {
    let ask = async {
        let next_seq = stores.records.logs().await.ok()?.iter().find(|row| row.log == log)?.next_seq;
        let last = stores.trees.leaf_hashes(log, next_seq.saturating_sub(1), 1).await.unwrap_or_default();
        Some(log::Stored { next_seq, last_leaf: last.first().copied() })
    };
    tokio::time::timeout(ASK_STORE, ask).await.ok()?
}
