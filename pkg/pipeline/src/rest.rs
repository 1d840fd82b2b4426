//! Ships what a log that was set aside holds beyond the database. Nothing is ever appended to such a log.
//!
//! It may have been set aside because another process wrote it on, from a copy of the folder. So the last record that the
//! database has must be this folder's own: it stands at the beginning of the first batch too, where the database compares it
//! under the fence. Otherwise nothing is shipped, and someone is told what the folder holds.

use signet_lineage::{DeclaredGap, LogRow, Record, RecordStore, ShipFault};
use signet_spool::{OpenFault, newest_record, read_records};
use signet_types::LogId;
use std::ops::ControlFlow;
use std::path::Path;

const BATCH_RECORDS: usize = 1_000;
const BATCH_BYTES: usize = 4 << 20;
/// What stands in the statement of a gap, and makes it worth while to check its signature.
const KIND_GAP: &[u8] = b"\"kind\":\"gap\"";

/// What became of the records that the database did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rest {
    /// It holds all of them; so many were shipped now.
    Shipped(u64),
    /// So many stay in the folder, and why.
    Left(u64, String),
}

/// Why it cannot be told yet.
#[derive(Debug, thiserror::Error)]
pub enum RestFault {
    /// The database is away, or refuses.
    #[error(transparent)]
    Store(#[from] ShipFault),
    /// The folder cannot be read.
    #[error("a log that was set aside cannot be read: {0}")]
    Folder(#[from] OpenFault),
}

/// What a folder holds.
struct Held {
    log: LogId,
    end: u64,
    epoch: u32,
    /// Statements about missing records, and where they stand.
    gaps: Vec<(DeclaredGap, Record)>,
}

/// Ships the log in `dir` under its own last epoch; `row` has the origin and the key of this process.
///
/// # Errors
/// The database or the folder cannot be used now; asking again goes on.
pub async fn ship_rest(dir: &Path, row: &LogRow, store: &dyn RecordStore) -> Result<Rest, RestFault> {
    let Some(newest) = newest_record(dir)?.filter(|newest| newest.log == row.log) else { return Ok(Rest::Shipped(0)) };
    let end = newest.seq + 1;
    let left = |next: u64, why: &str| Ok(Rest::Left(end - next, why.to_owned()));
    if let Some(fork) = forked_at(dir, store).await? {
        return left(fork, "another process wrote the log on");
    }
    let stored = store.logs().await?.into_iter().find(|stored| stored.log == row.log);
    let next = stored.as_ref().map_or(0, |stored| stored.next_seq);
    if end <= next {
        return Ok(Rest::Shipped(0));
    }
    let before = next.checked_sub(1).map(|seq| at(dir, seq)).transpose()?.flatten();
    if next > 0 && before.is_none() {
        return left(next, "the record before them is not in the folder");
    }
    let key = stored.as_ref().filter(|stored| stored.epoch == newest.epoch).map_or(row.attest_key, |s| s.attest_key);
    match store.register(&LogRow { epoch: newest.epoch, attest_key: key, ..row.clone() }).await {
        Err(fault @ ShipFault::Fenced { .. }) => return left(next, &fault.to_string()),
        other => other?,
    };
    let held = Held { log: row.log, end, epoch: newest.epoch, gaps: gaps(dir, next, &key)? };
    match ship(dir, &held, (next, before), store).await? {
        Ok(()) => Ok(Rest::Shipped(end - next)),
        Err((next, why)) => left(next, &why),
    }
}

/// The first record in `dir` that is not the database's at its place; none as far as that can be told. Whoever wrote
/// another one wrote all that follow, so it is searched for in halves.
///
/// # Errors
/// The database or the folder cannot be used.
pub async fn forked_at(dir: &Path, store: &dyn RecordStore) -> Result<Option<u64>, RestFault> {
    let Some(newest) = newest_record(dir)? else { return Ok(None) };
    let stored = store.logs().await?.into_iter().find(|stored| stored.log == newest.log);
    let (mut same, mut end) = (0, stored.map_or(0, |stored| stored.next_seq).min(newest.seq + 1));
    if end == 0 || !differs(dir, newest.log, end - 1, store).await? {
        return Ok(None);
    }
    while same + 1 < end {
        let middle = same + (end - same) / 2;
        if differs(dir, newest.log, middle - 1, store).await? { end = middle } else { same = middle }
    }
    Ok(Some(same))
}

/// Whether folder and database hold two records for one place. By the signatures: a stored payload may be erased.
async fn differs(dir: &Path, log: LogId, seq: u64, store: &dyn RecordStore) -> Result<bool, RestFault> {
    let theirs = store.records(log, seq, 1).await?.into_iter().find(|record| record.seq == seq);
    Ok(at(dir, seq)?.zip(theirs).is_some_and(|(ours, theirs)| ours.sig != theirs.sig))
}

/// Batch after batch, each behind the last record of the one before. The inner error is final: how far it came, and why.
async fn ship(
    dir: &Path,
    held: &Held,
    (mut next, mut before): (u64, Option<Record>),
    store: &dyn RecordStore,
) -> Result<Result<(), (u64, String)>, RestFault> {
    while next < held.end {
        let records = batch(dir, next, BATCH_RECORDS)?;
        let begins = records.first().map_or(held.end, |first| first.seq);
        let shipped = if begins > next {
            let here = |gap: &&(DeclaredGap, Record)| gap.0.from == next && gap.0.to < begins;
            let Some((_, record)) = held.gaps.iter().find(here) else {
                return Ok(Err((
                    next,
                    format!("records {next} to {} are missing and nothing declares them", begins - 1),
                )));
            };
            before = None;
            store.pass_gap(held.log, held.epoch, record).await
        } else {
            let last = records.last().cloned();
            let all: Vec<Record> = before.take().into_iter().chain(records).collect();
            before = last;
            store.ship(held.log, held.epoch, &all).await
        };
        next = match shipped {
            Err(fault @ (ShipFault::Fenced { .. } | ShipFault::Equivocation { .. } | ShipFault::Gap { .. })) => {
                return Ok(Err((next, fault.to_string())));
            }
            other => other?,
        };
    }
    Ok(Ok(()))
}

fn gaps(dir: &Path, from: u64, key: &[u8; 32]) -> Result<Vec<(DeclaredGap, Record)>, OpenFault> {
    let mut gaps = Vec::new();
    read_records(dir, from, |record| {
        let may_declare = record.payload.windows(KIND_GAP.len()).any(|part| part == KIND_GAP);
        if may_declare && let Some(gap) = DeclaredGap::read(&record, key) {
            gaps.push((gap, record));
        }
        ControlFlow::Continue(())
    })?;
    Ok(gaps)
}

fn at(dir: &Path, seq: u64) -> Result<Option<Record>, OpenFault> {
    Ok(batch(dir, seq, 1)?.into_iter().find(|record| record.seq == seq))
}

/// Records from `from` on without a hole, within both bounds.
fn batch(dir: &Path, from: u64, most: usize) -> Result<Vec<Record>, OpenFault> {
    let (mut records, mut bytes): (Vec<Record>, usize) = (Vec::new(), 0);
    read_records(dir, from, |record| {
        bytes += record.payload.len();
        let hole = records.last().is_some_and(|last| last.seq + 1 != record.seq);
        if hole || records.len() == most || (bytes > BATCH_BYTES && !records.is_empty()) {
            return ControlFlow::Break(());
        }
        records.push(record);
        ControlFlow::Continue(())
    })?;
    Ok(records)
}
