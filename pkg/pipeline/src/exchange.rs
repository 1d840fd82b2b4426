//! One exchange with a caller, from its head to its record.
//!
//! Whatever happens to the request's future, exactly one record is written: by [`Exchange::close`] when the answer ends, or
//! by `Drop` when the caller has left or a step panicked.

use crate::capture::{Kept, Ready};
use crate::fault::Fault;
use crate::head::Head;
use crate::recorder::{Attested, Recorder};
use crate::reply::Timing;
use crate::sample::Sample;
use bytes::Bytes;
use http::HeaderValue;
use signet_cache::TenantKeys;
use signet_dialect::Api;
use signet_lineage::{
    CacheFacts, Caller, CaptureFacts, Draft, Exchange as Facts, Fingerprint, Forwarded, Gateway, HttpFacts, Kind,
    LimitFacts, ModelFacts, OpenFacts, Opening, Outcome, Parent, ProviderFacts, RequestFacts, ResponseFacts, TenantKey,
    Times, UsageFacts,
};
use signet_spool::Opened;
use signet_telemetry::Metrics;
use signet_types::LineageId;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Longest name that a record keeps of a provider's, in bytes.
const NAME_MAX: usize = 512;

/// What an endpoint is called in metrics, records and routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operation {
    /// Metric label and record field.
    pub name: &'static str,
    /// Path.
    pub route: &'static str,
}

impl Operation {
    const fn of(api: Api) -> Self {
        Self { name: api.name(), route: api.route() }
    }
}

/// The endpoints that leave records.
pub(crate) mod operations {
    use super::Operation;
    use signet_dialect::Api;
    /// Requests to an API.
    pub(crate) const fn of(api: Api) -> Operation {
        Operation::of(api)
    }
    /// The merged model list.
    pub(crate) const MODELS: Operation = of(Api::Models);
    /// A caller's own records.
    pub(crate) const LINEAGE: Operation = Operation { name: "lineage", route: "/v1/lineage/{id}" };
    /// The list of them.
    pub(crate) const LINEAGES: Operation = Operation { name: "lineage", route: "/v1/lineage" };
    /// A caller's verdict on one of its answers.
    pub(crate) const FEEDBACK: Operation = Operation { name: "feedback", route: "/v1/lineage/{id}/feedback" };
    /// Everything else.
    pub(crate) const UNKNOWN: Operation = Operation { name: "unknown", route: "*" };
}

/// The caller, once known.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) keys: Arc<TenantKeys>,
    pub(crate) auth: &'static str,
}

/// How an answer ended, for its record.
#[derive(Debug)]
pub(crate) struct Ending<'a> {
    pub(crate) status: u16,
    pub(crate) outcome: Outcome,
    pub(crate) body: Sent<'a>,
    pub(crate) chunks: u64,
    pub(crate) answer_digest: Option<[u8; 32]>,
    pub(crate) finish: Option<String>,
    pub(crate) usage: Option<UsageFacts>,
}

impl<'a> Ending<'a> {
    /// A complete answer whose bytes are at hand.
    pub(crate) const fn whole(status: u16, body: &'a [u8]) -> Self {
        let (body, outcome) = (Sent::Whole(body), Outcome::Complete);
        Self { status, outcome, body, chunks: 0, answer_digest: None, finish: None, usage: None }
    }
}

/// The answer's bytes: at hand, or hashed as they went.
#[derive(Debug)]
pub(crate) enum Sent<'a> {
    Whole(&'a [u8]),
    /// `held` are the bytes themselves, where they are kept and still all here.
    Hashed {
        cm: [u8; 32],
        bytes: u64,
        held: Option<&'a [u8]>,
    },
}

/// Dropping it unclosed writes the record of an aborted answer.
pub(crate) struct Exchange(Option<Box<State>>);

