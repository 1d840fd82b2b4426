//! The rule that makes shipping exactly-once: what a batch may do, given where the database stands.

use crate::columns::Row;
use signet_lineage::{DeclaredGap, LogRow, Record, ShipFault, TreeFault, TreeHead};
use signet_types::LogId;
use std::collections::HashMap;
use std::ops::Range;

/// How many leading records of `batch` the database already has. The rest follows on without a gap.
///
/// `found` is the log's row: its epoch and `next_seq`, read under its lock.
pub(crate) fn already_held(
    log: LogId,
    ours: u32,
    found: Option<(u32, u64)>,
    batch: &[Row],
) -> Result<usize, ShipFault> {
    let next_seq = owned(log, ours, found)?;
    let Some(first) = batch.first().map(|row| row.record.seq) else { return Ok(0) };
    if first > next_seq {
        return Err(ShipFault::Gap { expected: next_seq, found: first });
    }
    let out_of_place =
        |(at, row): &(u64, &Row)| row.record.seq.checked_sub(first) != Some(*at) || row.record.log != log;
    if let Some((at, row)) = (0..).zip(batch).find(out_of_place) {
        return Err(ShipFault::Gap { expected: first.saturating_add(at), found: row.record.seq });
    }
    let held = usize::try_from(next_seq - first).unwrap_or(usize::MAX);
    Ok(held.min(batch.len()))
}

/// Where the log goes on behind what `gap` declares missing. `found` is the log's row, read under its lock.
pub(crate) fn behind(log: LogId, ours: u32, found: Option<&LogRow>, gap: &Record) -> Result<u64, ShipFault> {
    let next_seq = owned(log, ours, found.map(|row| (row.epoch, row.next_seq)))?;
    let declared = found.and_then(|row| DeclaredGap::read(gap, &row.attest_key)).filter(|gap| gap.log == log);
    match declared {
        Some(gap) if gap.from == next_seq => Ok(gap.to + 1),
        // The commit had arrived, and nobody heard of it.
        Some(gap) if gap.to < next_seq => Ok(next_seq),
        _ => Err(ShipFault::Gap { expected: next_seq, found: gap.seq }),
    }
}

/// The log's `next_seq`, if the epoch `ours` owns it.
fn owned(log: LogId, ours: u32, found: Option<(u32, u64)>) -> Result<u64, ShipFault> {
    let Some((epoch, next_seq)) = found else {
        return Err(ShipFault::Unavailable(format!("the database does not know log {log}: register it")));
    };
    if epoch > ours {
        return Err(ShipFault::Fenced { ours, found: epoch });
    }
    if epoch < ours {
        // A restored backup, for instance. Registering takes the log over again; shipping alone must not.
        return Err(ShipFault::Unavailable(format!(
            "the database is at epoch {epoch}, ours is {ours}: register again"
        )));
    }
    Ok(next_seq)
}

/// Refuses if the database holds another leaf at a seq of ours. A row that is missing there is for `verify` to report.
pub(crate) fn same_leaves(overlap: &[Row], stored: &HashMap<u64, [u8; 32]>) -> Result<(), ShipFault> {
    let differs = |row: &&Row| stored.get(&row.record.seq).is_some_and(|hash| *hash != row.leaf_hash);
    overlap.iter().find(differs).map_or(Ok(()), |row| Err(ShipFault::Equivocation { seq: row.record.seq }))
}

/// Whether a checkpoint is to be added. `owner` is the log's epoch, `newest` size and root of the largest checkpoint there,
/// both read under the log's lock; `same` is the root of the one of this size, if there is any.
pub(crate) fn may_publish(
    ours: u32,
    owner: Option<u32>,
    head: &TreeHead,
    newest: Option<u64>,
    same: Option<&[u8]>,
) -> Result<bool, TreeFault> {
    match owner {
        None => return Err(TreeFault::Unavailable("the database does not know the log yet".to_owned())),
        Some(found) if found > ours => return Err(TreeFault::Fenced { ours, found }),
        Some(_) => {}
    }
    match (same, newest) {
        (Some(root), _) if *root != head.root => Err(TreeFault::Conflict { size: head.size }),
        (Some(_), _) => Ok(false),
        (None, Some(found)) if found > head.size => Err(TreeFault::Older { ours: head.size, found }),
        (None, _) => Ok(true),
    }
}

/// Adds the leaf hashes of the seqs `of` that the bytes of their tile of level 0 hold; whether there were any.
pub(crate) fn add_from_tile(tile: &[u8], of: Range<u64>, found: &mut Vec<[u8; 32]>) -> bool {
    let first = usize::try_from(of.start % 256).expect("below 256");
    let most = usize::try_from(of.end - of.start).unwrap_or(usize::MAX);
    let before = found.len();
    found.extend(tile.as_chunks::<32>().0.iter().skip(first).take(most));
    found.len() > before
}

/// The row after registering, if it is ours. The same epoch with another key is a second writer, a cloned folder for instance.
pub(crate) fn taken(ours: &LogRow, found: LogRow) -> Result<LogRow, ShipFault> {
    let lost = found.epoch > ours.epoch || found.attest_key != ours.attest_key;
    if lost { Err(ShipFault::Fenced { ours: ours.epoch, found: found.epoch }) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use signet_types::LineageId;

    const LOG: LogId = LogId::from_bytes([1; 16]);

    fn rows(seqs: impl Iterator<Item = u64>) -> Vec<Row> {
        let record = |seq| Record {
            id: LineageId::from_bytes([2; 16]),
            log: LOG,
            epoch: 1,
            seq,
            payload: [].into(),
            key_id: [3; 32],
            sig: [4; 64],
        };
        seqs.map(|seq| Row::of(&record(seq))).collect()
    }

    proptest! {
        #[test]
        fn what_is_held_and_what_is_added_meet_at_next_seq(first in 0_u64..50, length in 0_u64..30, next_seq in 0_u64..90) {
            let batch = rows(first..first + length);
            match already_held(LOG, 1, Some((1, next_seq)), &batch) {
                Ok(held) => {
                    prop_assert!(batch[..held].iter().all(|row| row.record.seq < next_seq));
                    prop_assert!(batch[held..].first().is_none_or(|row| row.record.seq == next_seq));
                }
                Err(ShipFault::Gap { expected, found }) => {
                    prop_assert_eq!((expected, found), (next_seq, first));
                    prop_assert!(first > next_seq);
                }
                Err(other) => prop_assert!(false, "{}", other),
            }
        }

        #[test]
        fn only_the_owning_epoch_ships(ours in 0_u32..9, theirs in 0_u32..9) {
            let judged = already_held(LOG, ours, Some((theirs, 0)), &rows(0..1));
            match judged {
                Ok(0) => prop_assert_eq!(ours, theirs),
                Err(ShipFault::Fenced { .. }) => prop_assert!(theirs > ours),
                Err(ShipFault::Unavailable(_)) => prop_assert!(theirs < ours),
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }

    #[test]
    fn a_seq_at_the_end_of_the_range_does_not_wrap() {
        let batch = rows(std::iter::once(u64::MAX));
        assert!(matches!(already_held(LOG, 1, Some((1, 0)), &batch), Err(ShipFault::Gap { .. })));
        assert!(matches!(already_held(LOG, 1, Some((1, u64::MAX)), &batch), Ok(0)));
    }
}
