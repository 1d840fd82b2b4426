//! Chat completions and embeddings: the life of one request, top to bottom.

use crate::capture::{Capture, Kept};
use crate::control::{Controls, Fetch};
use crate::exchange::{Ending, Exchange, Sent, operations};
use crate::fault::Fault;
use crate::fill::Filling;
use crate::head::{BodyFault, Head};
use crate::in_band::InBand;
use crate::landing::{self, Call, Judged, Landed, Whole};
use crate::live::{Course, Live};
use crate::neutral::bound;
use crate::pipeline::{Pipeline, RouteRules};
use crate::questions::Drawn;
use crate::reply::{self, Hit, Reply, ReplyBody, names};
use bytes::Bytes;
use http::Method;
use signet_cache::{
    Ask as CacheAsk, CacheKey, Decision, Entry, Lookup, Miss, Mode, Origin, Partition, PartitionParts, Prepared,
    Question, Stored,
};
use signet_dialect::Api;
use signet_lineage::{CacheFacts, Outcome, Relation};
use signet_openai::{BadRequest, ChatRequest, EmbeddingsRequest};
use signet_provider::{Ask, Auth, Route, Target, filter_request_headers};
use signet_telemetry::Step;
use signet_types::{EntryId, ModelName};
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A request that is understood: where it may go and where its answer may come from.
struct Plan<'a> {
    route: Route,
    controls: Controls,
    rules: RouteRules,
    /// The last user text.
    text: &'a str,
    partition: Partition,
    key: CacheKey,
    question: Result<&'a str, &'static str>,
}

impl Pipeline {
    /// Answers one chat completion request.
    pub async fn chat(
        self: &Arc<Self>,
        head: &Head,
        body: impl Future<Output = Result<Bytes, BodyFault>> + Send,
    ) -> Reply {
        let mut exchange = self.begin(operations::CHAT, head);
        match self.answer_chat(&mut exchange, head, body).await {
            Ok(reply) => reply,
            Err(fault) => self.refuse(exchange, head, &fault),
        }
    }

    async fn answer_chat(
        self: &Arc<Self>,
        exchange: &mut Exchange,
        head: &Head,
        body: impl Future<Output = Result<Bytes, BodyFault>> + Send,
    ) -> Result<Reply, Fault> {
        self.admit(exchange, head)?;
        let auth = self.identify(exchange, head).await?;
        let body = self.read(exchange, body).await?;
        let request = Arc::new(ChatRequest::parse(&body)?);
        (exchange.stream, exchange.asked) = (request.stream(), request.model().to_owned());
        let plan = self.plan(exchange, head, request.model(), *request.shape(), request.last_text())?;
        self.keep(exchange, plan.rules, &body);
        let question = if plan.rules.mode == Mode::Off { Err("off") } else { request.semantic_candidate() };
        let plan = Plan { question, ..plan };
        let form = (request.include_usage(), plan.controls.in_band);
        let miss = match self.lookup(exchange, &plan).await {
            Lookup::Exact(entry) => return self.replay(exchange, head, &entry, None, form),
            Lookup::Semantic(entry, decision) => {
                return self.replay(exchange, head, &entry, Some(&decision), form);
            }
            Lookup::Miss(miss) => miss,
        };
        if plan.controls.only_if_cached {
            return Err(Fault::NotCached);
        }
        let filling = filling(self, exchange, &plan, miss);
        let (stream, n, usage_wanted) = (request.stream(), request.n(), request.include_usage());
        let ask_usage = stream && self.parts.settings.inject_usage;
        let sender = request.clone();
        let make = move |target: &Target| sender.with(renamed(sender.model(), target), usage_wanted || ask_usage);
        let call = upstream_call(head, auth, plan.route.clone(), Api::Chat, Box::new(make));
        exchange.routed = Some(call.route.targets[0].model.as_str().to_owned());
        exchange.forwarded_body(&body, &(call.body)(&call.route.targets[0]));
        if stream {
            let usage_wanted = usage_wanted || !ask_usage;
            return self.stream(exchange, head, call, filling, (n, usage_wanted, plan.controls.in_band)).await;
        }
        let judge = move |whole: &Whole| Judged::chat(whole, n);
        self.whole(exchange, head, &plan, call, filling, &judge).await
    }

    /// Answers one embeddings request. Exact caching only.
    pub async fn embeddings(
        self: &Arc<Self>,
        head: &Head,
        body: impl Future<Output = Result<Bytes, BodyFault>> + Send,
    ) -> Reply {
        let mut exchange = self.begin(operations::EMBEDDINGS, head);
        match self.answer_embeddings(&mut exchange, head, body).await {
            Ok(reply) => reply,
            Err(fault) => self.refuse(exchange, head, &fault),
        }
    }

