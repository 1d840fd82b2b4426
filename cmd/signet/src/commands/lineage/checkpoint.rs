//! `signet lineage checkpoint`: the newest checkpoint of each log, whole and signed, to be kept elsewhere.

use super::super::out::{complain, say};
use super::source::Source;
use crate::exit;
use anyhow::{Context, Result};
use signet_lineage::tlog::anchored;
use signet_spool::{Config as SpoolConfig, Spool};
use signet_store::{Options as StoreOptions, Stores};
use signet_types::LogId;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Size and note by log.
type Newest = BTreeMap<LogId, (u64, String)>;

pub(super) fn checkpoint(source: &Source) -> Result<u8> {
    let mut newest = Newest::new();
    let folder = if source.db.is_some() { source.data.as_deref() } else { Some(source.folder()) };
    if let Some(dir) = folder.map(|folder| folder.join("lineage")).filter(|dir| dir.exists()) {
        of_folder(&dir, &mut newest)?;
    }
    if source.db.is_some() || source.folder().join("signet.db").exists() {
        let url = source.db.clone().unwrap_or_else(|| "sqlite://signet.db".to_owned());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(of_database(&StoreOptions::new(url, source.folder()), &mut newest))?;
    }
    if newest.is_empty() {
        complain("signet lineage checkpoint: no checkpoint was signed yet");
        return Ok(exit::FAILURE);
    }
    for (_, note) in newest.values() {
        say(&anchored(note));
    }
    Ok(exit::OK)
}

fn of_folder(dir: &Path, newest: &mut Newest) -> Result<()> {
    let file = dir.join("checkpoint");
    match (Spool::peek(&SpoolConfig::new(dir))?, fs::read_to_string(&file)) {
        (Some(log), Ok(note)) => keep(newest, log, note),
        (_, Err(error)) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("reading {}", file.display()));
        }
        _ => {}
    }
    Ok(())
}

async fn of_database(options: &StoreOptions, newest: &mut Newest) -> Result<()> {
    let stores = Stores::open_read_only(options)?;
    if !stores.has_schema().await? {
        return Ok(());
    }
    for row in stores.records.logs().await? {
        if let Some(note) = stores.trees.newest_checkpoint(row.log).await? {
            keep(newest, row.log, note);
        }
    }
    Ok(())
}

/// What says nothing of the log, because another was there before, is left out.
fn keep(newest: &mut Newest, log: LogId, note: String) {
    let mut lines = note.lines();
    let own = lines.next().is_some_and(|origin| origin.ends_with(&format!("/{log}")));
    let Some(size) = lines.next().and_then(|size| size.parse().ok()).filter(|_| own) else { return };
    if newest.get(&log).is_none_or(|(held, _)| *held < size) {
        newest.insert(log, (size, note));
    }
}
