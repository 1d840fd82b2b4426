//! How an upstream call ends, and how that becomes a participant's whole answer.

use crate::exchange::{Ending, Exchange, State};
use crate::fault::Fault;
use crate::fill::Filling;
use crate::flight::Seat;
use crate::head::Head;
use crate::pipeline::{AuthMode, Pipeline};
use crate::recorder::Attested;
use crate::reply::{self, Reply, ReplyBody, names};
use crate::sample::Sample;
use crate::say::Wording;
use crate::serve::Plan;
use crate::tried;
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use parking_lot::Mutex;
use signet_cache::Source;
use signet_dialect::sse::Run;
use signet_dialect::{Api, Form, Kept, Reading, Untranslatable, Usage};
use signet_lineage::{
    AttemptFacts, Fingerprint, Outcome, PROVIDER_REQUEST_ID, Parent, ProviderFacts, Relation, UsageFacts,
};
use signet_provider::{Ask, Attempts, Gathered, Route, Sent as Replied, Target, UpstreamBody, UpstreamError, Words};
use signet_types::ProviderName;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Makes the bytes for a target, and knows which it made last: those were sent.
pub(crate) struct Bodies {
    wording: Wording,
    /// Providers that are not asked for usage where the caller does not ask.
    unasked: Arc<HashSet<ProviderName>>,
    last: Mutex<Option<(Target, Bytes)>>,
}

impl Bodies {
    pub(crate) fn new(wording: Wording, unasked: Arc<HashSet<ProviderName>>) -> Self {
        Self { wording, unasked, last: Mutex::default() }
    }

    pub(crate) fn last(&self) -> Option<Bytes> {
        self.last.lock().as_ref().map(|(_, body)| body.clone())
    }
}

impl Words for Bodies {
    fn to(&self, target: &Target, api: Api) -> Bytes {
        let mut last = self.last.lock();
        if let Some((_, body)) = last.as_ref().filter(|(made_for, _)| made_for == target) {
            return body.clone();
        }
        let body = self.wording.said_in(api).map_or_else(Bytes::new, |request| {
            let wants_usage = request.include_usage() || !self.unasked.contains(&target.provider);
            request.with(renamed(request.model(), target), request.stream() && wants_usage)
        });
        *last = Some((target.clone(), body.clone()));
        body
    }

    fn can_say(&self, api: Api) -> bool {
        self.wording.said_in(api).is_some()
    }
}

/// The model's name at the target, where it differs from the one asked for.
fn renamed<'a>(asked: &str, target: &'a Target) -> Option<&'a str> {
    Some(target.model.as_str()).filter(|name| *name != asked)
}

/// One upstream call, ready to go.
pub(crate) struct Call {
    pub(crate) route: Route,
    pub(crate) ask: Ask,
    pub(crate) bodies: Bodies,
    /// The form of the answer.
    pub(crate) form: Form,
    /// Whether a stream is asked for.
    pub(crate) streams: bool,
}

/// How an upstream call ended.
pub(crate) struct Landed {
    pub(crate) outcome: Result<Answered, Missed>,
    pub(crate) provider: ProviderName,
    pub(crate) attempts: Attempts,
    /// The API in which it was answered.
    pub(crate) api: Api,
    pub(crate) total: Duration,
    /// What was sent for it; none where nothing was.
    pub(crate) sent_body: Option<Bytes>,
    pub(crate) asked_stream: bool,
    /// An answer over the bound: for one participant, the outcome is [`UpstreamError::TooLarge`] for the others.
    pub(crate) large: Mutex<Option<Large>>,
}

/// An answer that came.
#[expect(clippy::large_enum_variant, reason = "one a call, behind an Arc")]
pub(crate) enum Answered {
    Whole(Whole),
    Stream(Box<Streamed>),
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
    pub(crate) reading: Reading,
}

/// A stream's head.
pub(crate) struct StreamHead {
    pub(crate) headers: HeaderMap,
    /// Only an answer of tier 0 may be stored.
    pub(crate) tier: usize,
    /// The API whose events come.
    pub(crate) api: Api,
    pub(crate) provider: ProviderName,
    pub(crate) attempts: Attempts,
    pub(crate) ttfb: Duration,
    pub(crate) sent_body: Option<Bytes>,
}

