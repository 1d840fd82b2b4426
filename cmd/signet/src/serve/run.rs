//! The life of the process.
//!
//! Requests run on lanes, one thread and runtime a core. What no request may wait for (SQL, Redis, shipping) runs on a small
//! runtime of its own. End: 1. take no new work 2. open exchanges finish 3. the queues drain 4. the log is synced and
//! shipped. Each step has a signal of its own: a shipper that stopped with the listeners would miss the last records.

use super::build::{self, Built, Common};
use super::certificate::Certificate;
use super::keys::KeyFile;
use super::lanes::Lanes;
use super::listen::{Bound, admin_hosts, bound};
use super::reload::{Reloader, Source};
use super::tree::{self, Tree};
use super::{Stop, files, folder, index, keys, log, rest, ring};
use anyhow::{Context, Result, anyhow};
use signet_cache::{Cache, Keyring};
use signet_config::{Config, LineageMode, OnFull};
use signet_http::{AdminConfig, App, Current, Health, Lane, Load, Room, Serving, admin_router, crowded_router, router};
use signet_lineage::{LogRow, PublicKey, Record};
use signet_minilm::Rescoring;
use signet_pipeline::{
    Capture, CaptureWriter, Carrier, CheckpointKeys, Follower, LabelFollower, Outbox, Pruner, QuestionDraw, Recorder,
    Refill, Ring, Sampler, Sampling, ShipEnd, Shipper, Tail, capture, outbox, question_log, sweep_captures,
};
use signet_redis::RedisExactStore;
use signet_store::{PgVectorIndex, Stores, UnusableIndex};
use signet_telemetry::Metrics;
use signet_types::{Clock, LogId, SystemClock};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const TICK: Duration = Duration::from_millis(500);
const PROBE_EVERY: u32 = 4;
/// How long a start asks the database what it holds of the log; a start never waits for a database that is away.
const ASK_STORE: Duration = Duration::from_secs(1);
const MIGRATE_RETRY: Duration = Duration::from_secs(1);
/// How long the first start waits for stored entries before it serves: they go on arriving afterwards.
const WARM_BUDGET: Duration = Duration::from_millis(100);

/// What serving needs, opened before anything runs.
struct Process {
    config: Config,
    reloader: Arc<Reloader>,
    common: Common,
    health: Arc<Health>,
    recorder: Arc<Recorder>,
    key: PublicKey,
    /// Signed records of what is missing from the log.
    gaps: Vec<Arc<Record>>,
    tree: Tree,
    checkpoints: Arc<CheckpointKeys>,
    ring: Option<Arc<Ring>>,
    /// Drops old records, where that is wanted.
    pruner: Option<Arc<Pruner>>,
    stores: Stores,
    redis: Option<Arc<RedisExactStore>>,
    index: Option<Arc<PgVectorIndex>>,
    rescoring: Option<Arc<Rescoring>>,
    certificate: Option<Certificate>,
    services: Handle,
    lanes: Vec<Handle>,
    /// Ends the listeners.
    close: CancellationToken,
    /// Ends everything else.
    stop: CancellationToken,
}

/// Serves until SIGTERM or SIGINT, or until a part fails for good.
pub(crate) fn serve(config: Config, source: Source, accept_gap: bool) -> Result<(), Stop> {
    build::fleet(&config, build::board()).map_err(Stop::config)?;
    build::break_glass_key(&config).map_err(Stop::config)?;
    let certificate = Certificate::of(&config).map_err(Stop::config)?;
    let rescoring = build::rescoring(&config, config.semantic.rescore_deadline).map_err(Stop::config)?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let _folder = folder::take(&config.data_dir, config.server.lock_wait)?;
    let services = runtime("services", 1)?;
    let lanes = Lanes::start()?;
    let front = Builder::new_current_thread().enable_all().build().context("starting the runtime")?;
    let process =
        open((config, source), accept_gap, (rescoring, certificate), services.handle().clone(), lanes.handles())?;
    let stop = process.stop.clone();
    let outcome = front.block_on(process.run());
    stop.cancel();
    lanes.end();
    services.shutdown_timeout(Duration::from_secs(1));
    outcome
}

