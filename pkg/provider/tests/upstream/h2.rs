//! HTTP/2 over TLS, against frames written by hand (RFC 9113 §4.1, §6).

use crate::peer::{CHUNKED, Peer, call, chunk, exchange, next, pieces, text, within};
use crate::wire2::{
    CANCEL, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, HEADERS, INTERNAL_ERROR, NO_ERROR, REFUSED_STREAM,
    RST_STREAM, STATUS_200, WINDOW_UPDATE, Wire2,
};
use futures_util::future::join_all;
use http::Version;
use signet_provider::{ClosedWhen, HttpProvider, Provider, ProviderConfig, Timeouts, UpstreamError};
use std::sync::Arc;
use std::time::Duration;
use tokio::join;

fn when(error: &UpstreamError) -> Option<ClosedWhen> {
    match error {
        UpstreamError::Closed { when, .. } => Some(*when),
        _ => None,
    }
}

/// Answers every request on every connection with its own body.
fn echo(peer: Peer, max_streams: u32) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            let mut wire = Wire2::accept(&peer, max_streams).await;
            tokio::spawn(async move {
                while let Some(frame) = wire.frame().await {
                    if frame.kind == DATA && frame.flags & END_STREAM != 0 {
                        wire.respond(frame.stream, &frame.payload).await;
                    }
                }
            });
        }
    })
}

async fn ask_all(client: &Arc<HttpProvider>, bodies: &[&str]) -> Vec<Result<String, UpstreamError>> {
    within(join_all(bodies.iter().map(|body| exchange(client, body)))).await
}

