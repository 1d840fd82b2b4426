//! Every bit of everything that is signed, stored or published, changed one at a time.
//!
//! To start a verification for each would take minutes, so most changed copies are shown to one: as further rows for a place
//! that a good record already holds. Each must then give exactly one finding of its own, so that none hides behind another.

use crate::sample::{ALICE, Writer, signer, verify};
use signet_lineage::tlog::{Checkpoint, NoteKey, Tile, Tiles};
use signet_lineage::verify::{Options, Pinned, Report, Stored, Verifier, checkpoint, read_line, write_line};
use signet_lineage::{Leaf, Record, TreeHead};
use signet_types::{LineageId, LogId};
use std::sync::Arc;

fn bits(bytes: usize) -> impl Iterator<Item = (usize, u8)> {
    (0..bytes * 8).map(|bit| (bit / 8, 1 << (bit % 8)))
}

/// A log of three records: its opening, an answer, and a hit on that.
fn three() -> Writer {
    let mut log = Writer::filled(1, 2);
    let source = log.records[1].clone();
    log.hit(ALICE, &source);
    assert_eq!(verify(&log.keys(), &log.records).exit_code(), 0);
    log
}

/// What a verification says of the log with these further rows.
fn with_rows(log: &Writer, rows: Vec<Record>) -> Report {
    let mut verifier = Verifier::new(&log.keys(), Options::default());
    log.records.iter().cloned().chain(rows).for_each(|record| verifier.record(record, None));
    verifier.finish()
}

/// That each of these rows, which claim a place that is taken, is a finding; and one more where its leaf is that of the
/// record there, which is so there twice.
#[track_caller]
fn each_is_seen(log: &Writer, what: &str, rows: Vec<Record>) {
    let leaves = log.records.iter().map(|record| Leaf::of(record).hash()).collect::<Vec<_>>();
    let wanted: usize = rows.iter().map(|row| 1 + usize::from(leaves.contains(&Leaf::of(row).hash()))).sum();
    let report = with_rows(log, rows);
    let found = report.findings.len() + usize::try_from(report.more).expect("small");
    assert_eq!(found, wanted, "{what}: {report}");
}

fn changed(record: &Record, change: impl FnOnce(&mut Record)) -> Record {
    let mut record = record.clone();
    change(&mut record);
    record
}

fn flip<const N: usize>(mut bytes: [u8; N], (at, bit): (usize, u8)) -> [u8; N] {
    bytes[at] ^= bit;
    bytes
}

#[test]
fn no_flipped_bit_of_any_field_of_a_record_goes_unseen() {
    let log = three();
    for record in &log.records {
        let payload = |(at, bit)| changed(record, |r| Arc::make_mut(&mut r.payload)[at] ^= bit);
        each_is_seen(&log, "payload", bits(record.payload.len()).map(payload).collect());
        let sig = |bit| changed(record, |r| r.sig = flip(r.sig, bit));
        each_is_seen(&log, "sig", bits(64).map(sig).collect());
        let key_id = |bit| changed(record, |r| r.key_id = flip(r.key_id, bit));
        each_is_seen(&log, "key_id", bits(32).map(key_id).collect());
        let id = |bit| changed(record, |r| r.id = LineageId::from_bytes(flip(*r.id.as_bytes(), bit)));
        each_is_seen(&log, "id", bits(16).map(id).collect());
        let epoch = |(at, bit)| changed(record, |r| r.epoch ^= u32::from(bit) << (8 * at));
        each_is_seen(&log, "epoch", bits(4).map(epoch).collect());
        let log_id = |bit| changed(record, |r| r.log = LogId::from_bytes(flip(*r.log.as_bytes(), bit)));
        let seq = |(at, bit): (usize, u8)| changed(record, |r| r.seq ^= u64::from(bit) << (8 * at));
        for elsewhere in bits(16).map(log_id).chain(bits(8).map(seq)) {
            let mut records = log.records.clone();
            records.retain(|other| other.seq != record.seq);
            let report = with_rows(&Writer { records, ..three() }, vec![elsewhere]);
            assert_ne!(report.exit_code(), 0, "{report}");
        }
    }
}