    async fn answer_embeddings(
        self: &Arc<Self>,
        exchange: &mut Exchange,
        head: &Head,
        body: impl Future<Output = Result<Bytes, BodyFault>> + Send,
    ) -> Result<Reply, Fault> {
        self.admit(exchange, head)?;
        let auth = self.identify(exchange, head).await?;
        let body = self.read(exchange, body).await?;
        let request = EmbeddingsRequest::parse(&body)?;
        request.model().clone_into(&mut exchange.asked);
        let plan = self.plan(exchange, head, request.model(), *request.shape(), "")?;
        self.keep(exchange, plan.rules, &body);
        let miss = match self.lookup(exchange, &plan).await {
            Lookup::Exact(entry) | Lookup::Semantic(entry, _) => {
                return self.replay(exchange, head, &entry, None, (false, InBand::Nothing));
            }
            Lookup::Miss(miss) => miss,
        };
        if plan.controls.only_if_cached {
            return Err(Fault::NotCached);
        }
        let filling = filling(self, exchange, &plan, miss);
        let inputs = request.inputs();
        let make = move |target: &Target| request.with(renamed(request.model(), target));
        let call = upstream_call(head, auth, plan.route.clone(), Api::Embeddings, Box::new(make));
        exchange.routed = Some(call.route.targets[0].model.as_str().to_owned());
        exchange.forwarded_body(&body, &(call.body)(&call.route.targets[0]));
        let judge = move |whole: &Whole| Judged::embeddings(whole, inputs);
        self.whole(exchange, head, &plan, call, filling, &judge).await
    }

