//! The four time limits of an exchange, on one timer.

use crate::error::UpstreamError;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// How long a provider may take. Each limit stands alone: a stream that keeps sending is ended by `total` only.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// From the call to a usable connection: name lookup, TCP and TLS together.
    pub connect: Duration,
    /// From the connection to the response head.
    pub first_byte: Duration,
    /// Between two pieces of the body.
    pub idle: Duration,
    /// From the call to the end of the body.
    pub total: Duration,
}

impl Default for Timeouts {
    /// 5 s, 10 min (reasoning models think silently), 2 min, 30 min.
    fn default() -> Self {
        let s = Duration::from_secs;
        Self { connect: s(5), first_byte: s(600), idle: s(120), total: s(1800) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Head,
    Body,
}

/// Watches one exchange.
///
/// A chunk only moves `since`; the timer stays where it is and, when it fires, is moved to where it ought to be. So a
/// stream of a thousand chunks touches the timer wheel about once per idle timeout, not once per chunk, and an exchange
/// that never waits makes no timer at all.
#[derive(Debug)]
pub(crate) struct Limits {
    timeouts: Timeouts,
    started: Instant,
    end: Instant,
    phase: Phase,
    since: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Limits {
    pub(crate) fn new(timeouts: Timeouts, deadline: Option<Instant>) -> Self {
        let started = Instant::now();
        let total = started + timeouts.total;
        let end = deadline.map_or(total, |deadline| deadline.min(total));
        Self { timeouts, started, end, phase: Phase::Head, since: started, timer: None }
    }

    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// When connecting must be over.
    pub(crate) fn connect_by(&self) -> Instant {
        self.end.min(Instant::now() + self.timeouts.connect)
    }

    /// A connection is there; the head is awaited from now on.
    pub(crate) fn connected(&mut self) {
        self.since = Instant::now();
    }

    /// The head is there; the body is awaited from now on.
    pub(crate) fn head(&mut self) {
        (self.phase, self.since) = (Phase::Body, Instant::now());
    }

    /// A piece of the body came.
    ///
    /// # Errors
    /// The exchange's end has passed. A stream that is always ready is caught here and nowhere else.
    pub(crate) fn progress(&mut self) -> Result<(), UpstreamError> {
        self.since = Instant::now();
        if self.since >= self.end { Err(self.over()) } else { Ok(()) }
    }

    /// Ready once a limit is passed.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<UpstreamError> {
        let (limit, error) = match self.phase {
            Phase::Head => {
                (self.timeouts.first_byte, UpstreamError::FirstByteTimeout { waited: self.timeouts.first_byte })
            }
            Phase::Body => (self.timeouts.idle, UpstreamError::IdleTimeout { waited: self.timeouts.idle }),
        };
        let silent = self.since + limit;
        let due = silent.min(self.end);
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
        if timer.deadline() > due {
            timer.as_mut().reset(due);
        }
        loop {
            ready!(timer.as_mut().poll(cx));
            if Instant::now() >= due {
                return Poll::Ready(if due == self.end { self.over() } else { error });
            }
            timer.as_mut().reset(due);
        }
    }

    /// The error of an exchange whose end has passed.
    pub(crate) fn over(&self) -> UpstreamError {
        UpstreamError::DeadlineExceeded { waited: self.end - self.started }
    }
}
