//! Answers: put together from streams, stored once, served in both forms.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use signet_openai::sse::{Kind, Splitter, events};
use signet_openai::{Accumulator, Answer, Incomplete, Layer, NotStorable, Usage};

fn answer(body: &Value) -> Answer {
    let n = body["choices"].as_array().expect("choices").len();
    Answer::from_json(body.to_string().as_bytes(), u32::try_from(n).expect("few")).expect("a complete answer")
}

fn base() -> Value {
    json!({
        "id": "chatcmpl-old", "object": "chat.completion", "created": 1, "model": "m-2024",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Paris.", "refusal": null, "annotations": []},
            "logprobs": null, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11,
            "prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens_details": {"reasoning_tokens": 1}},
        "service_tier": "default", "system_fingerprint": "fp_1", "citations": ["https://a"],
    })
}

/// `base` with this message and finish reason.
fn saying(message: Value, finish: &str) -> Value {
    let mut body = base();
    body["choices"][0]["message"] = message;
    body["choices"][0]["finish_reason"] = json!(finish);
    body
}

fn accumulate(n: u32, chunks: &[Value]) -> Result<Answer, Incomplete> {
    let mut accumulator = Accumulator::new(n);
    for chunk in chunks {
        accumulator.push(chunk.to_string().as_bytes());
    }
    accumulator.finish()
}

/// A chunk of choice 0.
#[expect(clippy::needless_pass_by_value, reason = "callers pass literals")]
fn delta(delta: Value) -> Value {
    json!({"id": "c", "object": "chat.completion.chunk", "created": 5, "model": "m", "choices": [
        {"index": 0, "delta": delta, "finish_reason": null}]})
}

fn finish(index: u32, reason: &str) -> Value {
    json!({"id": "c", "model": "m", "choices": [{"index": index, "delta": {}, "finish_reason": reason}]})
}

fn message(answer: &Answer) -> Value {
    served(answer)["choices"][0]["message"].clone()
}

fn served(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.to_json("chatcmpl-new", 7)).expect("JSON")
}

fn replay(answer: &Answer, n: u32) -> Answer {
    let mut accumulator = Accumulator::new(n);
    events(&answer.to_sse("chatcmpl-new", 7, true)).for_each(|data| accumulator.push(&data));
    accumulator.finish().expect("a replay is complete")
}

fn chunks(answer: &Answer, include_usage: bool) -> Vec<Value> {
    let stream = answer.to_sse("chatcmpl-new", 7, include_usage);
    let mut data: Vec<Bytes> = events(&stream).collect();
    assert_eq!(data.pop().expect("an end"), "[DONE]");
    data.iter().map(|data| serde_json::from_slice(data).expect("JSON")).collect()
}

#[test]
fn a_replay_has_a_new_id_and_time_and_is_otherwise_as_it_came() {
    let mut expected = base();
    expected["id"] = json!("chatcmpl-new");
    expected["created"] = json!(7);
    assert_eq!(served(&answer(&base())), expected);
}

#[test]
fn values_are_served_as_the_provider_wrote_them() {
    let body = "{\n  \"id\": \"x\",\n  \"choices\": [ {\"message\": {\"content\": \"\\u00e9\\/\" }, \"score\": 1.50, \"finish_reason\": \"stop\"} ],\n \"object\": \"chat.completion\", \"zeta\": 1E2 }";
    let answer = Answer::from_json(body.as_bytes(), 1).expect("complete");
    let expected = "{\"id\":\"n\\\"1\",\"object\":\"chat.completion\",\"created\":7,\"choices\":[ {\"message\": {\"content\": \"\\u00e9\\/\" }, \"score\": 1.50, \"finish_reason\": \"stop\"} ],\"zeta\":1E2}";
    assert_eq!(answer.to_json("n\"1", 7), expected);
}

#[test]
fn facts_are_read() {
    let answer = answer(&base());
    assert_eq!((answer.model(), answer.content().as_deref()), ("m-2024", Some("Paris.")));
    assert_eq!(answer.finish(), Some("stop"));
    assert_eq!(answer.usage(), Some(Usage { input: 9, output: 2, cached_input: 4, reasoning: 1 }));
    assert!(answer.weight() > answer.encode().len());
    assert!(!format!("{answer:?}").contains("Paris"));
}

