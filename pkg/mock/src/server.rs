//! Sockets, threads and the handle that tests hold.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::behaviour::Behaviour;
use crate::goaway;
use crate::io::{Fate, Io};
use crate::journal::{Counts, Journal, Seen};
use crate::service::{Peer, handle};
use crate::tls;

/// Where and how a mock listens.
#[derive(Clone, Debug)]
pub struct Config {
    /// Port 0 takes a free one.
    pub listen: SocketAddr,
    /// Serve TLS with a certificate made at start.
    pub tls: bool,
    /// Offer HTTP/2 by ALPN beside HTTP/1.1; needs `tls`.
    pub h2: bool,
    /// Tell the first HTTP/2 connection to go away once so many requests are in flight, and answer only the first of them.
    pub goaway_at: Option<usize>,
    /// Threads, each with a runtime of its own; connections go to whichever accepts first.
    pub threads: usize,
    /// How many of the newest requests are remembered.
    pub keep: usize,
    /// Refuse requests without this bearer key; `None` takes every request.
    pub api_key: Option<String>,
    /// What applies where neither script nor header says otherwise.
    pub behaviour: Behaviour,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            tls: false,
            h2: false,
            goaway_at: None,
            threads: 1,
            keep: 10_000,
            api_key: None,
            behaviour: Behaviour::default(),
        }
    }
}

