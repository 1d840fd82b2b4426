//! Listeners: connections, their limits, and their orderly end.
//!
//! One listener hands each connection to the lane with the fewest open ones. A lane is a thread with a runtime of its own:
//! a connection, its upstream call and its timers stay on one core, and no wake-up crosses threads. The listener is one,
//! not one a lane (SO_REUSEPORT), because that spreads by hash and leaves lanes idle where connections are few.
//!
//! `axum::serve` is not used: it has no limit on how long a head may take to arrive, and detecting HTTP/2 on every
//! plain-text connection costs a few microseconds a request.

use axum::Router;
use axum::extract::ConnectInfo;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use signet_telemetry::Metrics;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tower::Layer;
use tower::util::MapRequestLayer;

/// A head must have arrived within this time, idle keep-alive connections included.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);
const HEAD_MAX: usize = 64 << 10;
const BACKLOG: i32 = 1024;
/// Connections beyond the bound that are told so at a time; more are closed without a word.
const REFUSED_MAX: usize = 256;
/// After a failed accept, most often for want of file descriptors, a short rest spares a busy loop.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// Binds a listener whose address can be taken again at once after a restart.
///
/// # Errors
/// The address cannot be bound.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Where connections are served: a runtime and the routes on it.
pub struct Lane {
    runtime: Handle,
    router: Router,
    open: Arc<AtomicUsize>,
}

impl Lane {
    /// A lane on `runtime`, which should run on a thread of its own.
    pub fn new(runtime: Handle, router: Router) -> Self {
        Self { runtime, router, open: Arc::default() }
    }
}

/// How many connections a listener has at a time, and what those beyond are told. Without a bound, callers that open
/// connections and keep them would take every file descriptor, those of the log and of the providers too.
pub struct Room {
    connections: usize,
    refusing: Router,
    metrics: Arc<Metrics>,
    refused: Arc<AtomicUsize>,
}

impl Room {
    /// Room for so many; `refusing` answers one request of each further one, which then ends.
    pub fn new(connections: usize, refusing: Router, metrics: Arc<Metrics>) -> Self {
        Self { connections, refusing, metrics, refused: Arc::default() }
    }
}

/// Serves until `stop`, then lets open exchanges end; returns when the last one has, or `grace` is over.
pub async fn serve(
    listener: TcpListener,
    lanes: Vec<Lane>,
    room: Option<Room>,
    stop: CancellationToken,
    grace: Duration,
) {
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => hand_over(&lanes, room.as_ref(), &graceful, stream, peer),
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_REST).await;
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(grace, graceful.shutdown()).await.is_err() {
        tracing::warn!(?grace, "connections were still open at the end of the grace time");
    }
}

fn hand_over(lanes: &[Lane], room: Option<&Room>, graceful: &GracefulShutdown, stream: TcpStream, peer: SocketAddr) {
    let lane = lanes.iter().min_by_key(|lane| lane.open.load(Ordering::Relaxed)).expect("a server has a lane");
    let open: usize = lanes.iter().map(|lane| lane.open.load(Ordering::Relaxed)).sum();
    let (router, manners, open) = match room.filter(|room| open >= room.connections) {
        None => (&lane.router, SERVED, Open::one_more(&lane.open)),
        Some(room) => {
            room.metrics.limited("connections");
            if room.refused.load(Ordering::Relaxed) >= REFUSED_MAX {
                return;
            }
            (&room.refusing, REFUSED, Open::one_more(&room.refused))
        }
    };
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY was not set");
    }
    match stream.into_std() {
        Ok(stream) => {
            let work = connection(stream, peer, router.clone(), manners, graceful.watcher(), open);
            drop(lane.runtime.spawn(work));
        }
        Err(error) => tracing::warn!(%error, "a connection was not handed over"),
    }
}

/// How a connection is treated.
#[derive(Clone, Copy)]
struct Manners {
    head_timeout: Duration,
    keep_alive: bool,
}

const SERVED: Manners = Manners { head_timeout: HEAD_TIMEOUT, keep_alive: true };
const REFUSED: Manners = Manners { head_timeout: Duration::from_secs(5), keep_alive: false };

async fn connection(
    stream: std::net::TcpStream,
    peer: SocketAddr,
    router: Router,
    manners: Manners,
    watcher: Watcher,
    _open: Open,
) {
    let stream = match TcpStream::from_std(stream) {
        Ok(stream) => stream,
        Err(error) => return tracing::warn!(%error, "a connection was not taken over"),
    };
    let with_peer = MapRequestLayer::new(move |mut request: http::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        request.map(axum::body::Body::new)
    });
    let service = TowerToHyperService::new(with_peer.layer(router));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(manners.head_timeout)
        .keep_alive(manners.keep_alive)
        .max_buf_size(HEAD_MAX)
        .half_close(false)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, %peer, "a connection ended early");
    }
}

/// Counts a connection while it is open.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn one_more(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
