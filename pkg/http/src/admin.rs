//! The operators' listener: health, metrics, and the admin API behind a token.

use crate::app::App;
use crate::audit;
use crate::health::{alive, ready_app};
use crate::reload::{self, Reload};
use axum::body::Bytes;
use axum::extract::{Path, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use axum::{Json, Router};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use signet_cache::{Counts, RouteView, Tier, Withdrawal};
use signet_lineage::KeyUse;
use signet_lineage::tlog::NoteKey;
use signet_pipeline::{Fault, PruneFault, Pruner, Ring, RingFault, Rotated, Rotation};
use signet_types::{LineageId, Secret, TenantId};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// The admin listener's own settings.
#[derive(Clone)]
pub struct AdminConfig {
    /// Bearer token of `/admin/v1`.
    pub token: Arc<Secret<String>>,
    /// Host names that may stand in the Host header, without port; empty: any. A page in an operator's browser must not reach this
    /// listener under a name of its own (DNS rebinding).
    pub hosts: Vec<String>,
    /// Bearer tokens that may read records here, and nothing else.
    pub auditors: Arc<[Secret<String>]>,
    /// Rotates the log's keys; none where they cannot be rotated.
    pub rotation: Option<Arc<Rotation>>,
    /// The keyring in force; none without roots.
    pub ring: Option<Arc<Ring>>,
    /// Drops old records; none where they are kept for ever.
    pub pruner: Option<Arc<Pruner>>,
    /// Takes new configurations.
    pub reload: Option<Arc<dyn Reload>>,
}

#[derive(Clone)]
pub(crate) struct Admin {
    pub(crate) app: Arc<App>,
    pub(crate) config: AdminConfig,
}

#[derive(Serialize)]
struct Status {
    version: &'static str,
    log: Option<LogStatus>,
    cache_entries: u64,
    semantic_entries: usize,
    semantic_off: bool,
    withdrawals: usize,
    routes: Vec<RouteStatus>,
}

/// What the labels of one model allow.
#[derive(Serialize)]
struct RouteStatus {
    model: String,
    mode: &'static str,
    state: &'static str,
    /// In millionths; none where nothing is served.
    floor_e6: Option<u32>,
    labels: u64,
    /// The labels by the tier that found the candidate; `unknown` where a label does not tell.
    tiers: BTreeMap<&'static str, TierStatus>,
}

#[derive(Serialize)]
struct TierStatus {
    right: u64,
    wrong: u64,
    unknown: u64,
}

impl From<RouteView> for RouteStatus {
    fn from(route: RouteView) -> Self {
        let status = |counts: Counts| TierStatus { right: counts.right, wrong: counts.wrong, unknown: counts.unknown };
        Self {
            model: route.model,
            mode: route.mode.as_str(),
            state: route.standing.state.as_str(),
            floor_e6: route.standing.floor_e6,
            labels: route.tiers.values().map(|counts| counts.right + counts.wrong + counts.unknown).sum(),
            tiers: route.tiers.into_iter().map(|(tier, n)| (tier.map_or("unknown", Tier::as_str), status(n))).collect(),
        }
    }
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct TrustReset {
    model: String,
}

/// What to take back: everything stored up to now, or up to `older_than_s` ago, that fits all that is given.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Purge {
    id: Option<LineageId>,
    tenant: Option<String>,
    model: Option<String>,
    namespace: Option<String>,
    older_than_s: Option<u64>,
    /// Has to be said where nothing else is given.
    #[serde(default)]
    all: bool,
}

#[derive(Serialize)]
struct Purged {
    source: Option<LineageId>,
    stored_by_ms: u64,
}

#[derive(Serialize)]
struct Erased {
    keys: u64,
}

/// A rotation of a key.
#[derive(Serialize)]
struct Turned {
    log: String,
    #[serde(rename = "use")]
    key_use: &'static str,
    /// The record that says so; the new key signs behind it, or the checkpoints that cover it.
    seq: u64,
    old_key: String,
    new_key: String,
    /// The new key, to be pinned: PEM, or a verifier key.
    pin: String,
}

impl From<Rotated> for Turned {
    fn from(Rotated { key_use, record, old, key, log_name }: Rotated) -> Self {
        let pin = match key_use {
            KeyUse::Attest => key.to_pem(),
            KeyUse::Checkpoint => NoteKey::new(&log_name, key).map(|key| key.to_string()).unwrap_or_default(),
        };
        let (log, seq, key_use) = (record.log.to_string(), record.seq, key_use.as_str());
        Self { log, key_use, seq, old_key: old.key_id_text(), new_key: key.key_id_text(), pin }
    }
}

/// Which key is to be rotated; without a body that of records.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Turn {
    #[serde(default, rename = "use")]
    key_use: Use,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Use {
    #[default]
    Attest,
    Checkpoint,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct SemanticSwitch {
    off: bool,
}

#[derive(Serialize)]
struct LogStatus {
    next_seq: u64,
    durable_seq: u64,
    shipped_seq: u64,
    bytes: u64,
}

/// The operators' routes.
pub fn admin_router(app: Arc<App>, config: AdminConfig) -> Router {
    let admin = Admin { app: app.clone(), config };
    let api = Router::new()
        .route("/admin/v1/status", get(status))
        .route("/admin/v1/cache/purge", post(purge))
        .route("/admin/v1/semantic", put(switch_semantic))
        .route("/admin/v1/tenants/{tenant}", delete(erase))
        .route("/admin/v1/semantic/reset", post(reset_trust))
        .route("/admin/v1/lineage/{id}/payload", delete(erase_payload))
        .route("/admin/v1/lineage/{id}/open", post(open_capture))
        .route("/admin/v1/lineage/keys/rotate", post(rotate))
        .route("/admin/v1/lineage/keyring", post(publish_keyring))
        .route("/admin/v1/lineage/prune", post(prune))
        .route("/admin/v1/route/explain", post(crate::explain::explain))
        .route("/admin/v1/route/state", get(crate::explain::state))
        .route("/admin/v1/reload", get(reload::shown).post(reload::asked))
        .layer(middleware::from_fn_with_state(admin.clone(), authorised))
        .with_state(admin.clone());
    let audits = Router::new()
        .route("/v1/lineage", get(audit::list))
        .route("/v1/lineage/{id}", get(audit::show))
        .layer(middleware::from_fn_with_state(admin.clone(), audit::may_audit))
        .with_state(admin.clone());
    Router::new()
        .route("/healthz", get(alive))
        .route("/readyz", get(ready_app))
        .route("/metrics", get(metrics))
        .with_state(app.clone())
        .merge(trees(app, admin.clone()))
        .merge(api)
        .merge(audits)
        .layer(middleware::from_fn_with_state(admin, known_host))
}

/// Checkpoints, tiles and keys: for everyone where they are published, else for auditors.
fn trees(app: Arc<App>, admin: Admin) -> Router {
    let public = app.public_tree;
    let trees = Router::new()
        .route("/v1/lineage/keys", get(tree))
        .route("/v1/lineage/logs/{log}/{*path}", get(tree))
        .with_state(app);
    if public { trees } else { trees.layer(middleware::from_fn_with_state(admin, audit::may_audit)) }
}

async fn known_host(State(admin): State<Admin>, request: Request, next: Next) -> Response {
    let hosts = &admin.config.hosts;
    if hosts.is_empty() || host(&request).is_some_and(|host| hosts.iter().any(|known| known == host)) {
        return next.run(request).await;
    }
    (StatusCode::MISDIRECTED_REQUEST, "unknown host\n").into_response()
}

/// That of an absolute target stands before that of the field (RFC 9112 §3.2.2).
fn host(request: &Request) -> Option<&str> {
    let field = || request.headers().get(HOST).and_then(|value| value.to_str().ok());
    let host = request.uri().host().or_else(field)?;
    let bracketed = host.strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(host, _)| host);
    bracketed.or_else(|| host.split(':').next())
}

async fn authorised(State(admin): State<Admin>, request: Request, next: Next) -> Response {
    if bool::from(bearer(request.headers()).as_bytes().ct_eq(admin.config.token.expose().as_bytes())) {
        return next.run(request).await;
    }
    (StatusCode::UNAUTHORIZED, "the admin token is needed\n").into_response()
}

/// The bearer token of a request; empty if there is none.
pub(crate) fn bearer(headers: &HeaderMap) -> &str {
    let sent = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    sent.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default()
}

async fn status(State(admin): State<Admin>) -> Json<Status> {
    let held = admin.app.pipeline.get();
    let pipeline = held.as_ref();
    let log = pipeline.map(|pipeline| {
        let stats = pipeline.recorder().stats();
        LogStatus {
            next_seq: stats.next_seq,
            durable_seq: stats.durable_seq,
            shipped_seq: stats.shipped_seq,
            bytes: stats.bytes,
        }
    });
    let routes = pipeline.and_then(|pipeline| pipeline.trust()).map(signet_cache::Trust::routes).unwrap_or_default();
    Json(Status {
        routes: routes.into_iter().map(RouteStatus::from).collect(),
        version: env!("CARGO_PKG_VERSION"),
        log,
        cache_entries: pipeline.map_or(0, |pipeline| pipeline.cache().local_entries()),
        semantic_off: pipeline.is_some_and(|p| p.cache().withdrawals().semantic_is_off()),
        withdrawals: pipeline.map_or(0, |p| p.cache().withdrawals().len()),
        semantic_entries: pipeline.and_then(|p| p.cache().semantic().map(signet_cache::Semantic::len)).unwrap_or(0),
    })
}

async fn purge(State(admin): State<Admin>, body: Bytes) -> Response {
    let asked: Purge = match read(&body) {
        Ok(asked) => asked,
        Err(refusal) => return refusal,
    };
    let limited = asked.id.is_some()
        || asked.tenant.is_some()
        || asked.model.is_some()
        || asked.namespace.is_some()
        || asked.older_than_s.is_some();
    if limited == asked.all {
        let help = "say what to purge: id, tenant, model, namespace, older_than_s, or \"all\": true alone\n";
        return (StatusCode::BAD_REQUEST, help).into_response();
    }
    let tenant = match asked.tenant.map(|tenant| tenant.parse::<TenantId>()).transpose() {
        Ok(tenant) => tenant,
        Err(error) => return bad(&error),
    };
    let Some(pipeline) = admin.app.pipeline.get() else { return not_ready() };
    let age_ms = asked.older_than_s.unwrap_or(0).saturating_mul(1000);
    let rule = Withdrawal {
        source: asked.id,
        tenant,
        model: asked.model,
        namespace: asked.namespace,
        stored_by_ms: admin.app.clock.now_ms().saturating_sub(age_ms),
    };
    let purged = pipeline.purge(rule).await;
    done(purged.map(|rule| Purged { source: rule.source, stored_by_ms: rule.stored_by_ms }))
}

/// Destroys a tenant's keys, and with them all that was sealed for it.
async fn erase(State(admin): State<Admin>, Path(tenant): Path<String>) -> Response {
    let tenant = match tenant.parse::<TenantId>() {
        Ok(tenant) => tenant,
        Err(error) => return bad(&error),
    };
    let Some(pipeline) = admin.app.pipeline.get() else { return not_ready() };
    done(pipeline.erase(tenant).await.map(|keys| Erased { keys }))
}

async fn switch_semantic(State(admin): State<Admin>, body: Bytes) -> Response {
    let asked: SemanticSwitch = match read(&body) {
        Ok(asked) => asked,
        Err(refusal) => return refusal,
    };
    let Some(pipeline) = admin.app.pipeline.get() else { return not_ready() };
    done(pipeline.switch_semantic(asked.off).await.map(|()| asked))
}

async fn reset_trust(State(admin): State<Admin>, body: Bytes) -> Response {
    let asked: TrustReset = match read(&body) {
        Ok(asked) => asked,
        Err(refusal) => return refusal,
    };
    let Some(pipeline) = admin.app.pipeline.get() else { return not_ready() };
    done(pipeline.reset_trust(&asked.model).await.map(|()| asked))
}

/// Why a payload is to go.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Erasure {
    basis: String,
}

