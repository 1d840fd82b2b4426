//! What a chat request says, what keeps two of them apart, and what goes upstream.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use signet_openai::{BadRequest, ChatRequest};

fn bytes(body: &Value) -> Bytes {
    body.to_string().into()
}

fn parse(body: &Value) -> ChatRequest {
    ChatRequest::parse(&bytes(body)).expect("a good request")
}

fn refusal(body: impl Into<Bytes>) -> BadRequest {
    ChatRequest::parse(&body.into()).expect_err("a bad request")
}

fn base() -> Value {
    json!({"model": "gpt-4o-mini", "messages": [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "What is the capital of France?"},
    ]})
}

/// `base` with `field` set.
fn with(field: &str, value: Value) -> Value {
    let mut body = base();
    body[field] = value;
    body
}

/// `base` with the last message's content replaced.
fn asking(content: Value) -> Value {
    let mut body = base();
    body["messages"][1]["content"] = content;
    body
}

fn key(request: &ChatRequest) -> ([u8; 32], String) {
    (request.shape, request.last_text.clone())
}

#[test]
fn a_request_is_read() {
    let request = parse(&json!({
        "model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": true,
        "stream_options": {"include_usage": true}, "n": 2, "temperature": 0.5, "max_tokens": 7, "max_completion_tokens": 9,
    }));
    assert_eq!((&*request.model, request.stream, request.include_usage, request.n()), ("m", true, true, 2));
    assert_eq!((&*request.last_text, request.semantic_candidate()), ("hi", Err("several choices")));
    let plain = parse(&base());
    assert_eq!((plain.stream, plain.include_usage, plain.n()), (false, false, 1));
    let nulls = with("n", Value::Null);
    assert_eq!(parse(&nulls).n(), 1, "null is as good as omitted");
    assert_eq!(parse(&with("max_tokens", json!(-1))).n(), 1, "no limit, for some servers");
}

#[test]
fn every_field_that_may_change_the_answer_separates_requests() {
    let fields = [
        with("logit_bias", json!({"50256": -100})),
        with("max_tokens", json!(5)),
        with("max_completion_tokens", json!(5)),
        with("seed", json!(1)),
        with("seed", json!(2)),
        with("temperature", json!(0.1)),
        with("temperature", json!(0.2)),
        with("top_p", json!(0.5)),
        with("n", json!(2)),
        with("stop", json!(["\n"])),
        with("stop", json!("\n")),
        with("a_field_of_next_year", json!(1)),
        with("a_field_of_next_year", json!({"x": [1]})),
        with("instructions", json!("x")),
        with("previous_response_id", json!("x")),
        with("reasoning_effort", json!("low")),
        with("response_format", json!({"type": "json_object"})),
        with("tools", json!([{"type": "function", "function": {"name": "f"}}])),
        with("tools", json!([{"type": "function", "function": {"name": "g"}}])),
        with("tool_choice", json!("none")),
        with("model", json!("gpt-4o")),
        with("logprobs", json!(true)),
        asking(json!([{"type": "text", "text": "What is the capital of France?"}])),
        asking(
            json!([{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "https://a/1.png"}}]),
        ),
        asking(
            json!([{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "https://a/2.png"}}]),
        ),
        json!({"model": "gpt-4o-mini", "messages": [
            {"role": "system", "content": "Be long."}, {"role": "user", "content": "What is the capital of France?"}]}),
        json!({"model": "gpt-4o-mini", "messages": [
            {"role": "developer", "content": "Be short."}, {"role": "user", "content": "What is the capital of France?"}]}),
        json!({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "What is the capital of France?"}]}),
        json!({"model": "gpt-4o-mini", "messages": [{"role": "system", "content": "Be short."},
            {"role": "user", "name": "ann", "content": "What is the capital of France?"}]}),
    ];
    let mut shapes: Vec<_> = fields.iter().chain([&base()]).map(|body| parse(body).shape).collect();
    shapes.sort_unstable();
    shapes.dedup();
    assert_eq!(shapes.len(), fields.len() + 1);
}

