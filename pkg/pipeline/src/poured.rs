//! A whole answer that is larger than what is held: passed on as it comes.
//!
//! It is not read, so it is never stored and its record has no usage. Its last piece is held back until the record is
//! written, so that a complete answer always has one. Dropping the body cancels the upstream call and records the abort.

use crate::exchange::{Ending, Exchange, Sent};
use crate::fault::{Fault, is_timeout};
use crate::head::Head;
use crate::landing::{Landed, Large};
use crate::live::Cut;
use crate::pipeline::{AuthMode, Pipeline};
use crate::recorder::Attested;
use crate::reply::{self, Reply, ReplyBody, names};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::HeaderMap;
use http_body::{Body, Frame};
use sha2::{Digest, Sha256};
use signet_lineage::{CommitmentHasher, Outcome};
use signet_provider::{UpstreamBody, UpstreamError};
use signet_types::ProviderName;
use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// The body of such an answer.
pub struct Poured {
    pipeline: Arc<Pipeline>,
    exchange: Exchange,
    provider: ProviderName,
    status: u16,
    first: VecDeque<Bytes>,
    /// None once it has ended.
    rest: Option<Box<UpstreamBody>>,
    held: Option<Bytes>,
    /// Ready once the record is as safe as the mode promises; the last piece goes then.
    settling: Option<BoxFuture<'static, Result<(), Fault>>>,
    sent: CommitmentHasher,
    bytes: u64,
    chunks: u64,
    /// What has been sent, for a caller that takes trailers.
    digest: Option<Sha256>,
    trailers: Option<HeaderMap>,
    /// When the answer's head was sent on, and how long the provider had had the request by then.
    since: (Instant, Duration),
}

impl fmt::Debug for Poured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poured").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Pipeline {
    /// Makes a large answer this participant's reply.
    pub(crate) fn pour(
        self: &Arc<Self>,
        exchange: &mut Exchange,
        head: &Head,
        landed: &Landed,
        large: Large,
    ) -> Result<Reply, Fault> {
        let Large { status, headers, ttfb, first, rest } = large;
        if matches!(status, 401 | 403) && self.parts.settings.auth != AuthMode::Passthrough {
            return Err(Fault::ProviderRefused { provider: landed.provider.clone() });
        }
        exchange.ttfb = Some(ttfb);
        exchange.first_byte_ms = Some(self.parts.clock.now_ms());
        let mut headers = headers;
        reply::common(&mut headers, exchange, head.request_id.as_str(), false);
        reply::fixed(&mut headers, names::CACHE_STATUS, reply::forwarded(exchange.x_cache, false));
        if head.takes_trailers {
            reply::announce_trailers(&mut headers);
        }
        let sent = exchange.opening().commitment_key("response").hasher();
        let poured = Poured {
            pipeline: self.clone(),
            exchange: exchange.hand_over(),
            provider: landed.provider.clone(),
            status,
            first: first.into(),
            rest: Some(rest),
            held: None,
            settling: None,
            sent,
            bytes: 0,
            chunks: 0,
            digest: head.takes_trailers.then(Sha256::new),
            trailers: None,
            since: (Instant::now(), landed.total),
        };
        Ok(Reply { status, headers, body: ReplyBody::Poured(Box::new(poured)) })
    }
}

impl Poured {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, UpstreamError>>> {
        if let Some(piece) = self.first.pop_front() {
            return Poll::Ready(Some(Ok(piece)));
        }
        self.rest.as_mut().map_or(Poll::Ready(None), |rest| rest.poll_next(cx))
    }

    /// Notes a piece that goes out.
    fn count(&mut self, piece: &[u8]) {
        self.sent.update(piece);
        if let Some(digest) = self.digest.as_mut() {
            digest.update(piece);
        }
        self.bytes += piece.len() as u64;
        self.chunks += 1;
    }

    /// The provider ended its answer well: record, then the last piece.
    fn ended(&mut self) -> Result<(), Cut> {
        self.rest = None;
        let last = self.held.take().unwrap_or_default();
        self.count(&last);
        let outcome = if self.status < 400 { Outcome::Complete } else { Outcome::UpstreamError };
        match self.attest(outcome) {
            Ok(attested) => {
                self.trailers = self.digest.take().map(|sent| reply::trailers(attested.as_ref(), sent));
                let recorder = self.pipeline.parts.recorder.clone();
                (self.held, self.settling) = (Some(last), Some(async move { recorder.settled().await }.boxed()));
                Ok(())
            }
            Err(_) => Err(Cut),
        }
    }

    fn failed(&mut self, error: &UpstreamError) -> Cut {
        tracing::warn!(provider = %self.provider, %error, "a large answer broke");
        self.rest = None;
        let outcome = if is_timeout(error) { Outcome::Timeout } else { Outcome::UpstreamError };
        if let Err(fault) = self.attest(outcome) {
            tracing::error!(%fault, "a broken answer was not recorded");
        }
        Cut
    }

    fn attest(&mut self, outcome: Outcome) -> Result<Option<Attested>, Fault> {
        let (since, before) = self.since;
        let took = before + since.elapsed();
        let ttfb = self.exchange.ttfb.unwrap_or(took);
        self.pipeline.parts.metrics.upstream(self.provider.as_str(), ttfb, took);
        self.exchange.close(&Ending {
            status: self.status,
            outcome,
            body: Sent::Hashed { cm: self.sent.clone().finish(), bytes: self.bytes, held: None },
            chunks: self.chunks,
            answer_digest: None,
            finish: None,
            usage: None,
        })
    }
}

impl Drop for Poured {
    fn drop(&mut self) {
        if self.exchange.is_spent() || std::thread::panicking() {
            return;
        }
        if let Err(fault) = self.attest(Outcome::ClientAbort) {
            tracing::error!(%fault, "an aborted answer was not recorded");
        }
    }
}

impl Body for Poured {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let poured = self.get_mut();
        if let Some(settling) = poured.settling.as_mut() {
            let settled = ready!(settling.poll_unpin(cx));
            (poured.settling, poured.trailers) = (None, poured.trailers.take().filter(|_| settled.is_ok()));
            let last = poured.held.take().unwrap_or_default();
            return Poll::Ready(Some(settled.map(|()| Frame::data(last)).map_err(|_| Cut)));
        }
        if poured.rest.is_none() {
            return Poll::Ready(poured.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))));
        }
        loop {
            match ready!(poured.poll_piece(cx)) {
                Some(Ok(piece)) => {
                    if let Some(before) = poured.held.replace(piece) {
                        poured.count(&before);
                        return Poll::Ready(Some(Ok(Frame::data(before))));
                    }
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(poured.failed(&error)))),
                None => match poured.ended() {
                    Ok(()) => return Pin::new(poured).poll_frame(cx),
                    Err(cut) => return Poll::Ready(Some(Err(cut))),
                },
            }
        }
    }
}
