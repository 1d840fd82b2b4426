//! How long a slow caller is borne with.
//!
//! hyper has one timer, from the end of an answer to the end of the next head: long enough for a connection at rest, it is
//! also what a caller has who sends its head a byte a second, and nothing limits one that does not read its answer. So the
//! socket is watched from below: a head that has begun has a time of its own, and so has a write that the peer takes
//! nothing of. The end of either is an error of the connection, which drops the answer's body: that records the abort.

use hyper::body::{Body, Frame, SizeHint};
use signet_telemetry::Metrics;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// What a peer may still be sending behind a head that was refused is read for so long, and no more than this: closing
/// a socket with unread bytes resets it, and the refusal is lost.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 4 << 20;

/// How long a slow caller is borne with. None of it touches an answer that is only slow to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// From the first byte of a head to its last.
    pub head: Duration,
    /// A connection without a request.
    pub idle: Duration,
    /// A body: longest silence, and what it takes in all beyond the time that its bytes have at `body_rate_min`.
    pub body: Duration,
    /// Bytes a second that a body comes at on average at least. 0: any.
    pub body_rate_min: u64,
    /// How long the peer may take nothing of what is written to it.
    pub write: Duration,
}

impl Patience {
    /// How long the next piece of a body may take, `spent` after it began and `received` bytes into it.
    pub(crate) fn for_body(&self, spent: Duration, received: u64) -> Duration {
        if self.body_rate_min == 0 {
            return self.body;
        }
        let earned = Duration::from_millis(received.saturating_mul(1000) / self.body_rate_min);
        (self.body + earned).saturating_sub(spent).min(self.body)
    }
}

/// The requests of one connection.
#[derive(Debug, Default)]
pub(crate) struct Talk {
    begun: AtomicU64,
    /// Bodies of requests and answers that are not over.
    open: AtomicUsize,
}

impl Talk {
    /// A head has arrived.
    pub(crate) fn begin(self: &Arc<Self>) -> Turn {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.turn()
    }

    fn turn(self: &Arc<Self>) -> Turn {
        self.open.fetch_add(1, Ordering::Relaxed);
        Turn(self.clone())
    }
}

/// While it lives, what comes belongs to a request that has begun.
#[derive(Debug)]
pub(crate) struct Turn(Arc<Talk>);

impl Turn {
    /// `body`, which is a part of this turn.
    pub(crate) fn with<B>(&self, body: B) -> Riding<B, Self> {
        Riding::new(body, self.0.turn())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A body, and what must live as long.
pub(crate) struct Riding<B, R> {
    body: B,
    _rider: R,
}

impl<B, R> Riding<B, R> {
    pub(crate) const fn new(body: B, rider: R) -> Self {
        Self { body, _rider: rider }
    }
}

impl<B: Body + Unpin, R: Unpin> Body for Riding<B, R> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A timer that costs nothing until something waits for it.
#[derive(Debug, Default)]
struct Alarm {
    sleep: Option<Pin<Box<Sleep>>>,
    set: bool,
}

impl Alarm {
    /// Whether `after` has passed since it was first asked.
    fn is_over(&mut self, after: Duration, cx: &mut Context<'_>) -> bool {
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(after)));
        if !self.set {
            sleep.as_mut().reset(Instant::now() + after);
            self.set = true;
        }
        sleep.as_mut().poll(cx).is_ready()
    }

    const fn clear(&mut self) {
        self.set = false;
    }
}

/// A caller's socket, watched.
pub(crate) struct Paced<S> {
    socket: S,
    patience: Patience,
    talk: Arc<Talk>,
    metrics: Arc<Metrics>,
    /// The requests that had begun when this was last looked at.
    begun: u64,
    /// Bytes have come that belong to no request yet: a head.
    heard: bool,
    head: Alarm,
    stall: Alarm,
    /// Bytes thrown away since everything was said.
    lingering: Option<usize>,
}

impl<S> Paced<S> {
    pub(crate) fn new(socket: S, patience: Patience, talk: Arc<Talk>, metrics: Arc<Metrics>) -> Self {
        let (head, stall) = (Alarm::default(), Alarm::default());
        Self { socket, patience, talk, metrics, begun: 0, heard: false, head, stall, lingering: None }
    }

