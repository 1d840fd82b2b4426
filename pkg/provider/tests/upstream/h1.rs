//! HTTP/1.1: keep-alive, replay, cancellation, merging, cuts.

use crate::peer::{CHUNKED, Peer, Wire, call, chunk, exchange, mine, next, ok, pieces, text, within};
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue, StatusCode, Version};
use proptest::prelude::*;
use signet_dialect::Api;
use signet_provider::{Call, ClosedWhen, Provider, ProviderConfig, UpstreamError, filter_request_headers};
use signet_types::Secret;
use std::time::Duration;
use tokio::join;

fn when(error: &UpstreamError) -> Option<ClosedWhen> {
    match error {
        UpstreamError::Closed { when, .. } => Some(*when),
        _ => None,
    }
}

#[tokio::test]
async fn the_provider_gets_its_own_key_and_the_true_length() {
    let peer = Peer::plain().await;
    let key = Some(Secret::new("sk-provider".to_owned()));
    let client = crate::peer::client(ProviderConfig { api_key: key, ..peer.config() });
    let mut caller = HeaderMap::new();
    for (name, value) in [("authorization", "Bearer gw-key"), ("content-type", "application/json"), ("te", "trailers")]
    {
        caller.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    let asked = Call { headers: filter_request_headers(&caller), ..call("{\"a\":1}") };
    let serve = async {
        let mut wire = peer.accept().await;
        let request = wire.request().await;
        wire.answer("{}").await;
        request
    };
    let (reply, request) = join!(client.send(asked), serve);
    assert_eq!(reply.expect("an answer").version, Version::HTTP_11);
    let (head, body) = request.split_once("\r\n\r\n").expect("a head");
    let mut lines: Vec<_> = head.lines().collect();
    assert_eq!(lines.remove(0), "POST /v1/chat/completions HTTP/1.1");
    lines.sort_unstable();
    let host = format!("host: 127.0.0.1:{}", peer.port());
    let agent = concat!("user-agent: signet/", env!("CARGO_PKG_VERSION"));
    let expected = [
        "accept-encoding: identity",
        "authorization: Bearer sk-provider",
        "content-length: 7",
        "content-type: application/json",
        host.as_str(),
        agent,
    ];
    assert_eq!((lines.as_slice(), body), (expected.as_slice(), "{\"a\":1}"));
}

#[tokio::test]
async fn a_callers_own_credentials_replace_the_key_when_they_are_meant_for_this_provider() {
    let peer = Peer::plain().await;
    let client = peer.client();
    let asked = Call { authorization: mine("authorization", "Bearer mine"), ..call("{}") };
    let serve = async {
        let mut wire = peer.accept().await;
        let request = wire.request().await;
        wire.answer("{}").await;
        request
    };
    let (reply, request) = join!(client.send(asked), serve);
    reply.expect("an answer");
    assert!(request.contains("authorization: Bearer mine\r\n"), "{request}");
}

#[tokio::test]
async fn one_connection_serves_requests_one_after_another() {
    let peer = Peer::plain().await;
    let client = peer.client();
    let serve = async {
        let mut wire = peer.accept().await;
        for body in ["one", "two", "three"] {
            wire.request().await;
            wire.answer(body).await;
        }
        wire
    };
    let ask = async {
        let first = client.send(call("{}")).await.expect("an answer");
        assert!(!first.reused && first.timings.connect.is_some());
        assert_eq!(text(first).await.expect("complete"), "one");
        let second = client.send(call("{}")).await.expect("an answer");
        assert!(second.reused && second.timings.connect.is_none());
        assert_eq!(text(second).await.expect("complete"), "two");
        exchange(&client, "{}").await.expect("complete")
    };
    let (third, _wire) = Box::pin(within(async { join!(ask, serve) })).await;
    assert_eq!(third, "three");
    assert!(peer.is_left_alone().await);
}

#[tokio::test]
async fn a_stream_gives_its_connection_back_at_its_end() {
    let peer = Peer::plain().await;
    let client = peer.client();
    let serve = async {
        let mut wire = peer.accept().await;
        wire.request().await;
        wire.send(format!("{CHUNKED}{}0\r\n\r\n", chunk("data: 1\n\n"))).await;
        wire.request().await;
        wire.answer("after").await;
        wire
    };
    let ask = async {
        assert_eq!(exchange(&client, "{}").await.expect("complete"), "data: 1\n\n");
        exchange(&client, "{}").await.expect("complete")
    };
    let (after, _wire) = within(async { join!(ask, serve) }).await;
    assert_eq!(after, "after");
    assert!(peer.is_left_alone().await);
}

#[tokio::test]
async fn no_more_connections_rest_than_are_to() {
    let peer = Peer::plain().await;
    let client = crate::peer::client(ProviderConfig { max_idle_per_host: 100, ..peer.config() });
    let serve = async {
        let mut wires = Vec::new();
        for _ in 0..105 {
            let mut wire = peer.accept().await;
            wire.request().await;
            wires.push(wire);
        }
        for wire in &mut wires {
            wire.answer("{}").await;
        }
        wires
    };
    let asks = futures_util::future::join_all((0..105).map(|_| exchange(&client, "{}")));
    let (answers, _wires) = within(async { join!(asks, serve) }).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(client.open_connections(), 100);
}

#[tokio::test]
async fn an_answer_that_says_close_leaves_no_connection_behind() {
    let peer = Peer::plain().await;
    let client = peer.client();
    let serve = async {
        let mut wire = peer.accept().await;
        wire.request().await;
        wire.send("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}").await;
        wire.closed().await;
    };
    let (answer, ()) = within(async { join!(exchange(&client, "{}"), serve) }).await;
    assert_eq!(answer.expect("complete"), "{}");
    assert_eq!(client.open_connections(), 0);
}

/// Lets a connection come to rest, lets the peer do `then` with it, and sends one more request.
async fn after_a_rest(then: impl AsyncFnOnce(Wire, &Peer)) -> Result<String, UpstreamError> {
    let peer = Peer::plain().await;
    let client = peer.client();
    let serve = async {
        let mut wire = peer.accept().await;
        wire.request().await;
        wire.answer("first").await;
        wire
    };
    let (first, wire) = join!(exchange(&client, "{}"), serve);
    assert_eq!(first.expect("complete"), "first");
    assert_eq!(client.open_connections(), 1);
    let (second, ()) = within(async { join!(exchange(&client, "{\"second\":1}"), then(wire, &peer)) }).await;
    assert!(peer.is_left_alone().await, "the request came once more");
    second
}

#[tokio::test]
async fn a_connection_closed_at_rest_costs_one_fresh_one_and_no_second_request() {
    let peer = Peer::plain().await;
    let client = peer.client();
    let serve = async {
        let mut wire = peer.accept().await;
        wire.request().await;
        wire.answer("first").await;
    };
    let (first, ()) = join!(exchange(&client, "{}"), serve); // the connection is closed here, while it rests
    assert_eq!(first.expect("complete"), "first");
    let serve = async {
        let mut wire = peer.accept().await;
        let request = wire.request().await;
        wire.answer("second").await;
        request
    };
    let (second, request) = within(async { join!(exchange(&client, "{\"second\":1}"), serve) }).await;
    assert_eq!(second.expect("complete"), "second");
    assert!(request.ends_with("{\"second\":1}"));
    assert!(peer.is_left_alone().await);
}

#[tokio::test]
async fn a_request_that_reached_the_provider_is_never_sent_again() {
    let lost = after_a_rest(async |mut wire, _| {
        assert!(wire.request().await.ends_with("{\"second\":1}"));
    });
    let error = lost.await.expect_err("closed after the request");
    assert_eq!(when(&error), Some(ClosedWhen::BeforeHead));
    assert!(!error.is_unbilled());
}

#[tokio::test]
async fn nothing_is_sent_again_after_the_first_byte_of_an_answer() {
    let lost = after_a_rest(async |mut wire, _| {
        wire.request().await;
        wire.send("HTTP/1.1 200 OK\r\ncontent-").await;
    });
    let error = lost.await.expect_err("cut inside the head");
    assert!(!error.is_unbilled(), "{error:?}");
}

#[tokio::test]
async fn a_peer_that_accepts_and_closes_is_not_asked_again_and_again() {
    let peer = Peer::plain().await;
    let client = peer.client();
    let serve = async { drop(peer.accept_tcp().await) };
    let (answer, ()) = within(async { join!(exchange(&client, "{}"), serve) }).await;
    answer.expect_err("no answer");
    assert!(peer.is_left_alone().await);
}

#[tokio::test]
async fn a_caller_who_leaves_before_the_head_closes_the_upstream() {
    let peer = Peer::plain().await;
    let client = peer.client();
    let asking = tokio::spawn(async move { exchange(&client, "{}").await });
    let mut wire = peer.accept().await;
    wire.request().await;
    asking.abort();
    wire.closed().await;
}

#[tokio::test]
async fn a_caller_who_leaves_after_two_chunks_closes_the_upstream() {
    let peer = Peer::plain().await;
    let client = peer.client();
    let serve = async {
        let mut wire = peer.accept().await;
        wire.request().await;
        wire.send(format!("{CHUNKED}{}", chunk("one"))).await;
        wire
    };
    let (reply, mut wire) = join!(client.send(call("{}")), serve);
    let mut body = reply.expect("an answer").body;
    assert_eq!(next(&mut body).await.expect("a piece").expect("good"), "one");
    wire.send(chunk("two")).await;
    assert_eq!(next(&mut body).await.expect("a piece").expect("good"), "two");
    drop(body);
    wire.closed().await;
    assert_eq!(client.open_connections(), 0);
}

#[tokio::test]
async fn a_caller_who_leaves_inside_a_json_answer_closes_the_upstream() {
    let peer = Peer::plain().await;
    let client = peer.client();
    let asking = tokio::spawn(async move { exchange(&client, "{}").await });
    let mut wire = peer.accept().await;
    wire.request().await;
    wire.send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{").await;
    asking.abort();
    wire.closed().await;
}

/// What a caller gets of an answer after which the provider closes.
async fn cut(answer: &str) -> (String, Option<UpstreamError>) {
    let peer = Peer::plain().await;
    let client = peer.client();
    let serve = async {
        let mut wire = peer.accept().await;
        wire.request().await;
        wire.send(answer).await;
    };
    let (reply, ()) = within(async { join!(client.send(call("{}")), serve) }).await;
    let (pieces, error) = within(pieces(reply.expect("a head").body)).await;
    assert_eq!(client.open_connections(), 0);
    (String::from_utf8(pieces.concat()).expect("text"), error)
}

#[tokio::test]
async fn a_cut_answer_is_an_error_after_the_bytes_that_came() {
    let cuts = [
        format!("{CHUNKED}{}{}", chunk("data: 1\n\n"), chunk("data: 2\n\n")),
        format!("{CHUNKED}{}9\r\ndata: 2\n\n", chunk("data: 1\n\n")),
        format!("{CHUNKED}{}{}0\r\n", chunk("data: 1\n\n"), chunk("data: 2\n\n")),
        "HTTP/1.1 200 OK\r\ncontent-length: 19\r\n\r\ndata: 1\n\ndata: 2\n\n".to_owned(),
    ];
    for answer in cuts {
        let (bytes, error) = cut(&answer).await;
        assert_eq!(bytes, "data: 1\n\ndata: 2\n\n");
        let error = error.unwrap_or_else(|| panic!("a clean end of {answer:?}"));
        assert_eq!(when(&error), Some(ClosedWhen::MidBody), "{answer:?}");
    }
}

#[tokio::test]
async fn a_broken_chunk_is_a_fault_of_the_protocol() {
    let (bytes, error) = cut(&format!("{CHUNKED}{}zz\r\n", chunk("one"))).await;
    assert_eq!(bytes, "one");
    assert!(matches!(error, Some(UpstreamError::Protocol(_))), "{error:?}");
}

#[tokio::test]
async fn a_status_outside_the_five_classes_is_a_fault_of_the_protocol() {
    for status in [600, 999] {
        let peer = Peer::plain().await;
        let client = peer.client();
        let answer = format!("HTTP/1.1 {status} Strange\r\ncontent-length: 2\r\n\r\n{{}}");
        let serve = async {
            let mut wire = peer.accept().await;
            wire.request().await;
            wire.send(answer).await;
        };
        let (reply, ()) = within(async { join!(client.send(call("{}")), serve) }).await;
        let error = reply.expect_err("no answer");
        assert!(matches!(error, UpstreamError::Protocol(_)) && !error.is_unbilled(), "{error:?}");
    }
}

#[tokio::test]
async fn an_answer_without_a_length_ends_with_the_connection() {
    let (bytes, error) = cut("HTTP/1.1 200 OK\r\n\r\nall of it").await;
    assert_eq!(bytes, "all of it");
    assert!(error.is_none());
}

#[tokio::test]
async fn a_burst_of_small_chunks_arrives_in_few_pieces() {
    let events: Vec<String> =
        (0..74).map(|n| format!("data: {{\"n\":{n},\"pad\":\"{}\"}}\n\n", "x".repeat(200))).collect();
    let burst: String = events.iter().map(|event| chunk(event)).collect();
    let peer = Peer::plain().await;
    let client = peer.client();
    let serve = async {
        let mut wire = peer.accept().await;
        wire.request().await;
        wire.send(format!("{CHUNKED}{burst}0\r\n\r\n")).await;
        wire
    };
    let (reply, _wire) = join!(client.send(call("{}")), serve);
    let (pieces, error) = within(pieces(reply.expect("an answer").body)).await;
    assert!(error.is_none());
    assert_eq!(pieces.concat(), events.concat().into_bytes());
    assert!(pieces.len() <= 8, "74 chunks came in {} pieces", pieces.len());
}

#[tokio::test]
async fn pieces_are_bounded_however_much_is_ready() {
    let big = "y".repeat(1 << 20);
    let peer = Peer::plain().await;
    let client = peer.client();
    let serve = async {
        let mut wire = peer.accept().await;
        wire.request().await;
        wire.answer(&big).await;
        wire
    };
    let ask = async { pieces(client.send(call("{}")).await.expect("an answer").body).await };
    let ((pieces, error), _wire) = within(async { join!(ask, serve) }).await;
    assert!(error.is_none());
    assert_eq!(pieces.concat().len(), 1 << 20);
    let largest = pieces.iter().map(bytes::Bytes::len).max();
    assert!(largest < Some(1 << 19), "a piece of {largest:?} bytes"); // hyper's read buffer bounds one frame
}

#[tokio::test]
async fn a_collected_answer_has_its_exact_size_and_limit() {
    for (limit, good) in [(10, true), (9, false)] {
        for answer in [ok("0123456789"), format!("{CHUNKED}{}{}0\r\n\r\n", chunk("01234"), chunk("56789"))] {
            let peer = Peer::plain().await;
            let client = peer.client();
            let serve = async {
                let mut wire = peer.accept().await;
                wire.request().await;
                wire.send(&answer).await;
                wire
            };
            let (reply, _wire) = join!(client.send(call("{}")), serve);
            let collected = reply.expect("an answer").body.collect(limit).await;
            match collected {
                Ok(bytes) => assert!(good && bytes == "0123456789"),
                Err(error) => assert!(!good && matches!(error, UpstreamError::TooLarge { limit: 9 }), "{error:?}"),
            }
        }
    }
}

#[tokio::test]
async fn headers_of_17_kb_pass_and_headers_without_end_are_refused() {
    let peer = Peer::plain().await;
    let client = peer.client();
    let long = "v".repeat(17 * 1024);
    let serve = async {
        let mut wire = peer.accept().await;
        wire.request().await;
        wire.send(format!("HTTP/1.1 200 OK\r\nx-long: {long}\r\ncontent-length: 0\r\n\r\n")).await;
        wire.request().await;
        let endless = format!("HTTP/1.1 200 OK\r\nx-long: {}", "v".repeat(2 << 20));
        let _ = tokio::io::AsyncWriteExt::write_all(&mut wire.stream, endless.as_bytes()).await;
    };
    let ask = async {
        let reply = client.send(call("{}")).await.expect("17 KB are fine");
        assert_eq!(reply.headers["x-long"].len(), long.len());
        drop(reply);
        client.send(call("{}")).await.expect_err("2 MB are not")
    };
    let (error, ()) = within(async { join!(ask, serve) }).await;
    assert!(matches!(error, UpstreamError::Protocol(_)), "{error:?}");
}

#[tokio::test]
async fn an_answer_that_comes_before_the_request_was_read_is_delivered() {
    let peer = Peer::plain().await;
    let client = peer.client();
    let large = "z".repeat(8 << 20);
    let serve = async {
        let mut wire = peer.accept().await;
        wire.send("HTTP/1.1 413 Content Too Large\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}").await;
        wire
    };
    let ask = async {
        let reply = client.send(call(&large)).await.expect("an answer");
        (reply.status, text(reply).await.expect("complete"))
    };
    let (answer, _wire) = within(async { join!(ask, serve) }).await;
    assert_eq!(answer, (StatusCode::PAYLOAD_TOO_LARGE, "{}".to_owned()));
    assert_eq!(client.open_connections(), 0);
}

/// Sends `answer` cut at `cuts`, each part a write of its own, and returns the body.
fn received(answer: &[u8], cuts: &[usize]) -> Vec<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let peer = Peer::plain().await;
        let client = peer.client();
        let serve = async {
            let mut wire = peer.accept().await;
            wire.request().await;
            let mut from = 0;
            for &cut in cuts.iter().chain([&answer.len()]) {
                wire.send(&answer[from..cut]).await;
                tokio::task::yield_now().await;
                from = cut;
            }
            wire
        };
        let ask = async { pieces(client.send(call("{}")).await.expect("an answer").body).await };
        let ((pieces, error), _wire) = within(async { join!(ask, serve) }).await;
        assert!(error.is_none());
        assert!(pieces.iter().all(|piece| !piece.is_empty()));
        pieces.concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_body_does_not_depend_on_where_its_bytes_are_cut(
        chunks in prop::collection::vec("[a-zé\n]{1,40}", 1..20),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
    ) {
        let answer = format!("{CHUNKED}{}0\r\n\r\n", chunks.iter().map(|text| chunk(text)).collect::<String>());
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(answer.len())).collect();
        cuts.sort_unstable();
        prop_assert_eq!(received(answer.as_bytes(), &cuts), chunks.concat().into_bytes());
    }
}

