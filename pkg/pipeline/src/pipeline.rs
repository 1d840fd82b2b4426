//! The parts of a gateway and the steps that every endpoint shares.

use crate::capture::Capture;
use crate::exchange::{Ending, Exchange, Identity, Operation};
use crate::fault::{Fault, is_timeout};
use crate::flight::{Flights, Pace};
use crate::head::{BodyFault, Head};
use crate::landing::usage_facts;
use crate::persist::Outbox;
use crate::questions::QuestionDraw;
use crate::recorder::{Attested, Recorder};
use crate::reply::{self, Reply, ReplyBody};
use crate::sample::Sampler;
use crate::tree::TreeView;
use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use signet_cache::{Cache, Keyring, Mode, NoticeStore, TenantKeys, Trust};
use signet_dialect::{Api, Reading};
use signet_limits::{ClientIp, Decision, IpLimiter, Limiter};
use signet_lineage::{CaptureStore, Gateway, LimitFacts, Outcome, RecordStore};
use signet_provider::{Auth, Credential, Fleet};
use signet_telemetry::{Metrics, Step};
use signet_types::{Clock, ModelName, ProviderName, TenantId};
use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Who a caller is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthMode {
    /// The provider has a key of ours: every caller is the one tenant `local`.
    Local,
    /// The caller's own credential goes to the provider, and its keyed hash is the tenant.
    Passthrough,
    /// Everyone is the tenant `anonymous`.
    Open,
}

/// How a fault looks to a caller. Implemented at the HTTP edge, the only place that knows statuses.
pub trait Faces: Send + Sync + 'static {
    /// Status and body for a fault, in the words of an API.
    fn face(&self, fault: &Fault, api: Api, request_id: &str) -> Face;
}

/// A rendered fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Face {
    /// HTTP status.
    pub status: u16,
    /// JSON in the API's shape.
    pub body: Bytes,
    /// Whether a client library should try again, where that is known.
    pub should_retry: Option<bool>,
    /// Until trying again makes sense.
    pub retry_after: Option<Duration>,
}

/// What one route allows of the semantic cache, and what it keeps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RouteRules {
    /// Whether semantic hits are served.
    pub mode: Mode,
    /// A floor above the one for all.
    pub floor: Option<f32>,
    /// Whether bodies are kept, sealed.
    pub capture: bool,
    /// The limit of tokens for a provider that needs one, where the caller gave none.
    pub max_tokens_default: Option<u32>,
}

impl Default for RouteRules {
    fn default() -> Self {
        Self { mode: Mode::On, floor: None, capture: false, max_tokens_default: None }
    }
}

/// Limits and switches.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Who callers are.
    pub auth: AuthMode,
    /// Proxies whose forwarding headers are believed.
    pub trusted_proxies: Vec<ipnet::IpNet>,
    /// Largest provider answer that is buffered, in bytes.
    pub max_response_bytes: usize,
    /// Longest stream that is passed on, in bytes.
    pub max_stream_bytes: u64,
    /// After so long without an event a stream's caller is sent a sign of life; zero: never.
    pub heartbeat: Duration,
    /// How far participants of a stream may be apart.
    pub pace: Pace,
    /// How long a participant of a flight waits at most.
    pub wait_max: Duration,
    /// Providers whose streams are asked for usage only where the caller asks.
    pub usage_unasked: Arc<HashSet<ProviderName>>,
    /// Configured models; none where every name goes to the first provider.
    pub models: Vec<String>,
    /// What a configured model allows, where that is less than all are.
    pub rules: HashMap<ModelName, RouteRules>,
    /// Generation of the cache key rules.
    pub policy_generation: u64,
}