fn runtime(name: &'static str, threads: usize) -> Result<Runtime> {
    let built = Builder::new_multi_thread().worker_threads(threads).thread_name(name).enable_all().build();
    built.with_context(|| format!("starting the {name} runtime"))
}

fn open(
    (config, source): (Config, Source),
    accept_gap: bool,
    (rescoring, certificate): (Option<Arc<Rescoring>>, Option<Certificate>),
    services: Handle,
    lanes: Vec<Handle>,
) -> Result<Process, Stop> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let common = Common { clock: clock.clone(), metrics: Arc::new(Metrics::new()), board: build::board() };
    let signer = keys::signer(&config)?;
    let key_file = KeyFile::of(&config);
    let checkpoints = keys::checkpoint_signer(&config)?;
    let checkpoint_file = KeyFile::of_checkpoints(&config);
    let (stores, redis, index) = {
        let _inside = services.enter();
        (
            build::stores(&config).map_err(Stop::config)?,
            build::redis(&config).map_err(Stop::config)?,
            build::shared_index(&config).map_err(Stop::config)?,
        )
    };
    let ask = |log| services.block_on(stored(&stores, log));
    let known = (key_file.known(&signer), checkpoint_file.known(&checkpoints));
    let mut opened = log::open(&config, (&known.0, accept_gap), &clock, &known.1, ask)?;
    let dir = &config.lineage.dir;
    let checkpoints = checkpoint_file.brought_to_its_end(checkpoints, |key| opened.has_rotated_to(dir, key))?;
    let mut signer = key_file.in_force(signer, opened.newest(dir)?.as_deref())?;
    let ring = ring::open(&config, stores.keyrings.clone())?;
    ring::may_begin(ring.as_deref(), opened.log.id(), &signer.public_key())?;
    if opened.is_untold() {
        let recorder = build::recorder(&config, &common, opened.log.clone(), signer);
        opened = log::seal(opened, recorder, &config, &clock, &checkpoints)?;
        signer = keys::signer(&config)?;
    }
    let key = signer.public_key();
    let recorder = Arc::new(build::recorder(&config, &common, opened.log.clone(), signer));
    let gaps = log::announce(opened, &recorder, &key, &checkpoints)?;
    let (health, close, stop): (Arc<Health>, _, _) =
        (Arc::default(), CancellationToken::new(), CancellationToken::new());
    let parts = tree::Of {
        config: &config,
        common: &common,
        recorder: &recorder,
        stores: &stores,
        health: &health,
        ring: &ring,
    };
    let checkpoints = Arc::new(CheckpointKeys::new(checkpoints, checkpoint_file.old()));
    let tree = Tree::start(parts, checkpoints.clone(), &services)?;
    let pruner = tree.pruner(parts)?;
    let reloader = Arc::new(Reloader::new(source, config.clone(), common.clone(), recorder.clone(), health.clone()));
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

impl Process {
    async fn run(self) -> Result<(), Stop> {
        let apps: Vec<Arc<App>> = self.lanes.iter().map(|_| self.app()).collect();
        for (app, lane) in apps.iter().zip(&self.lanes) {
            let (load, stop) = (app.load.clone(), self.stop.clone());
            lane.spawn(async move { stop.run_until_cancelled(load.watch()).await });
        }
        let Bound { public, private, serving } = self.listen(&apps)?;
        self.services.spawn(self.reloader.clone().watch(self.stop.clone()));
        if let Some(certificate) = self.certificate.clone() {
            self.services.spawn(certificate.watch(self.health.clone(), self.stop.clone()));
        }
        folder::publish(&self.config.data_dir, public, private)?;
        let migrated = CancellationToken::new();
        let migrating = self.services.spawn(migrate(self.stores.clone(), self.health.clone(), migrated.clone()));
        let shipping = self.ship(migrated.clone());
        self.ship_rest(migrated.clone());
        let ticking = self.tick();
        if let Some(ring) = self.ring.clone() {
            let then =
                ring::watch(ring.clone(), self.recorder.clone(), self.health.clone(), self.config.lineage.on_full);
            self.services.spawn(ring.run(self.stop.clone(), then));
        }
        self.services.spawn(tree::prune(self.pruner.clone(), migrated.clone(), self.stop.clone()));
        let carrying = tokio::select! {
            started = self.start(&apps, &migrated) => started?,
            () = signalled() => {
                self.stop.cancel();
                return Ok(());
            }
        };
        tracing::info!(listen = %public, admin = %private, mode = build::mode_name(self.config.lineage.mode), "ready");
        let (early, shipping) = self.until_told(shipping).await;
        self.finish(apps, serving, carrying, shipping).await?;
        ticking.abort();
        migrating.abort();
        early
    }

