//! The reference: a proxy as one writes it in an hour from hyper and hyper-util's pooled client.
//!
//! It streams both bodies, drops hop-by-hop headers (RFC 9110 §7.6.1) and does nothing else, on the usual multi-thread
//! runtime. What a gateway costs beyond this is the gateway's own doing.

use std::convert::Infallible;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use clap::Args;
use http::{HeaderName, Request, Response, StatusCode, Uri, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connect, Connected, Connection, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::target::Target;

const HOP_BY_HOP: [HeaderName; 6] =
    [header::CONNECTION, header::TE, header::TRAILER, header::TRANSFER_ENCODING, header::UPGRADE, header::HOST];

/// Flags of `signet-load relay`.
#[derive(Args, Debug)]
pub(crate) struct Flags {
    /// Address to listen on; port 0 takes a free one and prints it.
    #[arg(long, default_value = "127.0.0.1:9091")]
    listen: SocketAddr,
    /// Where every request goes.
    #[arg(long, value_name = "URL")]
    upstream: String,
    /// Certificate to trust for an https upstream.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

/// Serves until the process ends.
pub(crate) async fn run(flags: Flags) -> anyhow::Result<()> {
    let target = Target::new(&flags.upstream, flags.ca.as_deref())?;
    let builder = Client::builder(TokioExecutor::new());
    if target.tls.is_none() {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        return serve(flags.listen, builder.build(connector), target).await;
    }
    let secure = target.clone();
    let connector = tower::service_fn(move |_: Uri| Box::pin(secure_connection(secure.clone())));
    serve(flags.listen, builder.build(connector), target).await
}

async fn serve<C>(listen: SocketAddr, client: Client<C, Incoming>, target: Target) -> anyhow::Result<()>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let listener = TcpListener::bind(listen).await?;
    let mut out = std::io::stdout();
    writeln!(out, "listening on http://{}", listener.local_addr()?)?;
    out.flush()?;
    let origin: Arc<str> = target.origin().into();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (client, origin) = (client.clone(), Arc::clone(&origin));
        let service = service_fn(move |request| forward(client.clone(), Arc::clone(&origin), request));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

type Answer = Response<BoxBody<Bytes, hyper::Error>>;

async fn forward<C>(
    client: Client<C, Incoming>,
    origin: Arc<str>,
    request: Request<Incoming>,
) -> Result<Answer, Infallible>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let (mut head, body) = request.into_parts();
    let path = head.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let Ok(uri) = format!("{origin}{path}").parse() else { return Ok(refuse(StatusCode::BAD_REQUEST)) };
    head.uri = uri;
    head.version = http::Version::HTTP_11;
    for name in &HOP_BY_HOP {
        head.headers.remove(name);
    }
    match client.request(Request::from_parts(head, body)).await {
        Ok(mut answer) => {
            answer.headers_mut().remove(header::CONNECTION);
            answer.headers_mut().remove(header::TRANSFER_ENCODING);
            *answer.version_mut() = http::Version::HTTP_11;
            Ok(answer.map(BoxBody::new))
        }
        Err(_) => Ok(refuse(StatusCode::BAD_GATEWAY)),
    }
}

fn refuse(status: StatusCode) -> Answer {
    let mut answer = Response::new(Full::default().map_err(|never: Infallible| match never {}).boxed());
    *answer.status_mut() = status;
    answer
}

async fn secure_connection(target: Target) -> std::io::Result<Secure> {
    let stream = TcpStream::connect((target.host.as_str(), target.port)).await?;
    stream.set_nodelay(true)?;
    let config = target.tls.clone().ok_or_else(|| std::io::Error::other("only https targets come here"))?;
    let name = ServerName::try_from(target.host).map_err(std::io::Error::other)?;
    Ok(Secure(TokioIo::new(TlsConnector::from(config).connect(name, stream).await?)))
}

/// A TLS connection that tells hyper-util's pool which protocol ALPN chose.
struct Secure(TokioIo<TlsStream<TcpStream>>);

impl Connection for Secure {
    fn connected(&self) -> Connected {
        let h2 = self.0.inner().get_ref().1.alpn_protocol() == Some(b"h2");
        if h2 { Connected::new().negotiated_h2() } else { Connected::new() }
    }
}

impl hyper::rt::Read for Secure {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl hyper::rt::Write for Secure {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
