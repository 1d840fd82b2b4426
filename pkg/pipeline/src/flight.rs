//! Single-flight: identical misses that overlap share one upstream call.
//!
//! The call belongs to the flight, not to the caller that started it: it is a shared future that whoever waits drives.
//! A participant that leaves only stops waiting; when the last one leaves, the call is dropped and so cancelled. The
//! participant that sees the end first writes the record that the others name as their parent.

use crate::fault::Fault;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use signet_cache::{CacheKey, Source};
use std::collections::HashMap;
use std::sync::{Arc, Weak};

const SHARDS: usize = 16;

type Shard<T> = Mutex<HashMap<CacheKey, Weak<Flight<T>>, ahash::RandomState>>;

/// Flights under way, by exact key.
pub(crate) struct Flights<T> {
    shards: [Shard<T>; SHARDS],
}

/// One upstream call and its record.
pub(crate) struct Flight<T> {
    landing: Shared<BoxFuture<'static, Arc<T>>>,
    record: Mutex<Option<Source>>,
}

/// A place in a flight; dropping it leaves.
pub(crate) struct Seat<T> {
    flights: Arc<Flights<T>>,
    key: CacheKey,
    /// Present until drop.
    flight: Option<Arc<Flight<T>>>,
    /// Whether this participant started the call.
    pub(crate) leads: bool,
}

impl<T> Default for Flights<T> {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl<T: Send + Sync + 'static> Flights<T> {
    /// Joins the flight of `key`, or starts it with `depart`, which runs before anyone can poll the call.
    pub(crate) fn join(
        self: &Arc<Self>,
        key: CacheKey,
        depart: impl FnOnce() -> Result<BoxFuture<'static, T>, Fault>,
    ) -> Result<Seat<T>, Fault> {
        let mut shard = self.shard(&key).lock();
        let flying = shard.get(&key).and_then(Weak::upgrade);
        let leads = flying.is_none();
        let flight = match flying {
            Some(flight) => flight,
            None => Arc::new(Flight::new(depart()?)),
        };
        if leads {
            shard.insert(key, Arc::downgrade(&flight));
        }
        drop(shard);
        Ok(Seat { flights: self.clone(), key, flight: Some(flight), leads })
    }

    fn shard(&self, key: &CacheKey) -> &Shard<T> {
        &self.shards[usize::from(key.as_bytes()[0]) % SHARDS]
    }

    #[cfg(test)]
    fn under_way(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}

impl<T: Send + Sync + 'static> Flight<T> {
    fn new(call: BoxFuture<'static, T>) -> Self {
        Self { landing: call.map(Arc::new).boxed().shared(), record: Mutex::new(None) }
    }
}

impl<T: Send + Sync + 'static> Seat<T> {
    /// Waits for the call, driving it while waiting. A flight that has landed takes no new participants.
    pub(crate) async fn landed(&self) -> Arc<T> {
        let flight = self.flight();
        let landed = flight.landing.clone().await;
        let mut shard = self.flights.shard(&self.key).lock();
        if shard.get(&self.key).is_some_and(|weak| std::ptr::eq(weak.as_ptr(), Arc::as_ptr(flight))) {
            shard.remove(&self.key);
        }
        landed
    }

    /// Runs `write` with the record of the participant that saw the end first, or none for that participant, whose own
    /// record becomes it. Participants run one after the other.
    pub(crate) fn attest<R>(&self, write: impl FnOnce(&mut Option<Source>) -> R) -> R {
        write(&mut self.flight().record.lock())
    }

    fn flight(&self) -> &Arc<Flight<T>> {
        self.flight.as_ref().expect("present until drop")
    }
}

