//! The life of one request, top to bottom, whichever API it speaks.

use crate::capture::{Capture, Kept};
use crate::control::{Controls, Fetch};
use crate::deadline::deadline;
use crate::exchange::{Exchange, operations};
use crate::fault::Fault;
use crate::feed::{ProviderFeed, SizeLimits};
use crate::fill::Filling;
use crate::flight::{Feed, Seat, Step as Event, Want};
use crate::head::{BodyFault, Head};
use crate::landing::{Bodies, Call, Landed, StreamHead};
use crate::live::{Course, Live};
use crate::neutral::bound;
use crate::pipeline::{Pipeline, RouteRules};
use crate::replay::Basis;
use crate::reply::{self, Reply, ReplyBody, names};
use crate::say::{Wording, say};
use bytes::Bytes;
use http::Method;
use http::uri::PathAndQuery;
use signet_cache::{CacheKey, Lookup, Miss, Mode, Origin, Partition, PartitionParts, Prepared, Question};
use signet_dialect::{Api, Refusal, Request};
use signet_provider::{Affinity, Ask, Auth, Route, UpstreamError, Words, filter_request_headers};
use signet_telemetry::Step;
use signet_types::{ModelName, ProviderName, TenantId};
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::time::Instant;

/// Longest query of a URL that is sent on, in bytes: behind a provider's own path it must still fit into a URL.
const QUERY_MAX: usize = 8 << 10;

/// A request that is understood: where it may go and where its answer may come from.
pub(crate) struct Plan {
    /// As the caller asked.
    pub(crate) asked: Arc<Request>,
    /// As it is asked of the preferred provider: the same, or said in another API. What is kept is the answer to this.
    pub(crate) request: Arc<Request>,
    pub(crate) route: Route,
    pub(crate) controls: Controls,
    pub(crate) rules: RouteRules,
    pub(crate) partition: Partition,
    pub(crate) key: CacheKey,
    /// When the answer must have begun.
    pub(crate) deadline: Option<tokio::time::Instant>,
}

impl Plan {
    /// The text to compare with similar ones, or why there is none.
    pub(crate) fn question(&self) -> Result<&str, &'static str> {
        if self.rules.mode == Mode::Off { Err("off") } else { self.request.semantic_candidate() }
    }
}

impl Pipeline {
    /// Answers one request to `api`.
    pub async fn serve(
        self: &Arc<Self>,
        api: Api,
        head: &Head,
        body: impl Future<Output = Result<Bytes, BodyFault>> + Send,
    ) -> Reply {
        let mut exchange = self.begin(operations::of(api), head);
        match self.answer(&mut exchange, api, head, body).await {
            Ok(reply) => reply,
            Err(fault) => self.refuse(exchange, head, &fault),
        }
    }

    async fn answer(
        self: &Arc<Self>,
        exchange: &mut Exchange,
        api: Api,
        head: &Head,
        body: impl Future<Output = Result<Bytes, BodyFault>> + Send,
    ) -> Result<Reply, Fault> {
        self.admit(exchange, head)?;
        let auth = self.identify(exchange, head).await?;
        let body = self.read(exchange, body).await?;
        let request = Request::parse(api, &body)?;
        (exchange.stream, exchange.asked) = (request.stream(), request.model().to_owned());
        let plan = self.plan(exchange, head, request)?;
        self.keep(exchange, plan.rules, &body);
        if let Some(asked) = self.batch(exchange, head, &plan) {
            return Box::pin(self.answer_batch(exchange, (head, auth), plan, asked)).await;
        }
        let (found, miss) = match self.lookup(exchange, &plan).await {
            Lookup::Exact(entry) => (self.replay(exchange, head, &entry, Basis::Exact, &plan), Miss::default()),
            Lookup::Semantic(entry, decision) => {
                (self.replay(exchange, head, &entry, Basis::Semantic(&decision), &plan), Miss::default())
            }
            Lookup::Miss(miss) => (None, miss),
        };
        if let Some(reply) = found {
            return reply;
        }
        if plan.controls.only_if_cached {
            return Err(Fault::NotCached);
        }
        let filling = self.filling(exchange, &plan, miss);
        let call = self.ready(exchange, (head, auth), &plan, &body)?;
        Box::pin(self.fetch(exchange, head, &plan, call, filling)).await
    }

