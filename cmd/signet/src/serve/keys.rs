//! The signing key, the tenant secret and the admin token.

use super::folder;
use anyhow::{Context, Result, bail};
use signet_cache::KeyStore;
use signet_config::Config;
use signet_lineage::Signer;
use signet_types::Secret;
use std::fs;
use std::path::Path;
use std::time::Duration;

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