/// A stream that has ended, one way or the other.
pub(crate) struct Streamed {
    pub(crate) head: Arc<StreamHead>,
    pub(crate) closing: Closing,
    pub(crate) reading: Reading,
    pub(crate) usage: Option<Usage>,
    /// The provider has reported a failure inside the stream.
    pub(crate) failed: bool,
    /// The body behind the last event of a whole stream: its own end is waited for, so that its connection can be used again.
    pub(crate) rest: Mutex<Option<UpstreamBody>>,
}

/// How a stream ended.
pub(crate) enum Closing {
    /// All of it came, up to its last event, or to where that has to be added.
    Whole(Option<Run>),
    /// It broke; why, for the caller.
    Broken(Outcome, Box<str>),
}

impl Landed {
    /// Whether another attempt by someone else could do better.
    pub(crate) fn failed(&self) -> bool {
        match &self.outcome {
            Ok(Answered::Whole(whole)) => whole.status != 200,
            Ok(Answered::Stream(streamed)) => streamed.failed || matches!(streamed.closing, Closing::Broken(..)),
            Err(_) => true,
        }
    }

    /// Whether only one participant can have the answer.
    pub(crate) fn is_large(&self) -> bool {
        matches!(&self.outcome, Err(Missed::Upstream(error)) if matches!(**error, UpstreamError::TooLarge { .. }))
    }

    pub(crate) fn is_stream(&self) -> bool {
        matches!(self.outcome, Ok(Answered::Stream(_)))
    }

    /// What the provider counted.
    pub(crate) fn usage(&self) -> Option<Usage> {
        match self.outcome.as_ref().ok()? {
            Answered::Whole(whole) => whole.reading.usage,
            Answered::Stream(streamed) => streamed.usage,
        }
    }

    /// Whether a participant who wants a stream, or wants none, can be given the answer: a good one that came the other way
    /// must be understood to be said anew.
    pub(crate) fn serves(&self, stream: bool) -> bool {
        let asked_alike = self.asked_stream == stream;
        match &self.outcome {
            Ok(Answered::Whole(whole)) => asked_alike || whole.status != 200 || whole.reading.kept.is_some(),
            Ok(Answered::Stream(streamed)) => stream || streamed.reading.kept.is_some(),
            Err(_) => true,
        }
    }
}

/// Whether the answer is a good one and comes as a stream.
pub(crate) fn is_stream(sent: &Replied) -> bool {
    let value = sent.reply.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = value.and_then(|value| value.split(';').next());
    let events = kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"));
    sent.reply.status.as_u16() == 200 && events
}

/// Collects and reads an answer whose head is here.
pub(crate) async fn collect(
    answered: Replied,
    provider: ProviderName,
    (started, max_bytes): (Instant, usize),
    form: Form,
) -> Landed {
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
        Ok(Gathered::Whole(body)) => {
            let reading = if status == 200 { form.read(&body) } else { Reading::default() };
            Ok(Answered::Whole(Whole { status, headers, body, tier: answered.tier, ttfb, reading }))
        }
        Err(error) => Err(missed(error)),
    };
    Landed {
        outcome,
        provider,
        attempts: answered.attempts,
        api: answered.api,
        total: started.elapsed(),
        sent_body: None,
        asked_stream: false,
        large: Mutex::new(large),
    }
}

pub(crate) fn missed(error: UpstreamError) -> Missed {
    Missed::Upstream(Arc::new(error))
}

/// What a participant is given, and where it is from.
struct Given<'l> {
    landed: &'l Landed,
    status: u16,
    headers: &'l HeaderMap,
    body: Bytes,
    /// The body is a stream of ours.
    rendered_stream: bool,
    reading: &'l Reading,
    tier: usize,
    ttfb: Duration,
}

