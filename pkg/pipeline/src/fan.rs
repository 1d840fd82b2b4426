//! One waker that wakes all who wait for the same thing.
//!
//! A shared call is polled by whoever comes, but never with the comer's own waker: a server stops polling a body whose
//! socket is full, and then nobody would hear of what comes next.

use parking_lot::Mutex;
use std::sync::Arc;
use std::task::{Wake, Waker};

/// The waiting, each at its place.
#[derive(Debug, Default)]
pub(crate) struct FanOut(Mutex<Vec<Option<Waker>>>);

impl FanOut {
    /// Whoever waits at `place` is to be woken. To be called before looking whether there is anything to wait for.
    pub(crate) fn register(&self, place: usize, waker: &Waker) {
        let mut waiting = self.0.lock();
        if waiting.len() <= place {
            waiting.resize(place + 1, None);
        }
        if !waiting[place].as_ref().is_some_and(|known| known.will_wake(waker)) {
            waiting[place] = Some(waker.clone());
        }
    }

    /// Nobody waits at `place` any more.
    pub(crate) fn leave(&self, place: usize) {
        let left = self.0.lock().get_mut(place).and_then(Option::take);
        drop(left);
    }

    /// Wakes all but the one at `place`, who is awake.
    pub(crate) fn wake_others(&self, place: usize) {
        self.wake_where(|at| at != place);
    }

    /// No lock is held while a waker runs: it may be anyone's.
    fn wake_where(&self, wanted: impl Fn(usize) -> bool) {
        let mut woken: [Option<Waker>; 8] = Default::default();
        let mut from = 0;
        loop {
            let mut count = 0;
            let mut waiting = self.0.lock();
            while from < waiting.len() && count < woken.len() {
                if wanted(from) && waiting[from].is_some() {
                    woken[count] = waiting[from].take();
                    count += 1;
                }
                from += 1;
            }
            let done = from >= waiting.len();
            drop(waiting);
            woken[..count].iter_mut().filter_map(Option::take).for_each(Waker::wake);
            if done {
                return;
            }
        }
    }
}

impl Wake for FanOut {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wake_where(|_| true);
    }
}
