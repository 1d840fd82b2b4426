//! Which key signs a record: that is decided by its place in the log, never by the time at which it is signed.

use parking_lot::RwLock;
use signet_lineage::{PublicKey, Signer};
use std::collections::VecDeque;
use std::sync::Arc;

/// The key in force, and one that takes over.
#[derive(Debug)]
pub(crate) struct Signing(RwLock<Keys>);

#[derive(Debug)]
struct Keys {
    current: Arc<Signer>,
    /// Signs what is behind this seq, if the record at it is the rotation that says so.
    next: Option<(u64, Arc<Signer>)>,
    /// Those that signed before, oldest first.
    past: Vec<PublicKey>,
}

impl Signing {
    pub(crate) fn new(signer: Signer) -> Self {
        Self(RwLock::new(Keys { current: Arc::new(signer), next: None, past: Vec::new() }))
    }

    /// The key for the record at `seq`. A seq behind a rotation must not be asked for before the rotation is written. Where
    /// the rotation's own seq is asked for again it was not, and the old key stays.
    pub(crate) fn at(&self, seq: u64) -> Arc<Signer> {
        let keys = self.0.read();
        if keys.next.is_none() {
            return Arc::clone(&keys.current);
        }
        drop(keys);
        let mut keys = self.0.write();
        if let Some((_, next)) = keys.next.take().filter(|(rotation, _)| seq > *rotation) {
            let past = std::mem::replace(&mut keys.current, next).public_key();
            keys.past.push(past);
        }
        Arc::clone(&keys.current)
    }

    /// The rotation to `next` is about to be written at `seq`.
    pub(crate) fn behind(&self, seq: u64, next: Arc<Signer>) {
        self.0.write().next = Some((seq, next));
    }

    /// The rotation was not written.
    pub(crate) fn withdraw(&self) {
        self.0.write().next = None;
    }

    /// All keys of this process, oldest first.
    pub(crate) fn all(&self) -> Vec<PublicKey> {
        let keys = self.0.read();
        let signers = [Some(&keys.current), keys.next.as_ref().map(|(_, next)| next)].into_iter().flatten();
        keys.past.iter().copied().chain(signers.map(|signer| signer.public_key())).collect()
    }

    /// The key of the next record.
    pub(crate) fn newest(&self) -> Arc<Signer> {
        let keys = self.0.read();
        Arc::clone(keys.next.as_ref().map_or(&keys.current, |(_, next)| next))
    }
}

/// The keys that sign checkpoints. Which of them signs one is decided by what it covers: the records that name a new key are
/// covered by checkpoints that it signed, and so are all behind.
#[derive(Debug)]
pub struct CheckpointKeys(RwLock<Turns>);

#[derive(Debug)]
struct Turns {
    current: Arc<Signer>,
    /// Each signs what covers the record at its seq; ascending.
    next: VecDeque<(u64, Arc<Signer>)>,
    /// Those that signed before.
    past: Vec<PublicKey>,
    /// A rotation is about to be written, and its place is not known yet.
    held: bool,
}

impl CheckpointKeys {
    /// The key in force, and those before it.
    pub fn new(signer: Signer, past: Vec<PublicKey>) -> Self {
        Self(RwLock::new(Turns { current: Arc::new(signer), next: VecDeque::new(), past, held: false }))
    }

    /// The key for the checkpoint of `size` leaves; none while that cannot be told. Sizes must not fall.
    pub(crate) fn covering(&self, size: u64) -> Option<Arc<Signer>> {
        let mut turns = self.0.write();
        if turns.held {
            return None;
        }
        while turns.next.front().is_some_and(|(rotation, _)| size > *rotation) {
            let Some((_, next)) = turns.next.pop_front() else { break };
            let past = std::mem::replace(&mut turns.current, next).public_key();
            turns.past.push(past);
        }
        Some(Arc::clone(&turns.current))
    }

    /// From now on no checkpoint is signed, until [`CheckpointKeys::settle`].
    pub(crate) fn hold(&self) {
        self.0.write().held = true;
    }

    /// The rotation was written where `next` says, or not at all.
    pub(crate) fn settle(&self, next: Option<(u64, Arc<Signer>)>) {
        let mut turns = self.0.write();
        turns.held = false;
        turns.next.extend(next);
    }

    /// The key that the next rotation takes over from.
    pub(crate) fn newest(&self) -> PublicKey {
        let turns = self.0.read();
        turns.next.back().map_or(&turns.current, |(_, next)| next).public_key()
    }

    /// All keys, those before included.
    pub fn all(&self) -> Vec<PublicKey> {
        let turns = self.0.read();
        let signers = std::iter::once(&turns.current).chain(turns.next.iter().map(|(_, next)| next));
        turns.past.iter().copied().chain(signers.map(|signer| signer.public_key())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_signed_by_the_key_of_the_last_rotation_that_it_covers() {
        let signers: Vec<_> = (0..3).map(|_| Signer::generate()).collect();
        let keys: Vec<_> = signers.iter().map(Signer::public_key).collect();
        let mut signers = signers.into_iter();
        let turns = CheckpointKeys::new(signers.next().expect("three"), Vec::new());
        let mut next = || Arc::new(signers.next().expect("three"));
        let signs = |size| turns.covering(size).map(|signer| signer.public_key());
        assert_eq!(signs(3), Some(keys[0]));
        turns.hold();
        assert_eq!(signs(4), None, "its place is not known");
        turns.settle(None);
        assert_eq!((signs(4), turns.newest()), (Some(keys[0]), keys[0]), "it was not written");
        turns.settle(Some((6, next())));
        assert_eq!((signs(6), turns.newest()), (Some(keys[0]), keys[1]), "seqs 0 to 5");
        // A second one before the first was covered.
        turns.settle(Some((8, next())));
        assert_eq!(turns.all(), keys);
        assert_eq!([6, 7, 8, 9].map(signs), [0, 1, 1, 2].map(|at| Some(keys[at])));
        assert_eq!(turns.all(), keys);
    }

    #[test]
    fn a_rotation_holds_behind_its_record_and_not_at_all_if_that_was_not_written() {
        let (old, new) = (Signer::generate(), Arc::new(Signer::generate()));
        let old_key = old.public_key();
        let signing = Signing::new(old);
        signing.behind(4, Arc::clone(&new));
        assert_eq!(signing.newest().public_key(), new.public_key());
        // The append failed, and another record got the seq.
        assert_eq!(signing.at(4).public_key(), old_key);
        assert_eq!(signing.at(5).public_key(), old_key);
        signing.behind(6, Arc::clone(&new));
        signing.withdraw();
        assert_eq!(signing.at(6).public_key(), old_key);
        signing.behind(7, Arc::clone(&new));
        assert_eq!(signing.at(8).public_key(), new.public_key());
        assert_eq!(signing.at(9).public_key(), new.public_key());
        assert_eq!(signing.all(), [old_key, new.public_key()]);
    }
}
