//! What no caller should send: refused in OpenAI's shape, nothing stored, nothing sent on, and the next caller is served.

use crate::client::{Answer, Conn};
use crate::gateway::{CHAT, EMBEDDINGS, Gateway, Setup, chat, mock, streamed, with};
use serde_json::json;
use signet_mock::MockUpstream;
use std::net::SocketAddr;

fn small(mock: &MockUpstream) -> Gateway {
    Setup::on(mock).set("server.max_body_bytes", "65536").start()
}

/// Sends all of a chat request before it looks for an answer, as many clients do; each write must be taken.
#[track_caller]
pub(crate) fn sent_whole(to: SocketAddr, framing: &str, pieces: &[Vec<u8>]) -> Answer {
    sent_whole_to(to, CHAT, framing, pieces)
}

#[track_caller]
fn sent_whole_to(to: SocketAddr, path: &str, framing: &str, pieces: &[Vec<u8>]) -> Answer {
    let mut conn = Conn::open(to);
    let head = format!("POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n{framing}\r\n");
    conn.write(head.as_bytes()).expect("the gateway reads");
    for piece in pieces {
        conn.write(piece).expect("the gateway goes on reading");
    }
    conn.answer()
}

/// That the gateway still works, and that nothing of what came before reached the provider or the cache.
#[track_caller]
fn unharmed(gateway: &Gateway, mock: &MockUpstream) {
    assert_eq!(mock.counts().requests, 0, "nothing was sent on");
    let status = gateway.status();
    assert_eq!((&status["cache_entries"], &status["semantic_entries"]), (&0.into(), &0.into()));
    gateway.chat(&chat("What is a mole?"), &[]).is(200, "MISS");
    assert_eq!(gateway.metric("signet_panics_total"), 0);
}

