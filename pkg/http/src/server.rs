//! Listeners: connections, their limits, and their orderly end.
//!
//! `axum::serve` is not used: it has no limit on how long a head may take to arrive, and detecting HTTP/2 on every
//! plain-text connection costs a few microseconds a request.

use axum::Router;
use axum::extract::ConnectInfo;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
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

/// Serves until `stop`, then lets open exchanges end; returns when the last one has, or `grace` is over.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken, grace: Duration) {
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => connection(&graceful, stream, peer, router.clone()),
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

fn connection(graceful: &GracefulShutdown, stream: TcpStream, peer: SocketAddr, router: Router) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY was not set");
    }
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
    let watched = graceful.watch(connection);
    tokio::spawn(async move {
        if let Err(error) = watched.await {
            tracing::debug!(%error, %peer, "a connection ended early");
        }
    });
}
