//! Callers of one API before providers of another: the same answers, hits and failures as before one of their own.

use crate::canned::Canned;
use crate::client::Answer;
use crate::gateway::{CHAT, Gateway, Setup, chat, mock, streamed, with};
use crate::keeper::Keeper;
use crate::stack::free_address;
use serde_json::{Value, json};
use signet_mock::{Behaviour, Fault, MockUpstream, answer_text};
use tempfile::TempDir;

const MESSAGES: &str = "/v1/messages";
const PROMPT: &str = "What is a sluice?";

/// Before `mock`, which is taken for Anthropic.
fn anthropic(mock: &MockUpstream) -> Setup {
    Setup::on(mock).set("provider.0.kind", "anthropic")
}

fn message(prompt: &str) -> Value {
    json!({"model": "m", "max_tokens": 64, "messages": [{"role": "user", "content": prompt}]})
}

fn limited(request: Value) -> Value {
    with(request, json!({"max_tokens": 64}))
}

fn post(gateway: &Gateway, path: &str, body: &Value) -> Answer {
    gateway.post(path, &[("Content-Type", "application/json")], body.to_string().as_bytes())
}

/// The events of a messages stream, each under its name; the last must be `message_stop`.
fn events(answer: &Answer) -> Vec<Value> {
    let text = answer.text();
    let of = |event: &str| {
        let (name, data) = event.strip_prefix("event: ")?.split_once("\ndata: ")?;
        let data: Value = serde_json::from_str(data).expect("JSON");
        assert_eq!(data["type"], name, "{text}");
        Some(data)
    };
    let events: Vec<Value> = text.split_terminator("\n\n").map(|event| of(event).expect("a named event")).collect();
    assert_eq!(events.last().map(|event| event["type"].clone()), Some(json!("message_stop")), "{text}");
    events
}

fn text_of(events: &[Value]) -> String {
    events.iter().filter_map(|event| event["delta"]["text"].as_str()).collect()
}

#[test]
fn a_chat_caller_is_answered_by_a_messages_model_and_shares_the_cache_with_its_own_callers() {
    let (mock, data) = (mock(), TempDir::new().expect("a folder"));
    let gateway = anthropic(&mock).within(data.path()).start();
    let first = post(&gateway, CHAT, &limited(chat(PROMPT)));
    first.is(200, "MISS");
    assert_eq!((first.said(), first.json()["object"].clone()), (answer_text(PROMPT), json!("chat.completion")));
    assert_eq!(first.json()["choices"][0]["finish_reason"], "stop");
    assert!(first.json()["usage"]["total_tokens"].as_u64() > Some(0));
    let seen = mock.requests().remove(0);
    assert_eq!((seen.path.as_str(), seen.header("anthropic-version")), (MESSAGES, Some("2023-06-01")));
    let hit = post(&gateway, CHAT, &limited(chat(PROMPT)));
    hit.is(200, "EXACT");
    assert_eq!(hit.said(), first.said());
    let stream = post(&gateway, CHAT, &limited(streamed(PROMPT)));
    stream.is(200, "EXACT");
    assert_eq!(stream.streamed(), first.said());
    let native = post(&gateway, MESSAGES, &message(PROMPT));
    native.is(200, "EXACT");
    assert_eq!(native.json()["content"][0]["text"], answer_text(PROMPT));
    assert_eq!(mock.counts().requests, 1, "one call for all of them");
    let record = gateway.record(&first.id())["predicate"].take();
    assert_eq!((&record["request"]["op"], &record["request"]["forwarded"]["changed"]), (&json!("chat"), &json!(true)));
    drop(gateway.stop());
    let (code, said) = Keeper::of(data.path()).verify(&["--data", data.path().to_str().expect("a name")]);
    assert_eq!(code, 0, "{said}");
}

#[test]
fn a_messages_caller_is_answered_by_a_chat_model_as_json_and_as_a_stream() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    for round in ["MISS", "EXACT"] {
        let whole = post(&gateway, MESSAGES, &message(PROMPT));
        whole.is(200, round);
        let said = whole.json();
        assert_eq!((&said["type"], &said["content"][0]["text"]), (&json!("message"), &json!(answer_text(PROMPT))));
        assert_eq!(
            (&said["stop_reason"], said["usage"]["output_tokens"].as_u64() > Some(0)),
            (&json!("end_turn"), true)
        );
        let stream = post(&gateway, MESSAGES, &with(message("What is a lock?"), json!({"stream": true})));
        stream.is(200, round);
        assert_eq!(text_of(&events(&stream)), answer_text("What is a lock?"));
    }
    assert_eq!(mock.counts().requests, 2);
    assert!(mock.requests().iter().all(|seen| seen.path == CHAT));
}

