//! HTTP/2 connections, each shared by many requests.
//!
//! On the h2 crate rather than hyper's client: that one hides the peer's SETTINGS and spawns two tasks a connection and
//! one a request. Here a connection is one driver task, and a request none.

use crate::error::{ClosedWhen, UpstreamError};
use crate::limits::Limits;
use crate::socket::Tcp;
use bytes::Bytes;
use h2::RecvStream;
use h2::client::{Builder, SendRequest};
use http::{Request, Response};
use parking_lot::Mutex;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_rustls::client::TlsStream;

/// Streams on one connection even where the peer would take more: one lost packet stalls them all.
const MAX_STREAMS: usize = 100;
/// After so many cancelled streams a connection takes no new one. Common servers, and the h2 crate itself, close a
/// connection with ENHANCE_YOUR_CALM at about 1,000, and that would end every other stream on it.
const MAX_RESETS: usize = 500;
/// Header lists up to this size are read; h2's own default of 16 KB is less than real providers have sent.
const MAX_HEADER_LIST: u32 = 256 * 1024;
/// How long a peer may still send on a stream that was cancelled.
const LATE: Duration = Duration::from_secs(30);
const STREAM_WINDOW: u32 = 2 * 1024 * 1024;
const CONNECTION_WINDOW: u32 = 8 * 1024 * 1024;

/// One connection. When the pool and the last stream have let go of it, its task is aborted and the socket closed.
struct Shared {
    sender: SendRequest<Bytes>,
    driver: AbortHandle,
    streams: AtomicUsize,
    resets: AtomicUsize,
    /// When it takes no further stream, as long as another connection can be made.
    retires: Instant,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Shared {
    async fn start(stream: TlsStream<Tcp>, retires: Instant) -> Result<Self, h2::Error> {
        let mut builder = Builder::new();
        builder.enable_push(false).max_header_list_size(MAX_HEADER_LIST);
        builder.initial_window_size(STREAM_WINDOW).initial_connection_window_size(CONNECTION_WINDOW);
        // A peer goes on sending for a while on a stream that we cancelled. Of streams that it has forgotten the h2 crate takes
        // that for an error of the peer, and after 1,024 of them it ends the connection and every other stream on it: so it
        // remembers all that a connection can have.
        builder.max_concurrent_reset_streams(MAX_RESETS + MAX_STREAMS).reset_stream_duration(LATE);
        // No stream before the peer's SETTINGS: without its MAX_CONCURRENT_STREAMS a burst would queue up behind the few
        // streams it allows, instead of getting further connections.
        let (sender, mut connection) = builder.initial_max_send_streams(0).handshake(stream).await?;
        poll_fn(|cx| match Pin::new(&mut connection).poll(cx) {
            Poll::Ready(end) => Poll::Ready(end.and(Err(h2::Reason::NO_ERROR.into()))),
            Poll::Pending if connection.max_concurrent_send_streams() > 0 => Poll::Ready(Ok(())),
            Poll::Pending => Poll::Pending,
        })
        .await?;
        let driver = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "an HTTP/2 connection to a provider ended");
            }
        });
        let (streams, resets) = <(AtomicUsize, AtomicUsize)>::default();
        Ok(Self { sender, driver: driver.abort_handle(), streams, resets, retires })
    }

    fn is_open(&self) -> bool {
        !self.driver.is_finished() && self.resets.load(Ordering::Relaxed) < MAX_RESETS
    }

    fn has_room(&self) -> bool {
        self.streams.load(Ordering::Relaxed) < self.sender.current_max_send_streams().min(MAX_STREAMS)
    }
}

/// A place for one stream on a connection.
pub(crate) struct Lease {
    shared: Arc<Shared>,
    ended: bool,
}

impl Lease {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.streams.fetch_add(1, Ordering::Relaxed);
        Self { shared: Arc::clone(shared), ended: false }
    }

    /// The stream ended by itself: its end is no reset.
    pub(crate) fn end(mut self) {
        self.ended = true;
    }

    /// Sends a request and waits for the head of its answer. Dropping the future resets the stream.
    pub(crate) async fn exchange(
        &self,
        head: Request<()>,
        body: Bytes,
        limits: &mut Limits,
    ) -> Result<Response<RecvStream>, UpstreamError> {
        let unprocessed = |error| UpstreamError::closed(ClosedWhen::Unprocessed, error);
        let mut sender = self.shared.sender.clone().ready().await.map_err(unprocessed)?;
        let (response, mut upload) = sender.send_request(head, body.is_empty()).map_err(unprocessed)?;
        if !body.is_empty() {
            // It fails only if the stream has ended already, and then the response knows why.
            let _ = upload.send_data(body, true);
        }
        let mut response = pin!(response);
        let answer = poll_fn(|cx| match response.as_mut().poll(cx) {
            Poll::Ready(answer) => Poll::Ready(Ok(answer)),
            Poll::Pending => limits.poll(cx).map(Err),
        });
        answer.await?.map_err(|error| UpstreamError::from_h2(error, ClosedWhen::BeforeHead))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.shared.streams.fetch_sub(1, Ordering::Relaxed);
        if !self.ended {
            self.shared.resets.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The connections that take new streams. A retired one lives on in its streams alone.
pub(crate) struct H2Pool {
    open: Mutex<Vec<(Arc<Shared>, Instant)>>,
    max_rest: Duration,
}

impl H2Pool {
    pub(crate) fn new(max_rest: Duration) -> Self {
        Self { open: Mutex::default(), max_rest }
    }

    /// A place on an open connection that has room and is not too old. The first that is: the others drain and are closed.
    pub(crate) fn lease(&self) -> Option<Lease> {
        let now = Instant::now();
        self.lease_if(|shared| now < shared.retires)
    }

    /// A place on one that is too old but still open.
    pub(crate) fn lease_retired(&self) -> Option<Lease> {
        self.lease_if(|_| true)
    }

    fn lease_if(&self, fits: impl Fn(&Shared) -> bool) -> Option<Lease> {
        self.close_old();
        let mut open = self.open.lock();
        let (shared, used) = open.iter_mut().find(|(shared, _)| shared.has_room() && fits(shared))?;
        *used = Instant::now();
        Some(Lease::new(shared))
    }

    /// Adds a fresh connection and takes the first place on it.
    pub(crate) async fn add(&self, stream: TlsStream<Tcp>, retires: Instant) -> Result<Lease, h2::Error> {
        let shared = Arc::new(Shared::start(stream, retires).await?);
        let lease = Lease::new(&shared);
        self.open.lock().push((shared, Instant::now()));
        Ok(lease)
    }

    /// No new stream on this connection: it refused one, or did not answer in time.
    pub(crate) fn retire(&self, lease: &Lease) {
        self.open.lock().retain(|(shared, _)| !Arc::ptr_eq(shared, &lease.shared));
    }

    /// Lets go of connections that ended, were reset too often or rested too long.
    pub(crate) fn close_old(&self) {
        let rested = |shared: &Shared, used: &Instant| {
            shared.streams.load(Ordering::Relaxed) == 0 && used.elapsed() >= self.max_rest
        };
        self.open.lock().retain(|(shared, used)| shared.is_open() && !rested(shared, used));
    }

    pub(crate) fn len(&self) -> usize {
        self.open.lock().len()
    }
}
