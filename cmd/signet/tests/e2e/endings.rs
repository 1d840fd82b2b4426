//! How streams end that do not end well: once, in so many words, for everyone who reads them.

use crate::client::{Answer, Conn};
use crate::gateway::{CHAT, Gateway, Setup, chat, eventually, mock, mock_with, records, streamed, with};
use rustix::process::Signal;
use serde_json::{Value, json};
use signet_mock::{Behaviour, Encoding, Fault, MockUpstream};

const PROMPT: &str = "What is a lock gate?";
const MESSAGES: &str = "/v1/messages";
const COMPLETIONS: &str = "/v1/completions";
const RESPONSES: &str = "/v1/responses";

/// A stream of each API, and how an error in it begins.
fn streams() -> [(&'static str, Value, &'static str); 4] {
    let flat = "event: error\ndata: {\"type\":\"error\"";
    let limited = |request: Value| with(request, json!({"stream": true, "max_tokens": 64}));
    // Callers of two APIs who ask the same would share the answer.
    let prompt = |path: &str| format!("{PROMPT} {path}");
    let response = json!({"model": "m", "input": prompt(RESPONSES), "store": false, "stream": true});
    [
        (CHAT, limited(chat(&prompt(CHAT))), "data: {\"error\":"),
        (MESSAGES, limited(chat(&prompt(MESSAGES))), flat),
        (COMPLETIONS, limited(json!({"model": "m", "prompt": prompt(COMPLETIONS)})), "data: {\"error\":"),
        (RESPONSES, with(response, json!({"max_output_tokens": 64})), flat),
    ]
}

/// Before a provider of OpenAI's kind, and before one of Anthropic's, which has only messages of its own.
fn setups(mock: &MockUpstream) -> [Setup; 2] {
    [Setup::on(mock), Setup::on(mock).set("provider.0.kind", "anthropic")]
}

fn post(gateway: &Gateway, path: &str, request: &Value) -> Answer {
    gateway.post(path, &[], request.to_string().as_bytes())
}

/// As many requests at once, all of them in a flight before the first answer.
fn at_once(gateway: &Gateway, n: usize, path: &str, request: &Value) -> Vec<Answer> {
    let lookups = || gateway.metric("signet_step_duration_seconds_count{step=\"cache\"}");
    let before = lookups();
    let begin = |_| {
        let mut conn = Conn::open(gateway.addr);
        conn.send("POST", path, &[("Content-Type", "application/json")], request.to_string().as_bytes());
        conn
    };
    let mut conns: Vec<_> = (0..n).map(begin).collect();
    eventually("lookups", || (lookups() == before + n as u64).then_some(()));
    conns.iter_mut().map(Conn::answer).collect()
}

/// That the answer is a stream which ended in an error, told once, and that its record says so.
#[track_caller]
fn failed(gateway: &Gateway, answer: &Answer, error: &str) {
    let text = answer.text();
    assert_eq!(answer.status, 200, "{text}");
    assert_eq!(text.matches(error).count(), 1, "{text}");
    for end in ["[DONE]", "message_stop", "response.completed"] {
        assert!(!text.contains(end), "{text}");
    }
    let said = gateway.record(&answer.id())["predicate"].take();
    assert_eq!(said["response"]["outcome"], "upstream_error", "{said}");
    assert_eq!(said["response"]["bytes"], answer.body.len(), "{said}");
}

#[test]
fn a_failure_that_the_provider_reports_within_a_stream_is_told_once_in_every_api_and_to_everyone() {
    let mock = mock();
    for setup in setups(&mock) {
        let gateway = setup.start();
        for (path, request, error) in streams() {
            mock.reset();
            mock.script([Behaviour { latency_ms: Some(500), ..Behaviour::fault(Fault::ErrorEvent(2)) }]);
            for answer in at_once(&gateway, 3, path, &request) {
                failed(&gateway, &answer, error);
                assert!(!answer.text().contains("ended its answer early"), "{path}: {}", answer.text());
            }
            assert_eq!(mock.counts().requests, 1, "{path}");
            post(&gateway, path, &request).is(200, "MISS");
        }
    }
}

#[test]
fn a_cut_reaches_everyone_who_shares_a_stream_of_any_api_and_nothing_is_kept() {
    let mock = mock();
    for setup in setups(&mock) {
        let gateway = setup.start();
        for (path, request, error) in streams() {
            for fault in [Fault::CutAfter(3), Fault::RstAfter(3)] {
                mock.reset();
                mock.script([Behaviour { latency_ms: Some(500), chunk_ms: Some(20), ..Behaviour::fault(fault) }]);
                for answer in at_once(&gateway, 4, path, &request) {
                    failed(&gateway, &answer, error);
                    assert!(!answer.ended_well, "{path} {fault:?}");
                }
                assert_eq!(mock.counts().requests, 1, "{path} {fault:?}");
            }
            post(&gateway, path, &request).is(200, "MISS");
            post(&gateway, path, &request).is(200, "EXACT");
        }
    }
}

#[test]
fn an_encoded_answer_that_is_cut_in_the_middle_is_an_error_in_both_forms_and_is_not_kept() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    for encoding in [Encoding::Gzip, Encoding::Brotli] {
        for fault in [Fault::CutAfter(3), Fault::RstAfter(3)] {
            let cut = || Behaviour { encoding: Some(encoding), ..Behaviour::fault(fault) };
            mock.script([cut()]);
            let answer = gateway.chat(&streamed(PROMPT), &[]);
            answer.is(200, "MISS");
            failed(&gateway, &answer, "data: {\"error\":");
            assert!(!answer.ended_well && answer.header("content-encoding").is_none());
            mock.script([cut()]);
            let whole = gateway.chat(&chat(PROMPT), &[]);
            assert_eq!(whole.refusal(502)["type"], "upstream_error");
            assert_eq!(gateway.record(&whole.id())["predicate"]["response"]["outcome"], "upstream_error");
        }
    }
    gateway.chat(&chat(PROMPT), &[]).is(200, "MISS");
}

#[test]
fn a_stream_that_outlasts_the_time_for_the_end_is_cut_and_has_a_record() {
    let mock = mock_with(Behaviour { chunk_ms: Some(20), ..Behaviour::fault(Fault::NeverEnding) });
    let gateway = Setup::on(&mock).set("server.shutdown_grace_s", "1").start();
    let mut conn = gateway.begin(&streamed(PROMPT), &[]);
    let head = conn.head().expect("a head");
    conn.chunk().expect("it flows").expect("not the end");
    gateway.signal(Signal::TERM);
    let answer = conn.rest(head);
    assert!(!answer.ended_well && !answer.text().contains("[DONE]"));
    let folder = gateway.ended();
    let mut said = records(&folder.path).into_iter().map(|mut record| record["predicate"].take());
    let said = said.find(|said| said["id"] == answer.id()).expect("its record");
    assert_eq!(
        (&said["response"]["outcome"], &said["http"]["status"]),
        (&json!("client_abort"), &json!(200)),
        "{said}"
    );
    eventually("the end of the call", || (mock.counts().cancelled == 1).then_some(()));
}
