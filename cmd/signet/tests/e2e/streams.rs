//! Streams on their way: every byte, every kind of end.

use crate::client::ask;
use crate::gateway::{CHAT, Setup, chat, eventually, mock, mock_with, streamed, with};
use serde_json::json;
use signet_mock::{Behaviour, Fault, MockUpstream};

const PROMPT: &str = "Wozu dienen Brücken, 橋, und wer baut sie? 🌉";

/// What the mock itself sends for a request, asked directly.
fn direct(mock: &MockUpstream, behaviour: &Behaviour, request: &serde_json::Value) -> Vec<u8> {
    mock.script([behaviour.clone()]);
    ask(mock.addr(), "POST", CHAT, &[], request.to_string().as_bytes()).body
}

#[test]
fn what_the_provider_streams_passes_byte_for_byte_however_it_is_cut() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let request = with(streamed(PROMPT), json!({"stream_options": {"include_usage": true}}));
    for behaviour in [
        Behaviour::default(),
        Behaviour { burst: Some(true), ..Behaviour::default() },
        Behaviour { chunks: Some(200), ..Behaviour::default() },
        Behaviour::fault(Fault::SplitUtf8),
        Behaviour { chunk_ms: Some(1), ..Behaviour::fault(Fault::SplitUtf8) },
        Behaviour { answer_bytes: Some(300_000), chunks: Some(3), ..Behaviour::default() },
        Behaviour::fault(Fault::ChoicesNull),
    ] {
        let wanted = direct(&mock, &behaviour, &request);
        mock.script([behaviour.clone()]);
        let answer = gateway.chat(&request, &[("Cache-Control", "no-cache")]);
        answer.is(200, "REFRESH");
        assert!(answer.ended_well);
        assert_eq!(answer.text(), String::from_utf8(wanted).expect("UTF-8"), "{behaviour:?}");
    }
}

#[test]
fn a_stream_does_not_say_that_it_is_stored_before_that_is_known() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    mock.script([Behaviour::fault(Fault::Length)]);
    for (headers, status) in [
        (None, "signet; fwd=miss"),
        (None, "signet; fwd=miss"),
        (Some(("Cache-Control", "no-cache")), "signet; fwd=request"),
    ] {
        let answer = gateway.chat(&streamed(PROMPT), headers.as_slice());
        assert_eq!(answer.need("cache-status"), status);
    }
    gateway.chat(&streamed(PROMPT), &[]).is(200, "EXACT");
}

#[test]
fn events_arrive_while_the_rest_is_still_to_come() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    mock.script([Behaviour::fault(Fault::HangAfter(2))]);
    let mut conn = gateway.begin(&streamed(PROMPT), &[]);
    let head = conn.head().expect("a head");
    assert_eq!(head.status, 200);
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("Mock answer") {
        seen.extend(conn.chunk().expect("a chunk").expect("not the end"));
    }
}

#[test]
fn a_cut_stream_ends_with_an_error_event_and_not_as_if_it_were_whole() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    for fault in [Fault::CutAfter(3), Fault::RstAfter(3), Fault::CutAfter(0)] {
        for burst in [false, true] {
            mock.script([Behaviour { burst: Some(burst), ..Behaviour::fault(fault) }]);
            let answer = gateway.chat(&streamed(PROMPT), &[]);
            assert_eq!(answer.status, 200, "{fault:?}");
            let text = answer.text();
            let last = text.trim_end().lines().last().expect("an event").to_owned();
            let event: serde_json::Value =
                serde_json::from_str(last.strip_prefix("data: ").expect("data")).expect("JSON");
            assert_eq!(event["error"]["type"], "upstream_error", "{fault:?} {burst}: {text}");
            assert!(!text.contains("[DONE]") && !answer.ended_well, "{fault:?} {burst}: {text}");
            let record = gateway.record(&answer.id());
            assert_eq!(record["predicate"]["response"]["outcome"], "upstream_error", "{fault:?}");
            assert_eq!(record["predicate"]["response"]["bytes"], answer.body.len());
        }
    }
    gateway.chat(&streamed(PROMPT), &[]).is(200, "MISS");
}

