//! A provider's body, read in the task that wants it.

use crate::board::Permit;
use crate::decode::Decoder;
use crate::error::{ClosedWhen, UpstreamError};
use crate::h1::H1;
use crate::h2pool::Lease;
use crate::idle::Idle;
use crate::limits::Limits;
use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

/// No more than this much is merged into one piece, so that one stream cannot hold a task for long.
const MERGE_MAX: usize = 64 * 1024;

/// The body of a [`crate::Reply`].
///
/// Invariants: it ends with `None` only if the provider ended it by the rules of its protocol (Content-Length reached,
/// last chunk, END_STREAM); a cut is an error. After an error or the end it stays ended. Dropping it before the end closes
/// the upstream: HTTP/1.1 by closing the connection, HTTP/2 by RST_STREAM(CANCEL).
pub struct UpstreamBody {
    source: Source,
    /// None for a body that is complete already.
    limits: Option<Limits>,
    /// An error that came together with bytes: the bytes go first.
    held: Option<UpstreamError>,
    /// Learns how the body ends.
    permit: Option<Permit>,
    /// Between what comes and what is read here, if the provider encoded it.
    decoder: Option<Box<Decoder>>,
}

/// What [`UpstreamBody::gather`] found.
#[derive(Debug)]
pub enum Gathered {
    /// All of it.
    Whole(Bytes),
    /// More than was wanted.
    Large {
        /// What has come, in order.
        first: Vec<Bytes>,
        /// What is still to come.
        rest: Box<UpstreamBody>,
    },
}

enum Source {
    H1 { connection: Box<H1>, home: Arc<Idle> },
    H2 { incoming: RecvStream, lease: Lease },
    Whole(Bytes),
    Ended,
}

impl UpstreamBody {
    pub(crate) fn h1(connection: Box<H1>, home: Arc<Idle>, limits: Limits) -> Self {
        let mut body = Self::of(Source::H1 { connection, home }, Some(limits));
        body.end_if_complete();
        body
    }

    pub(crate) fn h2(incoming: RecvStream, lease: Lease, limits: Limits) -> Self {
        let mut body = Self::of(Source::H2 { incoming, lease }, Some(limits));
        body.end_if_complete();
        body
    }

    /// A body that is already there, for providers that are not HTTP.
    pub fn whole(bytes: Bytes) -> Self {
        Self::of(Source::Whole(bytes), None)
    }

    fn of(source: Source, limits: Option<Limits>) -> Self {
        Self { source, limits, held: None, permit: None, decoder: None }
    }

    pub(crate) fn decoded(self, decoder: Option<Decoder>) -> Self {
        Self { decoder: decoder.map(Box::new), ..self }
    }

    /// The same body; `permit` is told of a cut and let go at the end.
    pub(crate) fn watched(mut self, permit: Permit) -> Self {
        self.permit = (!matches!(self.source, Source::Ended)).then_some(permit);
        self
    }

    /// The next piece: everything that is ready now, at most about 64 KiB, never empty.
    ///
    /// It never waits for more than the first frame, so merging adds no delay; a burst of small chunks becomes one write.
    /// Times out by the limits of the exchange.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, UpstreamError>>> {
        let next = self.poll_piece(cx);
        match &next {
            Poll::Ready(Some(Err(error))) => {
                if let Some(mut permit) = self.permit.take() {
                    permit.failed(error);
                }
            }
            Poll::Ready(None) => self.permit = None,
            Poll::Ready(Some(Ok(_))) | Poll::Pending => {}
        }
        next
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, UpstreamError>>> {
        if self.decoder.is_some() { self.poll_decoded(cx) } else { self.poll_raw(cx) }
    }

