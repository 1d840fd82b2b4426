//! Records that are dropped by age, and the signed record that says so.

use crate::{ControlStamp, ControlValue, Draft, Kind, Record, hex};
use serde::Deserialize;
use signet_types::LogId;

/// What a `prune` record says: which log begins at which seq from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeclaredPrune {
    /// The log, which need not be the one that says so.
    pub log: LogId,
    /// Records below are gone.
    pub below_seq: u64,
}

impl DeclaredPrune {
    /// What `record` declares; none if it is no `prune` that stands where its payload says. The signature is not looked at.
    pub fn read(record: &Record) -> Option<Self> {
        let Predicate { kind, log, control: Facts { log_id, below_seq } } =
            serde_json::from_slice::<Statement<Facts>>(&record.payload).ok()?.predicate;
        let placed = (log.id, log.seq) == (record.log, record.seq);
        (kind == Kind::Prune && placed).then_some(Self { log: log_id, below_seq })
    }
}

/// The leaf hashes that a `gap` record gives for the seqs from `seq` on; none if it gives none for that.
pub fn gap_leaves(record: &Record, seq: u64) -> Option<Vec<[u8; 32]>> {
    let Predicate { kind, control: Lost { from, leaves }, .. } =
        serde_json::from_slice::<Statement<Lost>>(&record.payload).ok()?.predicate;
    let bytes = hex::bytes(&leaves)?;
    let (hashes, rest) = bytes.as_chunks();
    let known = hashes.get(usize::try_from(seq.checked_sub(from)?).ok()?..)?;
    (kind == Kind::Gap && rest.is_empty() && !known.is_empty()).then(|| known.to_vec())
}

impl Draft {
    /// The records of `log` below `below_seq` are dropped. `peaks` are the roots of the perfect subtrees over them, largest
    /// first, one for each bit of `below_seq`: the tree goes on from there.
    pub fn prune(stamp: &ControlStamp, log: LogId, below_seq: u64, peaks: &[[u8; 32]]) -> Self {
        let facts = vec![
            ("below_seq", ControlValue::Int(below_seq)),
            ("log_id", ControlValue::Text(log.to_string())),
            ("peaks", ControlValue::Text(hex::text(peaks.as_flattened()))),
        ];
        Self::control(Kind::Prune, stamp, facts)
    }
}

#[derive(Deserialize)]
struct Statement<T> {
    predicate: Predicate<T>,
}

#[derive(Deserialize)]
struct Predicate<T> {
    kind: Kind,
    log: Place,
    control: T,
}

#[derive(Deserialize)]
struct Place {
    id: LogId,
    seq: u64,
}

#[derive(Deserialize)]
struct Facts {
    log_id: LogId,
    below_seq: u64,
}

#[derive(Deserialize)]
struct Lost {
    from: u64,
    leaves: String,
}
