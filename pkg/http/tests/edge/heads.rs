//! Heads that can be read in two ways, or ask for what is not done here.

use crate::fixture::{Edge, PATIENCE, ask};
use crate::slow::{chat, connect, until_the_end};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// All that comes back for these bytes, up to the end of the connection.
async fn said(to: SocketAddr, bytes: &str) -> String {
    let mut caller = connect(to).await;
    caller.write_all(bytes.as_bytes()).await.expect("it reads");
    until_the_end(&mut caller).await
}

/// A chat request with these lines behind the first one.
fn posted(lines: &str, body: &str) -> String {
    format!("POST /v1/chat/completions HTTP/1.1\r\n{lines}\r\n{body}")
}

/// The statuses of the answers that are in `said`.
fn statuses(said: &str) -> Vec<&str> {
    let lines = said.lines().filter_map(|line| Some(line.split_once("HTTP/1.")?.1));
    lines.filter_map(|line| line.split(' ').nth(1)).collect()
}

#[tokio::test]
async fn what_can_be_read_in_two_ways_is_refused_once_and_the_connection_ends() {
    let edge = Edge::new();
    let address = edge.listen(PATIENCE);
    let body = ask("m", false);
    let length = format!("Content-Length: {}\r\n", body.len());
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let behind = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
    let coded = |codings: &str| posted(&format!("Host: a\r\n{codings}"), &chunked);
    for (status, request) in [
        ("400", posted(&length, &body)),
        ("400", posted(&format!("Host: a\r\nHost: a\r\n{length}"), &body)),
        ("400", posted(&format!("Host: a, b\r\n{length}"), &body)),
        ("400", posted(&format!("Host: user@a\r\n{length}"), &body)),
        ("400", posted(&format!("Host: a/b\r\n{length}"), &body)),
        ("400", posted(&format!("Host : a\r\n{length}"), &body)),
        ("400", posted(&format!("Host: a\r\nX-A: b\r\n c\r\n{length}"), &body)),
        ("400", posted(&format!("Host: a\r\nX-A: b\rX-B: c\r\n{length}"), &body)),
        ("400", posted(&format!("Host: a\r\nContent-Length: 1\r\n{length}"), &body)),
        ("400", coded("Transfer-Encoding: xchunked\r\n")),
        ("400", coded("Transfer-Encoding: chunked\r\n").replace("HTTP/1.1", "HTTP/1.0")),
        ("501", coded("Transfer-Encoding: gzip, chunked\r\n")),
        ("501", coded("Transfer-Encoding: chunked, chunked\r\n")),
        ("501", coded("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n")),
        ("417", posted(&format!("Host: a\r\nExpect: more\r\n{length}"), &body)),
        ("417", posted(&format!("Host: a\r\nExpect: 100-continue, more\r\n{length}"), &body)),
        ("417", posted(&format!("Host: a\r\nExpect: 100-continue\r\nExpect: more\r\n{length}"), &body)),
    ] {
        let answer = said(address, &format!("{request}{behind}")).await;
        assert_eq!(statuses(&answer), [status], "{request}: {answer}");
    }
    assert_eq!(edge.mock.counts().requests, 0);
    let sound = [
        posted(&format!("Host: \r\nConnection: close\r\n{length}"), &body),
        posted(&format!("Host: [::1]:80\r\nConnection: close\r\n{length}"), &body),
        format!("POST /v1/chat/completions HTTP/1.0\r\n{length}\r\n{body}"),
        // The host of an absolute target counts, and that of the field does not (RFC 9112 §3.2.2).
        posted(&format!("Host: a\r\nConnection: close\r\n{length}"), &body).replace("/v1", "http://b/v1"),
        // RFC 9112 §2.2 lets a line end with LF alone, in a head.
        posted(&format!("Host: a\r\nConnection: close\r\n{length}"), &body).replace("\r\n", "\n"),
    ];
    for request in sound {
        let answer = said(address, &request).await;
        assert_eq!(statuses(&answer), ["200"], "{request}: {answer}");
    }
}

/// RFC 9112 §6.3: the chunks count, and the connection must end. The length is not passed on.
#[tokio::test]
async fn where_a_length_stands_beside_chunks_the_chunks_count_and_nothing_behind_them_is_a_request() {
    let edge = Edge::new();
    let address = edge.listen(PATIENCE);
    let body = ask("m", false);
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let behind = "GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n";
    for lines in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n".to_owned(),
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n".to_owned(),
        format!("Transfer-Encoding: chunked\r\nContent-Length: {}\r\n", chunked.len() + behind.len()),
    ] {
        let answer = said(address, &posted(&format!("Host: a\r\n{lines}"), &format!("{chunked}{behind}"))).await;
        assert_eq!(statuses(&answer), ["200"], "{lines}: {answer}");
    }
    let seen = edge.mock.requests();
    assert_eq!(seen.len(), 1, "the others are hits");
    let length = body.len().to_string();
    assert_eq!((seen[0].header("content-length"), seen[0].header("transfer-encoding")), (Some(length.as_str()), None));
}

