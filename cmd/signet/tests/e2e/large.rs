//! Answers over `max_response_bytes`: passed on as they come, never stored, always recorded.

use crate::client::Answer;
use crate::gateway::{Gateway, Setup, chat, eventually, mock_with, streamed};
use crate::keeper::Keeper;
use serde_json::Value;
use signet_mock::{Behaviour, Config, Fault, MockUpstream};

const BOUND: usize = 100_000;
const LARGE: usize = 3_000_000;

fn large() -> Behaviour {
    Behaviour { answer_bytes: Some(LARGE), ..Behaviour::default() }
}

fn before(mock: &MockUpstream) -> Gateway {
    Setup::on(mock).set("server.max_response_bytes", &BOUND.to_string()).start()
}

fn response(gateway: &Gateway, answer: &Answer) -> Value {
    gateway.record(&answer.id())["predicate"]["response"].clone()
}

#[test]
fn a_large_answer_is_whole_recorded_with_all_its_bytes_and_not_stored() {
    for h2 in [false, true] {
        let mock =
            MockUpstream::start(Config { behaviour: large(), tls: h2, h2, ..Config::default() }).expect("a port");
        let folder = tempfile::TempDir::new().expect("a folder");
        let setup = Setup::on(&mock).set("server.max_response_bytes", &BOUND.to_string());
        let setup = if h2 {
            let trusted = folder.path().join("ca.pem");
            std::fs::write(&trusted, mock.ca_pem().expect("it serves TLS")).expect("a file");
            setup.env("SSL_CERT_FILE", trusted.to_str().expect("plain"))
        } else {
            setup
        };
        let gateway = setup.start();
        let mut keeper = Keeper::of(&gateway.data);
        for headers in [&[("TE", "trailers")], &[("Cache-Control", "no-cache")], &[("X-Cache-Mode", "off")]] {
            let answer = gateway.chat(&chat("What is a heron?"), headers);
            assert_eq!(answer.status, 200);
            assert!(answer.ended_well && answer.said().len() >= LARGE);
            assert_eq!(answer.header("lineage-receipt"), None, "the head left before the record was written");
            assert!(!answer.need("cache-status").contains("stored"));
            assert_eq!(answer.need("content-type"), "application/json");
            let told = response(&gateway, &answer);
            assert_eq!((&told["outcome"], &told["bytes"]), (&"complete".into(), &answer.body.len().into()));
            let path = format!("/v1/lineage/{}", answer.id());
            let receipt = gateway.get(&path).json()["receipt"].as_str().expect("a receipt").to_owned();
            assert_eq!(answer.trailer("lineage-receipt"), (headers[0].0 == "TE").then_some(receipt.as_str()));
            keeper.keep_text(receipt);
        }
        gateway.chat(&chat("What is a heron?"), &[]).is(200, "MISS");
        assert_eq!(mock.counts().requests, 4, "nothing was stored");
        keeper.accepts(&gateway.data);
    }
}

#[test]
fn callers_who_wait_for_the_same_large_answer_each_get_it() {
    let mock = mock_with(Behaviour { latency_ms: Some(500), ..large() });
    let gateway = before(&mock);
    let mut waiting: Vec<_> = (0..4).map(|_| gateway.begin(&chat("What is an egret?"), &[])).collect();
    let answers: Vec<_> = waiting.iter_mut().map(crate::client::Conn::answer).collect();
    for answer in &answers {
        answer.is(200, "MISS");
        assert!(answer.ended_well);
        assert_eq!(answer.body, answers[0].body);
        assert_eq!(response(&gateway, answer)["outcome"], "complete");
    }
    assert_eq!(mock.counts().requests, 4);
}

#[test]
fn a_large_answer_that_breaks_ends_broken_and_is_recorded_so() {
    let mock = mock_with(large());
    let gateway = before(&mock);
    for fault in [Fault::CutAfter(2 * BOUND), Fault::RstAfter(2 * BOUND)] {
        mock.script([Behaviour::fault(fault)]);
        let answer = gateway.chat(&chat("What is a bittern?"), &[]);
        assert!(!answer.ended_well, "{fault:?}");
        let told = response(&gateway, &answer);
        assert_eq!(told["outcome"], "upstream_error", "{fault:?}");
        assert!(told["bytes"].as_u64() >= Some(answer.body.len() as u64), "{fault:?}: {told}");
    }
    mock.script([Behaviour::fault(Fault::HangAfter(2 * BOUND))]);
    let mut leaving = gateway.begin(&chat("What is a bittern?"), &[]);
    leaving.head().expect("a head");
    drop(leaving);
    let record = gateway.record_where(|record| record["predicate"]["response"]["outcome"] == "client_abort");
    assert_eq!(record["predicate"]["http"]["status"], 200);
    eventually("the cancelled call", || (mock.counts().cancelled >= 1).then_some(()));
}

#[test]
fn a_large_json_answer_to_a_request_for_a_stream_is_passed_on_too() {
    let body = format!("{{\"padding\":\"{}\"}}", "x".repeat(2 * BOUND)).leak();
    for (head, status) in [("200 OK", 200), ("400 Bad Request", 400)] {
        let head = format!("{head}\r\nContent-Type: application/json").leak();
        let canned = crate::canned::Canned::answering(head, body);
        let setup = Setup::on(&mock_with(Behaviour::default())).set("provider.0.base_url", &canned.base_url());
        let gateway = setup.set("server.max_response_bytes", &BOUND.to_string()).start();
        let answer = gateway.chat(&streamed("What is a stork?"), &[]);
        assert_eq!((answer.status, answer.text().as_str(), answer.ended_well), (status, &*body, true));
        let outcome = if status == 200 { "complete" } else { "upstream_error" };
        assert_eq!(response(&gateway, &answer)["outcome"], outcome);
    }
}