#[test]
fn no_flipped_bit_of_an_export_line_goes_unseen() {
    let log = three();
    for record in &log.records {
        let line = write_line(record, &Stored::default());
        let mut rows = Vec::new();
        for (at, bit) in bits(line.len()) {
            let mut line = line.clone();
            line[at] ^= bit;
            let Ok((read, stored)) = read_line(&line) else { continue };
            assert!(read != *record && !stored.erased, "byte {at}");
            if (read.log, read.seq, read.epoch, read.id) == (record.log, record.seq, record.epoch, record.id) {
                rows.push(read);
            } else {
                let mut records = log.records.clone();
                records[usize::try_from(record.seq).expect("small")] = read;
                assert_ne!(verify(&log.keys(), &records).exit_code(), 0, "byte {at}");
            }
        }
        assert!(rows.len() > 1_000, "most flips leave an envelope");
        each_is_seen(&log, "line", rows);
    }
}

/// A log of 300 records, its checkpoint and its tiles.
fn published() -> (Writer, NoteKey, String, Vec<(Tile, Vec<u8>)>) {
    let mut log = Writer::filled(1, 3);
    let mut tiles = (Tiles::default(), Vec::new());
    while log.tree.size() < 300 {
        log.ask(ALICE);
    }
    for record in &log.records {
        tiles.0.push(Leaf::of(record).hash(), |tile, hashes| tiles.1.push((tile, hashes.as_flattened().to_vec())));
    }
    tiles.1.extend(tiles.0.partial().map(|(tile, hashes)| (tile, hashes.as_flattened().to_vec())));
    let origin = format!("{}/{}", crate::sample::ORIGIN, log.log);
    let (key, head) = (NoteKey::new(&origin, signer(9).public_key()).expect("a name"), log.tree.head());
    let note = Checkpoint { origin, head }.sign(&key, &signer(9));
    (log, key, note, tiles.1)
}

#[test]
fn no_flipped_bit_of_a_checkpoint_goes_unseen() {
    let (_, key, note, _) = published();
    let keys = [key];
    let head: TreeHead = checkpoint(&note, &keys).expect("as signed").head;
    assert_eq!(head.size, 300);
    for (at, bit) in bits(note.len()) {
        let mut bytes = note.clone().into_bytes();
        bytes[at] ^= bit;
        assert!(String::from_utf8(bytes).map_or(true, |text| checkpoint(&text, &keys).is_err()), "byte {at} bit {bit}");
    }
}

#[test]
fn no_flipped_bit_of_a_tile_goes_unseen() {
    let (log, key, note, tiles) = published();
    assert_eq!(tiles.len(), 3, "one full, two partial");
    let pinned = Pinned { notes: vec![key], ..log.keys().into() };
    let judged = |changed: Option<(usize, (usize, u8))>| {
        let mut verifier = Verifier::trusting(pinned.clone(), Options::default());
        verifier.held(&note);
        log.records.iter().for_each(|record| verifier.record(record.clone(), None));
        verifier.finish_with(Some(&mut |_, tile| {
            let (at, mut bytes) =
                tiles.iter().cloned().enumerate().find_map(|(at, (of, bytes))| (of == tile).then_some((at, bytes)))?;
            if let Some((_, (byte, bit))) = changed.filter(|(which, _)| *which == at) {
                bytes[byte] ^= bit;
            }
            Some(bytes)
        }))
    };
    let clean = judged(None);
    assert_eq!((clean.exit_code(), clean.checkpoints, clean.tiles), (0, 1, 3), "{clean}");
    // Some bits of each tile: one verification each. That every bit counts is how the hashes are compared: as a whole.
    for (at, (_, bytes)) in tiles.iter().enumerate() {
        for (n, flipped) in bits(bytes.len()).step_by(bytes.len() * 8 / 6 + 1).enumerate() {
            let report = judged(Some((at, flipped)));
            assert_eq!((report.exit_code(), report.tiles), (12, 2), "tile {at} flip {n}: {report}");
        }
    }
}