impl Pipeline {
    /// Turns a landed call into this participant's reply: record, cache, bytes.
    pub(crate) async fn land(
        self: &Arc<Self>,
        exchange: &mut Exchange,
        (head, plan): (&Head, &Plan),
        filling: Option<Filling>,
        seat: &Seat,
        landed: &Landed,
    ) -> Result<Reply, Fault> {
        exchange.timing.upstream = landed.total;
        let large = landed.large.lock().take();
        let headers = match &landed.outcome {
            Ok(Answered::Whole(whole)) => Some(&whole.headers),
            Ok(Answered::Stream(streamed)) => Some(&streamed.head.headers),
            Err(_) => large.as_ref().map(|large| &large.headers),
        };
        exchange.asked_of(&landed.provider, &landed.attempts, headers);
        exchange.sent_on(plan.asked.body(), landed.sent_body.as_ref());
        let given = match &landed.outcome {
            Ok(answered) => match self.given(landed, answered, plan) {
                Ok(given) => given,
                Err(why) => {
                    let said = |first: &mut _| Ok(self.cannot_say(exchange, head, (landed, answered), why, first));
                    return seat.attest(said);
                }
            },
            Err(Missed::Unopened) => {
                exchange.provider = None;
                return Err(Fault::LineageUnavailable);
            }
            Err(Missed::Upstream(error)) => {
                let fault = Fault::Upstream { provider: landed.provider.clone(), error: error.clone() };
                return match large {
                    Some(large) if !plan.differs(landed.api) => self.pour(exchange, head, landed, large),
                    Some(_) => Err(fault),
                    None => self.stale(exchange, head, plan).await.unwrap_or(Err(fault)),
                };
            }
        };
        if given.status >= 500
            && let Some(stale) = self.stale(exchange, head, plan).await
        {
            return stale;
        }
        if matches!(given.status, 401 | 403) && self.parts.settings.auth != AuthMode::Passthrough {
            self.parts.metrics.upstream(landed.provider.as_str(), given.ttfb, landed.total);
            return Err(Fault::ProviderRefused { provider: landed.provider.clone() });
        }
        exchange.ttfb = Some(given.ttfb);
        exchange.served.clone_from(&given.reading.served);
        // What comes whole where a stream was asked for is passed on and not trusted any further.
        let whole_for_stream = landed.asked_stream && !landed.is_stream();
        let filling = filling.filter(|filling| {
            given.tier == 0
                && landed.api == plan.request.api()
                && !whole_for_stream
                && self.will_keep(filling, given.reading.storable())
        });
        seat.attest(|first| self.finish_whole(exchange, (head, plan), filling, &given, first))
    }

    /// The answer in the form that this participant asked for.
    fn given<'l>(&self, landed: &'l Landed, answered: &'l Answered, plan: &Plan) -> Result<Given<'l>, Untranslatable> {
        let wants_stream = plan.asked.stream();
        let (status, headers, reading, tier, ttfb, came) = match answered {
            Answered::Whole(w) => (w.status, &w.headers, &w.reading, w.tier, w.ttfb, Some(&w.body)),
            Answered::Stream(s) => (200, &s.head.headers, &s.reading, s.head.tier, s.head.ttfb, None),
        };
        let anew = landed.asked_stream != wants_stream && status == 200;
        let now_ms = self.parts.clock.now_ms();
        let said = match (came, &reading.kept) {
            (Some(body), kept) if !anew || kept.is_none() => plan.said_whole(landed.api, (status, body), now_ms),
            (_, Some(kept)) => plan.said_again(kept, landed.api, now_ms).map(|body| (status, body)),
            (_, None) => Ok((status, Bytes::new())),
        };
        let (status, body) = said?;
        let rendered_stream = anew && wants_stream && reading.kept.is_some();
        Ok(Given { landed, status, headers, body, rendered_stream, reading, tier, ttfb })
    }