#[test]
fn the_digest_leaves_out_id_and_time_and_nothing_else() {
    let digest = |body: &Value| *answer(body).content_digest();
    let mut again = base();
    again["id"] = json!("other");
    again["created"] = json!(99);
    assert_eq!(digest(&again), digest(&base()));
    let mut changed = [base(), base(), base(), base()];
    changed[0]["choices"][0]["message"]["content"] = json!("Lyon.");
    changed[1]["model"] = json!("other");
    changed[2]["usage"]["prompt_tokens"] = json!(10);
    changed[3]["citations"] = json!([]);
    for body in &changed {
        assert_ne!(digest(body), digest(&base()), "{body}");
    }
}

#[test]
fn only_good_whole_answers_may_be_stored() {
    let call = json!([{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
    let text = json!({"role": "assistant", "content": "x"});
    let calls = json!({"role": "assistant", "content": null, "tool_calls": call});
    let both = json!({"role": "assistant", "content": "x", "tool_calls": call});
    let old = json!({"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}});
    let refused = json!({"role": "assistant", "content": null, "refusal": "no"});
    let spoken = json!({"role": "assistant", "content": null, "audio": {"data": "x"}});
    let empty = json!({"role": "assistant", "content": " ", "tool_calls": []});
    let cases = [
        (&text, "stop", Ok(()), Ok(())),
        (&calls, "tool_calls", Ok(()), Err("tool calls")),
        (&calls, "stop", Ok(()), Err("tool calls")),
        (&both, "stop", Ok(()), Err("tool calls")),
        (&old, "function_call", Ok(()), Err("tool calls")),
        (&refused, "stop", Ok(()), Err("a refusal")),
        (&spoken, "stop", Ok(()), Err("not text")),
        (&empty, "stop", Err("an empty answer"), Err("an empty answer")),
        (&empty, "tool_calls", Err("missing tool calls"), Err("missing tool calls")),
        (&text, "length", Err("length"), Err("length")),
        (&text, "content_filter", Err("content_filter"), Err("content_filter")),
        (&text, "tool_calls", Err("missing tool calls"), Err("missing tool calls")),
        (&text, "", Err("no finish reason"), Err("no finish reason")),
        (&text, "error", Err("an unknown finish reason"), Err("an unknown finish reason")),
    ];
    for (message, finish, exact, semantic) in cases {
        let answer = answer(&saying(message.clone(), finish));
        assert_eq!(answer.storable(Layer::Exact), exact, "{message} {finish}");
        assert_eq!(answer.storable(Layer::Semantic), semantic, "{message} {finish}");
        assert_eq!(Answer::decode(&answer.encode()).map(|a| a.storable(Layer::Semantic)), Ok(semantic));
    }
}

#[test]
fn one_bad_choice_spoils_the_answer() {
    let mut body = base();
    let mut second = body["choices"][0].clone();
    second["index"] = json!(1);
    second["finish_reason"] = json!("length");
    body["choices"].as_array_mut().expect("choices").push(second);
    assert_eq!(answer(&body).storable(Layer::Exact), Err("length"));
}

#[test]
fn an_answer_that_lacks_choices_or_reasons_has_facts_and_is_not_stored() {
    let few = Answer::from_json(base().to_string().as_bytes(), 2).expect("described");
    assert_eq!(few.usage().map(|usage| usage.input), Some(9));
    assert_eq!(few.storable(Layer::Exact), Err("wrong number of choices"));
    assert_eq!(few.storable(Layer::Semantic), Err("wrong number of choices"));
    let mut open = base();
    open["choices"][0]["finish_reason"] = Value::Null;
    assert_eq!(answer(&open).finish(), Some(""));
    assert_eq!(answer(&open).storable(Layer::Exact), Err("no finish reason"));
}

#[test]
fn a_stream_of_more_choices_than_were_asked_for_is_not_stored() {
    let chunk = |index: u32| json!({"choices": [{"index": index, "delta": {"content": "a"}, "finish_reason": "stop"}]});
    let answer = accumulate(1, &[chunk(0), chunk(1)]).expect("it can be described");
    assert_eq!(answer.storable(Layer::Exact), Err("wrong number of choices"));
    assert_eq!(accumulate(2, &[chunk(0), chunk(1)]).expect("complete").storable(Layer::Exact), Ok(()));
}

#[test]
fn choices_that_share_an_index_would_run_together_in_a_stream() {
    let choice = |index: Value| json!({"index": index, "message": {"content": "x"}, "finish_reason": "stop"});
    for (first, second) in [(json!(0), json!(0)), (json!(1), Value::Null), (json!(1), json!(1.0))] {
        let body = json!({"choices": [choice(first), choice(second)]}).to_string();
        assert_eq!(
            Answer::from_json(body.as_bytes(), 2),
            Err(NotStorable::Shape("two choices share an index")),
            "{body}"
        );
    }
}

#[test]
fn choices_that_are_not_numbered_from_zero_would_make_a_stream_that_never_ends() {
    let choice = |index: u64| json!({"index": index, "message": {"content": "x"}, "finish_reason": "stop"});
    let body = json!({"choices": [choice(0), choice(2)]}).to_string();
    let answer = Answer::from_json(body.as_bytes(), 2).expect("it can be described");
    for layer in [Layer::Exact, Layer::Semantic] {
        assert_eq!(answer.storable(layer), Err("choices are not numbered from 0"));
    }
}

#[test]
fn a_delta_in_a_whole_answer_would_stand_twice_in_its_stream() {
    let choice = json!({"index": 0, "message": {"content": "x"}, "delta": 0, "finish_reason": "stop"});
    let body = json!({ "choices": [choice] }).to_string();
    let answer = Answer::from_json(body.as_bytes(), 1).expect("it can be described");
    assert_eq!(answer.storable(Layer::Exact), Err("a delta in a whole answer"));
}

#[test]
fn what_is_not_an_answer_is_refused() {
    let change = |at: &str, value: Value| {
        let mut body = base();
        *body.pointer_mut(at).expect("a place") = value;
        body.to_string()
    };
    let cases = [
        ("not json".to_owned(), NotStorable::Shape("not JSON")),
        ("[]".to_owned(), NotStorable::Shape("not an object")),
        ("{}".to_owned(), NotStorable::Shape("no choices")),
        (change("/choices", json!([])), NotStorable::Shape("no choices")),
        (change("/choices", Value::Null), NotStorable::Shape("no choices")),
        (change("/choices/0", json!(1)), NotStorable::Shape("a choice is not an object")),
        (change("/choices/0/message", Value::Null), NotStorable::Shape("no message")),
        (
            change("/choices/0/message/refusal", Value::Null).replace("\"refusal\"", "\"tool_calls\":[1],\"x\""),
            NotStorable::Shape("a tool call is not an object"),
        ),
        (json!({"error": {"message": "x"}, "choices": base()["choices"]}).to_string(), NotStorable::Failure),
        (base().to_string().replace("\"role\"", "\"content\":\"y\",\"role\""), NotStorable::Shape("a duplicate key")),
        (
            base().to_string().replacen("\"model\"", "\"model\":\"y\",\"model\"", 1),
            NotStorable::Shape("a duplicate key"),
        ),
    ];
    for (body, error) in cases {
        assert_eq!(Answer::from_json(body.as_bytes(), 1), Err(error), "{body}");
    }
}

#[test]
fn stored_bytes_come_back_and_damaged_ones_do_not() {
    let answer = answer(&base());
    let stored = answer.encode();
    let back = Answer::decode(&stored).expect("its own form");
    assert_eq!(back, answer);
    assert_eq!(back.to_json("a", 1), answer.to_json("a", 1));
    let damaged: [&[u8]; 6] =
        [b"", b"\x01", &stored[1..], &stored[..stored.len() - 1], b"\x02{}", b"\x01 {\"choices\":[]}"];
    for bytes in damaged {
        assert!(Answer::decode(bytes).is_err(), "{bytes:?}");
    }
    let with_id = [b"\x01", base().to_string().as_bytes()].concat();
    assert_eq!(Answer::decode(&with_id), Err(NotStorable::Version), "an id in the stored form would be served twice");
}

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
