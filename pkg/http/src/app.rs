//! The routes that callers see.

use crate::body::{Edge, Inbound};
use crate::faces;
use crate::health::Health;
use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Path, Request, State};
use axum::response::Response;
use axum::routing::{get, post};
use futures_util::FutureExt;
use http::header::{CONTENT_TYPE, TE};
use http::{HeaderMap, HeaderValue, StatusCode};
use signet_pipeline::{Fault, Head, Pipeline, Reply};
use signet_telemetry::Metrics;
use signet_types::{Clock, LineageId, RequestId};
use std::future::Future;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// What the routes need. The pipeline is set once the tenant secret is there; until then requests are answered with 503.
pub struct App {
    /// The life of every request.
    pub pipeline: OnceLock<Arc<Pipeline>>,
    /// What the process says of itself.
    pub health: Arc<Health>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Clocks.
    pub clock: Arc<dyn Clock>,
    /// Largest request body in bytes.
    pub max_body_bytes: u64,
}

type Shared = State<Arc<App>>;
type Peer = ConnectInfo<SocketAddr>;

/// The caller's routes. Layers are left out on purpose: request ids, limits and time-outs need the tenant or the body, so
/// they are steps of the pipeline; what is left for a layer, catching panics, needs the record's id and is done here.
pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat).fallback(wrong_method))
        .route("/v1/embeddings", post(embeddings).fallback(wrong_method))
        .route("/v1/models", get(models).fallback(wrong_method))
        .route("/v1/lineage/{id}", get(lineage).fallback(wrong_method))
        .route("/healthz", get(crate::health::alive))
        .route("/readyz", get(crate::health::ready_app))
        .fallback(unknown_url)
        .with_state(app)
}

async fn chat(State(app): Shared, ConnectInfo(peer): Peer, request: Request) -> Response {
    let (head, body) = take_apart(&app, peer, request);
    guarded(&app, head.id, async { Ok(ready(&app)?.chat(&head, body.read()).await) }).await
}

async fn embeddings(State(app): Shared, ConnectInfo(peer): Peer, request: Request) -> Response {
    let (head, body) = take_apart(&app, peer, request);
    guarded(&app, head.id, async { Ok(ready(&app)?.embeddings(&head, body.read()).await) }).await
}

async fn models(State(app): Shared, ConnectInfo(peer): Peer, request: Request) -> Response {
    let (head, _body) = take_apart(&app, peer, request);
    guarded(&app, head.id, async { Ok(ready(&app)?.models(&head).await) }).await
}

async fn lineage(State(app): Shared, ConnectInfo(peer): Peer, Path(id): Path<String>, request: Request) -> Response {
    let (head, _body) = take_apart(&app, peer, request);
    guarded(&app, head.id, async { Ok(ready(&app)?.lineage(&head, &id).await) }).await
}

async fn wrong_method(State(app): Shared, ConnectInfo(peer): Peer, request: Request) -> Response {
    let (head, _body) = take_apart(&app, peer, request);
    guarded(&app, head.id, async { Ok(ready(&app)?.unknown(&head, &Fault::WrongMethod)) }).await
}

async fn unknown_url(State(app): Shared, ConnectInfo(peer): Peer, request: Request) -> Response {
    let (head, _body) = take_apart(&app, peer, request);
    guarded(&app, head.id, async { Ok(ready(&app)?.unknown(&head, &Fault::UnknownUrl)) }).await
}

fn ready(app: &App) -> Result<&Arc<Pipeline>, Fault> {
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
        peer: peer.ip(),
        headers: parts.headers,
        received_ms,
        received: Instant::now(),
        takes_trailers,
    };
    let body = Inbound::new(&head.headers, body, app.max_body_bytes);
    (head, body)
}

fn takes_trailers(headers: &HeaderMap) -> bool {
    let values = headers.get_all(TE).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| coding.trim().eq_ignore_ascii_case("trailers"))
}

/// Runs a request so that a panic is one caller's 500: its record is written while the stack unwinds.
async fn guarded(app: &App, id: LineageId, work: impl Future<Output = Result<Reply, Fault>>) -> Response {
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(Ok(reply)) => response(reply),
        Ok(Err(fault)) => bare(&fault, None),
        Err(_) => {
            app.metrics.panicked();
            tracing::error!(%id, "a request panicked");
            bare(&Fault::Internal("panic".into()), Some(id))
        }
    }
}

fn response(reply: Reply) -> Response {
    let mut response = Response::new(Body::new(Edge::from(reply.body)));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::BAD_GATEWAY);
    *response.headers_mut() = reply.headers;
    response
}

/// A fault before or outside of the pipeline.
fn bare(fault: &Fault, id: Option<LineageId>) -> Response {
    let (status, body) = faces::plain(fault);
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(id) = id.and_then(|id| HeaderValue::from_str(&id.to_string()).ok()) {
        headers.insert("lineage-id", id);
    }
    if status == 503 {
        headers.insert(http::header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}