    /// One lane's view of the gateway.
    fn app(&self) -> Arc<App> {
        Arc::new(App {
            pipeline: Current::default(),
            tree: Some(self.tree.view.clone()),
            public_tree: self.config.lineage.public,
            health: self.health.clone(),
            metrics: self.common.metrics.clone(),
            clock: self.common.clock.clone(),
            max_body_bytes: self.config.server.max_body_bytes as u64,
            load: Arc::new(Load::new(build::load_limits(&self.config), self.common.metrics.clone())),
            patience: build::patience(&self.config),
        })
    }

    /// Binds both listeners and serves on them; requests get 503 until the pipeline is set.
    fn listen(&self, apps: &[Arc<App>]) -> Result<Bound, Stop> {
        let admin = AdminConfig {
            token: Arc::new(keys::admin_token(&self.config)?),
            hosts: admin_hosts(self.config.admin.listen),
            auditors: self.config.lineage.auditor_tokens.clone().into(),
            rotation: keys::rotation(&self.config, &self.recorder, &self.checkpoints),
            ring: self.ring.clone(),
            pruner: self.pruner.clone(),
            reload: Some(self.reloader.clone()),
        };
        let public = bound(self.config.server.listen, "server.listen")?;
        let private = bound(self.config.admin.listen, "admin.listen")?;
        let grace = self.config.server.shutdown_grace;
        let at = |listener: &TcpListener| listener.local_addr().context("reading a listener's address");
        let (public_at, private_at) = (at(&public)?, at(&private)?);
        let lanes = self.lanes.iter().zip(apps).map(|(lane, app)| Lane::new(lane.clone(), router(app.clone())));
        let most = files::room_for(self.config.server.max_connections);
        let room = Room::new(most, crowded_router(apps[0].clone()));
        let serving = |lanes, room, tls| {
            let (patience, metrics) = (build::patience(&self.config), self.common.metrics.clone());
            Serving { lanes, room, tls, patience, metrics }
        };
        let tls = self.certificate.as_ref().map(|certificate| certificate.tls.clone());
        let public = signet_http::serve(public, serving(lanes.collect(), Some(room), tls), self.close.clone(), grace);
        let lane = Lane::new(self.services.clone(), admin_router(apps[0].clone(), admin));
        let private = signet_http::serve(private, serving(vec![lane], None, None), self.close.clone(), grace);
        let serving = vec![tokio::spawn(public), tokio::spawn(private)];
        Ok(Bound { public: public_at, private: private_at, serving })
    }