#[tokio::test]
async fn a_cold_burst_shares_one_http2_connection() {
    let peer = Peer::tls(&["h2", "http/1.1"]).await;
    let client = peer.client();
    let served = echo(peer, 100);
    let bodies: Vec<String> = (0..20).map(|n| format!("{{\"n\":{n}}}")).collect();
    let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
    let answers = ask_all(&client, &bodies).await;
    for (answer, body) in answers.into_iter().zip(&bodies) {
        assert_eq!(&answer.expect("complete"), body);
    }
    let reply = client.send(call("{}")).await.expect("an answer");
    assert_eq!((reply.version, reply.reused), (Version::HTTP_2, true));
    assert_eq!(client.open_connections(), 1);
    served.abort();
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_too_old_ends_its_streams_and_takes_no_new_ones() {
    let peer = Peer::tls(&["h2"]).await;
    let client = crate::peer::client(ProviderConfig { connection_age_max: Duration::from_secs(10), ..peer.config() });
    let mut old = None;
    let begin = async {
        let mut wire = Wire2::accept(&peer, 100).await;
        let (stream, _) = wire.request().await;
        wire.send(HEADERS, END_HEADERS, stream, STATUS_200).await;
        wire.send(DATA, 0, stream, b"one").await;
        old = Some((wire, stream));
    };
    let (reply, ()) = within(async { join!(client.send(call("{}")), begin) }).await;
    let mut body = reply.expect("an answer").body;
    assert_eq!(next(&mut body).await.expect("a piece").expect("good"), "one");
    tokio::time::advance(Duration::from_secs(13)).await;
    let serve = async {
        let mut wire = Wire2::accept(&peer, 100).await;
        let (stream, _) = wire.request().await;
        wire.respond(stream, b"fresh").await;
        wire
    };
    let (answer, _fresh) = within(async { join!(exchange(&client, "{}"), serve) }).await;
    assert_eq!(answer.expect("complete"), "fresh");
    let (mut wire, stream) = old.expect("begun");
    wire.send(DATA, END_STREAM, stream, b"two").await;
    let (rest, error) = within(pieces(body)).await;
    assert!(error.is_none() && rest.concat() == b"two", "{error:?}");
}

#[tokio::test]
async fn a_tls_provider_without_http2_is_spoken_to_in_http1() {
    let peer = Peer::tls(&["http/1.1"]).await;
    let client = peer.client();
    let serve = async {
        let mut wire = peer.accept().await;
        wire.request().await;
        wire.send(format!("{CHUNKED}{}0\r\n\r\n", chunk("one"))).await;
        wire.request().await;
        wire.answer("two").await;
        wire
    };
    let ask = async {
        let reply = client.send(call("{}")).await.expect("an answer");
        assert_eq!(reply.version, Version::HTTP_11);
        assert_eq!(text(reply).await.expect("complete"), "one");
        let reply = client.send(call("{}")).await.expect("an answer");
        assert!(reply.reused);
        text(reply).await.expect("complete")
    };
    let (second, _wire) = within(async { join!(ask, serve) }).await;
    assert_eq!(second, "two");
}

#[tokio::test]
async fn more_streams_than_the_peer_takes_get_a_connection_of_their_own() {
    let peer = Peer::tls(&["h2"]).await;
    let client = peer.client();
    let serve = async {
        let mut wires = vec![Wire2::accept(&peer, 2).await, Wire2::accept(&peer, 2).await];
        let mut streams = Vec::new();
        for _ in 0..2 {
            for wire in &mut wires {
                streams.push(wire.request().await.0);
            }
        }
        for (n, stream) in streams.into_iter().enumerate() {
            wires[n % 2].respond(stream, b"{}").await;
        }
        wires
    };
    let (answers, _wires) = join!(ask_all(&client, &["{}", "{}", "{}", "{}"]), serve);
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert!(peer.is_left_alone().await);
}

#[tokio::test]
async fn after_goaway_the_processed_streams_finish_and_only_the_others_are_sent_again() {
    let peer = Peer::tls(&["h2"]).await;
    let client = peer.client();
    let serve = async {
        let mut first = Wire2::accept(&peer, 100).await;
        let mut asked = Vec::new();
        for _ in 0..3 {
            asked.push(first.request().await);
        }
        let kept = asked[0].clone();
        first.go_away(kept.0, NO_ERROR).await;
        let mut second = Wire2::accept(&peer, 100).await;
        let mut again = Vec::new();
        for _ in 0..2 {
            let (stream, body) = second.request().await;
            second.respond(stream, format!("again {body}").as_bytes()).await;
            again.push(body);
        }
        first.respond(kept.0, format!("kept {}", kept.1).as_bytes()).await;
        again.sort();
        let mut others: Vec<_> = asked[1..].iter().map(|(_, body)| body.clone()).collect();
        others.sort();
        assert_eq!(again, others);
        (first, second, kept.1)
    };
    let (answers, (_first, _second, kept)) = join!(ask_all(&client, &["a", "b", "c"]), serve);
    for (answer, body) in answers.into_iter().zip(["a", "b", "c"]) {
        let expected = if kept == body { format!("kept {body}") } else { format!("again {body}") };
        assert_eq!(answer.expect("complete"), expected);
    }
    assert!(peer.is_left_alone().await);
}

#[tokio::test]
async fn a_provider_that_sends_every_connection_away_is_asked_twice_and_no_more() {
    let peer = Peer::tls(&["h2"]).await;
    let client = peer.client();
    let serve = async {
        let mut wires = Vec::new();
        for _ in 0..2 {
            let mut wire = Wire2::accept(&peer, 100).await;
            wire.request().await;
            wire.go_away(0, NO_ERROR).await;
            wires.push(wire);
        }
        wires
    };
    let (answer, _wires) = within(async { join!(exchange(&client, "{}"), serve) }).await;
    assert_eq!(when(&answer.expect_err("sent away")), Some(ClosedWhen::Unprocessed));
    assert!(peer.is_left_alone().await);
}

#[tokio::test]
async fn a_stream_lost_after_goaway_let_it_go_on_is_not_sent_again() {
    let peer = Peer::tls(&["h2"]).await;
    let client = peer.client();
    let serve = async {
        let mut wire = Wire2::accept(&peer, 100).await;
        let (stream, _) = wire.request().await;
        wire.go_away(stream, NO_ERROR).await; // this stream may have been processed; then the connection dies
    };
    let (answer, ()) = within(async { join!(exchange(&client, "{}"), serve) }).await;
    let error = answer.expect_err("lost");
    assert_eq!(when(&error), Some(ClosedWhen::BeforeHead));
    assert!(peer.is_left_alone().await);
}

#[tokio::test]
async fn a_refused_stream_is_sent_again_once_and_not_twice() {
    for refuse_again in [false, true] {
        let peer = Peer::tls(&["h2"]).await;
        let client = peer.client();
        let serve = async {
            let mut first = Wire2::accept(&peer, 100).await;
            let (stream, _) = first.request().await;
            first.reset(stream, REFUSED_STREAM).await;
            let mut second = Wire2::accept(&peer, 100).await;
            let (stream, _) = second.request().await;
            if refuse_again {
                second.reset(stream, REFUSED_STREAM).await;
            } else {
                second.respond(stream, b"{}").await;
            }
            (first, second)
        };
        let (answer, _wires) = within(async { join!(exchange(&client, "{}"), serve) }).await;
        match answer {
            Ok(text) => assert!(!refuse_again && text == "{}"),
            Err(error) => assert!(refuse_again && error.is_unbilled(), "{error:?}"),
        }
        assert!(peer.is_left_alone().await);
    }
}

#[tokio::test]
async fn a_stream_that_failed_inside_the_provider_is_not_sent_again() {
    let peer = Peer::tls(&["h2"]).await;
    let client = peer.client();
    let serve = async {
        let mut wire = Wire2::accept(&peer, 100).await;
        let (stream, _) = wire.request().await;
        wire.reset(stream, INTERNAL_ERROR).await;
        wire
    };
    let (answer, _wire) = within(async { join!(exchange(&client, "{}"), serve) }).await;
    assert_eq!(when(&answer.expect_err("reset")), Some(ClosedWhen::BeforeHead));
    assert!(peer.is_left_alone().await);
}

#[tokio::test]
async fn a_cut_http2_answer_is_an_error_after_the_bytes_that_came() {
    for by_reset in [true, false] {
        let peer = Peer::tls(&["h2"]).await;
        let client = peer.client();
        let serve = async {
            let mut wire = Wire2::accept(&peer, 100).await;
            let (stream, _) = wire.request().await;
            wire.send(HEADERS, END_HEADERS, stream, STATUS_200).await;
            wire.send(DATA, 0, stream, b"data: 1\n\n").await;
            (wire, stream)
        };
        let (reply, (mut wire, stream)) = within(async { join!(client.send(call("{}")), serve) }).await;
        let mut body = reply.expect("a head").body;
        assert_eq!(next(&mut body).await.expect("a piece").expect("good"), "data: 1\n\n");
        if by_reset {
            wire.reset(stream, INTERNAL_ERROR).await;
        } else {
            drop(wire);
        }
        let (rest, error) = within(pieces(body)).await;
        assert!(rest.is_empty());
        assert_eq!(when(&error.expect("not a clean end")), Some(ClosedWhen::MidBody));
    }
}

#[tokio::test]
async fn a_caller_who_leaves_resets_the_stream_in_both_modes() {
    let peer = Peer::tls(&["h2"]).await;
    let client = peer.client();
    let keep = Arc::clone(&client); // the pool lives on, so that it is the stream that ends
    let asking = tokio::spawn(async move { exchange(&client, "{}").await });
    let mut wire = Wire2::accept(&peer, 100).await;
    let (stream, _) = wire.request().await;
    asking.abort();
    assert_eq!(wire.reset_reason(stream).await, Some(CANCEL));

    let serve = async {
        let (stream, _) = wire.request().await;
        wire.send(HEADERS, END_HEADERS, stream, STATUS_200).await;
        wire.send(DATA, 0, stream, b"one").await;
        wire.send(DATA, 0, stream, b"two").await;
        stream
    };
    let (reply, stream) = within(async { join!(keep.send(call("{}")), serve) }).await;
    let mut body = reply.expect("an answer").body;
    next(&mut body).await.expect("a piece").expect("good");
    drop(body);
    assert_eq!(wire.reset_reason(stream).await, Some(CANCEL));
    assert!(peer.is_left_alone().await);
}

#[tokio::test]
async fn a_caller_who_leaves_while_uploading_resets_the_stream() {
    let peer = Peer::tls(&["h2"]).await;
    let client = peer.client();
    let keep = Arc::clone(&client);
    let large = "x".repeat(1 << 20); // beyond the 64 KiB window that the peer never opens further
    let asking = tokio::spawn(async move { exchange(&client, &large).await });
    let mut wire = Wire2::accept(&peer, 100).await;
    let frame = within(wire.frame()).await.expect("headers");
    asking.abort();
    assert_eq!(wire.reset_reason(frame.stream).await, Some(CANCEL));
    assert_eq!(keep.open_connections(), 1);
}

#[tokio::test]
async fn eleven_hundred_callers_may_leave_and_the_next_is_served() {
    let peer = Peer::tls(&["h2"]).await;
    let client = peer.client();
    let served = tokio::spawn(async move {
        loop {
            let mut wire = Wire2::accept(&peer, 100).await;
            tokio::spawn(async move {
                let mut resets = 0;
                while let Some(frame) = wire.frame().await {
                    if frame.kind == RST_STREAM {
                        resets += 1;
                        if resets == 1000 {
                            return wire.go_away(0, ENHANCE_YOUR_CALM).await;
                        }
                    } else if frame.flags & END_STREAM != 0 {
                        wire.send(HEADERS, END_HEADERS, frame.stream, STATUS_200).await;
                        wire.send(DATA, 0, frame.stream, b"one").await;
                    }
                }
            });
        }
    });
    let mut fresh = 0;
    for _ in 0..1100 {
        let reply = within(client.send(call("{}"))).await.expect("an answer");
        fresh += u32::from(!reply.reused);
        let mut body = reply.body;
        assert_eq!(next(&mut body).await.expect("a piece").expect("good"), "one");
    }
    let mut body = within(client.send(call("{}"))).await.expect("an answer").body;
    assert_eq!(next(&mut body).await.expect("a piece").expect("good"), "one");
    assert_eq!(fresh, 3, "a connection is left after 500 resets");
    served.abort();
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_did_not_answer_in_time_gets_no_further_request() {
    let peer = Peer::tls(&["h2"]).await;
    let client = peer.client_within(Timeouts { first_byte: Duration::from_secs(5), ..Timeouts::default() });
    let dead = async {
        let mut wire = Wire2::accept(&peer, 100).await;
        wire.request().await;
        wire
    };
    let (answer, _dead) = join!(exchange(&client, "{}"), dead);
    let error = answer.expect_err("nothing came");
    assert!(matches!(error, UpstreamError::FirstByteTimeout { .. }), "{error:?}");
    assert_eq!(client.open_connections(), 0);
    let alive = async {
        let mut wire = Wire2::accept(&peer, 100).await;
        let (stream, _) = wire.request().await;
        wire.respond(stream, b"{}").await;
        wire
    };
    let (answer, _wire) = join!(exchange(&client, "{}"), alive);
    assert_eq!(answer.expect("complete"), "{}");
}

#[tokio::test]
async fn http2_headers_of_17_kb_pass() {
    let peer = Peer::tls(&["h2"]).await;
    let client = peer.client();
    // HPACK literal without indexing, new name (RFC 7541 §6.2.2): name "x-long", then a value of 17,408 bytes in four
    // fields, each below the frame size limit, each length as a 7-bit-prefix integer (§5.1).
    let field = |n: u8| {
        let name = [b"x-long-".as_slice(), &[b'a' + n]].concat();
        let length = 4352 - 127;
        let prefix =
            [0x7f, 0x80 | u8::try_from(length % 128).expect("7 bits"), u8::try_from(length / 128).expect("7 bits")];
        [&[0, 8][..], &name, &prefix, "v".repeat(4352).as_bytes()].concat()
    };
    let fields: Vec<u8> = (0..4).flat_map(field).collect();
    let serve = async {
        let mut wire = Wire2::accept(&peer, 100).await;
        let (stream, _) = wire.request().await;
        let (one, two) = fields.split_at(9000);
        wire.send(HEADERS, 0, stream, &[STATUS_200, one].concat()).await;
        wire.send(9, END_HEADERS, stream, two).await; // CONTINUATION
        wire.send(DATA, END_STREAM, stream, b"{}").await;
        wire
    };
    let (reply, _wire) = within(async { join!(client.send(call("{}")), serve) }).await;
    let reply = reply.expect("an answer");
    let size: usize = ["a", "b", "c", "d"].iter().map(|n| reply.headers[format!("x-long-{n}")].len()).sum();
    assert_eq!(size, 17 * 1024);
    assert_eq!(text(reply).await.expect("complete"), "{}");
}

#[tokio::test]
async fn an_answer_larger_than_all_windows_flows() {
    const SIZE: usize = 12 << 20;
    let peer = Peer::tls(&["h2"]).await;
    let client = peer.client();
    let serve = async {
        let mut wire = Wire2::accept(&peer, 100).await;
        let (stream, _) = wire.request().await;
        wire.send(HEADERS, END_HEADERS, stream, STATUS_200).await;
        let mut sent = 0;
        while sent < SIZE {
            while wire.window(stream) < 16384 {
                within(wire.raw_frame()).await.expect("a window update");
            }
            wire.spend(stream, 16384);
            sent += 16384;
            wire.send(DATA, if sent == SIZE { END_STREAM } else { 0 }, stream, &[b'd'; 16384]).await;
        }
        wire
    };
    let ask = async { pieces(client.send(call("{}")).await.expect("an answer").body).await };
    let ((pieces, error), _wire) = join!(ask, serve);
    assert!(error.is_none());
    assert_eq!(pieces.concat().len(), SIZE);
}

#[tokio::test]
async fn a_large_request_flows_as_the_provider_opens_its_window() {
    let peer = Peer::tls(&["h2"]).await;
    let client = peer.client();
    let large = "z".repeat(1 << 20);
    let serve = async {
        let mut wire = Wire2::accept(&peer, 100).await;
        let mut seen = 0;
        loop {
            let frame = within(wire.frame()).await.expect("a frame");
            if frame.kind == DATA && !frame.payload.is_empty() {
                seen += frame.payload.len();
                let size = u32::try_from(frame.payload.len()).expect("a small frame").to_be_bytes();
                wire.send(WINDOW_UPDATE, 0, 0, &size).await;
                wire.send(WINDOW_UPDATE, 0, frame.stream, &size).await;
            }
            if frame.flags & END_STREAM != 0 {
                wire.respond(frame.stream, b"{}").await;
                return (seen, wire);
            }
        }
    };
    let (answer, (seen, _wire)) = join!(exchange(&client, &large), serve);
    assert_eq!(answer.expect("complete"), "{}");
    assert_eq!(seen, 1 << 20);
}

#[tokio::test]
async fn a_provider_may_be_let_go_while_an_http2_answer_streams() {
    let peer = Peer::tls(&["h2"]).await;
    let client = peer.client();
    let serve = async {
        let mut wire = Wire2::accept(&peer, 100).await;
        let (stream, _) = wire.request().await;
        wire.send(HEADERS, END_HEADERS, stream, STATUS_200).await;
        (wire, stream)
    };
    let (reply, (mut wire, stream)) = join!(client.send(call("{}")), serve);
    drop(client); // as when a new configuration replaces the old one
    wire.send(DATA, END_STREAM, stream, b"all").await;
    assert_eq!(within(text(reply.expect("an answer"))).await.expect("complete"), "all");
    wire.wire.closed().await; // nobody holds the connection any more
}
