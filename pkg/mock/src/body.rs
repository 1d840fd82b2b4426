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
    pub(crate) fn whole(body: Vec<u8>, ticket: Option<Ticket>) -> Self {
        let length = Some(body.len() as u64);
        Self {
            frames: vec![body.into()].into_iter(),
            gap: Duration::ZERO,
            rest: Rest::Nothing,
            end: End::Clean,
            length,
            ticket,
        }
    }

    /// Frames of which each is a write of its own, `gap` after the one before.
    pub(crate) fn paced(frames: Vec<Bytes>, gap: Duration, end: End, ticket: Ticket) -> Self {
        Self { frames: frames.into_iter(), gap, rest: Rest::Flush, end, length: None, ticket: Some(ticket) }
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
            Rest::Timer(timer) => timer.as_mut().poll(cx),
        }
    }

    fn begin_rest(&mut self) {
        let gap = self.gap;
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
            End::Clean => Poll::Ready(None),
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
        self.frames.len() == 0 && matches!(self.end, End::Clean)
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
}
