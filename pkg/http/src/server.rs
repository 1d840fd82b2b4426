//! Listeners: connections, their limits, and their orderly end.
//!
//! One listener hands each connection to the lane with the fewest open ones. A lane is a thread with a runtime of its own:
//! a connection, its upstream call and its timers stay on one core, and no wake-up crosses threads. The listener is one,
//! not one a lane (SO_REUSEPORT), because that spreads by hash and leaves lanes idle where connections are few.
//!
//! `axum::serve` is not used: it has no limit on how long a head may take to arrive, and detecting HTTP/2 on every
//! plain-text connection costs a few microseconds a request.

use crate::pace::{Paced, Patience, Talk};
use crate::sound::{HEAD_MAX, flaw, refused};
use crate::tls::Tls;
use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use signet_telemetry::{Gauge, Metrics};
use socket2::{Domain, Protocol, Socket, Type};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

const BACKLOG: i32 = 1024;
/// Connections beyond the bound that are told so at a time; more are closed without a word.
const REFUSED_MAX: usize = 256;
/// How long one of those may take to ask.
const REFUSED_IDLE: Duration = Duration::from_secs(5);
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
    refused: Arc<AtomicUsize>,
}

impl Room {
    /// Room for so many; `refusing` answers one request of each further one, which then ends.
    pub fn new(connections: usize, refusing: Router) -> Self {
        Self { connections, refusing, refused: Arc::default() }
    }
}

/// How a listener serves.
pub struct Serving {
    /// Where its connections go; at least one.
    pub lanes: Vec<Lane>,
    /// A bound on them; none: no bound.
    pub room: Option<Room>,
    /// What callers are shown over TLS; none: no TLS.
    pub tls: Option<Arc<Tls>>,
    /// How long slow callers are borne with.
    pub patience: Patience,
    /// Metrics.
    pub metrics: Arc<Metrics>,
}

/// Serves until `stop`, then lets open exchanges end; returns when the last one has, or `grace` is over.
pub async fn serve(listener: TcpListener, serving: Serving, stop: CancellationToken, grace: Duration) {
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => hand_over(&serving, &graceful, &stop, stream, peer),
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

fn hand_over(
    serving: &Serving,
    graceful: &GracefulShutdown,
    stop: &CancellationToken,
    stream: TcpStream,
    peer: SocketAddr,
) {
    let (lanes, gauge) = (&serving.lanes, serving.metrics.connections());
    let lane = lanes.iter().min_by_key(|lane| lane.open.load(Ordering::Relaxed)).expect("a server has a lane");
    let open: usize = lanes.iter().map(|lane| lane.open.load(Ordering::Relaxed)).sum();
    let (router, keep_alive, open) = match serving.room.as_ref().filter(|room| open >= room.connections) {
        None => (&lane.router, true, Open::one_more(&lane.open, gauge)),
        Some(room) => {
            serving.metrics.limited("connections");
            if room.refused.load(Ordering::Relaxed) >= REFUSED_MAX {
                return;
            }
            (&room.refusing, false, Open::one_more(&room.refused, gauge))
        }
    };
    match prompt(stream).into_std() {
        Ok(stream) => {
            let patience = if keep_alive { serving.patience } else { short(serving.patience) };
            let metrics = serving.metrics.clone();
            let caller = Caller { peer, router: router.clone(), patience, keep_alive, metrics };
            let secured = serving.tls.clone().zip(Some(stop.clone()));
            drop(lane.runtime.spawn(connection(stream, secured, caller, graceful.watcher(), open)));
        }
        Err(error) => tracing::warn!(%error, "a connection was not handed over"),
    }
}

/// A socket on which small writes go out at once: Nagle's algorithm costs 40 ms against delayed acknowledgements.
fn prompt(stream: TcpStream) -> TcpStream {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY was not set");
    }
    stream
}

/// One that is one too many is told so soon, or not at all.
fn short(patience: Patience) -> Patience {
    Patience { idle: patience.idle.min(REFUSED_IDLE), ..patience }
}

/// How a connection is treated.
struct Caller {
    peer: SocketAddr,
    router: Router,
    patience: Patience,
    keep_alive: bool,
    metrics: Arc<Metrics>,
}

async fn connection(
    stream: std::net::TcpStream,
    secured: Option<(Arc<Tls>, CancellationToken)>,
    caller: Caller,
    watcher: Watcher,
    _open: Open,
) {
    let stream = match TcpStream::from_std(stream) {
        Ok(stream) => stream,
        Err(error) => return tracing::warn!(%error, "a connection was not taken over"),
    };
    let Some((tls, stop)) = secured else { return speak(stream, caller, watcher).await };
    let peer = caller.peer;
    let shaking = tokio::time::timeout(caller.patience.head, tls.acceptor().accept(stream));
    let shaken = tokio::select! {
        shaken = shaking => shaken,
        () = stop.cancelled() => return,
    };
    match shaken {
        Ok(Ok(stream)) => speak(stream, caller, watcher).await,
        Ok(Err(error)) => tracing::debug!(%error, %peer, "a TLS handshake failed"),
        Err(_) => caller.metrics.limited("slow_handshake"),
    }
}

async fn speak<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(socket: S, caller: Caller, watcher: Watcher) {
    let Caller { peer, router, patience, keep_alive, metrics } = caller;
    let talk = Arc::new(Talk::default());
    let socket = Paced::new(socket, patience, talk.clone(), metrics);
    let service = service_fn(move |mut request: http::Request<Incoming>| {
        let turn = talk.begin();
        let flaw = flaw(&request);
        request.extensions_mut().insert(ConnectInfo(peer));
        let request = request.map(|body| Body::new(turn.with(body)));
        let router = router.clone();
        async move {
            let response = match flaw {
                None => router.oneshot(request).await?,
                Some(status) => refused(status, request, patience),
            };
            Ok::<_, Infallible>(response.map(|body| turn.with(body)))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience.idle)
        .keep_alive(keep_alive)
        .max_buf_size(HEAD_MAX)
        // Whoever ends its sending side has left. One who has closed altogether looks the same until something is written to
        // it, and before its answer begins nothing is: to serve the few who only half-close, every call whose caller is gone
        // would run to its end and be paid for.
        .half_close(false)
        .serve_connection(TokioIo::new(socket), service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, %peer, "a connection ended early");
    }
}

/// Counts a connection while it is open.
struct Open(Arc<AtomicUsize>, Gauge);

impl Open {
    fn one_more(count: &Arc<AtomicUsize>, gauge: &Gauge) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        gauge.inc();
        Self(count.clone(), gauge.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
        self.1.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_a_caller_is_sent_in_small_writes_waits_for_no_acknowledgement() {
        let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
        let caller = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("it listens");
        let (accepted, _) = listener.accept().await.expect("a connection");
        assert!(prompt(accepted).nodelay().expect("a socket"));
        drop(caller);
    }
}
