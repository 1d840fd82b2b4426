//! What is kept of an answer, and what is not.

use super::{accumulate, answer, base, saying, served};
use serde_json::{Value, json};
use signet_openai::{Answer, Layer, NotStorable, Usage};

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
