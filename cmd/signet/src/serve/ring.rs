//! The keyring of offline roots, and what it means for this process: a key that it revokes signs nothing more.

use super::Stop;
use super::folder;
use anyhow::{Context, anyhow};
use signet_config::{Config, OnFull};
use signet_http::Health;
use signet_lineage::verify::RootPolicy;
use signet_lineage::{KeySet, KeyUse, KeyringStore, PublicKey};
use signet_pipeline::{Recorder, Ring, RingFault, RingParts, Standing};
use signet_types::LogId;
use std::fs;
use std::io;
use std::sync::Arc;

/// The keyring in force is kept under this name in the data folder.
const KEPT: &str = "lineage.keyring";

/// With the keyring that was in force before; none without roots.
pub(crate) fn open(config: &Config, store: Arc<dyn KeyringStore>) -> Result<Option<Arc<Ring>>, Stop> {
    let Some(file) = &config.lineage.root_file else { return Ok(None) };
    let roots = roots(config).with_context(|| format!("lineage.root_file {}", file.display())).map_err(Stop::config)?;
    let kept = config.data_dir.join(KEPT);
    let bytes = match fs::read(&kept) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(Stop::from(anyhow!(error).context(format!("reading {}", kept.display())))),
    };
    let place = kept.clone();
    let keep = move |bytes: &[u8]| {
        folder::write_private(&place, bytes).map_err(|error| io::Error::other(format!("{error:#}")))
    };
    let parts = RingParts { roots, store, file: config.lineage.keyring_file.clone(), keep: Box::new(keep) };
    // Forgetting it by itself would let an older one in.
    let ring = Ring::new(parts, bytes.as_deref()).map_err(|fault| {
        let advice = format!("{} is not of these roots: if others took over, remove it", kept.display());
        Stop::config(anyhow!(fault).context(advice))
    })?;
    Ok(Some(Arc::new(ring)))
}

fn roots(config: &Config) -> anyhow::Result<RootPolicy> {
    let file = config.lineage.root_file.as_ref().context("no file")?;
    let keys = KeySet::parse(&fs::read_to_string(file)?)?;
    match config.lineage.root_threshold {
        None => Ok(RootPolicy::all(keys)),
        Some(threshold) => RootPolicy::new(keys, threshold).context("it holds fewer keys than lineage.root_threshold"),
    }
}

/// The first records of a process tell what happened to the log. A revoked key's word on that is worth nothing.
pub(crate) fn may_begin(ring: Option<&Ring>, log: LogId, key: &PublicKey) -> Result<(), Stop> {
    match ring.map(|ring| ring.standing(log, KeyUse::Attest, key, 0)) {
        Some(Standing::Void(why)) => Err(Stop::config(anyhow!(
            "{why}: move the lineage log and its key away (`signet lineage export` reads what is not in the database yet), and a \
             new log begins with a new key"
        ))),
        _ => Ok(()),
    }
}

/// What to do behind each look for keyrings.
pub(crate) fn watch(
    ring: Arc<Ring>,
    recorder: Arc<Recorder>,
    health: Arc<Health>,
    on_full: OnFull,
) -> impl Fn(&[RingFault]) + Send {
    move |faults| {
        let log = recorder.log().id();
        let standing = ring.standing(log, KeyUse::Attest, &recorder.attest_key(), recorder.stats().next_seq);
        let (void, doubt) = match standing {
            Standing::Good => (None, None),
            Standing::Doubtful(why) => (None, Some(why)),
            Standing::Void(why) => (Some(why), None),
        };
        if recorder.halt(void.is_some()) {
            tracing::error!(why = void.as_deref().unwrap_or("it counts again"), "the key that signs records");
        }
        if on_full == OnFull::Degrade {
            health.note("lineage_key", void);
        } else {
            health.block("lineage_key", void);
        }
        let all: Vec<String> = faults.iter().map(ToString::to_string).chain(doubt).collect();
        health.note("keyring", (!all.is_empty()).then(|| all.join("; ")));
    }
}
