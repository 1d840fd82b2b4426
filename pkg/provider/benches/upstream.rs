//! What one upstream exchange costs, beside two other ways of making it, in one interleaved run:
//!
//! - `signet`: this crate, the connection polled in the reading task;
//! - `spawned`: hyper's connection in a task of its own, which is how most pools work, without any pool or limit around it;
//! - `legacy`: hyper-util's pooled client.
//!
//! The peer answers literal bytes from a thread of its own. Run with `cargo bench -p signet-provider`; compare rows of one
//! run only. For streams the number of pieces matters as much as the time: each becomes a write towards the caller.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use signet_dialect::Api;
use signet_provider::{Auth, Call, HttpProvider, Provider, ProviderConfig, RequestHeaders};
use std::future::poll_fn;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const CHUNKS: usize = 74;
const ROUNDS: usize = 15;

fn main() {
    let peer = start_peer();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        for (path, requests) in [("/json", 2000), ("/burst", 400), ("/paced", 200)] {
            for concurrency in [1, 16] {
                compare(peer, path, requests, concurrency).await;
            }
        }
    });
}

/// A server that reads requests without looking at more than their target and length.
fn start_peer() -> SocketAddr {
    let (told, address) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            told.send(listener.local_addr().expect("bound")).expect("main waits");
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                stream.set_nodelay(true).expect("a socket");
                tokio::spawn(serve(stream));
            }
        });
    });
    address.recv().expect("the peer starts")
}

async fn serve(mut stream: TcpStream) {
    let json =
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 578\r\n\r\n{}", "j".repeat(578));
    let chunk = format!("e4\r\n{}\r\n", "c".repeat(228));
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let burst = format!("{head}{}0\r\n\r\n", chunk.repeat(CHUNKS));
    let mut request = vec![0; 16 * 1024];
    loop {
        let read = stream.read(&mut request).await.unwrap_or(0); // our requests fit one read
        match request[..read].get(..10) {
            Some(b"POST /json") => write(&mut stream, &json).await,
            Some(b"POST /burs") => write(&mut stream, &burst).await,
            Some(b"POST /pace") => {
                write(&mut stream, head).await;
                for _ in 0..CHUNKS {
                    write(&mut stream, &chunk).await;
                    tokio::task::yield_now().await;
                }
                write(&mut stream, "0\r\n\r\n").await;
            }
            _ => return,
        }
    }
}

async fn write(stream: &mut TcpStream, text: &str) {
    let _ = stream.write_all(text.as_bytes()).await; // a client that is done may be gone
}

enum Way {
    Signet(Arc<HttpProvider>),
    Spawned(Vec<SendRequest<Full<Bytes>>>),
    Legacy(Box<Client<HttpConnector, Full<Bytes>>>),
}

/// Runs all three ways alternately and prints the medians of time and pieces per exchange.
async fn compare(peer: SocketAddr, path: &'static str, requests: usize, concurrency: usize) {
    let config =
        ProviderConfig::new("p".parse().expect("a name"), format!("http://{peer}{path}").parse().expect("a URL"));
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let mut spawned = Vec::new();
    for _ in 0..concurrency {
        let stream = TcpStream::connect(peer).await.expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        let (sender, connection) = handshake(TokioIo::new(stream)).await.expect("a connection");
        tokio::spawn(connection);
        spawned.push(sender);
    }
    let mut ways = [
        ("signet", Way::Signet(Arc::new(HttpProvider::new(config).expect("a provider")))),
        ("spawned", Way::Spawned(spawned)),
        ("legacy", Way::Legacy(Box::new(Client::builder(TokioExecutor::new()).build(connector)))),
    ];
    let mut times = [const { Vec::new() }; 3];
    let mut pieces = [0; 3];
    for round in 0..=ROUNDS {
        for (index, (_, way)) in ways.iter_mut().enumerate() {
            let started = Instant::now();
            pieces[index] = run(way, peer, path, requests, concurrency).await / requests;
            if round > 0 {
                times[index].push(started.elapsed() / u32::try_from(requests).expect("few"));
            }
        }
    }
    let mut out = std::io::stdout().lock();
    for (index, (name, _)) in ways.iter().enumerate() {
        times[index].sort_unstable();
        let (median, quiet) = (times[index][ROUNDS / 2], times[index][ROUNDS / 4]);
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        writeln!(
            out,
            "{path:<7} c={concurrency:<3} {name:<8} {:>8.1} us median {:>8.1} us quartile {:>4} pieces",
            us(median),
            us(quiet),
            pieces[index]
        )
        .expect("stdout");
    }
}

async fn run(way: &mut Way, peer: SocketAddr, path: &'static str, requests: usize, concurrency: usize) -> usize {
    let each = requests / concurrency;
    let mut workers = tokio::task::JoinSet::new();
    match way {
        Way::Signet(client) => {
            for _ in 0..concurrency {
                let client = Arc::clone(client);
                workers.spawn(async move {
                    let mut pieces = 0;
                    for _ in 0..each {
                        let mut body = client.send(call()).await.expect("an answer").body;
                        while let Some(piece) = poll_fn(|cx| body.poll_next(cx)).await {
                            pieces += usize::from(!piece.expect("complete").is_empty());
                        }
                    }
                    (pieces, None)
                });
            }
        }
        Way::Spawned(senders) => {
            for mut sender in senders.drain(..) {
                workers.spawn(async move {
                    let mut pieces = 0;
                    for _ in 0..each {
                        sender.ready().await.expect("keep-alive");
                        let response = sender.send_request(request(peer, path)).await.expect("an answer");
                        pieces += drain(response.into_body()).await;
                    }
                    (pieces, Some(sender))
                });
            }
        }
        Way::Legacy(client) => {
            for _ in 0..concurrency {
                let client = client.clone();
                workers.spawn(async move {
                    let mut pieces = 0;
                    for _ in 0..each {
                        let uri = format!("http://{peer}{path}");
                        let response = client.request(request(peer, &uri)).await.expect("an answer");
                        pieces += drain(response.into_body()).await;
                    }
                    (pieces, None)
                });
            }
        }
    }
    let mut pieces = 0;
    while let Some(done) = workers.join_next().await {
        let (count, sender) = done.expect("a worker");
        pieces += count;
        if let (Way::Spawned(senders), Some(sender)) = (&mut *way, sender) {
            senders.push(sender);
        }
    }
    pieces
}

fn body() -> Bytes {
    Bytes::from_static(&[b'q'; 900])
}

fn call() -> Call {
    Call {
        api: Api::Chat,
        model: None,
        method: Method::POST,
        query: None,
        fallback: false,
        headers: RequestHeaders::default(),
        body: body(),
        authorization: Auth::Provider,
        deadline: None,
        trail: None,
    }
}

fn request(peer: SocketAddr, uri: &str) -> Request<Full<Bytes>> {
    let request = Request::post(uri).header("host", peer.to_string()).header("accept-encoding", "identity");
    request.header("user-agent", "bench/1").body(Full::new(body())).expect("a request")
}

async fn drain(mut body: Incoming) -> usize {
    let mut pieces = 0;
    while let Some(frame) = body.frame().await {
        pieces += usize::from(frame.expect("complete").is_data());
    }
    pieces
}
