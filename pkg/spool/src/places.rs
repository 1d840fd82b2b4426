//! Places in the log that were given out for records which are being signed.
//!
//! Signing takes longer than writing, so it is done without the segment lock: a record takes its seq, is signed, and is
//! written when all before it are. One whose turn has not come waits, and is written with the one that it waited for, in one
//! call. Nothing is at an offset that was set aside before: a kill meanwhile leaves no hole, and a seq that was not written
//! was in no answer.

use crate::frame::Hash;
use crate::log::{LogFault, Room};
use crate::spool::Shared;
use signet_lineage::{Position, Record};
use std::collections::VecDeque;
use std::sync::Arc;

/// The seqs from the next one on, as far as they were given out.
#[derive(Debug, Default)]
pub(crate) struct Places {
    slots: VecDeque<Slot>,
    /// How many were given out; numbers a place for good, since a seq can be given out again.
    given: u64,
    /// Signed records whose places were taken back, until their owners have seen it.
    void: Vec<u64>,
    /// The place of a record that is signed while no other is.
    alone: Option<u64>,
}

#[derive(Debug)]
struct Slot {
    number: u64,
    signed: Option<(Arc<Record>, Hash)>,
}

impl Places {
    fn give(&mut self, number: u64) -> u64 {
        self.slots.push_back(Slot { number, signed: None });
        self.slots.len() as u64 - 1
    }

    fn number(&mut self) -> u64 {
        self.given += 1;
        self.given
    }

    fn index_of(&self, number: u64) -> Option<usize> {
        self.slots.iter().position(|slot| slot.number == number)
    }

    /// Puts a signed record in its place; false if that was taken back.
    fn put(&mut self, number: u64, record: &Arc<Record>, leaf: Hash) -> bool {
        let index = self.index_of(number);
        index.inspect(|&at| self.slots[at].signed = Some((Arc::clone(record), leaf))).is_some()
    }

    /// Those whose turn it is.
    fn ready(&mut self) -> Vec<(Arc<Record>, Hash)> {
        let mut ready = Vec::with_capacity(1);
        while let Some(signed) = self.slots.front_mut().and_then(|slot| slot.signed.take()) {
            self.slots.pop_front();
            ready.push(signed);
        }
        ready
    }

    /// Takes a place back, and with it all behind, whose records would stand behind a hole.
    fn take_back(&mut self, number: u64) {
        self.alone.take_if(|alone| *alone == number);
        if let Some(at) = self.index_of(number) {
            let signed = self.slots.drain(at..).filter(|slot| slot.signed.is_some());
            self.void.extend(signed.map(|slot| slot.number));
        }
    }

    /// Records that are signed and wait for one before them.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.slots.iter().filter(|slot| slot.signed.is_some()).count()
    }

    /// Places given out so far.
    #[cfg(test)]
    pub(crate) const fn given(&self) -> u64 {
        self.given
    }

    /// Whether a record is to be signed alone.
    #[cfg(test)]
    pub(crate) const fn barred(&self) -> bool {
        self.alone.is_some()
    }

    fn take_void(&mut self, number: u64) -> bool {
        let found = self.void.iter().position(|void| *void == number);
        found.map(|at| self.void.swap_remove(at)).is_some()
    }
}

/// One place, of a record that is being signed.
pub(crate) struct Place<'a> {
    shared: &'a Shared,
    number: u64,
    pub(crate) position: Position,
    /// The place is not among those given out any more.
    done: bool,
    _room: Option<Room>,
}

impl<'a> Place<'a> {
    /// Takes the next place. `promised`: its room was reserved before. `alone`: all records before it are written, and
    /// none behind it gets a place before it has given up its own.
    pub(crate) fn take(shared: &'a Shared, promised: bool, alone: bool) -> Result<Self, LogFault> {
        let mut writer = shared.admit(shared.record_bytes, promised)?;
        while writer.places.alone.is_some() {
            shared.placed.wait(&mut writer);
        }
        let number = writer.places.number();
        if alone {
            writer.places.alone = Some(number);
            while !writer.places.slots.is_empty() {
                shared.placed.wait(&mut writer);
            }
        }
        let seq = writer.next_seq() + writer.places.give(number);
        let position = Position { log: shared.log, epoch: shared.epoch, seq, base: writer.base };
        let room = (!promised).then(|| Room::reserve(shared.record_bytes, &shared.reserved));
        Ok(Self { shared, number, position, done: false, _room: room })
    }

    /// Has the record written once all before it are; false if the place was taken back, because one of those before
    /// it will not come.
    pub(crate) fn fill(mut self, record: &Arc<Record>, leaf: Hash) -> Result<bool, LogFault> {
        let shared = self.shared;
        let mut writer = shared.admit(shared.record_bytes, true)?;
        if !writer.places.put(self.number, record, leaf) {
            return Ok(false);
        }
        let ready = writer.places.ready();
        if !ready.is_empty() {
            writer.append_closes(&ready)?;
            writer.places.alone.take_if(|alone| *alone == self.number);
            shared.placed.notify_all();
        }
        let written = loop {
            writer.alive()?;
            if writer.places.take_void(self.number) {
                break false;
            }
            if writer.next_seq() > self.position.seq {
                break true;
            }
            shared.placed.wait(&mut writer);
        };
        self.done = true;
        shared.wake(writer);
        Ok(written)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.shared.writer.lock().places.take_back(self.number);
            self.shared.placed.notify_all();
        }
    }
}