    /// The call that `plan` asks for; the exchange knows from here on what is sent in place of the `received` body.
    pub(crate) fn ready(
        &self,
        exchange: &mut Exchange,
        (head, auth): (&Head, Auth),
        plan: &Plan,
        received: &Bytes,
    ) -> Result<Call, Fault> {
        let call = self.call(head, (auth, exchange.keys().tenant), plan)?;
        let preferred = &plan.route.targets[0];
        exchange.routed = Some(preferred.model.as_str().to_owned());
        exchange.forwarded_body(received, &call.bodies.to(preferred, plan.request.api()));
        Ok(call)
    }

    /// Model → targets, wishes → policy, everything that decides the answer → partition and key.
    fn plan(&self, exchange: &mut Exchange, head: &Head, request: Request) -> Result<Plan, Fault> {
        let started = Instant::now();
        let unknown = || Fault::UnknownModel { model: request.model().to_owned() };
        let name: ModelName = request.model().parse().map_err(|_| unknown())?;
        let route = self.parts.fleet.resolve(&name).map_err(|_| unknown())?;
        let rules = self.parts.settings.rules.get(&name).copied().unwrap_or_default();
        let asked = Arc::new(request);
        let request = self.said_to(&asked, &route, rules)?;
        let mut controls = Controls::read(&head.headers)?;
        if asked.stateless().is_err() {
            // The body does not say all that decides the answer: it comes from the provider, and for this caller only.
            controls.fetch = Fetch::Bypass;
        }
        let deadline = deadline(head)?;
        let (partition, key) = self.placed(head, (exchange.keys().tenant, &controls.namespace), &route, &request);
        self.parts.metrics.step(Step::Parse, started.elapsed());
        Ok(Plan { asked, request, route, controls, rules, partition, key, deadline })
    }

    /// Where the answer to a request on this route is found.
    pub(crate) fn placed(
        &self,
        head: &Head,
        whose: (TenantId, &str),
        route: &Route,
        request: &Request,
    ) -> (Partition, CacheKey) {
        self.placed_by((&head.headers, head.query.as_deref()), whose, route, request)
    }

    /// The same by the headers and the query of the URL alone.
    pub(crate) fn placed_by(
        &self,
        (headers, query): (&http::HeaderMap, Option<&str>),
        whose: (TenantId, &str),
        route: &Route,
        request: &Request,
    ) -> (Partition, CacheKey) {
        let forwards = |name: &str| self.parts.fleet.forwards(route, name);
        let shape = bound(*request.shape(), headers, query, &forwards);
        place(whose, (route.digest, self.parts.settings.policy_generation), request, shape)
    }

    /// The request as it is asked of the preferred provider: said in another API where it has not the caller's.
    pub(crate) fn said_to(
        &self,
        asked: &Arc<Request>,
        route: &Route,
        rules: RouteRules,
    ) -> Result<Arc<Request>, Refusal> {
        let api = self.parts.fleet.spoken(&route.targets[0], asked.api());
        match api.filter(|api| *api != asked.api()) {
            Some(api) => Ok(Arc::new(say(asked, api, rules)?)),
            None => Ok(asked.clone()),
        }
    }

    /// Keeps the request until it is sealed with its answer, on a route that wants that.
    fn keep(&self, exchange: &mut Exchange, rules: RouteRules, body: &Bytes) {
        if rules.capture {
            let kept = |by: &Arc<Capture>| Kept { by: by.clone(), request: body.clone() };
            exchange.kept = self.parts.capture.as_ref().map(kept);
        }
    }

