//! Which provider answers for a model, and what is tried next if it cannot.

use crate::board::{Board, Member, Permit, View};
use crate::call::{Auth, Call, Provider, Reply};
use crate::error::UpstreamError;
use crate::headers::RequestHeaders;
use crate::plan::{Affinity, Plan, Step, Why, plan};
use crate::route::{FleetError, ModelRoute, Route, Routes, Target, UnknownModel, free};
use crate::verdict::{Answer, Room, Verdict, is_busy, verdict};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::join_all;
use http::uri::PathAndQuery;
use http::{Method, StatusCode};
use parking_lot::Mutex;
use signet_dialect::Api;
use signet_types::{ModelName, ProviderName};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// Most of a refusal's body that is read to keep its connection.
const DRAIN_MAX: usize = 16 << 10;

/// What is asked, whoever will answer.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The method.
    pub method: Method,
    /// See [`Call::api`].
    pub api: Api,
    /// See [`Call::query`].
    pub query: Option<PathAndQuery>,
    /// The caller's end-to-end headers.
    pub headers: RequestHeaders,
    /// Whose credentials. A caller's own go to the first provider only and never to another.
    pub authorization: Auth,
    /// The head must be there by then; all attempts and pauses together are given up otherwise. The body may take longer.
    pub deadline: Option<Instant>,
    /// Until when the caller waits as far as is known, where the call itself is not to end then because others wait for it
    /// too. A provider's `Retry-After` is waited for only if the pause ends before this or `deadline`.
    pub patience: Option<Instant>,
    /// What prefers a member of a tier; without one each request prefers another.
    pub affinity: Option<Affinity>,
    /// Where attempts are noted as they are made, for whoever gives up before the end.
    pub trail: Arc<Trail>,
}

/// The attempts of a call so far, that under way included. Of a call that was sent twice it tells the later one's.
#[derive(Debug, Default)]
pub struct Trail(Mutex<Noted>);

#[derive(Debug, Default)]
struct Noted {
    attempts: Attempts,
    /// What the provider under way has spent on a first sending that came to nothing.
    spent: Duration,
}

impl Trail {
    /// The attempts so far.
    pub fn attempts(&self) -> Attempts {
        self.0.lock().attempts.clone()
    }

    pub(crate) fn begin(
        &self,
        (provider, model): (&ProviderName, &ModelName),
        waited: Duration,
        passed_over: Vec<PassedOver>,
    ) {
        let (provider, model) = (provider.clone(), model.clone());
        let (outcome, elapsed) = (Err(ABANDONED), Duration::ZERO);
        let attempt = Attempt { provider, model, outcome, elapsed, waited, passed_over };
        let mut noted = self.0.lock();
        noted.attempts.push(attempt);
        noted.spent = Duration::ZERO;
    }

    /// The provider under way sends once more, on another connection: `failed` became of the first, `elapsed` after the start.
    pub(crate) fn again(&self, failed: &'static str, elapsed: Duration) {
        let mut noted = self.0.lock();
        let Some(last) = noted.attempts.last_mut() else { return };
        let fresh = Attempt { waited: Duration::ZERO, passed_over: Vec::new(), ..last.clone() };
        (last.outcome, last.elapsed) = (Err(failed), elapsed);
        noted.attempts.push(fresh);
        noted.spent = elapsed;
    }

    fn end(&self, outcome: Result<StatusCode, &'static str>, elapsed: Duration) {
        let mut noted = self.0.lock();
        let elapsed = elapsed.saturating_sub(noted.spent);
        if let Some(last) = noted.attempts.last_mut() {
            (last.outcome, last.elapsed) = (outcome, elapsed);
        }
    }

    fn clear(&self) {
        self.0.lock().attempts.clear();
    }

    fn len(&self) -> usize {
        self.0.lock().attempts.len()
    }
}

/// The outcome of an attempt that nobody waited for to its end.
const ABANDONED: &str = "abandoned";

