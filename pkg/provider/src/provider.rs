//! One HTTP provider: its connections, its credentials, its limits.

use crate::body::UpstreamBody;
use crate::call::{Auth, Call, Provider, Reply, Timings};
use crate::dial::{Dialed, Dialer, timed_out};
use crate::error::{ClosedWhen, ConnectCause, UpstreamError};
use crate::h1::{H1, Idle};
use crate::h2pool::{H2Pool, Lease};
use crate::headers::filter_response_headers;
use crate::limits::{Limits, Timeouts};
use crate::socket::Socket;
use async_trait::async_trait;
use h2::RecvStream;
use http::header::{self, HeaderMap, HeaderValue};
use http::uri::PathAndQuery;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use signet_types::{ProviderName, Secret};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout_at};
use url::{Position, Url};

const USER_AGENT: &str = concat!("signet/", env!("CARGO_PKG_VERSION"));

/// How to reach a provider.
#[derive(Debug)]
pub struct ProviderConfig {
    /// Its configured name.
    pub name: ProviderName,
    /// `http` or `https`, with the path that all calls share; a query is sent with every call.
    pub base_url: Url,
    /// Sent as a bearer token.
    pub api_key: Option<Secret<String>>,
    /// The four limits.
    pub timeouts: Timeouts,
    /// HTTP/1.1 connections kept at rest, at most.
    pub max_idle_per_host: usize,
    /// How long a connection rests before it is closed. Below what common upstreams and load balancers allow (60 s and
    /// more), so that it is rarely the peer who closes.
    pub pool_idle_timeout: Duration,
    /// Roots trusted beside the system's, PEM.
    pub extra_ca_pem: Option<Vec<u8>>,
}

impl ProviderConfig {
    /// A provider with the default limits: 100 connections at rest for 50 s.
    pub fn new(name: ProviderName, base_url: Url) -> Self {
        Self {
            name,
            base_url,
            api_key: None,
            timeouts: Timeouts::default(),
            max_idle_per_host: 100,
            pool_idle_timeout: Duration::from_secs(50),
            extra_ca_pem: None,
        }
    }
}

/// A configuration that no provider can be made of.
#[derive(Debug, thiserror::Error)]
pub enum ProviderConfigError {
    /// Not an http or https URL with a host, or one with credentials in it.
    #[error("the base URL needs http or https and a host, and holds no credentials")]
    BaseUrl,
    /// The key cannot stand in a header.
    #[error("the API key holds characters that a header cannot carry")]
    ApiKey,
    /// Not PEM certificates.
    #[error("the extra CA file holds no readable PEM certificate")]
    ExtraCa,
    /// No usable trust store.
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
}

/// A provider spoken to over HTTP: HTTP/2 where TLS agrees on it by ALPN, else HTTP/1.1.
pub struct HttpProvider {
    name: ProviderName,
    base_url: Url,
    target: Target,
    key: Option<HeaderValue>,
    timeouts: Timeouts,
    dialer: Dialer,
    idle: Arc<Idle>,
    shared: H2Pool,
    /// The last TLS handshake agreed on HTTP/1.1: connecting need not wait for its turn.
    h1_only: AtomicBool,
    /// Taken while a connection that may be shared is made, so that a burst waits for one instead of making many.
    turn: Mutex<()>,
}

impl HttpProvider {
    /// Prepares a provider; connects to nothing.
    ///
    /// # Errors
    /// [`ProviderConfigError`].
    pub fn new(config: ProviderConfig) -> Result<Self, ProviderConfigError> {
        let dialer = Dialer::new(&config.base_url, config.extra_ca_pem.as_deref())?;
        Ok(Self {
            name: config.name,
            target: Target::new(&config.base_url)?,
            base_url: config.base_url,
            key: config.api_key.as_ref().map(bearer).transpose()?,
            timeouts: config.timeouts,
            h1_only: AtomicBool::new(!dialer.is_tls()),
            dialer,
            idle: Arc::new(Idle::new(config.max_idle_per_host, config.pool_idle_timeout)),
            shared: H2Pool::new(config.pool_idle_timeout),
            turn: Mutex::default(),
        })
    }

    /// Closes connections that have rested too long. They are also closed as others come and go; call this now and then
    /// so that a quiet gateway holds no dead sockets.
    pub fn close_idle(&self) {
        self.idle.close_old();
        self.shared.close_old();
    }

    /// Connections at rest or shared, for a gauge.
    pub fn open_connections(&self) -> usize {
        self.idle.len() + self.shared.len()
    }

