//! Providers that take their time, on a clock that runs ahead of them.

use crate::fixture::{Edge, PATIENCE, With, ask};
use crate::slow::{chat, connect};
use signet_provider::Timeouts;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::join;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep};

pub(crate) const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const PING: &str = ": ping\n\n";

/// A provider on the test's own runtime, so that they share a clock.
pub(crate) struct Peer(TcpListener);

impl Peer {
    pub(crate) async fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.expect("a free port"))
    }

    /// A gateway before it.
    pub(crate) fn edge(&self, heartbeat: Duration, first_byte: Duration) -> Edge {
        let url = format!("http://{}/v1", self.0.local_addr().expect("bound"));
        let timeouts = Timeouts { first_byte, ..Timeouts::default() };
        Edge::with(With { provider: Some((url, timeouts)), heartbeat, ..With::default() })
    }

    /// The connection on which the next request has come.
    pub(crate) async fn asked(&self) -> TcpStream {
        let (mut wire, _) = self.0.accept().await.expect("a connection");
        let mut request = Vec::new();
        while !request.ends_with(b"}") {
            assert_ne!(wire.read_buf(&mut request).await.expect("a request"), 0);
        }
        wire
    }
}

pub(crate) async fn send(wire: &mut TcpStream, text: &str) {
    wire.write_all(text.as_bytes()).await.expect("an open connection");
}

fn chunked(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

fn event(delta: &str, finish: &str) -> String {
    let choice = format!(r#"{{"index":0,"delta":{delta},"finish_reason":{finish}}}"#);
    format!(
        "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{choice}]}}\n\n"
    )
}

/// A piece of an answer, as a chunk of the body.
pub(crate) fn piece(number: usize) -> String {
    chunked(&event(&format!(r#"{{"content":"{number} "}}"#), "null"))
}

/// The last events.
fn end() -> String {
    chunked(&format!("{}data: [DONE]\n\n", event("{}", "\"stop\"")))
}

/// The whole answer to a request for a stream on a connection of its own.
async fn answer(to: SocketAddr) -> String {
    let mut caller = connect(to).await;
    let request = chat(&ask("m", true)).replacen("\r\n", "\r\nConnection: close\r\n", 1);
    caller.write_all(request.as_bytes()).await.expect("it reads");
    let mut answer = String::new();
    caller.read_to_string(&mut answer).await.expect("an orderly end");
    answer
}

/// What the chunks of an answer's body hold.
fn body(answer: &str) -> String {
    let (_, mut rest) = answer.split_once("\r\n\r\n").expect("a head");
    let mut body = String::new();
    while let Some((size, more)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a size");
        body.push_str(&more[..size]);
        rest = &more[(size + 2).min(more.len())..];
    }
    body
}

#[tokio::test(start_paused = true)]
async fn a_first_byte_after_310_seconds_and_310_seconds_of_stream_reach_the_caller_whole() {
    let (peer, started) = (Peer::new().await, Instant::now());
    let edge = peer.edge(Duration::ZERO, Duration::from_mins(10));
    let provider = async {
        let mut wire = peer.asked().await;
        sleep(Duration::from_secs(310)).await;
        send(&mut wire, HEAD).await;
        for number in 0..31 {
            send(&mut wire, &piece(number)).await;
            sleep(Duration::from_secs(10)).await;
        }
        send(&mut wire, &format!("{}0\r\n\r\n", end())).await;
        wire
    };
    let (answer, _wire) = join!(answer(edge.listen(PATIENCE)), provider);
    assert!(started.elapsed() >= Duration::from_secs(620), "{:?}", started.elapsed());
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("0\r\n\r\n"), "{answer}");
    let said = body(&answer);
    assert_eq!(said.matches("data: ").count(), 31 + 2);
    assert!(said.ends_with("data: [DONE]\n\n") && !said.contains("error"), "{said}");
    assert_eq!(edge.records()[0]["response"]["outcome"], "complete");
}

#[tokio::test(start_paused = true)]
async fn a_first_byte_beyond_its_limit_is_a_504_in_json_just_then() {
    let (peer, started) = (Peer::new().await, Instant::now());
    let edge = peer.edge(Duration::from_secs(15), Duration::from_mins(5));
    let (answer, _wire) = join!(answer(edge.listen(PATIENCE)), peer.asked());
    assert_eq!(started.elapsed().as_secs(), 300);
    assert!(answer.starts_with("HTTP/1.1 504 ") && answer.contains("x-should-retry: false\r\n"), "{answer}");
    assert!(answer.contains("content-type: application/json\r\n") && answer.contains("\"upstream_error\""), "{answer}");
    assert_eq!(edge.records()[0]["response"]["outcome"], "timeout");
}

#[tokio::test(start_paused = true)]
async fn signs_of_life_stand_in_the_silence_only_and_none_come_behind_the_end_or_where_they_are_off() {
    for (heartbeat, signs) in [(Duration::ZERO, 0), (Duration::from_secs(15), 6), (Duration::from_millis(100), 1000)] {
        let peer = Peer::new().await;
        let edge = peer.edge(heartbeat, Duration::from_mins(10));
        let provider = async {
            let mut wire = peer.asked().await;
            send(&mut wire, &format!("{HEAD}{}", piece(0))).await;
            sleep(Duration::from_millis(100_050)).await;
            send(&mut wire, &end()).await;
            wire // It never ends its body.
        };
        let (answer, _wire) = join!(answer(edge.listen(PATIENCE)), provider);
        let said = body(&answer);
        assert_eq!(said.matches(PING).count(), signs, "{heartbeat:?}");
        assert!(said.ends_with("data: [DONE]\n\n") && answer.ends_with("0\r\n\r\n"), "{heartbeat:?}: {said}");
        let before_the_end = said.split("\"stop\"").next().expect("a part").matches(PING).count();
        assert_eq!(before_the_end, signs, "{heartbeat:?}");
    }
}
