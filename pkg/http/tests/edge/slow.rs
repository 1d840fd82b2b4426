//! Callers on real sockets that are slow on purpose, or go without a word.

use crate::fixture::{Edge, PATIENCE, ask};
use signet_http::Patience;
use signet_mock::Behaviour;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

const SOON: Duration = Duration::from_millis(100);

pub(crate) async fn connect(to: SocketAddr) -> TcpStream {
    TcpStream::connect(to).await.expect("the gateway listens")
}

pub(crate) fn chat(body: &str) -> String {
    let length = body.len();
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// What still comes until the other side hangs up, in whatever way.
pub(crate) async fn until_the_end(caller: &mut TcpStream) -> String {
    let mut seen = Vec::new();
    let reading = async {
        let mut piece = [0; 4096];
        while let Ok(n @ 1..) = caller.read(&mut piece).await {
            seen.extend_from_slice(&piece[..n]);
        }
    };
    tokio::time::timeout(Duration::from_secs(30), reading).await.expect("the connection ends");
    String::from_utf8(seen).expect("text")
}

pub(crate) async fn eventually(what: &str, fits: impl Fn() -> bool) {
    let started = Instant::now();
    while !fits() {
        assert!(started.elapsed() < Duration::from_secs(30), "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn limited(edge: &Edge, dimension: &str) -> Option<u64> {
    let name = format!("signet_limited_total{{dimension=\"{dimension}\"}} ");
    edge.app.metrics.encode().lines().find_map(|line| line.strip_prefix(&name)?.parse().ok())
}

#[tokio::test]
async fn a_head_that_does_not_end_is_cut_on_a_fresh_connection_and_on_a_kept_one() {
    let edge = Edge::new();
    let address = edge.listen(Patience { head: SOON, ..PATIENCE });
    for (number, before) in ["", "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"].into_iter().enumerate() {
        let mut caller = connect(address).await;
        caller.write_all(before.as_bytes()).await.expect("it reads");
        if !before.is_empty() {
            let mut answer = vec![0; 4096];
            let n = caller.read(&mut answer).await.expect("an answer");
            assert!(answer[..n].starts_with(b"HTTP/1.1 200 OK\r\n"));
        }
        caller.write_all(b"GET /healthz HT").await.expect("it reads");
        assert_eq!(until_the_end(&mut caller).await, "");
        assert_eq!(limited(&edge, "slow_head"), Some(number as u64 + 1));
    }
}

#[tokio::test]
async fn a_connection_at_rest_ends_in_its_time_and_an_answer_that_is_slow_to_come_is_no_rest() {
    let edge = Edge::new();
    edge.mock.script([Behaviour { latency_ms: Some(500), ..Behaviour::default() }]);
    let address = edge.listen(Patience { idle: SOON, head: SOON, write: SOON, body: SOON, ..PATIENCE });
    let mut caller = connect(address).await;
    caller.write_all(chat(&ask("m", false)).as_bytes()).await.expect("it reads");
    let answer = until_the_end(&mut caller).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with('}'), "{answer}");
    assert_eq!(until_the_end(&mut connect(address).await).await, "");
}

#[tokio::test]
async fn a_head_over_64_kb_is_a_431_that_arrives_however_much_follows() {
    let edge = Edge::new();
    let address = edge.listen(PATIENCE);
    for size in [65 << 10, 300 << 10] {
        let mut caller = connect(address).await;
        let head = format!("GET /healthz HTTP/1.1\r\nHost: a\r\nX-Long: {}\r\n\r\n", "x".repeat(size));
        caller.write_all(head.as_bytes()).await.expect("it is read to its end");
        let answer = until_the_end(&mut caller).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{size}: {answer:?}");
    }
    let mut caller = connect(address).await;
    let head =
        format!("GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Long: {}\r\n\r\n", "x".repeat(60_000));
    caller.write_all(head.as_bytes()).await.expect("it is read");
    assert!(until_the_end(&mut caller).await.starts_with("HTTP/1.1 200 OK\r\n"));
}

#[tokio::test]
async fn a_stream_that_nobody_reads_ends_as_an_abort_with_a_record() {
    let edge = Edge::new();
    edge.mock.script([Behaviour {
        answer_bytes: Some(12 << 20),
        chunks: Some(200),
        chunk_ms: Some(0),
        ..Behaviour::default()
    }]);
    let address = edge.listen(Patience { write: SOON, ..PATIENCE });
    let caller = TcpSocket::new_v4().expect("a socket");
    caller.set_recv_buffer_size(4096).expect("a small buffer");
    let mut caller = caller.connect(address).await.expect("the gateway listens");
    caller.write_all(chat(&ask("m", true)).as_bytes()).await.expect("it reads");
    eventually("a record", || !edge.records().is_empty()).await;
    assert_eq!(edge.records()[0]["response"]["outcome"], "client_abort");
    assert_eq!(limited(&edge, "slow_reader"), Some(1));
    eventually("no connection", || edge.app.metrics.connections().get() == 0).await;
}

/// Each goes at another point: before its head, in its head, in its body, in its answer.
#[tokio::test]
async fn after_a_thousand_aborted_connections_none_is_open() {
    let edge = Edge::new();
    let address = edge.listen(PATIENCE);
    let whole = chat(&ask("m", true));
    let (head, _) = whole.split_once("\r\n\r\n").expect("a request has a head");
    let parts = ["", "POST /v1/ch", &whole[..head.len() + 20], &whole];
    for batch in 0..10 {
        let mut callers = Vec::new();
        for number in 0..100 {
            let mut caller = connect(address).await;
            caller.write_all(parts[number % parts.len()].as_bytes()).await.expect("it reads");
            if number % 8 == 3 {
                caller.read_u8().await.expect("an answer begins");
            }
            callers.push(caller);
        }
        eventually("a hundred", || edge.app.metrics.connections().get() >= 100).await;
        for (number, caller) in callers.into_iter().enumerate() {
            if (number + batch) % 2 == 0 {
                caller.set_zero_linger().expect("a socket takes an option");
            }
        }
    }
    eventually("no connection", || edge.app.metrics.connections().get() == 0).await;
    let records = edge.records();
    assert!(
        records.iter().all(
            |record| record["response"]["outcome"] == "client_abort" || record["response"]["outcome"] == "complete"
        )
    );
    assert!(records.len() >= 500, "{}", records.len());
}
