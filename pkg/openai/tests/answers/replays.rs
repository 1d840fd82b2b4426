//! Kept answers as streams.

use super::{answer, base, chunks, message, replay, saying, served};
use serde_json::{Value, json};
use signet_openai::Answer;
use signet_openai::sse::{Kind, Splitter};

#[test]
fn a_stream_hit_has_role_deltas_finish_and_end() {
    let long = "Paris is the capital of France. ".repeat(20);
    let mut body = base();
    body["choices"][0]["message"]["content"] = json!(long);
    let answer = answer(&body);
    let read = chunks(&answer, false);
    assert!(read.len() > 5, "several deltas, not one blob");
    assert_eq!(read[0]["choices"][0]["delta"], json!({"role": "assistant", "content": "", "refusal": null}));
    assert_eq!(read[0]["citations"], json!(["https://a"]));
    let text: String = read.iter().filter_map(|c| c["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, long);
    let last = &read[read.len() - 1]["choices"][0];
    assert_eq!((&last["delta"], &last["finish_reason"]), (&json!({}), &json!("stop")));
    for chunk in &read {
        assert_eq!(chunk["object"], "chat.completion.chunk");
        assert_eq!(
            (&chunk["id"], &chunk["created"], &chunk["model"]),
            (&json!("chatcmpl-new"), &json!(7), &json!("m-2024"))
        );
        assert_eq!(chunk.get("usage"), None, "not asked for");
    }
}

#[test]
fn what_is_said_beside_tool_calls_is_streamed_before_them_wherever_it_stands() {
    let text = br#"{"id":"c","model":"m","choices":[{"index":0,"message":{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}],"refusal":"no","content":"well","reasoning":"hm"},"finish_reason":"tool_calls"}]}"#;
    let answer = Answer::from_json(text, 1).expect("an answer");
    let said = chunks(&answer, false);
    let fields = |chunk: &Value| chunk["choices"][0]["delta"].as_object().map(|delta| delta.keys().cloned().collect());
    let said: Vec<String> = said[1..].iter().filter_map(fields).flat_map(|fields: Vec<String>| fields).collect();
    assert_eq!(said, ["reasoning", "refusal", "content", "tool_calls"], "behind the role");
    assert_eq!(replay(&answer, 1).content_digest(), answer.content_digest());
}

#[test]
fn the_usage_chunk_comes_only_if_asked_for() {
    let answer = answer(&base());
    let mut read = chunks(&answer, true);
    let usage = read.pop().expect("a usage chunk");
    assert_eq!((&usage["choices"], &usage["usage"]["total_tokens"]), (&json!([]), &json!(11)));
    assert!(read.iter().all(|chunk| chunk["usage"].is_null() && chunk.get("usage").is_some()));
    let mut splitter = Splitter::new(1 << 20, 1);
    splitter.push(answer.to_sse("a", 1, true));
    let runs = std::iter::from_fn(|| splitter.next_run().expect("short"));
    assert_eq!(runs.map(|run| run.kind).collect::<Vec<_>>(), [Kind::Ordinary, Kind::Finished, Kind::Usage, Kind::Done]);
    let mut none = base();
    none.as_object_mut().expect("an object").remove("usage");
    assert!(chunks(&self::answer(&none), true).iter().all(|chunk| chunk["choices"] != json!([])));
}

#[test]
fn tool_calls_are_replayed_identically() {
    let calls = json!([
        {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Köln\"}"}},
        {"id": "call_2", "type": "function", "function": {"name": "time", "arguments": "{}"}},
    ]);
    let body = saying(json!({"role": "assistant", "content": null, "tool_calls": calls}), "tool_calls");
    let answer = answer(&body);
    assert_eq!(served(&answer)["choices"][0]["message"]["tool_calls"], calls);
    let read = chunks(&answer, false);
    let sent: Vec<&Value> = read.iter().filter_map(|c| c["choices"][0]["delta"].get("tool_calls")).collect();
    assert_eq!((&sent[0][0]["index"], &sent[1][0]["index"]), (&json!(0), &json!(1)));
    assert_eq!(message(&replay(&answer, 1))["tool_calls"], calls);
}

#[test]
fn reasoning_is_replayed_before_the_text() {
    let reasoning = "step ".repeat(100);
    let body = saying(json!({"role": "assistant", "content": "42", "reasoning_content": reasoning}), "stop");
    let read = chunks(&answer(&body), false);
    let place =
        |key: &str| read.iter().rposition(|c| c["choices"][0]["delta"][key].as_str().is_some_and(|t| !t.is_empty()));
    assert!(place("reasoning_content") < place("content"));
    assert_eq!(message(&replay(&answer(&body), 1))["reasoning_content"], json!(reasoning));
}