#[tokio::test]
async fn a_provider_may_be_let_go_while_an_answer_streams() {
    let peer = Peer::plain().await;
    let client = peer.client();
    let serve = async {
        let mut wire = peer.accept().await;
        wire.request().await;
        wire.send(format!("{CHUNKED}{}", chunk("one"))).await;
        wire
    };
    let (reply, mut wire) = join!(client.send(call("{}")), serve);
    drop(client); // as when a new configuration replaces the old one
    wire.send(format!("{}0\r\n\r\n", chunk("two"))).await;
    assert_eq!(within(text(reply.expect("an answer"))).await.expect("complete"), "onetwo");
}

#[tokio::test]
async fn a_large_request_is_sent_as_fast_as_the_provider_reads() {
    let peer = Peer::plain().await;
    let client = peer.client();
    let large = "z".repeat(8 << 20);
    let serve = async {
        let mut wire = peer.accept().await;
        let mut seen = 0;
        let mut buffer = vec![0; 4096];
        while seen < large.len() {
            seen += tokio::io::AsyncReadExt::read(&mut wire.stream, &mut buffer).await.expect("open");
            tokio::task::yield_now().await;
        }
        wire.answer("{}").await;
        wire
    };
    let (answer, _wire) = within(async { join!(exchange(&client, &large), serve) }).await;
    assert_eq!(answer.expect("complete"), "{}");
    assert_eq!(client.open_connections(), 1);
}