/// Why a mock did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// No thread or runtime could be had.
    #[error("cannot start a runtime")]
    Runtime(#[source] io::Error),
    /// No certificate could be made.
    #[error("cannot make a certificate")]
    Certificate(#[from] rcgen::Error),
    /// TLS refuses the certificate.
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
    /// HTTP/2 was asked for without TLS.
    #[error("h2 is chosen by ALPN and needs tls")]
    H2WithoutTls,
}

/// What all threads and connections share.
pub(crate) struct Shared {
    pub(crate) journal: Arc<Journal>,
    pub(crate) behaviour: Behaviour,
    pub(crate) api_key: Option<String>,
    idle_closer: watch::Sender<()>,
    goaway_at: Mutex<Option<usize>>,
}

impl Shared {
    pub(crate) fn close_idle(&self) {
        self.idle_closer.send_replace(());
    }
}

/// How long closing connections at rest is waited for.
const CLOSING: Duration = Duration::from_millis(200);

/// A running mock; dropping it closes its connections and ends its threads.
pub struct MockUpstream {
    address: SocketAddr,
    ca_pem: Option<String>,
    shared: Arc<Shared>,
    stop: CancellationToken,
    threads: Vec<JoinHandle<()>>,
}

impl MockUpstream {
    /// Listens and serves on threads of its own.
    ///
    /// # Errors
    /// When the address is taken or threads or a certificate cannot be had; nothing runs then.
    pub fn start(config: Config) -> Result<Self, StartError> {
        if config.h2 && !config.tls {
            return Err(StartError::H2WithoutTls);
        }
        let (acceptor, ca_pem) =
            if config.tls { tls::acceptor(config.h2).map(|(a, pem)| (Some(a), Some(pem)))? } else { (None, None) };
        let refused = |source| StartError::Listen { address: config.listen, source };
        let listener = std::net::TcpListener::bind(config.listen).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let shared = Arc::new(Shared {
            journal: Arc::new(Journal::new(config.keep)),
            behaviour: config.behaviour,
            api_key: config.api_key,
            idle_closer: watch::Sender::new(()),
            goaway_at: Mutex::new(config.goaway_at),
        });
        let mut mock = Self { address, ca_pem, shared, stop: CancellationToken::new(), threads: Vec::new() };
        for _ in 0..config.threads.max(1) {
            let listener = listener.try_clone().map_err(refused)?;
            mock.spawn(listener, acceptor.clone()).map_err(StartError::Runtime)?; // on error the drop ends the others
        }
        Ok(mock)
    }

    fn spawn(&mut self, listener: std::net::TcpListener, acceptor: Option<TlsAcceptor>) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (shared, stop) = (Arc::clone(&self.shared), self.stop.clone());
        let serve = async move {
            let listener = TcpListener::from_std(listener).expect("a listener in non-blocking mode");
            tokio::select! {
                () = accept(listener, acceptor, shared) => {}
                () = stop.cancelled() => {}
            }
        };
        // The runtime is dropped at the end of the thread and every connection task with it.
        let thread =
            std::thread::Builder::new().name("signet-mock".to_owned()).spawn(move || runtime.block_on(serve))?;
        self.threads.push(thread);
        Ok(())
    }

    /// The address it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// `http://ADDRESS/v1` (or https), as SDKs and the gateway's configuration want it.
    pub fn base_url(&self) -> String {
        format!("{}/v1", self.origin())
    }

    /// `http://ADDRESS` (or https), below which `/_mock/…` is.
    pub fn origin(&self) -> String {
        let scheme = if self.ca_pem.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// The certificate to trust, in PEM, when it serves TLS.
    pub fn ca_pem(&self) -> Option<&str> {
        self.ca_pem.as_deref()
    }

    /// The remembered requests, oldest first.
    pub fn requests(&self) -> Vec<Seen> {
        self.shared.journal.seen()
    }

    /// Totals since the start or the last [`reset`](Self::reset).
    pub fn counts(&self) -> Counts {
        self.shared.journal.counts()
    }

    /// Waits until the totals are as `wanted` says. It waits for ever: tests put their own timeout around it.
    pub async fn counts_when(&self, mut wanted: impl FnMut(&Counts) -> bool) -> Counts {
        let mut changed = self.shared.journal.subscribe();
        loop {
            changed.mark_unchanged();
            let counts = self.counts();
            if wanted(&counts) {
                return counts;
            }
            changed.changed().await.expect("the journal lives as long as self");
        }
    }

    /// Appends behaviours, each for the next request that it matches.
    pub fn script(&self, behaviours: impl IntoIterator<Item = Behaviour>) {
        self.shared.journal.script(behaviours);
    }

    /// Forgets requests, totals and script.
    pub fn reset(&self) {
        self.shared.journal.reset();
    }

    /// Closes every connection on which no request is being answered, without a word, as an idle timeout would.
    pub fn close_idle(&self) {
        self.shared.close_idle();
        // A connection drops its receiver when it has closed; one that is busy keeps it, so the wait is short and bounded.
        let asked = Instant::now();
        while self.shared.idle_closer.receiver_count() > 0 && asked.elapsed() < CLOSING {
            std::thread::yield_now();
        }
    }
}

impl Drop for MockUpstream {
    fn drop(&mut self) {
        self.stop.cancel();
        for thread in self.threads.drain(..) {
            thread.join().ok(); // its panic message is on stderr already
        }
    }
}

async fn accept(listener: TcpListener, acceptor: Option<TlsAcceptor>, shared: Arc<Shared>) {
    loop {
        // An error concerns one connection (reset in the queue) or passes (no descriptors): let others go on.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        let (acceptor, shared) = (acceptor.clone(), Arc::clone(&shared));
        tokio::spawn(connection(stream, acceptor, shared));
    }
}

async fn connection(stream: TcpStream, acceptor: Option<TlsAcceptor>, shared: Arc<Shared>) {
    let connection = shared.journal.connected();
    stream.set_nodelay(true).ok();
    let fate = Arc::new(Fate::default());
    let io = Io::new(stream, Arc::clone(&fate));
    let peer = Arc::new(Peer { shared, fate, connection });
    let Some(acceptor) = acceptor else {
        return http1(io, peer).await;
    };
    let Ok(tls) = acceptor.accept(io).await else { return };
    if tls.get_ref().1.alpn_protocol() == Some(b"h2") { http2(tls, peer).await } else { http1(tls, peer).await }
}

async fn http1(io: impl AsyncRead + AsyncWrite + Unpin, peer: Arc<Peer>) {
    let service = service_fn({
        let peer = Arc::clone(&peer);
        move |request| handle(Arc::clone(&peer), request)
    });
    // Small bodies cost less copied behind their head than gathered by writev.
    let served = http1::Builder::new().writev(false).serve_connection(TokioIo::new(io), service);
    until_closed(served, &peer).await;
}

async fn http2(io: impl AsyncRead + AsyncWrite + Unpin, peer: Arc<Peer>) {
    let goaway_at = peer.shared.goaway_at.lock().take();
    if let Some(in_flight) = goaway_at {
        goaway::serve(io, in_flight, &peer).await.ok(); // ends with the client, one way or the other
        return;
    }
    let service = service_fn({
        let peer = Arc::clone(&peer);
        move |request| handle(Arc::clone(&peer), request)
    });
    let served = http2::Builder::new(TokioExecutor::new())
        .max_concurrent_streams(1024)
        .serve_connection(TokioIo::new(io), service);
    until_closed(served, &peer).await;
}

/// Errors need no ear: most are faults that were asked for, and clients see the rest.
async fn until_closed(served: impl Future<Output = hyper::Result<()>>, peer: &Peer) {
    let mut close_idle = peer.shared.idle_closer.subscribe();
    let mut served = std::pin::pin!(served);
    loop {
        tokio::select! {
            biased;
            _ = &mut served => return,
            _ = close_idle.changed() => if peer.fate.is_idle() { return },
        }
    }
}
