//! Where an auditor's records come from: a data folder, a database, or both.

use super::super::out::complain;
use anyhow::{Result, bail};
use clap::Args;
use signet_lineage::verify::Stored;
use signet_lineage::{LogRow, Record};
use signet_spool::{Config as SpoolConfig, Spool};
use signet_store::{Options as StoreOptions, Stores};
use signet_types::LogId;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

const PAGE: u32 = 5_000;

#[derive(Args)]
pub(crate) struct Source {
    /// A data folder: its database and what is not in it yet; ./signet-data if nothing else is given.
    #[arg(long)]
    pub(super) data: Option<PathBuf>,
    /// A database, as a postgres:// or sqlite:// URL. With a data folder beside it: and what only its log holds yet.
    #[arg(long)]
    pub(super) db: Option<String>,
    /// The data folder of the environment.
    #[arg(long, env = "SIGNET_DATA", default_value = "./signet-data", hide = true)]
    default_data: PathBuf,
}

impl Source {
    pub(super) fn folder(&self) -> &Path {
        self.data.as_ref().unwrap_or(&self.default_data)
    }
}

/// What a source holds.
pub(in crate::commands) enum Seen {
    Log(LogRow),
    /// A record, and the copies of its fields that a database keeps beside it.
    Record(Record, Box<Stored>),
}

/// Gives every record of a source, log by log in order: shipped rows first, then what the folder's own log holds beyond
/// them.
pub(in crate::commands) fn each_stored(source: &Source, each: &mut dyn FnMut(Seen)) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let folder = if source.db.is_some() { source.data.as_deref() } else { Some(source.folder()) };
    let url = source.db.clone().unwrap_or_else(|| "sqlite://signet.db".to_owned());
    let database = source.db.is_some() || source.folder().join("signet.db").exists();
    let spool = folder.map(|folder| folder.join("lineage")).filter(|dir| dir.exists());
    if !database && spool.is_none() {
        bail!("{} holds no lineage", source.folder().display());
    }
    let mut next: BTreeMap<LogId, u64> = BTreeMap::new();
    if database {
        let stores = {
            let _inside = runtime.enter();
            Stores::open_read_only(&StoreOptions::new(url, source.folder()))?
        };
        if runtime.block_on(stores.has_schema())? {
            runtime.block_on(each_row(&stores, &mut next, each))?;
        } else {
            // Nothing was ever shipped to it, or it was replaced: what the log holds must stand by itself.
            complain(
                "signet lineage: the database holds no lineage tables; what the data folder's log holds is all there is",
            );
        }
    }
    if let Some(dir) = spool {
        let log = Spool::peek(&SpoolConfig::new(&dir))?;
        let from = log.and_then(|log| next.get(&log).copied()).unwrap_or(0);
        signet_spool::read_records(&dir, from, |record| {
            each(Seen::Record(record, Box::default()));
            ControlFlow::Continue(())
        })?;
    }
    Ok(())
}

async fn each_row(stores: &Stores, next: &mut BTreeMap<LogId, u64>, each: &mut dyn FnMut(Seen)) -> Result<()> {
    for row in stores.records.logs().await? {
        let log = row.log;
        each(Seen::Log(row));
        let mut from = 0;
        loop {
            let page = stores.stored(log, from, PAGE).await?;
            let Some((last, _)) = page.last() else { break };
            from = last.seq + 1;
            for (record, beside) in page {
                each(Seen::Record(record, Box::new(beside)));
            }
        }
        next.insert(log, from);
    }
    Ok(())
}
