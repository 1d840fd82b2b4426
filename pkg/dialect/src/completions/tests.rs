use super::*;
use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use signet_openai::sse::{Kind, Splitter, events};
use signet_openai::{Incomplete, Layer, NotStorable};

fn request(body: &Value) -> CompletionsRequest {
    CompletionsRequest::parse(&Bytes::from(body.to_string())).expect("a request")
}

fn refused(body: &str) -> (Option<String>, Option<&'static str>) {
    let fault = CompletionsRequest::parse(&Bytes::copy_from_slice(body.as_bytes())).expect_err("refused");
    (fault.param, fault.code)
}

fn base() -> Value {
    json!({
        "id": "cmpl-1", "object": "text_completion", "created": 5, "model": "m-instruct", "system_fingerprint": "fp",
        "choices": [{"text": " once upon a time", "index": 0, "logprobs": null, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 4, "completion_tokens": 5, "total_tokens": 9}
    })
}

fn answer(body: &Value, choices: u32) -> Completion {
    Completion::from_json(body.to_string().as_bytes(), choices).expect("an answer")
}

fn fold(choices: u32, stream: &Bytes) -> Result<Completion, Incomplete> {
    let mut fold = CompletionsFold::new(choices);
    events(stream).for_each(|data| fold.push(&data));
    fold.finish()
}

#[test]
fn only_neutral_fields_leave_the_shape_alone() {
    let plain = request(&json!({"model": "m", "prompt": "Hi", "max_tokens": 5}));
    let neutral = request(&json!({"prompt": "Hi", "max_tokens": 5.0, "model": "m", "stream": true, "user": "u",
        "stream_options": {"include_usage": true}}));
    assert_eq!(plain.shape, neutral.shape);
    let others = [
        json!({"model": "other", "prompt": "Hi", "max_tokens": 5}),
        json!({"model": "m", "prompt": "Hi", "max_tokens": 6}),
        json!({"model": "m", "prompt": ["Hi"], "max_tokens": 5}),
        json!({"model": "m", "prompt": "Hi", "max_tokens": 5, "echo": true}),
        json!({"model": "m", "prompt": "Hi", "max_tokens": 5, "something_new": 1}),
    ];
    for other in others {
        assert_ne!(plain.shape, request(&other).shape, "{other}");
    }
}

#[test]
fn one_text_is_taken_out_of_the_shape_and_several_stay_in_it() {
    let (one, two) = (json!({"model": "m", "prompt": "One"}), json!({"model": "m", "prompt": "Two"}));
    assert_eq!(request(&one).shape, request(&two).shape);
    assert_eq!((&*request(&one).last_text, &*request(&two).last_text), ("One", "Two"));
    let (one, two) = (json!({"model": "m", "prompt": ["a", "b"]}), json!({"model": "m", "prompt": ["a", "c"]}));
    assert_ne!(request(&one).shape, request(&two).shape);
    assert_eq!(request(&one).last_text, "");
}

#[test]
fn there_is_a_choice_for_each_prompt_times_n() {
    for (body, choices) in [
        (json!({"model": "m"}), 1),
        (json!({"model": "m", "prompt": [1, 2, 3], "n": 2}), 2),
        (json!({"model": "m", "prompt": ["a", "b", "c"], "n": 2}), 6),
        (json!({"model": "m", "prompt": [[1], [2, 3]]}), 2),
    ] {
        assert_eq!(request(&body).choices(), choices, "{body}");
    }
    assert_eq!(refused(r#"{"model":"m","prompt":["a","b"],"n":4294967295}"#).0.as_deref(), Some("n"));
}

#[test]
fn what_is_no_request_is_refused_by_name() {
    assert_eq!(refused("[]"), (None, None));
    assert_eq!(refused(r#"{"prompt":"x"}"#).0.as_deref(), Some("model"));
    for prompt in ["1", "[]", "[1,\"a\"]", "[[\"a\"]]", "{}"] {
        assert_eq!(refused(&format!(r#"{{"model":"m","prompt":{prompt}}}"#)).0.as_deref(), Some("prompt"), "{prompt}");
    }
    assert_eq!(refused(r#"{"model":"m","prompt":"a","prompt":"b"}"#).1, Some("duplicate_key"));
    assert_eq!(refused(r#"{"model":"m","stream":"yes"}"#).0.as_deref(), Some("stream"));
}

#[test]
fn only_one_plain_continuation_of_one_text_is_compared_with_similar_ones() {
    assert_eq!(request(&json!({"model": "m", "prompt": "Hi"})).semantic_candidate(), Ok("Hi"));
    for (field, value, reason) in [
        ("n", json!(2), "several choices"),
        ("best_of", json!(3), "several choices"),
        ("temperature", json!(1.5), "temperature"),
        ("echo", json!(true), "echo"),
        ("logprobs", json!(0), "logprobs"),
        ("suffix", json!("end"), "suffix"),
        ("prompt", json!(["a", "b"]), "several prompts"),
        ("prompt", json!([1, 2]), "tokens"),
        ("prompt", json!("  "), "empty"),
    ] {
        let mut body = json!({"model": "m", "prompt": "Hi"});
        body[field] = value;
        assert_eq!(request(&body).semantic_candidate(), Err(reason), "{body}");
    }
}

#[test]
fn the_body_for_upstream_differs_in_nothing_but_what_was_asked_for() {
    let body = Bytes::from_static(b"{ \"prompt\" : \"model\", \"model\":\"m\" ,\"temperature\":1.0}");
    let request = CompletionsRequest::parse(&body).expect("a request");
    assert_eq!(request.with(Some("m"), false), body);
    let edited = request.with(Some("other"), true);
    let expected: &[u8] = b"{\"stream_options\":{\"include_usage\":true}, \"prompt\" : \"model\", \"model\":\"other\" ,\"temperature\":1.0}";
    assert_eq!(edited, expected);
}

#[test]
fn an_answer_is_served_anew_with_its_own_words() {
    let answer = answer(&base(), 1);
    let mut expected = base();
    (expected["id"], expected["created"]) = (json!("cmpl-new"), json!(9));
    assert_eq!(serde_json::from_slice::<Value>(&answer.to_json("cmpl-new", 9)).expect("JSON"), expected);
    assert_eq!((answer.model(), answer.content().as_deref()), ("m-instruct", Some(" once upon a time")));
    assert_eq!(answer.usage().map(|usage| (usage.input, usage.output)), Some((4, 5)));
    assert_eq!(Completion::decode(&answer.encode()).as_ref(), Ok(&answer));
    assert_eq!(Completion::decode(b"\x02{}"), Err(NotStorable::Version));
}

#[test]
fn what_is_not_whole_is_not_stored() {
    for (reason, why) in [
        (json!("length"), "length"),
        (json!("content_filter"), "content_filter"),
        (json!(null), "no finish reason"),
        (json!("tired"), "an unknown finish reason"),
    ] {
        let mut body = base();
        body["choices"][0]["finish_reason"] = reason;
        assert_eq!(answer(&body, 1).storable(Layer::Exact), Err(why));
    }
    let mut blank = base();
    blank["choices"][0]["text"] = json!(" \n");
    assert_eq!(answer(&blank, 1).storable(Layer::Exact), Err("an empty answer"));
    assert_eq!(answer(&base(), 2).storable(Layer::Exact), Err("wrong number of choices"));
    assert_eq!(answer(&base(), 1).storable(Layer::Semantic), Ok(()));
    let mut other = base();
    other["choices"][0]["index"] = json!(1);
    assert_eq!(answer(&other, 1).storable(Layer::Exact), Err("choices are not numbered from 0"));
    let failure = Completion::from_json(br#"{"error":{"message":"no"}}"#, 1);
    assert_eq!(failure, Err(NotStorable::Failure));
    let twice = Completion::from_json(br#"{"choices":[{"text":"a","text":"b","finish_reason":"stop"}]}"#, 1);
    assert_eq!(twice, Err(NotStorable::Shape("a duplicate key")));
}

#[test]
fn a_stream_is_put_together_by_choice_and_probabilities_with_it() {
    let chunk = |index: u64, text: &str, token: &str, finish: Value| {
        let logprobs = json!({"tokens": [token], "token_logprobs": [-0.5], "top_logprobs": null, "text_offset": [0]});
        json!({"id": "c", "object": "text_completion", "created": 1, "model": "m", "choices": [
            {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}]})
    };
    let mut fold = CompletionsFold::new(2);
    for event in [
        chunk(1, "x", "x", json!(null)),
        chunk(0, "a", "a", json!(null)),
        chunk(0, "b", "b", json!("stop")),
        chunk(1, "y", "y", json!("stop")),
        json!({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 4}}),
    ] {
        fold.push(event.to_string().as_bytes());
    }
    let whole: Value = serde_json::from_slice(&fold.finish().expect("whole").to_json("i", 0)).expect("JSON");
    assert_eq!((&whole["choices"][0]["text"], &whole["choices"][1]["text"]), (&json!("ab"), &json!("xy")));
    assert_eq!(whole["choices"][0]["logprobs"]["tokens"], json!(["a", "b"]));
    assert_eq!(whole["usage"]["completion_tokens"], json!(4));
}

#[test]
fn a_cut_failed_or_broken_stream_makes_no_answer() {
    let part = br#"{"choices":[{"index":0,"text":"a","finish_reason":null}]}"#;
    let end = br#"{"choices":[{"index":0,"text":"","finish_reason":"stop"}]}"#;
    for (pieces, fault) in [
        (vec![&part[..]], Incomplete::Cut),
        (vec![&part[..], b"{\"error\":{\"message\":\"no\"}}", end], Incomplete::Failure),
        (vec![&part[..], b"{\"choices\":7}", end], Incomplete::Malformed),
        (vec![&part[..], b"not JSON", end], Incomplete::Malformed),
    ] {
        let mut fold = CompletionsFold::new(1);
        for data in pieces {
            fold.push(data);
        }
        assert_eq!(fold.finish(), Err(fault));
    }
}

#[test]
fn the_splitter_of_chat_knows_the_ends_of_completions() {
    let stream = answer(&base(), 1).to_sse("c", 1, true);
    let mut splitter = Splitter::new(1 << 20, 1);
    splitter.push(stream);
    let kinds: Vec<Kind> = std::iter::from_fn(|| splitter.next_run().ok().flatten()).map(|run| run.kind).collect();
    assert_eq!(kinds, [Kind::Ordinary, Kind::Finished, Kind::Usage, Kind::Done]);
}

proptest! {
    #[test]
    fn both_forms_of_an_answer_say_the_same(
        texts in prop::collection::vec(".{1,400}", 1..4),
        likely in any::<bool>(),
    ) {
        let choices: Vec<Value> = texts.iter().enumerate().map(|(i, text)| json!({
            "index": i, "text": text, "finish_reason": "stop",
            "logprobs": if likely { json!({"tokens": [text], "token_logprobs": [-1.25]}) } else { json!(null) },
        })).collect();
        let count = u32::try_from(choices.len()).expect("few");
        let mut body = base();
        body["choices"] = json!(choices);
        let answer = answer(&body, count);
        let replayed = fold(count, &answer.to_sse("cmpl-2", 3, true)).expect("whole");
        prop_assert_eq!(&replayed, &answer);
        prop_assert_eq!(Completion::from_json(&answer.to_json("cmpl-3", 4), count).expect("whole"), answer);
    }
}
