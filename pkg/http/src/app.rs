//! The routes that callers see.

use crate::body::{Edge, Inbound};
use crate::faces::ErrorFaces;
use crate::health::Health;
use crate::load::{Load, Seat};
use crate::pace::{Patience, Riding};
use crate::reload::Current;
use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Path, Request, State};
use axum::response::Response;
use axum::routing::{get, post};
use futures_util::FutureExt;
use http::header::TE;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use signet_dialect::Api;
use signet_pipeline::{Faces, Fault, Head, Pipeline, Reply, TreeView};
use signet_telemetry::Metrics;
use signet_types::{Clock, LineageId, RequestId};
use std::future::Future;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

/// What the routes need. The pipeline is there once the tenant secret is there; until then requests are answered with 503.
pub struct App {
    /// The life of every request.
    pub pipeline: Current,
    /// What is published of the logs' trees; none where nothing is.
    pub tree: Option<Arc<TreeView>>,
    /// Whether callers may read it without being known.
    pub public_tree: bool,
    /// What the process says of itself.
    pub health: Arc<Health>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Clocks.
    pub clock: Arc<dyn Clock>,
    /// Largest request body in bytes.
    pub max_body_bytes: u64,
    /// The work of this lane.
    pub load: Arc<Load>,
    /// How long slow callers are borne with.
    pub patience: Patience,
}

const LINEAGE_ID: HeaderName = HeaderName::from_static("lineage-id");

type Shared = State<Arc<App>>;
type Peer = ConnectInfo<SocketAddr>;

/// The caller's routes. Layers are left out on purpose: request ids, limits and time-outs need the tenant or the body, so
/// they are steps of the pipeline; what is left for a layer, catching panics, needs the record's id and is done here.
pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route(Api::Chat.route(), post(serve).fallback(wrong_method))
        .route(Api::Embeddings.route(), post(serve).fallback(wrong_method))
        .route(Api::Completions.route(), post(serve).fallback(wrong_method))
        .route(Api::Responses.route(), post(serve).fallback(wrong_method))
        .route(Api::Messages.route(), post(serve).fallback(wrong_method))
        .route(Api::CountTokens.route(), post(serve).fallback(wrong_method))
        .route("/v1/models", get(models).fallback(wrong_method))
        // An id may have slashes: `openai/gpt-4o`.
        .route("/v1/models/{*id}", get(model).fallback(wrong_method))
        .route("/v1/lineage", get(lineage_list).fallback(wrong_method))
        .route("/v1/lineage/{id}", get(lineage).fallback(wrong_method))
        .route("/v1/lineage/{id}/feedback", post(feedback).fallback(wrong_method))
        .route("/v1/lineage/keys", get(tree).fallback(wrong_method))
        .route("/v1/lineage/logs/{log}/{*path}", get(tree).fallback(wrong_method))
        .route("/healthz", get(crate::health::alive))
        .route("/readyz", get(crate::health::ready_app))
        .fallback(unknown_url)
        .with_state(app)
}

/// The routes of a connection that is one too many: a refusal, whatever is asked.
pub fn crowded_router(app: Arc<App>) -> Router {
    Router::new().fallback(crowded).with_state(app)
}

async fn serve(State(app): Shared, ConnectInfo(peer): Peer, request: Request) -> Response {
    let (head, body) = take_apart(&app, peer, request);
    let (seat, room) = seat(&app);
    let work = async {
        room?;
        Ok(ready(&app)?.serve(head.api, &head, body.read()).await)
    };
    seated(&app, &head, seat, work).await
}

async fn models(State(app): Shared, ConnectInfo(peer): Peer, request: Request) -> Response {
    let (head, _body) = take_apart(&app, peer, request);
    let (seat, room) = seat(&app);
    let work = async {
        room?;
        Ok(ready(&app)?.models(&head).await)
    };
    seated(&app, &head, seat, work).await
}

async fn model(State(app): Shared, ConnectInfo(peer): Peer, Path(id): Path<String>, request: Request) -> Response {
    let (head, _body) = take_apart(&app, peer, request);
    let (seat, room) = seat(&app);
    let work = async {
        room?;
        Ok(ready(&app)?.model(&head, &id).await)
    };
    seated(&app, &head, seat, work).await
}

async fn lineage(State(app): Shared, ConnectInfo(peer): Peer, Path(id): Path<String>, request: Request) -> Response {
    let (head, _body) = take_apart(&app, peer, request);
    guarded(&app, &head, async { Ok(ready(&app)?.lineage(&head, &id).await) }).await
}

async fn lineage_list(State(app): Shared, ConnectInfo(peer): Peer, request: Request) -> Response {
    // A caller has no choice whose records these are.
    let page = crate::audit::page(request.uri()).and_then(|(page, tenant)| match tenant {
        None => Ok(page),
        Some(_) => {
            Err(Fault::invalid("The query cannot be used: a caller lists its own records.".into(), Some("tenant")))
        }
    });
    let (head, _body) = take_apart(&app, peer, request);
    guarded(&app, &head, async { Ok(ready(&app)?.lineage_list(&head, page).await) }).await
}