/// One attempt, for the record and for `x-signet-attempts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The provider asked.
    pub provider: ProviderName,
    /// The model's name there.
    pub model: ModelName,
    /// Its status, or the [`UpstreamError::class`] of the failure.
    pub outcome: Result<StatusCode, &'static str>,
    /// Until the head, or the failure.
    pub elapsed: Duration,
    /// The pause before it, because the provider wanted one.
    pub waited: Duration,
    /// What kept targets that are preferred to this one from being asked before it; each is told once.
    pub passed_over: Vec<PassedOver>,
}

/// A target that was not asked, although it is in a better tier than the one that was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassedOver {
    /// Its provider.
    pub provider: ProviderName,
    /// The model's name there.
    pub model: ModelName,
    /// `circuit_open`, `limited` (it has asked for a pause), `outlier`.
    pub why: &'static str,
}

/// All attempts of one request, in order.
pub type Attempts = Vec<Attempt>;

/// A request that was answered.
#[derive(Debug)]
pub struct Sent {
    /// The answer; its status may be an error.
    pub reply: Reply,
    /// The attempts up to it.
    pub attempts: Attempts,
    /// Which of the route's targets answered.
    pub target: usize,
    /// Its tier; only what tier 0 answers may be stored.
    pub tier: usize,
    /// The API in which it was asked and has answered.
    pub api: Api,
}

/// A request that nobody answered.
#[derive(Debug, thiserror::Error)]
#[error("no provider answered")]
pub struct Refused {
    /// The last failure.
    #[source]
    pub error: UpstreamError,
    /// All attempts.
    pub attempts: Attempts,
}

/// All providers.
#[derive(Debug)]
pub struct Fleet {
    providers: Vec<Arc<dyn Provider>>,
    routes: HashMap<ModelName, Route>,
    board: Arc<Board>,
    /// The state of the first provider where callers may name any model of it.
    any: Option<Arc<Member>>,
}

impl Fleet {
    /// Joins providers and models. Without models every name goes to the first provider unchanged.
    ///
    /// Connections belong to a fleet; what is known of the targets is on the `board` that all fleets of a process share.
    ///
    /// # Errors
    /// [`FleetError`].
    pub fn new(
        providers: Vec<Arc<dyn Provider>>,
        models: Vec<ModelRoute>,
        board: Arc<Board>,
    ) -> Result<Self, FleetError> {
        if providers.is_empty() {
            return Err(FleetError::NoProvider);
        }
        let mut index = HashMap::new();
        for (at, provider) in providers.iter().enumerate() {
            if index.insert(provider.name().clone(), at).is_some() {
                return Err(FleetError::DuplicateProvider(provider.name().clone()));
            }
        }
        let mut routes = HashMap::with_capacity(models.len());
        let making = Routes { providers: &providers, index: &index, board: &board };
        for model in models {
            let route = making.route(&model)?;
            for name in std::iter::once(model.name).chain(model.aliases) {
                if routes.insert(name.clone(), route.clone()).is_some() {
                    return Err(FleetError::DuplicateModel(name));
                }
            }
        }
        let any = routes.is_empty().then(|| board.member(providers[0].name(), None));
        Ok(Self { providers, routes, board, any })
    }

    /// Where requests for `model` go.
    ///
    /// # Errors
    /// Models are configured and this is none of them.
    pub fn resolve(&self, model: &ModelName) -> Result<Route, UnknownModel> {
        if let Some(any) = &self.any {
            return Ok(free(self.providers[0].as_ref(), any.clone(), model, &self.providers));
        }
        self.routes.get(model).cloned().ok_or_else(|| UnknownModel(model.clone()))
    }

    /// What is known of all targets.
    pub fn board(&self) -> &Arc<Board> {
        &self.board
    }

