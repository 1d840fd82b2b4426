//! HTTP/1.1 connections that are polled by whoever uses them, and the list of those that rest.

use crate::error::{ClosedWhen, UpstreamError};
use crate::limits::Limits;
use crate::socket::{Socket, Watch};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{Connection, SendRequest, handshake};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::Instant;

type Driver = Connection<TokioIo<Socket>, Full<Bytes>>;

/// One connection. Dropping it closes the socket.
pub(crate) struct H1 {
    sender: SendRequest<Full<Bytes>>,
    /// None once it has ended.
    driver: Option<Box<Driver>>,
    watch: Arc<Watch>,
    /// When it takes no further request, as long as another can be made.
    retires: Instant,
}

impl H1 {
    pub(crate) async fn start(socket: Socket, retires: Instant) -> Result<Self, UpstreamError> {
        let watch = Arc::clone(socket.watch());
        let started = handshake(TokioIo::new(socket)).await; // sends nothing, waits for nothing
        let (sender, driver) = started.map_err(|error| UpstreamError::from_h1(error, ClosedWhen::Unprocessed))?;
        Ok(Self { sender, driver: Some(Box::new(driver)), watch, retires })
    }

    /// Moves bytes in both directions; the task of `cx` is woken when more can be moved.
    pub(crate) fn drive(&mut self, cx: &mut Context<'_>) {
        // An error here also reaches the response or the body, which report it.
        if self.driver.as_mut().is_some_and(|driver| Pin::new(driver).poll(cx).is_ready()) {
            self.driver = None;
        }
    }

    /// Moves bytes without asking to be woken. hyper's internal channels wake the task at their other end, which here is
    /// the task that is running: every frame would cost one more, empty, poll of the whole request.
    pub(crate) fn drive_unwoken(&mut self) {
        self.drive(&mut Context::from_waker(Waker::noop()));
    }

    /// Whether another request may follow.
    fn is_reusable(&self) -> bool {
        self.driver.is_some() && self.sender.is_ready()
    }

    /// Whether a rested connection is still open, as the kernel knows it now.
    fn is_alive(&mut self) -> bool {
        self.watch.probe.store(true, Relaxed);
        self.drive_unwoken();
        self.watch.probe.store(false, Relaxed);
        self.is_reusable()
    }

    /// Sends a request and waits for the head of its answer.
    ///
    /// # Errors
    /// [`ClosedWhen::Unprocessed`] if hyper hands the request back, which it does only if no byte of it was written, or if the
    /// peer had closed before any byte of it reached it ([`Watch::closed_untouched_since`]).
    pub(crate) async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
        limits: &mut Limits,
    ) -> Result<Response<Incoming>, UpstreamError> {
        let mark = self.watch.mark();
        let mut response = pin!(self.sender.try_send_request(request));
        let answer = poll_fn(|cx| {
            let unwoken = &mut Context::from_waker(Waker::noop());
            // First without a waker (see `drive_unwoken`), then, if there is nothing to return, with one.
            self.drive_unwoken();
            if let Poll::Ready(answer) = response.as_mut().poll(unwoken) {
                return Poll::Ready(Ok(answer));
            }
            self.drive(cx);
            if let Poll::Ready(answer) = response.as_mut().poll(unwoken) {
                return Poll::Ready(Ok(answer));
            }
            limits.poll(cx).map(Err)
        });
        answer.await?.map_err(|failed| match failed.message() {
            Some(_) => UpstreamError::closed(ClosedWhen::Unprocessed, failed.into_error()),
            None if self.watch.closed_untouched_since(mark) => {
                UpstreamError::closed(ClosedWhen::Unprocessed, failed.into_error())
            }
            None => UpstreamError::from_h1(failed.into_error(), ClosedWhen::BeforeHead),
        })
    }
}

/// Connections at rest, the freshest last.
///
/// Nobody polls them, so they cost nothing; one that the peer closed is found when it is taken or has rested too long.
pub(crate) struct Idle {
    lists: Mutex<Lists>,
    max: usize,
    max_rest: Duration,
}

#[derive(Default)]
struct Lists {
    resting: VecDeque<(H1, Instant)>,
    /// Those that are too old to be used while the provider's name can be resolved again.
    retired: VecDeque<(H1, Instant)>,
}

impl Idle {
    pub(crate) fn new(max: usize, max_rest: Duration) -> Self {
        Self { lists: Mutex::default(), max, max_rest }
    }

    /// The freshest connection that is still open and not too old.
    pub(crate) fn take(&self) -> Option<H1> {
        loop {
            let (mut connection, since) = self.lists.lock().resting.pop_back()?;
            if since.elapsed() >= self.max_rest || !connection.is_alive() {
                continue;
            }
            if Instant::now() < connection.retires {
                return Some(connection);
            }
            self.lists.lock().retired.push_back((connection, since));
        }
    }

    /// One that is too old but still open.
    pub(crate) fn take_retired(&self) -> Option<H1> {
        loop {
            let (mut connection, since) = self.lists.lock().retired.pop_back()?;
            if since.elapsed() < self.max_rest && connection.is_alive() {
                return Some(connection);
            }
        }
    }

    /// Takes a connection whose answer has ended, if it can carry another; else closes it.
    pub(crate) fn put(&self, mut connection: H1) {
        connection.drive_unwoken();
        if !connection.is_reusable() {
            return;
        }
        let now = Instant::now();
        let mut lists = self.lists.lock();
        let list = if now < connection.retires { &mut lists.resting } else { &mut lists.retired };
        list.push_back((connection, now));
        drop(lists);
        self.close_old();
    }

    /// Closes what rested too long, and what is too many.
    pub(crate) fn close_old(&self) {
        loop {
            let mut lists = self.lists.lock();
            let too_many = lists.resting.len() + lists.retired.len() > self.max;
            let past = |(_, since): &(H1, Instant)| too_many || since.elapsed() >= self.max_rest;
            let oldest = match (lists.retired.front(), lists.resting.front()) {
                (Some(retired), _) if past(retired) => lists.retired.pop_front(),
                (_, Some(resting)) if past(resting) => lists.resting.pop_front(),
                _ => return,
            };
            drop(lists); // closing a socket is a system call: not under the lock
            drop(oldest);
        }
    }

    pub(crate) fn len(&self) -> usize {
        let lists = self.lists.lock();
        lists.resting.len() + lists.retired.len()
    }
}
