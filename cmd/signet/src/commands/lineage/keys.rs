//! `signet lineage keys`.

use super::super::out::say;
use super::source::{Source, stored_logs};
use crate::exit;
use anyhow::{Context, Result, anyhow};
use serde::Deserialize;
use signet_lineage::tlog::NoteKey;
use signet_lineage::{PublicKey, Signer};
use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;

pub(super) fn keys(source: &Source) -> Result<u8> {
    say(&text(source)?);
    Ok(exit::OK)
}

/// The public keys of a folder: the one that signs records as PEM, the one that signs checkpoints as a verifier key.
pub(super) fn text(source: &Source) -> Result<String> {
    let key = signer(source, "lineage.key")?.public_key();
    let mut text = key.to_pem();
    if source.folder().join("lineage-checkpoint.key").exists() {
        let public = signer(source, "lineage-checkpoint.key")?.public_key();
        for name in names(source, &key)? {
            let key = NoteKey::new(&name, public).ok_or_else(|| anyhow!("{name} is no key's name"))?;
            text.extend([key.to_string().as_str(), "\n"]);
        }
    }
    Ok(text)
}

fn signer(source: &Source, name: &str) -> Result<Signer> {
    let file = source.folder().join(name);
    let bytes = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
    Signer::from_pkcs8(&bytes).with_context(|| format!("reading the key in {}", file.display()))
}

#[derive(Deserialize)]
struct Opening {
    predicate: Predicate,
}

#[derive(Deserialize)]
struct Predicate {
    control: Control,
}

#[derive(Deserialize)]
struct Control {
    origin: String,
}

/// The names of the logs that this key signs: the folder's own, as its first record says, and those of the database. A log
/// in memory is only there.
fn names(source: &Source, key: &PublicKey) -> Result<BTreeSet<String>> {
    let rows = stored_logs(source)?.into_iter().filter(|row| row.attest_key == *key.as_bytes());
    let mut names: BTreeSet<_> = rows.map(|row| format!("{}/{}", row.origin, row.log)).collect();
    if let Some(dir) = source.log_folder() {
        signet_spool::read_records(&dir, 0, |record| {
            let opening = Some(&record).filter(|record| record.seq == 0);
            let opening = opening.and_then(|record| serde_json::from_slice::<Opening>(&record.payload).ok());
            names.extend(opening.map(|opening| format!("{}/{}", opening.predicate.control.origin, record.log)));
            ControlFlow::Break(())
        })?;
    }
    Ok(names)
}
