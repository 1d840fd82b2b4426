//! The signing key, the tenant secret and the admin token.

use super::{Stop, folder};
use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;
use signet_cache::KeyStore;
use signet_config::{Config, LineageMode};
use signet_lineage::{KeyUse, Kind, PublicKey, Record, Signer};
use signet_pipeline::{CheckpointKeys, KeyPlace, Recorder, Rotation};
use signet_types::Secret;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Between the name of a key file and the id of a predecessor.
const OLD: &str = ".old-";
const RETRY: Duration = Duration::from_millis(500);

/// The key that signs records: the configured file, or one made on the first start.
pub(crate) fn signer(config: &Config) -> Result<Signer> {
    let own = config.data_dir.join("lineage.key");
    let bytes = match &config.lineage.key_file {
        Some(file) => signet_config::read_file(file).with_context(|| format!("reading {}", file.display()))?,
        None if !own.exists() && config.lineage.dir.join("identity").exists() => {
            bail!(
                "{} is gone, but the log that it signed is there: restore the key, or move the log away",
                own.display()
            )
        }
        None => folder::read_or_make(&own, || Signer::generate().to_pkcs8().to_vec())?,
    };
    Signer::from_pkcs8(&bytes).context("the lineage key is not an Ed25519 key in PKCS#8 form")
}

/// Where a key of the log is: the file itself, its successor in `.next` while a rotation is under way, and its
/// predecessors in `.old-<key id>`.
pub(crate) struct KeyFile(PathBuf);

impl KeyFile {
    pub(crate) fn of(config: &Config) -> Self {
        Self(config.lineage.key_file.clone().unwrap_or_else(|| config.data_dir.join("lineage.key")))
    }

    pub(crate) fn of_checkpoints(config: &Config) -> Self {
        Self(
            config
                .lineage
                .checkpoint_key_file
                .clone()
                .unwrap_or_else(|| config.data_dir.join("lineage-checkpoint.key")),
        )
    }

    pub(crate) const fn at(path: PathBuf) -> Self {
        Self(path)
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.0.clone().into_os_string();
        name.push(suffix);
        name.into()
    }

    fn next(&self) -> Option<Signer> {
        Signer::from_pkcs8(&fs::read(self.beside(".next")).ok()?).ok()
    }

    /// The public keys of the predecessors that are still there, in no order.
    pub(crate) fn old(&self) -> Vec<PublicKey> {
        let prefix = self.beside(OLD);
        let Some(entries) = self.0.parent().and_then(|folder| fs::read_dir(folder).ok()) else { return Vec::new() };
        let old = entries.flatten().map(|entry| entry.path());
        let old =
            old.filter(|path| path.as_os_str().as_encoded_bytes().starts_with(prefix.as_os_str().as_encoded_bytes()));
        old.filter_map(|path| Some(Signer::from_pkcs8(&fs::read(path).ok()?).ok()?.public_key())).collect()
    }

    /// Every key that may have signed the log.
    pub(crate) fn known(&self, signer: &Signer) -> Vec<PublicKey> {
        let next = self.next().map(|next| next.public_key());
        [signer.public_key()].into_iter().chain(next).chain(self.old()).collect()
    }

    /// The key that the log goes on with, given its newest record. A key that the log does not name would sign what no
    /// verifier takes; a rotation that was killed behind its record is brought to its end.
    pub(crate) fn in_force(&self, signer: Signer, newest: Option<&Record>) -> Result<Signer, Stop> {
        let wanted = newest.map(|record| successor(record).map_or(record.key_id, |key| key.key_id()));
        if wanted.is_none_or(|wanted| wanted == *signer.key_id()) {
            return Ok(signer);
        }
        if let Some(next) = self.next().filter(|next| wanted == Some(*next.key_id())) {
            tracing::warn!(file = %self.0.display(), "a rotation of the signing key is brought to its end");
            self.install().with_context(|| format!("putting the new key in {}", self.0.display()))?;
            return Ok(next);
        }
        Err(Stop::config(anyhow!(
            "{} holds the key {}, but the lineage log is signed by {}: restore that key, rotate with `signet lineage keys \
             rotate`, or move the log away",
            self.0.display(),
            signer.public_key().key_id_text(),
            hex(&wanted.unwrap_or_default())
        )))
    }
}

impl KeyFile {
    /// The checkpoint key that the log goes on with: a rotation that was killed behind its record, as `rotated_to` tells, is
    /// brought to its end.
    pub(crate) fn brought_to_its_end(
        &self,
        signer: Signer,
        rotated_to: impl FnOnce(&PublicKey) -> Result<bool, Stop>,
    ) -> Result<Signer, Stop> {
        let Some(next) = self.next() else { return Ok(signer) };
        if !rotated_to(&next.public_key())? {
            return Ok(signer);
        }
        tracing::warn!(file = %self.0.display(), "a rotation of the checkpoint key is brought to its end");
        self.install().with_context(|| format!("putting the new key in {}", self.0.display()))?;
        Ok(next)
    }
}

