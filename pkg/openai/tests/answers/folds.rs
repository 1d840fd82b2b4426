//! Streams, put together again into answers.

use super::{accumulate, delta, finish, message, served};
use proptest::prelude::*;
use serde_json::{Value, json};
use signet_openai::{Accumulator, Answer, Incomplete, Usage};

#[test]
fn fragments_are_put_together() {
    let answer = accumulate(
        1,
        &[
            json!({"id": "c", "choices": [], "prompt_filter_results": [{"x": 1}]}),
            json!({"id": "c", "choices": null}),
            delta(json!({"role": "assistant"})),
            delta(json!({"reasoning_content": "be", "brand_new": "x", "audio": {"id": "1", "data": "AA"}})),
            delta(json!({"reasoning_content": "cause", "brand_new": "y", "audio": {"id": "1", "data": "BB"}, "level": 2})),
            delta(json!({"role": "assistant", "content": null, "tool_calls": [{"index": 1, "id": "b", "type": "function", "function": {"name": "g", "arguments": ""}}]})),
            delta(json!({"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\""}}]})),
            delta(json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": ":1}"}}, {"index": 1, "id": "", "function": {"arguments": "{}"}}]})),
            json!({"id": "c", "model": "m", "obfuscation": "padding", "system_fingerprint": "fp", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
            json!({"id": "c", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}),
        ],
    )
    .expect("complete");
    let body = served(&answer);
    assert_eq!(
        body["choices"][0]["message"],
        json!({"role": "assistant", "content": null, "reasoning_content": "because", "brand_new": "xy", "level": 2,
        "audio": {"id": "1", "data": "AABB"}, "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}},
            {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
        ]})
    );
    assert_eq!((&body["system_fingerprint"], &body["prompt_filter_results"]), (&json!("fp"), &json!([{"x": 1}])));
    assert_eq!(body.get("obfuscation"), None);
    assert_eq!(answer.usage(), Some(Usage { input: 3, output: 4, ..Usage::default() }));
    assert_eq!(answer.finish(), Some("tool_calls"));
}

#[test]
fn interleaved_choices_and_their_logprobs_are_kept_apart() {
    let chunk = |index: u32, text: &str| {
        json!({"model": "m", "choices": [{"index": index, "delta": {"content": text},
            "logprobs": {"content": [{"token": text, "logprob": -0.5}], "refusal": null}, "finish_reason": null}]})
    };
    let answer = accumulate(2, &[chunk(1, "b"), chunk(0, "a"), chunk(1, "B"), finish(1, "stop"), finish(0, "stop")]);
    let body = served(&answer.expect("complete"));
    assert_eq!(body["choices"][0]["message"]["content"], "a");
    assert_eq!(body["choices"][1]["message"]["content"], "bB");
    assert_eq!(body["choices"][1]["logprobs"]["content"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_tool_call_without_index_continues_the_last_one_or_begins_its_own() {
    let call = |call: Value| delta(json!({"tool_calls": [call]}));
    let chunks = [
        call(json!({"id": "a", "function": {"name": "f", "arguments": "{"}})),
        call(json!({"function": {"arguments": "}"}})),
        call(json!({"id": "b", "function": {"name": "g", "arguments": "{}"}})),
        finish(0, "tool_calls"),
    ];
    assert_eq!(
        message(&accumulate(1, &chunks).expect("complete"))["tool_calls"],
        json!([{"id": "a", "function": {"name": "f", "arguments": "{}"}}, {"id": "b", "function": {"name": "g", "arguments": "{}"}}])
    );
}

/// Mistral's models that think send parts first and text behind them, under one name.
#[test]
fn content_that_comes_as_parts_and_as_text_is_never_half_kept() {
    let content = |content: Value| delta(json!({"content": content}));
    let parts = || content(json!([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]));
    for both in [[parts(), content(json!("well"))], [content(json!("well")), parts()]] {
        assert_eq!(accumulate(1, &[&both[..], &[finish(0, "stop")]].concat()), Err(Incomplete::Ambiguous));
    }
    for empty in [json!([]), json!(""), json!({}), Value::Null] {
        let chunks = [content(empty.clone()), content(json!("well")), content(empty), finish(0, "stop")];
        assert_eq!(message(&accumulate(1, &chunks).expect("an answer"))["content"], "well");
    }
}

#[test]
fn two_tool_calls_with_one_index_are_not_guessed_at() {
    let call =
        |id: &str| delta(json!({"tool_calls": [{"index": 0, "id": id, "function": {"name": "f", "arguments": "{}"}}]}));
    assert_eq!(accumulate(1, &[call("a"), call("b"), finish(0, "tool_calls")]), Err(Incomplete::Ambiguous));
}

#[test]
fn text_behind_a_tool_call_and_thoughts_behind_text_pass_and_are_not_stored() {
    let (text, thoughts) = (delta(json!({"content": "a"})), delta(json!({"reasoning_content": "a"})));
    let call = delta(json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]}));
    let told = |parts: &[&Value]| {
        let end = finish(0, "tool_calls");
        let parts: Vec<Value> = parts.iter().copied().chain([&end]).cloned().collect();
        accumulate(1, &parts).map(drop)
    };
    assert_eq!(told(&[&thoughts, &text, &text, &call]), Ok(()));
    for parts in [[&call, &text], [&call, &thoughts], [&text, &thoughts]] {
        assert_eq!(told(&parts), Err(Incomplete::Ambiguous), "{parts:?}");
    }
    let mut fold = Accumulator::new(1);
    for chunk in [&call, &text, &finish(0, "tool_calls")] {
        fold.push(chunk.to_string().as_bytes());
    }
    let said = fold.finish_unordered().expect("whole but for its order").to_json("id", 1);
    let said: Value = serde_json::from_slice(&said).expect("JSON");
    let message = &said["choices"][0]["message"];
    assert_eq!((&message["content"], &message["tool_calls"][0]["id"]), (&json!("a"), &json!("c")));
}

