//! Where an auditor's records come from: a data folder, a database, both, or an export.

use super::super::out::complain;
use crate::serve::rest::set_aside;
use anyhow::{Context, Result, bail};
use clap::Args;
use rustix::fs::{FlockOperation, flock};
use signet_lineage::verify::Stored;
use signet_lineage::{LogRow, Record};
use signet_pipeline::forked_at;
use signet_spool::{Config as SpoolConfig, Spool};
use signet_store::{Options as StoreOptions, StoredRow, Stores, Unreadable};
use signet_types::LogId;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;

const PAGE: u32 = 2_000;
/// What the reader hands on at once, and how often it may be ahead.
const BATCH: usize = 512;
const AHEAD: usize = 8;

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

    /// The folder whose log is read, if one is.
    pub(super) fn log_folder(&self) -> Option<PathBuf> {
        let folder = if self.db.is_some() { self.data.as_deref() } else { Some(self.folder()) };
        folder.map(|folder| folder.join("lineage")).filter(|dir| dir.exists())
    }

    pub(super) fn has_database(&self) -> bool {
        self.db.is_some() || self.folder().join("signet.db").exists()
    }

    /// Whether somebody may be writing meanwhile: to a database that others reach, or to a folder whose lock is held.
    pub(super) fn is_live(&self) -> bool {
        self.db.is_some() || is_locked(&self.folder().join("LOCK"))
    }
}

/// A shared lock for a moment, in the place of one of our own: who waits for the folder asks again within its patience.
fn is_locked(lock: &Path) -> bool {
    File::open(lock).is_ok_and(|file| {
        flock(&file, FlockOperation::NonBlockingLockShared).is_err_and(|error| error == rustix::io::Errno::WOULDBLOCK)
    })
}

/// What a source holds.
pub(in crate::commands) enum Seen {
    Log(LogRow),
    /// A log of which records were dropped: where it begins.
    Pruned(LogId, u64),
    /// About how many records there are in all.
    Of(u64),
    /// A signed checkpoint that stands beside the records.
    Checkpoint(String),
    /// A record, and the copies of its fields that a database keeps beside it.
    Record(Record, Box<Stored>),
    /// A row that holds no record.
    Unread(LogId, Unreadable),
    /// A part of an export that is not what it should be.
    Broken(String),
    /// Records of a log that the database does not list.
    Stray(String),
    /// What is there and cannot be judged.
    Aside(String),
}

impl Seen {
    /// The record and what stands beside it. A row that holds none is complained of.
    pub(in crate::commands) fn record(self) -> Option<(Record, Box<Stored>)> {
        match self {
            Self::Record(record, beside) => Some((record, beside)),
            Self::Unread(log, row) => {
                complain(&format!("signet: log {log}: {row}"));
                None
            }
            _ => None,
        }
    }
}

/// Reads on a thread of its own, ahead of what is done with it.
pub(super) fn ahead<T: Send>(
    read: impl FnOnce(&mut dyn FnMut(T)) -> Result<()> + Send,
    each: impl FnMut(T),
) -> Result<()> {
    std::thread::scope(|scope| {
        let (give, take) = sync_channel::<Vec<T>>(AHEAD);
        let reader = scope.spawn(move || {
            let mut batch = Vec::with_capacity(BATCH);
            let done = read(&mut |item| {
                batch.push(item);
                if batch.len() == BATCH {
                    // A taker that has gone ends the process's work anyway.
                    drop(give.send(std::mem::replace(&mut batch, Vec::with_capacity(BATCH))));
                }
            });
            drop(give.send(batch));
            done
        });
        take.into_iter().flatten().for_each(each);
        reader.join().expect("reading does not panic")
    })
}

