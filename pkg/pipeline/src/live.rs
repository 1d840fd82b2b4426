//! A stream on its way from a flight to one of its participants.
//!
//! Events pass byte for byte as they come. Only the last one (`[DONE]`) is held back until the record is written, so that
//! a complete answer always has one. The end is always explicit: a cut upstream becomes an error event and a connection
//! that does not end well. Dropping the body leaves the
//! flight, whose call ends with its last participant, and records the abort.

use crate::capture::{Held, Kept};
use crate::exchange::{Ending, Exchange, Sent};
use crate::fault::Fault;
use crate::fill::Filling;
use crate::flight::{Left, Seat, Step, Want};
use crate::heartbeat::Heartbeat;
use crate::in_band::InBand;
use crate::landing::{Answered, Closing, Landed, Streamed, usage_facts};
use crate::pipeline::Pipeline;
use crate::recorder::Attested;
use crate::reply;
use crate::say::Interpreter;
use crate::turn::Turn;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http_body::{Body, Frame};
use sha2::{Digest, Sha256};
use signet_cache::Source;
use signet_dialect::sse::{Kind, Run};
use signet_dialect::{Api, Failure, Reading, Untranslatable, Usage};
use signet_lineage::{CommitmentHasher, Forwarded, Outcome, UsageFacts};
use signet_provider::UpstreamBody;
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
    /// The caller's.
    pub(crate) api: Api,
    /// What ends a stream of the provider's API, where it left that out.
    pub(crate) last_event: &'static [u8],
    /// Says the provider's events in the caller's API, where that is another.
    pub(crate) interpreter: Option<Interpreter>,
    /// Whether the caller asked for the usage chunk.
    pub(crate) usage_wanted: bool,
    pub(crate) filling: Option<Filling>,
    pub(crate) takes_trailers: bool,
    pub(crate) in_band: InBand,
    pub(crate) started: Instant,
}

enum Stage {
    Flowing(Seat),
    /// The record is written, but not yet as safe as the mode promises; the last event is held back.
    Settling(BoxFuture<'static, Result<(), Fault>>, Option<Bytes>),
    /// The last event is out; the provider's body should end now, so that its connection can be used again.
    Lingering(Pin<Box<Sleep>>),
    Broken,
    /// The server has had its turn to write what was queued before the body fails.
    Breaking,
    Over,
}

/// A stream's body.
pub struct Live {
    exchange: Exchange,
    course: Course,
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
    turn: Turn,
    /// What was queued last, of an API that numbers its events.
    newest: Bytes,
    /// What has been sent, for a caller that takes trailers and an answer that is not broken.
    digest: Option<Sha256>,
    attested: Option<Attested>,
    /// The provider's body behind its last event.
    rest: Option<UpstreamBody>,
    /// The provider has said within the stream that it failed.
    told: bool,
    stage: Stage,
    heartbeat: Option<Heartbeat>,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("bytes", &self.bytes).field("chunks", &self.chunks).finish_non_exhaustive()
    }
}

impl Live {
    pub(crate) fn new(exchange: Exchange, seat: Seat, course: Course) -> Self {
        let every = course.pipeline.parts.settings.heartbeat;
        let heartbeat = (!every.is_zero()).then(|| Heartbeat::new(every));
        let commitment = exchange.opening().commitment_key("response").hasher();
        Self {
            held: exchange.kept.as_ref().map(Kept::held),
            exchange,
            noted: (0, course.started),
            digest: course.takes_trailers.then(Sha256::new),
            course,
            sent: commitment,
            came: None,
            bytes: 0,
            chunks: 0,
            out: VecDeque::new(),
            turn: Turn::default(),
            newest: Bytes::new(),
            attested: None,
            rest: None,
            told: false,
            stage: Stage::Flowing(seat),
            heartbeat,
        }
    }

