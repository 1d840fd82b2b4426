//! Checkpoints and tiles: those that others kept, and those that the data itself holds.

use super::keyring::KeyVerdict;
use super::note::{self, NoteFault};
use super::report::Code;
use super::{Log, Verifier, log_of};
use crate::tlog::{NoteKey, Tile};
use crate::{KeyUse, PublicKey, TreeHead};
use signet_types::LogId;
use std::collections::BTreeMap;

/// A checkpoint whose signature was found good.
#[derive(Debug)]
pub(super) struct Anchor {
    pub(super) log: LogId,
    /// `<lineage.origin>`, without the log; none if only the head was handed in.
    pub(super) origin: Option<String>,
    pub(super) head: TreeHead,
    /// The key that signed it.
    pub(super) key: Option<PublicKey>,
}

/// Gives a tile's bytes, none if there is no such tile.
pub type TileReader<'a> = dyn FnMut(LogId, Tile) -> Option<Vec<u8>> + 'a;

impl Verifier {
    /// A signed checkpoint that was kept elsewhere: its log must still be what it was then. One that was signed neither by a
    /// pinned key nor by one that the log's own records name is a finding. What is no checkpoint is a remark, since who keeps
    /// them may have been stopped in the middle of one; returns whether it was one.
    pub fn kept(&mut self, note: &str) -> bool {
        match self.read(note, &self.pinned_for(note)) {
            Ok(anchor) => self.anchors.push(anchor),
            Err(fault @ NoteFault::Form(_)) => {
                self.report.not_checked.push(format!("what is {fault}, among the anchors"));
                return false;
            }
            Err(NoteFault::Unsigned) => self.unsigned.push((true, note.to_owned())),
            Err(fault) => self.findings.push(code_of(&fault), None, None, format!("an anchor: {fault}")),
        }
        true
    }

    /// A signed checkpoint that stands in the data itself. It pins nothing, but must agree with the records. Where neither the
    /// pinned keys nor the log name a key for it, it is a remark.
    pub fn held(&mut self, note: &str) {
        match self.read(note, &self.pinned_for(note)) {
            Ok(anchor) => self.held.push(anchor),
            Err(NoteFault::Unsigned) => self.unsigned.push((false, note.to_owned())),
            Err(fault) => self.findings.push(code_of(&fault), None, None, format!("a checkpoint of the data: {fault}")),
        }
    }

    /// The pinned keys that may have signed a checkpoint: those under a name, and those of the keyring under the name that it
    /// begins with.
    fn pinned_for(&self, note: &str) -> Vec<NoteKey> {
        let name = note.lines().next().unwrap_or_default();
        let log = name.rsplit_once('/').and_then(|(_, log)| log.parse().ok());
        let ring = self.trust.ring.as_ref().zip(log);
        let ring = ring.into_iter().flat_map(|(ring, log)| ring.keys(KeyUse::Checkpoint, Some(log)));
        self.notes.iter().cloned().chain(ring.filter_map(|key| NoteKey::new(name, key))).collect()
    }

    /// Checkpoints that no pinned key signed, once the records have told which keys sign those of their log. Beside a keyring
    /// that says nothing.
    pub(super) fn judge_unsigned(&mut self) {
        for (kept, note) in std::mem::take(&mut self.unsigned) {
            let name = note.lines().next().unwrap_or_default().to_owned();
            let log = name.rsplit_once('/').and_then(|(_, log)| self.logs.get(&log.parse().ok()?));
            let named = log.filter(|_| self.trust.ring.is_none()).map_or(&[][..], |log| &log.checkpoint_keys);
            let key = |(_, key): &(u64, [u8; 32])| NoteKey::new(&name, PublicKey::from_bytes(*key)?);
            let named: Vec<_> = named.iter().filter_map(key).collect();
            // It may be the key of a rotation that is still to come out of the pipe between log and database.
            let known = log.map_or(0, Log::next_seq);
            if !kept && self.options.live && claimed_size(&note).is_some_and(|size| size > known) {
                self.report
                    .not_checked
                    .push(format!("the checkpoint of {name}, which covers more than its first {known} records"));
                continue;
            }
            let what = if kept { "an anchor" } else { "a checkpoint of the data" };
            match self.read(&note, &named) {
                Ok(anchor) if kept => self.anchors.push(anchor),
                Ok(anchor) => self.held.push(anchor),
                Err(NoteFault::Unsigned) if !kept && named.is_empty() && !self.is_named(&note) => {
                    self.report.not_checked.push(format!("the checkpoint of {name}, for which no key is pinned"));
                }
                Err(fault) => self.findings.push(code_of(&fault), None, None, format!("{what}: {fault}")),
            }
        }
    }

    /// A signed checkpoint that an earlier run ended with: what it covers is compared with it as a whole, instead of
    /// signature by signature. Every record's leaf is computed from its payload, key and signature all the same, so that
    /// nothing that was good then can have changed. To be called before the first record.
    ///
    /// # Errors
    /// The note proves nothing.
    pub fn since(&mut self, note: &str) -> Result<(), NoteFault> {
        let anchor = self.read(note, &self.pinned_for(note))?;
        let settled = self.trust.settled.entry(anchor.log).or_default();
        *settled = (*settled).max(anchor.head.size);
        self.since.push((anchor.log, anchor.head.size));
        self.anchors.push(anchor);
        Ok(())
    }

