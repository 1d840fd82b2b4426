//! One HTTP provider: its connections, its credentials, its limits.

use crate::address::Address;
use crate::body::UpstreamBody;
use crate::call::{Auth, Call, Provider, Reply, Timings};
use crate::decode::Decoder;
use crate::dial::{Dialed, Dialer, Resolve, SystemResolver, timed_out};
use crate::error::{ClosedWhen, ConnectCause, UpstreamError};
use crate::fleet::Trail;
use crate::h1::H1;
use crate::h2pool::{H2Pool, Lease};
use crate::headers::{Forwarding, RequestHeaders, filter_response_headers};
use crate::idle::Idle;
use crate::limits::{Limits, Timeouts};
use crate::proxy::Proxy;
use crate::socket::Socket;
use crate::tls::ClientAuth;
use async_trait::async_trait;
use bytes::Bytes;
use h2::RecvStream;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Request, Response};
use sha2::{Digest, Sha256};
use signet_dialect::Api;
use signet_dialect::kinds::{Kind, OpenAi};
use signet_types::{ModelName, ProviderName, Secret};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout_at};
use url::Url;

/// The last status that has a class; what is over it is none (RFC 9110 §15).
const STATUS_MAX: u16 = 599;
const USER_AGENT: &str = concat!("signet/", env!("CARGO_PKG_VERSION"));

/// How to reach a provider.
#[derive(Debug)]
pub struct ProviderConfig {
    /// Its configured name.
    pub name: ProviderName,
    /// `http` or `https`, with the path that all calls share; a query is sent with every call.
    pub base_url: Url,
    /// Where its APIs are, and what it reads.
    pub kind: Arc<dyn Kind>,
    /// The APIs it has. None: those of its kind.
    pub apis: Option<Vec<Api>>,
    /// Callers' headers that it sees beside those of its kind.
    pub forward_headers: Vec<HeaderName>,
    /// Sent with every request, in place of what a caller sent.
    pub headers: HeaderMap,
    /// Sent as its kind wants it.
    pub api_key: Option<Secret<String>>,
    /// The four limits.
    pub timeouts: Timeouts,
    /// HTTP/1.1 connections kept at rest, at most.
    pub max_idle_per_host: usize,
    /// How long a connection rests before it is closed. Below what common upstreams and load balancers allow (60 s and
    /// more), so that it is rarely the peer who closes.
    pub pool_idle_timeout: Duration,
    /// How long a connection takes new requests, give or take a fifth. Then another is made, for which the provider's name is
    /// looked up again; what is under way on the old one goes on.
    pub connection_age_max: Duration,
    /// Roots trusted beside the system's, PEM.
    pub extra_ca_pem: Option<Vec<u8>>,
    /// The certificate to show, if the provider asks for one.
    pub client_auth: Option<ClientAuth>,
    /// The proxy on the way there.
    pub proxy: Option<Proxy>,
    /// Who knows the addresses of names.
    pub resolver: Arc<dyn Resolve>,
}