/// What is known of an exchange so far.
pub(crate) struct State {
    recorder: Arc<Recorder>,
    metrics: Arc<Metrics>,
    /// The process under the configuration by which this request is answered.
    gateway: Arc<Gateway>,
    pub(crate) id: LineageId,
    pub(crate) operation: Operation,
    received: Instant,
    received_ms: u64,
    trace_id: Option<String>,
    request_id: Option<String>,
    identity: Identity,
    /// Derived from the tenant's key once; every commitment of the exchange comes from it.
    opening: OnceLock<Opening>,
    opened: Option<Opened>,
    request: Option<RequestFacts>,
    /// The body that the record says was sent.
    forwarded: Option<Bytes>,
    pub(crate) authenticated: bool,
    pub(crate) asked: String,
    pub(crate) stream: bool,
    pub(crate) served: Option<String>,
    pub(crate) provider: Option<ProviderFacts>,
    /// `x-signet-attempts`.
    pub(crate) tried: Option<HeaderValue>,
    pub(crate) routed: Option<String>,
    pub(crate) upstream_body: Option<Forwarded>,
    pub(crate) cache: CacheFacts,
    /// A semantic candidate that is to be compared with the fresh answer.
    pub(crate) sample: Option<Sample>,
    /// The request, on a route that keeps bodies.
    pub(crate) kept: Option<Kept>,
    pub(crate) x_cache: &'static str,
    pub(crate) parents: Vec<Parent>,
    pub(crate) limit: LimitFacts,
    pub(crate) timing: Timing,
    pub(crate) ttfb: Option<Duration>,
    pub(crate) first_byte_ms: Option<u64>,
    /// Status and bytes sent so far, for the record of an answer that is dropped.
    pub(crate) so_far: (u16, u64, u64),
}

impl Exchange {
    pub(crate) fn begin(
        recorder: Arc<Recorder>,
        metrics: Arc<Metrics>,
        operation: Operation,
        head: &Head,
        nobody: Arc<TenantKeys>,
        gateway: Arc<Gateway>,
    ) -> Self {
        Self(Some(Box::new(State {
            recorder,
            metrics,
            gateway,
            id: head.id,
            operation,
            received: head.received,
            received_ms: head.received_ms,
            trace_id: trace_id(head),
            request_id: head.headers.get("x-request-id").map(|_| head.request_id.as_str().to_owned()),
            identity: Identity { keys: nobody, auth: "none" },
            opening: OnceLock::new(),
            opened: None,
            request: None,
            forwarded: None,
            authenticated: false,
            asked: String::new(),
            stream: false,
            served: None,
            provider: None,
            tried: None,
            routed: None,
            upstream_body: None,
            cache: CacheFacts { decision: "none", ..CacheFacts::default() },
            sample: None,
            kept: None,
            x_cache: "NONE",
            parents: Vec::new(),
            limit: LimitFacts { decision: "off", retry_after_ms: None },
            timing: Timing::default(),
            ttfb: None,
            first_byte_ms: None,
            so_far: (499, 0, 0),
        })))
    }

    /// Gives the exchange to what outlives the handler; this one is spent.
    pub(crate) fn hand_over(&mut self) -> Self {
        Self(self.0.take())
    }

    /// Whether the record is written or in other hands.
    pub(crate) const fn is_spent(&self) -> bool {
        self.0.is_none()
    }

    /// Signs and appends the record; none where the log is full and the policy is to serve all the same. The exchange is
    /// spent.
    pub(crate) fn close(&mut self, ending: &Ending<'_>) -> Result<Option<Attested>, Fault> {
        let Some(mut state) = self.0.take() else { return Ok(None) };
        state.close(ending)
    }

    /// The answer carries the id of a folded record; no record of its own is written. The exchange is spent.
    pub(crate) fn fold(&mut self, status: u16) {
        if let Some(state) = self.0.take() {
            state.count(status);
        }
    }
}

impl std::ops::Deref for Exchange {
    type Target = State;

    fn deref(&self) -> &State {
        self.0.as_ref().expect("an exchange is used only before it is spent")
    }
}

impl std::ops::DerefMut for Exchange {
    fn deref_mut(&mut self) -> &mut State {
        self.0.as_mut().expect("an exchange is used only before it is spent")
    }
}

impl State {
    pub(crate) fn identify(&mut self, identity: Identity) {
        self.authenticated = true;
        self.identity = identity;
        self.opening = OnceLock::new();
    }

    /// When the request came, in milliseconds since the Unix epoch.
    pub(crate) const fn received_ms(&self) -> u64 {
        self.received_ms
    }

    pub(crate) fn keys(&self) -> &Arc<TenantKeys> {
        &self.identity.keys
    }

    /// What lets the caller, and nobody else, check the commitments.
    pub(crate) fn opening(&self) -> &Opening {
        self.opening.get_or_init(|| self.proof().opening(self.id))
    }

    pub(crate) fn commit(&self, label: &str, bytes: &[u8]) -> [u8; 32] {
        self.opening().commitment_key(label).commit(bytes)
    }

