//! A whole answer from upstream, and how it becomes a reply.

use crate::exchange::{Ending, Exchange, Sent, State};
use crate::fault::Fault;
use crate::fill::Filling;
use crate::flight::Seat;
use crate::head::Head;
use crate::pipeline::{AuthMode, Pipeline};
use crate::recorder::{Attested, Recorder};
use crate::reply::{self, Reply, ReplyBody, names};
use crate::sample::Sample;
use crate::serve::Plan;
use crate::tried;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::HeaderMap;
use parking_lot::Mutex;
use signet_cache::Source;
use signet_dialect::{Kept, Reading, Usage};
use signet_lineage::{
    AttemptFacts, Fingerprint, Outcome, PROVIDER_REQUEST_ID, Parent, ProviderFacts, Relation, UsageFacts,
};
use signet_provider::{Ask, Attempts, Fleet, Gathered, Route, Sent as Answered, Target, UpstreamBody, UpstreamError};
use signet_types::ProviderName;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Makes the bytes for a target, and knows which it made last: those were sent.
pub(crate) struct Bodies {
    make: Box<dyn Fn(&Target) -> Bytes + Send + Sync>,
    last: Mutex<Option<(Target, Bytes)>>,
}

impl Bodies {
    pub(crate) fn new(make: impl Fn(&Target) -> Bytes + Send + Sync + 'static) -> Self {
        Self { make: Box::new(make), last: Mutex::default() }
    }

    pub(crate) fn of(&self, target: &Target) -> Bytes {
        let mut last = self.last.lock();
        if let Some((_, body)) = last.as_ref().filter(|(made_for, _)| made_for == target) {
            return body.clone();
        }
        let body = (self.make)(target);
        *last = Some((target.clone(), body.clone()));
        body
    }

    pub(crate) fn last(&self) -> Option<Bytes> {
        self.last.lock().as_ref().map(|(_, body)| body.clone())
    }
}

/// One upstream call, ready to go.
pub(crate) struct Call {
    pub(crate) route: Route,
    pub(crate) ask: Ask,
    pub(crate) bodies: Bodies,
}

/// How an upstream call ended.
pub(crate) struct Landed {
    pub(crate) outcome: Result<Whole, Missed>,
    pub(crate) provider: ProviderName,
    pub(crate) attempts: Attempts,
    pub(crate) total: Duration,
    /// What was sent for it; none where nothing was.
    pub(crate) sent_body: Option<Bytes>,
    /// An answer over the bound: for one participant, the outcome is [`UpstreamError::TooLarge`] for the others.
    pub(crate) large: Mutex<Option<Large>>,
}

/// Why there is no answer.
pub(crate) enum Missed {
    /// The call was not made: that it would be made could not be written down safely.
    Unopened,
    /// The call failed.
    Upstream(Arc<UpstreamError>),
}

/// An answer that is too large to be held: what has come of it, and the rest.
pub(crate) struct Large {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) ttfb: Duration,
    pub(crate) first: Vec<Bytes>,
    pub(crate) rest: Box<UpstreamBody>,
}

/// A whole answer.
pub(crate) struct Whole {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Only an answer of tier 0 may be stored.
    pub(crate) tier: usize,
    pub(crate) ttfb: Duration,
}

impl Landed {
    /// Whether another attempt by someone else could do better.
    pub(crate) fn failed(&self) -> bool {
        !matches!(&self.outcome, Ok(whole) if whole.status == 200)
    }

    /// Whether only one participant can have the answer.
    pub(crate) fn is_large(&self) -> bool {
        matches!(&self.outcome, Err(Missed::Upstream(error)) if matches!(**error, UpstreamError::TooLarge { .. }))
    }
}

/// Sends the call and collects the answer.
pub(crate) async fn depart(fleet: Arc<Fleet>, call: &Call, max_bytes: usize) -> Landed {
    let started = Instant::now();
    match fleet.send(&call.route, &call.ask, &|target| call.bodies.of(target)).await {
        Ok(sent) => {
            let provider = call.route.targets[sent.target].provider.clone();
            Landed { sent_body: call.bodies.last(), ..collect(sent, provider, started, max_bytes).await }
        }
        Err(refused) => {
            let asked = refused.attempts.last().map(|attempt| attempt.provider.clone());
            Landed {
                outcome: Err(missed(refused.error)),
                provider: asked.unwrap_or_else(|| call.route.targets[0].provider.clone()),
                sent_body: call.bodies.last().filter(|_| !refused.attempts.is_empty()),
                attempts: refused.attempts,
                total: started.elapsed(),
                large: Mutex::default(),
            }
        }
    }
}