async fn erase_payload(State(admin): State<Admin>, Path(id): Path<String>, body: Bytes) -> Response {
    let asked: Erasure = match read(&body) {
        Ok(asked) => asked,
        Err(refusal) => return refusal,
    };
    let Some(pipeline) = admin.app.pipeline.get() else { return not_ready() };
    match pipeline.erase_payload(&id, &asked.basis).await {
        Err(fault @ Fault::Invalid { .. }) => bad(&fault),
        Err(Fault::UnknownRecord) => (StatusCode::NOT_FOUND, "there is no such payload\n").into_response(),
        outcome => done(outcome),
    }
}

/// Who is about to open sealed bodies, and why.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Opening {
    who: String,
    basis: String,
}

async fn open_capture(State(admin): State<Admin>, Path(id): Path<String>, body: Bytes) -> Response {
    let asked: Opening = match read(&body) {
        Ok(asked) => asked,
        Err(refusal) => return refusal,
    };
    let Some(pipeline) = admin.app.pipeline.get() else { return not_ready() };
    match pipeline.open_capture(&id, &asked.who, &asked.basis).await {
        Err(fault @ Fault::Invalid { .. }) => bad(&fault),
        Err(Fault::UnknownRecord) => (StatusCode::NOT_FOUND, "there is no such record\n").into_response(),
        outcome => done(outcome),
    }
}