#[test]
fn a_stream_of_the_other_api_ends_with_an_error_of_the_callers_where_it_is_cut() {
    let mock = mock();
    for (setup, path, request) in [
        (anthropic(&mock), CHAT, limited(streamed(PROMPT))),
        (Setup::on(&mock), MESSAGES, with(message(PROMPT), json!({"stream": true}))),
    ] {
        let gateway = setup.start();
        for fault in [Fault::CutAfter(3), Fault::ErrorEvent(3)] {
            mock.script([Behaviour::fault(fault)]);
            let answer = post(&gateway, path, &request);
            assert_eq!((answer.status, answer.header("x-cache")), (200, Some("MISS")));
            let text = answer.text();
            let (event, whole) = if path == CHAT {
                (text.contains("data: {\"error\":{"), text.contains("[DONE]"))
            } else {
                (text.contains("event: error\ndata: {\"type\":\"error\","), text.contains("message_stop"))
            };
            assert!(event && !whole, "{text}");
        }
        post(&gateway, path, &request).is(200, "MISS");
    }
}

#[test]
fn tools_are_called_across_apis_in_both_forms() {
    let mock = mock();
    let parameters = json!({"type": "object", "properties": {"place": {"type": "string"}}});
    let tools = json!({"tools": [{"type": "function", "function": {"name": "weather", "parameters": parameters}}]});
    let gateway = anthropic(&mock).start();
    for request in [chat("use the tool for rain"), streamed("use the tool for wind")] {
        let answer = post(&gateway, CHAT, &with(limited(request), tools.clone()));
        answer.is(200, "MISS");
        let called = if answer.text().starts_with("data:") {
            answer
                .events()
                .iter()
                .any(|event| event["choices"][0]["delta"]["tool_calls"][0]["function"]["name"] == "weather")
        } else {
            answer.json()["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "weather"
        };
        assert!(called, "{}", answer.text());
    }
    let gateway = Setup::on(&mock).start();
    let tools = json!({"tools": [{"name": "weather", "input_schema": parameters}]});
    let answer = post(&gateway, MESSAGES, &with(message("use the tool for rain"), tools.clone()));
    let called: Vec<Value> = answer.json()["content"].as_array().expect("a list").clone();
    assert!(called.iter().any(|block| block["type"] == "tool_use" && block["name"] == "weather"), "{}", answer.text());
    assert_eq!(answer.json()["stop_reason"], "tool_use");
    let stream =
        post(&gateway, MESSAGES, &with(message("use the tool for wind"), with(tools, json!({"stream": true}))));
    assert!(events(&stream).iter().any(|event| event["content_block"]["name"] == "weather"), "{}", stream.text());
}

#[test]
fn what_the_other_api_cannot_say_is_a_400_and_reaches_nobody() {
    let mock = mock();
    let gateway = anthropic(&mock).start();
    for (more, param) in [
        (json!({"n": 2}), "n"),
        (json!({"seed": 1}), "seed"),
        (json!({"something_new": true}), "something_new"),
        (json!({"max_tokens": null}), "max_completion_tokens"),
    ] {
        let refused = post(&gateway, CHAT, &with(limited(chat(PROMPT)), more));
        assert_eq!(refused.refusal(400)["param"], param, "{}", refused.text());
    }
    let gateway = Setup::on(&mock).start();
    let refused = post(&gateway, MESSAGES, &with(message(PROMPT), json!({"top_k": 5})));
    assert_eq!((refused.status, &refused.json()["error"]["type"]), (400, &json!("invalid_request_error")));
    assert_eq!(mock.counts().requests, 0);
}

#[test]
fn a_providers_refusal_is_said_in_the_callers_api() {
    let mock = mock();
    let gateway = anthropic(&mock).start();
    mock.script([Behaviour::status(529)]);
    let refused = post(&gateway, CHAT, &limited(chat(PROMPT)));
    refused.refusal(503);
    let gateway = Setup::on(&mock).start();
    mock.script([Behaviour::status(429)]);
    let refused = post(&gateway, MESSAGES, &message(PROMPT));
    let said = refused.json();
    assert_eq!(
        (refused.status, &said["type"], &said["error"]["type"]),
        (429, &json!("error"), &json!("rate_limit_error"))
    );
}

#[test]
fn a_model_without_a_limit_of_the_callers_has_the_configured_one() {
    let mock = mock();
    let gateway = anthropic(&mock)
        .set("model.0.name", "m")
        .set("model.0.max_tokens_default", "77")
        .set("model.0.targets.0.provider", "mock")
        .set("model.0.targets.0.model", "claude")
        .start();
    post(&gateway, CHAT, &chat(PROMPT)).is(200, "MISS");
    let sent: Value = serde_json::from_slice(&mock.requests().remove(0).body).expect("JSON");
    assert_eq!((&sent["max_tokens"], &sent["model"]), (&json!(77), &json!("claude")));
}

#[test]
fn where_the_own_provider_is_away_one_of_another_api_answers_and_nothing_of_it_is_kept() {
    let mock = mock();
    let gateway = Setup::on(&mock)
        .set("provider.0.name", "gone")
        .set("provider.0.base_url", &format!("http://{}/v1", free_address()))
        .set("provider.1.name", "mock")
        .set("provider.1.kind", "anthropic")
        .set("provider.1.base_url", &mock.base_url())
        .set("provider.1.api_key_env", "MOCK_KEY")
        .set("model.0.name", "m")
        .set("model.0.targets.0.provider", "gone")
        .set("model.0.targets.0.model", "first")
        .set("model.0.targets.1.provider", "mock")
        .set("model.0.targets.1.model", "second")
        .start();
    for request in [chat(PROMPT), streamed(PROMPT), chat(PROMPT)] {
        let answer = post(&gateway, CHAT, &limited(request));
        answer.is(200, "MISS");
        let said = if answer.text().starts_with("data:") { answer.streamed() } else { answer.said() };
        assert_eq!(said, answer_text(PROMPT));
        let record = gateway.record(&answer.id())["predicate"].take();
        assert_eq!(record["provider"]["attempts"].as_array().map(Vec::len), Some(2));
    }
    // What the fallback cannot be asked is refused as if it were not there.
    let refused = post(&gateway, CHAT, &with(limited(chat(PROMPT)), json!({"seed": 7})));
    refused.refusal(502);
    assert_eq!(mock.counts().requests, 3);
}

#[test]
fn a_cut_stream_of_any_api_ends_with_that_apis_error_event_and_is_not_kept() {
    let mock = mock();
    let flat = "event: error\ndata: {\"type\":\"error\"";
    let rows = [
        (anthropic(&mock), MESSAGES, with(message(PROMPT), json!({"stream": true})), flat),
        (
            Setup::on(&mock),
            "/v1/responses",
            json!({"model": "m", "input": PROMPT, "store": false, "stream": true}),
            flat,
        ),
        (
            Setup::on(&mock),
            "/v1/completions",
            json!({"model": "m", "prompt": PROMPT, "stream": true}),
            "data: {\"error\":",
        ),
    ];
    for (setup, path, request, event) in rows {
        let gateway = setup.start();
        for fault in [Fault::CutAfter(3), Fault::RstAfter(3)] {
            mock.script([Behaviour::fault(fault)]);
            let answer = post(&gateway, path, &request);
            answer.is(200, "MISS");
            assert!(!answer.ended_well && answer.text().contains(event), "{path}: {}", answer.text());
            assert_eq!(gateway.record(&answer.id())["predicate"]["response"]["outcome"], "upstream_error", "{path}");
        }
        let whole = post(&gateway, path, &request);
        whole.is(200, "MISS");
        assert!(whole.ended_well, "{path}");
        post(&gateway, path, &request).is(200, "EXACT");
    }
}

const JSON_HEAD: &str = "200 OK\r\nContent-Type: application/json";
/// A call of a tool whose arguments are no JSON, which callers of chat see as it is.
const BROKEN_CALL: &str = r#"{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"place\":"}}]},"logprobs":null,"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}"#;
const SOUND: &str = r#"{"id":"chatcmpl-2","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"rain"},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":11,"completion_tokens":1,"total_tokens":12}}"#;

/// Before a provider of chat that answers with these bodies in turn.
fn canned(bodies: &[&'static str]) -> (Canned, Setup) {
    let canned = Canned::in_turn(JSON_HEAD, bodies.to_vec());
    let setup = Setup::on(&mock()).set("provider.0.base_url", &canned.base_url());
    (canned, setup)
}

#[test]
fn an_answer_that_cannot_be_said_is_a_502_whose_record_has_what_it_cost_and_what_came() {
    let data = TempDir::new().expect("a folder");
    let (canned, setup) = canned(&[BROKEN_CALL]);
    let gateway = setup.within(data.path()).start();
    for calls in [1, 2] {
        let refused = post(&gateway, MESSAGES, &message(PROMPT));
        refused.is(502, "MISS");
        assert_eq!((refused.need("x-should-retry"), canned.calls()), ("false", calls), "it is not kept");
        let record = gateway.record(&refused.id())["predicate"].take();
        assert_eq!(
            (&record["http"]["status"], &record["response"]["outcome"]),
            (&json!(502), &json!("upstream_error"))
        );
        assert_eq!((&record["usage"]["in"], &record["usage"]["out"]), (&json!(11), &json!(7)), "{record}");
        assert_eq!((&record["usage"]["billed"], &record["model"]["served"]), (&json!(true), &json!("m")));
        assert!(record["response"]["fp"].is_string(), "{record}");
        let (came, sent) = (&record["response"]["upstream"]["bytes"], &record["response"]["bytes"]);
        assert_eq!((came, sent), (&json!(BROKEN_CALL.len()), &json!(refused.body.len())), "{record}");
    }
    drop(gateway.stop());
    let (code, said) = Keeper::of(data.path()).verify(&["--data", data.path().to_str().expect("a name")]);
    assert_eq!(code, 0, "{said}");
}

#[test]
fn a_kept_answer_that_cannot_be_said_to_a_caller_is_a_miss_for_this_caller_and_a_hit_for_others() {
    let (canned, setup) = canned(&[BROKEN_CALL, SOUND]);
    let gateway = setup.start();
    let chat_request = with(chat(PROMPT), json!({"max_completion_tokens": 64}));
    post(&gateway, CHAT, &chat_request).is(200, "MISS");
    let hit = post(&gateway, CHAT, &chat_request);
    hit.is(200, "EXACT");
    assert_eq!(hit.json()["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"], "{\"place\":");
    let only = [("Cache-Control", "only-if-cached")];
    assert_eq!(gateway.post(MESSAGES, &only, message(PROMPT).to_string().as_bytes()).status, 504);
    assert_eq!(canned.calls(), 1);
    let anew = post(&gateway, MESSAGES, &message(PROMPT));
    anew.is(200, "MISS");
    assert_eq!((anew.json()["content"][0]["text"].clone(), canned.calls()), (json!("rain"), 2));
    let record = gateway.record(&anew.id())["predicate"].take();
    assert_eq!((&record["cache"]["decision"], &record["parents"]), (&json!("miss"), &Value::Null), "{record}");
    for path in [CHAT, MESSAGES] {
        let request = if path == CHAT { chat_request.clone() } else { message(PROMPT) };
        post(&gateway, path, &request).is(200, "EXACT");
    }
    assert_eq!(canned.calls(), 2, "what was said anew is kept in its place");
}

#[test]
fn the_error_event_of_a_broken_response_continues_the_numbers_of_its_stream() {
    let mock = mock();
    let request = json!({"model": "m", "input": PROMPT, "store": false, "stream": true, "max_output_tokens": 64});
    for setup in [Setup::on(&mock), anthropic(&mock)] {
        let gateway = setup.start();
        mock.script([Behaviour::fault(Fault::CutAfter(4))]);
        let answer = post(&gateway, "/v1/responses", &request);
        answer.is(200, "MISS");
        let text = answer.text();
        let datas = text.lines().filter_map(|line| line.strip_prefix("data: "));
        let events: Vec<Value> = datas.map(|data| serde_json::from_str(data).expect("JSON")).collect();
        assert_eq!(events.last().map(|event| &event["type"]), Some(&json!("error")), "{text}");
        let numbers: Vec<u64> = events.iter().filter_map(|event| event["sequence_number"].as_u64()).collect();
        assert!(numbers.len() > 2 && numbers == (0..numbers.len() as u64).collect::<Vec<_>>(), "{text}");
    }
}