    /// Where the answer would be kept; none where the caller wants nothing stored.
    pub(crate) fn filling(&self, exchange: &Exchange, plan: &Plan, miss: Miss) -> Option<Filling> {
        if plan.controls.fetch == Fetch::Bypass || exchange.keys().unstored.is_some() {
            return None;
        }
        let config = self.parts.cache.config();
        // What is ready for the semantic layer was read already.
        let text = plan.request.last_text();
        let volatile = || miss.prepared.as_ref().map_or_else(|| Question::is_volatile(text), Prepared::volatile);
        let usual = || if volatile() { config.volatile_ttl.min(config.ttl) } else { config.ttl };
        let ttl = plan.controls.ttl.unwrap_or_else(usual).min(config.ttl_max);
        let question = plan.question().ok().map(str::to_owned).zip(miss.prepared);
        let origin =
            Origin { model: exchange.asked.as_str().into(), namespace: plan.controls.namespace.as_str().into() };
        (!ttl.is_zero()).then_some(Filling {
            asked_ms: exchange.received_ms(),
            partition: plan.partition,
            key: plan.key,
            ttl,
            origin,
            question,
        })
    }

    /// What would be sent, to whichever target.
    fn call(&self, head: &Head, (auth, tenant): (Auth, TenantId), plan: &Plan) -> Result<Call, Fault> {
        let query = head.query.as_ref().map(|query| {
            let short = Some(query).filter(|query| query.len() <= QUERY_MAX);
            let query = short.and_then(|query| PathAndQuery::try_from(format!("/?{query}")).ok());
            query.ok_or_else(|| Fault::invalid("The query of the URL cannot be sent on.".to_owned(), None))
        });
        // Where others may wait for the same call, each leaves at its own time.
        let alone = plan.controls.fetch != Fetch::IfNeeded;
        let ask = Ask {
            method: Method::POST,
            api: plan.asked.api(),
            query: query.transpose()?,
            headers: filter_request_headers(&head.headers),
            authorization: auth,
            deadline: plan.deadline.filter(|_| alone),
            patience: plan.deadline,
            affinity: plan.route.has_choice().then(|| affinity(tenant, &plan.request, &plan.key)),
            trail: Arc::default(),
        };
        let wording = Wording::new(plan.asked.clone(), plan.request.clone(), plan.rules);
        let bodies = Bodies::new(wording, self.parts.settings.usage_unasked.clone());
        let (form, streams) = (plan.request.form(), plan.request.stream());
        Ok(Call { route: plan.route.clone(), ask, bodies, form, streams })
    }

    /// The answer from upstream, shared with identical requests that wait for the same one.
    pub(crate) async fn fetch(
        self: &Arc<Self>,
        exchange: &mut Exchange,
        head: &Head,
        plan: &Plan,
        call: Call,
        mut filling: Option<Filling>,
    ) -> Result<Reply, Fault> {
        let (started, call) = (Instant::now(), Arc::new(call));
        let (mut again, mut shares) = (true, plan.controls.fetch == Fetch::IfNeeded);
        loop {
            let seat = self.board(exchange, plan, &call, shares)?;
            let by = self.latest(plan);
            let landed = match tokio::time::timeout_at(by, self.arrival(exchange, &seat)).await {
                Ok(Arrival::Head(stream)) => {
                    self.parts.metrics.step(Step::Upstream, started.elapsed());
                    return self.go_live(exchange, (head, plan), (seat, &stream), filling, started);
                }
                Ok(Arrival::Landed(landed)) => landed,
                Err(_) => {
                    let fault = too_late(exchange, plan, seat.leads.then_some(&*call), started);
                    drop(seat);
                    return self.stale(exchange, head, plan).await.unwrap_or(Err(fault));
                }
            };
            if !seat.leads && (landed.is_large() || !landed.serves(exchange.stream)) {
                // It cannot be shared: whoever started the call has it, everyone else makes one of its own.
                (shares, filling) = (false, None);
                continue;
            }
            // A follower of a failed call gets one try of its own, so that one bad call does not fail a whole herd.
            if !seat.leads && landed.failed() && std::mem::take(&mut again) {
                continue;
            }
            self.parts.metrics.step(Step::Upstream, started.elapsed());
            return self.land(exchange, (head, plan), filling, &seat, &landed).await;
        }
    }