    /// The refusal of an answer that this caller's API cannot say. The provider was paid for it all the same, so the record
    /// has what it was and what it cost. It is not kept.
    fn cannot_say(
        &self,
        exchange: &mut Exchange,
        head: &Head,
        (landed, answered): (&Landed, &Answered),
        source: Untranslatable,
        first: &mut Option<Source>,
    ) -> Reply {
        let (keys, billed) = (exchange.keys().clone(), first.is_none());
        let (reading, ttfb) = match answered {
            Answered::Whole(whole) => (&whole.reading, whole.ttfb),
            Answered::Stream(streamed) => (&streamed.reading, streamed.head.ttfb),
        };
        exchange.ttfb = Some(ttfb);
        exchange.served.clone_from(&reading.served);
        if let Answered::Whole(whole) = answered {
            exchange.came(&whole.body);
        }
        if let Some(leader) = first {
            exchange.x_cache = "COALESCED";
            exchange.follow(leader);
        } else {
            self.parts.metrics.upstream(landed.provider.as_str(), ttfb, landed.total);
            self.count_tokens(reading.usage, true);
        }
        let fault = Fault::Untranslatable { provider: landed.provider.clone(), source };
        let (reply, attested) = self.refuse_answered(exchange.hand_over(), head, &fault, Some((reading, billed)));
        self.note_first(first, attested.as_ref(), &keys, None, reading);
        reply
    }

    fn finish_whole(
        self: &Arc<Self>,
        exchange: &mut Exchange,
        (head, plan): (&Head, &Plan),
        filling: Option<Filling>,
        given: &Given<'_>,
        first: &mut Option<Source>,
    ) -> Result<Reply, Fault> {
        let keys = exchange.keys().clone();
        let billed = first.is_none();
        if let Some(source) = first {
            exchange.x_cache = "COALESCED";
            exchange.follow(source);
        } else {
            self.parts.metrics.upstream(given.landed.provider.as_str(), given.ttfb, given.landed.total);
        }
        let fills = billed && filling.is_some();
        exchange.cache.ttl_ms = filling.as_ref().filter(|_| fills).map(Filling::ttl_ms);
        let mut headers = given.headers.clone();
        reply::common(&mut headers, exchange, head.request_id.as_str(), given.rendered_stream);
        if given.landed.is_stream() {
            reply::fixed(&mut headers, CONTENT_TYPE, "application/json");
        }
        reply::fixed(&mut headers, names::CACHE_STATUS, reply::forwarded(exchange.x_cache, fills));
        let sample = exchange.sample.take().filter(|_| filling.is_some());
        self.count_tokens(given.reading.usage, billed);
        let attested = exchange.close(&Ending {
            outcome: if given.status < 400 { Outcome::Complete } else { Outcome::UpstreamError },
            answer_digest: given.reading.digest,
            finish: given.reading.finish.clone(),
            usage: given.reading.usage.map(|usage| usage_facts(usage, billed)),
            ..Ending::whole(given.status, &given.body)
        })?;
        reply::receipt(&mut headers, attested.as_ref());
        self.compare(attested.as_ref(), sample, given.reading.storable());
        self.note_first(first, attested.as_ref(), &keys, filling, given.reading);
        if given.rendered_stream {
            let stream = (given.body.clone(), plan.controls.in_band);
            return Ok(reply::replayed(headers, stream, head, attested.as_ref()));
        }
        Ok(Reply { status: given.status, headers, body: ReplyBody::Whole(given.body.clone()) })
    }

    /// The record of whoever ended first is the one that the others name, and its answer is kept.
    pub(crate) fn note_first(
        &self,
        first: &mut Option<Source>,
        attested: Option<&Attested>,
        keys: &Arc<signet_cache::TenantKeys>,
        filling: Option<Filling>,
        reading: &Reading,
    ) {
        let (None, Some(attested)) = (&first, attested) else { return };
        let source = source(attested, keys, reading.digest);
        *first = Some(source);
        if let (Some(filling), Some(kept)) = (filling, reading.storable()) {
            self.fill(keys, filling, kept.clone(), reading.semantic, source);
        }
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

/// The record as what others name when they stand on it. Without a digest its fingerprint is zero, and they name none.
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
        response_fp: Some(source.response_fp).filter(|fp| *fp != [0; 16]),
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
    /// The answer is another participant's call: it was neither asked nor sent on for this one.
    pub(crate) fn follow(&mut self, leader: &Source) {
        self.cache.decision = "coalesced";
        self.parents.push(parent(leader, Relation::CoalescedLeader));
        self.provider = None;
        self.sent_on(&[], None);
    }

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
