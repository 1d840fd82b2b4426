//! Answers that are complete before their request is: a server may then reset the stream (RFC 9113 §8.1).

use crate::peer::{Peer, call, exchange, ok, pieces, within};
use crate::wire2::{DATA, END_HEADERS, END_STREAM, HEADERS, NO_ERROR, RST_STREAM, STATUS_200, Wire2};
use signet_provider::Provider;
use tokio::io::AsyncReadExt;
use tokio::join;

/// The peer closes with bytes of the request unread, which resets the connection while the rest is being written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_stands_although_its_peer_wants_no_more_of_the_request() {
    for _ in 0..20 {
        let peer = Peer::plain().await;
        let client = peer.client();
        let serving = tokio::spawn(async move {
            let mut wire = peer.accept().await;
            let mut some = [0; 4096];
            wire.stream.read_exact(&mut some).await.expect("the beginning of a request");
            wire.send(ok("too large")).await;
        });
        let reply = within(client.send(call(&"x".repeat(8 << 20)))).await.expect("a head");
        let (body, error) = within(pieces(reply.body)).await;
        assert_eq!((body.concat(), error.map(|error| error.to_string())), (b"too large".to_vec(), None));
        serving.await.expect("it served");
    }
}

/// What is left of the request would stand before the next one.
#[tokio::test]
async fn a_connection_whose_answer_came_before_its_request_was_sent_takes_no_other() {
    let peer = Peer::plain().await;
    let client = peer.client();
    let serve = async {
        let mut first = peer.accept().await;
        first.stream.read_exact(&mut [0; 4096]).await.expect("the beginning of a request");
        first.send(ok("too large")).await;
        let mut second = peer.accept().await;
        second.request().await;
        second.answer("another").await;
        (first, second)
    };
    let ask = async {
        let first = exchange(&client, &"x".repeat(32 << 20)).await;
        (first, exchange(&client, "{}").await)
    };
    let ((first, second), _wires) = Box::pin(within(async { join!(ask, serve) })).await;
    assert_eq!((first.expect("an answer"), second.expect("an answer")), ("too large".into(), "another".into()));
}

/// More than the windows of a stream that has just begun.
fn long() -> String {
    "x".repeat(200_000)
}

#[tokio::test]
async fn a_whole_http2_answer_whose_stream_is_then_reset_without_an_error_is_whole() {
    let peer = Peer::tls(&["h2"]).await;
    let client = peer.client();
    let serve = async {
        let mut wire = Wire2::accept(&peer, 100).await;
        let asked = within(wire.frame()).await.expect("a request");
        assert_eq!(asked.kind, HEADERS);
        let on = asked.stream;
        let end = (RST_STREAM, 0, on, &NO_ERROR.to_be_bytes()[..]);
        let head = (HEADERS, END_HEADERS, on, STATUS_200);
        wire.send_at_once(&[head, (DATA, END_STREAM, on, b"too large"), end]).await;
        wire.all_is_read().await;
        wire
    };
    let (reply, _wire) = within(async { join!(client.send(call(&long())), serve) }).await;
    let (body, error) = within(pieces(reply.expect("a head").body)).await;
    assert_eq!((body.concat(), error.map(|error| error.to_string())), (b"too large".to_vec(), None));
}
