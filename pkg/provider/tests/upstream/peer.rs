//! Providers that say exactly what a test tells them to.

use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderName, HeaderValue, Method};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use signet_dialect::Api;
use signet_provider::{
    Auth, Call, Credential, HttpProvider, Provider, ProviderConfig, Reply, RequestHeaders, Timeouts, UpstreamBody,
    UpstreamError,
};
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A listener that answers nothing by itself.
pub(crate) struct Peer {
    listener: TcpListener,
    tls: Option<(TlsAcceptor, String)>,
}

impl Peer {
    pub(crate) async fn plain() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.expect("a free port"), tls: None }
    }

    /// Speaks TLS with a certificate of its own making and offers these protocols.
    pub(crate) async fn tls(alpn: &[&str]) -> Self {
        Self::tls_for(alpn, None).await
    }

    /// The same, for those only who show this certificate.
    pub(crate) async fn tls_for(alpn: &[&str], client: Option<&CertificateDer<'static>>) -> Self {
        let crypto = Arc::new(aws_lc_rs::default_provider());
        let verifier = match client {
            None => WebPkiClientVerifier::no_client_auth(),
            Some(client) => {
                let mut roots = RootCertStore::empty();
                roots.add(client.clone()).expect("a certificate");
                let built = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&crypto)).build();
                built.expect("a root")
            }
        };
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
        let mut config = ServerConfig::builder_with_provider(crypto)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![made.cert.der().clone()], key)
            .expect("a matching pair");
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let tls = Some((TlsAcceptor::from(Arc::new(config)), made.cert.pem()));
        Self { tls, ..Self::plain().await }
    }

    pub(crate) fn port(&self) -> u16 {
        self.listener.local_addr().expect("bound").port()
    }

    pub(crate) fn config(&self) -> ProviderConfig {
        let (scheme, host) = if self.tls.is_some() { ("https", "localhost") } else { ("http", "127.0.0.1") };
        let url = format!("{scheme}://{host}:{}/v1", self.port());
        let mut config = ProviderConfig::new("peer".parse().expect("a name"), url.parse().expect("a URL"));
        config.extra_ca_pem = self.tls.as_ref().map(|(_, pem)| pem.clone().into_bytes());
        config
    }

    pub(crate) fn client(&self) -> Arc<HttpProvider> {
        client(self.config())
    }

    pub(crate) fn client_within(&self, timeouts: Timeouts) -> Arc<HttpProvider> {
        client(ProviderConfig { timeouts, ..self.config() })
    }

    pub(crate) async fn accept_tcp(&self) -> TcpStream {
        let (stream, _) = self.listener.accept().await.expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        stream
    }

    pub(crate) async fn accept(&self) -> Wire {
        let stream = self.accept_tcp().await;
        self.serve(stream).await
    }

    /// Speaks what the peer speaks on a connection that came another way.
    pub(crate) async fn serve(&self, stream: TcpStream) -> Wire {
        let stream: Box<dyn Stream> = match &self.tls {
            None => Box::new(stream),
            Some((acceptor, _)) => Box::new(acceptor.accept(stream).await.expect("a handshake")),
        };
        Wire { stream }
    }

    /// Whether nobody is waiting to be accepted. Whoever connects on the loopback is in the backlog at once.
    pub(crate) async fn is_left_alone(&self) -> bool {
        for _ in 0..10 {
            tokio::task::yield_now().await; // the runtime polls its driver between two turns of this task
        }
        self.listener.accept().now_or_never().is_none()
    }
}

pub(crate) fn client(config: ProviderConfig) -> Arc<HttpProvider> {
    Arc::new(HttpProvider::new(config).expect("a good configuration"))
}

/// One connection as its server sees it.
pub(crate) struct Wire {
    pub(crate) stream: Box<dyn Stream>,
}

impl Wire {
    /// The next HTTP/1.1 request, head and body as they came; empty at the end of the connection.
    pub(crate) async fn request(&mut self) -> String {
        let mut raw = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&raw);
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                if body.len() >= length.map_or(0, |length| length.parse().expect("a number")) {
                    return text.into_owned();
                }
            }
            match self.stream.read_buf(&mut raw).await {
                Ok(0) | Err(_) => return String::new(),
                Ok(_) => {}
            }
        }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.expect("an open connection");
        self.stream.flush().await.expect("an open connection");
    }

    pub(crate) async fn answer(&mut self, body: &str) {
        self.send(ok(body)).await;
    }

    /// Returns when the other side has closed.
    pub(crate) async fn closed(&mut self) {
        let mut rest = Vec::new();
        let _ = within(self.stream.read_to_end(&mut rest)).await;
    }
}

pub(crate) fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

pub(crate) const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

pub(crate) fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

pub(crate) fn call(body: &str) -> Call {
    Call {
        api: Api::Chat,
        model: None,
        method: Method::POST,
        query: None,
        fallback: false,
        headers: RequestHeaders::default(),
        body: Bytes::copy_from_slice(body.as_bytes()),
        authorization: Auth::Provider,
        deadline: None,
        trail: None,
    }
}

/// A caller's own credential.
pub(crate) fn mine(header: &'static str, value: &'static str) -> Auth {
    Auth::Caller(Credential { name: HeaderName::from_static(header), value: HeaderValue::from_static(value) })
}

/// Sends `body` and reads the whole answer as text.
pub(crate) async fn exchange(client: &HttpProvider, body: &str) -> Result<String, UpstreamError> {
    text(client.send(call(body)).await?).await
}

pub(crate) async fn text(reply: Reply) -> Result<String, UpstreamError> {
    let bytes = reply.body.collect(usize::MAX).await?;
    Ok(String::from_utf8(bytes.to_vec()).expect("text"))
}

pub(crate) async fn next(body: &mut UpstreamBody) -> Option<Result<Bytes, UpstreamError>> {
    poll_fn(|cx| body.poll_next(cx)).await
}

/// All pieces up to the end or the error.
pub(crate) async fn pieces(mut body: UpstreamBody) -> (Vec<Bytes>, Option<UpstreamError>) {
    let mut pieces = Vec::new();
    loop {
        match next(&mut body).await {
            Some(Ok(piece)) => pieces.push(piece),
            Some(Err(error)) => return (pieces, Some(error)),
            None => return (pieces, None),
        }
    }
}

/// Fails a test that hangs instead of holding up the others.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), work).await.expect("the other side does nothing")
}