#[test]
fn a_chunk_that_says_a_field_twice_is_not_guessed_at() {
    let said = |chunk: &str| {
        let mut fold = Accumulator::new(1);
        fold.push(chunk.as_bytes());
        fold.push(finish(0, "stop").to_string().as_bytes());
        fold.finish().map(|answer| answer.content())
    };
    let choice = r#"{"index":0,"delta":{"content":"a"}}"#;
    assert_eq!(said(&format!(r#"{{"choices":[{choice}]}}"#)), Ok(Some("a".to_owned())));
    for twice in [
        format!(r#"{{"choices":[{choice}],"choices":[{choice}]}}"#),
        r#"{"choices":[{"index":0,"delta":{"content":"a"},"delta":{"content":"b"}}]}"#.to_owned(),
        r#"{"choices":[{"index":0,"delta":{"content":"a","content":"b"}}]}"#.to_owned(),
    ] {
        assert_eq!(said(&twice), Err(Incomplete::Malformed), "{twice}");
    }
}

#[test]
fn a_stream_that_ends_early_is_not_an_answer() {
    let text = delta(json!({"content": "x"}));
    assert_eq!(accumulate(1, &[]), Err(Incomplete::Cut));
    assert_eq!(accumulate(1, std::slice::from_ref(&text)), Err(Incomplete::Cut));
    assert_eq!(accumulate(1, &[text.clone(), finish(0, "")]), Err(Incomplete::Cut), "an empty reason is none");
    assert_eq!(accumulate(2, &[text.clone(), finish(0, "stop")]), Err(Incomplete::Cut), "a choice never came");
    let second = json!({"choices": [{"index": 1, "delta": {"content": "y"}}]});
    assert_eq!(
        accumulate(1, &[text.clone(), second, finish(0, "stop")]),
        Err(Incomplete::Cut),
        "one too many, unfinished"
    );
    let mut done = Accumulator::new(1);
    done.push(text.to_string().as_bytes());
    done.push(b"[DONE]");
    assert_eq!(done.finish(), Err(Incomplete::Cut), "[DONE] does not stand for a finish reason");
    assert!(accumulate(1, &[text, finish(0, "stop")]).is_ok(), "and is not needed");
}

#[test]
fn a_failure_inside_a_stream_spoils_it() {
    let error = json!({"error": {"message": "overloaded"}});
    let text = delta(json!({"content": "x"}));
    assert_eq!(accumulate(1, &[text.clone(), error.clone(), finish(0, "stop")]), Err(Incomplete::Failure));
    assert_eq!(accumulate(1, &[text.clone(), finish(0, "stop"), error]), Err(Incomplete::Failure));
    for malformed in [json!(1), json!({"choices": 1}), json!({"choices": [1]}), json!({"choices": [{"delta": 1}]})] {
        assert_eq!(accumulate(1, &[malformed, finish(0, "stop")]), Err(Incomplete::Malformed));
    }
    let mut cut = Accumulator::new(1);
    cut.push(b"{\"choices\":[{\"delta\":{\"content\":\"\xe4\xbd\"}}]}");
    cut.push(finish(0, "stop").to_string().as_bytes());
    assert_eq!(cut.finish(), Err(Incomplete::Malformed), "half a character");
}

#[test]
fn a_stream_of_ever_new_fields_is_given_up() {
    let many = |count: u32| (0..count).map(|i| (format!("f{i}"), json!(i))).collect::<Value>();
    assert!(accumulate(1, &[delta(many(1_000)), finish(0, "stop")]).is_ok());
    assert_eq!(accumulate(1, &[delta(many(200_000)), finish(0, "stop")]), Err(Incomplete::Malformed));
    assert_eq!(accumulate(1, &[many(200_000), finish(0, "stop")]), Err(Incomplete::Malformed));
}

#[test]
fn a_null_among_tool_calls_is_replaced_by_them() {
    let call = json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]);
    let chunks = [delta(json!({"tool_calls": null})), delta(json!({"tool_calls": call})), finish(0, "tool_calls")];
    assert_eq!(message(&accumulate(1, &chunks).expect("complete"))["tool_calls"][0]["id"], "a");
}

#[test]
fn a_running_stream_tells_model_and_usage() {
    let mut accumulator = Accumulator::new(1);
    assert_eq!((accumulator.model(), accumulator.usage()), (None, None));
    accumulator.push(br#"{"model":"m","choices":[],"usage":{"prompt_tokens":2}}"#);
    assert_eq!((accumulator.model(), accumulator.usage()), (Some("m"), Some(Usage { input: 2, ..Usage::default() })));
}

/// Chunks of one text each. `created` makes every chunk's bytes its own, so that none is recognised by the one before it;
/// it is not part of the answer.
fn text_chunks(texts: &[String], created: impl Fn(usize) -> usize) -> Vec<Vec<u8>> {
    let chunk = |at: usize, delta: &str, rest: &str| {
        let created = created(at);
        format!(r#"{{"id":"c","created":{created},"model":"m","choices":[{{"index":0,"delta":{delta},{rest}}}],"usage":null}}"#)
            .into_bytes()
    };
    let text = |(at, text): (usize, &String)| {
        let text = serde_json::to_string(text).expect("a string");
        chunk(at, &format!(r#"{{"content":{text}}}"#), r#""logprobs":null,"finish_reason":null"#)
    };
    let first = chunk(0, r#"{"role":"assistant","content":""}"#, r#""finish_reason":null"#);
    let last = chunk(texts.len(), "{}", r#""finish_reason":"stop""#);
    std::iter::once(first).chain(texts.iter().enumerate().map(text)).chain([last]).collect()
}

fn accumulated(chunks: &[Vec<u8>]) -> Answer {
    let mut accumulator = Accumulator::new(1);
    for chunk in chunks {
        accumulator.push(chunk);
    }
    accumulator.finish().expect("complete")
}

proptest! {
    #[test]
    fn chunks_that_differ_in_their_text_alone_add_up_like_any_others(texts in proptest::collection::vec(".{0,12}", 0..20)) {
        let alike = accumulated(&text_chunks(&texts, |_| 7));
        let unlike = accumulated(&text_chunks(&texts, |at| at));
        prop_assert_eq!(alike.content(), Some(texts.concat()));
        prop_assert_eq!(&alike, &unlike);
    }
}

#[test]
fn a_chunk_that_only_looks_like_the_one_before_is_read_whole() {
    let mut chunks = text_chunks(&["a".to_owned(), "b".to_owned()], |_| 7);
    let same_ends = br#"{"id":"c","created":7,"model":"m","choices":[{"index":0,"delta":{"content":"x","more":"y"},"logprobs":null,"finish_reason":null}],"usage":null}"#;
    chunks.insert(2, same_ends.to_vec());
    let answer = accumulated(&chunks);
    assert_eq!(answer.content().as_deref(), Some("axb"));
    assert_eq!(served(&answer)["choices"][0]["message"]["more"], "y");
}