/// What everyone may read, if anyone may: it costs a token of the address, and leaves no record, or whoever watches the tree
/// would make it grow.
async fn tree(State(app): Shared, ConnectInfo(peer): Peer, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let (head, _body) = take_apart(&app, peer, request);
    let admitted = match (&app.tree, ready(&app)) {
        (Some(tree), Ok(pipeline)) if app.public_tree => pipeline.admits(&head).map(|()| tree),
        (_, Err(fault)) => Err(fault),
        _ => Err(Fault::UnknownUrl),
    };
    match admitted {
        Ok(tree) => crate::tree::answer(tree, &path).await,
        Err(fault) => guarded(&app, &head, async { Err(fault) }).await,
    }
}

async fn feedback(State(app): Shared, ConnectInfo(peer): Peer, Path(id): Path<String>, request: Request) -> Response {
    let (head, body) = take_apart(&app, peer, request);
    guarded(&app, &head, async { Ok(ready(&app)?.feedback(&head, &id, body.read()).await) }).await
}

async fn wrong_method(State(app): Shared, ConnectInfo(peer): Peer, request: Request) -> Response {
    let (head, _body) = take_apart(&app, peer, request);
    guarded(&app, &head, async { Err(Fault::WrongMethod) }).await
}

async fn unknown_url(State(app): Shared, ConnectInfo(peer): Peer, request: Request) -> Response {
    let (head, _body) = take_apart(&app, peer, request);
    guarded(&app, &head, async { Err(Fault::UnknownUrl) }).await
}

async fn crowded(State(app): Shared, ConnectInfo(peer): Peer, request: Request) -> Response {
    let (head, _body) = take_apart(&app, peer, request);
    guarded(&app, &head, async { Err(Fault::Overloaded) }).await
}

fn ready(app: &App) -> Result<Arc<Pipeline>, Fault> {
    if app.health.is_draining() {
        return Err(Fault::NotReady("it is shutting down"));
    }
    app.pipeline.get().ok_or(Fault::NotReady("the tenant secret is not available yet"))
}

fn take_apart(app: &App, peer: SocketAddr, request: Request) -> (Head, Inbound) {
    let (parts, body) = request.into_parts();
    let received_ms = app.clock.now_ms();
    let id = LineageId::generate(received_ms);
    let own = parts.headers.get("x-request-id").and_then(|value| value.to_str().ok());
    let request_id = own.and_then(RequestId::from_caller).unwrap_or_else(|| RequestId::from_lineage(id));
    let takes_trailers = parts.version == http::Version::HTTP_11 && takes_trailers(&parts.headers);
    let head = Head {
        id,
        request_id,
        api: Api::at(parts.uri.path()).unwrap_or(Api::Chat),
        query: parts.uri.query().filter(|query| !query.is_empty()).map(str::to_owned),
        peer: peer.ip(),
        headers: parts.headers,
        received_ms,
        received: Instant::now(),
        takes_trailers,
    };
    let body = Inbound::new(&head.headers, body, app.max_body_bytes, app.patience);
    (head, body)
}

fn takes_trailers(headers: &HeaderMap) -> bool {
    let values = headers.get_all(TE).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| coding.trim().eq_ignore_ascii_case("trailers"))
}

/// A seat for what costs more than a look, or why there is none; without one the body stays unread.
fn seat(app: &App) -> (Option<Seat>, Result<(), Fault>) {
    match app.load.admit() {
        Ok(seat) => (Some(seat), Ok(())),
        Err(fault) => (None, Err(fault)),
    }
}

async fn guarded(app: &App, head: &Head, work: impl Future<Output = Result<Reply, Fault>>) -> Response {
    seated(app, head, None, work).await
}

/// Runs a request so that a panic is one caller's 500: its record is written while the stack unwinds. A fault outside of
/// the pipeline is recorded too, unless there is no pipeline yet.
async fn seated(
    app: &App,
    head: &Head,
    seat: Option<Seat>,
    work: impl Future<Output = Result<Reply, Fault>>,
) -> Response {
    let done = AssertUnwindSafe(work).catch_unwind().await;
    let replied = done.and_then(|done| {
        catch_unwind(AssertUnwindSafe(|| {
            done.unwrap_or_else(|fault| match app.pipeline.get() {
                Some(pipeline) => pipeline.unknown(head, &fault),
                None => Reply::unrecorded(head, ErrorFaces.face(&fault, head.api, head.request_id.as_str())),
            })
        }))
    });
    if let Ok(reply) = replied {
        return match app.pipeline.get() {
            Some(pipeline) => respond(pipeline.settle(head, reply).await, seat),
            None => respond(reply, seat),
        };
    }
    app.metrics.panicked();
    tracing::error!(id = %head.id, "a request panicked");
    let face = ErrorFaces.face(&Fault::Internal("panic".into()), head.api, head.request_id.as_str());
    let mut reply = Reply::unrecorded(head, face);
    reply.headers.extend(HeaderValue::from_str(&head.id.to_string()).map(|id| (LINEAGE_ID, id)));
    respond(reply, seat)
}

fn respond(reply: Reply, seat: Option<Seat>) -> Response {
    let reply = reply.digested();
    let mut response = Response::new(Body::new(Riding::new(Edge::from(reply.body), seat)));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::BAD_GATEWAY);
    *response.headers_mut() = reply.headers;
    response
}