/// What a pipeline is made of.
#[derive(Clone)]
pub struct Parts {
    /// Settings.
    pub settings: Settings,
    /// The caches.
    pub cache: Arc<Cache>,
    /// Tenant keys.
    pub keys: Arc<Keyring>,
    /// Providers and routes.
    pub fleet: Arc<Fleet>,
    /// Records.
    pub recorder: Arc<Recorder>,
    /// Records that were shipped.
    pub records: Arc<dyn RecordStore>,
    /// The per-address limiter, unless off.
    pub limiter: Option<Arc<IpLimiter>>,
    /// Entries on their way out.
    pub outbox: Arc<Outbox>,
    /// Notices to the other replicas.
    pub notices: Arc<dyn NoticeStore>,
    /// What is published of the logs' trees; none where nothing is.
    pub tree: Option<Arc<TreeView>>,
    /// Draws semantic decisions to be checked; none where semantic answers are off.
    pub sampler: Option<Arc<Sampler>>,
    /// Draws questions to be kept; none unless the operator wants them.
    pub questions: Option<Arc<QuestionDraw>>,
    /// Sealed bodies that were kept.
    pub captures: Arc<dyn CaptureStore>,
    /// Keeps sealed bodies; none where no route does.
    pub capture: Option<Arc<Capture>>,
    /// Renders faults.
    pub faces: Arc<dyn Faces>,
    /// Clocks.
    pub clock: Arc<dyn Clock>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
}

/// The life of every request.
pub struct Pipeline {
    pub(crate) parts: Parts,
    pub(crate) flights: Arc<Flights>,
    pub(crate) nobody: Arc<TenantKeys>,
    /// The process under this configuration, as records say it.
    gateway: Arc<Gateway>,
    local: TenantId,
    anonymous: TenantId,
    forwarding_seen: Arc<Once>,
}

impl Pipeline {
    /// Puts the parts together. `nobody` holds the keys for records of callers that never became known.
    pub fn new(parts: Parts) -> Self {
        let nobody = Arc::new(parts.keys.for_nobody());
        let named = |name: &[u8]| parts.keys.tenant_of("name", name);
        let (local, anonymous) = (named(b"local"), named(b"anonymous"));
        let (forwarding_seen, gateway) = (Arc::new(Once::new()), parts.recorder.gateway());
        let flights = Arc::new(Flights::new(parts.settings.pace));
        Self { parts, flights, nobody, gateway, local, anonymous, forwarding_seen }
    }

    /// The same gateway with upstream connections of its own, for another thread: caches, single-flight, limits and log
    /// are shared.
    #[must_use]
    pub fn beside(&self, fleet: Arc<Fleet>) -> Self {
        self.rerouted(fleet, self.parts.settings.clone(), self.gateway.clone())
    }

    /// The same gateway by another configuration. What this one has begun it ends.
    #[must_use]
    pub fn rerouted(&self, fleet: Arc<Fleet>, settings: Settings, gateway: Arc<Gateway>) -> Self {
        Self {
            parts: Parts { settings, fleet, ..self.parts.clone() },
            flights: self.flights.clone(),
            nobody: self.nobody.clone(),
            gateway,
            local: self.local,
            anonymous: self.anonymous,
            forwarding_seen: self.forwarding_seen.clone(),
        }
    }

    /// The recorder.
    pub fn recorder(&self) -> &Arc<Recorder> {
        &self.parts.recorder
    }