    /// The order in which the route's targets would be asked at `now`: those that have this API and may see these
    /// credentials. Asks nobody and, given an affinity, changes nothing.
    pub fn plan(
        &self,
        route: &Route,
        (api, authorization): (Api, &Auth),
        affinity: Option<Affinity>,
        now: Instant,
    ) -> Plan {
        let views: Vec<View> = route.targets.iter().map(|target| target.view(now)).collect();
        let affinity = affinity.unwrap_or_else(|| Affinity(self.board.turn()));
        let mut plan = plan(&route.targets, &views, affinity);
        plan.steps.retain(|step| self.may_ask(api, authorization, &route.targets[step.target]));
        plan
    }

    /// Asks the route's targets in the order of their plan until one answers, by the rules of [`verdict`].
    ///
    /// `words` makes the bytes for a target, once an attempt; a target to which the request cannot be said is left out.
    ///
    /// # Errors
    /// The last failure, with all attempts.
    pub async fn send(&self, route: &Route, ask: &Ask, words: &dyn Words) -> Result<Sent, Refused> {
        let mut steps = self.steps(route, ask);
        let (mut waited, mut pause, mut told) = (false, Duration::ZERO, Vec::new());
        ask.trail.clear();
        while let Some(step) = steps.pop_front() {
            let target = &route.targets[step.target];
            let Some(api) = self.spoken(target, ask.api).filter(|api| words.can_say(*api)) else { continue };
            let insisting = steps.is_empty() || step.why.is_out();
            let Some(mut permit) = target.member.begin(insisting, Instant::now()) else {
                steps.push_back(Step { why: Why::Open { until: None }, ..step }); // since it was planned
                continue;
            };
            let over = passed_over(route, target, &steps, &mut told);
            ask.trail.begin((&target.provider, &target.model), std::mem::take(&mut pause), over);
            let started = Instant::now();
            let (result, late) = self.attempt(target, ask, (api, words.to(target, api))).await;
            ask.trail.end(result.as_ref().map(|reply| reply.status).map_err(UpstreamError::class), started.elapsed());
            let answer = result.as_ref().map(|reply| Answer::read(reply.status, &reply.headers, self.board.now_ms()));
            learn(target, &mut permit, &result, &answer, late);
            if !matches!(&answer, Ok(answer) if !is_busy(answer.status)) {
                let sayable = |step: &Step| {
                    let api = self.spoken(&route.targets[step.target], ask.api);
                    api.is_some_and(|api| words.can_say(api))
                };
                steps.retain(sayable);
            }
            let verdict = verdict(answer, room(route, ask, &steps, waited));
            if verdict == Verdict::Stop {
                let attempts = ask.trail.attempts();
                return match result {
                    Ok(reply) => {
                        let (target, tier) = (step.target, target.tier);
                        Ok(Sent { reply: reply.watched(permit), attempts, target, tier, api })
                    }
                    Err(error) => Err(Refused { error, attempts }),
                };
            }
            drop(permit);
            target.member.retried(reason(&result));
            if let Ok(reply) = result {
                // What is there already is read, so that the connection can be used again; nobody waits for the rest.
                drop(reply.body.collect(DRAIN_MAX).now_or_never());
            }
            if let Verdict::Wait(wanted) = verdict {
                sleep(wanted).await;
                (waited, pause) = (true, wanted);
                steps.push_front(step);
            }
        }
        let error = if route.targets.iter().any(|target| self.spoken(target, ask.api).is_some()) {
            UpstreamError::NoCredentials
        } else {
            UpstreamError::NotSpoken { api: ask.api }
        };
        Err(Refused { error, attempts: Attempts::new() })
    }

    /// One call, given up at the caller's deadline; says whether it was that.
    async fn attempt(&self, target: &Target, ask: &Ask, said: (Api, Bytes)) -> (Result<Reply, UpstreamError>, bool) {
        let sending = self.providers[target.index].send(ask.call(Some(&target.model), target.tier > 0, said));
        let Some(deadline) = ask.deadline else { return (sending.await, false) };
        let started = Instant::now();
        match timeout_at(deadline, sending).await {
            Ok(result) => (result, false),
            Err(_) => (Err(UpstreamError::DeadlineExceeded { waited: started.elapsed() }), true),
        }
    }

