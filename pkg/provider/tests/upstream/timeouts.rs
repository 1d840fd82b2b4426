//! The four limits, each alone. Clocks are paused: seconds are virtual.

use crate::peer::{CHUNKED, Peer, call, chunk, next, pieces, text};
use signet_provider::{Call, ConnectCause, Provider, Timeouts, UpstreamError};
use std::time::Duration;
use tokio::join;
use tokio::time::Instant;

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const LIMITS: Timeouts = Timeouts { connect: s(5), first_byte: s(15), idle: s(20), total: s(300) };

#[tokio::test(start_paused = true)]
async fn a_silent_provider_is_given_up_at_the_first_byte_timeout() {
    let peer = Peer::plain().await;
    let client = peer.client_within(LIMITS);
    let started = Instant::now();
    let serve = async {
        let mut wire = peer.accept().await;
        wire.request().await;
        wire.closed().await;
    };
    let ask = async {
        let error = client.send(call("{}")).await.expect_err("nothing came");
        assert!(matches!(error, UpstreamError::FirstByteTimeout { waited } if waited == s(15)), "{error:?}");
        assert!(!error.is_unbilled());
        assert_eq!(started.elapsed().as_secs(), 15);
    };
    join!(ask, serve);
}

#[tokio::test(start_paused = true)]
async fn a_head_that_comes_a_byte_a_second_is_not_a_first_byte() {
    let peer = Peer::plain().await;
    let client = peer.client_within(LIMITS);
    let serve = async {
        let mut wire = peer.accept().await;
        wire.request().await;
        for byte in CHUNKED.bytes().cycle() {
            if tokio::io::AsyncWriteExt::write_all(&mut wire.stream, &[byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(s(1)).await;
        }
    };
    let head_takes = CHUNKED.len() as u64;
    assert!(head_takes > 15);
    let (reply, ()) = join!(client.send(call("{}")), async {
        tokio::select! {
            () = serve => {}
            () = tokio::time::sleep(s(head_takes + 1)) => {}
        }
    });
    let error = reply.expect_err("the head is not complete");
    assert!(matches!(error, UpstreamError::FirstByteTimeout { .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_falls_silent_ends_at_the_idle_timeout() {
    let peer = Peer::plain().await;
    let client = peer.client_within(LIMITS);
    let serve = async {
        let mut wire = peer.accept().await;
        wire.request().await;
        wire.send(format!("{CHUNKED}{}", chunk("one"))).await;
        wire
    };
    let (reply, mut wire) = join!(client.send(call("{}")), serve);
    let mut body = reply.expect("an answer").body;
    assert_eq!(next(&mut body).await.expect("a piece").expect("good"), "one");
    let silent = Instant::now();
    let error = next(&mut body).await.expect("not the end").expect_err("silence");
    assert!(matches!(error, UpstreamError::IdleTimeout { waited } if waited == s(20)), "{error:?}");
    assert_eq!(silent.elapsed().as_secs(), 20);
    assert!(next(&mut body).await.is_none());
    wire.closed().await; // before `body` is dropped
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_keeps_sending_outlives_every_limit_but_the_total() {
    let peer = Peer::plain().await;
    let client = peer.client_within(LIMITS);
    let serve = async {
        let mut wire = peer.accept().await;
        wire.request().await;
        wire.send(CHUNKED).await;
        while tokio::io::AsyncWriteExt::write_all(&mut wire.stream, chunk("more").as_bytes()).await.is_ok() {
            tokio::time::sleep(s(19)).await;
        }
    };
    let started = Instant::now();
    let ask = async {
        let (pieces, error) = pieces(client.send(call("{}")).await.expect("an answer").body).await;
        assert!(matches!(error, Some(UpstreamError::DeadlineExceeded { waited }) if waited == s(300)), "{error:?}");
        assert_eq!(started.elapsed().as_secs(), 300);
        assert_eq!(pieces.concat().len(), "more".len() * (300 / 19 + 1));
    };
    join!(ask, serve);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_makes_us_wait_is_ended_too() {
    let peer = Peer::plain().await;
    let client = peer.client_within(LIMITS);
    let serve = async {
        let mut wire = peer.accept().await;
        wire.request().await;
        wire.send(format!("{CHUNKED}{}0\r\n\r\n", chunk(&"x".repeat(50_000)).repeat(4))).await;
        wire
    };
    let (reply, _wire) = join!(client.send(call("{}")), serve);
    let mut body = reply.expect("an answer").body;
    next(&mut body).await.expect("a piece").expect("good");
    tokio::time::advance(s(300)).await;
    let (_, error) = pieces(body).await;
    assert!(matches!(error, Some(UpstreamError::DeadlineExceeded { .. })), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_callers_deadline_ends_the_exchange_before_the_providers_limits() {
    let peer = Peer::plain().await;
    let client = peer.client_within(LIMITS);
    let started = Instant::now();
    let asked = Call { deadline: Some(started + s(7)), ..call("{}") };
    let serve = async {
        let mut wire = peer.accept().await;
        wire.request().await;
        wire.closed().await;
    };
    let ask = async {
        let error = client.send(asked).await.expect_err("nothing came");
        assert!(matches!(error, UpstreamError::DeadlineExceeded { waited } if waited == s(7)), "{error:?}");
        assert_eq!(started.elapsed().as_secs(), 7);
    };
    join!(ask, serve);
}

#[tokio::test(start_paused = true)]
async fn a_slow_first_byte_within_its_limit_is_waited_for() {
    let peer = Peer::plain().await;
    let client = peer.client_within(LIMITS);
    let serve = async {
        let mut wire = peer.accept().await;
        wire.request().await;
        tokio::time::sleep(s(14)).await;
        wire.answer("{}").await;
        wire
    };
    let ask = async { text(client.send(call("{}")).await.expect("an answer")).await };
    let (answer, _wire) = join!(ask, serve);
    assert_eq!(answer.expect("complete"), "{}");
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_hangs_ends_at_the_connect_timeout_for_everyone_who_waits() {
    let peer = Peer::tls(&["h2"]).await;
    let client = peer.client_within(LIMITS);
    let started = Instant::now();
    let serve = async {
        let hanging = peer.accept_tcp().await;
        tokio::time::sleep(s(30)).await;
        drop(hanging);
    };
    let ask = async {
        for answer in futures_util::future::join_all((0..5).map(|_| client.send(call("{}")))).await {
            let error = answer.expect_err("no handshake");
            let timed_out = matches!(error, UpstreamError::Connect { cause: ConnectCause::Timeout, .. });
            assert!(timed_out && error.is_unbilled(), "{error:?}");
        }
        assert_eq!(started.elapsed().as_secs(), 5);
    };
    join!(ask, serve);
}
