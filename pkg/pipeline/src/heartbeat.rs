//! Signs of life in a stream that is silent: proxies between the caller and here take a silent connection for dead.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// Tells when a caller has heard nothing for a while.
pub(crate) struct Heartbeat {
    every: Duration,
    /// Late on purpose: it is looked at when it ends, not set anew with every event.
    timer: Pin<Box<Sleep>>,
    heard: Instant,
}

impl Heartbeat {
    pub(crate) fn new(every: Duration) -> Self {
        Self { every, timer: Box::pin(sleep(every)), heard: Instant::now() }
    }

    /// Something was sent.
    pub(crate) fn heard(&mut self) {
        self.heard = Instant::now();
    }

    /// Ready when the caller has heard nothing for so long.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.timer.as_mut().poll(cx).is_ready() {
            let (now, due) = (Instant::now(), self.heard + self.every);
            if due <= now {
                self.heard = now;
                self.timer.as_mut().reset(now + self.every);
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(due);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    const EVERY: Duration = Duration::from_secs(15);

    #[tokio::test(start_paused = true)]
    async fn a_silent_stream_beats_all_the_time_and_for_as_long_as_it_is_silent() {
        let (mut heartbeat, started) = (Heartbeat::new(EVERY), Instant::now());
        for beat in 1..=20 {
            poll_fn(|cx| heartbeat.poll(cx)).await;
            assert_eq!(started.elapsed().as_secs(), beat * 15);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_sent_puts_the_next_beat_off() {
        let (mut heartbeat, started) = (Heartbeat::new(EVERY), Instant::now());
        tokio::time::advance(Duration::from_secs(10)).await;
        heartbeat.heard();
        poll_fn(|cx| heartbeat.poll(cx)).await;
        assert_eq!(started.elapsed().as_secs(), 25);
    }
}
