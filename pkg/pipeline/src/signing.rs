//! Which key signs a record: that is decided by its place in the log, never by the time at which it is signed.

use parking_lot::RwLock;
use signet_lineage::{PublicKey, Signer};
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

#[cfg(test)]
mod tests {
    use super::*;

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
