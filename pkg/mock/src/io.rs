//! The socket below hyper, with the one thing hyper cannot do: end with a TCP reset.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// What is decided about a connection while requests on it are answered.
#[derive(Default)]
pub(crate) struct Fate {
    reset: AtomicBool,
    busy: AtomicUsize,
}

impl Fate {
    /// The connection ends with RST instead of FIN when it is dropped.
    pub(crate) fn reset(&self) {
        self.reset.store(true, Ordering::Relaxed);
    }

    pub(crate) fn request_begins(&self) {
        self.busy.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn request_ends(&self) {
        self.busy.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.busy.load(Ordering::Relaxed) == 0
    }
}

pub(crate) struct Io {
    stream: TcpStream,
    fate: Arc<Fate>,
}

impl Io {
    pub(crate) fn new(stream: TcpStream, fate: Arc<Fate>) -> Self {
        Self { stream, fate }
    }
}

impl Drop for Io {
    fn drop(&mut self) {
        if self.fate.reset.load(Ordering::Relaxed) {
            // Lingering for zero seconds makes close(2) send RST. If it fails, the client sees a plain close: the test
            // that wants a reset will say so.
            self.stream.set_zero_linger().ok();
        }
    }
}

impl AsyncRead for Io {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Io {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.fate.reset.load(Ordering::Relaxed) {
            return Poll::Ready(Ok(())); // no FIN before the RST
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
