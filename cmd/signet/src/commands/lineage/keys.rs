//! `signet lineage keys`.

use super::super::out::say;
use super::source::{Seen, Source, each_stored};
use crate::exit;
use anyhow::{Context, Result, anyhow};
use serde::Deserialize;
use signet_lineage::Signer;
use signet_lineage::tlog::NoteKey;
use signet_spool::{Config as SpoolConfig, Spool};
use std::fs;

pub(super) fn keys(source: &Source) -> Result<u8> {
    say(&text(source)?);
    Ok(exit::OK)
}

/// The public keys of a folder: the one that signs records as PEM, the one that signs checkpoints as a verifier key.
pub(super) fn text(source: &Source) -> Result<String> {
    let mut text = signer(source, "lineage.key")?.public_key().to_pem();
    if source.folder().join("lineage-checkpoint.key").exists() {
        let public = signer(source, "lineage-checkpoint.key")?.public_key();
        let key = NoteKey::new(&origin(source)?, public).ok_or_else(|| anyhow!("the log's origin is no key's name"))?;
        text.extend([key.to_string().as_str(), "\n"]);
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

/// The name of the folder's log: what its first record says, and its id.
fn origin(source: &Source) -> Result<String> {
    let dir = source.log_folder().context("the folder has no log")?;
    let own = Spool::peek(&SpoolConfig::new(dir))?.context("the folder has no log")?;
    let mut found = None;
    each_stored(source, &mut |seen| match seen {
        Seen::Log(row) if row.log == own => found = Some(row.origin),
        Seen::Record(record, _) if record.log == own && record.seq == 0 && found.is_none() => {
            let opening = serde_json::from_slice::<Opening>(&record.payload);
            found = opening.ok().map(|opening| opening.predicate.control.origin);
        }
        _ => {}
    })?;
    Ok(format!("{}/{own}", found.context("the log's first record is not there")?))
}
