//! Exchanges that one side ends early, and what the other still does.

use crate::kinds::{ask, fleet};
use crate::peer::{CHUNKED, Peer, Wire, call, chunk, client, exchange, next, within};
use crate::wire2::{DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, STATUS_200, Wire2};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use signet_provider::{Provider, ProviderConfig, RequestHeaders};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::io::AsyncReadExt;
use tokio::join;
use tokio::sync::oneshot;

/// Serves one connection: the first stream waits for a word, all others begin and go on after they were reset.
async fn late(mut wire: Wire2, finish: Option<oneshot::Receiver<()>>) {
    let (mut finish, mut first, mut gone) = (finish, None, Vec::new());
    loop {
        let frame = match &mut finish {
            Some(told) if first.is_some() => tokio::select! {
                frame = wire.frame() => frame,
                _ = told => {
                    finish = None;
                    wire.send(DATA, END_STREAM, first.expect("it is there"), b"whole").await;
                    continue;
                }
            },
            _ => wire.frame().await,
        };
        let Some(frame) = frame else { return };
        if frame.kind == RST_STREAM {
            gone.push(frame.stream);
            // What was on its way, and what a peer says that has not noticed for long.
            let forgotten = gone.len().checked_sub(100).map(|at| gone[at]);
            for stream in [Some(frame.stream), Some(frame.stream), forgotten].into_iter().flatten() {
                wire.send(DATA, 0, stream, &[b'x'; 1000]).await;
            }
        } else if frame.flags & END_STREAM != 0 {
            first = first.or(Some(frame.stream));
            wire.send(HEADERS, END_HEADERS, frame.stream, STATUS_200).await;
            wire.send(DATA, 0, frame.stream, b"one").await;
        }
    }
}

#[tokio::test]
async fn what_comes_late_for_cancelled_streams_ends_no_other_stream() {
    let peer = Peer::tls(&["h2"]).await;
    let client = peer.client();
    let (finish, told) = oneshot::channel();
    let served = tokio::spawn(async move {
        let mut told = Some(told);
        loop {
            tokio::spawn(late(Wire2::accept(&peer, 100).await, told.take()));
        }
    });
    let mut neighbour = within(client.send(call("{}"))).await.expect("an answer").body;
    assert_eq!(next(&mut neighbour).await.expect("a piece").expect("good"), "one");
    let mut fresh = 0;
    for _ in 0..1100 {
        let reply = within(client.send(call("{}"))).await.expect("an answer");
        fresh += u32::from(!reply.reused);
        let mut body = reply.body;
        assert_eq!(next(&mut body).await.expect("a piece").expect("good"), "one");
    }
    assert_eq!(fresh, 2, "a connection is left after 500 resets, and none before");
    finish.send(()).expect("the first connection is served");
    assert_eq!(within(next(&mut neighbour)).await.expect("a piece").expect("good"), "whole");
    assert!(within(next(&mut neighbour)).await.is_none());
    served.abort();
}

#[tokio::test]
async fn a_caller_who_leaves_while_uploading_closes_the_connection() {
    let peer = Peer::plain().await;
    let client = peer.client();
    let keep = Arc::clone(&client);
    let large = "x".repeat(64 << 20); // more than the kernel takes for a peer that does not read
    let size = large.len();
    let asking = tokio::spawn(async move { exchange(&client, &large).await });
    let mut wire = peer.accept().await;
    let mut some = [0; 1024];
    within(wire.stream.read_exact(&mut some)).await.expect("the upload has begun");
    asking.abort();
    let mut rest = Vec::new();
    let _ = within(wire.stream.read_to_end(&mut rest)).await;
    assert!(rest.len() < size / 2, "{} bytes were sent on", rest.len());
    assert_eq!(keep.open_connections(), 0);
}

/// Shuts the peer's side only, and keeps the connection.
async fn half_close(wire: &mut Wire) {
    tokio::io::AsyncWriteExt::shutdown(&mut wire.stream).await.expect("open");
}