    /// Model → targets, wishes → policy, everything that decides the answer → partition and key.
    fn plan<'a>(
        &self,
        exchange: &mut Exchange,
        head: &Head,
        model: &str,
        shape: [u8; 32],
        last_text: &'a str,
    ) -> Result<Plan<'a>, Fault> {
        let started = Instant::now();
        let unknown = || Fault::UnknownModel { model: model.to_owned() };
        let name: ModelName = model.parse().map_err(|_| unknown())?;
        let route = self.parts.fleet.resolve(&name).map_err(|_| unknown())?;
        let controls = Controls::read(&head.headers)?;
        let shape = bound(shape, &head.headers);
        let partition = Partition::derive(&PartitionParts {
            tenant: exchange.keys().tenant,
            namespace: &controls.namespace,
            operation: exchange.operation.name,
            targets: route.digest,
            policy_generation: self.parts.settings.policy_generation,
            shape,
        });
        let key = CacheKey::derive(&partition, last_text.as_bytes());
        self.parts.metrics.step(Step::Parse, started.elapsed());
        let rules = self.parts.settings.rules.get(&name).copied().unwrap_or_default();
        Ok(Plan { route, controls, rules, text: last_text, partition, key, question: Err("operation") })
    }

    /// Keeps the request until it is sealed with its answer, on a route that wants that.
    fn keep(&self, exchange: &mut Exchange, rules: RouteRules, body: &Bytes) {
        if rules.capture {
            let kept = |by: &Arc<Capture>| Kept { by: by.clone(), request: body.clone() };
            exchange.kept = self.parts.capture.as_ref().map(kept);
        }
    }

    /// Asks the caches. A broken cache is a miss.
    async fn lookup(&self, exchange: &mut Exchange, plan: &Plan<'_>) -> Lookup {
        let started = Instant::now();
        exchange.x_cache = match plan.controls.fetch {
            Fetch::IfNeeded => "MISS",
            Fetch::Refresh => "REFRESH",
            Fetch::Bypass => "BYPASS",
        };
        exchange.cache = CacheFacts {
            decision: decision_name(exchange.x_cache),
            key_fp: Some(exchange.fingerprint("key", plan.key.as_bytes())),
            ..CacheFacts::default()
        };
        if plan.controls.fetch == Fetch::Bypass || exchange.keys().unstored.is_some() {
            return Lookup::Miss(Miss::default());
        }
        let ask = CacheAsk {
            partition: &plan.partition,
            key: &plan.key,
            question: plan.question,
            read: plan.controls.read_policy(plan.rules),
            now_ms: self.parts.clock.now_ms(),
        };
        let found = self.lookup_sampled(exchange, &ask, !plan.controls.only_if_cached).await;
        exchange.timing.cache = started.elapsed();
        self.parts.metrics.step(Step::Cache, started.elapsed());
        if let Lookup::Miss(Miss { decision, .. }) | Lookup::Semantic(_, decision) = &found {
            self.note(exchange, decision);
        }
        self.draw_question(exchange, &ask, &found);
        found
    }

    /// Keeps the question for the operator, if it is drawn.
    fn draw_question(&self, exchange: &Exchange, ask: &CacheAsk<'_>, found: &Lookup) {
        let Some(draw) = self.parts.questions.as_ref().filter(|draw| draw.takes(exchange.id)) else { return };
        let Ok(question) = ask.question else { return };
        let (decision, matched) = match found {
            Lookup::Exact(_) => (Decision::default(), None),
            Lookup::Semantic(entry, decision) => (decision.clone(), Some(entry.clone())),
            Lookup::Miss(miss) if !ask.read.semantic || miss.decision.ineligible.is_some() => return,
            Lookup::Miss(miss) => {
                let candidate = miss.decision.candidate.and_then(|key| self.parts.cache.held(&key));
                (miss.decision.clone(), candidate)
            }
        };
        draw.send(Drawn {
            id: exchange.id,
            keys: exchange.keys().clone(),
            model: exchange.asked.clone(),
            partition: *ask.partition,
            question: question.to_owned(),
            decision,
            is_exact: matches!(found, Lookup::Exact(_)),
            matched,
        });
    }

    /// Looks up under the terms of the route; what is drawn to be checked stays with the exchange.
    async fn lookup_sampled(&self, exchange: &mut Exchange, ask: &CacheAsk<'_>, may_sample: bool) -> Lookup {
        let Some(sampler) = &self.parts.sampler else { return self.parts.cache.lookup(ask).await };
        let terms = sampler.terms(&exchange.asked, exchange.id, may_sample);
        let mut found = self.parts.cache.lookup_under(ask, &terms).await;
        if let Lookup::Miss(miss) = &mut found
            && let (Some(candidate), Ok(question)) = (miss.candidate.take(), ask.question)
        {
            exchange.sample = Some(sampler.sample(&exchange.asked, &miss.decision, question, candidate));
        }
        found
    }

    /// Keeps the semantic decision as it was made.
    fn note(&self, exchange: &mut Exchange, decision: &Decision) {
        let millionths = |value: f32| (f64::from(value.clamp(0.0, 1.0)) * 1e6).round();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and a million")]
        let e6 = |value: f32| millionths(value) as u64;
        let facts = &mut exchange.cache;
        facts.tier = decision.tier;
        facts.score_e6 = decision.similarity.map(e6);
        facts.floor_e6 = decision.floor.map(e6);
        facts.refused_by = decision.refused_by;
        facts.ineligible = decision.ineligible;
        facts.encoder = self.parts.cache.semantic().map(|layer| layer.encoder().to_owned());
        let verdict = match (decision.tier, decision.refused_by, decision.ineligible) {
            (Some(_), ..) if decision.sampled => "sampled",
            (Some(_), ..) if decision.shadowed => "shadow",
            (Some(_), ..) => "hit",
            (None, Some(_), _) => "refused",
            (None, None, Some(_)) => "ineligible",
            (None, None, None) => "none",
        };
        self.parts.metrics.semantic(decision.tier.unwrap_or("none"), verdict);
    }

    /// Serves a stored answer: record first, then all bytes at once.
    fn replay(
        &self,
        exchange: &mut Exchange,
        head: &Head,
        entry: &Entry,
        decision: Option<&Decision>,
        (include_usage, in_band): (bool, InBand),
    ) -> Result<Reply, Fault> {
        let now_ms = self.parts.clock.now_ms();
        let hit = Hit {
            detail: decision.map_or("exact", |decision| decision.tier.unwrap_or("vector")),
            similarity: decision.map_or(1.0, |decision| decision.similarity.unwrap_or_default()),
            source: entry.source.id,
            age_ms: now_ms.saturating_sub(entry.created_ms),
            ttl_ms: entry.expires_ms.saturating_sub(now_ms),
        };
        (exchange.x_cache, exchange.cache.decision) =
            if decision.is_some() { ("SEMANTIC", "hit_semantic") } else { ("EXACT", "hit_exact") };
        exchange.cache.tier = Some(hit.detail);
        (exchange.cache.age_ms, exchange.cache.ttl_ms) = (Some(hit.age_ms), Some(hit.ttl_ms));
        exchange.parents.push(landing::parent(&entry.source, Relation::CacheSource));
        let rendered = rendered(exchange, entry, now_ms, include_usage);
        let mut headers = http::HeaderMap::with_capacity(24);
        reply::common(&mut headers, exchange, head.request_id.as_str(), exchange.stream);
        reply::hit(&mut headers, &hit);
        self.count_tokens(rendered.usage, false);
        let stream = exchange.stream;
        let attested = exchange.close(&Ending {
            status: 200,
            outcome: Outcome::Complete,
            body: Sent::Whole(&rendered.bytes),
            chunks: 0,
            answer_digest: rendered.digest,
            finish: rendered.finish,
            usage: rendered.usage.map(|usage| landing::usage_facts(usage, false)),
        })?;
        reply::receipt(&mut headers, attested.as_ref());
        if stream {
            return Ok(reply::replayed(headers, (rendered.bytes, in_band), head, attested.as_ref()));
        }
        reply::fixed(&mut headers, http::header::CONTENT_TYPE, "application/json");
        Ok(Reply { status: 200, headers, body: ReplyBody::Whole(rendered.bytes) })
    }

    /// A whole answer from upstream, shared with identical requests that wait for the same one.
    async fn whole(
        self: &Arc<Self>,
        exchange: &mut Exchange,
        head: &Head,
        plan: &Plan<'_>,
        call: Call,
        filling: Option<Filling>,
        judge: &(dyn Fn(&Whole) -> Judged + Send + Sync),
    ) -> Result<Reply, Fault> {
        let started = Instant::now();
        let max = self.parts.settings.max_response_bytes;
        let fleet = || self.parts.fleet.clone();
        if plan.controls.fetch != Fetch::IfNeeded {
            self.open(exchange)?;
            self.parts.recorder.opened().await?;
            let landed = landing::depart(fleet(), &call, max).await;
            self.parts.metrics.step(Step::Upstream, started.elapsed());
            return self.land(exchange, head, filling, None, (&landed, judge));
        }
        let call = Arc::new(call);
        let mut again = true;
        loop {
            let depart = || {
                self.open(exchange)?;
                Ok(landing::depart_shared(self.parts.recorder.clone(), fleet(), call.clone(), max))
            };
            let seat = self.flights.join(plan.key, depart)?;
            let landed = tokio::time::timeout(self.parts.settings.wait_max, seat.landed()).await;
            let landed: Arc<Landed> = landed.map_err(|_| waited_too_long(&plan.route, self.parts.settings.wait_max))?;
            if !seat.leads && landed.is_large() {
                // Too large to share: whoever started the call has it, everyone else makes one of its own.
                self.open(exchange)?;
                self.parts.recorder.opened().await?;
                let own = landing::depart(fleet(), &call, max).await;
                self.parts.metrics.step(Step::Upstream, started.elapsed());
                return self.land(exchange, head, filling, None, (&own, judge));
            }
            // A follower of a failed call gets one try of its own, so that one bad call does not fail a whole herd.
            if !seat.leads && landed.failed() && std::mem::take(&mut again) {
                continue;
            }
            self.parts.metrics.step(Step::Upstream, started.elapsed());
            return self.land(exchange, head, filling, Some(&seat), (&landed, judge));
        }
    }

    /// A stream from upstream.
    async fn stream(
        self: &Arc<Self>,
        exchange: &mut Exchange,
        head: &Head,
        call: Call,
        filling: Option<Filling>,
        (choices, usage_wanted, in_band): (u32, bool, InBand),
    ) -> Result<Reply, Fault> {
        let started = Instant::now();
        self.open(exchange)?;
        self.parts.recorder.opened().await?;
        let sent = match self.parts.fleet.send(&call.route, &call.ask, &*call.body).await {
            Ok(sent) => sent,
            Err(refused) => {
                let asked = refused.attempts.last().map(|attempt| attempt.provider.clone());
                let provider = asked.unwrap_or_else(|| call.route.targets[0].provider.clone());
                exchange.asked_of(&provider, &refused.attempts, None);
                exchange.timing.upstream = started.elapsed();
                return Err(Fault::Upstream { provider, error: Arc::new(refused.error) });
            }
        };
        self.parts.metrics.step(Step::Upstream, started.elapsed());
        let provider = call.route.targets[sent.target].provider.clone();
        exchange.timing.upstream = started.elapsed();
        exchange.ttfb = Some(sent.reply.timings.ttfb);
        let streams = sent.reply.status.as_u16() == 200 && is_event_stream(&sent.reply.headers);
        if !streams {
            let landed = landing::collect(sent, provider, started, self.parts.settings.max_response_bytes).await;
            let judge = |whole: &Whole| Judged::chat(whole, choices);
            return self.land(exchange, head, None, None, (&landed, &judge));
        }
        exchange.asked_of(&provider, &sent.attempts, Some(&sent.reply.headers));
        let filling = filling.filter(|_| sent.target == 0);
        let mut headers = sent.reply.headers;
        reply::common(&mut headers, exchange, head.request_id.as_str(), true);
        // Whether a stream is stored shows at its end only.
        reply::fixed(&mut headers, names::CACHE_STATUS, reply::forwarded(exchange.x_cache, false));
        reply::set(&mut headers, names::ATTEMPTS, &sent.attempts.len().to_string());
        if head.takes_trailers {
            reply::announce_trailers(&mut headers);
        }
        let course = Course {
            pipeline: self.clone(),
            provider,
            choices,
            usage_wanted,
            filling,
            takes_trailers: head.takes_trailers,
            in_band,
            started,
        };
        let live = Live::new(exchange.hand_over(), sent.reply.body, course);
        Ok(Reply { status: 200, headers, body: ReplyBody::Live(Box::new(live)) })
    }

    /// OPEN: the last step before money is spent.
    fn open(&self, exchange: &mut Exchange) -> Result<(), Fault> {
        let started = Instant::now();
        let opened = exchange.open();
        self.parts.metrics.step(Step::Open, started.elapsed());
        opened
    }
}