async fn rotate(State(admin): State<Admin>, body: Bytes) -> Response {
    let asked = if body.is_empty() { Ok(Turn::default()) } else { read(&body) };
    let key_use = match asked {
        Ok(Turn { key_use: Use::Attest }) => KeyUse::Attest,
        Ok(Turn { key_use: Use::Checkpoint }) => KeyUse::Checkpoint,
        Err(refusal) => return refusal,
    };
    let Some(rotation) = &admin.config.rotation else {
        let help = "a log in memory begins anew with each start: put another key in its file and restart\n";
        return (StatusCode::CONFLICT, help).into_response();
    };
    match rotation.rotate(key_use).await {
        Ok(rotated) => Json(Turned::from(rotated)).into_response(),
        Err(fault) => (StatusCode::SERVICE_UNAVAILABLE, format!("{fault}\n")).into_response(),
    }
}

#[derive(Serialize)]
struct Published {
    version: u64,
}

async fn publish_keyring(State(admin): State<Admin>, body: Bytes) -> Response {
    let Some(ring) = &admin.config.ring else {
        return (StatusCode::CONFLICT, "lineage.root_file is not set: there is nobody to believe\n").into_response();
    };
    match ring.publish(&body).await {
        Ok(version) => Json(Published { version }).into_response(),
        Err(fault @ (RingFault::Older { .. } | RingFault::Other { .. })) => {
            (StatusCode::CONFLICT, format!("{fault}\n")).into_response()
        }
        Err(fault @ RingFault::Keyring(_)) => bad(&fault),
        Err(fault) => (StatusCode::SERVICE_UNAVAILABLE, format!("{fault}\n")).into_response(),
    }
}