    /// The caches.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.parts.cache
    }

    /// What the labels of each model allow; none where semantic answers are off.
    pub fn trust(&self) -> Option<&Trust> {
        self.parts.sampler.as_ref().map(|sampler| sampler.trust())
    }

    pub(crate) fn begin(&self, operation: Operation, head: &Head) -> Exchange {
        let parts = &self.parts;
        let (nobody, gateway) = (self.nobody.clone(), self.gateway.clone());
        Exchange::begin(parts.recorder.clone(), parts.metrics.clone(), operation, head, nobody, gateway)
    }

    /// The address and its token bucket.
    pub(crate) fn admit(&self, exchange: &mut Exchange, head: &Head) -> Result<(), Fault> {
        let (facts, outcome) = self.limit(head);
        exchange.limit = facts.unwrap_or(exchange.limit);
        outcome
    }

    /// The same for a request of which no record is made.
    ///
    /// # Errors
    /// The address has spent its tokens.
    pub fn admits(&self, head: &Head) -> Result<(), Fault> {
        self.limit(head).1
    }

    fn limit(&self, head: &Head) -> (Option<LimitFacts>, Result<(), Fault>) {
        let started = Instant::now();
        let Some(limiter) = self.parts.limiter.as_ref() else { return (None, Ok(())) };
        let values = |name| head.headers.get_all(name).iter().map(http::HeaderValue::as_bytes);
        let client = ClientIp::resolve(
            head.peer,
            values("x-forwarded-for"),
            values("forwarded"),
            &self.parts.settings.trusted_proxies,
        );
        if client.untrusted_xff {
            self.warn_of_forwarding();
        }
        let decision = limiter.check(client.key(), 1, self.parts.clock.mono_ns());
        self.parts.metrics.step(Step::Admit, started.elapsed());
        match decision {
            Decision::Allow { .. } => (Some(LimitFacts { decision: "allow", retry_after_ms: None }), Ok(())),
            denied @ (Decision::Deny { .. } | Decision::Never) => {
                let retry_after = if let Decision::Deny { wait_ns } = denied {
                    Duration::from_nanos(wait_ns)
                } else {
                    Duration::from_secs(1)
                };
                let wait_ms = u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX);
                self.parts.metrics.limited("ip");
                let facts = LimitFacts { decision: "deny", retry_after_ms: Some(wait_ms) };
                (Some(facts), Err(Fault::RateLimited { retry_after }))
            }
        }
    }

    /// Once a process: either someone forges addresses, or a proxy is missing from the configuration and all its callers
    /// share one bucket.
    fn warn_of_forwarding(&self) {
        self.forwarding_seen.call_once(|| {
            tracing::warn!(
                "forwarding headers came from a peer that is not in server.trusted_proxies; they are ignored"
            );
        });
    }

    /// The caller and its tenant's keys.
    pub(crate) async fn identify(&self, exchange: &mut Exchange, head: &Head) -> Result<Auth, Fault> {
        let started = Instant::now();
        let (tenant, label, auth) = self.tenant(head)?;
        let keys = self.parts.keys.current(tenant).await;
        exchange.identify(Identity { keys, auth: label });
        self.parts.metrics.step(Step::Identify, started.elapsed());
        Ok(auth)
    }

    /// The tenant of all callers, where they are one; else of nobody in particular.
    pub(crate) fn usual_tenant(&self) -> TenantId {
        match self.parts.settings.auth {
            AuthMode::Local => self.local,
            AuthMode::Open | AuthMode::Passthrough => self.anonymous,
        }
    }

    fn tenant(&self, head: &Head) -> Result<(TenantId, &'static str, Auth), Fault> {
        match self.parts.settings.auth {
            AuthMode::Local => Ok((self.local, "passthrough", Auth::Provider)),
            AuthMode::Open => Ok((self.anonymous, "open", Auth::Provider)),
            AuthMode::Passthrough => {
                let own = credential(head.api, &head.headers).ok_or(Fault::Unauthenticated)?;
                let tenant = self.parts.keys.tenant_of(own.name.as_str(), own.value.as_bytes());
                Ok((tenant, "passthrough", Auth::Caller(own)))
            }
        }
    }

    pub(crate) async fn read(
        &self,
        exchange: &mut Exchange,
        body: impl Future<Output = Result<Bytes, BodyFault>>,
    ) -> Result<Bytes, Fault> {
        let started = Instant::now();
        let body = body.await.map_err(|fault| match fault {
            BodyFault::TooLarge(limit) => Fault::TooLarge { limit },
            BodyFault::Gone => Fault::ClientGone,
            BodyFault::Silent(waited) => Fault::RequestTimeout { waited },
            BodyFault::Malformed => Fault::invalid("The chunks of the request body are malformed.".to_owned(), None),
        })?;
        exchange.received_body(&body);
        self.parts.metrics.step(Step::Read, started.elapsed());
        Ok(body)
    }

    /// The answer to a request that a fault ended, with its record.
    pub(crate) fn refuse(&self, exchange: Exchange, head: &Head, fault: &Fault) -> Reply {
        self.refuse_answered(exchange, head, fault, None).0
    }

    /// The same where a provider had answered: what that was and cost, and whether this record bears the bill.
    pub(crate) fn refuse_answered(
        &self,
        mut exchange: Exchange,
        head: &Head,
        fault: &Fault,
        answered: Option<(&Reading, bool)>,
    ) -> (Reply, Option<Attested>) {
        if exchange.is_spent() {
            return (self.unrecorded(head, fault), None);
        }
        let face = self.parts.faces.face(fault, head.api, head.request_id.as_str());
        if let Fault::Internal(cause) = fault {
            tracing::error!(request_id = %head.request_id, %cause, "a request failed inside the gateway");
        }
        let mut headers = HeaderMap::with_capacity(16);
        let folded = (!exchange.authenticated).then(|| self.parts.recorder.fold(reason(fault))).flatten();
        if let Some(id) = folded {
            exchange.id = id;
        }
        reply::common(&mut headers, &exchange, head.request_id.as_str(), false);
        let mut attested = None;
        if folded.is_some() {
            exchange.fold(face.status);
        } else {
            match exchange.close(&ending(&face, fault, answered)) {
                Ok(written) => attested = written,
                Err(unrecorded) => return (self.unrecorded(head, &unrecorded), None),
            }
            reply::receipt(&mut headers, attested.as_ref());
        }
        reply::refusal(&mut headers, head, &face);
        (Reply { status: face.status, headers, body: ReplyBody::Whole(face.body) }, attested)
    }

    /// Holds a whole answer back until its record is as safe as the mode promises. A stream does so itself, at its end.
    ///
    /// Where that cannot be had, the answer is withheld although its record may say that it was given: who reads the log
    /// learns of an answer too many, never of one too few.
    pub async fn settle(&self, head: &Head, reply: Reply) -> Reply {
        let waits = self.parts.recorder.waits() && matches!(reply.body, ReplyBody::Whole(_) | ReplyBody::Replay { .. });
        if !waits {
            return reply;
        }
        match self.parts.recorder.settled().await {
            Ok(()) => reply,
            Err(fault) => self.unrecorded(head, &fault),
        }
    }

    fn unrecorded(&self, head: &Head, fault: &Fault) -> Reply {
        Reply::unrecorded(head, self.parts.faces.face(fault, head.api, head.request_id.as_str()))
    }
}