/// Where the answer would be kept; none where the caller wants nothing stored.
fn filling(pipeline: &Pipeline, exchange: &Exchange, plan: &Plan<'_>, miss: Miss) -> Option<Filling> {
    if plan.controls.fetch == Fetch::Bypass || exchange.keys().unstored.is_some() {
        return None;
    }
    let config = pipeline.parts.cache.config();
    // What is ready for the semantic layer was read already.
    let volatile = || miss.prepared.as_ref().map_or_else(|| Question::is_volatile(plan.text), Prepared::volatile);
    let usual = || if volatile() { config.volatile_ttl.min(config.ttl) } else { config.ttl };
    let ttl = plan.controls.ttl.unwrap_or_else(usual).min(config.ttl_max);
    let question = plan.question.ok().map(str::to_owned).zip(miss.prepared);
    let origin = Origin { model: exchange.asked.as_str().into(), namespace: plan.controls.namespace.as_str().into() };
    (!ttl.is_zero()).then_some(Filling {
        asked_ms: exchange.received_ms(),
        partition: plan.partition,
        key: plan.key,
        ttl,
        origin,
        question,
    })
}

fn upstream_call(head: &Head, auth: Auth, route: Route, api: Api, body: landing::BodyFor) -> Call {
    let ask = Ask {
        method: Method::POST,
        api,
        query: None,
        headers: filter_request_headers(&head.headers),
        authorization: auth,
        deadline: None,
    };
    Call { route, ask, body }
}