impl<T> Drop for Seat<T> {
    /// Leaves under the table's lock, so that the last one to leave knows it is the last.
    fn drop(&mut self) {
        let Some(flight) = self.flight.take() else { return };
        let mut shard = self.flights.shards[usize::from(self.key.as_bytes()[0]) % SHARDS].lock();
        let ours = shard.get(&self.key).is_some_and(|weak| std::ptr::eq(weak.as_ptr(), Arc::as_ptr(&flight)));
        drop(flight);
        if ours && shard.get(&self.key).is_some_and(|weak| weak.strong_count() == 0) {
            shard.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signet_cache::{Partition, PartitionParts};
    use signet_types::TenantId;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::oneshot;

    fn key(text: &str) -> CacheKey {
        let parts = PartitionParts {
            tenant: TenantId::from_bytes([0; 16]),
            namespace: "",
            operation: "chat",
            targets: [0; 32],
            policy_generation: 0,
            shape: [0; 32],
        };
        CacheKey::derive(&Partition::derive(&parts), text.as_bytes())
    }

    struct Call {
        flights: Arc<Flights<u32>>,
        calls: Arc<AtomicUsize>,
        cancelled: Arc<AtomicUsize>,
    }

    struct Cancel(Arc<AtomicUsize>, bool);
    impl Drop for Cancel {
        fn drop(&mut self) {
            if !self.1 {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    impl Call {
        fn new() -> Self {
            Self { flights: Arc::default(), calls: Arc::default(), cancelled: Arc::default() }
        }

        fn join(&self, name: &str, answer: oneshot::Receiver<u32>) -> Seat<u32> {
            let (calls, cancelled) = (self.calls.clone(), self.cancelled.clone());
            self.flights
                .join(key(name), move || {
                    calls.fetch_add(1, Ordering::SeqCst);
                    let guard = Cancel(cancelled, false);
                    Ok(async move {
                        let mut guard = guard;
                        let answer = answer.await.unwrap_or_default();
                        guard.1 = true;
                        drop(guard);
                        answer
                    }
                    .boxed())
                })
                .expect("the call departs")
        }
    }

    #[tokio::test]
    async fn overlapping_calls_share_one_flight_and_a_later_one_starts_anew() {
        let call = Call::new();
        let (tx, rx) = oneshot::channel();
        let leader = call.join("a", rx);
        let follower = call.join("a", oneshot::channel().1);
        assert!(leader.leads && !follower.leads);
        tx.send(7).expect("the flight waits");
        assert_eq!((*leader.landed().await, *follower.landed().await), (7, 7));
        let later = call.join("a", oneshot::channel().1);
        assert!(later.leads);
        assert_eq!(call.calls.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_leader_that_leaves_does_not_stop_the_call() {
        let call = Call::new();
        let (tx, rx) = oneshot::channel();
        let leader = call.join("a", rx);
        let follower = call.join("a", oneshot::channel().1);
        let mut waiting = Box::pin(leader.landed());
        assert!(futures_util::poll!(waiting.as_mut()).is_pending());
        drop(waiting);
        drop(leader);
        tx.send(7).expect("the call is still driven");
        assert_eq!(*follower.landed().await, 7);
        assert_eq!(call.cancelled.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn the_last_to_leave_cancels_the_call_and_clears_the_table() {
        let call = Call::new();
        let leader = call.join("a", oneshot::channel().1);
        let follower = call.join("a", oneshot::channel().1);
        drop(leader);
        assert_eq!(call.cancelled.load(Ordering::SeqCst), 0);
        drop(follower);
        assert_eq!(call.cancelled.load(Ordering::SeqCst), 1);
        assert_eq!(call.flights.under_way(), 0);
    }

    #[tokio::test]
    async fn different_keys_do_not_meet() {
        let call = Call::new();
        assert!(call.join("a", oneshot::channel().1).leads);
        assert!(call.join("b", oneshot::channel().1).leads);
    }

    #[tokio::test]
    async fn the_first_to_attest_becomes_the_parent_of_the_others() {
        let call = Call::new();
        let leader = call.join("a", oneshot::channel().1);
        let follower = call.join("a", oneshot::channel().1);
        let source = Source {
            id: signet_types::LineageId::generate(1),
            log: signet_types::LogId::generate(1),
            epoch: 1,
            seq: 4,
            leaf_hash: [1; 32],
            response_fp: [2; 16],
            key_epoch: 1,
        };
        assert!(follower.attest(|record| record.replace(source)).is_none());
        assert_eq!(leader.attest(|record| *record), Some(source));
    }
}
