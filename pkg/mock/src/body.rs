//! The response body: frames handed out at a pace, then an end that may be a fault.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Sleep;

use crate::journal::Ticket;

/// The mock ends the connection on purpose; hyper turns it into a close without the end of the body.
#[derive(Debug, thiserror::Error)]
#[error("the mock closes this connection on purpose")]
pub(crate) struct Broken;

impl From<Infallible> for Broken {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// What comes after the last frame.
pub(crate) enum End {
    Clean,
    Cut,
    Reset,
    Stall,
    Repeat(Bytes),
}

pub(crate) struct Reply {
    frames: std::vec::IntoIter<Bytes>,
    gap: Duration,
    /// Waits of their own, by the number of frames that are left after them; a wait before the end is at 0.
    pauses: Vec<(usize, Duration)>,
    rest: Rest,
    end: End,
    /// Announced as content-length.
    length: Option<u64>,
    ticket: Option<Ticket>,
}

/// What stands between the last frame and the next.
enum Rest {
    Nothing,
    /// Pending once: hyper flushes what it has, so every event is a write of its own.
    Flush,
    Timer(Pin<Box<Sleep>>),
}

impl Reply {
    /// A body in one frame with its length announced.
    pub(crate) fn whole(body: impl Into<Bytes>, ticket: Option<Ticket>) -> Self {
        let body = body.into();
        let length = Some(body.len() as u64);
        Self {
            frames: vec![body].into_iter(),
            gap: Duration::ZERO,
            pauses: Vec::new(),
            rest: Rest::Nothing,
            end: End::Clean,
            length,
            ticket,
        }
    }

    /// Frames of which each is a write of its own, `gap` after the one before.
    pub(crate) fn paced(frames: Vec<Bytes>, gap: Duration, end: End, ticket: Ticket) -> Self {
        let frames = frames.into_iter();
        Self { frames, gap, pauses: Vec::new(), rest: Rest::Flush, end, length: None, ticket: Some(ticket) }
    }

    /// Waits once before the frame at this place; the place after the last is the end.
    pub(crate) fn pausing(mut self, place: usize, wait: Duration) -> Self {
        if let Some(left) = self.frames.len().checked_sub(place) {
            self.pauses.push((left, wait));
            if place == 0 {
                self.begin_rest();
            }
        }
        self
    }

    /// Announces a length, which the frames may fall short of on purpose.
    pub(crate) fn announcing(mut self, length: usize) -> Self {
        self.length = Some(length as u64);
        self
    }

    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.rest {
            Rest::Nothing => Poll::Ready(()),
            Rest::Flush => {
                self.rest = Rest::Nothing;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Rest::Timer(timer) => {
                let elapsed = timer.as_mut().poll(cx);
                if elapsed.is_ready() {
                    self.rest = Rest::Nothing;
                }
                elapsed
            }
        }
    }

    fn begin_rest(&mut self) {
        let left = self.frames.len();
        let pause = self.pauses.iter().position(|(at, _)| *at == left).map(|at| self.pauses.swap_remove(at).1);
        let gap = pause.unwrap_or(self.gap);
        self.rest = if gap.is_zero() { Rest::Flush } else { Rest::Timer(Box::pin(tokio::time::sleep(gap))) };
    }

    fn break_off(&mut self, reset: bool) -> Broken {
        if let Some(mut ticket) = self.ticket.take() {
            if reset {
                ticket.fate().reset();
            }
            ticket.abandon();
        }
        Broken
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let this = &mut *self;
        if this.poll_rest(cx).is_pending() {
            return Poll::Pending;
        }
        if let Some(frame) = this.frames.next() {
            if this.is_end_stream() {
                if let Some(ticket) = &mut this.ticket {
                    ticket.finish();
                }
            } else {
                this.begin_rest();
            }
            return Poll::Ready(Some(Ok(Frame::data(frame))));
        }
        match &this.end {
            End::Clean => {
                if let Some(ticket) = &mut this.ticket {
                    ticket.finish();
                }
                Poll::Ready(None)
            }
            End::Cut => Poll::Ready(Some(Err(this.break_off(false)))),
            End::Reset => Poll::Ready(Some(Err(this.break_off(true)))),
            End::Stall => Poll::Pending, // dropped when the client leaves
            End::Repeat(frame) => {
                let frame = frame.clone();
                this.begin_rest();
                Poll::Ready(Some(Ok(Frame::data(frame))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.frames.len() == 0
            && self.pauses.is_empty()
            && matches!((&self.rest, &self.end), (Rest::Nothing, End::Clean))
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Waker;

    use super::*;
    use crate::io::Fate;
    use crate::journal::Journal;

    #[test]
    fn hyper_gets_to_flush_before_every_event() {
        let ticket = Ticket::new(Arc::new(Journal::new(0)), Arc::new(Fate::default()), 1);
        let frames = vec![Bytes::from_static(b"a"), Bytes::from_static(b"b")];
        let mut reply = Reply::paced(frames, Duration::ZERO, End::Clean, ticket);
        let mut poll = || match Pin::new(&mut reply).poll_frame(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => "pending",
            Poll::Ready(Some(_)) => "frame",
            Poll::Ready(None) => "end",
        };
        assert_eq!([poll(), poll(), poll(), poll(), poll()], ["pending", "frame", "pending", "frame", "end"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_stands_before_its_frame_and_before_the_end() {
        let ticket = Ticket::new(Arc::new(Journal::new(0)), Arc::new(Fate::default()), 1);
        let frames = vec![Bytes::from_static(b"a"), Bytes::from_static(b"b")];
        let ms = Duration::from_millis;
        let reply = Reply::paced(frames, ms(5), End::Clean, ticket);
        let mut reply = reply.pausing(0, ms(100)).pausing(1, ms(200)).pausing(2, ms(300));
        let begun = tokio::time::Instant::now();
        let mut seen = Vec::new();
        loop {
            let frame = std::future::poll_fn(|cx| Pin::new(&mut reply).poll_frame(cx)).await;
            seen.push((frame.is_some(), begun.elapsed().as_millis()));
            if frame.is_none() {
                break;
            }
            assert!(!reply.is_end_stream(), "the end is still to come");
        }
        assert_eq!(seen, [(true, 100), (true, 300), (false, 600)]);
    }
}