    /// Until when this caller waits for its answer to begin.
    pub(crate) fn latest(&self, plan: &Plan) -> tokio::time::Instant {
        let limit = tokio::time::Instant::now() + self.parts.settings.wait_max;
        plan.deadline.map_or(limit, |deadline| deadline.min(limit))
    }

    /// A place in the flight of this request, or in one of its own.
    pub(crate) fn board(
        self: &Arc<Self>,
        exchange: &mut Exchange,
        plan: &Plan,
        call: &Arc<Call>,
        shares: bool,
    ) -> Result<Seat, Fault> {
        let reads = exchange.stream;
        let mut depart = || {
            self.open(exchange)?;
            let (recorder, fleet) = (self.parts.recorder.clone(), self.parts.fleet.clone());
            let (whole, stream) = (self.parts.settings.max_response_bytes, self.parts.settings.max_stream_bytes);
            let limits = SizeLimits { whole, stream };
            Ok(Box::new(ProviderFeed::new(recorder, fleet, call.clone(), limits)) as Box<dyn Feed>)
        };
        if shares {
            self.flights.join((plan.key, self.leaves_usage_to(plan)), reads, depart)
        } else {
            Ok(self.flights.alone(reads, depart()?))
        }
    }

    /// Waits for what a participant can begin its answer with.
    pub(crate) async fn arrival(&self, exchange: &mut Exchange, seat: &Seat) -> Arrival {
        let want = if exchange.stream { Want::Head } else { Want::End };
        loop {
            match poll_fn(|cx| seat.poll(want, cx)).await {
                Event::Head(head) => return Arrival::Head(head),
                Event::End(landed) => return Arrival::Landed(landed),
                Event::Promoted => self.take_over(exchange),
                // It has not begun to read.
                Event::Run(_) | Event::TooSlow => {}
            }
        }
    }

    /// Whoever stood for the call has left: if this process dies now, this participant's record tells of it.
    pub(crate) fn take_over(&self, exchange: &mut Exchange) {
        if let Err(fault) = self.open(exchange) {
            tracing::warn!(%fault, "a call goes on and nothing in the log says so yet");
        }
    }

    /// Begins this participant's stream.
    fn go_live(
        self: &Arc<Self>,
        exchange: &mut Exchange,
        (head, plan): (&Head, &Plan),
        (seat, stream): (Seat, &Arc<StreamHead>),
        filling: Option<Filling>,
        started: Instant,
    ) -> Result<Reply, Fault> {
        exchange.timing.upstream = started.elapsed();
        exchange.ttfb = Some(stream.ttfb);
        if !seat.leads {
            (exchange.x_cache, exchange.cache.decision) = ("COALESCED", "coalesced");
            // Its head is an answer begun: if this process dies, the log says how it ended. Nothing was sent on for it.
            exchange.sent_on(&[], None);
            self.open(exchange)?;
        }
        exchange.asked_of(&stream.provider, &stream.attempts, Some(&stream.headers));
        exchange.sent_on(plan.asked.body(), stream.sent_body.as_ref());
        let mut headers = stream.headers.clone();
        reply::common(&mut headers, exchange, head.request_id.as_str(), true);
        // Whether a stream is stored shows at its end only.
        reply::fixed(&mut headers, names::CACHE_STATUS, reply::forwarded(exchange.x_cache, false));
        if head.takes_trailers {
            reply::announce_trailers(&mut headers);
        }
        let course = Course {
            pipeline: self.clone(),
            provider: stream.provider.clone(),
            usage_wanted: plan.asked.include_usage() || !self.asks_usage(&stream.provider),
            filling: filling.filter(|_| stream.tier == 0 && stream.api == plan.request.api()),
            takes_trailers: head.takes_trailers,
            in_band: plan.controls.in_band,
            api: plan.asked.api(),
            last_event: stream.api.last_event(),
            interpreter: plan.interpreter(stream.api, self.parts.clock.now_ms()),
            started,
        };
        let live = Live::new(exchange.hand_over(), seat, course);
        Ok(Reply { status: 200, headers, body: ReplyBody::Live(Box::new(live)) })
    }

