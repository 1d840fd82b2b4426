//! One connection that asks one question at a time and notes when the answer's bytes arrive.
//!
//! Over plain TCP it is written by hand: a write, reads into one buffer, the parser of [`crate::wire`]. Over TLS hyper
//! does it, HTTP/2 where ALPN chooses that; streams of one HTTP/2 connection are shared by all clients of a side.

use std::time::Instant;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::prompts::Question;
use crate::target::Target;
use crate::wire::{Malformed, Parser, line};

const READ_BYTES: usize = 64 * 1024;

/// Why there is no answer to judge.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("connect")]
    Connect(#[source] std::io::Error),
    #[error("connection broke")]
    Broken(#[source] std::io::Error),
    #[error("cut off")]
    CutOff,
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("hyper: {0}")]
    Hyper(#[from] hyper::Error),
    #[error("bad request: {0}")]
    Request(#[from] http::Error),
}

/// When parts of one answer arrived.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    pub(crate) first: Option<Instant>,
    last: Option<Instant>,
    /// Nanoseconds between reads that brought a part of the body.
    pub(crate) gaps: Vec<u64>,
}

impl Arrivals {
    fn body_grew(&mut self) {
        let now = Instant::now();
        match self.last.replace(now) {
            Some(last) => self.gaps.push(nanos(now - last)),
            None => self.first = Some(now),
        }
    }

    fn begin(&mut self) {
        (self.first, self.last) = (None, None);
    }
}

/// A duration as a histogram takes it.
pub(crate) fn nanos(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) struct Client {
    target: Target,
    channel: Option<Channel>,
    pub(crate) parser: Parser,
    pub(crate) arrivals: Arrivals,
    /// Connections opened after the first.
    pub(crate) reconnects: u64,
    read: Vec<u8>,
}

enum Channel {
    Plain(TcpStream),
    H1(http1::SendRequest<Full<Bytes>>),
    H2(http2::SendRequest<Full<Bytes>>),
}

impl Client {
    /// `count` connected clients; they share one connection where it speaks HTTP/2.
    pub(crate) async fn several(target: &Target, count: usize) -> Result<Vec<Self>, Failure> {
        let mut clients: Vec<Self> = Vec::with_capacity(count);
        for _ in 0..count {
            let channel = match clients.first().and_then(|first| first.channel.as_ref()) {
                Some(Channel::H2(sender)) => Channel::H2(sender.clone()),
                _ => connect(target).await?,
            };
            clients.push(Self {
                target: target.clone(),
                channel: Some(channel),
                parser: Parser::new(),
                arrivals: Arrivals::default(),
                reconnects: 0,
                read: vec![0; READ_BYTES],
            });
        }
        Ok(clients)
    }

    /// Sends a question and reads the whole answer into [`Self::parser`].
    ///
    /// A kept connection that the server has closed meanwhile is replaced once, as every client does.
    pub(crate) async fn ask(&mut self, question: &Question) -> Result<(), Failure> {
        let kept = self.channel.is_some();
        let result = self.attempt(question).await;
        let stale = kept && result.is_err() && self.parser.is_untouched();
        if stale { self.attempt(question).await } else { result }
    }

    /// Sends a question over plain HTTP and reads its answer no further than so many events.
    pub(crate) async fn begin(&mut self, question: &Question, events: usize) -> Result<(), Failure> {
        self.parser.clear();
        let Some(Channel::Plain(stream)) = &mut self.channel else { return Err(Failure::CutOff) };
        stream.write_all(question.wire()).await.map_err(Failure::Broken)?;
        while memchr::memmem::find_iter(self.parser.body(), "data:").count() < events {
            let count = stream.read(&mut self.read).await.map_err(Failure::Broken)?;
            if count == 0 || self.parser.is_done() {
                return Err(Failure::CutOff);
            }
            self.parser.feed(&self.read[..count])?;
        }
        Ok(())
    }

    async fn attempt(&mut self, question: &Question) -> Result<(), Failure> {
        self.parser.clear();
        self.arrivals.begin();
        let channel = if let Some(kept) = self.channel.take() {
            kept
        } else {
            self.reconnects += 1;
            connect(&self.target).await?
        };
        let channel = self.exchange(channel, question).await?;
        self.channel = (!self.parser.must_close()).then_some(channel);
        Ok(())
    }

    async fn exchange(&mut self, channel: Channel, question: &Question) -> Result<Channel, Failure> {
        match channel {
            Channel::Plain(mut stream) => {
                stream.write_all(question.wire()).await.map_err(Failure::Broken)?;
                self.read_plain(&mut stream).await?;
                Ok(Channel::Plain(stream))
            }
            Channel::H1(mut sender) => {
                sender.ready().await?;
                let answer = sender.send_request(self.request(question, false)?).await?;
                self.read_hyper(answer).await?;
                Ok(Channel::H1(sender))
            }
            Channel::H2(mut sender) => {
                sender.ready().await?;
                let answer = sender.send_request(self.request(question, true)?).await?;
                self.read_hyper(answer).await?;
                Ok(Channel::H2(sender))
            }
        }
    }

    async fn read_plain(&mut self, stream: &mut TcpStream) -> Result<(), Failure> {
        while !self.parser.is_done() {
            let count = stream.read(&mut self.read).await.map_err(Failure::Broken)?;
            if count == 0 {
                return if self.parser.end() { Ok(()) } else { Err(Failure::CutOff) };
            }
            let before = self.parser.body().len();
            let used = self.parser.feed(&self.read[..count])?;
            if used < count {
                return Err(Failure::CutOff); // bytes nobody asked for: the framing is broken
            }
            if self.parser.body().len() > before {
                self.arrivals.body_grew();
            }
        }
        Ok(())
    }

    fn request(&self, question: &Question, absolute: bool) -> Result<http::Request<Full<Bytes>>, Failure> {
        let target = &self.target;
        let uri = if absolute { format!("{}{}", target.origin(), target.path) } else { target.path.clone() };
        let mut request = http::Request::post(uri);
        if !absolute {
            request = request.header(http::header::HOST, target.authority());
        }
        for (name, value) in &target.headers {
            request = request.header(name, value);
        }
        Ok(request.body(Full::new(Bytes::copy_from_slice(question.body())))?)
    }

    async fn read_hyper(&mut self, answer: http::Response<hyper::body::Incoming>) -> Result<(), Failure> {
        let (head, mut body) = answer.into_parts();
        self.parser.fill(head.status.as_u16(), |out| {
            for (name, value) in &head.headers {
                line(out, name.as_str(), value.as_bytes());
            }
        });
        while let Some(frame) = body.frame().await {
            let frame = frame?;
            if let Some(data) = frame.data_ref() {
                self.parser.push_body(data);
                self.arrivals.body_grew();
            }
            for (name, value) in frame.trailers_ref().into_iter().flatten() {
                self.parser.push_trailer(name.as_str(), value.as_bytes());
            }
        }
        self.parser.end();
        Ok(())
    }
}

async fn connect(target: &Target) -> Result<Channel, Failure> {
    let stream = TcpStream::connect((target.host.as_str(), target.port)).await.map_err(Failure::Connect)?;
    stream.set_nodelay(true).map_err(Failure::Connect)?;
    let Some(config) = &target.tls else { return Ok(Channel::Plain(stream)) };
    let name = ServerName::try_from(target.host.clone()).map_err(std::io::Error::other).map_err(Failure::Connect)?;
    let tls = TlsConnector::from(config.clone()).connect(name, stream).await.map_err(Failure::Connect)?;
    if tls.get_ref().1.alpn_protocol() == Some(b"h2") {
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(tls)).await?;
        tokio::spawn(connection);
        return Ok(Channel::H2(sender));
    }
    let (sender, connection) = http1::handshake(TokioIo::new(tls)).await?;
    tokio::spawn(connection);
    Ok(Channel::H1(sender))
}