#[test]
fn an_error_event_of_the_provider_passes_and_nothing_is_kept() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    mock.script([Behaviour::fault(Fault::ErrorEvent(2))]);
    let answer = gateway.chat(&streamed(PROMPT), &[]);
    assert!(answer.text().contains("\"server_error\""), "{}", answer.text());
    assert!(!answer.text().contains("[DONE]"));
    assert_eq!(gateway.record(&answer.id())["predicate"]["response"]["outcome"], "upstream_error");
    gateway.chat(&streamed(PROMPT), &[]).is(200, "MISS");
}

#[test]
fn a_stream_without_end_is_ended_by_the_total_limit_and_a_silent_one_by_the_idle_limit() {
    let mock = mock();
    let limits = [("total", "1500"), ("idle", "700"), ("first_byte", "1500"), ("connect", "1000")];
    let limit = |setup: Setup, (name, ms): (&str, &str)| setup.set(&format!("provider.0.{name}_timeout_ms"), ms);
    let gateway = limits.into_iter().fold(Setup::on(&mock), limit).start();
    let endless = Behaviour { chunk_ms: Some(20), ..Behaviour::fault(Fault::NeverEnding) };
    for behaviour in [endless, Behaviour::fault(Fault::HangAfter(2)), Behaviour::fault(Fault::HalfEventAfter(2))] {
        mock.script([behaviour.clone()]);
        let answer = gateway.chat(&streamed(PROMPT), &[]);
        assert_eq!(answer.status, 200);
        let text = answer.text();
        let last = text.trim_end().lines().last().expect("an event").to_owned();
        assert!(last.starts_with("data: {\"error\""), "{behaviour:?}: {text}");
        assert!(!answer.ended_well && !text.contains("[DONE]"), "{behaviour:?}");
        assert_eq!(gateway.record(&answer.id())["predicate"]["response"]["outcome"], "timeout", "{behaviour:?}");
    }
    eventually("all calls cancelled", || (mock.counts().cancelled == 3).then_some(()));
}

#[test]
fn a_total_limit_longer_than_the_first_byte_limit_lets_a_slow_stream_finish() {
    let mock = mock_with(Behaviour { chunks: Some(20), chunk_ms: Some(50), ..Behaviour::default() });
    let gateway = Setup::on(&mock).set("provider.0.first_byte_timeout_ms", "300").start();
    let answer = gateway.chat(&streamed(PROMPT), &[]);
    answer.is(200, "MISS");
    assert!(answer.ended_well && answer.text().ends_with("data: [DONE]\n\n"));
}

#[test]
fn a_provider_without_a_first_byte_is_a_504_that_says_not_to_retry() {
    let mock = mock();
    let gateway = Setup::on(&mock).set("provider.0.first_byte_timeout_ms", "300").start();
    for request in [chat(PROMPT), streamed(PROMPT)] {
        mock.script([Behaviour::fault(Fault::Hang)]);
        let answer = gateway.chat(&request, &[]);
        assert_eq!(answer.refusal(504)["type"], "upstream_error");
        assert_eq!(answer.need("x-should-retry"), "false");
        assert_eq!(gateway.record(&answer.id())["predicate"]["response"]["outcome"], "timeout");
    }
    assert_eq!(mock.counts().requests, 2, "nothing that may be billed is sent twice");
}

#[test]
fn a_caller_who_leaves_a_stream_takes_the_call_with_it() {
    let mock = mock_with(Behaviour { chunks: Some(1_000), chunk_ms: Some(20), ..Behaviour::default() });
    let gateway = Setup::on(&mock).start();
    let mut conn = gateway.begin(&streamed(PROMPT), &[]);
    conn.head().expect("a head");
    for _ in 0..2 {
        conn.chunk().expect("a chunk").expect("not the end");
    }
    drop(conn);
    eventually("the cancelled call", || (mock.counts().cancelled == 1).then_some(()));
    let record = gateway.record_where(|record| record["predicate"]["response"]["outcome"] == "client_abort");
    assert!(record["predicate"]["response"]["chunks"].as_u64() >= Some(2));
    assert_eq!(record["predicate"]["http"]["status"], 200);
}