    fn proof(&self) -> &TenantKey {
        &self.identity.keys.proof
    }

    /// Commits to the request's body as it was received.
    pub(crate) fn received_body(&mut self, body: &[u8]) {
        self.request = Some(RequestFacts {
            cm: self.commit("request", body),
            bytes: body.len() as u64,
            fp: None,
            op: self.operation.name,
            forwarded: None,
        });
    }

    /// Commits to the provider's whole body, where something else is sent for it.
    pub(crate) fn came(&mut self, body: &[u8]) {
        let cm = self.commit("response", body);
        self.upstream_body = Some(Forwarded { cm, bytes: body.len() as u64, changed: true });
    }

    /// Commits to the body as it was sent upstream at last, for this answer; none where nothing was.
    pub(crate) fn sent_on(&mut self, received: &[u8], sent: Option<&Bytes>) {
        if let Some(sent) = sent {
            return self.forwarded_body(received, sent);
        }
        self.forwarded = None;
        self.request.iter_mut().for_each(|request| request.forwarded = None);
    }

    /// Commits to the body as it is sent upstream, where that differs from what was received.
    pub(crate) fn forwarded_body(&mut self, received: &[u8], sent: &Bytes) {
        let same = |one: &[u8], other: &[u8]| one.as_ptr() == other.as_ptr() && one.len() == other.len();
        if self.forwarded.as_ref().is_some_and(|known| same(known, sent)) {
            return;
        }
        self.forwarded = Some(sent.clone());
        let changed = !same(received, sent) && received != sent;
        let cm = changed.then(|| self.commit("forwarded", sent));
        let Some(request) = self.request.as_mut() else { return };
        let cm = cm.unwrap_or(request.cm);
        request.forwarded = Some(Forwarded { cm, bytes: sent.len() as u64, changed });
    }

    pub(crate) fn fingerprint(&self, label: &str, bytes: &[u8]) -> Fingerprint {
        self.proof().fingerprint(label, bytes)
    }

    /// Writes OPEN: the last step before money is spent.
    pub(crate) fn open(&mut self) -> Result<(), Fault> {
        if self.opened.is_some() {
            return Ok(()); // it joined others and makes a call of its own now
        }
        let request = self.request.clone().unwrap_or_else(|| self.no_request());
        let facts = OpenFacts {
            id: self.id,
            received_ms: self.received_ms,
            trace_id: self.trace_id.clone(),
            caller: self.caller(),
            route: self.operation.route,
            stream: self.stream,
            request,
            asked: self.asked.clone(),
            cache: self.cache.decision,
        };
        self.opened = self.recorder.open(&facts)?;
        Ok(())
    }

    /// Whether the log knows that a call is made for this exchange.
    pub(crate) const fn is_open(&self) -> bool {
        self.opened.is_some()
    }

    fn close(&mut self, ending: &Ending<'_>) -> Result<Option<Attested>, Fault> {
        let (status, outcome) = (ending.status, ending.outcome);
        let (capture, ready) = self.seal(ending).unzip();
        let draft = self.draft(ending, capture);
        let attested = self.recorder.close(self.opened.take(), &draft)?;
        if let (Some(ready), Some(_)) = (ready.flatten(), &attested) {
            ready.hand_over(draft.time.completed_ms);
        }
        self.metrics.record(outcome_label(outcome));
        self.count(status);
        Ok(attested)
    }

    fn count(&self, status: u16) {
        let took = self.received.elapsed();
        self.metrics.request(self.operation.name, status, self.x_cache, took);
        tracing::debug!(
            target: "signet::access",
            lineage_id = %self.id,
            tenant_id = %self.identity.keys.tenant,
            route = self.operation.route,
            status,
            cache = self.x_cache,
            took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            "answered"
        );
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.received.elapsed()
    }

    /// Seals the bodies, on a route that keeps them.
    fn seal(&mut self, ending: &Ending<'_>) -> Option<(CaptureFacts, Option<Ready>)> {
        let kept = self.kept.take()?;
        let response = match ending.body {
            Sent::Whole(body) => Some(body),
            Sent::Hashed { held, .. } => held,
        };
        Some(kept.seal((self.recorder.log().id(), self.id, self.identity.keys.tenant), self.opening(), response))
    }