    /// The targets that may be asked, in order.
    fn steps(&self, route: &Route, ask: &Ask) -> VecDeque<Step> {
        if let [target] = &*route.targets {
            let step = self.may_ask(ask.api, &ask.authorization, target).then_some(Step { target: 0, why: Why::Ready });
            return step.into_iter().collect();
        }
        let plan = self.plan(route, (ask.api, &ask.authorization), ask.affinity, Instant::now());
        if matches!(ask.authorization, Auth::Provider) {
            tell_outliers(route, &plan);
        }
        plan.steps.into()
    }

    /// Whether a target has this API and may see these credentials. A caller's own are meant for the first provider, whichever
    /// model there; no other origin may see them, and a key of ours must not be spent on a caller whom nobody has
    /// authenticated.
    fn may_ask(&self, api: Api, authorization: &Auth, target: &Target) -> bool {
        let meant = match authorization {
            Auth::Provider => true,
            Auth::Caller(_) => target.index == 0,
        };
        meant && self.spoken(target, api).is_some()
    }

    /// Whether a caller's `header` (lower case) reaches one of the route's targets. Those whose answers are not stored count
    /// too: callers who wait for the same one share it.
    pub fn forwards(&self, route: &Route, header: &str) -> bool {
        route.targets.iter().any(|target| self.forwards_to(target, header))
    }

    /// Whether a caller's `header` (lower case) reaches this target.
    pub fn forwards_to(&self, target: &Target, header: &str) -> bool {
        self.providers[target.index].forwards(header, target.tier > 0)
    }

    /// The API in which a target is asked what was asked in `api`: the same if its provider has it, else the first of its
    /// [stand-ins](Api::stand_ins) that it has.
    pub fn spoken(&self, target: &Target, api: Api) -> Option<Api> {
        let provider = &self.providers[target.index];
        let stand_in = || api.stand_ins().iter().copied().find(|api| provider.speaks(*api));
        if provider.speaks(api) { Some(api) } else { stand_in() }
    }

    /// Asks all providers for their models at once. Each answer is given as it came, at most `max_bytes` long; a dead
    /// provider is an error beside the others' answers. With a caller's credentials only the first provider is asked. Those
    /// that have no such list are not asked.
    pub async fn models(
        &self,
        ask: &Ask,
        max_bytes: usize,
    ) -> Vec<(ProviderName, Result<(StatusCode, Bytes), UpstreamError>)> {
        let asked = match ask.authorization {
            Auth::Provider => self.providers.len(),
            Auth::Caller { .. } => 1,
        };
        let asked = self.providers[..asked].iter().filter(|provider| provider.speaks(ask.api));
        let answers = asked.map(|provider| async move {
            let answer = match provider.send(ask.call(None, false, (ask.api, Bytes::new()))).await {
                Ok(reply) => reply.body.collect(max_bytes).await.map(|body| (reply.status, body)),
                Err(error) => Err(error),
            };
            (provider.name().clone(), answer)
        });
        join_all(answers).await
    }
}

/// What a request says, to whichever target.
pub trait Words: Send + Sync {
    /// The body for a target in the API that it is asked in, since the model may have another name there. Called once an
    /// attempt, where [`Self::can_say`] holds.
    fn to(&self, target: &Target, api: Api) -> Bytes;

    /// Whether it can be said in `api`.
    fn can_say(&self, _api: Api) -> bool {
        true
    }
}

impl<F: Fn(&Target, Api) -> Bytes + Send + Sync> Words for F {
    fn to(&self, target: &Target, api: Api) -> Bytes {
        self(target, api)
    }
}

impl Ask {
    fn call(&self, model: Option<&ModelName>, fallback: bool, (api, body): (Api, Bytes)) -> Call {
        Call {
            api,
            model: model.cloned(),
            method: self.method.clone(),
            query: self.query.clone().filter(|_| api == self.api),
            fallback,
            headers: self.headers.clone(),
            body,
            authorization: self.authorization.clone(),
            deadline: None,
            trail: (!matches!(self.api, Api::Models)).then(|| Arc::clone(&self.trail)),
        }
    }
}

