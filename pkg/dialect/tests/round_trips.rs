//! What both APIs can say is the same after the way there and back.

use proptest::prelude::*;
use serde_json::{Value, json};
use signet_dialect::{Api, Defaults, Wanted, translate_request, translate_whole};

const DEFAULTS: Defaults = Defaults { max_tokens: Some(4096) };

const WANTED: Wanted<'_> = Wanted { usage: true, created: 1_700_000_001, asked: None };

fn text() -> impl Strategy<Value = String> {
    let words =
        prop_oneof![Just("a word "), Just("\"\\\n"), Just("Zürich"), Just("\u{1f600}"), Just("\u{7}"), Just("{}")];
    proptest::collection::vec(words, 1..6).prop_map(|words| words.concat())
}

fn part() -> impl Strategy<Value = Value> {
    prop_oneof![
        text().prop_map(|text| json!({"type": "text", "text": text})),
        Just(json!({"type": "image_url", "image_url": {"url": "https://e.test/a.png"}})),
        Just(json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}})),
        text().prop_map(
            |name| json!({"type": "file", "file": {"filename": name, "file_data": "data:application/pdf;base64,JVBE"}})
        ),
    ]
}

fn user() -> impl Strategy<Value = Value> {
    prop_oneof![
        text().prop_map(|text| json!({"role": "user", "content": text})),
        proptest::collection::vec(part(), 2..4).prop_map(|parts| json!({"role": "user", "content": parts})),
    ]
}

fn exchange() -> impl Strategy<Value = Vec<Value>> {
    let arguments = prop_oneof![Just("{}"), Just("{\"a\": [1.50, null]}"), Just("{\"b\":\"\\u00fc\"}")];
    let calls = proptest::collection::vec((text(), arguments, text()), 0..3);
    (user(), proptest::option::of(text()), calls).prop_map(|(user, said, calls)| {
        let said = if calls.is_empty() { json!(said.unwrap_or("yes".to_owned())) } else { json!(said) };
        let mut answer = json!({"role": "assistant", "content": said});
        let (mut made, mut results) = (Vec::new(), Vec::new());
        for (i, (name, arguments, result)) in calls.into_iter().enumerate() {
            let id = format!("call_{i}");
            made.push(json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}));
            results.push(json!({"role": "tool", "tool_call_id": id, "content": result}));
        }
        if !made.is_empty() {
            answer["tool_calls"] = Value::Array(made);
        }
        [vec![user, answer], results].concat()
    })
}

/// Optional fields of a chat request that messages can say.
fn settings() -> impl Strategy<Value = Value> {
    let one = |key: &'static str, value: Value| proptest::option::of(Just(json!({key: value})));
    let tools = json!([{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": true}}]);
    let format =
        json!({"type": "json_schema", "json_schema": {"name": "output", "schema": {"a": [1]}, "strict": true}});
    (
        one("temperature", json!(0.5)),
        one("stop", json!(["a", "b"])),
        one("user", json!("u")),
        one("tools", tools),
        one("response_format", format),
        prop_oneof![Just("none"), Just("low"), Just("xhigh")]
            .prop_map(|effort| Some(json!({"reasoning_effort": effort}))),
        prop_oneof![
            Just(json!({"tool_choice": "auto", "parallel_tool_calls": false})),
            Just(json!({"tool_choice": "required"})),
            Just(json!({"tool_choice": "none"})),
            Just(json!({"tool_choice": {"type": "function", "function": {"name": "f"}}})),
            Just(json!({"stream": true, "stream_options": {"include_usage": true}})),
        ],
    )
        .prop_map(|(a, b, c, d, e, f, g)| small(&[a, b, c, d, e, f, Some(g)]))
}

fn chat() -> impl Strategy<Value = Value> {
    (proptest::option::of(text()), proptest::collection::vec(exchange(), 0..3), user(), settings()).prop_map(
        |(system, turns, last, mut body)| {
            let system = system.map(|text| json!({"role": "system", "content": text}));
            body["messages"] =
                Value::Array(system.into_iter().chain(turns.into_iter().flatten()).chain([last]).collect());
            body["max_completion_tokens"] = json!(77);
            body
        },
    )
}

/// A message as chat can say it: thoughts, a text, calls.
fn message() -> impl Strategy<Value = Value> {
    let thinking = text().prop_map(|text| json!({"type": "thinking", "thinking": text, "signature": ""}));
    let calls = proptest::collection::vec(text(), 0..3);
    (proptest::option::of(thinking), text(), calls, 0..9u64).prop_map(|(thinking, said, calls, cached)| {
        let why = if calls.is_empty() { "end_turn" } else { "tool_use" };
        let calls = calls.into_iter().enumerate().map(|(i, text)| {
            json!({"type": "tool_use", "id": format!("c{i}"), "name": "f", "input": {"text": text, "n": [1, {"a": {}}]}})
        });
        let content: Vec<Value> = thinking.into_iter().chain([json!({"type": "text", "text": said})]).chain(calls).collect();
        json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content, "stop_reason": why, "stop_sequence": null,
            "usage": {"input_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": cached, "output_tokens": 7},
        })
    })
}

/// A small chat request with these fields.
fn small(changes: &[Option<Value>; 7]) -> Value {
    let mut body = json!({"model": "m"});
    for (key, value) in changes.iter().flatten().filter_map(Value::as_object).flatten() {
        body[key] = value.clone();
    }
    body
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_chat_request_is_the_same_after_the_way_there_and_back(body in chat()) {
        let there = translate_request(Api::Chat, Api::Messages, &body.to_string().into(), &DEFAULTS);
        let back = translate_request(Api::Messages, Api::Chat, &there.expect("it can be said"), &DEFAULTS);
        prop_assert_eq!(serde_json::from_slice::<Value>(&back.expect("and back")).expect("JSON"), body);
    }

    #[test]
    fn an_answer_is_the_same_after_the_way_there_and_back(message in message()) {
        let there = translate_whole(Api::Messages, Api::Chat, WANTED, &message.to_string().into()).expect("it can be said");
        let back = translate_whole(Api::Chat, Api::Messages, WANTED, &there).expect("and back");
        prop_assert_eq!(serde_json::from_slice::<Value>(&back).expect("JSON"), message);
    }
}
