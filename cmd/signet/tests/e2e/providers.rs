//! What a provider may answer that must not pass for an answer.

use crate::canned::Canned;
use crate::gateway::{Gateway, Setup, chat, mock, streamed};
use serde_json::Value;
use signet_mock::{Behaviour, Config, MockUpstream};

const ANSWER: &str = r#"{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"A bird."},"finish_reason":"stop"}]}"#;

fn before(canned: &Canned) -> Gateway {
    // The mock is not asked: the first provider's address is this one's.
    Setup::on(&mock()).set("provider.0.base_url", &canned.base_url()).start()
}

fn outcome(gateway: &Gateway, id: &str) -> Value {
    gateway.record(id)["predicate"]["response"]["outcome"].clone()
}

#[test]
fn a_provider_that_redirects_or_changes_the_protocol_has_not_answered() {
    for head in [
        "301 Moved Permanently\r\nLocation: http://elsewhere.example/v1",
        "302 Found\r\nLocation: http://elsewhere.example/v1",
        "304 Not Modified",
        "307 Temporary Redirect\r\nLocation: http://elsewhere.example/v1",
        "308 Permanent Redirect\r\nLocation: http://elsewhere.example/v1",
        "101 Switching Protocols\r\nUpgrade: other",
    ] {
        let canned = Canned::answering(head, "");
        let gateway = before(&canned);
        for request in [chat("What is a rail?"), streamed("What is a rail?")] {
            let answer = gateway.chat(&request, &[]);
            assert_eq!(answer.refusal(502)["type"], "upstream_error", "{head}");
            assert_eq!((answer.header("location"), answer.header("upgrade")), (None, None), "{head}");
            assert_eq!(outcome(&gateway, &answer.id()), "upstream_error", "{head}");
        }
        assert_eq!(canned.calls(), 2, "{head}: nothing was stored, and nobody went where it points");
    }
}

#[test]
fn what_stands_before_the_answer_is_not_the_answer() {
    let canned = Canned::answering(
        "103 Early Hints\r\nLink: <x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: application/json",
        ANSWER,
    );
    let gateway = before(&canned);
    let answer = gateway.chat(&chat("What is a crake?"), &[]);
    answer.is(200, "MISS");
    assert_eq!((answer.said().as_str(), answer.header("link")), ("A bird.", None));
}

#[test]
fn a_provider_that_refuses_our_own_key_is_our_fault_and_its_words_stay_here() {
    let mock =
        MockUpstream::start(Config { api_key: Some("another".to_owned()), ..Config::default() }).expect("a port");
    let gateway = Setup::on(&mock).start();
    for status in [401, 403] {
        for request in [chat("What is a coot?"), streamed("What is a coot?")] {
            mock.script([Behaviour::status(status)]);
            let answer = gateway.chat(&request, &[]);
            let error = answer.refusal(502);
            assert_eq!((&error["type"], &error["code"]), (&"upstream_error".into(), &"provider_credentials".into()));
            assert!(!answer.text().contains("Mock error"), "{}", answer.text());
            assert_eq!(answer.need("x-should-retry"), "false");
            assert_eq!(outcome(&gateway, &answer.id()), "upstream_error");
        }
    }
    assert_eq!(gateway.chat(&chat("What is a coot?"), &[]).refusal(502)["code"], "provider_credentials");
    assert_eq!(mock.counts().requests, 5, "nothing was stored");
}

#[test]
fn a_stream_in_which_the_provider_reports_an_error_is_neither_complete_nor_stored() {
    let chunk = r#"data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"A bird."},"finish_reason":"stop"}]}"#;
    for error in
        [r#"{"error":{"message":"The model failed.","type":"server_error"}}"#, r#"{"message":"The model failed."}"#]
    {
        // All looks well but for this one event.
        let text = format!("{chunk}\n\nevent: error\ndata: {error}\n\ndata: [DONE]\n\n");
        let canned = Canned::answering("200 OK\r\nContent-Type: text/event-stream", text.clone().leak());
        let gateway = before(&canned);
        for call in 1..=2 {
            let answer = gateway.chat(&streamed("What is a snipe?"), &[]);
            answer.is(200, "MISS");
            assert_eq!(answer.text(), text, "what came is passed on");
            assert_eq!(outcome(&gateway, &answer.id()), "upstream_error");
            assert_eq!(canned.calls(), call);
        }
    }
}
