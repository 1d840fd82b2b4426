//! A new configuration while the process serves: other providers, models and keys.
//!
//! All of it is built first. Then every lane gets a pipeline with the new routes; a request holds the one that it began
//! with, so a stream ends at the provider where it began, and its record names the configuration that it ran by. A provider
//! whose section and secrets are the same keeps its connections. With any fault nothing changes.

use super::build::{self, Common, Providers};
use super::keys::hex;
use anyhow::Result;
use arc_swap::ArcSwap;
use sha2::{Digest, Sha256};
use signet_cache::Trust;
use signet_config::{Config, Overrides, Problems, ProcessEnv, read_file};
use signet_http::{App, Generation, Health, Reload};
use signet_pipeline::Recorder;
use signet_provider::{Fleet, HttpProvider};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Links of a mounted volume change without an event for their target, so files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What was refused may have waited for something else than these files.
const TRY_AGAIN_EVERY: u32 = 10;
const CLOSE_IDLE_EVERY: Duration = Duration::from_secs(30);

/// Where the configuration comes from.
pub(crate) struct Source {
    pub(crate) file: Option<PathBuf>,
    pub(crate) overrides: Overrides,
}

impl Source {
    pub(crate) fn read(&self) -> Result<Config, Problems> {
        Config::load(self.file.as_deref(), &ProcessEnv, self.overrides.clone())
    }
}

/// What of a lane changes.
struct Lane {
    app: Weak<App>,
    providers: Arc<Mutex<Providers>>,
}

struct InForce {
    config: Config,
    shown: Generation,
}

/// Takes new configurations.
pub(crate) struct Reloader {
    source: Source,
    common: Common,
    recorder: Arc<Recorder>,
    health: Arc<Health>,
    /// Set when they serve; before, there is nothing to change.
    lanes: OnceLock<Vec<Lane>>,
    /// The judge's own connections.
    judging: OnceLock<Arc<ArcSwap<Fleet>>>,
    /// What the floors of the models come from; none where semantic answers are off.
    trust: OnceLock<Arc<Trust>>,
    now: Mutex<InForce>,
}

impl Reloader {
    pub(crate) fn new(
        source: Source,
        config: Config,
        common: Common,
        recorder: Arc<Recorder>,
        health: Arc<Health>,
    ) -> Self {
        let shown = Generation { generation: 1, config_sha256: hex(&config.digest()), faults: Vec::new() };
        let now = Mutex::new(InForce { config, shown });
        let (lanes, judging, trust) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self { source, common, recorder, health, lanes, judging, trust, now }
    }

    /// The fleet that the judge asks, from now on replaced with the others.
    pub(crate) fn judging(&self, fleet: Arc<ArcSwap<Fleet>>) {
        drop(self.judging.set(fleet));
    }

    /// The trust in the models, from now on rebased with their settings.
    pub(crate) fn trusting(&self, trust: Arc<Trust>) {
        drop(self.trust.set(trust));
    }

