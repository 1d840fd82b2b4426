//! A provider that answers every request with the same literal bytes: for wire forms that the mock does not speak.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) struct Canned {
    pub(crate) addr: SocketAddr,
    calls: Arc<AtomicUsize>,
}

impl Canned {
    /// Answers with `head` (status line and fields) and `body`, then closes. Its thread ends with the process.
    pub(crate) fn answering(head: &'static str, body: &'static str) -> Self {
        Self::in_turn(head, vec![body])
    }

    /// The same with the next of these bodies each time; the last one stays.
    pub(crate) fn in_turn(head: &'static str, bodies: Vec<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let addr = listener.local_addr().expect("a bound socket");
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if swallow(&stream).is_some() {
                    let call = counted.fetch_add(1, Ordering::SeqCst);
                    let body = bodies[call.min(bodies.len() - 1)];
                    let length = body.len();
                    let text =
                        format!("HTTP/1.1 {head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
                    (&stream).write_all(text.as_bytes()).ok();
                }
            }
        });
        Self { addr, calls }
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.addr)
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

/// Reads one request to its end.
fn swallow(stream: &TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    reader.read_exact(&mut vec![0; length]).ok()
}
