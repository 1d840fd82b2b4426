//! The byte stream under a connection: TCP, perhaps under TLS, that can be asked whether the peer has closed it, and what
//! had reached the peer by then.

use socket2::{SockRef, TcpKeepalive};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// After this long without an acknowledgement the peer is taken for dead. It replaces HTTP/2 pings and finds a peer that
/// vanished while a reasoning model thinks for minutes.
const PEER_DEAD: Duration = Duration::from_secs(30);

/// What a connection's owner asks its socket, and hears from it.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Set while a read that would wait is to ask the kernel.
    pub(crate) probe: AtomicBool,
    /// Bytes given to TCP.
    written: AtomicU64,
    /// Bytes of answers, after TLS.
    received: AtomicU64,
    /// Bytes that TCP says the peer has acknowledged, when it had closed in order; 0: it has not, or nobody knows.
    acknowledged: AtomicU64,
}

/// How far a connection was before a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    written: u64,
    received: u64,
}

impl Watch {
    pub(crate) fn mark(&self) -> Mark {
        Mark { written: self.written.load(Relaxed), received: self.received.load(Relaxed) }
    }

    /// Whether nothing of what was to be written since `mark` can have been read: no byte of it was given to TCP, or
    /// [`Self::closed_untouched_since`].
    pub(crate) fn untouched_since(&self, mark: Mark) -> bool {
        self.written.load(Relaxed) == mark.written || self.closed_untouched_since(mark)
    }

    /// Whether the peer, after it had answered before, closed in order without a byte of an answer since `mark` and before a
    /// byte written since then had reached it.
    ///
    /// Each segment of TCP carries an acknowledgement of all that has come (RFC 9293 §3.10.7.4). So a peer that read the
    /// request acknowledged it with its FIN at the latest; if the FIN acknowledges none of it, the peer had closed before
    /// and cannot read it: what still comes is reset. (A peer that closes its side only and reads on could not answer.) A
    /// reset proves nothing: it may overtake the acknowledgement of what was read.
    pub(crate) fn closed_untouched_since(&self, mark: Mark) -> bool {
        let acknowledged = self.acknowledged.load(Relaxed);
        // One more than was written: Linux counts the SYN.
        let none_of_it = acknowledged > 0 && acknowledged <= mark.written + 1;
        none_of_it && mark.received > 0 && self.received.load(Relaxed) == mark.received
    }
}

/// A TCP stream that can be probed.
///
/// tokio learns of a FIN when its driver runs; between two turns of the driver a closed connection still looks open. While
/// `probe` is set, a read that would wait asks the kernel itself, so that a connection closed before we write is found
/// before we write: then a second attempt is certain not to repeat work.
#[derive(Debug)]
pub(crate) struct Tcp {
    stream: TcpStream,
    watch: Arc<Watch>,
}

impl Tcp {
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let socket = SockRef::from(&stream);
        let keepalive = TcpKeepalive::new().with_time(PEER_DEAD).with_interval(Duration::from_secs(10));
        socket.set_tcp_keepalive(&keepalive)?;
        #[cfg(target_os = "linux")]
        socket.set_tcp_user_timeout(Some(PEER_DEAD))?;
        Ok(Self { stream, watch: Arc::default() })
    }

    pub(crate) fn watch(&self) -> &Arc<Watch> {
        &self.watch
    }

    /// The peer has closed in order.
    fn note_end(&self) {
        self.watch.acknowledged.store(acknowledged(&self.stream).unwrap_or(0), Relaxed);
    }

    fn count(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = written {
            self.watch.written.fetch_add(bytes as u64, Relaxed);
        }
        written
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
            Poll::Pending if self.watch.probe.load(Relaxed) => self.ask_kernel(),
            other => other,
        }
    }
}

impl AsyncWrite for Tcp {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.count(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.count(result)
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

impl Socket {
    pub(crate) fn watch(&self) -> &Arc<Watch> {
        self.tcp().watch()
    }

    fn tcp(&self) -> &Tcp {
        match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let this = self.as_mut();
        let result = either!(this, stream => stream.poll_read(cx, buf));
        let tcp = self.tcp();
        match &result {
            Poll::Ready(Ok(())) if buf.filled().len() > before => {
                tcp.watch.received.fetch_add((buf.filled().len() - before) as u64, Relaxed);
            }
            Poll::Ready(Ok(())) if buf.remaining() > 0 => tcp.note_end(),
            // TLS that ends with TCP's FIN and without a close_notify of its own.
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => tcp.note_end(),
            _ => {}
        }
        result
    }
}

/// Bytes of ours that the peer's TCP has acknowledged on this connection, the SYN included (`tcpi_bytes_acked`, RFC 4898
/// tcpEStatsAppHCThruOctetsAcked).
#[cfg(target_os = "linux")]
fn acknowledged(stream: &TcpStream) -> Option<u64> {
    const IPPROTO_TCP: i32 = 6;
    const TCP_INFO: i32 = 11;
    /// Its place in struct tcp_info of <linux/tcp.h>, which only ever grows at its end.
    const BYTES_ACKED: std::ops::Range<usize> = 120..128;
    let mut info = [0_u8; 256];
    let length = uapi::getsockopt(stream.as_raw_fd(), IPPROTO_TCP, TCP_INFO, &mut info).ok()?;
    let bytes = info[..length].get(BYTES_ACKED)?;
    Some(u64::from_ne_bytes(bytes.try_into().expect("eight bytes")))
}

/// Elsewhere nobody knows, and nothing is concluded.
#[cfg(not(target_os = "linux"))]
fn acknowledged(_stream: &TcpStream) -> Option<u64> {
    None
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn small_writes_wait_for_no_acknowledgement_and_a_vanished_peer_is_noticed() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("a connection");
        let tcp = Tcp::new(stream).expect("a socket");
        assert!(
            tcp.stream.nodelay().expect("a socket"),
            "Nagle's algorithm costs 40 ms against delayed acknowledgements"
        );
        let socket = SockRef::from(&tcp.stream);
        assert!(socket.keepalive().expect("a socket"));
        #[cfg(target_os = "linux")]
        assert_eq!(socket.tcp_user_timeout().expect("a socket"), Some(PEER_DEAD));
    }
}