#[tokio::test]
async fn a_peer_that_closes_its_side_only_has_ended_the_exchange() {
    for (size, before) in [(10, ""), (64 << 20, ""), (10, "HTTP/1.1 200 OK\r\n"), (10, CHUNKED)] {
        let peer = Peer::plain().await;
        let client = peer.client();
        let body = "x".repeat(size);
        let serve = async {
            let mut wire = peer.accept().await;
            wire.stream.read_exact(&mut [0; 10]).await.expect("a request");
            wire.send(before).await;
            half_close(&mut wire).await;
            wire
        };
        let (answer, _wire) = within(async { join!(exchange(&client, &body), serve) }).await;
        let error = answer.expect_err("no answer, or a cut one");
        assert!(!error.is_unbilled(), "{size} {before:?} {error:?}");
        assert_eq!(client.open_connections(), 0);
        assert!(peer.is_left_alone().await, "{size} {before:?}");
    }
}

/// How often `work` is polled while the runtime turns a thousand times: at first, and whenever it was woken.
async fn polls(work: impl Future) -> usize {
    let (mut work, mut polls) = (pin!(work), 0);
    let counted = poll_fn(|cx| {
        polls += 1;
        work.as_mut().poll(cx).map(drop)
    });
    let mut woken = FuturesUnordered::from_iter([counted]);
    for _ in 0..1000 {
        poll_fn(|cx| Poll::Ready(woken.poll_next_unpin(cx).is_ready())).await;
        tokio::task::yield_now().await;
    }
    drop(woken);
    polls
}

#[tokio::test]
async fn a_stream_that_says_nothing_costs_no_work() {
    let peer = Peer::plain().await;
    let client = peer.client();
    let serve = async {
        let mut wire = peer.accept().await;
        wire.request().await;
        wire.send(format!("{CHUNKED}{}", chunk("one"))).await;
        wire
    };
    let (reply, wire) = within(async { join!(client.send(call("{}")), serve) }).await;
    let mut body = reply.expect("an answer").body;
    assert_eq!(next(&mut body).await.expect("a piece").expect("good"), "one");
    let polls = polls(next(&mut body)).await;
    assert!(polls <= 4, "polled {polls} times for nothing");
    drop(wire);
}

#[tokio::test]
async fn an_upload_that_nobody_reads_costs_no_work_and_goes_on_when_it_is_read() {
    let peer = Peer::plain().await;
    let client = peer.client();
    let large = "x".repeat(64 << 20);
    let mut asking = Box::pin(exchange(&client, &large));
    let begun = async {
        let wire = peer.accept().await;
        for _ in 0..1000 {
            tokio::task::yield_now().await; // the kernel's buffers fill up
        }
        wire
    };
    let mut wire = tokio::select! {
        _ = &mut asking => panic!("nobody has answered"),
        wire = begun => wire,
    };
    let polls = polls(&mut asking).await;
    assert!(polls <= 4, "polled {polls} times for nothing");
    let serve = async {
        let mut left = large.len();
        let mut buffer = vec![0; 1 << 20];
        while left > 0 {
            left = left.saturating_sub(wire.stream.read(&mut buffer).await.expect("open"));
        }
        wire.answer("read").await;
        wire
    };
    let (answer, _wire) = within(async { join!(asking, serve) }).await;
    assert_eq!(answer.expect("complete"), "read");
}

#[tokio::test]
async fn with_two_targets_a_peer_that_accepts_and_closes_is_asked_once_and_nobody_else_is() {
    let (first, second) = (Peer::plain().await, Peer::plain().await);
    let named =
        |name: &str, peer: &Peer| client(ProviderConfig { name: name.parse().expect("a name"), ..peer.config() });
    let fleet = fleet(vec![named("first", &first), named("second", &second)]);
    let route = fleet.resolve(&"m".parse().expect("a name")).expect("configured");
    let (ask, body) = (ask(RequestHeaders::default()), |_: &signet_provider::Target, _| Bytes::from_static(b"{}"));
    let serve = async { drop(first.accept_tcp().await) };
    let (sent, ()) = within(async { join!(fleet.send(&route, &ask, &body), serve) }).await;
    assert_eq!(sent.expect_err("no answer").attempts.len(), 1);
    assert!(first.is_left_alone().await && second.is_left_alone().await);
}