    fn queue(&mut self, bytes: Bytes, events: u32) {
        self.sent.update(&bytes);
        self.held = self.held.take().and_then(|held| held.with(&bytes));
        self.bytes += bytes.len() as u64;
        self.chunks += u64::from(events);
        if self.course.api == Api::Responses {
            self.newest = bytes.clone();
        }
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

    /// Tells the log now and then how far the answer is, for the record that is written if this process dies. There is no
    /// timer: what does not come makes no progress.
    fn note_progress(&mut self) {
        let (bytes, at) = self.noted;
        let due = self.bytes - bytes >= PROGRESS_BYTES || (self.bytes > bytes && at.elapsed() >= PROGRESS_AFTER);
        if due && self.exchange.is_open() {
            self.course.pipeline.parts.recorder.log().progress(self.exchange.id, self.bytes);
            self.noted = (self.bytes, Instant::now());
        }
    }

    fn run(&mut self, run: Run) -> Result<(), Untranslatable> {
        if self.exchange.first_byte_ms.is_none() {
            self.exchange.first_byte_ms = Some(self.course.pipeline.parts.clock.now_ms());
        }
        let said = self.course.interpreter.as_mut().map(|interpreter| interpreter.run(&run)).transpose()?;
        self.told |= run.kind == Kind::Error;
        match (said, run.kind) {
            (Some(said), _) => self.instead(&run.raw, said, run.events),
            (None, Kind::Usage) if !self.course.usage_wanted => self.keep(&run.raw),
            (None, _) => self.pass(run.raw, run.events),
        }
        self.exchange.so_far = (200, self.bytes, self.chunks);
        self.note_progress();
        Ok(())
    }

    /// Sends what was said for what came.
    fn instead(&mut self, came: &[u8], said: Bytes, events: u32) {
        self.keep(came);
        if !said.is_empty() {
            self.queue(said, events);
        }
    }

    /// The call is over.
    fn ended(&mut self, seat: &Seat, landed: &Landed) {
        let Ok(Answered::Stream(streamed)) = &landed.outcome else {
            // A stream ends as one: the feed knows no other way.
            return self.report("The stream ended as none.", "upstream_error");
        };
        match &streamed.closing {
            Closing::Whole(last) => self.complete(seat, streamed, last.clone()),
            Closing::Broken(outcome, message) => {
                self.report(message, "upstream_error");
                if let Err(fault) = seat.attest(|first| self.attest(*outcome, streamed, first)) {
                    tracing::error!(%fault, "a broken stream was not recorded");
                }
            }
        }
    }

    /// The answer is whole: record, caches, last event.
    fn complete(&mut self, seat: &Seat, streamed: &Streamed, last: Option<Run>) {
        let held = match self.last(last) {
            Ok(()) => self.out.pop_back(),
            Err(why) => return self.untranslatable(seat, streamed, why),
        };
        self.rest = streamed.rest.lock().take();
        let outcome = if streamed.failed { Outcome::UpstreamError } else { Outcome::Complete };
        match seat.attest(|first| self.attest(outcome, streamed, first)) {
            Ok(attested) => {
                let held = held.map(|last| self.course.in_band.before(last, attested.as_ref()));
                self.attested = attested;
                let recorder = self.course.pipeline.parts.recorder.clone();
                if recorder.waits() {
                    self.stage = Stage::Settling(async move { recorder.settled().await }.boxed(), held);
                } else {
                    self.release(held);
                }
            }
            Err(fault) => self.report(&fault.to_string(), "lineage_unavailable"),
        }
    }

    /// Queues the last event as this caller reads it.
    fn last(&mut self, last: Option<Run>) -> Result<(), Untranslatable> {
        let said = self.course.interpreter.as_mut().map(|interpreter| interpreter.last(last.as_ref())).transpose()?;
        match (said, last) {
            (Some(said), last) => self.instead(&last.map(|run| run.raw).unwrap_or_default(), said, 1),
            (None, Some(last)) => self.pass(last.raw, last.events),
            (None, None) if self.told => {}
            (None, None) => self.add(Bytes::from_static(self.course.last_event), 1),
        }
        Ok(())
    }

    /// The provider says something that this caller's API cannot say.
    fn untranslatable(&mut self, seat: &Seat, streamed: &Streamed, why: Untranslatable) {
        self.report_untranslatable(why);
        self.course.filling = None;
        if let Err(fault) = seat.attest(|first| self.attest(Outcome::UpstreamError, streamed, first)) {
            tracing::error!(%fault, "a stream that could not be translated was not recorded");
        }
    }

    fn report_untranslatable(&mut self, why: Untranslatable) {
        tracing::warn!(provider = %self.course.provider, %why, "a stream cannot be translated");
        self.report(&why.to_string(), "upstream_untranslatable");
    }

    /// The record of an answer whose call is over. The first to write one stands for the call; the others name it.
    fn attest(
        &mut self,
        outcome: Outcome,
        streamed: &Streamed,
        first: &mut Option<Source>,
    ) -> Result<Option<Attested>, Fault> {
        let (reading, usage) = (&streamed.reading, streamed.reading.usage.or(streamed.usage));
        let keys = self.exchange.keys().clone();
        let pipeline = self.course.pipeline.clone();
        let filling = self.course.filling.take().filter(|_| reading.kept.is_some());
        let sample = self.exchange.sample.take().filter(|_| filling.is_some());
        let billed = first.is_none();
        if let Some(leader) = first {
            self.exchange.follow(leader);
        } else {
            self.stand_for_the_call();
            self.exchange.cache.ttl_ms = filling.as_ref().map(Filling::ttl_ms);
        }
        if matches!(streamed.closing, Closing::Whole(_)) {
            pipeline.count_tokens(usage, billed);
        }
        self.exchange.served.clone_from(&reading.served);
        let attested = self.close(outcome, reading, usage.map(|usage| usage_facts(usage, billed)))?;
        pipeline.compare(attested.as_ref(), sample, reading.storable());
        pipeline.note_first(first, attested.as_ref(), &keys, filling, reading);
        Ok(attested)
    }

    /// What the record says of a call that nobody else accounts for.
    fn stand_for_the_call(&mut self) {
        if self.exchange.cache.decision == "coalesced" {
            self.exchange.cache.decision = "miss";
        }
        let took = self.course.started.elapsed();
        let ttfb = self.exchange.ttfb.unwrap_or(took);
        self.course.pipeline.parts.metrics.upstream(self.course.provider.as_str(), ttfb, took);
    }

    fn close(
        &mut self,
        outcome: Outcome,
        reading: &Reading,
        usage: Option<UsageFacts>,
    ) -> Result<Option<Attested>, Fault> {
        if let Some((came, bytes)) = self.came.take() {
            self.exchange.upstream_body = Some(Forwarded { cm: came.finish(), bytes, changed: true });
        }
        let cm = self.sent.clone().finish();
        self.exchange.close(&Ending {
            status: 200,
            outcome,
            body: Sent::Hashed { cm, bytes: self.bytes, held: self.held.as_ref().map(|held| &*held.bytes) },
            chunks: self.chunks,
            answer_digest: reading.digest,
            finish: reading.finish.clone(),
            usage,
        })
    }

    /// This participant ends before the call does: the record says how far it came, and accounts for the call if nobody else
    /// will.
    fn abort(&mut self, seat: Seat, outcome: Outcome) {
        let usage = match seat.leave() {
            Left::Accounts(usage) => {
                self.stand_for_the_call();
                usage
            }
            Left::OthersAccount => {
                self.exchange.provider = None;
                self.exchange.sent_on(&[], None);
                None
            }
        };
        let usage = usage.map(|usage: Usage| usage_facts(usage, true));
        if let Err(fault) = self.close(outcome, &Reading::default(), usage) {
            tracing::error!(%fault, "an aborted stream was not recorded");
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

    /// Queues an error event behind what was sent, unless the provider's own stands there; the last event does not follow it.
    fn report(&mut self, message: &str, code: &str) {
        if !self.told {
            let (kind, code) = ("upstream_error", Some(code));
            let failure = Failure { status: 502, message, kind, param: None, code, request_id: None };
            self.add(failure.event(self.course.api, &self.newest), 1);
        }
        (self.rest, self.digest) = (None, None);
        self.stage = Stage::Broken;
    }

    fn poll_flight(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Stage::Flowing(seat) = &self.stage else { return Poll::Ready(()) };
        let step = ready!(seat.poll(Want::Run, cx));
        match step {
            Step::Run(run) => {
                if let Err(why) = self.run(run)
                    && let Stage::Flowing(seat) = std::mem::replace(&mut self.stage, Stage::Over)
                {
                    self.report_untranslatable(why);
                    self.abort(seat, Outcome::UpstreamError);
                }
            }
            Step::Promoted => self.course.pipeline.clone().take_over(&mut self.exchange),
            Step::End(landed) => {
                if let Stage::Flowing(seat) = std::mem::replace(&mut self.stage, Stage::Over) {
                    self.ended(&seat, &landed);
                }
            }
            Step::TooSlow => {
                if let Stage::Flowing(seat) = std::mem::replace(&mut self.stage, Stage::Over) {
                    self.report("The answer was read too slowly.", "slow_reader");
                    self.abort(seat, Outcome::ClientAbort);
                }
            }
            // It has had the head.
            Step::Head(_) => {}
        }
        Poll::Ready(())
    }

    /// A sign of life. Like a receipt within the stream it is no part of the answer: the record does not commit to it, the
    /// digest of what was sent does.
    fn beat(&mut self) -> Bytes {
        let bytes: &'static [u8] = match self.course.api {
            Api::Messages => b"event: ping\ndata: {\"type\": \"ping\"}\n\n",
            _ => b": ping\n\n",
        };
        if let Some(digest) = self.digest.as_mut() {
            digest.update(bytes);
        }
        Bytes::from_static(bytes)
    }

    /// Waits shortly for the provider's own end; whatever else it sends is behind the end of the answer.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Stage::Lingering(limit) = &mut self.stage else { return Poll::Ready(()) };
        while let Some(rest) = self.rest.as_mut() {
            match rest.poll_next(cx) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(_) => break,
                Poll::Pending if limit.as_mut().poll(cx).is_ready() => break,
                Poll::Pending => return Poll::Pending,
            }
        }
        self.rest = None;
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
        if let Stage::Flowing(seat) = std::mem::replace(&mut self.stage, Stage::Over) {
            self.abort(seat, Outcome::ClientAbort);
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
                if let Some(heartbeat) = live.heartbeat.as_mut() {
                    heartbeat.heard();
                }
                if let Some(digest) = live.digest.as_mut() {
                    digest.update(&bytes);
                }
                live.turn.took(bytes.len());
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            match &live.stage {
                Stage::Flowing(_) => {
                    ready!(live.turn.poll(cx));
                    if live.poll_flight(cx).is_pending() {
                        live.turn.over();
                        // What goes out are whole events, so this stands between two.
                        let beat = live.heartbeat.as_mut().map_or(Poll::Pending, |heartbeat| heartbeat.poll(cx));
                        ready!(beat);
                        return Poll::Ready(Some(Ok(Frame::data(live.beat()))));
                    }
                }
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