#[test]
fn neutral_fields_do_not_matter() {
    let neutral = [
        with("stream", json!(true)),
        with("stream_options", json!({"include_usage": true})),
        with("user", json!("someone")),
        with("metadata", json!({"trace": "1"})),
    ];
    for body in neutral {
        assert_eq!(key(&parse(&body)), key(&parse(&base())), "{body}");
    }
    let inside = json!({"model": "m", "messages": [{"role": "user", "content": "x", "user": "ann"}]});
    let other = json!({"model": "m", "messages": [{"role": "user", "content": "x", "user": "bob"}]});
    assert_ne!(key(&parse(&inside)), key(&parse(&other)), "only at the top are they neutral");
}

#[test]
fn the_way_a_body_is_written_does_not_matter() {
    let plain =
        Bytes::from_static(br#"{"model":"m","temperature":0,"top_p":1,"messages":[{"role":"user","content":"A b"}]}"#);
    let other = Bytes::from_static(
        b" {\n\"messages\" : [ { \"content\":\"\\u0041 b\" ,\"role\":\"\\u0075ser\"} ],\r\n\t\"top_p\":1.0,\"temperature\":-0.0e5, \"mod\\u0065l\":\"m\"} ",
    );
    let (plain, other) = (ChatRequest::parse(&plain).expect("good"), ChatRequest::parse(&other).expect("good"));
    assert_eq!(key(&plain), key(&other));
}

#[test]
fn prompt_text_is_byte_exact() {
    for text in ["What is the capital of France? ", "what is the capital of France?", "What is  the capital of France?"]
    {
        let request = parse(&asking(json!(text)));
        assert_eq!(request.last_text, text);
        assert_eq!(request.shape, parse(&base()).shape, "the last text alone is outside the shape");
    }
    let mut long = "a".repeat(9_000);
    let first = key(&parse(&asking(json!(long))));
    long.replace_range(8_999.., "b");
    assert_ne!(key(&parse(&asking(json!(long)))), first, "all of a long text counts");
}

#[test]
fn several_text_parts_are_not_one_joined_part() {
    let parts = |texts: &[&str]| {
        let parts: Vec<Value> = texts.iter().map(|text| json!({"type": "text", "text": text})).collect();
        parse(&asking(json!(parts)))
    };
    let joined = parts(&["a", "b"]);
    assert_eq!(joined.semantic_candidate(), Ok("a\n\u{1f}\nb"));
    let rivals = [parts(&["a\n\u{1f}\nb"]), parts(&["ab"]), parts(&["a", "", "b"]), parts(&["", "a", "b"])];
    for rival in &rivals {
        assert_ne!(key(rival), key(&joined));
    }
    let forged = [parts(&["a\n\u{1f}\nb", "c"]), parts(&["a", "b\n\u{1f}\nc"])];
    assert_ne!(key(&forged[0]), key(&forged[1]));
    assert_eq!(forged[0].semantic_candidate(), Err("control characters"));
    assert_eq!(parts(&["a", "c"]).shape, joined.shape, "their texts are the last text, so they are outside the shape");
}

#[test]
fn other_fields_of_a_text_part_stay_in_the_shape() {
    let part = |mark: &str| parse(&asking(json!([{"type": "text", "text": "x", "cache_control": {"type": mark}}])));
    assert_ne!(part("a").shape, part("b").shape);
    assert_eq!(part("a").last_text, "x");
}

#[test]
fn a_last_turn_that_is_not_text_is_named_and_stays_in_the_shape() {
    let last = |message: Value| json!({"model": "m", "messages": [{"role": "user", "content": "x"}, message]});
    let image = |url: &str| json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]});
    let call = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "1"}]});
    let cases = [
        (last(image("a")), "images"),
        (last(json!({"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "input_audio"}]})), "audio"),
        (last(json!({"role": "user", "content": [{"type": "file", "file": {}}]})), "files"),
        (last(json!({"role": "user", "content": [{"type": "of next year"}]})), "other content"),
        (last(json!({"role": "user", "content": [{"type": "text", "text": 1}]})), "other content"),
        (last(json!({"role": "user", "content": 1})), "other content"),
        (last(json!({"role": "tool", "tool_call_id": "1", "content": "x"})), "tool results"),
        (last(json!({"role": "function", "name": "f", "content": "x"})), "tool results"),
        (last(call), "tool calls"),
        (last(json!({"role": "assistant", "content": "x"})), "assistant last"),
        (last(json!({"role": "system", "content": "x"})), "no user text"),
        (last(json!({"role": 1, "content": "x"})), "no user text"),
        (last(json!({"role": "user", "content": ""})), "empty"),
        (last(json!({"role": "user", "content": " \n"})), "empty"),
        (last(json!({"role": "user", "content": []})), "empty"),
        (last(json!({"role": "user", "content": null})), "empty"),
        (last(json!({"role": "user"})), "empty"),
        (json!({"model": "m", "messages": []}), "empty"),
    ];
    for (body, reason) in cases {
        let request = parse(&body);
        assert_eq!((request.semantic_candidate(), &*request.last_text), (Err(reason), ""), "{body}");
    }
    assert_ne!(parse(&last(image("a"))).shape, parse(&last(image("b"))).shape);
    let blank = |text: &str| key(&parse(&last(json!({"role": "user", "content": text}))));
    assert_ne!(blank(" "), blank("  "));
    assert_ne!(blank("").0, blank("x").0, "a text that was taken out is not an empty one");
}

#[test]
fn semantic_lookup_needs_one_plain_text_answer() {
    let text = "What is the capital of France?";
    let fine = [
        base(),
        with("n", json!(1)),
        with("temperature", json!(1)),
        with("temperature", Value::Null),
        with("tools", json!([])),
        with("tools", Value::Null),
        with("logprobs", json!(false)),
        with("stop", json!("x")),
        with("seed", json!(1)),
        with("response_format", json!({"type": "json_object"})),
    ];
    for body in fine {
        assert_eq!(parse(&body).semantic_candidate(), Ok(text), "{body}");
    }
    let not = [
        (with("n", json!(2)), "several choices"),
        (with("temperature", json!(1.01)), "temperature"),
        (with("temperature", json!(2)), "temperature"),
        (with("tools", json!([{"type": "function"}])), "tools"),
        (with("functions", json!([{"name": "f"}])), "tools"),
        (with("logprobs", json!(true)), "logprobs"),
        (with("top_logprobs", json!(2)), "logprobs"),
        (with("prediction", json!({"type": "content"})), "prediction"),
        (with("audio", json!({"voice": "x"})), "audio"),
        (with("modalities", json!(["text", "audio"])), "modalities"),
        (with("web_search_options", json!({})), "web search"),
    ];
    for (body, reason) in not {
        assert_eq!(parse(&body).semantic_candidate(), Err(reason), "{body}");
    }
    let mut large = base().to_string();
    large.insert_str(1, "\"temperature\":1e999,");
    let large = ChatRequest::parse(&large.into()).expect("the provider judges it");
    assert_eq!(large.semantic_candidate(), Err("temperature"));
}

#[test]
fn a_wrong_field_is_named() {
    let mut no_messages = base();
    no_messages.as_object_mut().expect("an object").remove("messages");
    let cases = [
        (json!({"messages": []}), "model", "missing_required_parameter"),
        (with("model", json!(1)), "model", "invalid_type"),
        (with("model", Value::Null), "model", "invalid_type"),
        (no_messages, "messages", "missing_required_parameter"),
        (with("messages", json!("hi")), "messages", "invalid_type"),
        (with("messages", Value::Null), "messages", "invalid_type"),
        (with("messages", json!([{"role": "user"}, "hi"])), "messages[1]", "invalid_type"),
        (with("n", json!("1")), "n", "invalid_type"),
        (with("n", json!(1.5)), "n", "invalid_value"),
        (with("n", json!(-1)), "n", "invalid_value"),
        (with("n", json!(0)), "n", "invalid_value"),
        (with("n", json!(4_294_967_296_u64)), "n", "invalid_value"),
        (with("temperature", json!("0")), "temperature", "invalid_type"),
        (with("stream", json!("true")), "stream", "invalid_type"),
        (with("stream", json!(1)), "stream", "invalid_type"),
        (with("max_tokens", json!("5")), "max_tokens", "invalid_type"),
        (with("max_completion_tokens", json!([5])), "max_completion_tokens", "invalid_type"),
        (with("stream_options", json!([])), "stream_options", "invalid_type"),
        (with("stream_options", json!({"include_usage": 1})), "stream_options.include_usage", "invalid_type"),
    ];
    for (body, param, code) in cases {
        let error = refusal(bytes(&body));
        assert_eq!((error.param.as_deref(), error.code), (Some(param), Some(code)), "{body}");
    }
}

#[test]
fn a_body_that_is_not_json_is_refused() {
    let bodies: [&[u8]; 9] = [
        b"",
        b" ",
        b"{",
        b"hello",
        b"[]",
        b"\"x\"",
        b"{\"model\":\"m\",\"messages\":[]}x",
        b"{\"model\":\"\xff\"}",
        b"\xef\xbb\xbf{}",
    ];
    for body in bodies {
        let error = refusal(Bytes::from_static(body));
        assert!(error.message.starts_with("We could not parse the JSON body of your request"), "{error}");
        assert_eq!((error.param, error.code), (None, None));
    }
    let deep = format!(r#"{{"model":"m","messages":[],"x":{}"#, "[".repeat(1_000_000));
    assert!(refusal(deep).message.contains("nested too deeply"));
}

#[test]
fn duplicate_keys_are_refused_where_we_read() {
    let cases = [
        (r#"{"model":"a","messages":[],"model":"b"}"#, "model"),
        (r#"{"model":"a","messages":[],"seed":1,"se\u0065d":2}"#, "seed"),
        (r#"{"model":"a","messages":[{"role":"user","content":"x","content":"y"}]}"#, "messages[0].content"),
        (r#"{"model":"a","messages":[{},{"role":"user","role":"tool","content":"x"}]}"#, "messages[1].role"),
        (
            r#"{"model":"a","messages":[{"role":"user","content":[{"type":"text","text":"x","text":"y"}]}]}"#,
            "messages[0].content.text",
        ),
        (
            r#"{"model":"a","messages":[],"stream_options":{"include_usage":true,"include_usage":false}}"#,
            "stream_options.include_usage",
        ),
    ];
    for (body, param) in cases {
        let error = refusal(body);
        assert_eq!((error.param.as_deref(), error.code), (Some(param), Some("duplicate_key")), "{body}");
    }
    let elsewhere =
        |bias: &str| format!(r#"{{"model":"a","messages":[{{"role":"user","content":"x"}}],"logit_bias":{{{bias}}}}}"#);
    let read = |bias: &str| ChatRequest::parse(&elsewhere(bias).into()).expect("left to the provider").shape;
    assert_ne!(read(r#""1":1,"1":2"#), read(r#""1":2,"1":1"#));
}

#[test]
fn a_long_duplicate_key_is_not_sent_back_whole() {
    let key = "k".repeat(100_000);
    let error = refusal(format!(r#"{{"{key}":1,"{key}":2,"model":"m","messages":[]}}"#));
    assert!(error.to_string().len() < 200);
}

#[test]
fn errors_have_openais_shape() {
    let error = refusal(bytes(&with("model", json!(1))));
    let body: Value = serde_json::from_slice(&error.body().to_json()).expect("JSON");
    assert_eq!(
        body,
        json!({"error": {"message": "Invalid type for 'model': expected a string.", "type": "invalid_request_error",
            "param": "model", "code": "invalid_type"}})
    );
}

#[test]
fn an_unchanged_body_is_the_same_buffer() {
    let body = bytes(&with("stream_options", json!({"include_usage": true})));
    let request = ChatRequest::parse(&body).expect("good");
    for same in [request.with(None, false), request.with(Some("gpt-4o-mini"), true)] {
        assert_eq!((same.as_ptr(), same.len()), (body.as_ptr(), body.len()));
    }
    assert_eq!(request.body, body);
}

#[test]
fn only_what_must_change_is_changed() {
    let rewritten = |body: &'static str, model: Option<&str>, usage: bool| {
        let request = ChatRequest::parse(&Bytes::from_static(body.as_bytes())).expect("good");
        String::from_utf8(request.with(model, usage).to_vec()).expect("UTF-8")
    };
    let odd = " {\"messages\" :[] ,\t\"x\":1.50,\"mod\\u0065l\" : \"\\u0061\" , \"é\":\"\\u00e9\" }\n";
    assert_eq!(
        rewritten(odd, Some("b\"c"), false),
        " {\"messages\" :[] ,\t\"x\":1.50,\"mod\\u0065l\" : \"b\\\"c\" , \"é\":\"\\u00e9\" }\n"
    );
    assert_eq!(rewritten(odd, None, true), odd.replacen('{', "{\"stream_options\":{\"include_usage\":true},", 1));
    let options = |options: &str| format!(r#"{{"stream_options":{options},"model":"m","messages":[]}}"#);
    let cases = [
        ("null", r#"{"include_usage":true}"#),
        ("{ }", r#"{"include_usage":true }"#),
        (r#"{ "x": 1 }"#, r#"{"include_usage":true, "x": 1 }"#),
        (r#"{"include_usage" : false, "x":1}"#, r#"{"include_usage" : true, "x":1}"#),
        (r#"{"include_usage":null}"#, r#"{"include_usage":true}"#),
        (r#"{"include_usage":true}"#, r#"{"include_usage":true}"#),
    ];
    for (before, after) in cases {
        let body: &'static str = options(before).leak();
        assert_eq!(rewritten(body, None, true), options(after));
        assert_eq!(rewritten(body, Some("other"), true), options(after).replace("\"m\"", "\"other\""));
        assert_eq!(rewritten(body, None, false), body);
    }
}

#[test]
fn debug_output_holds_no_prompt() {
    assert!(!format!("{:?}", parse(&base())).contains("France"));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z_]{1,8}", inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = ChatRequest::parse(&bytes.into());
    }

    #[test]
    fn arbitrary_json_in_every_field_never_panics(fields in prop::collection::btree_map(
        prop::sample::select(vec!["model", "messages", "stream", "stream_options", "n", "temperature", "tools", "x"]),
        any_json(), 0..8,
    )) {
        let body = bytes(&json!(fields));
        if let Ok(request) = ChatRequest::parse(&body) {
            prop_assert!(ChatRequest::parse(&request.with(Some("other"), true)).is_ok());
        }
    }

    #[test]
    fn a_rewritten_body_asks_the_same_of_another_model(extra in any_json(), options in any_json(), pretty in any::<bool>(), model in "\\PC{0,9}") {
        let mut body = json!({"a": extra, "model": "m", "messages": [{"role": "user", "content": "x"}], "z": extra});
        if options.is_object() {
            body["stream_options"] = options;
        }
        let text = if pretty { format!("{body:#}") } else { body.to_string() };
        let request = ChatRequest::parse(&text.into()).expect("good");
        let sent = request.with(Some(&model), true);
        let again = ChatRequest::parse(&sent).expect("still good");
        prop_assert_eq!((&*again.model, again.include_usage), (&*model, true));
        let mut expected = body;
        expected["model"] = json!(model);
        if expected.get("stream_options").is_none() {
            expected["stream_options"] = json!({});
        }
        expected["stream_options"]["include_usage"] = json!(true);
        prop_assert_eq!(serde_json::from_slice::<Value>(&sent).expect("JSON"), expected);
    }
}

/// Texts that are made of what separates things in JSON and in digests of it.
fn confusable() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "a",
        "\"",
        "\\",
        ",",
        ":",
        "{",
        "}",
        "[",
        "]",
        "\0",
        "\n",
        " ",
        "\",\"",
        "\"},{\"role\":\"user\",\"content\":\"",
        "é",
        "e\u{301}",
    ]);
    prop::collection::vec(pieces, 0..5).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_text_in_one_field_passes_for_text_in_another(
        one in (confusable(), prop::collection::vec((any::<bool>(), confusable()), 0..3), confusable()),
        other in (confusable(), prop::collection::vec((any::<bool>(), confusable()), 0..3), confusable()),
    ) {
        let asked = |(model, turns, last): &(String, Vec<(bool, String)>, String)| {
            let role = |system: bool| if system { "system" } else { "user" };
            let mut messages: Vec<Value> =
                turns.iter().map(|(system, text)| json!({"role": role(*system), "content": text})).collect();
            messages.push(json!({"role": "user", "content": last}));
            key(&parse(&json!({"model": format!("m{model}"), "messages": messages})))
        };
        // The model is bound by the targets that it is routed to, and stands beside the shape.
        let of = |parts: &(String, Vec<(bool, String)>, String)| (asked(parts), parts.0.clone());
        prop_assert_eq!(of(&one) == of(&other), one == other);
    }
}

#[test]
fn a_megabyte_of_text_is_one_key_of_fixed_size() {
    let text = "é\"\\\u{1}".repeat(200_000);
    let request = parse(&asking(json!(text)));
    assert_eq!(request.last_text, text);
    assert_eq!(request.shape, parse(&base()).shape);
}
