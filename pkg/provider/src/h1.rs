//! HTTP/1.1 connections that are polled by whoever uses them.
//!
//! On `httparse` rather than hyper's client, which keeps three buffers of 8 KB for each connection, used or not: a stream that
//! waits for its next event, and there may be thousands, holds no more here than what came and was not taken. What
//! is read and refused is otherwise the same.

use crate::error::{BoxError, ClosedWhen, UpstreamError};
use crate::framing::{Framing, Malformed};
use crate::head;
use crate::limits::Limits;
use crate::socket::{Socket, Watch};
use bytes::{Buf, Bytes, BytesMut};
use http::{Method, Request, Response};
use std::future::{Future as _, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker, ready};
use tokio::io::{AsyncRead as _, AsyncReadExt as _, AsyncWrite as _, ReadBuf};
use tokio::time::Instant;

/// Bytes of a head; providers have been seen to send 17 KB.
const HEAD_MAX: usize = 256 << 10;
/// What is read at once grows from the first of these sizes to the second while there is more.
const READ: (usize, usize) = (8 << 10, 64 << 10);

/// One connection. Dropping it closes the socket.
pub(crate) struct H1 {
    socket: Socket,
    /// What is left of the request; none once all of it is written.
    unsent: Option<bytes::buf::Chain<Bytes, Bytes>>,
    /// What came and was not taken yet.
    came: Bytes,
    /// What is still to come of an answer.
    framing: Framing,
    /// Whether another request may follow, as far as is known.
    keeps: bool,
    read_size: usize,
    watch: Arc<Watch>,
    /// When it takes no further request, as long as another can be made.
    pub(crate) retires: Instant,
}

impl H1 {
    /// In a box: it goes through many hands, and through futures that would each be as large.
    pub(crate) fn boxed(socket: Socket, retires: Instant) -> Box<Self> {
        let (watch, came, read_size) = (Arc::clone(socket.watch()), Bytes::new(), READ.0);
        Box::new(Self {
            socket,
            unsent: None,
            came,
            framing: Framing::Length(0),
            keeps: true,
            read_size,
            watch,
            retires,
        })
    }

    /// Whether another request may follow.
    pub(crate) fn is_reusable(&self) -> bool {
        self.keeps && self.unsent.is_none() && self.came.is_empty() && self.framing.is_over()
    }

