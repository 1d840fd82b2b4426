//! What goes on in the background while requests are served.

use super::process::Process;
use super::{build, index, log, rest};
use anyhow::Result;
use signet_cache::{Cache, Keyring};
use signet_config::{LineageMode, OnFull};
use signet_http::Health;
use signet_lineage::LogRow;
use signet_pipeline::{
    Capture, CaptureWriter, Carrier, Follower, LabelFollower, Outbox, QuestionDraw, Refill, Sampler, Sampling, ShipEnd,
    Shipper, Tail, capture, outbox, question_log, sweep_captures,
};
use signet_store::{Stores, UnusableIndex};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const TICK: Duration = Duration::from_millis(500);
const PROBE_EVERY: u32 = 4;
const MIGRATE_RETRY: Duration = Duration::from_secs(1);
/// How long the first start waits for stored entries before it serves: they go on arriving afterwards.
const WARM_BUDGET: Duration = Duration::from_millis(100);

impl Process {
    /// Makes the shared index in the background, where there is one.
    pub(super) fn make_index(&self, migrated: &CancellationToken) -> oneshot::Receiver<Result<(), UnusableIndex>> {
        let (tell, told) = oneshot::channel();
        if let Some(made) = self.index.clone() {
            self.services.spawn(index::make(made, self.health.clone(), migrated.clone(), tell));
        }
        told
    }

    /// Brings what was stored without an index, or by another encoder, into the shared one.
    pub(super) fn refill(&self, cache: &Arc<Cache>, keys: Arc<Keyring>) {
        let Some(index) = self.index.clone() else { return };
        let (rows, clock) = (self.stores.entries.clone(), self.common.clock.clone());
        self.services.spawn(Refill { rows, index, cache: cache.clone(), keys, clock }.run(self.stop.clone()));
    }

    /// Loads the optional encoder in the background; until it is there, what it would score is a miss.
    pub(super) fn load(&self) {
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

    pub(super) fn outbox(&self) -> (Outbox, Carrier) {
        let shared = self.redis.clone().map(|store| store as Arc<dyn signet_cache::ExactStore>);
        let rows = self.config.cache.persist.then(|| self.stores.entries.clone());
        let vectors = self.index.clone().map(|index| index as Arc<dyn signet_cache::SharedIndex>);
        outbox(shared, rows, vectors, self.common.clock.clone(), self.common.metrics.clone())
    }

    /// Bodies on their way to the store, where any are kept; old ones are removed in any case.
    pub(super) fn capture(&self, migrated: &CancellationToken) -> Result<Option<(Arc<Capture>, CaptureWriter)>> {
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
    pub(super) async fn follow(&self, mut follower: Follower, migrated: &CancellationToken) {
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
    pub(super) async fn label(&self, sampling: Sampling, migrated: &CancellationToken) -> Sampler {
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
    pub(super) fn keep_questions(&self) -> Option<Arc<QuestionDraw>> {
        let wanted = self.config.semantic.questions?;
        let (clock, metrics) = (self.common.clock.clone(), self.common.metrics.clone());
        let (draw, writer) = question_log(wanted.share, build::question_files(&self.config), clock, metrics);
        self.services.spawn(writer.run(self.stop.clone()));
        Some(Arc::new(draw))
    }

    /// Reads stored entries for a moment, then goes on in the background.
    pub(super) async fn warm(&self, mut tail: Tail, migrated: &CancellationToken) {
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
    pub(super) fn row(&self) -> LogRow {
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
    pub(super) fn ship_rest(&self, migrated: CancellationToken) {
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

    pub(super) fn ship(&self, migrated: CancellationToken) -> JoinHandle<ShipEnd> {
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
    pub(super) fn tick(&self) -> JoinHandle<()> {
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
}

pub(super) async fn migrate(stores: Stores, health: Arc<Health>, done: CancellationToken) {
    while let Err(fault) = stores.migrate().await {
        health.note("store", Some(fault.to_string()));
        tokio::time::sleep(MIGRATE_RETRY).await;
    }
    health.note("store", None);
    done.cancel();
}