#[tokio::test]
async fn path_and_query_of_the_base_url_are_part_of_every_request() {
    let peer = Peer::plain().await;
    let base = format!("http://127.0.0.1:{}/openai/?api-version=1", peer.port());
    let client = crate::peer::client(ProviderConfig { base_url: base.parse().expect("a URL"), ..peer.config() });
    let serve = async {
        let mut wire = peer.accept().await;
        let first = wire.request().await;
        wire.answer("{}").await;
        let second = wire.request().await;
        wire.answer("{}").await;
        [first, second].map(|request| request.lines().next().unwrap_or_default().to_owned())
    };
    let ask = async {
        exchange(&client, "{}").await.expect("complete");
        let query = Some(http::uri::PathAndQuery::from_static("/v1/embeddings?limit=2"));
        client.send(Call { api: Api::Embeddings, query, ..call("{}") }).await.expect("an answer");
    };
    let ((), lines) = within(async { join!(ask, serve) }).await;
    let expected = [
        "POST /openai/chat/completions?api-version=1 HTTP/1.1",
        "POST /openai/embeddings?api-version=1&limit=2 HTTP/1.1",
    ];
    assert_eq!(lines, expected);
}

async fn serve_once(peer: &Peer) -> Wire {
    let mut wire = peer.accept().await;
    wire.request().await;
    wire.answer("{}").await;
    wire
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_rested_too_long_is_closed() {
    let peer = Peer::plain().await;
    let client = peer.client();
    let (answer, mut wire) = join!(exchange(&client, "{}"), serve_once(&peer));
    answer.expect("complete");
    tokio::time::advance(Duration::from_secs(49)).await;
    client.close_idle();
    assert_eq!(client.open_connections(), 1);
    tokio::time::advance(Duration::from_secs(1)).await;
    client.close_idle();
    assert_eq!(client.open_connections(), 0);
    wire.closed().await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_rested_too_long_carries_nothing_more() {
    let peer = Peer::plain().await;
    let client = peer.client();
    let (answer, mut old) = join!(exchange(&client, "{}"), serve_once(&peer));
    answer.expect("complete");
    tokio::time::advance(Duration::from_secs(50)).await;
    let (answer, _fresh) = join!(exchange(&client, "{}"), serve_once(&peer));
    answer.expect("complete");
    assert_eq!(old.request().await, "", "closed without a further request");
}