/// Gives every record of a source, by log and seq: of each log the shipped rows first, then what the folder's own log holds
/// beyond them. What is said of whole logs comes before all records, so that those may grow meanwhile.
pub(in crate::commands) fn each_stored(source: &Source, each: &mut dyn FnMut(Seen)) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let database = source.has_database();
    let spool = source.log_folder();
    if !database && spool.is_none() {
        bail!("{} holds no lineage", source.folder().display());
    }
    let own = spool.as_ref().map(|dir| Spool::peek(&SpoolConfig::new(dir))).transpose()?.flatten();
    spool.iter().try_for_each(|dir| checkpoint(dir, each))?;
    let stores = if database { open(&runtime, source)? } else { None };
    let rows = stores.as_ref().map_or(Ok(Vec::new()), |stores| runtime.block_on(stores.records.logs()))?;
    for row in &rows {
        let trees = stores.as_ref().map(|stores| &stores.trees).expect("rows are of a database");
        if let Some(note) = runtime.block_on(trees.newest_checkpoint(row.log))? {
            each(Seen::Checkpoint(note));
        }
    }
    let strays = stores.as_ref().map_or(Ok(Vec::new()), |stores| runtime.block_on(stores.strays()))?;
    for log in strays {
        each(Seen::Stray(log));
    }
    let mut logs: BTreeMap<LogId, bool> = rows.iter().map(|row| (row.log, true)).collect();
    let aside: BTreeMap<LogId, PathBuf> = spool.as_deref().map_or(Ok(Vec::new()), set_aside)?.into_iter().collect();
    for log in own.into_iter().chain(aside.keys().copied()) {
        logs.entry(log).or_insert(false);
    }
    each(Seen::Of(rows.iter().map(|row| row.next_seq).sum()));
    for row in rows {
        each(Seen::Log(row));
    }
    if let Some(stores) = &stores {
        // A database that no later version has migrated knows of none.
        for pruned in runtime.block_on(stores.prunes.pruned()).unwrap_or_default() {
            each(Seen::Pruned(pruned.log, pruned.below_seq));
        }
    }
    for (log, in_database) in logs {
        let mut from = 0;
        if let Some(stores) = stores.as_ref().filter(|_| in_database) {
            from = runtime.block_on(each_row(stores, log, each))?;
        }
        if let Some(dir) = aside.get(&log) {
            runtime.block_on(each_beyond(dir, from, stores.as_ref(), each))?;
        } else if let Some(dir) = spool.as_ref().filter(|_| own == Some(log)) {
            signet_spool::read_records(dir, from, |record| {
                each(Seen::Record(record, Box::default()));
                ControlFlow::Continue(())
            })?;
        }
    }
    Ok(())
}

/// The logs that the source's database knows.
pub(super) fn stored_logs(source: &Source) -> Result<Vec<LogRow>> {
    let logs = with_stores(source, async |stores| Ok(stores.records.logs().await?))?;
    Ok(logs.unwrap_or_default())
}

/// Asks the source's database something; none if it has none.
pub(super) fn with_stores<T>(source: &Source, ask: impl AsyncFnOnce(Stores) -> Result<T>) -> Result<Option<T>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let stores = if source.has_database() { open(&runtime, source)? } else { None };
    stores.map(|stores| runtime.block_on(ask(stores))).transpose()
}

pub(super) fn open(runtime: &tokio::runtime::Runtime, source: &Source) -> Result<Option<Stores>> {
    let url = source.db.clone().unwrap_or_else(|| "sqlite://signet.db".to_owned());
    let stores = {
        let _inside = runtime.enter();
        Stores::open_read_only(&StoreOptions::new(url, source.folder()))?
    };
    if runtime.block_on(stores.has_schema())? {
        return Ok(Some(stores));
    }
    // Nothing was ever shipped to it, or it was replaced: what the log holds must stand by itself.
    complain("signet lineage: the database holds no lineage tables; what the data folder's log holds is all there is");
    Ok(None)
}

/// The last checkpoint that a log folder holds.
fn checkpoint(dir: &Path, each: &mut dyn FnMut(Seen)) -> Result<()> {
    let file = dir.join("checkpoint");
    match fs::read_to_string(&file) {
        Ok(note) => each(Seen::Checkpoint(note)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("reading {}", file.display())),
    }
    Ok(())
}

/// Gives what a log that was set aside holds beyond its rows, of which `next` is not there. If another process wrote the log
/// on, what the folder holds is not the log's.
async fn each_beyond(dir: &Path, next: u64, stores: Option<&Stores>, each: &mut dyn FnMut(Seen)) -> Result<()> {
    let Some(newest) = signet_spool::newest_record(dir)? else { return Ok(()) };
    let fork = match stores {
        Some(stores) => forked_at(dir, &*stores.records).await?,
        None => None,
    };
    if let Some(first) = fork {
        let (records, log, dir) = (newest.seq + 1 - first, newest.log, dir.display());
        each(Seen::Aside(format!(
            "{records} records of log {log} in {dir}, from seq {first} on: another process wrote the log on"
        )));
        return Ok(());
    }
    signet_spool::read_records(dir, next, |record| {
        each(Seen::Record(record, Box::default()));
        ControlFlow::Continue(())
    })?;
    Ok(())
}