    /// Gets the secret, builds the pipeline, warms it, and lets requests in.
    async fn start(&self, apps: &[Arc<App>], migrated: &CancellationToken) -> Result<JoinHandle<()>, Stop> {
        let indexed = self.make_index(migrated);
        let secret = if let Some(secret) = keys::secret_at_hand(&self.config)? {
            secret
        } else {
            migrated.cancelled().await;
            let note = |fault| self.health.note("secret", fault);
            keys::secret_of_store(&self.config, &*self.stores.keys, note).await?
        };
        let ring = Arc::new(Keyring::new(self.stores.keys.clone(), secret));
        let (redis, index) = (self.redis.clone(), self.index.clone());
        let cache = Arc::new(build::cache(&self.config, redis, index, ring.clone(), self.rescoring.clone())?);
        self.load();
        let (notices, clock) = (self.stores.notices.clone(), self.common.clock.clone());
        let follower = Follower::new(notices, cache.clone(), ring.clone(), clock);
        let (outbox, carrier) = self.outbox();
        let capture = self.capture(migrated);
        let (capture, storing) = capture.map_err(Stop::config)?.unzip();
        let carrying = self.services.spawn(async move {
            let storing = async {
                if let Some(storing) = storing {
                    storing.run().await;
                }
            };
            tokio::join!(carrier.run(), storing);
        });
        let sampling =
            build::sampling(&self.config, &self.common, &cache, &self.recorder, &self.stores, &self.reloader)?;
        let sampler = match sampling {
            Some(sampling) => Some(Arc::new(self.label(sampling, migrated).await)),
            None => None,
        };
        let built = Built {
            cache: cache.clone(),
            keys: ring.clone(),
            recorder: self.recorder.clone(),
            stores: self.stores.clone(),
            outbox,
            sampler,
            tree: self.tree.view.clone(),
            questions: self.keep_questions(),
            capture,
        };
        let pipeline = build::pipeline(&self.config, &self.common, built)?;
        self.follow(follower, migrated).await;
        index::heard(indexed).await?;
        self.refill(&cache, ring);
        if self.config.cache.persist {
            self.warm(Tail::new(self.stores.entries.clone(), cache, self.common.clock.clone()), migrated).await;
        }
        self.reloader.serve(apps, &pipeline, &self.lanes, &self.stop)?;
        Ok(carrying)
    }

    /// Makes the shared index in the background, where there is one.
    fn make_index(&self, migrated: &CancellationToken) -> oneshot::Receiver<Result<(), UnusableIndex>> {
        let (tell, told) = oneshot::channel();
        if let Some(made) = self.index.clone() {
            self.services.spawn(index::make(made, self.health.clone(), migrated.clone(), tell));
        }
        told
    }

    /// Brings what was stored without an index, or by another encoder, into the shared one.
    fn refill(&self, cache: &Arc<Cache>, keys: Arc<Keyring>) {
        let Some(index) = self.index.clone() else { return };
        let (rows, clock) = (self.stores.entries.clone(), self.common.clock.clone());
        self.services.spawn(Refill { rows, index, cache: cache.clone(), keys, clock }.run(self.stop.clone()));
    }

    /// Loads the optional encoder in the background; until it is there, what it would score is a miss.
    fn load(&self) {
        let Some(rescoring) = self.rescoring.clone() else { return };
        let (health, file) = (self.health.clone(), build::model_file(&self.config));
        health.note("encoder", Some("the model is being loaded".to_owned()));
        self.services.spawn_blocking(move || match build::model(&file) {
            Ok(model) => {
                rescoring.serve(model);
                health.note("encoder", None);
                tracing::info!("the optional encoder is loaded");
            }
            Err(error) => {
                tracing::warn!(error = %format!("{error:#}"), "the optional encoder is not there");
                health.note("encoder", Some(format!("{error:#}")));
            }
        });
    }

    fn outbox(&self) -> (Outbox, Carrier) {
        let shared = self.redis.clone().map(|store| store as Arc<dyn signet_cache::ExactStore>);
        let rows = self.config.cache.persist.then(|| self.stores.entries.clone());
        let vectors = self.index.clone().map(|index| index as Arc<dyn signet_cache::SharedIndex>);
        outbox(shared, rows, vectors, self.common.clock.clone(), self.common.metrics.clone())
    }

    /// Bodies on their way to the store, where any are kept; old ones are removed in any case.
    fn capture(&self, migrated: &CancellationToken) -> Result<Option<(Arc<Capture>, CaptureWriter)>> {
        let (store, clock) = (self.stores.captures.clone(), self.common.clock.clone());
        let (migrated, stop) = (migrated.clone(), self.stop.clone());
        let sweeping = sweep_captures(store.clone(), clock, self.config.lineage.capture_days, stop);
        self.services.spawn(async move {
            migrated.cancelled().await;
            sweeping.await;
        });
        let Some(key) = build::break_glass_key(&self.config)? else { return Ok(None) };
        let (max_bytes, metrics) = (self.config.lineage.capture_max_bytes, self.common.metrics.clone());
        let (capture, writer) = capture(key, max_bytes, store, metrics);
        Ok(Some((Arc::new(capture), writer)))
    }