#[tokio::test]
async fn chunk_sizes_that_can_be_read_in_two_ways_are_a_400() {
    let edge = Edge::new();
    let address = edge.listen(PATIENCE);
    for chunks in ["2\n{}\r\n0\r\n\r\n", "0x2\r\n{}\r\n0\r\n\r\n", "10000000000000002\r\n{}", "2;a\nb\r\n{}"] {
        let answer = said(address, &posted("Host: a\r\nTransfer-Encoding: chunked\r\n", chunks)).await;
        assert_eq!(statuses(&answer), ["400"], "{chunks:?}: {answer}");
    }
}

#[tokio::test]
async fn targets_of_other_forms_are_answered_and_open_no_tunnel() {
    let edge = Edge::new();
    let address = edge.listen(PATIENCE);
    for target in ["CONNECT a:80", "OPTIONS *", "GET //a", "GET /v1/../admin"] {
        let answer = said(address, &format!("{target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")).await;
        assert!(matches!(statuses(&answer)[..], ["404" | "405"]), "{target}: {answer}");
    }
    let upgrade = "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: upgrade, close\r\nUpgrade: h2c\r\n\r\n";
    assert_eq!(statuses(&said(address, upgrade).await), ["200"], "as if nothing had been asked");
}

#[tokio::test]
async fn a_refusal_for_the_head_arrives_though_its_sender_looks_only_behind_a_long_body() {
    let edge = Edge::new();
    let address = edge.listen(PATIENCE);
    let body = "x".repeat(3 << 20);
    for (status, lines) in [("400", ""), ("417", "Host: a\r\nExpect: more\r\n")] {
        let answer = said(address, &posted(&format!("{lines}Content-Length: {}\r\n", body.len()), &body)).await;
        assert_eq!(statuses(&answer), [status], "{answer}");
    }
}

/// The first line that comes for a head that announces a body and waits to be told to send it.
async fn first_line(caller: &mut TcpStream, path: &str, length: usize) -> String {
    let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\nExpect: 100-Continue\r\n\r\n");
    caller.write_all(head.as_bytes()).await.expect("it reads");
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.push(caller.read_u8().await.expect("a line"));
    }
    String::from_utf8(line).expect("text")
}

#[tokio::test]
async fn a_body_is_asked_for_only_once_it_will_be_read() {
    let edge = Edge::new();
    let address = edge.listen(PATIENCE);
    let (path, body) = ("/v1/chat/completions", ask("m", false));
    assert!(first_line(&mut connect(address).await, path, 2 << 20).await.starts_with("HTTP/1.1 413 "));
    assert!(first_line(&mut connect(address).await, "/v1/nothing", body.len()).await.starts_with("HTTP/1.1 404 "));
    let mut caller = connect(address).await;
    assert_eq!(first_line(&mut caller, path, body.len()).await, "HTTP/1.1 100 Continue\r\n");
    caller.write_all(body.as_bytes()).await.expect("it reads");
    let mut answer = Vec::new();
    while !String::from_utf8_lossy(&answer).contains("HTTP/1.1 200 OK\r\n") {
        assert_ne!(caller.read_buf(&mut answer).await.expect("an answer"), 0);
    }
    edge.app.health.drain();
    assert!(first_line(&mut connect(address).await, path, body.len()).await.starts_with("HTTP/1.1 503 "));
}

/// HTTP/2 is not spoken to callers, so that none of its floods has anything to flood.
#[tokio::test]
async fn frames_of_http_2_end_their_connection_unread_and_others_are_served() {
    let edge = Edge::new();
    let address = edge.listen(PATIENCE);
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
        let length = u8::try_from(payload.len()).expect("a small frame");
        [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
    };
    let floods = [
        [frame(1, 5, 1, &[0x82]), frame(3, 0, 1, &[0, 0, 0, 8])].concat().repeat(1000), // rapid reset
        [frame(1, 1, 1, &[0x82]), frame(9, 0, 1, &[0x82; 200]).repeat(1000)].concat(),  // CONTINUATION without end
        frame(4, 0, 0, &[0, 1, 0, 0, 0, 0].repeat(40)).repeat(1000),                    // SETTINGS
        frame(6, 0, 0, &[0; 8]).repeat(1000),                                           // PING
    ];
    let mut kept = connect(address).await;
    for flood in floods {
        let mut caller = connect(address).await;
        // It may have been left in the middle.
        let _cut = caller.write_all(&[preface, &flood[..]].concat()).await;
        let mut heard = Vec::new();
        let _reset = tokio::time::timeout(std::time::Duration::from_secs(30), caller.read_to_end(&mut heard))
            .await
            .expect("the connection ends");
        assert!(!heard.starts_with(b"\0"), "no frame comes back: {heard:?}");
    }
    kept.write_all(chat(&ask("m", false)).as_bytes()).await.expect("it reads");
    assert_eq!(kept.read_u8().await.expect("an answer"), b'H');
    assert_eq!(edge.mock.counts().requests, 1);
}