impl KeyPlace for KeyFile {
    fn keep(&self, new: &Signer, in_force: &PublicKey) -> io::Result<()> {
        let there = Signer::from_pkcs8(&fs::read(&self.0)?).map_err(io::Error::other)?.public_key();
        if there != *in_force {
            // An earlier rotation got no further than its record; its key must not be written over.
            if self.next().is_none_or(|next| next.public_key() != *in_force) {
                return Err(io::Error::other(format!("{} holds another key than the log", self.0.display())));
            }
            self.install()?;
        }
        folder::write_private(&self.beside(".next"), &new.to_pkcs8())
            .map_err(|error| io::Error::other(format!("{error:#}")))
    }

    fn install(&self) -> io::Result<()> {
        let old = Signer::from_pkcs8(&fs::read(&self.0)?).map_err(io::Error::other)?.public_key();
        // By a second name, so that at no moment there is no key.
        match fs::hard_link(&self.0, self.beside(&format!("{OLD}{}", &old.key_id_text()[..16]))) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        fs::rename(self.beside(".next"), &self.0)?;
        File::open(self.0.parent().unwrap_or(Path::new(".")))?.sync_all()
    }
}

#[derive(Deserialize)]
struct Statement {
    predicate: Predicate,
}

#[derive(Deserialize)]
struct Predicate {
    kind: Kind,
    #[serde(default)]
    control: Turn,
}

#[derive(Default, Deserialize)]
struct Turn {
    #[serde(rename = "use")]
    usage: Option<String>,
    new_key: Option<String>,
}

/// The key that takes over behind `record`, if it says so.
fn successor(record: &Record) -> Option<PublicKey> {
    let said = serde_json::from_slice::<Statement>(&record.payload).ok()?.predicate;
    let attests = said.kind == Kind::KeyRotate && said.control.usage.as_deref() == Some(KeyUse::Attest.as_str());
    PublicKey::from_hex(&said.control.new_key.filter(|_| attests)?)
}

/// Rotates the log's keys. A log in memory begins anew with each process, and with it any key.
pub(crate) fn rotation(
    config: &Config,
    recorder: &Arc<Recorder>,
    checkpoints: &Arc<CheckpointKeys>,
) -> Option<Arc<Rotation>> {
    let notes: (_, Box<dyn KeyPlace>) = (checkpoints.clone(), Box::new(KeyFile::of_checkpoints(config)));
    let kept = config.lineage.mode != LineageMode::Memory;
    kept.then(|| Arc::new(Rotation::new(recorder.clone(), Box::new(KeyFile::of(config)), notes)))
}

/// The key that signs checkpoints: the configured file, or one made where no checkpoint was signed yet.
pub(crate) fn checkpoint_signer(config: &Config) -> Result<Signer> {
    let own = config.data_dir.join("lineage-checkpoint.key");
    let bytes = match &config.lineage.checkpoint_key_file {
        Some(file) => signet_config::read_file(file).with_context(|| format!("reading {}", file.display()))?,
        None if !own.exists() && config.lineage.dir.join("checkpoint").exists() => {
            bail!(
                "{} is gone, but a checkpoint that it signed is there: restore the key, or move the log away",
                own.display()
            )
        }
        None => folder::read_or_make(&own, || Signer::generate().to_pkcs8().to_vec())?,
    };
    Signer::from_pkcs8(&bytes).context("the checkpoint key is not an Ed25519 key in PKCS#8 form")
}

/// The admin API's token: the configured one, or one made on the first start.
pub(crate) fn admin_token(config: &Config) -> Result<Secret<String>> {
    if let Some(token) = &config.admin.token {
        return Ok(token.clone());
    }
    let bytes = folder::read_or_make(&config.data_dir.join("admin.token"), || hex(&random()).into_bytes())?;
    let token = String::from_utf8(bytes).context("admin.token is not text")?.trim().to_owned();
    if token.is_empty() {
        bail!("admin.token is empty");
    }
    Ok(Secret::new(token))
}

/// The secret that is at hand without asking the store: configured, or mirrored by an earlier start.
pub(crate) fn secret_at_hand(config: &Config) -> Result<Option<[u8; 32]>> {
    if let Some(secret) = &config.auth.tenant_secret {
        return Ok(Some(*secret.expose()));
    }
    let file = mirror(config);
    match fs::read(&file) {
        Ok(bytes) => bytes.try_into().map(Some).ok().with_context(|| format!("{} is damaged", file.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("reading {}", file.display())),
    }
}

/// Waits for the store's secret, making one there if there is none, and mirrors it. `note` is told why it waits.
pub(crate) async fn secret_of_store(
    config: &Config,
    store: &dyn KeyStore,
    note: impl Fn(Option<String>),
) -> Result<[u8; 32]> {
    loop {
        match store.secret_or_insert(random()).await {
            Ok(secret) => {
                note(None);
                folder::write_private(&mirror(config), &secret)?;
                return Ok(secret);
            }
            Err(fault) => {
                note(Some(fault.to_string()));
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

fn mirror(config: &Config) -> std::path::PathBuf {
    Path::new(&config.data_dir).join("tenant.secret")
}

pub(crate) fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the operating system gives entropy");
    bytes
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        use std::fmt::Write;
        write!(text, "{byte:02x}").expect("writing to a String does not fail");
        text
    })
}