    /// As [`Self::poll_next`], through the decoder: it is asked for more before the source is.
    fn poll_decoded(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, UpstreamError>>> {
        loop {
            let Some(decoder) = &mut self.decoder else { return Poll::Ready(None) };
            let end = match decoder.step() {
                Ok(Some(piece)) if piece.is_empty() => continue,
                Ok(Some(piece)) => return Poll::Ready(Some(Ok(piece))),
                Err(error) => Some(Err(UpstreamError::Undecodable(error))),
                Ok(None) => match ready!(self.poll_raw(cx)) {
                    Some(Ok(bytes)) => {
                        self.decoder.as_mut().expect("it asked for more").feed(bytes);
                        continue;
                    }
                    None if self.decoder.as_mut().is_some_and(|decoder| !decoder.is_whole()) => {
                        let cut = "the body ended inside its encoding";
                        Some(Err(UpstreamError::closed(ClosedWhen::MidBody, cut)))
                    }
                    end => end,
                },
            };
            // Nothing that still comes can be read: the upstream is closed, and the body stays ended.
            (self.source, self.decoder, self.held) = (Source::Ended, None, None);
            return Poll::Ready(end);
        }
    }

    fn poll_raw(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, UpstreamError>>> {
        if let Some(error) = self.held.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let mut piece = Piece::default();
        while piece.len() < MERGE_MAX {
            match self.source.poll_frame(cx, piece.len() == 0) {
                Poll::Ready(Some(Ok(bytes))) => piece.push(bytes),
                Poll::Ready(Some(Err(error))) => {
                    self.source = Source::Ended;
                    self.held = Some(error);
                    break;
                }
                Poll::Ready(None) => {
                    self.end();
                    break;
                }
                Poll::Pending if piece.len() == 0 => return self.poll_limits(cx),
                Poll::Pending => break,
            }
        }
        if piece.len() > 0 {
            self.note_progress();
            self.end_if_complete();
            return Poll::Ready(Some(Ok(piece.into_bytes())));
        }
        Poll::Ready(self.held.take().map(Err))
    }

    /// The whole body, copied to its exact size: pieces are slices of read buffers of 8 KB and more.
    ///
    /// # Errors
    /// [`UpstreamError::TooLarge`] beyond `max_bytes`, at once if the provider announced it; else what [`Self::poll_next`]
    /// reports. The upstream is closed.
    pub async fn collect(self, max_bytes: usize) -> Result<Bytes, UpstreamError> {
        match self.gather(max_bytes).await? {
            Gathered::Whole(bytes) => Ok(bytes),
            Gathered::Large { .. } => Err(UpstreamError::TooLarge { limit: max_bytes }),
        }
    }

    /// The whole body as [`Self::collect`] gives it, or what came of a larger one, and the rest.
    ///
    /// # Errors
    /// What [`Self::poll_next`] reports. The upstream is closed.
    pub async fn gather(mut self, max_bytes: usize) -> Result<Gathered, UpstreamError> {
        let (mut first, mut size) = (Vec::new(), 0);
        if self.announced().is_some_and(|size| size > max_bytes as u64) {
            return Ok(Gathered::Large { first, rest: Box::new(self) });
        }
        while let Some(piece) = poll_fn(|cx| self.poll_next(cx)).await {
            let piece = piece?;
            size += piece.len();
            first.push(piece);
            if size > max_bytes {
                return Ok(Gathered::Large { first, rest: Box::new(self) });
            }
        }
        Ok(Gathered::Whole(Bytes::from(first.concat())))
    }

    /// Bytes still to come, if the provider said so. Of an encoded body nobody knows.
    pub fn announced(&self) -> Option<u64> {
        match &self.source {
            _ if self.decoder.is_some() => None,
            Source::H1 { connection, .. } => connection.announced(),
            Source::H2 { .. } => None,
            Source::Whole(bytes) => Some(bytes.len() as u64),
            Source::Ended => Some(0),
        }
    }

    fn poll_limits(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, UpstreamError>>> {
        let Some(limits) = &mut self.limits else { return Poll::Pending };
        limits.poll(cx).map(|error| {
            self.source = Source::Ended;
            Some(Err(error))
        })
    }

    fn note_progress(&mut self) {
        if let Some(Err(error)) = self.limits.as_mut().map(Limits::progress)
            && !matches!(self.source, Source::Ended)
        {
            self.source = Source::Ended;
            self.held = Some(error);
        }
    }

    /// Ends as soon as the last byte is there, so that the connection rests even if nobody asks for the `None`.
    fn end_if_complete(&mut self) {
        let complete = match &self.source {
            Source::H1 { connection, .. } => connection.is_end(),
            Source::H2 { incoming, .. } => incoming.is_end_stream(),
            Source::Whole(_) | Source::Ended => false,
        };
        if complete {
            self.end();
        }
    }

    fn end(&mut self) {
        self.permit = None;
        match std::mem::replace(&mut self.source, Source::Ended) {
            Source::H1 { connection, home } => home.put(connection),
            Source::H2 { incoming, lease } => {
                drop(incoming);
                lease.end();
            }
            Source::Whole(_) | Source::Ended => {}
        }
    }
}

impl Source {
    /// The next frame that is not empty. Asks to be woken only if `wake`.
    fn poll_frame(&mut self, cx: &mut Context<'_>, wake: bool) -> Poll<Option<Result<Bytes, UpstreamError>>> {
        loop {
            let frame = match self {
                Self::H1 { connection, .. } if wake => ready!(connection.poll_data(cx)),
                Self::H1 { connection, .. } => ready!(connection.poll_data(&mut Context::from_waker(Waker::noop()))),
                Self::H2 { incoming, .. } => ready!(poll_h2(incoming, cx)),
                Self::Whole(bytes) => {
                    let bytes = std::mem::take(bytes);
                    *self = Self::Ended;
                    Some(Ok(bytes))
                }
                Self::Ended => None,
            };
            if !matches!(&frame, Some(Ok(bytes)) if bytes.is_empty()) {
                return Poll::Ready(frame);
            }
        }
    }
}

type Frame = Option<Result<Bytes, UpstreamError>>;

fn poll_h2(incoming: &mut RecvStream, cx: &mut Context<'_>) -> Poll<Frame> {
    incoming.poll_data(cx).map(|frame| {
        let taken = frame?.and_then(|bytes| incoming.flow_control().release_capacity(bytes.len()).map(|()| bytes));
        Some(taken.map_err(|error| UpstreamError::from_h2(error, ClosedWhen::MidBody)))
    })
}

/// Frames merged into one: the first is passed on as it is, further ones are copied behind it.
#[derive(Default)]
struct Piece {
    first: Bytes,
    merged: BytesMut,
}

impl Piece {
    fn len(&self) -> usize {
        self.first.len() + self.merged.len()
    }

    fn push(&mut self, bytes: Bytes) {
        if self.len() == 0 {
            self.first = bytes;
            return;
        }
        if !self.first.is_empty() {
            self.merged.reserve((2 * (self.first.len() + bytes.len())).max(4096));
            self.merged.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.merged.extend_from_slice(&bytes);
    }

    fn into_bytes(self) -> Bytes {
        if self.merged.is_empty() { self.first } else { self.merged.freeze() }
    }
}

impl fmt::Debug for UpstreamBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.source {
            Source::H1 { .. } => "UpstreamBody(HTTP/1.1)",
            Source::H2 { .. } => "UpstreamBody(HTTP/2)",
            Source::Whole(_) => "UpstreamBody(whole)",
            Source::Ended => "UpstreamBody(ended)",
        })
    }
}
