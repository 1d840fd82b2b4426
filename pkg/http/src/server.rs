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

/// Serves until `stop`, then lets open exchanges end; returns when the last one has, or `grace` is over.
pub async fn serve(listener: TcpListener, lanes: Vec<Lane>, stop: CancellationToken, grace: Duration) {
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => hand_over(&lanes, &graceful, stream, peer),
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

fn hand_over(lanes: &[Lane], graceful: &GracefulShutdown, stream: TcpStream, peer: SocketAddr) {
    let lane = lanes.iter().min_by_key(|lane| lane.open.load(Ordering::Relaxed)).expect("a server has a lane");
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY was not set");
    }
    match stream.into_std() {
        Ok(stream) => {
            let open = Open::one_more(&lane.open);
            drop(lane.runtime.spawn(connection(stream, peer, lane.router.clone(), graceful.watcher(), open)));
        }
        Err(error) => tracing::warn!(%error, "a connection was not handed over"),
    }
}

async fn connection(stream: std::net::TcpStream, peer: SocketAddr, router: Router, watcher: Watcher, _open: Open) {
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
        .header_read_timeout(HEAD_TIMEOUT)
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