    /// Reads what was taken back, then goes on in the background.
    async fn follow(&self, mut follower: Follower, migrated: &CancellationToken) {
        let (migrated, stop) = (migrated.clone(), self.stop.clone());
        let (tell, told) = oneshot::channel();
        self.services.spawn(async move {
            migrated.cancelled().await;
            let _gone = tell.send(follower.catch_up().await.is_ok());
            follower.run(stop).await;
        });
        if !matches!(tokio::time::timeout(WARM_BUDGET, told).await, Ok(Ok(true))) {
            tracing::info!("serving nothing that was stored before, until it is known what was taken back");
        }
    }

    /// Reads what is known of earlier decisions, then labels and follows in the background.
    async fn label(&self, sampling: Sampling, migrated: &CancellationToken) -> Sampler {
        let models = self
            .config
            .models
            .iter()
            .flat_map(signet_config::Model::names)
            .map(|name| name.as_str().to_owned())
            .collect();
        let (store, trust) = (sampling.store.clone(), sampling.trust.clone());
        let mut follower = LabelFollower::new(store, trust, models, self.common.metrics.clone());
        let (sampler, labeller) = sampling.split();
        let (migrated, stop) = (migrated.clone(), self.stop.clone());
        let (tell, told) = oneshot::channel();
        self.services.spawn(labeller.run(stop.clone()));
        self.services.spawn(async move {
            migrated.cancelled().await;
            let _gone = tell.send(follower.catch_up().await.is_ok());
            follower.run(stop).await;
        });
        if !matches!(tokio::time::timeout(WARM_BUDGET, told).await, Ok(Ok(true))) {
            tracing::info!("serving no semantic answers, until the labels of earlier ones are read");
        }
        sampler
    }

    /// Keeps drawn questions in the background, where the operator wants them.
    fn keep_questions(&self) -> Option<Arc<QuestionDraw>> {
        let wanted = self.config.semantic.questions?;
        let (clock, metrics) = (self.common.clock.clone(), self.common.metrics.clone());
        let (draw, writer) = question_log(wanted.share, build::question_files(&self.config), clock, metrics);
        self.services.spawn(writer.run(self.stop.clone()));
        Some(Arc::new(draw))
    }

    /// Reads stored entries for a moment, then goes on in the background.
    async fn warm(&self, mut tail: Tail, migrated: &CancellationToken) {
        let (migrated, stop) = (migrated.clone(), self.stop.clone());
        let (tell, told) = oneshot::channel();
        self.services.spawn(async move {
            migrated.cancelled().await;
            tail.warm().await;
            let rest = tail.catch_up(WARM_BUDGET).await;
            let _gone = tell.send(rest);
            tail.run(stop).await;
        });
        if !matches!(tokio::time::timeout(2 * WARM_BUDGET, told).await, Ok(Ok(true))) {
            tracing::info!("serving before all stored entries are read");
        }
    }

    /// The log as the database is to know it.
    fn row(&self) -> LogRow {
        let log = self.recorder.log();
        LogRow {
            log: log.id(),
            origin: self.config.lineage.origin.clone(),
            epoch: log.epoch(),
            attest_key: *self.key.as_bytes(),
            next_seq: 0,
        }
    }

    /// Ships what the database has not got of logs that were set aside.
    fn ship_rest(&self, migrated: CancellationToken) {
        let (dir, row, stop) = (self.config.lineage.dir.clone(), self.row(), self.stop.clone());
        let (store, health) = (self.stores.records.clone(), self.health.clone());
        self.services.spawn(async move {
            migrated.cancelled().await;
            tokio::select! {
                () = rest::ship_all(dir, row, store, health) => {}
                () = stop.cancelled() => {}
            }
        });
    }