#[test]
fn what_is_not_a_chat_request_is_a_400_that_names_the_parameter() {
    let mock = mock();
    let gateway = small(&mock);
    let good = r#""model":"m","messages":[{"role":"user","content":"x"}]"#;
    let cases = [
        (String::new(), None),
        ("{".to_owned(), None),
        ("null".to_owned(), None),
        ("[]".to_owned(), None),
        ("\"text\"".to_owned(), None),
        (format!("{{{good}}} trailing"), None),
        (format!("{{{good},}}"), None),
        (format!("{{{good},\"x\":NaN}}"), None),
        (format!("{{{good},\"x\":\"\\ud800\"}}"), None),
        (format!("{{{good},\"x\":\"\u{1}\"}}"), None),
        (r#"{"messages":[]}"#.to_owned(), Some("model")),
        (r#"{"model":7,"messages":[]}"#.to_owned(), Some("model")),
        (r#"{"model":null,"messages":[]}"#.to_owned(), Some("model")),
        (format!(r#"{{"model":"{}","messages":[]}}"#, "m".repeat(513)), Some("model")),
        (r#"{"model":"m"}"#.to_owned(), Some("messages")),
        (r#"{"model":"m","messages":{}}"#.to_owned(), Some("messages")),
        (r#"{"model":"m","messages":"hi"}"#.to_owned(), Some("messages")),
        (r#"{"model":"m","messages":["hi"]}"#.to_owned(), Some("messages[0]")),
        (format!("{{{good},\"stream\":\"yes\"}}"), Some("stream")),
        (format!("{{{good},\"n\":\"two\"}}"), Some("n")),
        (format!("{{{good},\"n\":0}}"), Some("n")),
        (format!("{{{good},\"temperature\":\"hot\"}}"), Some("temperature")),
        (format!("{{{good},\"stream_options\":7}}"), Some("stream_options")),
        (format!("{{{good},\"model\":\"other\"}}"), Some("model")),
        (format!("{{{good},\"m\\u006fdel\":\"other\"}}"), Some("model")),
        (
            r#"{"model":"m","messages":[{"role":"user","content":"x","content":"y"}]}"#.to_owned(),
            Some("messages[0].content"),
        ),
    ];
    for (body, param) in &cases {
        let answer = gateway.post(CHAT, &[], body.as_bytes());
        let error = answer.refusal(400);
        assert_eq!(error["type"], "invalid_request_error", "{body}");
        assert_eq!(error["param"].as_str(), *param, "{body}: {error}");
        assert_eq!(answer.need("x-should-retry"), "false");
    }
    unharmed(&gateway, &mock);
}

/// A name that no frame of the log could hold, were it kept.
#[test]
fn a_model_name_as_long_as_a_body_may_be_is_refused_with_a_record_beside_those_of_others() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let giant = format!(r#"{{"model":"{}","messages":[]}}"#, "m".repeat(17 << 20));
    std::thread::scope(|scope| {
        let refused = scope.spawn(|| gateway.post(CHAT, &[], giant.as_bytes()));
        for n in 0..20 {
            let answer = gateway.chat(&chat(&format!("Which is question {n}?")), &[]);
            let receipt = answer.need("lineage-receipt").to_owned();
            assert!(!gateway.record(answer.need("lineage-id")).is_null(), "{receipt}");
        }
        let refused = refused.join().expect("an answer");
        assert_eq!(refused.refusal(400)["param"], "model");
        assert_eq!(gateway.record(refused.need("lineage-id"))["predicate"]["model"]["asked"], "");
    });
    assert_eq!(gateway.metric("signet_panics_total"), 0);
}

#[test]
fn text_that_is_not_utf8_and_nesting_without_end_are_refused() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let content = |bytes: &[u8]| {
        [br#"{"model":"m","messages":[{"role":"user","content":""#.as_slice(), bytes, br#""}]}"#].concat()
    };
    let nested = |open: &str, close: &str, n: usize| {
        format!(r#"{{"model":"m","messages":[],"x":{}1{}}}"#, open.repeat(n), close.repeat(n)).into_bytes()
    };
    for body in [
        content(b"\xff\xfe"),
        content(b"\xc3"),
        content(b"\xed\xa0\x80"),
        content(b"\xf4\x90\x80\x80"),
        nested("[", "]", 1_000_000),
        nested("{\"a\":", "}", 1_000_000),
        nested("[", "]", 1_000),
        b"[".repeat(1_000_000),
        b"{\"a\":".repeat(1_000_000),
    ] {
        gateway.post(CHAT, &[], &body).refusal(400);
        gateway.post(EMBEDDINGS, &[], &body).refusal(400);
    }
    unharmed(&gateway, &mock);
}

#[test]
fn an_oversized_body_gets_its_413_delivered_however_it_comes() {
    let mock = mock();
    let gateway = small(&mock);
    let piece = vec![b'x'; 1 << 20];
    let framed = [format!("{:x}\r\n", piece.len()).as_bytes(), &piece, b"\r\n"].concat();
    let declared = sent_whole(gateway.addr, &format!("Content-Length: {}\r\n", 10 << 20), &vec![piece; 10]);
    let mut pieces = vec![framed; 10];
    pieces.push(b"0\r\n\r\n".to_vec());
    let chunked = sent_whole(gateway.addr, "Transfer-Encoding: chunked\r\n", &pieces);
    let waiting = sent_whole(gateway.addr, "Content-Length: 9999999\r\nExpect: 100-continue\r\n", &[]);
    for answer in [declared, chunked, waiting] {
        let error = answer.refusal(413);
        assert_eq!(error["code"], "request_too_large");
        assert_eq!(gateway.record(&answer.id())["predicate"]["http"]["status"], 413);
    }
    unharmed(&gateway, &mock);
}

/// One with an image is a few megabytes.
#[test]
fn every_endpoint_takes_three_megabytes_by_default_and_delivers_its_413_beyond_the_limit() {
    let mock = mock();
    let (tight, roomy) = (small(&mock), Setup::on(&mock).start());
    let image = format!("data:image/png;base64,{}", "iVBORw0KGgo".repeat(3 << 20 >> 3));
    let seen = with(
        chat(""),
        json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": image}}]}]}),
    );
    let embedded = json!({"model": "m", "input": image});
    let feedback = json!({"verdict": "good", "comment": image});
    let source = json!({"type": "base64", "media_type": "image/png", "data": &image[22..]});
    let shown = json!({"model": "m", "max_tokens": 9,
        "messages": [{"role": "user", "content": [{"type": "image", "source": source}]}]});
    for (path, body, status) in [
        (CHAT, seen, 200),
        (EMBEDDINGS, embedded, 200),
        ("/v1/completions", json!({"model": "m", "prompt": image}), 200),
        ("/v1/responses", json!({"model": "m", "input": image}), 200),
        ("/v1/messages", shown.clone(), 200),
        ("/v1/messages/count_tokens", shown, 400), // this provider counts none
        ("/v1/lineage/x/feedback", feedback, 400),
    ] {
        let body = body.to_string().into_bytes();
        assert!(body.len() > 3 << 20);
        assert_eq!(roomy.post(path, &[], &body).status, status, "{path}");
        let refused = sent_whole_to(tight.addr, path, &format!("Content-Length: {}\r\n", body.len()), &[body]);
        let told = if path.starts_with("/v1/messages") { "type" } else { "code" };
        assert_eq!((refused.status, &refused.json()["error"][told]), (413, &"request_too_large".into()), "{path}");
        assert_eq!(tight.record(&refused.id())["predicate"]["http"]["status"], 413, "{path}");
    }
}

#[test]
fn a_body_of_just_the_limit_is_taken_and_three_megabytes_are_by_default() {
    let mock = mock();
    let gateway = small(&mock);
    let bare = chat("").to_string().len();
    gateway.chat(&chat(&"x".repeat(65_536 - bare)), &[]).is(200, "MISS");
    gateway.chat(&chat(&"x".repeat(65_537 - bare)), &[]).refusal(413);
    let roomy = Setup::on(&mock).start();
    for request in [chat(&"y".repeat(3 << 20)), streamed(&"z".repeat(3 << 20))] {
        roomy.chat(&request, &[("Expect", "100-continue")]).is(200, "MISS");
    }
}

#[test]
fn a_caller_that_leaves_within_its_own_body_is_recorded_and_nothing_is_sent_on() {
    let mock = mock();
    let gateway = small(&mock);
    let mut conn = Conn::open(gateway.addr);
    conn.write(format!("POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{{\"model\"").as_bytes())
        .expect("the gateway reads");
    drop(conn);
    gateway.record_where(|record| record["predicate"]["response"]["outcome"] == "client_abort");
    unharmed(&gateway, &mock);
}

#[test]
fn chunks_that_cannot_be_told_apart_are_a_400_and_not_a_caller_who_left() {
    let mock = mock();
    let gateway = small(&mock);
    let body = chat("What is a weasel?").to_string();
    let length = body.len();
    for chunks in [
        "nothing\r\n".to_owned(),
        "-1\r\n".to_owned(),
        "fffffffffffffffff\r\n".to_owned(),
        format!("{length:x}\r\n{body}and more"),
        format!("{length:x}\r\n{body}\r\n\r\n"),
    ] {
        let mut conn = Conn::open(gateway.addr);
        let head = format!("POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n");
        conn.write(format!("{head}{chunks}").as_bytes()).expect("the gateway reads");
        let answer = conn.answer();
        assert_eq!(answer.refusal(400)["type"], "invalid_request_error", "{chunks:?}");
        assert!(conn.head().is_err(), "{chunks:?}: where a next request would begin is unknown");
        assert_eq!(gateway.record(&answer.id())["predicate"]["response"]["outcome"], "invalid", "{chunks:?}");
    }
    unharmed(&gateway, &mock);
}

#[test]
fn framing_that_can_be_read_in_two_ways_is_refused() {
    let mock = mock();
    let gateway = small(&mock);
    let body = chat("What is a vole?").to_string();
    let length = body.len();
    let smuggled = "0\r\n\r\nGET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    let fixed = format!("Content-Length: {length}\r\n");
    for (headers, body) in [
        (format!("{fixed}Content-Length: {}\r\n", length + 1), body.as_str()),
        (format!("Content-Length: {length}, {length}x\r\n"), &body),
        ("Content-Length: +5\r\n".to_owned(), &body),
        ("Content-Length: -1\r\n".to_owned(), &body),
        ("Content-Length: 0x10\r\n".to_owned(), &body),
        ("Transfer-Encoding: xchunked\r\n".to_owned(), &body),
        ("Transfer-Encoding: chunked, identity\r\n".to_owned(), &body),
        ("Transfer-Encoding : chunked\r\n".to_owned(), smuggled),
        (format!("{fixed}X-A: b\r\n folded: c\r\n"), &body),
        (format!("{fixed}X A: b\r\n"), &body),
        (format!("{fixed}X-A: b\0c\r\n"), &body),
        (format!("{fixed}X-Long: {}\r\n", "x".repeat(200_000)), &body),
    ] {
        let mut conn = Conn::open(gateway.addr);
        let text = format!("POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n{body}");
        conn.write(text.as_bytes()).ok(); // it may hang up in the middle
        let refused = conn.head();
        let shown = &headers[..headers.len().min(80)];
        assert!(refused.as_ref().is_ok_and(|head| (400..500).contains(&head.status)), "{shown:?}: {refused:?}");
        let head = refused.expect("just seen");
        conn.rest(head);
        assert!(conn.head().is_err(), "{shown:?}: one refusal and the end of the connection");
    }
    unharmed(&gateway, &mock);
}

#[test]
fn a_request_with_both_framings_is_one_request_and_the_provider_sees_one_body() {
    let mock = mock();
    let gateway = small(&mock);
    let body = chat("What is a stoat?").to_string();
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let mut conn = Conn::open(gateway.addr);
    let headers =
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\nConnection: close\r\n";
    conn.write(format!("POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n{chunked}").as_bytes())
        .expect("it reads");
    let answer = conn.answer();
    assert!([200, 400].contains(&answer.status), "{}", answer.text());
    assert!(conn.head().is_err(), "no second answer");
    for seen in mock.requests() {
        assert_eq!(seen.body, body.as_bytes());
    }
}

#[test]
fn what_is_not_here_is_a_404_and_a_wrong_method_a_405() {
    let mock = mock();
    let gateway = small(&mock);
    for path in ["/", "/v1", "/v1/audio/speech", "/v1/chat/completions/", "/metrics"] {
        let answer = gateway.post(path, &[], b"{}");
        assert_eq!(answer.refusal(404)["code"], "unknown_url", "{path}");
        assert!(answer.header("lineage-id").is_some());
    }
    let messages = gateway.post("/v1/messages", &[], b"{}");
    assert_eq!((messages.status, &messages.json()["error"]["type"]), (400, &"invalid_request_error".into()));
    assert_eq!(messages.json()["request_id"], messages.need("x-request-id"), "in the words of its callers");
    for (method, path, allowed) in [
        ("GET", CHAT, "POST"),
        ("DELETE", CHAT, "POST"),
        ("PUT", EMBEDDINGS, "POST"),
        ("POST", "/v1/models", "GET,HEAD"),
        ("POST", "/v1/lineage/x", "GET,HEAD"),
    ] {
        let answer = crate::client::ask(gateway.addr, method, path, &[], b"");
        assert_eq!(answer.refusal(405)["code"], "method_not_allowed", "{method} {path}");
        assert_eq!(answer.need("allow"), allowed);
    }
    unharmed(&gateway, &mock);
}