    /// Whether the caller's wish for usage goes upstream and nothing else asks for it: then streams with and without are
    /// two calls.
    fn leaves_usage_to(&self, plan: &Plan) -> bool {
        plan.request.stream()
            && plan.request.include_usage()
            && !plan.route.targets.iter().all(|target| self.asks_usage(&target.provider))
    }

    /// Whether streams of a provider are asked for usage, whatever the caller wants.
    fn asks_usage(&self, provider: &ProviderName) -> bool {
        !self.parts.settings.usage_unasked.contains(provider)
    }

    /// OPEN: the last step before money is spent.
    fn open(&self, exchange: &mut Exchange) -> Result<(), Fault> {
        let started = Instant::now();
        let opened = exchange.open();
        self.parts.metrics.step(Step::Open, started.elapsed());
        opened
    }
}

/// Where the answer to a request is found: everything that decides it is in the partition or the key.
pub(crate) fn place(
    (tenant, namespace): (TenantId, &str),
    (targets, policy_generation): ([u8; 32], u64),
    request: &Request,
    shape: [u8; 32],
) -> (Partition, CacheKey) {
    let operation = request.api().name();
    let partition =
        Partition::derive(&PartitionParts { tenant, namespace, operation, targets, policy_generation, shape });
    (partition, CacheKey::derive(&partition, request.last_text().as_bytes()))
}

/// What a participant can begin its answer with.
pub(crate) enum Arrival {
    /// A stream's head.
    Head(Arc<StreamHead>),
    /// The end of the call.
    Landed(Arc<Landed>),
}

/// Whoever asked for an answer in vain tells whom.
pub(crate) fn too_late(exchange: &mut Exchange, plan: &Plan, asks: Option<&Call>, started: Instant) -> Fault {
    let attempts = asks.map(|call| call.ask.trail.attempts()).unwrap_or_default();
    let provider = attempts.last().map_or(&plan.route.targets[0].provider, |attempt| &attempt.provider).clone();
    if !attempts.is_empty() {
        exchange.asked_of(&provider, &attempts, None);
    }
    exchange.timing.upstream = started.elapsed();
    let error = UpstreamError::DeadlineExceeded { waited: started.elapsed() };
    Fault::Upstream { provider, error: Arc::new(error) }
}

/// What prefers one of equal targets: the beginning of the prompt, which the provider's own cache may know; or all of it.
pub(crate) fn affinity(tenant: TenantId, request: &Request, key: &CacheKey) -> Affinity {
    match request.prefix() {
        Some(prefix) => Affinity::of(&[tenant.as_bytes(), request.model().as_bytes(), &prefix]),
        None => Affinity::of(&[key.as_bytes()]),
    }
}

impl From<Refusal> for Fault {
    fn from(bad: Refusal) -> Self {
        Self::Invalid { message: bad.message, param: bad.param, code: bad.code }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    /// Stores outlive releases: another key for the same request would be a cold cache.
    #[test]
    fn the_keys_of_requests_are_those_of_every_release_before() {
        let chat =
            r#"{"model":"m","temperature":0.5,"messages":[{"role":"user","content":"What is a weir?"}],"user":"u"}"#;
        let embeddings = r#"{"model":"e","input":["a","b"]}"#;
        let cases = [
            (Api::Chat, chat, "ai21Fq30piZMoy7Z+/BYskX07TZf4NEEa2xChMqs980="),
            (Api::Embeddings, embeddings, "5egcJSaM2kmYAFvM8TN6eup2a45qjWgGYbja2+hehQc="),
        ];
        for (api, body, expected) in cases {
            let request = Request::parse(api, &Bytes::from_static(body.as_bytes())).expect("a good request");
            let shape = bound(*request.shape(), &http::HeaderMap::new(), None, &|_| true);
            let (_, key) = place((TenantId::from_bytes([7; 16]), "ns"), ([9; 32], 1), &request, shape);
            assert_eq!(STANDARD.encode(key.as_bytes()), expected, "{}", api.name());
        }
    }
}
