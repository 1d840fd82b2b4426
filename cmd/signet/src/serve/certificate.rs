//! The listener's certificate, which is renewed on the disk while the process runs.

use super::keys::hex;
use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use signet_config::{Config, TlsFiles};
use signet_http::{Health, Tls};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Certificates change every few weeks; links of a mounted volume change without an event for their target.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A certificate in use, and where the next one will be.
#[derive(Clone)]
pub(crate) struct Certificate {
    files: TlsFiles,
    pub(crate) tls: Arc<Tls>,
    /// What the files held when they were last looked at, good or not.
    seen: [u8; 32],
}

impl Certificate {
    /// The configured one, if there is one.
    pub(crate) fn of(config: &Config) -> Result<Option<Self>> {
        let Some(files) = config.server.tls.clone() else { return Ok(None) };
        let pair = Pair::read(&files)?;
        let tls = Arc::new(Tls::new(&pair.chain, &pair.key).context("server.tls_cert_file, server.tls_key_file")?);
        Ok(Some(Self { files, tls, seen: pair.digest() }))
    }

    /// Takes a new one as soon as it is there.
    pub(crate) async fn watch(mut self, health: Arc<Health>, stop: CancellationToken) {
        while tokio::time::timeout(LOOK_EVERY, stop.cancelled()).await.is_err() {
            match self.renew() {
                Ok(false) => {}
                Ok(true) => {
                    tracing::info!(files = hex(&self.seen[..8]), "a new certificate is in use");
                    health.note("tls", None);
                }
                Err(fault) => {
                    tracing::error!("the certificate was not renewed: {fault:#}");
                    health.note("tls", Some(format!("the certificate before is in use: {fault:#}")));
                }
            }
        }
    }

    /// Whether there was a new one that is in use now. A pair is judged once; half of a new one is a fault until the other
    /// half is there.
    fn renew(&mut self) -> Result<bool> {
        let pair = match Pair::read(&self.files) {
            Ok(pair) if pair.digest() == self.seen => return Ok(false),
            Err(_) if self.seen == [0; 32] => return Ok(false),
            read => read,
        };
        self.seen = pair.as_ref().map_or([0; 32], Pair::digest);
        let pair = pair?;
        self.tls.replace(&pair.chain, &pair.key).context("server.tls_cert_file, server.tls_key_file")?;
        Ok(true)
    }
}

struct Pair {
    chain: Vec<u8>,
    key: Vec<u8>,
}

impl Pair {
    fn read(files: &TlsFiles) -> Result<Self> {
        let read =
            |setting: &str, file: &Path| fs::read(file).with_context(|| format!("{setting} = {}", file.display()));
        Ok(Self { chain: read("server.tls_cert_file", &files.chain)?, key: read("server.tls_key_file", &files.key)? })
    }

    fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update((self.chain.len() as u64).to_be_bytes());
        hash.update(&self.chain);
        hash.update(&self.key);
        hash.finalize().into()
    }
}