/// Writes down what an attempt says of its target. A caller's own deadline says nothing.
fn learn(
    target: &Target,
    permit: &mut Permit,
    result: &Result<Reply, UpstreamError>,
    answer: &Result<Answer, &UpstreamError>,
    late: bool,
) {
    match (result, answer) {
        (Ok(reply), Ok(answer)) => {
            permit.answered(reply.status, reply.timings.ttfb);
            // A 429 always means a pause, another refusal if it says so.
            let limited = reply.status == StatusCode::TOO_MANY_REQUESTS || answer.retry_after.is_some();
            if is_busy(reply.status) && limited {
                target.member.limited(answer.retry_after, Instant::now());
            }
        }
        (Err(error), _) if !late => permit.failed(error),
        _ => {}
    }
}

fn room(route: &Route, ask: &Ask, steps: &VecDeque<Step>, waited: bool) -> Room {
    let until = ask.deadline.into_iter().chain(ask.patience).min();
    let pause = until.map(|until| until.saturating_duration_since(Instant::now()).min(route.retry_wait_max));
    Room {
        attempt: ask.trail.len() < route.attempts_max as usize,
        other: !steps.is_empty(),
        working: steps.iter().any(|step| !matches!(step.why, Why::Open { .. })),
        pause: pause.map(|pause| if waited { Duration::ZERO } else { pause }),
    }
}

/// What is put off though it is in a better tier than `target`, and is not `told` yet.
fn passed_over(route: &Route, target: &Target, steps: &VecDeque<Step>, told: &mut Vec<usize>) -> Vec<PassedOver> {
    let is_better = |step: &&Step| step.why.is_out() && route.targets[step.target].tier < target.tier;
    let news: Vec<&Step> = steps.iter().filter(is_better).filter(|step| !told.contains(&step.target)).collect();
    told.extend(news.iter().map(|step| step.target));
    let of = |step: &&Step| {
        let Target { provider, model, .. } = &route.targets[step.target];
        let why = if matches!(step.why, Why::Open { .. }) { "circuit_open" } else { step.why.as_str() };
        PassedOver { provider: provider.clone(), model: model.clone(), why }
    };
    news.iter().map(of).collect()
}

/// Why another attempt was made behind this one.
fn reason(result: &Result<Reply, UpstreamError>) -> &'static str {
    match result {
        Err(error) => error.class(),
        Ok(reply) => match reply.status.as_u16() {
            429 => "status_429",
            503 => "status_503",
            _ => "status_529",
        },
    }
}

/// Logs which members of a tier have become outliers or are none any more.
fn tell_outliers(route: &Route, plan: &Plan) {
    for tier in route.tiers.iter().filter(|tier| tier.range.len() > 1) {
        let is_outlier = |step: &&Step| tier.range.contains(&step.target) && step.why == Why::Outlier;
        let bit = |step: &Step| 1u64 << ((step.target - tier.range.start) % 64);
        let now = plan.steps.iter().filter(is_outlier).fold(0, |bits, step| bits | bit(step));
        if tier.outliers.load(Ordering::Relaxed) == now {
            continue;
        }
        let changed = tier.outliers.swap(now, Ordering::Relaxed) ^ now;
        for (at, target) in
            route.targets[tier.range.clone()].iter().enumerate().filter(|(at, _)| changed >> (at % 64) & 1 == 1)
        {
            let (provider, model) = (&target.provider, &target.model);
            if now >> (at % 64) & 1 == 1 {
                tracing::warn!(%provider, %model, "a target is much worse than its equals and gets no calls for now");
            } else {
                tracing::info!(%provider, %model, "a target is no longer worse than its equals");
            }
        }
    }
}

#[cfg(test)]
#[path = "fleet_tests.rs"]
mod tests;
