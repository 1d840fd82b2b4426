//! A stream on its way from the provider to the caller.
//!
//! Events pass byte for byte as they come. Only the last one (`[DONE]`) is held back until the record is written, so that
//! a complete answer always has one. The end is always explicit: a cut upstream becomes an error event and a connection
//! that does not end well. Dropping the body cancels the upstream call and records the abort.

use crate::capture::{Held, Kept};
use crate::exchange::{Ending, Exchange, Sent};
use crate::fault::{Fault, is_timeout};
use crate::fill::Filling;
use crate::in_band::InBand;
use crate::landing::{source, usage_facts};
use crate::pipeline::Pipeline;
use crate::recorder::Attested;
use crate::reply;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http_body::{Body, Frame};
use sha2::{Digest, Sha256};
use signet_dialect::sse::{Kind, Run};
use signet_dialect::{Api, Failure, Fold, Reading};
use signet_lineage::{CommitmentHasher, Forwarded, Outcome};
use signet_provider::{UpstreamBody, UpstreamError};
use signet_types::ProviderName;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::time::Sleep;

/// How long a provider that has said `[DONE]` may take to end its body before the connection is given up.
const LINGER: Duration = Duration::from_millis(500);
/// How far a stream comes, in bytes and time, before the log is told how far it is.
const PROGRESS_BYTES: u64 = 256 << 10;
const PROGRESS_AFTER: Duration = Duration::from_secs(2);

/// The stream broke after its head had left; the error event has been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the stream was cut")]
pub struct Cut;

/// What a stream needs beside its bytes.
pub(crate) struct Course {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) provider: ProviderName,
    pub(crate) api: Api,
    /// Whether the caller asked for the usage chunk.
    pub(crate) usage_wanted: bool,
    pub(crate) filling: Option<Filling>,
    pub(crate) takes_trailers: bool,
    pub(crate) in_band: InBand,
    pub(crate) started: Instant,
}

enum Stage {
    Flowing,
    /// The record is written, but not yet as safe as the mode promises; the last event is held back.
    Settling(BoxFuture<'static, Result<(), Fault>>, Option<Bytes>),
    /// `[DONE]` is out; the provider's body should end now, so that its connection can be used again.
    Lingering(Pin<Box<Sleep>>),
    Broken,
    /// The server has had its turn to write what was queued before the body fails.
    Breaking,
    Over,
}

/// A stream's body.
pub struct Live {
    exchange: Exchange,
    upstream: Option<UpstreamBody>,
    course: Course,
    fold: Fold,
    sent: CommitmentHasher,
    /// What is sent, on a route that keeps it; none once it is too much.
    held: Option<Held>,
    /// What came, from the first byte on where it differs from what is sent: up to there one hash serves both.
    came: Option<(CommitmentHasher, u64)>,
    bytes: u64,
    /// How far the log knows that it is, and since when.
    noted: (u64, Instant),
    chunks: u64,
    out: VecDeque<Bytes>,
    /// What has been sent, for a caller that takes trailers and an answer that is not broken.
    digest: Option<Sha256>,
    attested: Option<Attested>,
    stage: Stage,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("bytes", &self.bytes).field("chunks", &self.chunks).finish_non_exhaustive()
    }
}

impl Live {
    pub(crate) fn new(exchange: Exchange, upstream: UpstreamBody, fold: Fold, course: Course) -> Self {
        let sent = exchange.opening().commitment_key("response").hasher();
        Self {
            fold,
            held: exchange.kept.as_ref().map(Kept::held),
            exchange,
            upstream: Some(upstream),
            noted: (0, course.started),
            digest: course.takes_trailers.then(Sha256::new),
            course,
            sent,
            came: None,
            bytes: 0,
            chunks: 0,
            out: VecDeque::new(),
            attested: None,
            stage: Stage::Flowing,
        }
    }

    fn queue(&mut self, bytes: Bytes, events: u32) {
        self.sent.update(&bytes);
        self.held = self.held.take().and_then(|held| held.with(&bytes));
        self.bytes += bytes.len() as u64;
        self.chunks += u64::from(events);
        self.out.push_back(bytes);
    }

    /// Sends on what came.
    fn pass(&mut self, bytes: Bytes, events: u32) {
        if let Some((came, count)) = self.came.as_mut() {
            came.update(&bytes);
            *count += bytes.len() as u64;
        }
        self.queue(bytes, events);
    }

    /// Sends what did not come.
    fn add(&mut self, bytes: Bytes, events: u32) {
        self.part();
        self.queue(bytes, events);
    }