/// The model's name at the target, where it differs from the one asked for.
fn renamed<'a>(asked: &str, target: &'a Target) -> Option<&'a str> {
    Some(target.model.as_str()).filter(|name| *name != asked)
}

fn is_event_stream(headers: &http::HeaderMap) -> bool {
    let value = headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = value.and_then(|value| value.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
}

fn decision_name(x_cache: &str) -> &'static str {
    match x_cache {
        "BYPASS" => "bypass",
        "REFRESH" => "refresh",
        _ => "miss",
    }
}

fn waited_too_long(route: &Route, waited: Duration) -> Fault {
    let error = signet_provider::UpstreamError::DeadlineExceeded { waited };
    Fault::Upstream { provider: route.targets[0].provider.clone(), error: Arc::new(error) }
}

struct Rendered {
    bytes: Bytes,
    digest: Option<[u8; 32]>,
    finish: Option<String>,
    usage: Option<signet_openai::Usage>,
}

fn rendered(exchange: &Exchange, entry: &Entry, now_ms: u64, include_usage: bool) -> Rendered {
    match &entry.body {
        Stored::Chat(answer) => {
            let id = format!("chatcmpl-{}", EntryId::generate(now_ms).as_uuid().simple());
            let bytes = if exchange.stream {
                answer.to_sse(&id, now_ms / 1000, include_usage)
            } else {
                answer.to_json(&id, now_ms / 1000)
            };
            Rendered {
                bytes,
                digest: Some(*answer.content_digest()),
                finish: answer.finish_reasons().next().map(str::to_owned),
                usage: answer.usage(),
            }
        }
        Stored::Json(bytes) => Rendered { bytes: bytes.clone(), digest: None, finish: None, usage: None },
    }
}

impl From<BadRequest> for Fault {
    fn from(bad: BadRequest) -> Self {
        Self::Invalid { message: bad.message, param: bad.param, code: bad.code }
    }
}