    /// Whether nothing is asked at the moment; forgets the head of a request that has begun.
    fn is_at_rest(&mut self) -> bool {
        let begun = self.talk.begun.load(Ordering::Relaxed);
        if begun != self.begun {
            (self.begun, self.heard) = (begun, false);
            self.head.clear();
        }
        self.talk.open.load(Ordering::Relaxed) == 0
    }

    /// Ends a write that the peer takes nothing of.
    fn taken<T>(&mut self, wrote: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if wrote.is_ready() {
            self.stall.clear();
            return wrote;
        }
        if !self.stall.is_over(self.patience.write, cx) {
            return Poll::Pending;
        }
        self.metrics.limited("slow_reader");
        Poll::Ready(Err(late("the caller reads nothing")))
    }
}

fn late(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Paced<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = into.filled().len();
        let read = Pin::new(&mut this.socket).poll_read(cx, into);
        if !this.is_at_rest() {
            return read;
        }
        this.heard |= into.filled().len() > before;
        if read.is_pending() && this.heard && this.head.is_over(this.patience.head, cx) {
            this.metrics.limited("slow_head");
            return Poll::Ready(Err(late("the head does not come")));
        }
        read
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let wrote = Pin::new(&mut this.socket).poll_write(cx, bytes);
        this.taken(wrote, cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let wrote = Pin::new(&mut this.socket).poll_write_vectored(cx, slices);
        this.taken(wrote, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.socket).poll_flush(cx);
        this.taken(flushed, cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.lingering.is_none() {
            let said = Pin::new(&mut this.socket).poll_shutdown(cx);
            ready!(this.taken(said, cx))?;
            this.lingering = Some(0);
            this.head.clear();
        }
        // A head that was refused may still be coming.
        if this.is_at_rest() && this.heard {
            ready!(this.poll_linger(cx));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> Paced<S> {
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut scratch = [0; 4096];
        while self.lingering.is_some_and(|thrown| thrown < LINGER_BYTES) {
            let mut into = ReadBuf::new(&mut scratch);
            match Pin::new(&mut self.socket).poll_read(cx, &mut into) {
                Poll::Ready(Ok(())) if !into.filled().is_empty() => {
                    self.lingering = self.lingering.map(|thrown| thrown + into.filled().len());
                }
                Poll::Pending if !self.head.is_over(LINGER, cx) => return Poll::Pending,
                Poll::Ready(_) | Poll::Pending => break,
            }
        }
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    const PATIENCE: Patience = Patience {
        head: Duration::from_secs(10),
        idle: Duration::from_secs(75),
        body: Duration::from_secs(30),
        body_rate_min: 1024,
        write: Duration::from_mins(1),
    };

    fn pair(buffer: usize) -> (DuplexStream, Paced<DuplexStream>, Arc<Talk>) {
        let (caller, socket) = duplex(buffer);
        let talk = Arc::new(Talk::default());
        (caller, Paced::new(socket, PATIENCE, talk.clone(), Arc::new(Metrics::new())), talk)
    }

    /// A caller that sends a byte a second for three hours, if somebody listens.
    async fn drip(mut caller: DuplexStream) {
        for _ in 0..3 * 3600 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if caller.write_all(b"x").await.is_err() {
                return;
            }
        }
    }

    /// How long reading goes on until it fails, in whole seconds.
    async fn read_until_it_fails(mut socket: Paced<DuplexStream>) -> (io::ErrorKind, u64) {
        let started = Instant::now();
        let error = failure(&mut socket).await;
        (error.kind(), started.elapsed().as_secs())
    }

    async fn failure(socket: &mut Paced<DuplexStream>) -> io::Error {
        loop {
            match socket.read(&mut [0; 64]).await {
                Ok(0) => return io::ErrorKind::UnexpectedEof.into(),
                Ok(_) => {}
                Err(error) => return error,
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_comes_a_byte_a_second_ends_ten_seconds_after_its_first() {
        let (caller, socket, _talk) = pair(64);
        let (ended, ()) = tokio::join!(read_until_it_fails(socket), drip(caller));
        assert_eq!(ended, (io::ErrorKind::TimedOut, 1 + 10));
    }

    #[tokio::test(start_paused = true)]
    async fn so_it_does_on_a_kept_connection_and_the_time_before_its_first_byte_does_not_count() {
        let (mut caller, mut socket, talk) = pair(64);
        caller.write_all(b"GET /").await.expect("room");
        let read = socket.read(&mut [0; 64]).await.expect("bytes");
        assert_eq!(read, 5);
        drop(talk.begin());
        let waiting = tokio::time::timeout(Duration::from_mins(1), socket.read(&mut [0; 64])).await;
        assert!(waiting.is_err(), "the head of the request before is forgotten, and rest is not limited here");
        let (ended, ()) = tokio::join!(read_until_it_fails(socket), drip(caller));
        assert_eq!(ended, (io::ErrorKind::TimedOut, 1 + 10));
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_during_a_request_is_no_head() {
        let (caller, mut socket, talk) = pair(64);
        let turn = talk.begin();
        let answer = turn.with(String::new());
        drop(turn);
        let reading = async move {
            let hour = Duration::from_hours(1);
            assert!(tokio::time::timeout(hour, failure(&mut socket)).await.is_err());
            drop(answer);
            read_until_it_fails(socket).await
        };
        let (ended, ()) = tokio::join!(reading, drip(caller));
        assert_eq!(ended.0, io::ErrorKind::TimedOut, "once the answer is over, a byte begins the next head");
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_reads_nothing_is_given_up_after_a_minute_and_one_that_reads_a_little_is_not() {
        let (mut caller, mut socket, _talk) = pair(8);
        let started = Instant::now();
        let writing = async {
            loop {
                if let Err(error) = socket.write_all(b"12345678").await {
                    return (error.kind(), started.elapsed().as_secs());
                }
            }
        };
        let reading = async {
            for _ in 0..5 {
                tokio::time::sleep(Duration::from_secs(50)).await;
                caller.read_exact(&mut [0; 2]).await.expect("bytes");
            }
            tokio::time::sleep(Duration::from_hours(1)).await;
        };
        let ended = tokio::select! {
            ended = writing => ended,
            () = reading => panic!("not given up"),
        };
        assert_eq!(ended, (io::ErrorKind::TimedOut, 250 + 60));
    }

    #[tokio::test(start_paused = true)]
    async fn behind_a_refused_head_the_rest_is_read_for_a_moment_and_without_one_the_end_comes_at_once() {
        let (mut caller, mut socket, _talk) = pair(1 << 10);
        caller.write_all(&[b'x'; 100]).await.expect("room");
        socket.read_exact(&mut [0; 50]).await.expect("bytes");
        let started = Instant::now();
        socket.shutdown().await.expect("an orderly end");
        assert_eq!(started.elapsed(), LINGER);
        caller.write_all(&[b'x'; 1 << 10]).await.expect("the rest was taken out of the way");

        let (_caller, mut socket, _talk) = pair(1 << 10);
        let started = Instant::now();
        socket.shutdown().await.expect("an orderly end");
        assert_eq!(started.elapsed(), Duration::ZERO);
    }

    proptest! {
        /// Whatever a sender does within its limits, it is done after the time that its bytes have at the lowest rate and
        /// one silence more.
        #[test]
        fn a_body_is_over_in_a_time_that_its_size_bounds(waits in prop::collection::vec((0u64..40_000, 1u64..100_000), 1..200)) {
            let (mut spent, mut received) = (Duration::ZERO, 0);
            for (wait_ms, bytes) in waits {
                let (wait, allowed) = (Duration::from_millis(wait_ms), PATIENCE.for_body(spent, received));
                prop_assert!(allowed <= PATIENCE.body);
                spent += wait.min(allowed);
                let bound = PATIENCE.body + Duration::from_millis(received * 1000 / PATIENCE.body_rate_min);
                prop_assert!(spent <= bound, "{spent:?} for {received} bytes");
                if wait > allowed {
                    break;
                }
                received += bytes;
            }
        }
    }

    #[test]
    fn one_byte_each_29_seconds_is_not_borne_with_for_long() {
        assert_eq!(PATIENCE.for_body(Duration::from_secs(29), 1), Duration::from_secs(1));
        assert_eq!(PATIENCE.for_body(Duration::from_secs(31), 1), Duration::ZERO);
        let any = Patience { body_rate_min: 0, ..PATIENCE };
        assert_eq!(any.for_body(Duration::from_hours(9), 1), Duration::from_secs(30));
    }
}
