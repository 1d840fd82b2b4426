//! What holds of every answer.

use super::{accumulate, answer, replay, served};
use proptest::prelude::*;
use serde_json::{Value, json};
use signet_openai::{Accumulator, Answer};

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..3).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[a-z é你😀\"\\\\]{0,400}"]
}

fn any_call() -> impl Strategy<Value = Value> {
    (any::<u32>(), any::<String>(), any_text()).prop_map(|(id, name, arguments)| {
        json!({"id": format!("call_{id}"), "type": "function", "function": {"name": name, "arguments": arguments}})
    })
}

fn any_message() -> impl Strategy<Value = Value> {
    (
        prop::option::of(prop_oneof![Just(Value::Null), any_text().prop_map(Value::from)]),
        prop::option::of(any_text()),
        prop::option::of(any_text()),
        prop::option::of(prop::collection::vec(any_call(), 0..4)),
        prop::collection::btree_map("x_[a-z]{1,4}", any_json(), 0..3),
    )
        .prop_map(|(content, reasoning, refusal, calls, mut fields)| {
            fields.insert("role".into(), json!("assistant"));
            fields.extend(content.map(|content| ("content".into(), content)));
            fields.extend(reasoning.map(|text| ("reasoning_content".into(), json!(text))));
            fields.extend(refusal.map(|text| ("refusal".into(), json!(text))));
            fields.extend(calls.map(|calls| ("tool_calls".into(), json!(calls))));
            json!(fields)
        })
}

fn any_answer() -> impl Strategy<Value = Value> {
    let logprobs = prop_oneof![
        Just(json!({})),
        Just(json!({"logprobs": null})),
        (any::<i32>(), any_text())
            .prop_map(|(p, t)| json!({"logprobs": {"content": [{"token": t, "logprob": p}], "refusal": null}})),
    ];
    let finish = prop::sample::select(vec!["stop", "length", "tool_calls", "content_filter"]);
    let choice = (any_message(), logprobs, finish).prop_map(|(message, mut choice, finish)| {
        choice["message"] = message;
        choice["finish_reason"] = json!(finish);
        choice
    });
    let head = prop::collection::btree_map("(model|system_fingerprint|service_tier|y_[a-z]{1,4})", any_json(), 0..4);
    (prop::collection::vec(choice, 1..4), head, prop::option::of(any_json())).prop_map(|(mut choices, head, usage)| {
        for (index, choice) in choices.iter_mut().enumerate() {
            choice["index"] = json!(index);
        }
        let mut body = json!(head);
        body["choices"] = json!(choices);
        body["id"] = json!("old");
        if let Some(usage) = usage {
            body["usage"] = usage;
        }
        body
    })
}

proptest! {
    #[test]
    fn an_answer_served_as_a_stream_is_the_same_answer(body in any_answer()) {
        let n = u32::try_from(body["choices"].as_array().expect("choices").len()).expect("few");
        let answer = answer(&body);
        let again = replay(&answer, n);
        prop_assert_eq!(served(&again), served(&answer));
        prop_assert_eq!(again.content_digest(), answer.content_digest());
        prop_assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
    }

    #[test]
    fn a_stream_has_no_line_break_inside_an_event(body in any_answer()) {
        let stream = answer(&body).to_sse("a", 1, true);
        let text = std::str::from_utf8(&stream).expect("UTF-8");
        for event in text.strip_suffix("\n\n").expect("an end").split("\n\n") {
            prop_assert!(event.starts_with("data: ") && !event.contains(['\n', '\r']), "{event:?}");
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = (Answer::from_json(&bytes, 1), Answer::decode(&bytes));
        let mut accumulator = Accumulator::new(1);
        accumulator.push(&bytes);
        let _ = accumulator.finish();
    }

    #[test]
    fn arbitrary_json_never_panics(chunk in any_json(), choice in any_json(), delta in any_json()) {
        for body in [chunk.clone(), json!({"choices": [choice]}), json!({"choices": [{"delta": delta, "message": delta, "finish_reason": "stop"}]})] {
            let text = body.to_string();
            if let Ok(answer) = Answer::from_json(text.as_bytes(), 1) {
                let _ = answer.to_sse("a", 1, true);
            }
            let _ = accumulate(1, &[body]);
        }
    }
}
