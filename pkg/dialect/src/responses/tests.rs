use super::*;
use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use signet_openai::sse::{Kind, Splitter, events};
use signet_openai::{Incomplete, Layer, NotStorable};

fn request(body: &Value) -> ResponsesRequest {
    ResponsesRequest::parse(&Bytes::from(body.to_string())).expect("a request")
}

fn refused(body: &str) -> (Option<String>, Option<&'static str>) {
    let fault = ResponsesRequest::parse(&Bytes::copy_from_slice(body.as_bytes())).expect_err("refused");
    (fault.param, fault.code)
}

fn message(text: &str) -> Value {
    json!({"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [
        {"type": "output_text", "text": text, "annotations": [], "logprobs": []}]})
}

fn call() -> Value {
    json!({"id": "fc_1", "type": "function_call", "status": "completed", "call_id": "call_1", "name": "look",
        "arguments": "{\"place\":\"north\"}"})
}

fn reasoning() -> Value {
    json!({"id": "rs_1", "type": "reasoning", "summary": [
        {"type": "summary_text", "text": "First one thing"}, {"type": "summary_text", "text": "then another"}],
        "encrypted_content": "b64=="})
}

fn base(output: &[Value]) -> Value {
    json!({"id": "resp_1", "object": "response", "created_at": 100, "status": "completed", "completed_at": 101,
        "error": null, "incomplete_details": null, "model": "m-2026", "output": output, "store": false,
        "previous_response_id": null, "background": false, "metadata": {}, "tools": [], "usage": {
            "input_tokens": 9, "input_tokens_details": {"cached_tokens": 2}, "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 3}, "total_tokens": 16}})
}

fn answer(body: &Value) -> Response {
    Response::from_json(body.to_string().as_bytes()).expect("an answer")
}

fn fold(stream: &Bytes) -> Result<Response, Incomplete> {
    let mut fold = ResponsesFold::new();
    events(stream).for_each(|data| fold.push(&data));
    fold.finish()
}

fn values(stream: &Bytes) -> Vec<Value> {
    events(stream).map(|data| serde_json::from_slice(&data).expect("JSON")).collect()
}

fn kinds(stream: &Bytes) -> Vec<(Kind, u32)> {
    let mut splitter = Splitter::with(1 << 20, Classifier::new());
    splitter.push(stream.clone());
    std::iter::from_fn(|| splitter.next_run().ok().flatten()).map(|run| (run.kind, run.events)).collect()
}

#[test]
fn what_the_answer_repeats_is_in_the_shape() {
    let plain = json!({"model": "m", "input": "Hi"});
    let mut neutral = plain.clone();
    (neutral["stream"], neutral["stream_options"]) = (json!(true), json!({"include_obfuscation": false}));
    assert_eq!(request(&plain).shape, request(&neutral).shape);
    for (field, value) in [
        ("model", json!("other")),
        ("metadata", json!({"run": "1"})),
        ("user", json!("u")),
        ("safety_identifier", json!("s")),
        ("prompt_cache_key", json!("k")),
        ("store", json!(false)),
        ("instructions", json!("Be short")),
        ("something_new", json!(1)),
        ("input", json!([{"role": "user", "content": "Hi"}])),
    ] {
        let mut other = plain.clone();
        other[field] = value;
        assert_ne!(request(&plain).shape, request(&other).shape, "{field}");
    }
}

#[test]
fn the_last_user_text_is_taken_out_of_the_shape() {
    let of = |text: &str| {
        let history = json!({"role": "assistant", "content": "Yes?"});
        let parts = json!([{"type": "input_text", "text": text}]);
        [
            json!({"model": "m", "input": text}),
            json!({"model": "m", "input": [history, {"role": "user", "content": text}]}),
            json!({"model": "m", "input": [history, {"type": "message", "role": "user", "content": parts}]}),
        ]
    };
    for (one, two) in of("One").iter().zip(&of("Two")) {
        assert_eq!(request(one).shape, request(two).shape, "{one}");
        assert_eq!((&*request(one).last_text, &*request(two).last_text), ("One", "Two"));
    }
}

#[test]
fn what_rests_on_state_at_the_provider_is_told() {
    assert_eq!(request(&json!({"model": "m", "input": "Hi"})).stateless(), Ok(()));
    for (field, value, state) in [
        ("previous_response_id", json!("resp_0"), "a previous response"),
        ("conversation", json!("conv_0"), "a conversation"),
        ("conversation", json!({"id": "conv_0"}), "a conversation"),
        ("background", json!(true), "background"),
        ("prompt", json!({"id": "pmpt_0"}), "a stored prompt"),
        ("input", json!([{"type": "item_reference", "id": "msg_0"}]), "an item reference"),
        ("input", json!([{"id": "msg_0", "type": null}]), "an item reference"),
    ] {
        let mut body = json!({"model": "m", "input": "Hi", "store": false});
        body[field] = value;
        assert_eq!(request(&body).stateless(), Err(state), "{body}");
        assert_eq!(request(&body).semantic_candidate(), Err(state), "{body}");
    }
}

#[test]
fn only_a_plain_question_whose_answer_is_not_kept_is_compared_with_similar_ones() {
    let plain = json!({"model": "m", "input": "Hi", "store": false, "tools": []});
    assert_eq!(request(&plain).semantic_candidate(), Ok("Hi"));
    let user = |content: Value| json!([{"role": "user", "content": content}]);
    for (field, value, reason) in [
        ("store", json!(true), "a stored response"),
        ("store", json!(null), "a stored response"),
        ("temperature", json!(1.1), "temperature"),
        ("tools", json!([{"type": "web_search"}]), "tools"),
        ("include", json!(["message.output_text.logprobs"]), "include"),
        ("input", json!([]), "empty"),
        ("input", user(json!([{"type": "input_image", "image_url": "u"}])), "images"),
        ("input", user(json!([{"type": "input_file", "file_id": "f"}])), "files"),
        ("input", json!([{"type": "function_call_output", "call_id": "c", "output": "1"}]), "tool results"),
        ("input", json!([{"role": "assistant", "content": "Hm"}]), "assistant last"),
        ("input", json!([{"role": "developer", "content": "Hm"}]), "no user text"),
    ] {
        let mut body = plain.clone();
        body[field] = value;
        assert_eq!(request(&body).semantic_candidate(), Err(reason), "{body}");
    }
}

#[test]
fn what_is_no_request_is_refused_by_name() {
    assert_eq!(refused(r#"{"input":"x"}"#).0.as_deref(), Some("model"));
    assert_eq!(refused(r#"{"model":"m","input":7}"#).0.as_deref(), Some("input"));
    assert_eq!(refused(r#"{"model":"m","input":["x"]}"#).0.as_deref(), Some("input[0]"));
    assert_eq!(refused(r#"{"model":"m","background":"yes"}"#).0.as_deref(), Some("background"));
    for twice in [
        r#"{"model":"m","input":"a","input":"b"}"#,
        r#"{"model":"m","input":[{"role":"user","role":"user","content":"a"}]}"#,
        r#"{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"a","text":"b"}]}]}"#,
    ] {
        assert_eq!(refused(twice).1, Some("duplicate_key"), "{twice}");
    }
}

#[test]
fn a_conversation_keeps_its_prefix_while_it_grows() {
    let first = json!({"role": "user", "content": "Hi"});
    let turns =
        [json!([first]), json!([first, {"role": "assistant", "content": "Yes?"}, {"role": "user", "content": "x"}])];
    let [one, two] = turns.map(|input| request(&json!({"model": "m", "instructions": "i", "input": input})).prefix());
    assert_eq!(one, two);
    assert_ne!(one, request(&json!({"model": "m", "instructions": "j", "input": [first]})).prefix());
    let [a, b] =
        ["a", "b"].map(|text| request(&json!({"model": "m", "prompt_cache_key": "k", "input": text})).prefix());
    assert_eq!(a, b);
}

#[test]
fn the_body_for_upstream_differs_in_the_models_name_alone() {
    let body = Bytes::from_static(b"{ \"model\":\"m\" , \"input\":\"\\u0061\"}");
    let request = ResponsesRequest::parse(&body).expect("a request");
    assert_eq!(request.with(Some("m"), true), body);
    assert_eq!(request.with(Some("other"), true), &b"{ \"model\":\"other\" , \"input\":\"\\u0061\"}"[..]);
}

#[test]
fn a_response_that_the_provider_keeps_keeps_its_id() {
    let mut kept = base(&[message("Hi")]);
    kept["store"] = json!(true);
    let served: Value = serde_json::from_slice(&answer(&kept).to_json("resp_new", 900)).expect("JSON");
    assert_eq!(served, kept);
    kept.as_object_mut().expect("an object").remove("store");
    assert!(answer(&kept).is_handle(), "what a server does not say it does");
    assert_eq!(answer(&kept).storable(Layer::Semantic), Err("a stored response"));
    let first = values(&answer(&kept).to_sse("resp_new", 900)).remove(0);
    assert_eq!(first["response"]["id"], json!("resp_1"));
    assert_eq!(
        Response::decode(&answer(&kept).encode()).map(|read| read.to_json("x", 1)),
        Ok(answer(&kept).to_json("y", 2))
    );
}

#[test]
fn any_other_response_gets_id_and_time_anew() {
    let answer = answer(&base(&[message("Hi")]));
    let mut expected = base(&[message("Hi")]);
    (expected["id"], expected["created_at"], expected["completed_at"]) = (json!("resp_new"), json!(900), json!(900));
    assert_eq!(serde_json::from_slice::<Value>(&answer.to_json("resp_new", 900)).expect("JSON"), expected);
    let decoded = Response::decode(&answer.encode()).expect("stored");
    assert_eq!(decoded.to_json("resp_new", 900), answer.to_json("resp_new", 900));
    assert_eq!((answer.model(), answer.finish()), ("m-2026", Some("completed")));
    assert_eq!(answer.content().as_deref(), Some("Hi"));
    let usage = answer.usage().expect("counted");
    assert_eq!((usage.input, usage.output, usage.cached_input, usage.reasoning), (9, 7, 2, 3));
    assert_eq!(Response::decode(b"\x01{\"id\":\"a\",\"store\":false,\"output\":[]}"), Err(NotStorable::Version));
}

#[test]
fn only_what_both_forms_can_say_is_stored() {
    let mut second = call();
    second["id"] = json!("fc_2");
    for output in [vec![message("Hi")], vec![reasoning(), message("Hi")], vec![reasoning(), call(), second]] {
        assert_eq!(answer(&base(&output)).storable(Layer::Exact), Ok(()), "{output:?}");
    }
    let (mut refusal, mut odd, mut unfinished, mut nameless) = (message(""), message(""), message("Hi"), call());
    refusal["content"] = json!([{"type": "refusal", "refusal": "No."}]);
    odd["content"] = json!([{"type": "output_image"}]);
    unfinished["status"] = json!("incomplete");
    nameless.as_object_mut().expect("an object").remove("name");
    for (output, why) in [
        (vec![message(" ")], "an empty answer"),
        (vec![reasoning()], "an empty answer"),
        (vec![message("Hi"), json!({"id": "ws_1", "type": "web_search_call"})], "an unknown output item"),
        (vec![nameless], "an unknown output item"),
        (vec![call(), call()], "items share an id"),
        (vec![odd], "an unknown content part"),
        (vec![unfinished], "an unfinished output item"),
    ] {
        assert_eq!(answer(&base(&output)).storable(Layer::Exact), Err(why), "{output:?}");
    }
    for (field, value, why) in [
        ("status", json!("in_progress"), "an unknown finish reason"),
        ("status", json!(null), "no finish reason"),
        ("background", json!(true), "background"),
        ("conversation", json!({"id": "conv"}), "a conversation"),
        ("previous_response_id", json!("resp_0"), "a previous response"),
    ] {
        let mut body = base(&[message("Hi")]);
        body[field] = value;
        assert_eq!(answer(&body).storable(Layer::Exact), Err(why), "{field}");
    }
    assert_eq!(answer(&base(&[message("Hi")])).storable(Layer::Semantic), Ok(()));
    assert_eq!(answer(&base(&[call()])).storable(Layer::Semantic), Err("tool calls"));
    assert_eq!(answer(&base(&[refusal.clone()])).storable(Layer::Semantic), Err("a refusal"));
    assert_eq!(answer(&base(&[refusal])).storable(Layer::Exact), Ok(()));
}

#[test]
fn what_was_cut_by_a_limit_is_served_as_incomplete_and_not_stored() {
    let mut body = base(&[message("Hi")]);
    (body["status"], body["incomplete_details"]) = (json!("incomplete"), json!({"reason": "max_output_tokens"}));
    let answer = answer(&body);
    assert_eq!((answer.finish(), answer.storable(Layer::Exact)), (Some("max_output_tokens"), Err("length")));
    let stream = answer.to_sse("resp_2", 1);
    assert_eq!(values(&stream).last().expect("an end")["type"], json!("response.incomplete"));
    assert_eq!(fold(&stream).expect("whole").finish(), Some("max_output_tokens"));
}

#[test]
fn a_failed_response_and_what_is_none_are_no_answers() {
    let mut failed = base(&[]);
    failed["status"] = json!("failed");
    assert_eq!(Response::from_json(failed.to_string().as_bytes()), Err(NotStorable::Failure));
    failed["error"] = json!({"code": "server_error", "message": "no"});
    assert_eq!(Response::from_json(failed.to_string().as_bytes()), Err(NotStorable::Failure));
    assert_eq!(Response::from_json(b"{}"), Err(NotStorable::Shape("no output")));
    assert_eq!(Response::from_json(b"{\"output\":[],\"output\":[]}"), Err(NotStorable::Shape("a duplicate key")));
}

#[test]
fn a_stream_tells_items_in_the_vendors_order() {
    let output = [reasoning(), message("Short."), call()];
    let stream = values(&answer(&base(&output)).to_sse("resp_2", 1));
    let names: Vec<&str> = stream.iter().map(|event| event["type"].as_str().expect("a name")).collect();
    let summary =
        ["part.added", "text.delta", "text.done", "part.done"].map(|end| format!("response.reasoning_summary_{end}"));
    let text = ["content_part.added", "output_text.delta", "output_text.done", "content_part.done"];
    let mut expected = vec!["created".to_owned(), "in_progress".to_owned(), "output_item.added".to_owned()];
    expected.extend([&summary[..], &summary[..]].concat().iter().map(|name| name.replace("response.", "")));
    expected.extend(["output_item.done", "output_item.added"].map(str::to_owned));
    expected.extend(text.map(str::to_owned));
    expected.extend(["output_item.done", "output_item.added"].map(str::to_owned));
    expected.extend(["delta", "done"].map(|end| format!("function_call_arguments.{end}")));
    expected.extend(["output_item.done", "completed"].map(str::to_owned));
    assert_eq!(names, expected.iter().map(|name| format!("response.{name}")).collect::<Vec<_>>());
    let numbers: Vec<u64> = stream.iter().map(|event| event["sequence_number"].as_u64().expect("a number")).collect();
    assert!(numbers.iter().copied().eq(0..numbers.len() as u64));
    assert_eq!(
        (&stream[0]["response"]["status"], &stream[0]["response"]["output"]),
        (&json!("in_progress"), &json!([]))
    );
    assert_eq!(stream[2]["item"]["summary"], json!([]));
    assert_eq!(stream[12]["item"]["content"], json!([]));
    let done = stream.iter().find(|event| event["type"] == json!("response.function_call_arguments.done"));
    let done = done.expect("told");
    assert_eq!(
        (&done["item_id"], &done["name"], &done["arguments"]),
        (&json!("fc_1"), &json!("look"), &call()["arguments"])
    );
}

#[test]
fn an_answer_of_many_lines_makes_events_of_one() {
    let body = base(&[message("Hi"), call()]);
    let pretty = serde_json::to_string_pretty(&body).expect("JSON");
    let answer = Response::from_json(pretty.as_bytes()).expect("an answer");
    assert_eq!(fold(&answer.to_sse("resp_2", 1)).as_ref(), Ok(&answer));
    assert_eq!(answer.storable(Layer::Exact), Ok(()));
}

#[test]
fn annotations_are_told_and_likely_texts_stay_whole() {
    let mut item = message(&"word ".repeat(100));
    item["content"][0]["annotations"] = json!([{"type": "url_citation", "url": "https://e.test/", "start_index": 0}]);
    item["content"][0]["logprobs"] = json!([{"token": "w", "logprob": -0.1, "bytes": [119], "top_logprobs": []}]);
    let stream = values(&answer(&base(&[item.clone()])).to_sse("r", 1));
    let named = |name: &str| stream.iter().filter(|event| event["type"] == json!(name)).collect::<Vec<_>>();
    let deltas = named("response.output_text.delta");
    assert_eq!((deltas.len(), &deltas[0]["logprobs"]), (1, &item["content"][0]["logprobs"]));
    let told = named("response.output_text.annotation.added");
    assert_eq!((told.len(), &told[0]["annotation"]), (1, &item["content"][0]["annotations"][0]));
}

#[test]
fn the_splitter_tells_the_end_and_failures_by_name_or_by_data() {
    let stream = answer(&base(&[message("Hi")])).to_sse("resp_2", 1);
    assert_eq!(kinds(&stream), [(Kind::Ordinary, 8), (Kind::Done, 1)]);
    for (event, kind) in [
        ("event: response.failed\ndata: {\"type\":\"response.failed\"}\n\n", Kind::Error),
        ("event: error\ndata: {\"type\":\"error\",\"message\":\"no\"}\n\n", Kind::Error),
        ("data: {\"type\":\"error\",\"message\":\"no\"}\n\n", Kind::Error),
        ("data: {\"error\":{\"message\":\"no\"}}\n\n", Kind::Error),
        ("data: {\"type\":\"response.incomplete\",\n", Kind::Done),
        ("event: response.something_new\ndata: {\"type\":\"response.something_new\"}\n\n", Kind::Ordinary),
        ("data: {\"type\":\"response.something_new\",\"text\":\"response.completed\"}\n\n", Kind::Ordinary),
    ] {
        let event =
            if event.ends_with("\n\n") { event.to_owned() } else { format!("{event}data: \"response\":1}}\n\n") };
        assert_eq!(kinds(&Bytes::from(event.clone())), [(kind, 1)], "{event}");
    }
    assert_eq!(kinds(&Bytes::from_static(b"\xEF\xBB\xBFdata: {\"type\":\"error\"}\n\n")), [(Kind::Error, 1)]);
}

#[test]
fn a_stream_without_its_last_event_is_cut() {
    let stream = answer(&base(&[message("Hi")])).to_sse("resp_2", 1);
    let mut fold = ResponsesFold::new();
    let all: Vec<Bytes> = events(&stream).collect();
    for data in &all[..all.len() - 1] {
        fold.push(data);
    }
    assert_eq!(fold.model(), Some("m-2026"));
    assert_eq!(fold.finish(), Err(Incomplete::Cut));
}

#[test]
fn a_failure_or_nonsense_in_a_stream_makes_no_answer() {
    let stream = answer(&base(&[message("Hi")])).to_sse("resp_2", 1);
    for (odd, fault) in [
        (r#"{"type":"response.failed","response":{"status":"failed"}}"#, Incomplete::Failure),
        (r#"{"type":"error","code":"server_error","message":"no"}"#, Incomplete::Failure),
        (r#"{"error":{"message":"no"}}"#, Incomplete::Failure),
        ("nonsense", Incomplete::Malformed),
        (r#"{"no":"type"}"#, Incomplete::Malformed),
    ] {
        let mut fold = ResponsesFold::new();
        fold.push(odd.as_bytes());
        events(&stream).for_each(|data| fold.push(&data));
        assert_eq!(fold.finish(), Err(fault), "{odd}");
    }
}

#[test]
fn a_last_event_with_other_items_than_were_told_is_not_believed() {
    let stream = answer(&base(&[message("Hi"), call()])).to_sse("resp_2", 1);
    let all: Vec<Bytes> = events(&stream).collect();
    let item_done = |data: &Bytes| data.starts_with(b"{\"type\":\"response.output_item.done\"");
    let mut fold = ResponsesFold::new();
    all.iter().filter(|data| !item_done(data)).for_each(|data| fold.push(data));
    assert_eq!(fold.finish().expect("whole").storable(Layer::Exact), Err("other items than told"));
    let mut fold = ResponsesFold::new();
    let (last, rest) = all.split_last().expect("events");
    for data in rest {
        fold.push(data);
    }
    fold.push(String::from_utf8_lossy(last).replace("\"text\":\"Hi\"", "\"text\":\"Ho\"").as_bytes());
    assert_eq!(fold.finish().expect("whole").storable(Layer::Exact), Err("other items than told"));
}

#[test]
fn events_that_nobody_knows_pass() {
    let stream = answer(&base(&[message("Hi")])).to_sse("resp_2", 1);
    let mut fold = ResponsesFold::new();
    fold.push(br#"{"type":"response.something_new","sequence_number":0}"#);
    events(&stream).for_each(|data| fold.push(&data));
    fold.push(b"[DONE]");
    assert_eq!(fold.finish().expect("whole").storable(Layer::Exact), Ok(()));
}

fn item() -> impl Strategy<Value = Value> {
    prop_oneof![
        ".{1,300}".prop_map(|text| message(&text)),
        ".{0,300}".prop_map(|arguments| {
            let mut item = call();
            item["arguments"] = json!(arguments);
            item
        }),
        prop::collection::vec(".{0,200}", 0..3).prop_map(|texts| {
            let parts: Vec<Value> = texts.iter().map(|text| json!({"type": "reasoning_text", "text": text})).collect();
            json!({"id": "rs_2", "type": "reasoning", "summary": [], "content": parts, "unknown": {"kept": 1.50}})
        }),
    ]
}

/// Does what a reader of the stream does: appends every delta where the event says.
fn read(stream: &[Value]) -> Vec<Value> {
    let mut output: Vec<Value> = Vec::new();
    for event in stream {
        let (item, part) = (event["output_index"].as_u64(), event["content_index"].as_u64());
        let at = |index: Option<u64>| usize::try_from(index.expect("a place")).expect("small");
        let add = |to: &mut Value| {
            *to = json!(to.as_str().expect("text").to_owned() + event["delta"].as_str().expect("text"));
        };
        match event["type"].as_str().expect("a name") {
            "response.output_item.added" => output.push(event["item"].clone()),
            "response.content_part.added" => {
                output[at(item)]["content"].as_array_mut().expect("a list").push(event["part"].clone());
            }
            "response.output_text.delta" | "response.reasoning_text.delta" => {
                add(&mut output[at(item)]["content"][at(part)]["text"]);
            }
            "response.function_call_arguments.delta" => add(&mut output[at(item)]["arguments"]),
            _ => {}
        }
    }
    for item in output.iter_mut().filter(|item| !item["status"].is_null()) {
        item["status"] = json!("completed");
    }
    output
}

proptest! {
    #[test]
    fn both_forms_of_an_answer_say_the_same(mut output in prop::collection::vec(item(), 1..5)) {
        for (at, item) in output.iter_mut().enumerate() {
            item["id"] = json!(format!("item_{at}"));
        }
        let answer = answer(&base(&output));
        let stream = answer.to_sse("resp_2", 3);
        prop_assert_eq!(&fold(&stream).expect("whole"), &answer);
        prop_assert_eq!(fold(&stream).expect("whole").storable(Layer::Exact), answer.storable(Layer::Exact));
        prop_assert_eq!(json!(read(&values(&stream))), json!(output));
        prop_assert_eq!(&Response::from_json(&answer.to_json("resp_3", 4)).expect("whole"), &answer);
        prop_assert_eq!(&Response::decode(&answer.encode()).expect("stored"), &answer);
    }
}