    /// Gives each lane its providers; they can change from now on.
    pub(crate) fn serve(
        &self,
        apps: &[Arc<App>],
        pipeline: &signet_pipeline::Pipeline,
        lanes: &[Handle],
        stop: &CancellationToken,
    ) -> Result<()> {
        let now = self.lock();
        let mut served = Vec::new();
        for (app, runtime) in apps.iter().zip(lanes) {
            let providers = build::providers(&now.config, &Vec::new())?;
            let fleet = build::fleet_of(&now.config, self.common.board.clone(), &providers)?;
            app.pipeline.set(Arc::new(pipeline.beside(Arc::new(fleet))));
            let providers = Arc::new(Mutex::new(providers));
            runtime.spawn(close_idle(providers.clone(), stop.clone()));
            served.push(Lane { app: Arc::downgrade(app), providers });
        }
        drop(self.lanes.set(served));
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, InForce> {
        self.now.lock().expect("nothing panics under it")
    }

    /// Puts `config` in force, or says why it is not.
    fn take(&self, now: &mut InForce, config: Config) -> Result<(), Vec<String>> {
        let fault = |fault: anyhow::Error| vec![format!("{fault:#}")];
        let lanes = self.lanes.get().ok_or_else(|| vec!["the gateway is still starting".to_owned()])?;
        let restart = config.needs_restart(&now.config);
        if !restart.is_empty() {
            return Err(restart.into_iter().map(|key| format!("{key}: a change needs a restart")).collect());
        }
        let mut built = Vec::new();
        for lane in lanes {
            let kept = lane.providers.lock().expect("nothing panics under it").clone();
            let providers = build::providers(&config, &kept).map_err(fault)?;
            let fleet = build::fleet_of(&config, self.common.board.clone(), &providers).map_err(fault)?;
            built.push((lane, providers, Arc::new(fleet)));
        }
        let judging = match self.judging.get() {
            Some(judging) => Some((judging, build::fleet(&config, self.common.board.clone()).map_err(fault)?)),
            None => None,
        };
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
        // From here on nothing fails.
        let gateway = Arc::new(signet_lineage::Gateway {
            config_sha256: config.digest(),
            ..signet_lineage::Gateway::clone(&self.recorder.gateway())
        });
        // A floor that is raised holds for every lookup from here on, a lowered one with the new routes only.
        if let Some(trust) = self.trust.get() {
            trust.rebase(build::bases(&config));
        }
        for (lane, providers, fleet) in built {
            let Some(app) = lane.app.upgrade() else { continue };
            if let Some(before) = app.pipeline.get() {
                let settings = build::settings(&config);
                app.pipeline.set(Arc::new(before.rerouted(fleet, settings, gateway.clone())));
            }
            *lane.providers.lock().expect("nothing panics under it") = providers;
        }
        if let Some((judging, fleet)) = judging {
            judging.store(Arc::new(fleet));
        }
        self.recorder.speak_as(gateway);
        now.config = config;
        Ok(())
    }

    /// Takes a configuration as soon as a signal says so, or its files have changed and then rested for a moment: a file
    /// that is being written may be half of one.
    pub(crate) async fn watch(self: Arc<Self>, stop: CancellationToken) {
        let Ok(mut hangup) = signal(SignalKind::hangup()) else { return };
        let watched = self.lock().config.server.reload_watch;
        let (mut taken, mut last, mut beat) = (self.print(), [0; 32], 0u32);
        loop {
            let told = tokio::select! {
                () = stop.cancelled() => return,
                told = hangup.recv() => told.is_some(),
                () = tokio::time::sleep(LOOK_EVERY) => false,
            };
            beat = beat.wrapping_add(1);
            let looking = self.clone();
            let print = if watched { blocking(move || looking.print()).await } else { taken };
            let rested = print == last;
            last = print;
            let again = watched && beat.is_multiple_of(TRY_AGAIN_EVERY) && !self.generation().faults.is_empty();
            if told || (rested && print != taken) || again {
                taken = print;
                let reloading = self.clone();
                blocking(move || drop(reloading.reload())).await;
            }
        }
    }

    /// What the files hold.
    fn print(&self) -> [u8; 32] {
        let files = self.lock().config.files.clone();
        let mut hash = Sha256::new();
        for file in self.source.file.iter().chain(&files) {
            hash.update(read_file(file).map_or([0; 32], |bytes| Sha256::digest(bytes).into()));
        }
        hash.finalize().into()
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("reading files does not panic")
}

impl Reload for Reloader {
    fn reload(&self) -> Generation {
        let mut now = self.lock();
        let read = self.source.read();
        let outcome = match read {
            Ok(config) => self.take(&mut now, config),
            Err(Problems(problems)) => Err(problems.iter().map(ToString::to_string).collect()),
        };
        let before = now.shown.clone();
        match outcome {
            Ok(()) => {
                let config_sha256 = hex(&now.config.digest());
                now.shown = Generation { generation: before.generation + 1, config_sha256, faults: Vec::new() };
                tracing::info!(generation = now.shown.generation, "a new configuration is in force");
            }
            Err(faults) => now.shown.faults = faults,
        }
        if now.shown.faults.is_empty() {
            self.health.note("config", None);
        } else if now.shown.faults != before.faults {
            let faults = shortened(&now.shown.faults);
            tracing::error!(faults, "the new configuration is refused, and nothing has changed");
            self.health.note("config", Some(format!("the new one is refused: {faults}")));
        }
        now.shown.clone()
    }

    fn generation(&self) -> Generation {
        self.lock().shown.clone()
    }
}

/// The first faults; a file can have as many as lines.
fn shortened(faults: &[String]) -> String {
    const SHOWN: usize = 10;
    let first = faults[..faults.len().min(SHOWN)].join("; ");
    match faults.len().saturating_sub(SHOWN) {
        0 => first,
        more => format!("{first}; and {more} more"),
    }
}

/// Closes upstream connections that have rested too long, so that it is rarely the provider who does.
async fn close_idle(providers: Arc<Mutex<Providers>>, stop: CancellationToken) {
    while tokio::time::timeout(CLOSE_IDLE_EVERY, stop.cancelled()).await.is_err() {
        let providers: Vec<Arc<HttpProvider>> =
            providers.lock().expect("nothing panics under it").iter().map(|(_, provider)| provider.clone()).collect();
        for provider in providers {
            provider.close_idle();
        }
    }
}
