//! Turns on a thread that serves many streams: where a provider and a caller are both fast, nothing else would end one's poll.

use std::task::{Context, Poll};

/// Most bytes in a row.
const BYTES: usize = 128 << 10;

/// What one stream has passed on since the others had their turn.
#[derive(Debug, Default)]
pub(crate) struct Turn(usize);

impl Turn {
    /// So much was passed on.
    pub(crate) fn took(&mut self, bytes: usize) {
        self.0 += bytes;
    }

    /// The stream waits for something: the others have theirs.
    pub(crate) fn over(&mut self) {
        self.0 = 0;
    }

    /// Ready while the turn lasts. Pending once at its end, and woken for the next.
    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.0 < BYTES {
            return Poll::Ready(());
        }
        self.over();
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Wake, Waker};

    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn after_so_many_bytes_in_a_row_the_others_have_their_turn_and_the_stream_its_next() {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let (mut turn, cx) = (Turn::default(), Context::from_waker(&waker));
        turn.took(BYTES - 1);
        assert!(turn.poll(&cx).is_ready());
        turn.took(1);
        assert!(turn.poll(&cx).is_pending());
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        assert!(turn.poll(&cx).is_ready());
        turn.took(BYTES - 1);
        turn.over();
        turn.took(1);
        assert!(turn.poll(&cx).is_ready(), "who waits has a whole turn afterwards");
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    }
}
