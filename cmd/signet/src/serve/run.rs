//! The life of the process.
//!
//! Requests run on lanes, one thread and runtime a core. What no request may wait for (SQL, Redis, shipping) runs on a small
//! runtime of its own. End: 1. take no new work 2. open exchanges finish 3. the queues drain 4. the log is synced and
//! shipped. Each step has a signal of its own: a shipper that stopped with the listeners would miss the last records.

use super::build::{self, Built};
use super::certificate::Certificate;
use super::lanes::Lanes;
use super::listen::{Bound, admin_hosts, bound};
use super::process::{Process, open};
use super::reload::Source;
use super::work::migrate;
use super::{Stop, files, folder, index, keys, ring, tree};
use anyhow::{Context, Result, anyhow};
use signet_cache::Keyring;
use signet_config::Config;
use signet_http::{AdminConfig, App, Current, Lane, Load, Room, Serving, admin_router, crowded_router, router};
use signet_pipeline::{Follower, ShipEnd, Tail};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

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

async fn signalled() {
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}
