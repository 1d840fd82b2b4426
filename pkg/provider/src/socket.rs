//! The byte stream under a connection: TCP, perhaps under TLS, that can be asked whether the peer has closed it.

use socket2::{SockRef, TcpKeepalive};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// After this long without an acknowledgement the peer is taken for dead. It replaces HTTP/2 pings and finds a peer that
/// vanished while a reasoning model thinks for minutes.
const PEER_DEAD: Duration = Duration::from_secs(30);

/// A TCP stream that can be probed.
///
/// tokio learns of a FIN when its driver runs; between two turns of the driver a closed connection still looks open. While
/// `probe` is set, a read that would wait asks the kernel itself, so that a connection closed before we write is found
/// before we write: then a second attempt is certain not to repeat work.
#[derive(Debug)]
pub(crate) struct Tcp {
    stream: TcpStream,
    probe: Arc<AtomicBool>,
}

impl Tcp {
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let socket = SockRef::from(&stream);
        let keepalive = TcpKeepalive::new().with_time(PEER_DEAD).with_interval(Duration::from_secs(10));
        socket.set_tcp_keepalive(&keepalive)?;
        #[cfg(target_os = "linux")]
        socket.set_tcp_user_timeout(Some(PEER_DEAD))?;
        Ok(Self { stream, probe: Arc::default() })
    }

    pub(crate) fn probe(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.probe)
    }

    fn ask_kernel(&self) -> Poll<io::Result<()>> {
        let mut byte = [MaybeUninit::uninit()];
        match SockRef::from(&self.stream).peek(&mut byte) {
            Ok(0) => Poll::Ready(Ok(())),
            Ok(_) => Poll::Ready(Err(io::Error::other("the peer spoke on an idle connection"))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl AsyncRead for Tcp {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_read(cx, buf) {
            Poll::Pending if self.probe.load(Ordering::Relaxed) => self.ask_kernel(),
            other => other,
        }
    }
}

impl AsyncWrite for Tcp {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// What an HTTP/1.1 connection runs on.
#[derive(Debug)]
pub(crate) enum Socket {
    Plain(Tcp),
    Tls(Box<TlsStream<Tcp>>),
}

macro_rules! either {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Socket::Plain(stream) => {
                let $stream = Pin::new(stream);
                $call
            }
            Socket::Tls(stream) => {
                let $stream = Pin::new(stream.as_mut());
                $call
            }
        }
    };
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_read(cx, buf))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        either!(self, stream => stream.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, stream => stream.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_shutdown(cx))
    }
}
