//! A flight's events as they come from a provider: the call, and the answer, whole or as a stream.

use crate::flight::{Fed, Feed};
use crate::landing::{self, Answered, Call, Closing, Landed, StreamHead, Streamed, missed};
use crate::recorder::Recorder;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use signet_dialect::sse::{Kind, Run};
use signet_dialect::{Fold, Form, Reading, Usage};
use signet_lineage::Outcome;
use signet_provider::{Attempts, Fleet, Refused, Sent, UpstreamBody, UpstreamError};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// Longest event that is passed on.
const EVENT_MAX: usize = 16 << 20;

/// How much of an answer is taken, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SizeLimits {
    /// Of one that is held whole.
    pub(crate) whole: usize,
    /// Of a stream.
    pub(crate) stream: u64,
}

/// One call to the providers of a route.
pub(crate) struct ProviderFeed {
    form: Form,
    limits: SizeLimits,
    started: Instant,
    phase: Phase,
}

enum Phase {
    /// What is asked goes when the answer begins: a stream may be open for long, and there may be many.
    Calling(Arc<Call>, BoxFuture<'static, Called>),
    Gathering(BoxFuture<'static, Landed>),
    Streaming(Box<Streaming>),
    Over,
}

/// What became of the call: an answer's head, or its end. None where it was not made.
type Called = Option<Result<Sent, Refused>>;

struct Streaming {
    head: Arc<StreamHead>,
    /// None once it has ended.
    body: Option<UpstreamBody>,
    fold: Fold,
    /// How much more may come.
    room: u64,
}

impl ProviderFeed {
    /// A call for an answer in `form` that is still to be made, behind the participant's OPEN as far as the mode promises.
    pub(crate) fn new(recorder: Arc<Recorder>, fleet: Arc<Fleet>, call: Arc<Call>, limits: SizeLimits) -> Self {
        let (form, ask) = (call.form, call.clone());
        let calling = async move {
            recorder.opened().await.ok()?;
            Some(fleet.send(&ask.route, &ask.ask, &ask.bodies).await)
        };
        Self { form, limits, started: Instant::now(), phase: Phase::Calling(call, calling.boxed()) }
    }

    /// The head is here: a stream, if that was asked for and is what comes.
    fn answered(&mut self, call: &Call, sent: Sent) -> Option<Fed> {
        let provider = call.route.targets[sent.target].provider.clone();
        let sent_body = call.bodies.last();
        let streams = call.streams && landing::is_stream(&sent);
        let form = if sent.api == self.form.api { self.form } else { Form { api: sent.api, parts: 1 } };
        let Some(fold) = streams.then(|| Fold::new(form, EVENT_MAX)).flatten() else {
            let asked_stream = call.streams;
            let collected = landing::collect(sent, provider, (self.started, self.limits.whole), form);
            let landed = async move { Landed { sent_body, asked_stream, ..collected.await } };
            self.phase = Phase::Gathering(landed.boxed());
            return None;
        };
        let head = Arc::new(StreamHead {
            headers: sent.reply.headers,
            tier: sent.tier,
            api: sent.api,
            provider,
            attempts: sent.attempts,
            ttfb: sent.reply.timings.ttfb,
            sent_body,
        });
        self.phase = Phase::Streaming(Box::new(Streaming {
            head: head.clone(),
            body: Some(sent.reply.body),
            fold,
            room: self.limits.stream,
        }));
        Some(Fed::Head(head))
    }

    fn refused(&self, call: &Call, called: Option<Refused>) -> Landed {
        let preferred = || call.route.targets[0].provider.clone();
        let base = |outcome, provider, attempts: Attempts| Landed {
            outcome,
            provider,
            sent_body: call.bodies.last().filter(|_| !attempts.is_empty()),
            attempts,
            api: self.form.api,
            total: self.started.elapsed(),
            asked_stream: call.streams,
            large: Mutex::default(),
        };
        match called {
            None => base(Err(landing::Missed::Unopened), preferred(), Attempts::new()),
            Some(refused) => {
                let asked = refused.attempts.last().map(|attempt| attempt.provider.clone());
                base(Err(missed(refused.error)), asked.unwrap_or_else(preferred), refused.attempts)
            }
        }
    }
}

impl Feed for ProviderFeed {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Fed> {
        loop {
            let landed = match &mut self.phase {
                Phase::Calling(call, calling) => {
                    let (called, call) = (ready!(calling.poll_unpin(cx)), call.clone());
                    match called {
                        Some(Ok(sent)) => match self.answered(&call, sent) {
                            Some(head) => return Poll::Ready(head),
                            None => continue,
                        },
                        Some(Err(refused)) => self.refused(&call, Some(refused)),
                        None => self.refused(&call, None),
                    }
                }
                Phase::Gathering(gathering) => ready!(gathering.poll_unpin(cx)),
                Phase::Streaming(streaming) => match ready!(streaming.poll_run(cx)) {
                    Ok(run) => return Poll::Ready(Fed::Run(run)),
                    Err(closing) => streaming.closed(closing, self.started.elapsed()),
                },
                Phase::Over => return Poll::Pending,
            };
            self.phase = Phase::Over;
            return Poll::Ready(Fed::End(Arc::new(landed)));
        }
    }

    fn usage(&self) -> Option<Usage> {
        if let Phase::Streaming(streaming) = &self.phase { streaming.fold.usage() } else { None }
    }
}

impl Streaming {
    /// The next run but the last, or how the stream has ended.
    fn poll_run(&mut self, cx: &mut Context<'_>) -> Poll<Result<Run, Closing>> {
        loop {
            match self.fold.next_run() {
                Ok(Some(run)) => return Poll::Ready(of_run(run)),
                Ok(None) => {}
                Err(too_long) => return Poll::Ready(Err(broken(&too_long.to_string()))),
            }
            let Some(body) = self.body.as_mut() else { return Poll::Pending };
            match ready!(body.poll_next(cx)) {
                Some(Ok(piece)) => match self.room.checked_sub(piece.len() as u64) {
                    Some(room) => {
                        self.room = room;
                        self.fold.push(piece);
                    }
                    None => {
                        return Poll::Ready(Err(broken("The provider's answer is longer than the gateway passes on.")));
                    }
                },
                Some(Err(error)) => return Poll::Ready(Err(self.cut(&error))),
                // It ended by the rules of its protocol.
                None => match self.fold.finish() {
                    Some(run) => return Poll::Ready(of_run(run)),
                    None if self.fold.all_finished() => return Poll::Ready(Err(Closing::Whole(None))),
                    None => return Poll::Ready(Err(broken("The provider ended its answer early."))),
                },
            }
        }
    }

    fn cut(&self, error: &UpstreamError) -> Closing {
        tracing::warn!(provider = %self.head.provider, %error, "a stream broke");
        let outcome = if crate::fault::is_timeout(error) { Outcome::Timeout } else { Outcome::UpstreamError };
        Closing::Broken(outcome, "The provider's answer was cut.".into())
    }

    fn closed(&mut self, closing: Closing, total: Duration) -> Landed {
        let (usage, failed, head) = (self.fold.usage(), self.fold.failed(), self.head.clone());
        let whole = matches!(closing, Closing::Whole(_));
        let answer = whole.then(|| self.fold.take_answer()).flatten();
        Landed {
            provider: head.provider.clone(),
            attempts: head.attempts.clone(),
            api: head.api,
            sent_body: head.sent_body.clone(),
            total,
            asked_stream: true,
            large: Mutex::default(),
            outcome: Ok(Answered::Stream(Box::new(Streamed {
                head,
                reading: answer.map(Reading::of).unwrap_or_default(),
                usage,
                failed,
                rest: Mutex::new(self.body.take().filter(|_| whole)),
                closing,
            }))),
        }
    }
}

fn of_run(run: Run) -> Result<Run, Closing> {
    if run.kind == Kind::Done { Err(Closing::Whole(Some(run))) } else { Ok(run) }
}

fn broken(message: &str) -> Closing {
    Closing::Broken(Outcome::UpstreamError, message.into())
}