    /// A checkpoint counts only under its own log's name: the key of one log does not speak for another.
    fn read(&self, note: &str, keys: &[NoteKey]) -> Result<Anchor, NoteFault> {
        let checked = note::checkpoint(note, keys)?;
        let place = checked.origin.rsplit_once('/').and_then(|(origin, log)| Some((origin, log.parse().ok()?)));
        let (origin, log) = place.ok_or(NoteFault::Form("its origin does not end with a log's id"))?;
        let head = checked.head;
        let mut why = NoteFault::Unsigned;
        for key in checked.signers.iter().filter(|key| key.name() == checked.origin).map(NoteKey::public_key) {
            match self.trust.verdict(log, KeyUse::Checkpoint, &key.key_id(), head.size.saturating_sub(1)) {
                KeyVerdict::Good => return Ok(Anchor { log, origin: Some(origin.to_owned()), head, key: Some(*key) }),
                KeyVerdict::Revoked | KeyVerdict::Retired => why = NoteFault::Revoked,
                KeyVerdict::Unknown => {}
            }
        }
        Err(why)
    }

    fn is_named(&self, note: &str) -> bool {
        let name = note.lines().next().unwrap_or_default();
        self.pinned_for(note).iter().any(|key| name == key.name())
    }

    pub(super) fn check_held(&mut self, mut tiles: Option<&mut TileReader<'_>>) {
        let mut sizes = BTreeMap::new();
        for Anchor { log: id, origin, head, key } in std::mem::take(&mut self.held) {
            let log = log_of(&mut self.logs, id);
            // A pipe between log and database may still hold what the checkpoint covers.
            if self.options.live && head.size > log.next_seq() {
                self.report.not_checked.push(format!("the checkpoint of log {id} at size {}", head.size));
            } else if log.is_missing() {
                log.report(Code::MissingLog, None, "a checkpoint names this log, nothing of it is there");
            } else if log.lets_sign("a checkpoint of the data", key, head.size)
                && log.anchor("a checkpoint of the data", (origin.as_deref(), &head), &mut self.report.not_checked)
            {
                self.report.checkpoints += 1;
                let largest = sizes.entry(id).or_insert(0);
                *largest = head.size.max(*largest);
            }
            log_of(&mut self.logs, id).pinned = 0;
        }
        if let Some(read) = &mut tiles {
            for (id, size) in sizes {
                let log = log_of(&mut self.logs, id);
                let (good, missing) = log.check_tiles(size, *read);
                self.report.tiles += good;
                if missing > 0 {
                    self.report.not_checked.push(format!("{missing} tiles of log {id}, which are not there"));
                }
            }
        }
    }

    pub(super) fn check_since(&mut self) {
        // Whether the head is the one of the records is judged with the other anchors.
        for (id, size) in std::mem::take(&mut self.since) {
            let log = log_of(&mut self.logs, id);
            if size <= log.next_seq() && log.root_at(size).is_none() {
                log.report(Code::RootMismatch, None, format!("the tree of the first {size} records cannot be told"));
            }
            let text = format!("signatures of log {id} before seq {size}, which an earlier run checked");
            self.report.not_checked.push(text);
        }
    }
}

/// What an unproved checkpoint says is its size.
fn claimed_size(note: &str) -> Option<u64> {
    note.lines().nth(1)?.parse().ok()
}

const fn code_of(fault: &NoteFault) -> Code {
    match fault {
        NoteFault::Unsigned => Code::UnknownKey,
        NoteFault::Revoked => Code::RevokedKey,
        _ => Code::BadSig,
    }
}

impl Log {
    /// Whether a key that signed a checkpoint is not one that the log's records let sign elsewhere only. Keys that they do
    /// not name are the pinned file's to vouch for.
    pub(super) fn lets_sign(&mut self, what: &str, key: Option<PublicKey>, size: u64) -> bool {
        let Some(key) = key else { return true };
        let turns = &self.checkpoint_keys;
        let named = turns.iter().any(|(_, named)| named == key.as_bytes());
        let in_force = turns.iter().rev().find(|(from, _)| *from < size.max(1));
        let good = !named || in_force.is_none_or(|(_, in_force)| in_force == key.as_bytes());
        if !good {
            self.report(Code::UnknownKey, None, format!("{what} of size {size} is signed by the key of another place"));
        }
        good
    }

    /// Compares every tile of the tree of `size` leaves with the hashes computed from the records. How many are good, and
    /// how many are not there.
    fn check_tiles(&mut self, size: u64, read: &mut TileReader<'_>) -> (u64, u64) {
        let (mut good, mut missing) = (0, 0);
        for level in 0..8_u8 {
            let hashes = size >> (8 * u32::from(level));
            for index in 0..hashes.div_ceil(256) {
                let width = u16::try_from((hashes - index * 256).min(256)).expect("at most 256");
                let tile = Tile { level, index, width };
                let Some(bytes) = read(self.id, tile) else {
                    missing += 1;
                    continue;
                };
                match self.is_tile(tile, &bytes) {
                    None => missing += 1,
                    Some(true) => good += 1,
                    Some(false) => {
                        self.report(Code::RootMismatch, index * 256, format!("{tile} does not hold the tree's hashes"));
                    }
                }
            }
        }
        (good, missing)
    }

    /// None if the tree does not tell.
    fn is_tile(&self, tile: Tile, bytes: &[u8]) -> Option<bool> {
        let (hashes, rest) = bytes.as_chunks::<32>();
        if !rest.is_empty() || hashes.len() != usize::from(tile.width) {
            return Some(false);
        }
        let first = tile.index * 256;
        for (at, hash) in (first..).zip(hashes) {
            if self.tree().node(8 * usize::from(tile.level), at)? != hash {
                return Some(false);
            }
        }
        Some(true)
    }
}