/// Gives the rows of a log; the seq behind the last.
async fn each_row(stores: &Stores, log: LogId, each: &mut dyn FnMut(Seen)) -> Result<u64> {
    // A place that no record can have is read too, and told as what it is.
    let (mut from, mut next) = (Some(i64::MIN), 0);
    while let Some(at) = from {
        let mut page = stores.rows(log, at, PAGE).await?;
        let Some(last) = page.last().map(place) else { break };
        next = u64::try_from(last).map_or(0, |last| last + 1);
        from = behind(&mut page);
        for row in page {
            each(match row {
                Ok((record, beside)) => Seen::Record(record, Box::new(beside)),
                Err(row) => Seen::Unread(log, row),
            });
        }
    }
    Ok(next)
}

fn place(row: &StoredRow) -> i64 {
    // What was read of a row's place is what stands there.
    row.as_ref().map_or_else(|row| row.seq.unwrap_or(i64::MAX), |(record, _)| record.seq.cast_signed())
}

/// Where the next page begins, none behind the last seq that there can be. A full page leaves its last seq to the next one: a second
/// row of it, which somebody added, may stand there.
fn behind(page: &mut Vec<StoredRow>) -> Option<i64> {
    let (first, last) = (place(page.first()?), place(page.last()?));
    if page.len() < PAGE as usize || first == last {
        return last.checked_add(1);
    }
    page.retain(|row| place(row) < last);
    Some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a database gives them: the rows from a seq on, in order. None of them can be read.
    fn paged(seqs: &[i64]) -> Vec<i64> {
        let (mut from, mut read) = (Some(i64::MIN), Vec::new());
        while let Some(at) = from {
            let rows = seqs.iter().filter(|seq| **seq >= at).take(PAGE as usize);
            let mut page: Vec<StoredRow> =
                rows.map(|&seq| Err(Unreadable { seq: Some(seq), why: String::new() })).collect();
            from = behind(&mut page);
            read.extend(page.iter().map(place));
        }
        read
    }

    #[test]
    fn a_second_row_of_a_seq_is_read_wherever_a_page_ends() {
        let page = i64::from(PAGE);
        for again in [0, page - 2, page - 1, page, 2 * page - 2, 2 * page - 1, 2 * page, 3 * page - 1] {
            let mut seqs: Vec<i64> = (0..3 * page).chain([again]).collect();
            seqs.sort_unstable();
            assert_eq!(paged(&seqs), seqs, "{again}");
        }
        assert_eq!(paged(&[]), [0_i64; 0]);
    }

    #[test]
    fn rows_at_seqs_that_no_record_can_have_are_read_once() {
        let page = i64::from(PAGE);
        let below = (i64::MIN..).take(PAGE as usize + 7).chain(-page..page);
        let seqs: Vec<i64> = below.chain(i64::MAX - page..=i64::MAX).collect();
        assert_eq!(paged(&seqs), seqs);
    }

    #[test]
    fn a_folder_is_live_while_somebody_holds_its_lock() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let source = Source { data: Some(folder.path().to_owned()), db: None, default_data: PathBuf::new() };
        assert!(!source.is_live(), "there is no lock");
        let lock = File::create(folder.path().join("LOCK")).expect("a file");
        flock(&lock, FlockOperation::NonBlockingLockExclusive).expect("nobody else has it");
        assert!(source.is_live());
        drop(lock);
        assert!(!source.is_live());
        assert!(Source { db: Some("postgres://somewhere".to_owned()), ..source }.is_live());
    }

    #[test]
    fn what_is_read_ahead_comes_in_order_and_whole_and_a_fault_ends_it() {
        for count in [0, 1, BATCH, 3 * BATCH + 7, 20 * BATCH] {
            let mut taken = Vec::new();
            let read = |give: &mut dyn FnMut(usize)| {
                (0..count).try_for_each(|n| {
                    give(n);
                    Ok(())
                })
            };
            ahead(read, |n| taken.push(n)).expect("no fault");
            assert!(taken.iter().copied().eq(0..count), "{count}");
        }
        let fault = ahead(
            |give: &mut dyn FnMut(u8)| {
                give(1);
                bail!("no more")
            },
            |n| assert_eq!(n, 1),
        );
        assert_eq!(fault.expect_err("it was told").to_string(), "no more");
    }
}