/// The same as a future that owns all it needs, for a flight whose first participant has just written OPEN.
pub(crate) fn depart_shared(
    recorder: Arc<Recorder>,
    fleet: Arc<Fleet>,
    call: Arc<Call>,
    max_bytes: usize,
) -> BoxFuture<'static, Landed> {
    let depart = async move {
        match recorder.opened().await {
            Ok(()) => depart(fleet, &call, max_bytes).await,
            Err(_) => Landed {
                outcome: Err(Missed::Unopened),
                provider: call.route.targets[0].provider.clone(),
                attempts: Attempts::new(),
                total: Duration::ZERO,
                sent_body: None,
                large: Mutex::default(),
            },
        }
    };
    depart.boxed()
}

/// Collects an answer whose head is here.
pub(crate) async fn collect(answered: Answered, provider: ProviderName, started: Instant, max_bytes: usize) -> Landed {
    let reply = answered.reply;
    let (status, headers, ttfb) = (reply.status.as_u16(), reply.headers, reply.timings.ttfb);
    let mut large = None;
    let outcome = match reply.body.gather(max_bytes).await {
        // A redirect would send the caller past the gateway; no other status below 400 but 2xx is an answer either.
        Ok(_) if status < 200 || (300..400).contains(&status) => {
            Err(missed(UpstreamError::Protocol(format!("status {status}").into())))
        }
        Ok(Gathered::Large { first, rest }) => {
            large = Some(Large { status, headers, ttfb, first, rest });
            Err(missed(UpstreamError::TooLarge { limit: max_bytes }))
        }
        Ok(Gathered::Whole(body)) => Ok(Whole { status, headers, body, tier: answered.tier, ttfb }),
        Err(error) => Err(missed(error)),
    };
    Landed {
        outcome,
        provider,
        attempts: answered.attempts,
        total: started.elapsed(),
        sent_body: None,
        large: Mutex::new(large),
    }
}

fn missed(error: UpstreamError) -> Missed {
    Missed::Upstream(Arc::new(error))
}

impl Pipeline {
    /// Turns a landed call into this participant's reply: record, cache, bytes.
    pub(crate) async fn land(
        self: &Arc<Self>,
        exchange: &mut Exchange,
        head: &Head,
        filling: Option<Filling>,
        seat: Option<&Seat<Landed>>,
        (landed, plan): (&Landed, &Plan),
    ) -> Result<Reply, Fault> {
        exchange.timing.upstream = landed.total;
        let large = landed.large.lock().take();
        let headers = match (&landed.outcome, &large) {
            (Ok(whole), _) => Some(&whole.headers),
            (Err(_), large) => large.as_ref().map(|large| &large.headers),
        };
        exchange.asked_of(&landed.provider, &landed.attempts, headers);
        exchange.sent_on(plan.request.body(), landed.sent_body.as_ref());
        let whole = match &landed.outcome {
            Ok(whole) => whole,
            Err(Missed::Unopened) => {
                exchange.provider = None;
                return Err(Fault::LineageUnavailable);
            }
            Err(Missed::Upstream(error)) => {
                let fault = Fault::Upstream { provider: landed.provider.clone(), error: error.clone() };
                return match large {
                    Some(large) => self.pour(exchange, head, landed, large),
                    None => self.stale(exchange, head, plan).await.unwrap_or(Err(fault)),
                };
            }
        };
        if whole.status >= 500
            && let Some(stale) = self.stale(exchange, head, plan).await
        {
            return stale;
        }
        self.parts.metrics.upstream(landed.provider.as_str(), whole.ttfb, landed.total);
        if matches!(whole.status, 401 | 403) && self.parts.settings.auth != AuthMode::Passthrough {
            return Err(Fault::ProviderRefused { provider: landed.provider.clone() });
        }
        let reading = if whole.status == 200 { plan.request.form().read(&whole.body) } else { Reading::default() };
        let request_id = head.request_id.as_str();
        exchange.ttfb = Some(whole.ttfb);
        exchange.served.clone_from(&reading.served);
        let filling = filling.filter(|filling| whole.tier == 0 && self.will_keep(filling, reading.kept.as_ref()));
        match seat {
            None => self.finish_whole(exchange, request_id, filling, (whole, reading), &mut None),
            Some(seat) => {
                seat.attest(|first| self.finish_whole(exchange, request_id, filling, (whole, reading), first))
            }
        }
    }

