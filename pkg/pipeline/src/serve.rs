//! The life of one request, top to bottom, whichever API it speaks.

use crate::capture::{Capture, Kept};
use crate::control::{Controls, Fetch};
use crate::deadline::deadline;
use crate::exchange::{Exchange, operations};
use crate::fault::Fault;
use crate::fill::Filling;
use crate::head::{BodyFault, Head};
use crate::landing::{self, Bodies, Call, Landed};
use crate::live::{Course, Live};
use crate::neutral::bound;
use crate::pipeline::{Pipeline, RouteRules};
use crate::replay::Basis;
use crate::reply::{self, Reply, ReplyBody, names};
use bytes::Bytes;
use http::Method;
use http::uri::PathAndQuery;
use signet_cache::{CacheKey, Lookup, Miss, Mode, Origin, Partition, PartitionParts, Prepared, Question};
use signet_dialect::{Api, Fold, Form, Refusal, Request};
use signet_provider::{Affinity, Ask, Auth, Route, Sent, Target, UpstreamError, filter_request_headers};
use signet_telemetry::Step;
use signet_types::{ModelName, TenantId};
use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

/// Longest event that is passed on.
const EVENT_MAX: usize = 16 << 20;

/// A request that is understood: where it may go and where its answer may come from.
pub(crate) struct Plan {
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
        let miss = match self.lookup(exchange, &plan).await {
            Lookup::Exact(entry) => return self.replay(exchange, head, &entry, Basis::Exact, &plan),
            Lookup::Semantic(entry, decision) => {
                return self.replay(exchange, head, &entry, Basis::Semantic(&decision), &plan);
            }
            Lookup::Miss(miss) => miss,
        };
        if plan.controls.only_if_cached {
            return Err(Fault::NotCached);
        }
        let filling = self.filling(exchange, &plan, miss);
        let call = self.call(head, (auth, exchange.keys().tenant), &plan)?;
        let preferred = &plan.route.targets[0];
        exchange.routed = Some(preferred.model.as_str().to_owned());
        exchange.forwarded_body(&body, &call.bodies.of(preferred));
        if exchange.stream {
            Box::pin(self.stream(exchange, head, &plan, call, filling)).await
        } else {
            Box::pin(self.whole(exchange, head, &plan, call, filling)).await
        }
    }

    /// Model → targets, wishes → policy, everything that decides the answer → partition and key.
    fn plan(&self, exchange: &mut Exchange, head: &Head, request: Request) -> Result<Plan, Fault> {
        let started = Instant::now();
        let unknown = || Fault::UnknownModel { model: request.model().to_owned() };
        let name: ModelName = request.model().parse().map_err(|_| unknown())?;
        let route = self.parts.fleet.resolve(&name).map_err(|_| unknown())?;
        let controls = Controls::read(&head.headers)?;
        let deadline = deadline(head)?;
        let (partition, key) = place(
            (exchange.keys().tenant, &controls.namespace),
            (route.digest, self.parts.settings.policy_generation),
            &request,
            bound(*request.shape(), &head.headers, head.query.as_deref()),
        );
        self.parts.metrics.step(Step::Parse, started.elapsed());
        let rules = self.parts.settings.rules.get(&name).copied().unwrap_or_default();
        Ok(Plan { request: Arc::new(request), route, controls, rules, partition, key, deadline })
    }

    /// Keeps the request until it is sealed with its answer, on a route that wants that.
    fn keep(&self, exchange: &mut Exchange, rules: RouteRules, body: &Bytes) {
        if rules.capture {
            let kept = |by: &Arc<Capture>| Kept { by: by.clone(), request: body.clone() };
            exchange.kept = self.parts.capture.as_ref().map(kept);
        }
    }

    /// Where the answer would be kept; none where the caller wants nothing stored.
    fn filling(&self, exchange: &Exchange, plan: &Plan, miss: Miss) -> Option<Filling> {
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
            PathAndQuery::try_from(format!("/?{query}"))
                .map_err(|_| Fault::invalid("The query of the URL cannot be sent on.".to_owned(), None))
        });
        // Where others may wait for the same call, each leaves at its own time.
        let alone = plan.request.stream() || plan.controls.fetch != Fetch::IfNeeded;
        let ask = Ask {
            method: Method::POST,
            api: plan.request.api(),
            query: query.transpose()?,
            headers: filter_request_headers(&head.headers),
            authorization: auth,
            deadline: plan.deadline.filter(|_| alone),
            patience: plan.deadline,
            affinity: plan.route.has_choice().then(|| affinity(tenant, &plan.request, &plan.key)),
            trail: Arc::default(),
        };
        let (request, unasked) = (plan.request.clone(), self.parts.settings.usage_unasked.clone());
        let bodies = Bodies::new(move |target: &Target| {
            let ask_usage = request.stream() && (request.include_usage() || !unasked.contains(&target.provider));
            request.with(renamed(request.model(), target), ask_usage)
        });
        Ok(Call { route: plan.route.clone(), ask, bodies })
    }

    /// A whole answer from upstream, shared with identical requests that wait for the same one.
    async fn whole(
        self: &Arc<Self>,
        exchange: &mut Exchange,
        head: &Head,
        plan: &Plan,
        call: Call,
        filling: Option<Filling>,
    ) -> Result<Reply, Fault> {
        let started = Instant::now();
        let max = self.parts.settings.max_response_bytes;
        let fleet = || self.parts.fleet.clone();
        if plan.controls.fetch != Fetch::IfNeeded {
            self.open(exchange)?;
            self.parts.recorder.opened().await?;
            let landed = self.in_time(exchange, plan, &call, Box::pin(landing::depart(fleet(), &call, max))).await;
            let landed = match landed {
                Ok(landed) => landed,
                Err(fault) => return self.stale(exchange, head, plan).await.unwrap_or(Err(fault)),
            };
            self.parts.metrics.step(Step::Upstream, started.elapsed());
            return self.land(exchange, head, filling, None, (&landed, plan)).await;
        }
        let call = Arc::new(call);
        let mut again = true;
        loop {
            let depart = || {
                self.open(exchange)?;
                Ok(landing::depart_shared(self.parts.recorder.clone(), fleet(), call.clone(), max))
            };
            let seat = self.flights.join(plan.key, depart)?;
            let asks = seat.leads.then_some(&*call);
            let landed: Arc<Landed> = match self.in_time(exchange, plan, asks, seat.landed()).await {
                Ok(landed) => landed,
                Err(fault) => return self.stale(exchange, head, plan).await.unwrap_or(Err(fault)),
            };
            if !seat.leads && landed.is_large() {
                // Too large to share: whoever started the call has it, everyone else makes one of its own.
                self.open(exchange)?;
                self.parts.recorder.opened().await?;
                let own = self.in_time(exchange, plan, &*call, Box::pin(landing::depart(fleet(), &call, max))).await?;
                self.parts.metrics.step(Step::Upstream, started.elapsed());
                return self.land(exchange, head, filling, None, (&own, plan)).await;
            }
            // A follower of a failed call gets one try of its own, so that one bad call does not fail a whole herd.
            if !seat.leads && landed.failed() && std::mem::take(&mut again) {
                continue;
            }
            self.parts.metrics.step(Step::Upstream, started.elapsed());
            return self.land(exchange, head, filling, Some(&seat), (&landed, plan)).await;
        }
    }

    /// Waits for an answer as long as the caller does. Whoever asked for one in vain tells whom.
    async fn in_time<T>(
        &self,
        exchange: &mut Exchange,
        plan: &Plan,
        asks: impl Into<Option<&Call>>,
        landing: impl Future<Output = T>,
    ) -> Result<T, Fault> {
        let started = tokio::time::Instant::now();
        let limit = started + self.parts.settings.wait_max;
        let by = plan.deadline.map_or(limit, |deadline| deadline.min(limit));
        if let Ok(landed) = tokio::time::timeout_at(by, landing).await {
            return Ok(landed);
        }
        let attempts = asks.into().map(|call| call.ask.trail.attempts()).unwrap_or_default();
        let provider = attempts.last().map_or(&plan.route.targets[0].provider, |attempt| &attempt.provider).clone();
        if !attempts.is_empty() {
            exchange.asked_of(&provider, &attempts, None);
        }
        exchange.timing.upstream = started.elapsed();
        let error = UpstreamError::DeadlineExceeded { waited: started.elapsed() };
        Err(Fault::Upstream { provider, error: Arc::new(error) })
    }

    /// A stream from upstream.
    async fn stream(
        self: &Arc<Self>,
        exchange: &mut Exchange,
        head: &Head,
        plan: &Plan,
        call: Call,
        filling: Option<Filling>,
    ) -> Result<Reply, Fault> {
        let started = Instant::now();
        self.open(exchange)?;
        self.parts.recorder.opened().await?;
        let sent = self.parts.fleet.send(&call.route, &call.ask, &|target| call.bodies.of(target)).await;
        exchange.sent_on(plan.request.body(), call.bodies.last().as_ref());
        let sent = match sent {
            Ok(sent) => sent,
            Err(refused) => {
                let asked = refused.attempts.last().map(|attempt| attempt.provider.clone());
                let provider = asked.unwrap_or_else(|| call.route.targets[0].provider.clone());
                exchange.asked_of(&provider, &refused.attempts, None);
                exchange.timing.upstream = started.elapsed();
                let fault = Fault::Upstream { provider, error: Arc::new(refused.error) };
                return self.stale(exchange, head, plan).await.unwrap_or(Err(fault));
            }
        };
        self.parts.metrics.step(Step::Upstream, started.elapsed());
        let provider = call.route.targets[sent.target].provider.clone();
        exchange.timing.upstream = started.elapsed();
        exchange.ttfb = Some(sent.reply.timings.ttfb);
        let Some(fold) = stream_of(plan.request.form(), &sent) else {
            let mut landed = landing::collect(sent, provider, started, self.parts.settings.max_response_bytes).await;
            landed.sent_body = call.bodies.last();
            return self.land(exchange, head, None, None, (&landed, plan)).await;
        };
        exchange.asked_of(&provider, &sent.attempts, Some(&sent.reply.headers));
        let filling = filling.filter(|_| sent.tier == 0);
        let mut headers = sent.reply.headers;
        reply::common(&mut headers, exchange, head.request_id.as_str(), true);
        // Whether a stream is stored shows at its end only.
        reply::fixed(&mut headers, names::CACHE_STATUS, reply::forwarded(exchange.x_cache, false));
        if head.takes_trailers {
            reply::announce_trailers(&mut headers);
        }
        let course = Course {
            pipeline: self.clone(),
            provider,
            usage_wanted: plan.request.include_usage() || !self.asks_usage(&plan.route.targets[sent.target]),
            filling,
            takes_trailers: head.takes_trailers,
            in_band: plan.controls.in_band,
            api: plan.request.api(),
            started,
        };
        let live = Live::new(exchange.hand_over(), sent.reply.body, fold, course);
        Ok(Reply { status: 200, headers, body: ReplyBody::Live(Box::new(live)) })
    }

    /// Whether streams of a target are asked for usage, whatever the caller wants.
    fn asks_usage(&self, target: &Target) -> bool {
        !self.parts.settings.usage_unasked.contains(&target.provider)
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

/// The model's name at the target, where it differs from the one asked for.
fn renamed<'a>(asked: &str, target: &'a Target) -> Option<&'a str> {
    Some(target.model.as_str()).filter(|name| *name != asked)
}

/// The reader of an answer that comes as the stream that was asked for.
fn stream_of(form: Form, sent: &Sent) -> Option<Fold> {
    let streams = sent.reply.status.as_u16() == 200 && is_event_stream(&sent.reply.headers);
    streams.then(|| Fold::new(form, EVENT_MAX)).flatten()
}

fn is_event_stream(headers: &http::HeaderMap) -> bool {
    let value = headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = value.and_then(|value| value.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
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
            let shape = bound(*request.shape(), &http::HeaderMap::new(), None);
            let (_, key) = place((TenantId::from_bytes([7; 16]), "ns"), ([9; 32], 1), &request, shape);
            assert_eq!(STANDARD.encode(key.as_bytes()), expected, "{}", api.name());
        }
    }
}