    /// Whether a rested connection is still open, as the kernel knows it now.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.watch.probe.store(true, Relaxed);
        let quiet = self.is_quiet();
        self.watch.probe.store(false, Relaxed);
        quiet
    }

    /// Whether nothing came at rest: neither an end nor a word that nobody asked for.
    pub(crate) fn is_quiet(&mut self) -> bool {
        let (mut byte, cx) = ([0], &mut Context::from_waker(Waker::noop()));
        self.is_reusable() && Pin::new(&mut self.socket).poll_read(cx, &mut ReadBuf::new(&mut byte)).is_pending()
    }

    /// Sends a request and waits for the head of its answer.
    ///
    /// # Errors
    /// [`ClosedWhen::Unprocessed`] if no byte of the request was written, or if the peer had closed before any byte of it reached
    /// it ([`Watch::closed_untouched_since`]).
    pub(crate) async fn exchange(
        &mut self,
        request: Request<Bytes>,
        limits: &mut Limits,
    ) -> Result<Response<()>, UpstreamError> {
        let (mark, bodiless) = (self.watch.mark(), request.method() == Method::HEAD);
        self.unsent = Some(head::written(&request).chain(request.into_body()));
        let mut came = BytesMut::new();
        let parsed = poll_fn(|cx| match self.poll_head(&mut came, cx) {
            Poll::Pending => limits.poll(cx).map(Err),
            parsed @ Poll::Ready(_) => parsed,
        });
        let parsed = parsed.await.map_err(|error| match error {
            UpstreamError::Closed { source, .. } if self.watch.untouched_since(mark) => {
                UpstreamError::Closed { when: ClosedWhen::Unprocessed, source }
            }
            error => error,
        })?;
        (self.came, self.keeps) = (came.freeze(), self.keeps && parsed.keeps);
        self.framing = if bodiless { Framing::Length(0) } else { parsed.framing };
        Ok(parsed.response)
    }

    fn poll_head(&mut self, came: &mut BytesMut, cx: &mut Context<'_>) -> Poll<Result<head::Parsed, UpstreamError>> {
        // Where writing fails, an answer may have come before: that of a peer that did not want the rest. The runtime may
        // not know of it yet, so what there is to be read is waited for; it is the connection's end at least.
        if self.poll_write(cx).map_err(drop) == Poll::Ready(Err(())) {
            (self.unsent, self.keeps) = (None, false);
        }
        loop {
            let read = ready!(self.poll_read(came, cx));
            let read = read.map_err(|error| UpstreamError::from_io(error, ClosedWhen::BeforeHead))?;
            if read == 0 {
                let ended =
                    UpstreamError::closed(ClosedWhen::BeforeHead, "the connection ended before an answer began");
                return Poll::Ready(Err(ended));
            }
            match head::parse(came).map_err(UpstreamError::Protocol)? {
                Some(parsed) => return Poll::Ready(Ok(parsed)),
                None if came.len() >= HEAD_MAX => {
                    let endless = BoxError::from("the head of an answer is too large");
                    return Poll::Ready(Err(UpstreamError::Protocol(endless)));
                }
                None => {}
            }
        }
    }

    /// The next piece of the body, which is not empty; none at its end.
    pub(crate) fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, UpstreamError>>> {
        if self.poll_write(cx).map_err(drop) == Poll::Ready(Err(())) {
            (self.unsent, self.keeps) = (None, false); // the answer is here already
        }
        let next = ready!(self.poll_framed(cx));
        if next.is_none() && self.unsent.take().is_some() {
            self.keeps = false;
        }
        Poll::Ready(next)
    }

    fn poll_framed(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, UpstreamError>>> {
        loop {
            match self.framing.next(&mut self.came) {
                Ok(Some(data)) => return Poll::Ready(Some(Ok(data))),
                Ok(None) if self.framing.is_over() => return Poll::Ready(None),
                Ok(None) => {}
                Err(Malformed(what)) => return Poll::Ready(Some(Err(UpstreamError::Protocol(what.into())))),
            }
            let mut came = BytesMut::new();
            match ready!(self.poll_read(&mut came, cx)) {
                Ok(0) if self.framing == Framing::UntilClose => {
                    (self.framing, self.keeps) = (Framing::Length(0), false);
                }
                Ok(0) => {
                    let cut = UpstreamError::closed(ClosedWhen::MidBody, "the connection ended inside an answer");
                    return Poll::Ready(Some(Err(cut)));
                }
                Ok(_) => self.came = came.freeze(),
                Err(error) => return Poll::Ready(Some(Err(UpstreamError::from_io(error, ClosedWhen::MidBody)))),
            }
        }
    }

    /// Whether the body is over and nothing has to be read any more to know it.
    pub(crate) fn is_end(&self) -> bool {
        self.framing.is_over() && self.unsent.is_none()
    }

    /// Bytes that are still to come of the body, if the provider said so.
    pub(crate) fn announced(&self) -> Option<u64> {
        if let Framing::Length(left) = self.framing { Some(left) } else { None }
    }

    /// Reads behind what `into` holds; a read that has to wait leaves no buffer behind.
    fn poll_read(&mut self, into: &mut BytesMut, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        into.reserve(self.read_size);
        let room = into.capacity() - into.len();
        let read = pin!(self.socket.read_buf(into)).poll(cx);
        if into.is_empty() {
            *into = BytesMut::new();
        }
        let count = ready!(read)?;
        self.read_size = if count == room { (self.read_size * 4).min(READ.1) } else { READ.0 };
        Poll::Ready(Ok(count))
    }

    /// Writes what is left of the request.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(unsent) = &mut self.unsent else { return Poll::Ready(Ok(())) };
        while unsent.has_remaining() {
            let mut slices = [IoSlice::new(&[]); 2];
            let count = unsent.chunks_vectored(&mut slices);
            let written = ready!(Pin::new(&mut self.socket).poll_write_vectored(cx, &slices[..count]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            unsent.advance(written);
        }
        ready!(Pin::new(&mut self.socket).poll_flush(cx))?;
        self.unsent = None;
        Poll::Ready(Ok(()))
    }
}