    async fn exchange(&self, call: &Call) -> Result<Reply, UpstreamError> {
        let mut limits = Limits::new(self.timeouts, call.deadline);
        let mut opened = self.open(&limits, true).await?;
        let mut answer = self.attempt(opened.connection, call, &mut limits).await;
        if opened.replayable && matches!(answer, Err(UpstreamError::Closed { when: ClosedWhen::Unprocessed, .. })) {
            // The one extra attempt: the connection was gone or refused the stream before anything was processed.
            opened = self.open(&limits, false).await?;
            answer = self.attempt(opened.connection, call, &mut limits).await;
        }
        let answer = answer?;
        limits.head();
        let timings = Timings { connect: opened.took, ttfb: limits.started().elapsed() };
        let (head, body) = match answer {
            Answer::H1(response, connection) => {
                let (head, incoming) = response.into_parts();
                (head, UpstreamBody::h1(incoming, connection, Arc::clone(&self.idle), limits))
            }
            Answer::H2(response, lease) => {
                let (head, incoming) = response.into_parts();
                (head, UpstreamBody::h2(incoming, lease, limits))
            }
        };
        refuse_encoded(&head.headers)?;
        let headers = filter_response_headers(&head.headers);
        Ok(Reply { status: head.status, headers, body, timings, reused: opened.reused, version: head.version })
    }

    /// Sends the request on this connection.
    async fn attempt(&self, on: Connection, call: &Call, limits: &mut Limits) -> Result<Answer, UpstreamError> {
        limits.connected();
        let headers = self.request_headers(call);
        match on {
            Connection::H1(mut connection) => {
                let mut request = Request::new(Full::new(call.body.clone()));
                *request.method_mut() = call.method.clone();
                *request.uri_mut() = self.target.origin_form(&call.path);
                *request.headers_mut() = headers;
                request.headers_mut().insert(header::HOST, self.target.authority.clone());
                let response = connection.exchange(request, limits).await?;
                Ok(Answer::H1(response, connection))
            }
            Connection::H2(lease) => {
                let mut request = Request::new(());
                *request.method_mut() = call.method.clone();
                *request.uri_mut() = self.target.absolute_form(&call.path);
                *request.headers_mut() = headers;
                request.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(call.body.len()));
                let response = lease.exchange(request, call.body.clone(), limits).await;
                if let Err(UpstreamError::Closed { .. } | UpstreamError::FirstByteTimeout { .. }) = &response {
                    self.shared.retire(&lease);
                }
                Ok(Answer::H2(response?, lease))
            }
        }
    }

    fn request_headers(&self, call: &Call) -> HeaderMap {
        let mut headers = call.headers.as_map().clone();
        let credential = match &call.authorization {
            Auth::Provider => self.key.clone().map(|key| (header::AUTHORIZATION, key)),
            Auth::Caller(own) => Some((own.name.clone(), own.value.clone())),
        };
        if let Some((name, mut value)) = credential {
            value.set_sensitive(true); // HPACK never indexes it, Debug never shows it
            headers.insert(name, value);
        }
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.entry(header::USER_AGENT).or_insert(HeaderValue::from_static(USER_AGENT));
        headers
    }

    /// A connection to send on: one at rest, a place on a shared one, or a fresh one.
    async fn open(&self, limits: &Limits, reuse: bool) -> Result<Opened, UpstreamError> {
        if let Some(connection) = reuse.then(|| self.idle.take()).flatten() {
            return Ok(Opened { connection: Connection::H1(connection), reused: true, replayable: true, took: None });
        }
        if let Some(lease) = self.shared.lease() {
            return Ok(Opened::shared(lease));
        }
        let by = limits.connect_by();
        let opened = match self.turn_to_dial(by).await {
            Ok(turn) => match self.shared.lease() {
                Some(lease) => return Ok(Opened::shared(lease)), // made while we waited for our turn
                None => self.dial(by, limits.started(), turn).await,
            },
            Err(error) => Err(error),
        };
        opened.map_err(|error| if limits.is_over() { limits.over() } else { error })
    }

    /// Waits while another request makes a connection that may be shared.
    async fn turn_to_dial(&self, by: Instant) -> Result<Option<MutexGuard<'_, ()>>, UpstreamError> {
        if self.h1_only.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let turn = timeout_at(by, self.turn.lock()).await.map_err(|_| timed_out())?;
        Ok((!self.h1_only.load(Ordering::Relaxed)).then_some(turn))
    }

    async fn dial(
        &self,
        by: Instant,
        since: Instant,
        turn: Option<MutexGuard<'_, ()>>,
    ) -> Result<Opened, UpstreamError> {
        let (connection, replayable) = match self.dialer.dial(by).await? {
            Dialed::Plain(tcp) => {
                let probe = tcp.probe();
                (Connection::H1(H1::start(Socket::Plain(tcp), probe).await?), false)
            }
            Dialed::Tls { stream, h2: false } => {
                self.h1_only.store(true, Ordering::Relaxed);
                let probe = stream.get_ref().0.probe();
                (Connection::H1(H1::start(Socket::Tls(stream), probe).await?), false)
            }
            Dialed::Tls { stream, h2: true } => {
                self.h1_only.store(false, Ordering::Relaxed);
                let added = timeout_at(by, self.shared.add(*stream)).await.map_err(|_| timed_out())?;
                let lease = added.map_err(|error| UpstreamError::connect(ConnectCause::Network, error))?;
                (Connection::H2(lease), true)
            }
        };
        drop(turn);
        Ok(Opened { connection, reused: false, replayable, took: Some(since.elapsed()) })
    }
}

