//! One stored form serves JSON and streams.

use crate::canned::Canned;
use crate::gateway::{Setup, chat, mock, streamed, with};
use serde_json::{Value, json};
use signet_mock::{Behaviour, answer_text};
use tempfile::TempDir;

const PROMPT: &str = "Why do leaves fall?";

#[test]
fn a_json_answer_is_served_as_a_stream_that_an_sdk_can_read() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let first = gateway.chat(&chat(PROMPT), &[]);
    let hit = gateway.chat(&streamed(PROMPT), &[]);
    hit.is(200, "EXACT");
    assert_eq!(hit.need("content-type"), "text/event-stream; charset=utf-8");
    assert_eq!((hit.need("cache-control"), hit.need("x-accel-buffering")), ("no-cache", "no"));
    assert_eq!(hit.need("x-cache-source"), first.id());
    let events = hit.events();
    assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
    assert!(events.iter().all(|event| event["object"] == "chat.completion.chunk" && event["id"] == events[0]["id"]));
    assert_eq!(events.last().map(|event| event["choices"][0]["finish_reason"].clone()), Some(json!("stop")));
    assert_eq!(hit.streamed(), answer_text(PROMPT));
    assert!(hit.ended_well && events.iter().all(|event| event.get("usage").is_none_or(Value::is_null)));
}

#[test]
fn a_streamed_answer_is_served_as_json_and_as_a_stream() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let first = gateway.chat(&streamed(PROMPT), &[]);
    first.is(200, "MISS");
    let json = gateway.chat(&chat(PROMPT), &[]);
    json.is(200, "EXACT");
    assert_eq!(json.said(), first.streamed());
    assert_eq!(json.json()["choices"][0]["finish_reason"], "stop");
    assert!(json.json()["usage"]["total_tokens"].as_u64() > Some(0), "usage was asked of the provider for the record");
    let again = gateway.chat(&streamed(PROMPT), &[]);
    again.is(200, "EXACT");
    assert_eq!(again.streamed(), first.streamed());
    assert_eq!(mock.counts().requests, 1);
}

#[test]
fn the_usage_chunk_comes_only_to_those_who_asked_on_misses_and_hits() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let asking = |wanted: bool| with(streamed(PROMPT), json!({"stream_options": {"include_usage": wanted}}));
    let has_usage = |events: &[Value]| events.iter().any(|event| event["usage"].is_object());
    for (request, wanted) in [(streamed(PROMPT), false), (asking(true), true), (asking(false), false)] {
        let miss = gateway.chat(&request, &[("Cache-Control", "no-cache")]);
        miss.is(200, "REFRESH");
        assert_eq!(has_usage(&miss.events()), wanted, "{}", miss.text());
        let hit = gateway.chat(&request, &[]);
        hit.is(200, "EXACT");
        assert_eq!(has_usage(&hit.events()), wanted, "{}", hit.text());
    }
    for seen in mock.requests() {
        let body: Value = serde_json::from_slice(&seen.body).expect("JSON");
        assert_eq!(body["stream_options"]["include_usage"], true, "the gateway needs the figures for its record");
    }
}

#[test]
fn tool_calls_are_replayed_whole_in_both_forms() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let tools =
        json!({"tools": [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}]});
    for first_streams in [false, true] {
        let prompt = format!("use the tool {first_streams}");
        let (json, stream) = (with(chat(&prompt), tools.clone()), with(streamed(&prompt), tools.clone()));
        let first = gateway.chat(if first_streams { &stream } else { &json }, &[]);
        first.is(200, "MISS");
        let whole = gateway.chat(&json, &[]);
        whole.is(200, "EXACT");
        let call = whole.json()["choices"][0]["message"]["tool_calls"][0].clone();
        assert_eq!(call["function"]["name"], "look_up");
        let wanted = format!("{{\"marker\":\"{}\"}}", signet_mock::marker(&prompt));
        assert_eq!(call["function"]["arguments"], wanted);
        assert_eq!(whole.json()["choices"][0]["finish_reason"], "tool_calls");
        let pieces = gateway.chat(&stream, &[]);
        pieces.is(200, "EXACT");
        let arguments = |event: &Value| {
            event["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"].as_str().map(str::to_owned)
        };
        assert_eq!(pieces.events().iter().filter_map(arguments).collect::<String>(), wanted);
        let ids: Vec<_> = pieces
            .events()
            .iter()
            .filter_map(|event| event["choices"][0]["delta"]["tool_calls"][0]["id"].as_str().map(str::to_owned))
            .collect();
        assert_eq!(ids, [call["id"].as_str().expect("an id")]);
    }
}

const REASONING: &str = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"r\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"reasoning_content\":\"Let me \"},\"finish_reason\":null}]}\n\n\
: keep-alive\n\n\
data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"r\",\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"think.\"},\"finish_reason\":null}]}\n\n\
data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"r\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Yes.\"},\"finish_reason\":null}]}\n\n\
data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"r\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
data: [DONE]\n\n";

#[test]
fn reasoning_is_replayed_and_comments_pass_on_the_way() {
    let mock = mock();
    let canned = Canned::answering("200 OK\r\nContent-Type: text/event-stream", REASONING);
    let setup = Setup::on(&mock).set("provider.0.base_url", &canned.base_url()).set("provider.0.inject_usage", "false");
    let gateway = setup.start();
    let first = gateway.chat(&streamed(PROMPT), &[]);
    first.is(200, "MISS");
    assert_eq!(first.text(), REASONING);
    let thought = |events: &[Value]| -> String {
        events.iter().filter_map(|event| event["choices"][0]["delta"]["reasoning_content"].as_str()).collect()
    };
    let hit = gateway.chat(&streamed(PROMPT), &[]);
    hit.is(200, "EXACT");
    assert_eq!((thought(&hit.events()), hit.streamed()), ("Let me think.".to_owned(), "Yes.".to_owned()));
    let whole = gateway.chat(&chat(PROMPT), &[]);
    assert_eq!(whole.json()["choices"][0]["message"]["reasoning_content"], "Let me think.");
    assert_eq!(canned.calls(), 1);
}

#[test]
fn a_stream_without_done_gets_one_and_is_kept() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    mock.script([Behaviour::fault(signet_mock::Fault::NoDone)]);
    let first = gateway.chat(&streamed(PROMPT), &[]);
    first.is(200, "MISS");
    assert!(first.ended_well && first.text().ends_with("data: [DONE]\n\n"));
    gateway.chat(&streamed(PROMPT), &[]).is(200, "EXACT");
    assert_eq!(gateway.record(&first.id())["predicate"]["response"]["outcome"], "complete");
}

#[test]
fn after_a_restart_the_same_prompt_is_exact_and_a_rephrased_one_semantic() {
    let mock = mock();
    let folder = TempDir::new().expect("a folder");
    let setup = Setup::on(&mock).within(folder.path());
    let gateway = setup.start();
    let first = gateway.chat(&chat("What is the capital of Peru?"), &[]);
    first.is(200, "MISS");
    gateway.chat(&streamed(PROMPT), &[]).is(200, "MISS");
    drop(gateway.stop());
    let gateway = setup.start();
    let again = gateway.chat(&chat("What is the capital of Peru?"), &[]);
    again.is(200, "EXACT");
    assert_eq!(again.need("x-cache-source"), first.id());
    gateway.chat(&chat("What's the capital of Peru?"), &[]).is(200, "SEMANTIC");
    gateway.chat(&chat(PROMPT), &[]).is(200, "EXACT");
    assert_eq!(mock.counts().requests, 2);
}