impl ProviderConfig {
    /// An OpenAI-compatible provider with the default limits: 1,024 connections at rest for 50 s, so that streams that began
    /// together and ended together find theirs again.
    pub fn new(name: ProviderName, base_url: Url) -> Self {
        Self {
            name,
            base_url,
            kind: Arc::new(OpenAi),
            apis: None,
            forward_headers: Vec::new(),
            headers: HeaderMap::new(),
            api_key: None,
            timeouts: Timeouts::default(),
            max_idle_per_host: 1024,
            pool_idle_timeout: Duration::from_secs(50),
            connection_age_max: Duration::from_mins(10),
            extra_ca_pem: None,
            client_auth: None,
            proxy: None,
            resolver: Arc::new(SystemResolver),
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
    /// Not a chain and its key.
    #[error("the client certificate and its key are no readable PEM, or do not belong together")]
    ClientAuth,
    /// Not the URL of an HTTP proxy.
    #[error("the proxy's URL needs http and a host")]
    Proxy,
    /// No usable trust store.
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
}

/// A provider spoken to over HTTP: HTTP/2 where TLS agrees on it by ALPN, else HTTP/1.1.
pub struct HttpProvider {
    name: ProviderName,
    base_url: Url,
    address: Address,
    kind: Arc<dyn Kind>,
    apis: Vec<Api>,
    forwarding: Forwarding,
    variant: Option<[u8; 32]>,
    credential: Option<(HeaderName, HeaderValue)>,
    timeouts: Timeouts,
    dialer: Dialer,
    connection_age_max: Duration,
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
        let dialer = Dialer::new(&config)?;
        let credential = |key: &Secret<String>| {
            let (header, value) = config.kind.credential(key.expose());
            secret(header, &value).ok_or(ProviderConfigError::ApiKey)
        };
        let spoken = || Api::ALL.into_iter().filter(|api| config.kind.speaks(*api)).collect();
        Ok(Self {
            variant: variant(&config),
            credential: config.api_key.as_ref().map(credential).transpose()?,
            apis: config.apis.clone().unwrap_or_else(spoken),
            name: config.name,
            address: Address::new(&config.base_url)?,
            base_url: config.base_url,
            kind: config.kind,
            forwarding: Forwarding { more: config.forward_headers, fixed: config.headers },
            timeouts: config.timeouts,
            h1_only: AtomicBool::new(!dialer.is_tls()),
            dialer,
            connection_age_max: config.connection_age_max,
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

    /// Posts something that belongs to no API to `path` below the base URL, with the provider's own credential.
    ///
    /// # Errors
    /// As [`Provider::send`].
    pub async fn post(
        &self,
        path: &PathAndQuery,
        headers: &RequestHeaders,
        body: Bytes,
        deadline: Option<Instant>,
    ) -> Result<Reply, UpstreamError> {
        let headers = finished(headers.as_map().clone(), self.credential.clone());
        let tail = path.path().to_owned();
        let call = Outgoing { method: Method::POST, tail, query: path.query(), headers, body, deadline, trail: None };
        Box::pin(self.exchange(&call)).await
    }

    fn outgoing<'c>(&self, call: &'c Call) -> Outgoing<'c> {
        let headers = self.forwarding.headers(&*self.kind, &call.headers, call.fallback);
        let credential = match &call.authorization {
            Auth::Provider => self.credential.clone(),
            Auth::Caller(own) => said_by(&*self.kind, &own.name, &own.value),
        };
        Outgoing {
            method: call.method.clone(),
            tail: self.kind.path(call.api, call.model.as_ref().map_or("", ModelName::as_str)),
            query: call.query.as_ref().and_then(PathAndQuery::query),
            headers: finished(headers, credential),
            body: call.body.clone(),
            deadline: call.deadline,
            trail: call.trail.as_deref(),
        }
    }

    async fn exchange(&self, call: &Outgoing<'_>) -> Result<Reply, UpstreamError> {
        let limits = Limits::new(self.timeouts, call.deadline);
        let opened = self.open(&limits, true).await?;
        self.exchange_on(opened, call, limits).await
    }

    async fn exchange_on(
        &self,
        mut opened: Opened,
        call: &Outgoing<'_>,
        mut limits: Limits,
    ) -> Result<Reply, UpstreamError> {
        let mut answer = self.attempt(opened.connection, call, &mut limits).await;
        if let Err(error @ UpstreamError::Closed { when: ClosedWhen::Unprocessed, .. }) = &answer
            && opened.replayable
        {
            // The one extra attempt: the connection was gone or refused the stream before anything was processed.
            if let Some(trail) = call.trail {
                trail.again(error.class(), limits.started().elapsed());
            }
            opened = self.open(&limits, false).await?;
            answer = self.attempt(opened.connection, call, &mut limits).await;
        }
        let answer = answer?;
        limits.head();
        let timings = Timings { connect: opened.took, ttfb: limits.started().elapsed() };
        let (head, body) = match answer {
            Answer::H1(response, connection) => {
                let (head, ()) = response.into_parts();
                (head, UpstreamBody::h1(connection, Arc::clone(&self.idle), limits))
            }
            Answer::H2(response, lease) => {
                let (head, incoming) = response.into_parts();
                (head, UpstreamBody::h2(incoming, lease, limits))
            }
        };
        if head.status.as_u16() > STATUS_MAX {
            return Err(UpstreamError::Protocol(format!("status {}", head.status.as_u16()).into()));
        }
        let body = body.decoded(Decoder::of(&head.headers)?);
        let headers = filter_response_headers(&head.headers, self.kind.request_id_header());
        Ok(Reply { status: head.status, headers, body, timings, reused: opened.reused, version: head.version })
    }

    /// Sends the request on this connection.
    async fn attempt(&self, on: Connection, call: &Outgoing<'_>, limits: &mut Limits) -> Result<Answer, UpstreamError> {
        limits.connected();
        let headers = call.headers.clone();
        match on {
            Connection::H1(mut connection) => {
                let mut request = Request::new(call.body.clone());
                *request.method_mut() = call.method.clone();
                *request.uri_mut() = self.address.origin_form(&call.tail, call.query);
                *request.headers_mut() = headers;
                if let Some(proxy) = self.dialer.forwarder() {
                    *request.uri_mut() = self.address.absolute_form(&call.tail, call.query);
                    let shown = proxy.authorization().cloned();
                    request.headers_mut().extend(shown.map(|value| (header::PROXY_AUTHORIZATION, value)));
                }
                request.headers_mut().insert(header::HOST, self.address.authority.clone());
                let response = connection.exchange(request, limits).await?;
                Ok(Answer::H1(response, connection))
            }
            Connection::H2(lease) => {
                let mut request = Request::new(());
                *request.method_mut() = call.method.clone();
                *request.uri_mut() = self.address.absolute_form(&call.tail, call.query);
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

    /// A connection to send on: one at rest, a place on a shared one, or a fresh one.
    async fn open(&self, limits: &Limits, reuse: bool) -> Result<Opened, UpstreamError> {
        if let Some(connection) = reuse.then(|| self.idle.take()).flatten() {
            return Ok(Opened::resting(connection));
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
        let unnamed = matches!(opened, Err(UpstreamError::Connect { cause: ConnectCause::Dns, .. }));
        // No address for a provider that can still be reached is no outage.
        match unnamed.then(|| self.retired(reuse)).flatten() {
            Some(old) => Ok(old),
            None => opened.map_err(|error| if limits.is_over() { limits.over() } else { error }),
        }
    }

    fn retired(&self, reuse: bool) -> Option<Opened> {
        match reuse.then(|| self.idle.take_retired()).flatten() {
            Some(connection) => Some(Opened::resting(connection)),
            None => self.shared.lease_retired().map(Opened::shared),
        }
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
        let dialed = self.dialer.dial(by).await?;
        let retires = retirement(self.connection_age_max);
        let (connection, replayable) = match dialed {
            Dialed::Plain(tcp) => (Connection::H1(H1::boxed(Socket::Plain(tcp), retires)), false),
            Dialed::Tls { stream, h2: false } => {
                self.h1_only.store(true, Ordering::Relaxed);
                (Connection::H1(H1::boxed(Socket::Tls(stream), retires)), false)
            }
            Dialed::Tls { stream, h2: true } => {
                self.h1_only.store(false, Ordering::Relaxed);
                let added = timeout_at(by, self.shared.add(*stream, retires)).await.map_err(|_| timed_out())?;
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

    fn variant(&self) -> Option<[u8; 32]> {
        self.variant
    }

    fn speaks(&self, api: Api) -> bool {
        self.apis.contains(&api)
    }

    fn forwards(&self, header: &str, fallback: bool) -> bool {
        self.forwarding.passes(&*self.kind, header, fallback)
    }

    async fn send(&self, call: Call) -> Result<Reply, UpstreamError> {
        if !self.speaks(call.api) {
            return Err(UpstreamError::NotSpoken { api: call.api });
        }
        self.exchange(&self.outgoing(&call)).await
    }
}

impl fmt::Debug for HttpProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpProvider").field("name", &self.name).finish_non_exhaustive()
    }
}

enum Connection {
    H1(Box<H1>),
    H2(Lease),
}

enum Answer {
    H1(Response<()>, Box<H1>),
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
    fn resting(connection: Box<H1>) -> Self {
        Self { connection: Connection::H1(connection), reused: true, replayable: true, took: None }
    }

    fn shared(lease: Lease) -> Self {
        Self { connection: Connection::H2(lease), reused: true, replayable: true, took: None }
    }
}

/// When a connection that is made now is too old. Within a fifth of `max_age`, so that those made together do not all end
/// together.
fn retirement(max_age: Duration) -> Instant {
    let thousandths = 800 + RandomState::new().hash_one(()) % 401;
    Instant::now() + max_age / 1000 * u32::try_from(thousandths).expect("at most 1200")
}

/// One request as it leaves, but for what differs between HTTP/1.1 and HTTP/2.
struct Outgoing<'c> {
    method: Method,
    /// Below the base URL.
    tail: String,
    query: Option<&'c str>,
    headers: HeaderMap,
    body: Bytes,
    deadline: Option<Instant>,
    trail: Option<&'c Trail>,
}

/// With what every request has.
fn finished(mut headers: HeaderMap, credential: Option<(HeaderName, HeaderValue)>) -> HeaderMap {
    headers.extend(credential);
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.entry(header::USER_AGENT).or_insert(HeaderValue::from_static(USER_AGENT));
    headers
}

/// A header that holds a secret: HPACK never indexes it, Debug never shows it.
fn secret(header: &'static str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some((HeaderName::from_static(header), value))
}

/// A caller's credential in the form that this kind of provider reads.
fn said_by(kind: &dyn Kind, header: &HeaderName, value: &HeaderValue) -> Option<(HeaderName, HeaderValue)> {
    let text = value.to_str().ok()?;
    if *header == header::AUTHORIZATION {
        let token = text.split_at_checked(7).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer "));
        return match token {
            Some((_, token)) if !kind.takes_bearer(token) => {
                let (header, value) = kind.credential(token);
                secret(header, &value)
            }
            _ => secret("authorization", text),
        };
    }
    let (header, value) = kind.credential(text);
    secret(header, &value)
}

/// What decides, beside URL and model, how the provider answers; none for what there was before there were kinds.
fn variant(config: &ProviderConfig) -> Option<[u8; 32]> {
    if config.kind.name() == "openai" && config.headers.is_empty() {
        return None;
    }
    let mut hash = Sha256::new_with_prefix(b"signet/provider/v1");
    let path = config.kind.path(Api::Chat, ""); // tells the shapes and versions of a kind apart
    let mut headers: Vec<_> = config.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    headers.sort_unstable();
    let headers = headers.into_iter().flat_map(|(name, value)| [name.as_bytes(), value]);
    for part in [config.kind.name().as_bytes(), path.as_bytes()].into_iter().chain(headers) {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    Some(hash.finalize().into())
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod replay_tests;
