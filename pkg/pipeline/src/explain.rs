//! What would be done with a request, without doing it; and how the targets stand.
//!
//! The plan is the one that a request would get at this moment, made by the same function over the same board. Nobody is
//! asked, nothing is counted, and a probe that is due stays due.

use crate::deadline::patience;
use crate::fault::Fault;
use crate::pipeline::{AuthMode, Pipeline};
use crate::serve::{affinity, place};
use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use serde::Serialize;
use signet_dialect::{Api, Request};
use signet_provider::{Affinity, Auth, Credential, Route, Standing, Step, View, Why};
use signet_types::{ModelName, TenantId};
use std::collections::BTreeMap;
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
    /// In the order in which they would be asked. Each but the first only if those before it fail in a way that allows it.
    targets: Vec<PlannedTarget>,
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
    /// Whether its answer may be stored.
    stored: bool,
    #[serde(flatten)]
    state: TargetState,
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
    /// It would be refused before anybody is asked.
    pub fn explain(&self, asked: &ExplainAsk) -> Result<Explained, Fault> {
        let request = asked.body.as_ref().map(|body| Request::parse(asked.api, body)).transpose()?;
        let model = request.as_ref().map(Request::model).or(asked.model.as_deref());
        let model = model.ok_or_else(|| Fault::invalid("a model or a body is needed".to_owned(), Some("model")))?;
        let unknown = || Fault::UnknownModel { model: model.to_owned() };
        let name: ModelName = model.parse().map_err(|_| unknown())?;
        let route = self.parts.fleet.resolve(&name).map_err(|_| unknown())?;
        let patience = patience(&asked.headers)?;
        let (basis, affinity) = self.affinity_of(asked, request.as_ref(), &route);
        let now = Instant::now();
        let plan = self.parts.fleet.plan(&route, (asked.api, &self.usual_auth()), Some(affinity), now);
        let (attempts_max, retry_wait_max) = route.limits();
        Ok(Explained {
            model: model.to_owned(),
            attempts_max,
            retry_wait_max_ms: millis(retry_wait_max),
            affinity: basis,
            deadline_ms: patience.map(millis),
            targets: plan.steps.iter().map(|step| planned(&route, step, now)).collect(),
        })
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

    fn affinity_of(&self, asked: &ExplainAsk, request: Option<&Request>, route: &Route) -> (&'static str, Affinity) {
        let Some(request) = request.filter(|_| route.has_choice()) else { return ("none", Affinity::of(&[])) };
        let tenant = asked.tenant.unwrap_or_else(|| self.usual_tenant());
        let generation = self.parts.settings.policy_generation;
        let (_, key) = place((tenant, ""), (route.digest, generation), request, *request.shape());
        let basis = if request.prefix().is_some() { "prefix" } else { "request" };
        (basis, affinity(tenant, request, &key))
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

fn planned(route: &Route, step: &Step, now: Instant) -> PlannedTarget {
    let target = &route.targets[step.target];
    let until = match step.why {
        Why::Limited { until } => Some(until),
        Why::Open { until } => until,
        Why::Ready | Why::Probe | Why::Busy | Why::Outlier => None,
    };
    PlannedTarget {
        why: step.why.as_str(),
        for_ms: until.map(|until| millis(until.saturating_duration_since(now))),
        tier: target.tier,
        weight: target.weight,
        stored: target.tier == 0,
        state: TargetState::of(target.provider.as_str(), target.model.as_str(), &target.view(now), now),
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