    /// Keeps back what came.
    fn keep(&mut self, bytes: &[u8]) {
        let (came, count) = self.part();
        came.update(bytes);
        *count += bytes.len() as u64;
    }

    fn part(&mut self) -> &mut (CommitmentHasher, u64) {
        self.came.get_or_insert_with(|| (self.sent.clone(), self.bytes))
    }

    fn arrived(&mut self, piece: Bytes) {
        if self.exchange.first_byte_ms.is_none() {
            self.exchange.first_byte_ms = Some(self.course.pipeline.parts.clock.now_ms());
        }
        self.fold.push(piece);
        while matches!(self.stage, Stage::Flowing) {
            match self.fold.next_run() {
                Ok(Some(run)) => self.run(run),
                Ok(None) => break,
                Err(too_long) => self.broken(Outcome::UpstreamError, &too_long.to_string()),
            }
        }
        let (bytes, chunks) = (self.bytes, self.chunks);
        if matches!(self.stage, Stage::Flowing) {
            self.exchange.so_far = (200, bytes, chunks);
            self.note_progress();
        }
    }

    /// Tells the log now and then how far the answer is, for the record that is written if this process dies. There is no
    /// timer: what does not come makes no progress.
    fn note_progress(&mut self) {
        let (bytes, at) = self.noted;
        if self.bytes - bytes >= PROGRESS_BYTES || (self.bytes > bytes && at.elapsed() >= PROGRESS_AFTER) {
            self.course.pipeline.parts.recorder.log().progress(self.exchange.id, self.bytes);
            self.noted = (self.bytes, Instant::now());
        }
    }

    fn run(&mut self, run: Run) {
        match run.kind {
            Kind::Usage if !self.course.usage_wanted => self.keep(&run.raw),
            Kind::Done => self.complete(run.raw, run.events, true),
            Kind::Ordinary | Kind::Finished | Kind::Usage | Kind::Error => self.pass(run.raw, run.events),
        }
    }

    /// The provider's body ended by the rules of its protocol.
    fn ended(&mut self) {
        if let Some(run) = self.fold.finish() {
            self.run(run);
        }
        if !matches!(self.stage, Stage::Flowing) {
            return;
        }
        if self.fold.all_finished() {
            self.complete(Bytes::from_static(self.course.api.last_event()), 1, false);
        } else {
            self.broken(Outcome::UpstreamError, "The provider ended its answer early.");
        }
    }

    /// The answer is whole: record, caches, last event.
    fn complete(&mut self, last: Bytes, events: u32, came: bool) {
        if came {
            self.pass(last, events);
        } else {
            self.add(last, events);
        }
        let held = self.out.pop_back();
        let (usage, failed) = (self.fold.usage(), self.fold.failed());
        let answer = self.fold.take_answer();
        let keys = self.exchange.keys().clone();
        let pipeline = self.course.pipeline.clone();
        let filling = self.course.filling.take().filter(|_| answer.is_some());
        let sample = self.exchange.sample.take().filter(|_| filling.is_some());
        self.exchange.cache.ttl_ms = filling.as_ref().map(Filling::ttl_ms);
        pipeline.count_tokens(usage, true);
        let outcome = if failed { Outcome::UpstreamError } else { Outcome::Complete };
        let reading = answer.map(Reading::of).unwrap_or_default();
        match self.attest(outcome, &reading) {
            Ok(attested) => {
                if let Some(attested) = attested.as_ref() {
                    let source = source(attested, &keys, reading.digest);
                    pipeline.compare(Some(attested), sample, reading.kept.as_ref());
                    if let (Some(filling), Some(kept)) = (filling, reading.kept) {
                        pipeline.fill(&keys, filling, kept, reading.semantic, source);
                    }
                }
                let held = held.map(|last| self.course.in_band.before(last, attested.as_ref()));
                self.attested = attested;
                if pipeline.parts.recorder.waits() {
                    let recorder = pipeline.parts.recorder.clone();
                    self.stage = Stage::Settling(async move { recorder.settled().await }.boxed(), held);
                } else {
                    self.release(held);
                }
            }
            Err(fault) => self.report(&fault.to_string(), "lineage_unavailable"),
        }
    }

    /// Sends the last event.
    fn release(&mut self, held: Option<Bytes>) {
        self.out.extend(held);
        self.stage = Stage::Lingering(Box::pin(tokio::time::sleep(LINGER)));
    }