    fn finish_whole(
        self: &Arc<Self>,
        exchange: &mut Exchange,
        request_id: &str,
        filling: Option<Filling>,
        (whole, reading): (&Whole, Reading),
        first: &mut Option<Source>,
    ) -> Result<Reply, Fault> {
        let follows = *first;
        let keys = exchange.keys().clone();
        if let Some(source) = follows {
            exchange.x_cache = "COALESCED";
            exchange.cache.decision = "coalesced";
            exchange.parents.push(parent(&source, Relation::CoalescedLeader));
            // It was neither asked nor sent on for this participant.
            exchange.provider = None;
            exchange.sent_on(&[], None);
        }
        let fills = follows.is_none() && filling.is_some();
        exchange.cache.ttl_ms = filling.as_ref().filter(|_| fills).map(Filling::ttl_ms);
        let mut headers = whole.headers.clone();
        reply::common(&mut headers, exchange, request_id, false);
        reply::fixed(&mut headers, names::CACHE_STATUS, reply::forwarded(exchange.x_cache, fills));
        let billed = follows.is_none();
        let sample = exchange.sample.take().filter(|_| filling.is_some());
        self.count_tokens(reading.usage, billed);
        let attested = exchange.close(&Ending {
            status: whole.status,
            outcome: if whole.status < 400 { Outcome::Complete } else { Outcome::UpstreamError },
            body: Sent::Whole(&whole.body),
            chunks: 0,
            answer_digest: reading.digest,
            finish: reading.finish,
            usage: reading.usage.map(|usage| usage_facts(usage, billed)),
        })?;
        reply::receipt(&mut headers, attested.as_ref());
        self.compare(attested.as_ref(), sample, reading.kept.as_ref());
        if let (true, Some(attested)) = (billed, attested.as_ref()) {
            let source = source(attested, &keys, reading.digest);
            *first = Some(source);
            if let (Some(filling), Some(kept)) = (filling, reading.kept) {
                self.fill(&keys, filling, kept, reading.semantic, source);
            }
        }
        Ok(Reply { status: whole.status, headers, body: ReplyBody::Whole(whole.body.clone()) })
    }

    /// Hands a sampled decision over with the fresh answer, which is as good as those that are stored.
    pub(crate) fn compare(&self, attested: Option<&Attested>, sample: Option<Sample>, fresh: Option<&Kept>) {
        if let (Some(sampler), Some(attested), Some(sample), Some(fresh)) =
            (&self.parts.sampler, attested, sample, fresh)
        {
            sampler.compare(attested.record.id, sample, fresh);
        }
    }

    pub(crate) fn count_tokens(&self, usage: Option<Usage>, billed: bool) {
        let Some(usage) = usage else { return };
        let (input, output) = if billed { ("input", "output") } else { ("input_saved", "output_saved") };
        self.parts.metrics.tokens(input, usage.input);
        self.parts.metrics.tokens(output, usage.output);
    }
}

/// The record as what others name when they stand on it.
pub(crate) fn source(attested: &Attested, keys: &signet_cache::TenantKeys, digest: Option<[u8; 32]>) -> Source {
    let record = &attested.record;
    Source {
        id: record.id,
        log: record.log,
        epoch: record.epoch,
        seq: record.seq,
        leaf_hash: attested.leaf_hash,
        response_fp: digest.map_or([0; 16], |digest| keys.proof.fingerprint("answer", &digest)),
        key_epoch: keys.epoch,
    }
}

pub(crate) fn parent(source: &Source, rel: Relation) -> Parent {
    Parent {
        rel,
        log: source.log,
        epoch: source.epoch,
        seq: source.seq,
        id: source.id,
        leaf_hash: source.leaf_hash,
        response_fp: Some(source.response_fp),
        key_epoch: source.key_epoch,
    }
}

pub(crate) fn usage_facts(usage: Usage, billed: bool) -> UsageFacts {
    UsageFacts {
        input: usage.input,
        output: usage.output,
        cached_input: usage.cached_input,
        reasoning: usage.reasoning,
        billed,
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn facts(provider: &ProviderName, attempts: &Attempts, request_id: Option<Fingerprint>) -> ProviderFacts {
    let attempts = attempts.iter().map(|attempt| AttemptFacts {
        provider: attempt.provider.as_str().to_owned(),
        model: attempt.model.as_str().to_owned(),
        status: attempt.outcome.map_or(0, |status| status.as_u16()),
        ms: millis(attempt.elapsed),
        reason: attempt.outcome.err(),
        wait_ms: Some(millis(attempt.waited)).filter(|&ms| ms > 0),
    });
    ProviderFacts {
        name: provider.as_str().to_owned(),
        endpoint: String::new(),
        request_id,
        attempts: attempts.collect(),
    }
}

impl State {
    /// Who was asked, in order, and what the answer's `headers` say it is called there. The last one asked gives model and
    /// provider.
    pub(crate) fn asked_of(&mut self, provider: &ProviderName, attempts: &Attempts, headers: Option<&HeaderMap>) {
        if let Some(last) = attempts.last() {
            self.routed = Some(last.model.as_str().to_owned());
        }
        // As filtered for the caller.
        let id = headers.and_then(|headers| headers.get("x-upstream-request-id").or_else(|| headers.get("request-id")));
        let id = id.map(|id| self.fingerprint(PROVIDER_REQUEST_ID, id.as_bytes()));
        self.provider = Some(facts(provider, attempts, id));
        self.tried = tried::header(attempts);
    }
}
