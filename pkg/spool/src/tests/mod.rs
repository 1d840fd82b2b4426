//! The log against a directory that fails, and against the real one.

mod crash;
mod damage;
mod disk;
mod faults;
mod memory;
mod model;
mod places;
mod retention;
mod strict;

use crate::config::{Config, OpenFault, Recovered};
use crate::log::{LogFault, Opened, RecordLog};
use crate::sim::SimFiles;
use crate::spool::Spool;
use sha2::{Digest, Sha256};
use signet_lineage::{Leaf, Position, Record, TreeHead};
use signet_types::{LineageId, ManualClock};
use std::sync::Arc;
use std::time::Duration;

/// RFC 6962 §2.1 word for word.
fn naive_root(leaves: &[[u8; 32]]) -> [u8; 32] {
    match leaves {
        [] => Sha256::digest([]).into(),
        [one] => *one,
        many => {
            let (left, right) = many.split_at(many.len().next_power_of_two() / 2);
            Sha256::new()
                .chain_update([1])
                .chain_update(naive_root(left))
                .chain_update(naive_root(right))
                .finalize()
                .into()
        }
    }
}

const NOW_MS: u64 = 1_800_000_000_000;

/// The id of the `n`-th request; a millisecond after that of the one before.
fn id(n: u64) -> LineageId {
    let mut bytes = [0; 16];
    bytes[..6].copy_from_slice(&(NOW_MS + n).to_be_bytes()[2..]);
    bytes[6] = 0x70;
    bytes[8..].copy_from_slice(&n.to_be_bytes());
    LineageId::from_bytes(bytes)
}

/// A record whose every byte follows from its place; about 200 bytes.
fn record(id: LineageId, at: &Position) -> Record {
    let mark = at.seq.to_le_bytes()[0];
    let payload = format!("{{\"seq\":{},\"id\":\"{id}\"}}", at.seq).repeat(2).into_bytes().into();
    Record { id, log: at.log, epoch: at.epoch, seq: at.seq, payload, key_id: [mark; 32], sig: [!mark; 64] }
}

/// Segments of a few records, so that short runs roll.
fn config() -> Config {
    Config {
        max_bytes: 1 << 20,
        retain_bytes: 1 << 20,
        retain_for: Duration::from_hours(24),
        segment_bytes: 2048,
        record_bytes: 320,
        recent_bytes: 1024,
        group_pause: Duration::ZERO,
        ..Config::new("unused")
    }
}

fn open(files: &SimFiles) -> (Spool, Recovered) {
    try_open(files, None).expect("the directory is sound")
}

fn try_open(files: &SimFiles, min_next_seq: Option<u64>) -> Result<(Spool, Recovered), OpenFault> {
    open_with(files, config(), min_next_seq)
}

fn open_with(files: &SimFiles, config: Config, min_next_seq: Option<u64>) -> Result<(Spool, Recovered), OpenFault> {
    Spool::open_on(Arc::new(files.clone()), config, Arc::new(ManualClock::at(NOW_MS)), min_next_seq)
}

fn close(log: &dyn RecordLog, opened: Option<Opened>, n: u64) -> Result<Arc<Record>, LogFault> {
    log.close(opened, &mut |at| record(id(n), at)).map(|written| written.record)
}

/// Appends records `from..to` without OPENs.
fn fill(log: &dyn RecordLog, from: u64, to: u64) {
    for n in from..to {
        close(log, None, n).expect("there is room");
    }
}

/// Every durable record from `from` on, read in small bites.
fn read_all(log: &dyn RecordLog, from: u64) -> Vec<Arc<Record>> {
    let mut all: Vec<Arc<Record>> = Vec::new();
    loop {
        let next = all.last().map_or(from, |r| r.seq + 1);
        let bite = log.read_from(next, 3, 500).expect("readable");
        if bite.is_empty() {
            return all;
        }
        all.extend(bite);
    }
}

fn head(records: &[Arc<Record>]) -> TreeHead {
    let leaves: Vec<_> = records.iter().map(|r| Leaf::of(r).hash()).collect();
    TreeHead { size: leaves.len() as u64, root: naive_root(&leaves) }
}

fn ids(records: &[Arc<Record>]) -> Vec<LineageId> {
    records.iter().map(|r| r.id).collect()
}

fn segments(files: &SimFiles) -> Vec<String> {
    files.names().into_iter().filter(|n| n.starts_with("seg-")).collect()
}
