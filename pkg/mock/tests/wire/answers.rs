//! What an ordinary client gets.

use std::io::Read;

use crate::support::{PROMPT, ask, body, chat, json, mock, send, text};
use signet_mock::{Behaviour, Config, MockUpstream, answer_text, chat_body, marker};

#[test]
fn a_json_answer_is_what_the_library_says_it_is() {
    let answer = text(&mut ask(&mock(), "", &chat("")));
    assert_eq!(body(answer.as_bytes()), chat_body("m", PROMPT));
    assert_eq!(json(&answer)["choices"][0]["message"]["content"], answer_text(PROMPT));
    assert!(answer.contains(&marker(PROMPT)) && answer.contains("x-request-id: req_mock_1\r\n"));
}

#[test]
fn every_event_of_a_stream_is_a_chunk_of_its_own() {
    let answer = text(&mut ask(&mock(), "", &chat(",\"stream\":true")));
    assert!(answer.contains("content-type: text/event-stream"));
    let sizes = answer.split("\r\n").filter(|line| !line.is_empty() && line.len() < 4).count();
    assert_eq!(sizes, 76, "74 events, the end mark and the last chunk");
    assert!(body(answer.as_bytes()).ends_with(b"data: [DONE]\n\n"));
    assert!(!answer.contains("\"usage\""));
}

#[test]
fn a_burst_is_one_chunk_with_the_same_events() {
    let (one, many) = (mock(), mock());
    let streamed = chat(",\"stream\":true,\"stream_options\":{\"include_usage\":true}");
    let burst = text(&mut ask(&one, "x-mock-burst: 1\r\n", &streamed));
    let paced = text(&mut ask(&many, "", &streamed));
    assert_eq!(body(burst.as_bytes()), body(paced.as_bytes()));
    assert_eq!(burst.matches("\r\ndata: ").count(), 1);
    assert!(burst.contains("\"choices\":[],\"usage\":{\"prompt_tokens\":"));
}

#[test]
fn a_tool_is_called_when_the_prompt_or_a_header_says_so() {
    let tools = r#","tools":[{"type":"function","function":{"name":"look_up","parameters":{}}}]"#;
    let plain = json(&text(&mut ask(&mock(), "", &chat(tools))));
    assert!(plain["choices"][0]["message"]["tool_calls"].is_null());
    let called = json(&text(&mut ask(&mock(), "x-mock-tool-call: 1\r\n", &chat(tools))));
    assert_eq!(called["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "look_up");
    let asked = chat(tools).replace(PROMPT, "use the tool now");
    let called = json(&text(&mut ask(&mock(), "", &asked)));
    assert_eq!(called["choices"][0]["finish_reason"], "tool_calls");
}

#[test]
fn models_and_embeddings_are_lists() {
    let models = json(&text(&mut send(&mock(), "GET /v1/models", "Connection: close\r\n", "")));
    assert_eq!(models["object"], "list");
    let request = r#"{"model":"e","input":["a","b"]}"#;
    let answer = json(&text(&mut send(&mock(), "POST /v1/embeddings", "Connection: close\r\n", request)));
    assert_eq!(answer["data"].as_array().map(Vec::len), Some(2));
    assert_eq!(answer["data"][1]["embedding"].as_array().map(Vec::len), Some(256));
}

#[test]
fn refusals_have_the_shape_of_the_provider() {
    let close = "Connection: close\r\n";
    let broken = text(&mut send(&mock(), "POST /v1/chat/completions", close, "{"));
    assert!(broken.starts_with("HTTP/1.1 400"));
    let missing = json(&text(&mut send(&mock(), "POST /v1/chat/completions", close, r#"{"model":"m"}"#)));
    assert_eq!(missing["error"]["param"], "messages");
    let unknown = text(&mut send(&mock(), "GET /v1/nothing", close, ""));
    assert!(unknown.starts_with("HTTP/1.1 404"));
    assert_eq!(json(&unknown)["error"]["code"], "unknown_url");
    let typo = text(&mut ask(&mock(), "x-mock-falt: reset\r\n", &chat("")));
    assert!(typo.starts_with("HTTP/1.1 400"));
}

#[test]
fn a_key_is_asked_for_only_when_one_is_set() {
    let guarded =
        MockUpstream::start(Config { api_key: Some("k-1".into()), ..Config::default() }).expect("a free port");
    assert!(text(&mut ask(&guarded, "", &chat(""))).starts_with("HTTP/1.1 401"));
    assert!(text(&mut ask(&guarded, "Authorization: Bearer k-1\r\n", &chat(""))).starts_with("HTTP/1.1 200"));
}

#[test]
fn what_reached_the_mock_can_be_read_over_http() {
    let mock = mock();
    text(&mut ask(&mock, "traceparent: 00-1\r\n", &chat("")));
    let close = "Connection: close\r\n";
    let seen = json(&text(&mut send(&mock, "GET /_mock/requests", close, "")));
    assert_eq!(seen[0]["path"], "/v1/chat/completions");
    assert_eq!((&seen[0]["finished"], &seen[0]["cancelled"]), (&true.into(), &false.into()));
    assert_eq!(seen[0]["body"], chat(""));
    assert_eq!(seen[0]["body_sha256"].as_str().map(str::len), Some(64));
    assert!(seen[0]["headers"].as_array().is_some_and(|h| h.iter().any(|pair| pair[0] == "traceparent")));
    let counts = json(&text(&mut send(&mock, "GET /_mock/counts", close, "")));
    assert_eq!((&counts["requests"], &counts["by_path"]["/v1/chat/completions"]), (&1.into(), &1.into()));
    text(&mut send(&mock, "DELETE /_mock/requests", close, ""));
    assert_eq!((mock.counts().requests, mock.requests().len()), (0, 0));
}

#[test]
fn flags_are_the_default_of_every_request() {
    let behaviour = Behaviour { chunks: Some(3), answer_bytes: Some(5000), ..Behaviour::default() };
    let mock = MockUpstream::start(Config { behaviour, threads: 2, ..Config::default() }).expect("a free port");
    let answer = text(&mut ask(&mock, "", &chat(",\"stream\":true")));
    assert_eq!(answer.matches("data: ").count(), 4);
    assert!(answer.len() > 5000);
}

#[test]
fn a_dropped_mock_closes_its_port_and_its_connections() {
    let mock = mock();
    let mut stream = ask(&mock, "x-mock-fault: hang\r\n", &chat(""));
    let address = mock.addr();
    drop(mock);
    assert_eq!(stream.read(&mut [0; 1]).unwrap_or(0), 0);
    std::net::TcpStream::connect(address).expect_err("nobody listens");
}