/// The caller's own credential. One header is both what the tenant is made from and what is sent on: of two the one that
/// callers of this API use.
pub(crate) fn credential(api: Api, headers: &HeaderMap) -> Option<Credential> {
    let from = |name: HeaderName| {
        let value = headers.get(&name).filter(|value| names_a_caller(value))?;
        Some(Credential { name, value: value.clone() })
    };
    if api.is_anthropic() {
        from(X_API_KEY).or_else(|| from(AUTHORIZATION))
    } else {
        from(AUTHORIZATION).or_else(|| from(X_API_KEY))
    }
}

/// Whether there is more than a scheme: clients without a key send `Bearer ` and nothing behind it, and all of them would
/// be one tenant.
fn names_a_caller(credential: &HeaderValue) -> bool {
    let text = credential.as_bytes().trim_ascii();
    !text.is_empty() && !["bearer", "basic"].iter().any(|scheme| text.eq_ignore_ascii_case(scheme.as_bytes()))
}

fn ending<'a>(face: &'a Face, fault: &Fault, answered: Option<(&Reading, bool)>) -> Ending<'a> {
    let usage = |(reading, billed): (&Reading, bool)| Some(usage_facts(reading.usage?, billed));
    Ending {
        outcome: outcome(fault),
        answer_digest: answered.and_then(|(reading, _)| reading.digest),
        finish: answered.and_then(|(reading, _)| reading.finish.clone()),
        usage: answered.and_then(usage),
        ..Ending::whole(face.status, &face.body)
    }
}

fn outcome(fault: &Fault) -> Outcome {
    match fault {
        Fault::Invalid { .. }
        | Fault::TooLarge { .. }
        | Fault::UnknownModel { .. }
        | Fault::UnknownRecord
        | Fault::UnknownUrl
        | Fault::WrongMethod => Outcome::Invalid,
        Fault::RateLimited { .. }
        | Fault::Unauthenticated
        | Fault::NotCached
        | Fault::Overloaded
        | Fault::Overload { .. } => Outcome::Denied,
        Fault::ClientGone | Fault::RequestTimeout { .. } => Outcome::ClientAbort,
        Fault::Upstream { error, .. } if is_timeout(error) => Outcome::Timeout,
        Fault::Upstream { .. } | Fault::ProviderRefused { .. } | Fault::Untranslatable { .. } => Outcome::UpstreamError,
        Fault::LineageUnavailable | Fault::NotReady(_) | Fault::Internal(_) => Outcome::InternalError,
    }
}

fn reason(fault: &Fault) -> &'static str {
    match fault {
        Fault::RateLimited { .. } => "ip_rate",
        Fault::Unauthenticated => "unauthenticated",
        Fault::Overloaded => "connections",
        Fault::Overload { .. } => "overload",
        _ => "other",
    }
}
