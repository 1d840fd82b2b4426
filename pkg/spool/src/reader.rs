//! Reading a log's directory without its lock, for auditors.

use crate::config::OpenFault;
use crate::files::{Disk, Files};
use crate::frame::{segment_first_seq, segment_name};
use crate::segment::Segment;
use crate::{identity, recover};
use signet_lineage::Record;
use signet_types::LogId;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

/// The log and where its segments begin, in order.
fn segments(files: &Disk) -> Result<Option<(LogId, Vec<u64>)>, OpenFault> {
    let Some(log) = identity::read(files)? else { return Ok(None) };
    let mut firsts: Vec<u64> = files.list()?.iter().filter_map(|n| segment_first_seq(n)).collect();
    firsts.sort_unstable();
    if let Some(&newest) = firsts.last()
        && recover::is_blank(files, newest).unwrap_or(false)
    {
        firsts.pop();
    }
    Ok(Some((log, firsts)))
}

/// The last readable record in `dir`, without its lock.
pub fn newest_record(dir: &Path) -> Result<Option<Record>, OpenFault> {
    let Some((_, firsts)) = segments(&Disk::new(dir))? else { return Ok(None) };
    for first in firsts.into_iter().rev() {
        let mut newest = None;
        read_records(dir, first, |record| {
            newest = Some(record);
            ControlFlow::Continue(())
        })?;
        if newest.is_some() {
            return Ok(newest);
        }
    }
    Ok(None)
}

/// Gives the records with `seq >= from_seq` in `dir` to `each`, in order, until it breaks; returns the log's id, none if
/// there is no log. A writer may be at work: what it removes or appends meanwhile may or may not be seen. What is not
/// readable is left out, so a hole in seq is for the caller to judge.
pub fn read_records(
    dir: &Path,
    from_seq: u64,
    mut each: impl FnMut(Record) -> ControlFlow<()>,
) -> Result<Option<LogId>, OpenFault> {
    let files = Disk::new(dir);
    let Some((log, firsts)) = segments(&files)? else { return Ok(None) };
    let ends = firsts.iter().skip(1).copied().chain([u64::MAX]);
    for (&first, end) in firsts.iter().zip(ends).filter(|(_, end)| *end > from_seq) {
        let head = match recover::head(&files, log, first) {
            Err(OpenFault::Io(e)) if e.kind() == io::ErrorKind::NotFound => continue, // shipped and removed meanwhile
            other => other?,
        };
        let len = files.open(&segment_name(first))?.size()?;
        let mut flow = ControlFlow::Continue(());
        Segment::unread(&head, len).span(from_seq, end).read(&files, log, |record| {
            flow = each(record);
            flow
        })?;
        if flow.is_break() {
            break;
        }
    }
    Ok(Some(log))
}