async fn prune(State(admin): State<Admin>) -> Response {
    let Some(pruner) = &admin.config.pruner else {
        return (StatusCode::CONFLICT, "records are kept for ever: set lineage.retain_days\n").into_response();
    };
    match pruner.turn().await {
        Ok(turn) => Json(turn).into_response(),
        Err(fault @ PruneFault::Kept { .. }) => (StatusCode::CONFLICT, format!("{fault}\n")).into_response(),
        Err(fault) => (StatusCode::SERVICE_UNAVAILABLE, format!("{fault}\n")).into_response(),
    }
}

/// The order in a body, or its refusal.
#[expect(clippy::result_large_err, reason = "the refusal is the answer")]
pub(crate) fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T, Response> {
    Json::from_bytes(body).map(|Json(order)| order).map_err(|error| bad(&error))
}

/// What an order came to.
fn done<T: Serialize>(outcome: Result<T, Fault>) -> Response {
    match outcome {
        Ok(done) => Json(done).into_response(),
        Err(fault) => (StatusCode::SERVICE_UNAVAILABLE, format!("{fault}\n")).into_response(),
    }
}

pub(crate) fn bad(error: &dyn Display) -> Response {
    (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response()
}

pub(crate) fn not_ready() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "the gateway is not ready yet\n").into_response()
}

/// Figures about records, as the metrics are, and nothing of what is in them.
async fn tree(State(app): State<Arc<App>>, request: Request) -> Response {
    match &app.tree {
        Some(tree) => crate::tree::answer(tree, request.uri().path()).await,
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn metrics(State(app): State<Arc<App>>) -> impl IntoResponse {
    if let Some(pipeline) = app.pipeline.get() {
        crate::explain::measure(&pipeline, &app.metrics);
        let cache = pipeline.cache();
        app.metrics.cache_entries("local", cache.local_entries());
        app.metrics.cache_entries("semantic", cache.semantic().map_or(0, |layer| layer.len() as u64));
        let faults = cache.faults();
        app.metrics.cache_faults("shared", faults.shared.load(std::sync::atomic::Ordering::Relaxed));
        app.metrics.cache_faults("sealed", faults.sealed.load(std::sync::atomic::Ordering::Relaxed));
        if let Some(search) = cache.semantic().and_then(|layer| layer.search()) {
            app.metrics.cache_faults("index", search.failed());
            app.metrics.cache_faults("index_row", search.unreadable());
        }
    }
    ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], app.metrics.encode())
}