    fn poll_settled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Stage::Settling(settled, held) = &mut self.stage else { return Poll::Ready(()) };
        let (settled, held) = (ready!(settled.poll_unpin(cx)), held.take());
        match settled {
            Ok(()) => self.release(held),
            Err(fault) => self.report(&fault.to_string(), "lineage_unavailable"),
        }
        Poll::Ready(())
    }

    fn broken(&mut self, outcome: Outcome, message: &str) {
        self.report(message, "upstream_error");
        if let Err(fault) = self.attest(outcome, &Reading::default()) {
            tracing::error!(%fault, "a broken stream was not recorded");
        }
    }

    /// Queues an error event behind what was sent; no `[DONE]` follows it.
    fn report(&mut self, message: &str, code: &str) {
        let failure =
            Failure { status: 502, message, kind: "upstream_error", param: None, code: Some(code), request_id: None };
        self.add(failure.event(self.course.api), 1);
        (self.upstream, self.digest) = (None, None);
        self.stage = Stage::Broken;
    }

    fn attest(&mut self, outcome: Outcome, reading: &Reading) -> Result<Option<Attested>, Fault> {
        let usage = reading.usage.or_else(|| self.fold.usage());
        let metrics = &self.course.pipeline.parts.metrics;
        let took = self.course.started.elapsed();
        metrics.upstream(self.course.provider.as_str(), self.exchange.ttfb.unwrap_or(took), took);
        if let Some((came, bytes)) = self.came.take() {
            self.exchange.upstream_body = Some(Forwarded { cm: came.finish(), bytes, changed: true });
        }
        self.exchange.served.clone_from(&reading.served);
        let cm = self.sent.clone().finish();
        self.exchange.close(&Ending {
            status: 200,
            outcome,
            body: Sent::Hashed { cm, bytes: self.bytes, held: self.held.as_ref().map(|held| &*held.bytes) },
            chunks: self.chunks,
            answer_digest: reading.digest,
            finish: reading.finish.clone(),
            usage: usage.map(|usage| usage_facts(usage, true)),
        })
    }

    fn failed(&mut self, error: &UpstreamError) {
        let outcome = if is_timeout(error) { Outcome::Timeout } else { Outcome::UpstreamError };
        tracing::warn!(provider = %self.course.provider, %error, "a stream broke");
        self.broken(outcome, "The provider's answer was cut.");
    }

    fn poll_upstream(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(upstream) = self.upstream.as_mut() else {
            self.ended();
            return Poll::Ready(());
        };
        match ready!(upstream.poll_next(cx)) {
            Some(Ok(piece)) => self.arrived(piece),
            Some(Err(error)) => self.failed(&error),
            None => {
                self.upstream = None;
                self.ended();
            }
        }
        Poll::Ready(())
    }

    /// Waits shortly for the provider's own end; whatever else it sends is behind the end of the answer.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Stage::Lingering(limit) = &mut self.stage else { return Poll::Ready(()) };
        while let Some(upstream) = self.upstream.as_mut() {
            match upstream.poll_next(cx) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(_) => break,
                Poll::Pending if limit.as_mut().poll(cx).is_ready() => break,
                Poll::Pending => return Poll::Pending,
            }
        }
        self.upstream = None;
        self.stage = Stage::Over;
        Poll::Ready(())
    }
}

impl Drop for Live {
    /// The caller left, or the handler was torn down: the record says how far the answer came.
    fn drop(&mut self) {
        if self.exchange.is_spent() || std::thread::panicking() {
            return;
        }
        if let Err(fault) = self.attest(Outcome::ClientAbort, &Reading::default()) {
            tracing::error!(%fault, "an aborted stream was not recorded");
        }
    }
}

impl Body for Live {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let live = self.get_mut();
        loop {
            if let Some(bytes) = live.out.pop_front() {
                if let Some(digest) = live.digest.as_mut() {
                    digest.update(&bytes);
                }
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            match &live.stage {
                Stage::Flowing => ready!(live.poll_upstream(cx)),
                Stage::Settling(..) => ready!(live.poll_settled(cx)),
                Stage::Lingering(_) => ready!(live.poll_linger(cx)),
                // A failing body makes the server drop what it has buffered, the head and the error event with it. Where
                // the body waits, the server writes.
                Stage::Broken => {
                    live.stage = Stage::Breaking;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Stage::Breaking => {
                    live.stage = Stage::Over;
                    return Poll::Ready(Some(Err(Cut)));
                }
                Stage::Over => {
                    let trailers = live.digest.take().map(|sent| reply::trailers(live.attested.as_ref(), sent));
                    return Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))));
                }
            }
        }
    }
}
