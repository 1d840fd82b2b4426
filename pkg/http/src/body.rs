//! Bodies, in and out.

use crate::pace::Patience;
use axum::body::Body as AxumBody;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, EXPECT};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use signet_pipeline::{BodyFault, Cut, Live, Poured, ReplyBody};
use std::error::Error;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// How long and how much of an unwanted body is read and thrown away, so that its sender sees the answer and not a reset.
const DRAIN_FOR: Duration = Duration::from_secs(3);
const DRAIN_BYTES: u64 = 256 << 20;

/// A request's body. One that no step has read when the answer is there is thrown away behind it: many clients look for
/// an answer only after they have sent everything.
pub(crate) struct Inbound {
    body: Option<AxumBody>,
    length: Option<u64>,
    /// The sender waits for `100 Continue`, so it has sent nothing yet.
    waits: bool,
    limit: u64,
    patience: Patience,
}

impl Inbound {
    /// The body behind a head; at most `limit` bytes of it are taken.
    pub(crate) fn new(headers: &HeaderMap, body: AxumBody, limit: u64, patience: Patience) -> Self {
        let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        let waits = headers.get(EXPECT).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"));
        Self { body: Some(body), length, waits, limit, patience }
    }

    /// Reads it whole, copied to its exact size.
    pub(crate) async fn read(mut self) -> Result<Bytes, BodyFault> {
        let Some(body) = self.body.take() else { return Ok(Bytes::new()) };
        if self.length.is_some_and(|length| length > self.limit) {
            if !self.waits {
                drain(body).await;
            }
            return Err(BodyFault::TooLarge(self.limit));
        }
        collect(body, self.length, self.limit, &self.patience).await
    }
}

impl Drop for Inbound {
    fn drop(&mut self) {
        let unread = self.body.take().filter(|body| !self.waits && !body.is_end_stream());
        if let (Some(body), Ok(runtime)) = (unread, tokio::runtime::Handle::try_current()) {
            runtime.spawn(drain(body));
        }
    }
}

/// A sender that is silent, or much slower than any network, holds a connection for no good.
async fn collect(
    mut body: AxumBody,
    announced: Option<u64>,
    limit: u64,
    patience: &Patience,
) -> Result<Bytes, BodyFault> {
    let expected = usize::try_from(announced.unwrap_or(0).min(1 << 20)).unwrap_or(0);
    let mut whole = BytesMut::with_capacity(expected);
    let started = Instant::now();
    let next = async |body: &mut AxumBody, received: usize| {
        let wait = patience.for_body(started.elapsed(), received as u64);
        timeout(wait, body.frame()).await.map_err(|_| BodyFault::Silent(started.elapsed()))
    };
    while let Some(frame) = next(&mut body, whole.len()).await? {
        let Ok(data) = frame.map_err(|error| blame(&error))?.into_data() else { continue };
        if (whole.len() + data.len()) as u64 > limit {
            drop(whole);
            drain(body).await;
            return Err(BodyFault::TooLarge(limit));
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

/// hyper tells broken chunks from a broken connection by the kind of the I/O error at the bottom.
fn blame(error: &axum::Error) -> BodyFault {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            let malformed = matches!(io.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput);
            return if malformed { BodyFault::Malformed } else { BodyFault::Gone };
        }
        cause = error.source();
    }
    BodyFault::Gone
}

async fn drain(mut body: AxumBody) {
    let mut left = DRAIN_BYTES;
    let reading = async {
        while let Some(Ok(frame)) = body.frame().await {
            let size = frame.data_ref().map_or(0, |data| data.len() as u64);
            left = left.saturating_sub(size);
            if left == 0 {
                return;
            }
        }
    };
    if tokio::time::timeout(DRAIN_FOR, reading).await.is_err() {
        tracing::debug!("an unwanted body was not read to its end");
    }
}

/// An answer's body.
pub(crate) enum Edge {
    Whole(Option<Bytes>),
    Replay { bytes: Option<Bytes>, trailers: Option<HeaderMap> },
    Live(Box<Live>),
    Poured(Box<Poured>),
}

impl From<ReplyBody> for Edge {
    fn from(body: ReplyBody) -> Self {
        match body {
            ReplyBody::Whole(bytes) => Self::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())),
            ReplyBody::Live(live) => Self::Live(live),
            ReplyBody::Poured(poured) => Self::Poured(poured),
            ReplyBody::Replay { bytes, trailers } => Self::Replay { bytes: Some(bytes), trailers },
        }
    }
}

impl Body for Edge {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Replay { bytes, trailers } => {
                let data = bytes.take().map(Frame::data);
                Poll::Ready(data.or_else(|| trailers.take().map(Frame::trailers)).map(Ok))
            }
            Self::Live(live) => Pin::new(&mut **live).poll_frame(cx),
            Self::Poured(poured) => Pin::new(&mut **poured).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Replay { bytes, trailers } => bytes.is_none() && trailers.is_none(),
            Self::Live(_) | Self::Poured(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Replay { .. } | Self::Live(_) | Self::Poured(_) => SizeHint::default(),
        }
    }
}