#[test]
fn a_caller_who_leaves_before_the_head_takes_the_call_with_it_in_both_modes() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    for (n, request) in [(1, chat(PROMPT)), (2, streamed(PROMPT))] {
        mock.script([Behaviour::fault(Fault::Hang)]);
        let conn = gateway.begin(&request, &[]);
        eventually("the call", || (mock.counts().requests == n).then_some(()));
        drop(conn);
        eventually("the cancelled call", || (mock.counts().cancelled == n).then_some(()));
    }
    let aborted = |record: &serde_json::Value| record["predicate"]["response"]["outcome"] == "client_abort";
    eventually("two records", || {
        (crate::gateway::records(&gateway.data).iter().filter(|record| aborted(record)).count() == 2).then_some(())
    });
}

#[test]
fn a_caller_that_takes_trailers_gets_the_receipt_behind_the_stream() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let mut keeper = crate::keeper::Keeper::of(&gateway.data);
    for x_cache in ["MISS", "EXACT"] {
        let with_trailer = gateway.chat(&streamed(PROMPT), &[("TE", "trailers")]);
        with_trailer.is(200, x_cache);
        let receipt = with_trailer.trailer("lineage-receipt").expect("a trailer").to_owned();
        let path = format!("/v1/lineage/{}", with_trailer.id());
        assert_eq!(gateway.get(&path).json()["receipt"], receipt);
        keeper.keep(&with_trailer);
        let without = gateway.chat(&streamed(PROMPT), &[]);
        assert!(without.trailers.is_empty());
    }
    assert_eq!(keeper.kept(), 2);
    keeper.accepts(&gateway.data);
}

#[test]
fn an_encoding_that_nobody_asked_for_is_taken_off_and_never_passed_on() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    for request in [chat(PROMPT), streamed(PROMPT)] {
        let plain = gateway.chat(&request, &[("Cache-Control", "no-cache")]);
        for fault in [Fault::Gzip, Fault::Brotli] {
            mock.script([Behaviour::fault(fault)]);
            let answer = gateway.chat(&request, &[("Accept-Encoding", "identity"), ("Cache-Control", "no-cache")]);
            answer.is(200, "REFRESH");
            assert_eq!((answer.header("content-encoding"), answer.text()), (None, plain.text()));
            gateway.chat(&request, &[]).is(200, "EXACT");
        }
    }
    assert!(mock.requests().iter().all(|seen| seen.header("accept-encoding").is_none_or(|value| value == "identity")));
}

#[test]
fn a_silent_stream_shows_signs_of_life_between_events_only() {
    let mock = mock();
    let gateway = Setup::on(&mock).set("server.heartbeat_ms", "20").start();
    for (path, request, sign) in [
        (crate::gateway::CHAT, streamed(PROMPT), ": ping\n\n"),
        (
            "/v1/messages",
            with(streamed(PROMPT), json!({"max_tokens": 9})),
            "event: ping\ndata: {\"type\": \"ping\"}\n\n",
        ),
    ] {
        mock.script([Behaviour::fault(Fault::HalfEventAfter(2))]);
        let mut conn = crate::client::Conn::open(gateway.addr);
        conn.send("POST", path, &[("Content-Type", "application/json")], request.to_string().as_bytes());
        let head = conn.head().expect("a head");
        assert_eq!(head.status, 200);
        let (mut text, mut signs) = (String::new(), 0);
        while signs < 3 {
            let piece = String::from_utf8(conn.chunk().expect("a chunk").expect("not the end")).expect("text");
            assert!(text.is_empty() || text.ends_with("\n\n"), "a sign stands in an event: {text}");
            signs += usize::from(piece == sign);
            text.push_str(&piece);
        }
    }
}

#[test]
fn a_stream_over_its_limit_of_bytes_ends_with_an_error_event_and_is_not_kept() {
    let mock = mock();
    let gateway = Setup::on(&mock).set("server.max_stream_bytes", "600").start();
    for _ in 0..2 {
        let answer = gateway.chat(&streamed(PROMPT), &[]);
        answer.is(200, "MISS");
        let text = answer.text();
        assert!(!answer.ended_well && text.contains("data: {\"error\":") && !text.contains("[DONE]"), "{text}");
        assert!(text.len() < 1000, "{text}");
        let record = gateway.record(&answer.id())["predicate"].take();
        assert_eq!(record["response"]["outcome"], "upstream_error");
    }
    assert_eq!(mock.counts().requests, 2);
}