#[async_trait]
impl Provider for HttpProvider {
    fn name(&self) -> &ProviderName {
        &self.name
    }

    fn base_url(&self) -> &str {
        self.base_url.as_str()
    }

    async fn send(&self, call: Call) -> Result<Reply, UpstreamError> {
        self.exchange(&call).await
    }
}

impl fmt::Debug for HttpProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpProvider").field("name", &self.name).finish_non_exhaustive()
    }
}

enum Connection {
    H1(H1),
    H2(Lease),
}

enum Answer {
    H1(Response<Incoming>, H1),
    H2(Response<RecvStream>, Lease),
}

struct Opened {
    connection: Connection,
    reused: bool,
    /// Whether an unprocessed request deserves the extra attempt. Not on a fresh HTTP/1.1 connection: a peer that accepts
    /// and closes would do so again.
    replayable: bool,
    /// How long it took to connect.
    took: Option<Duration>,
}

impl Opened {
    fn shared(lease: Lease) -> Self {
        Self { connection: Connection::H2(lease), reused: true, replayable: true, took: None }
    }
}

/// The part of every request's target that the provider's base URL fixes.
struct Target {
    authority: HeaderValue,
    origin: String,
    path: String,
    query: Option<String>,
}

impl Target {
    fn new(base: &Url) -> Result<Self, ProviderConfigError> {
        if !base.username().is_empty() || base.password().is_some() {
            return Err(ProviderConfigError::BaseUrl);
        }
        let authority = &base[Position::BeforeHost..Position::AfterPort];
        Ok(Self {
            authority: HeaderValue::from_str(authority).map_err(|_| ProviderConfigError::BaseUrl)?,
            origin: format!("{}://{authority}", base.scheme()),
            path: base.path().trim_end_matches('/').to_owned(),
            query: base.query().map(str::to_owned),
        })
    }

    fn origin_form(&self, path: &PathAndQuery) -> Uri {
        self.joined("", path)
    }

    fn absolute_form(&self, path: &PathAndQuery) -> Uri {
        self.joined(&self.origin, path)
    }

    fn joined(&self, origin: &str, path: &PathAndQuery) -> Uri {
        let query = match (&self.query, path.query()) {
            (Some(ours), Some(theirs)) => format!("?{ours}&{theirs}"),
            (Some(query), None) => format!("?{query}"),
            (None, Some(query)) => format!("?{query}"),
            (None, None) => String::new(),
        };
        let uri = format!("{origin}{}{}{query}", self.path, path.path());
        uri.parse().expect("the parts of valid URIs make a valid URI")
    }
}

fn bearer(key: &Secret<String>) -> Result<HeaderValue, ProviderConfigError> {
    let value = HeaderValue::from_str(&format!("Bearer {}", key.expose()));
    let mut value = value.map_err(|_| ProviderConfigError::ApiKey)?;
    value.set_sensitive(true);
    Ok(value)
}

/// We asked for identity and read what comes; passing on an encoding that the caller may not accept would be a lie.
fn refuse_encoded(headers: &HeaderMap) -> Result<(), UpstreamError> {
    match headers.get(header::CONTENT_ENCODING) {
        Some(value) if !value.as_bytes().eq_ignore_ascii_case(b"identity") => {
            Err(UpstreamError::UnsupportedEncoding { encoding: String::from_utf8_lossy(value.as_bytes()).into_owned() })
        }
        _ => Ok(()),
    }
}