    fn draft(&mut self, ending: &Ending<'_>, capture: Option<CaptureFacts>) -> Draft {
        let total = self.received.elapsed();
        let total_us = u64::try_from(total.as_micros()).unwrap_or(u64::MAX);
        // From its end backwards, so that a clock that was set meanwhile does not stretch it.
        let completed_ms = self.recorder.now_ms();
        let received_ms = completed_ms.saturating_sub(total_us / 1000);
        Draft {
            kind: Kind::Request,
            id: self.id,
            trace_id: self.trace_id.take(),
            time: Times {
                received_ms,
                first_byte_ms: self.first_byte_ms.map(|at| at.clamp(received_ms, completed_ms)),
                completed_ms,
                upstream_ttfb_us: self.ttfb.map(|ttfb| u64::try_from(ttfb.as_micros()).unwrap_or(u64::MAX)),
                total_us,
            },
            gateway: self.gateway.clone(),
            exchange: Some(Box::new(self.facts(ending, capture))),
            control: Vec::new(),
        }
    }

    fn facts(&mut self, ending: &Ending<'_>, capture: Option<CaptureFacts>) -> Facts {
        let (caller, response) = (self.caller(), self.response(ending));
        let request = self.request.take().unwrap_or_else(|| self.no_request());
        Facts {
            caller,
            http: HttpFacts {
                route: self.operation.route,
                status: ending.status,
                stream: self.stream,
                request_id: self.request_id.take(),
            },
            request,
            model: ModelFacts {
                asked: std::mem::take(&mut self.asked),
                routed: self.routed.take(),
                served: self.served.take().map(short),
            },
            provider: self.provider.take(),
            cache: std::mem::take(&mut self.cache),
            parents: std::mem::take(&mut self.parents),
            limit: self.limit,
            usage: ending.usage,
            response,
            capture,
        }
    }

    fn caller(&self) -> Caller {
        let keys = &self.identity.keys;
        Caller {
            tenant: keys.tenant,
            auth: self.identity.auth,
            key_epoch: keys.epoch,
            wrapped_key: keys.unstored.clone(),
        }
    }

    fn no_request(&self) -> RequestFacts {
        let cm = self.commit("request", b"");
        RequestFacts { cm, bytes: 0, fp: None, op: self.operation.name, forwarded: None }
    }

    fn response(&self, ending: &Ending<'_>) -> ResponseFacts {
        let key = self.proof();
        let (cm, bytes) = match ending.body {
            Sent::Whole(body) => (self.commit("response", body), body.len() as u64),
            Sent::Hashed { cm, bytes, .. } => (cm, bytes),
        };
        ResponseFacts {
            cm,
            bytes,
            fp: ending.answer_digest.map(|digest| key.fingerprint("answer", &digest)),
            chunks: ending.chunks,
            finish: ending.finish.clone().map(short),
            outcome: ending.outcome,
            upstream: self.upstream_body,
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let Some(state) = self.0.as_deref() else { return };
        let outcome = if std::thread::panicking() { Outcome::InternalError } else { Outcome::ClientAbort };
        let (status, bytes, chunks) = state.so_far;
        let status = if outcome == Outcome::InternalError { 500 } else { status };
        let (id, cm) = (state.id, state.commit("response", b""));
        let body = Sent::Hashed { cm, bytes, held: Some(b"") };
        let ending = Ending { status, outcome, body, chunks, answer_digest: None, finish: None, usage: None };
        if let Err(fault) = self.close(&ending) {
            tracing::error!(%id, %fault, "a request ended without a record");
        }
    }
}

/// What a provider calls something, as far as a record keeps it: names that are longer say nothing more.
fn short(mut name: String) -> String {
    name.truncate(name.floor_char_boundary(NAME_MAX));
    name
}

/// The trace id of a W3C `traceparent` (Trace Context §3.2.2).
fn trace_id(head: &Head) -> Option<String> {
    let value = head.headers.get("traceparent")?.to_str().ok()?;
    let id = value.split('-').nth(1)?;
    let good =
        id.len() == 32 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) && id.bytes().any(|b| b != b'0');
    good.then(|| id.to_owned())
}

fn outcome_label(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Complete => "complete",
        Outcome::ClientAbort => "client_abort",
        Outcome::UpstreamError => "upstream_error",
        Outcome::Timeout => "timeout",
        Outcome::Denied => "denied",
        Outcome::Invalid => "invalid",
        Outcome::InternalError => "internal_error",
        Outcome::Interrupted => "interrupted",
    }
}
