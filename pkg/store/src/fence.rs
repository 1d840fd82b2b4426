//! The rule that makes shipping exactly-once: what a batch may do, given where the database stands.

use crate::columns::Row;
use signet_lineage::{LogRow, ShipFault};
use signet_types::LogId;
use std::collections::HashMap;

/// How many leading records of `batch` the database already has. The rest follows on without a gap.
///
/// `found` is the log's row: its epoch and `next_seq`, read under its lock.
pub(crate) fn already_held(
    log: LogId,
    ours: u32,
    found: Option<(u32, u64)>,
    batch: &[Row],
) -> Result<usize, ShipFault> {
    let Some((epoch, next_seq)) = found else {
        return Err(ShipFault::Unavailable(format!("the database does not know log {log}: register it")));
    };
    if epoch > ours {
        return Err(ShipFault::Fenced { ours, found: epoch });
    }
    if epoch < ours {
        // A restored backup, for instance. Registering takes the log over again; shipping alone must not.
        return Err(ShipFault::Unavailable(format!("the database is at epoch {epoch}, ours is {ours}: register again")));
    }
    let Some(first) = batch.first().map(|row| row.record.seq) else { return Ok(0) };
    if first > next_seq {
        return Err(ShipFault::Gap { expected: next_seq, found: first });
    }
    let stray = (first..).zip(batch).find(|(seq, row)| row.record.seq != *seq || row.record.log != log);
    if let Some((expected, row)) = stray {
        return Err(ShipFault::Gap { expected, found: row.record.seq });
    }
    let held = usize::try_from(next_seq - first).unwrap_or(usize::MAX);
    Ok(held.min(batch.len()))
}

/// Refuses if the database holds another leaf at a seq of ours. A row that is missing there is for `verify` to report.
pub(crate) fn same_leaves(overlap: &[Row], stored: &HashMap<u64, Vec<u8>>) -> Result<(), ShipFault> {
    let differs = |row: &&Row| stored.get(&row.record.seq).is_some_and(|hash| hash.as_slice() != row.leaf_hash);
    overlap.iter().find(differs).map_or(Ok(()), |row| Err(ShipFault::Equivocation { seq: row.record.seq }))
}

/// The row after registering, if it is ours. The same epoch with another key is a second writer, a cloned folder for instance.
pub(crate) fn taken(ours: &LogRow, found: LogRow) -> Result<LogRow, ShipFault> {
    let lost = found.epoch > ours.epoch || found.attest_key != ours.attest_key;
    if lost { Err(ShipFault::Fenced { ours: ours.epoch, found: found.epoch }) } else { Ok(found) }
}