    fn ship(&self, migrated: CancellationToken) -> JoinHandle<ShipEnd> {
        let (log, row) = (self.recorder.log().clone(), self.row());
        let (health, metrics) = (self.health.clone(), self.common.metrics.clone());
        let waited_for = self.config.lineage.mode == LineageMode::StrictDb;
        let shipper = Shipper::new(log, self.stores.records.clone(), row).at_once(waited_for).over(
            self.gaps.clone(),
            move |hole| {
                metrics.undeclared(hole.map_or(0, |(from, to)| to - from + 1));
                health.block("lineage_gap", hole.map(log::undeclared));
            },
        );
        let (health, metrics) = (self.health.clone(), self.common.metrics.clone());
        let shipper = shipper.watched(move |lost| {
            metrics.regressed(lost.map_or(0, |lost| lost.last_seq - lost.first_seq + 1));
            let gone = lost.is_some_and(|lost| lost.gone);
            let why = lost.as_ref().map(log::regressed);
            health.note("db_regression", why.clone().filter(|_| !gone));
            health.block("db_regression", why.filter(|_| gone));
        });
        let (stop, grace) = (self.stop.clone(), self.config.server.shutdown_grace);
        self.services.spawn(async move {
            tokio::select! {
                () = migrated.cancelled() => shipper.run(stop, grace).await,
                () = stop.cancelled() => shipper.run(stop.clone(), Duration::ZERO).await,
            }
        })
    }

    /// Writes what is due and looks after the components.
    fn tick(&self) -> JoinHandle<()> {
        let (recorder, health) = (self.recorder.clone(), self.health.clone());
        let (stores, redis) = (self.stores.clone(), self.redis.clone());
        let degrade = self.config.lineage.on_full == OnFull::Degrade;
        self.services.spawn(async move {
            for beat in 0_u32.. {
                let fault = recorder.log().check().err().map(|fault| fault.to_string());
                if degrade {
                    health.note("lineage", fault);
                } else {
                    health.block("lineage_failed", fault);
                }
                recorder.tick();
                if beat.is_multiple_of(PROBE_EVERY) || health.has_faults() {
                    health.note("store", stores.probe().await.err().map(|fault| fault.to_string()));
                    if let Some(redis) = &redis {
                        health.note("redis", redis.probe().await.err().map(|fault| fault.to_string()));
                    }
                }
                tokio::time::sleep(TICK).await;
            }
        })
    }

    /// Waits for a signal, or for the shipper to end for good; then takes no new work.
    async fn until_told(&self, mut shipping: JoinHandle<ShipEnd>) -> (Result<(), Stop>, Option<JoinHandle<ShipEnd>>) {
        let (early, shipping) = tokio::select! {
            () = signalled() => (Ok(()), Some(shipping)),
            end = &mut shipping => {
                let cause = end.map_or_else(|error| anyhow!(error), |end| anyhow!(end));
                (Err(Stop::from(cause.context("shipping lineage records"))), None)
            }
        };
        self.health.drain();
        tracing::info!("draining");
        (early, shipping)
    }

    async fn finish(
        &self,
        apps: Vec<Arc<App>>,
        serving: Vec<JoinHandle<()>>,
        carrying: JoinHandle<()>,
        shipping: Option<JoinHandle<ShipEnd>>,
    ) -> Result<(), Stop> {
        self.close.cancel();
        for listener in serving {
            drop(listener.await);
        }
        self.stop.cancel();
        drop(apps);
        let grace = self.config.server.shutdown_grace;
        if tokio::time::timeout(grace, carrying).await.is_err() {
            tracing::warn!("cache entries were not all stored");
        }
        self.recorder.tick();
        let synced = self.recorder.log().sync().context("syncing the lineage log");
        if let Some(shipping) = shipping {
            if let Ok(Ok(end)) = tokio::time::timeout(grace, shipping).await {
                tracing::info!(%end, "stopped");
            } else {
                tracing::warn!("records were not all shipped; they stay in the log");
            }
        }
        self.tree.finish(grace).await;
        self.stores.close().await;
        if let Some(index) = &self.index {
            index.close().await;
        }
        Ok(synced?)
    }
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

async fn migrate(stores: Stores, health: Arc<Health>, done: CancellationToken) {
    while let Err(fault) = stores.migrate().await {
        health.note("store", Some(fault.to_string()));
        tokio::time::sleep(MIGRATE_RETRY).await;
    }
    health.note("store", None);
    done.cancel();
}

async fn signalled() {
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}
