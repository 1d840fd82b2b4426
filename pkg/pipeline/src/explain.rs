//! What would be done with a request, without doing it; and how the targets stand.
//!
//! The plan is the one that a request would get at this moment, made by the same function over the same board. Nobody is
//! asked, nothing is counted, and a probe that is due stays due. Of headers and content only names and fingerprints are told.

use crate::control::{Controls, Fetch};
use crate::deadline::patience;
use crate::fault::Fault;
use crate::pipeline::{AuthMode, Pipeline, RouteRules, credential};
use crate::say::say;
use crate::serve::affinity;
use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Serialize;
use signet_cache::CacheKey;
use signet_dialect::{Api, Refusal, Request};
use signet_provider::{Affinity, Auth, Credential, Route, Standing, Step, Target, View, Why, filter_request_headers};
use signet_types::{ModelName, TenantId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A request to be explained.
#[derive(Debug)]
pub struct ExplainAsk {
    /// The API that it speaks.
    pub api: Api,
    /// The model, where there is no body.
    pub model: Option<String>,
    /// Its body.
    pub body: Option<Bytes>,
    /// Its headers, as far as they matter here.
    pub headers: HeaderMap,
    /// The query of its URL.
    pub query: Option<String>,
    /// Whose it is; none for the one tenant of a gateway with keys of its own.
    pub tenant: Option<TenantId>,
}

/// What would be done.
#[derive(Debug, Serialize)]
pub struct Explained {
    model: String,
    attempts_max: u32,
    retry_wait_max_ms: u64,
    /// What the order among equal targets comes from: `prefix`, `request`, or `none` where any of them may be the first.
    affinity: &'static str,
    /// How long the caller waits for the first byte, if it says so.
    deadline_ms: Option<u64>,
    /// Fingerprint of the key under which the caches are asked, as the request's record would have it (`cache.key_fp`). None
    /// without a body, and for a tenant of whom this process has seen no request.
    key_fp: Option<String>,
    /// The refusal (400) that the caller would get, since the preferred target's API cannot say the request.
    refusal: Option<Unsayable>,
    /// In the order in which they would be asked. Each but the first only if those before it fail in a way that allows it.
    targets: Vec<PlannedTarget>,
}

/// Why a request cannot be said in another API, in the words of the refusal.
#[derive(Debug, Serialize)]
struct Unsayable {
    message: String,
    param: Option<String>,
    code: Option<&'static str>,
}

impl From<Refusal> for Unsayable {
    fn from(Refusal { message, param, code }: Refusal) -> Self {
        Self { message, param, code }
    }
}

#[derive(Debug, Serialize)]
struct PlannedTarget {
    /// `ready`, `probe` (its breaker lets one call through), `busy` (more than its share is under way), or, where it is asked
    /// only when nobody else is left: `outlier`, `limited` (it has asked for a pause), `open` (its breaker is).
    why: &'static str,
    /// How long that stays so, if it is known.
    for_ms: Option<u64>,
    tier: usize,
    weight: u32,
    /// The API in which it would be asked.
    api: &'static str,
    /// Why it would be left out: the request cannot be said in that API.
    refusal: Option<Unsayable>,
    /// Whether its answer may be stored.
    stored: bool,
    headers: Crossing,
    #[serde(flatten)]
    state: TargetState,
}

/// What becomes of the caller's headers, by name. What the gateway sends of its own accord is in neither list.
#[derive(Debug, Serialize)]
struct Crossing {
    forwarded: Vec<String>,
    dropped: Vec<String>,
}

/// How a target stands.
#[derive(Debug, Serialize)]
pub struct TargetState {
    /// The provider.
    pub provider: String,
    /// The model's name there; `*` where callers may name any.
    pub model: String,
    /// Its breaker: `closed`, `open`, `half_open`.
    pub circuit: &'static str,
    /// Calls under way, streams until their end.
    pub in_flight: u32,
    /// Calls that ended in the last ten seconds.
    pub calls: u32,
    /// Those of them that failed.
    pub failures: u32,
    /// Median of the time to first byte in the last half minute.
    pub ttft_p50_ms: Option<f64>,
    /// How long it wants no calls.
    pub limited_ms: Option<u64>,
    /// Attempts behind which another was made, by what was wrong with them, since the start.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub retries: BTreeMap<&'static str, u64>,
}

impl TargetState {
    fn of(provider: &str, model: &str, view: &View, now: Instant) -> Self {
        Self {
            provider: provider.to_owned(),
            model: model.to_owned(),
            circuit: view.circuit.as_str(),
            in_flight: view.in_flight,
            calls: view.tally.calls,
            failures: view.tally.failures,
            ttft_p50_ms: view.ttft.map(|middle| middle.p50.as_secs_f64() * 1e3),
            limited_ms: view.not_before.map(|until| millis(until - now)),
            retries: BTreeMap::new(),
        }
    }
}

impl Pipeline {
    /// Says what would be done with a request.
    ///
    /// # Errors
    /// It would be refused whoever were asked.
    pub fn explain(&self, asked: &ExplainAsk) -> Result<Explained, Fault> {
        let request = asked.body.as_ref().map(|body| Request::parse(asked.api, body)).transpose()?.map(Arc::new);
        let model = request.as_deref().map(Request::model).or(asked.model.as_deref());
        let model = model.ok_or_else(|| Fault::invalid("a model or a body is needed".to_owned(), Some("model")))?;
        let unknown = || Fault::UnknownModel { model: model.to_owned() };
        let name: ModelName = model.parse().map_err(|_| unknown())?;
        let route = self.parts.fleet.resolve(&name).map_err(|_| unknown())?;
        let rules = self.parts.settings.rules.get(&name).copied().unwrap_or_default();
        let controls = Controls::read(&asked.headers)?;
        let patience = patience(&asked.headers)?;
        let said = request.as_ref().map(|request| self.said_to(request, &route, rules)).transpose();
        let (said, refusal) = said.map_or_else(|refusal| (None, Some(refusal)), |said| (said, None));
        let tenant = asked.tenant.unwrap_or_else(|| self.usual_tenant());
        let key = said.as_ref().map(|said| {
            let whose = (tenant, controls.namespace.as_str());
            self.placed_by((&asked.headers, asked.query.as_deref()), whose, &route, said).1
        });
        let (basis, affinity) = match said.as_ref().zip(key.as_ref()).filter(|_| route.has_choice()) {
            Some((said, key)) => {
                (if said.prefix().is_some() { "prefix" } else { "request" }, affinity(tenant, said, key))
            }
            None => ("none", Affinity::of(&[])),
        };
        let now = Instant::now();
        let plan = self.parts.fleet.plan(&route, (asked.api, &self.usual_auth()), Some(affinity), now);
        let (attempts_max, retry_wait_max) = route.limits();
        let keeps = controls.fetch != Fetch::Bypass && request.as_ref().is_none_or(|asked| asked.stateless().is_ok());
        let course = Course { asked, request: request.as_deref(), route: &route, rules, keeps, now };
        Ok(Explained {
            model: model.to_owned(),
            attempts_max,
            retry_wait_max_ms: millis(retry_wait_max),
            affinity: basis,
            deadline_ms: patience.map(millis),
            key_fp: key.and_then(|key| self.key_fp(tenant, &key)),
            refusal: refusal.map(Unsayable::from),
            targets: plan.steps.iter().map(|step| self.planned(&course, step)).collect(),
        })
    }

    /// A key as records name it. Makes no keys for a tenant that has none.
    fn key_fp(&self, tenant: TenantId, key: &CacheKey) -> Option<String> {
        let fingerprint = self.parts.keys.held(tenant)?.proof.fingerprint("key", key.as_bytes());
        Some(format!("{:032x}", u128::from_be_bytes(fingerprint)))
    }

    fn planned(&self, course: &Course<'_>, step: &Step) -> PlannedTarget {
        let (target, fleet) = (&course.route.targets[step.target], &self.parts.fleet);
        let spoken = |target| fleet.spoken(target, course.asked.api).unwrap_or(course.asked.api);
        let api = spoken(target);
        let unsaid = |request: &Request| say(request, api, course.rules).err();
        let refusal = course.request.filter(|request| request.api() != api).and_then(unsaid);
        let until = match step.why {
            Why::Limited { until } => Some(until),
            Why::Open { until } => until,
            Why::Ready | Why::Probe | Why::Busy | Why::Outlier => None,
        };
        PlannedTarget {
            why: step.why.as_str(),
            for_ms: until.map(|until| millis(until.saturating_duration_since(course.now))),
            tier: target.tier,
            weight: target.weight,
            api: api.name(),
            refusal: refusal.map(Unsayable::from),
            stored: course.keeps && target.tier == 0 && api == spoken(&course.route.targets[0]),
            headers: self.crossing(course.asked, target),
            state: TargetState::of(
                target.provider.as_str(),
                target.model.as_str(),
                &target.view(course.now),
                course.now,
            ),
        }
    }

    fn crossing(&self, asked: &ExplainAsk, target: &Target) -> Crossing {
        let open = filter_request_headers(&asked.headers);
        // A caller's own credential goes to the provider that it is meant for, in that one's form.
        let passthrough = self.parts.settings.auth == AuthMode::Passthrough;
        let own = credential(asked.api, &asked.headers).filter(|_| passthrough).map(|own| own.name);
        let passes = |name: &HeaderName| {
            own.as_ref() == Some(name)
                || (open.as_map().contains_key(name) && self.parts.fleet.forwards_to(target, name.as_str()))
        };
        let (forwarded, dropped): (Vec<_>, Vec<_>) = asked.headers.keys().partition(|name| passes(name));
        let names = |names: Vec<&HeaderName>| names.into_iter().map(|name| name.as_str().to_owned()).collect();
        Crossing { forwarded: names(forwarded), dropped: names(dropped) }
    }

    /// How all targets stand.
    pub fn targets(&self) -> Vec<TargetState> {
        let now = Instant::now();
        let shown = |standing: Standing| {
            let model = standing.model.as_ref().map_or("*", ModelName::as_str);
            let state = TargetState::of(standing.provider.as_str(), model, &standing.view, now);
            TargetState { retries: standing.retries, ..state }
        };
        self.parts.fleet.board().standings(now).into_iter().map(shown).collect()
    }

    /// Whose credentials requests carry here.
    fn usual_auth(&self) -> Auth {
        match self.parts.settings.auth {
            AuthMode::Local | AuthMode::Open => Auth::Provider,
            AuthMode::Passthrough => {
                Auth::Caller(Credential { name: AUTHORIZATION, value: HeaderValue::from_static("") })
            }
        }
    }
}

/// What all targets of an explanation have in common.
struct Course<'a> {
    asked: &'a ExplainAsk,
    request: Option<&'a Request>,
    route: &'a Route,
    rules: RouteRules,
    /// Whether the caller lets the answer be stored.
    keeps: bool,
    now: Instant,
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
