//! The messages API as it is: requests, streams and whole answers.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use signet_dialect::messages::{Classifier, CountTokensRequest, Message, MessageFold, MessagesRequest, STOP, splitter};
use signet_dialect::{Api, Fold, Form, Kept, Request};
use signet_openai::sse::{Classify, Decoder, Kind};
use signet_openai::{Incomplete, Layer, NotStorable};

fn bytes(value: &Value) -> Bytes {
    value.to_string().into()
}

fn ask() -> Value {
    json!({
        "model": "claude-sonnet-4-5", "max_tokens": 300, "temperature": 0.3, "stream": true,
        "metadata": {"user_id": "u-1"}, "system": [{"type": "text", "text": "Be short."}],
        "messages": [
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": [{"type": "text", "text": "Hello!"}]},
            {"role": "user", "content": [{"type": "text", "text": "Where is"}, {"type": "text", "text": "my parcel?"}]},
        ],
    })
}

fn parse(value: &Value) -> MessagesRequest {
    MessagesRequest::parse(&bytes(value)).expect("a request")
}

#[test]
fn a_request_tells_what_is_asked() {
    let request = parse(&ask());
    assert_eq!((&*request.model, request.stream), ("claude-sonnet-4-5", true));
    assert_eq!(request.last_text, "Where is\n\u{1f}\nmy parcel?");
    assert_eq!(request.semantic_candidate(), Ok("Where is\n\u{1f}\nmy parcel?"));
    assert!(!format!("{request:?}").contains("parcel"));
}

#[test]
fn a_duplicate_key_is_refused_wherever_signet_reads() {
    for (body, param) in [
        (r#"{"model":"m","model":"n","messages":[]}"#, "model"),
        (r#"{"model":"m","messages":[{"role":"user","role":"user","content":""}]}"#, "messages[0].role"),
        (r#"{"model":"m","messages":[{"content":[{"text":"a","text":"b"}]}]}"#, "messages[0].content.text"),
        (r#"{"model":"m","messages":[],"system":[{"text":"a","text":"b"}]}"#, "system.text"),
    ] {
        let refusal = MessagesRequest::parse(&Bytes::from_static(body.as_bytes())).expect_err("a duplicate");
        assert_eq!(refusal.param.as_deref(), Some(param));
        assert_eq!(refusal.code, Some("duplicate_key"));
        assert_eq!(CountTokensRequest::parse(&Bytes::from_static(body.as_bytes())).expect_err("as well"), refusal);
    }
}

#[test]
fn a_wrong_type_is_refused_by_name() {
    for (change, param) in [
        (json!({"model": 1}), "model"),
        (json!({"messages": "hi"}), "messages"),
        (json!({"messages": [1]}), "messages[0]"),
        (json!({"stream": "yes"}), "stream"),
        (json!({"max_tokens": "1"}), "max_tokens"),
        (json!({"temperature": "1"}), "temperature"),
    ] {
        let refusal = MessagesRequest::parse(&bytes(&changed(&change))).expect_err("a wrong type");
        assert_eq!(refusal.param.as_deref(), Some(param));
    }
}

fn changed(change: &Value) -> Value {
    let mut ask = ask();
    for (key, value) in change.as_object().expect("an object") {
        ask[key] = value.clone();
    }
    ask
}

#[test]
fn everything_but_stream_and_metadata_keeps_requests_apart() {
    let shape = parse(&ask()).shape;
    for neutral in [json!({"stream": false}), json!({"metadata": {"user_id": "u-2"}})] {
        assert_eq!(parse(&changed(&neutral)).shape, shape, "{neutral}");
    }
    for other in [
        json!({"model": "claude-haiku-4-5"}),
        json!({"max_tokens": 301}),
        json!({"temperature": 0.4}),
        json!({"system": "Be short."}),
        json!({"tools": []}),
        json!({"thinking": {"type": "adaptive"}}),
        json!({"a_field_of_tomorrow": 1}),
        json!({"service_tier": "auto"}),
    ] {
        assert_ne!(parse(&changed(&other)).shape, shape, "{other}");
    }
    let mut other = ask();
    other["messages"][2]["content"][1]["text"] = json!("my order?");
    assert_eq!(parse(&other).shape, shape, "the last text is not part of the shape");
    other["messages"][2]["content"][1]["cache_control"] = json!({"type": "ephemeral"});
    assert_ne!(parse(&other).shape, shape);
}

#[test]
fn what_is_no_plain_question_is_for_the_exact_cache_only() {
    let last = |content: Value| json!({"messages": [{"role": "user", "content": content}]});
    for (change, reason) in [
        (json!({"tools": [{"name": "f", "input_schema": {}}]}), "tools"),
        (json!({"mcp_servers": [{"url": "https://e.test"}]}), "tools"),
        (json!({"container": "c"}), "container"),
        (last(json!([{"type": "tool_result", "tool_use_id": "t"}])), "tool results"),
        (last(json!([{"type": "image"}])), "images"),
        (last(json!([{"type": "document"}])), "other content"),
        (json!({"messages": [{"role": "assistant", "content": "It is"}]}), "assistant last"),
        (json!({"messages": []}), "empty"),
    ] {
        assert_eq!(parse(&changed(&change)).semantic_candidate(), Err(reason), "{change}");
    }
}

#[test]
fn another_model_changes_the_models_bytes_alone() {
    let body = Bytes::from_static(b"{ \"messages\" : [ ], \"model\":\"a\" , \"x\":1.0 }");
    let request = MessagesRequest::parse(&body).expect("a request");
    assert_eq!(&request.with(Some("b"), true)[..], b"{ \"messages\" : [ ], \"model\":\"b\" , \"x\":1.0 }");
    assert_eq!(request.with(None, true).as_ptr(), body.as_ptr());
    assert_eq!(request.with(Some("a"), true).as_ptr(), body.as_ptr());
    let count = CountTokensRequest::parse(&body).expect("a request");
    assert_eq!(count.with(Some("b"), true), request.with(Some("b"), true));
    assert_ne!(count.shape, request.shape);
}

#[test]
fn the_prefix_stays_while_a_conversation_grows_and_differs_by_what_it_begins_with() {
    let long = ask();
    let mut short = ask();
    short["messages"].as_array_mut().expect("messages").truncate(1);
    assert_eq!(parse(&long).prefix(), parse(&short).prefix());
    for other in [json!({"system": "Be long."}), json!({"tools": [{"name": "f"}]}), json!({"messages": []})] {
        assert_ne!(parse(&changed(&other)).prefix(), parse(&long).prefix(), "{other}");
    }
}

/// An answer with every kind of block that is stored, and fields that nobody knows.
fn message() -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5-20250929",
        "content": [
            {"type": "thinking", "thinking": "The caller wants the weather.\nSo: a tool.", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "b3BhcXVl"},
            {"type": "text", "text": "Let me look — \"one\" moment. \u{1f600}", "citations": null},
            {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Zürich", "days": 2}, "caller": {"type": "direct"}},
            {"type": "tool_use", "id": "toolu_2", "name": "clock", "input": {}},
        ],
        "stop_reason": "tool_use", "stop_sequence": null, "tomorrow": {"a": [1, 2.50]},
        "usage": {
            "input_tokens": 12, "cache_creation_input_tokens": 100, "cache_read_input_tokens": 1000, "output_tokens": 75,
            "output_tokens_details": {"thinking_tokens": 30}, "service_tier": "standard",
        },
    })
}

fn stored(value: &Value) -> Message {
    Message::from_json(value.to_string().as_bytes()).expect("a message")
}

fn fold(stream: &Bytes) -> Result<Message, Incomplete> {
    let mut fold = MessageFold::new();
    let mut decoder = Decoder::new(1 << 20);
    decoder.push(stream.clone());
    while let Some(event) = decoder.next_event().expect("short events") {
        fold.push(&event.data);
    }
    fold.finish()
}

#[test]
fn a_message_has_the_facts_that_records_need() {
    let message = stored(&message());
    assert_eq!((message.model(), message.finish()), ("claude-sonnet-4-5-20250929", Some("tool_use")));
    assert_eq!(message.content().as_deref(), Some("Let me look — \"one\" moment. \u{1f600}"));
    let usage = message.usage().expect("usage");
    assert_eq!((usage.input, usage.cached_input, usage.output, usage.reasoning), (1112, 1000, 75, 30));
    assert_eq!(message.storable(Layer::Exact), Ok(()));
    assert!(!format!("{message:?}").contains("moment"));
}

#[test]
fn a_replay_says_what_the_provider_said_under_its_own_id() {
    let replay: Value = serde_json::from_slice(&stored(&message()).to_json("msg_2")).expect("JSON");
    let mut expected = message();
    expected["id"] = json!("msg_2");
    assert_eq!(replay, expected);
}

#[test]
fn both_forms_of_a_stored_message_say_the_same() {
    let message = stored(&message());
    let again = fold(&message.to_sse("msg_2")).expect("a whole stream");
    assert_eq!(again.content_digest(), message.content_digest());
    assert_eq!(again.storable(Layer::Exact), Ok(()));
    let decoded = Message::decode(&message.encode()).expect("what was encoded");
    assert_eq!(decoded, message);
    assert_eq!(decoded.to_sse("x"), message.to_sse("x"));
}

#[test]
fn a_rendered_stream_has_the_vendors_events_in_order() {
    let stream = stored(&message()).to_sse("msg_2");
    let mut decoder = Decoder::new(1 << 20);
    decoder.push(stream.clone());
    let mut names: Vec<String> = Vec::new();
    while let Some(event) = decoder.next_event().expect("short events") {
        let data: Value = serde_json::from_slice(&event.data).expect("JSON");
        assert_eq!(data["type"].as_str().map(str::as_bytes), Some(&event.event[..]));
        let name = String::from_utf8_lossy(&event.event).into_owned();
        let delta = data["delta"]["type"].as_str().unwrap_or_default();
        names.push(if delta.is_empty() { name } else { delta.to_owned() });
    }
    let block = |deltas: &[&'static str]| [&["content_block_start"], deltas, &["content_block_stop"]].concat();
    let expected = [
        vec!["message_start"],
        block(&["thinking_delta", "signature_delta"]),
        block(&[]),
        block(&["text_delta"]),
        block(&["input_json_delta"]),
        block(&[]),
        vec!["message_delta", "message_stop"],
    ];
    assert_eq!(names, expected.concat());
    assert!(stream.ends_with(STOP));
}

#[test]
fn only_what_can_be_said_again_in_full_is_stored() {
    let with = |change: Value| {
        let mut message = message();
        for (key, value) in change.as_object().expect("an object") {
            message[key] = value.clone();
        }
        stored(&message)
    };
    let block =
        |block: Value| with(json!({"stop_reason": "end_turn", "content": [{"type": "text", "text": "a"}, block]}));
    for (message, reason) in [
        (with(json!({"stop_reason": "max_tokens"})), "length"),
        (with(json!({"stop_reason": "model_context_window_exceeded"})), "length"),
        (with(json!({"stop_reason": "refusal"})), "a refusal"),
        (with(json!({"stop_reason": "pause_turn"})), "a pause"),
        (with(json!({"stop_reason": null})), "no stop reason"),
        (with(json!({"stop_reason": "tomorrow"})), "an unknown stop reason"),
        (with(json!({"content": []})), "missing tool calls"),
        (with(json!({"content": [], "stop_reason": "end_turn"})), "an empty answer"),
        (with(json!({"container": {"id": "c"}})), "a container"),
        (block(json!({"type": "text", "text": "b", "citations": [{}]})), "citations"),
        (block(json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}})), "an unknown block"),
        (block(json!({"type": "tool_use", "id": "s", "name": "f", "input": "x"})), "a malformed call"),
    ] {
        assert_eq!(message.storable(Layer::Exact), Err(reason));
        assert_eq!(message.storable(Layer::Semantic), Err(reason));
    }
    assert_eq!(stored(&message()).storable(Layer::Semantic), Err("thinking"));
    let text = with(json!({"stop_reason": "end_turn", "content": [{"type": "text", "text": "a"}]}));
    assert_eq!(text.storable(Layer::Semantic), Ok(()));
}

#[test]
fn what_is_no_message_is_not_taken_for_one() {
    let shape = |body: &str| Message::from_json(body.as_bytes()).expect_err("not a message");
    assert_eq!(shape(r#"{"type":"error","error":{"type":"api_error","message":"x"}}"#), NotStorable::Failure);
    for body in
        ["", "[]", "{}", r#"{"content":[1]}"#, r#"{"content":[],"content":[]}"#, r#"{"content":[{"a":1,"a":1}]}"#]
    {
        assert!(matches!(shape(body), NotStorable::Shape(_)), "{body}");
    }
    assert_eq!(Message::decode(b"\x02{\"content\":[]}"), Err(NotStorable::Version));
    assert_eq!(Message::decode(b"\x01{\"id\":\"m\",\"content\":[]}"), Err(NotStorable::Version));
}

/// A stream as the vendor sends it: counts come twice, and a ping stands between.
const STREAM: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-x\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\nevent: ping\ndata: {\"type\": \"ping\"}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Grüezi, \"}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a \\\"parcel\\\" \\ud83d\"}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"\\udce6\"}}\n\nevent: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"track\",\"input\":{}}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"\"}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"num\"}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"ber\\\": 7}\"}}\n\nevent: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":1}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":15}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

#[test]
fn a_stream_makes_the_message_that_it_would_have_been_as_json() {
    let message = fold(&Bytes::from_static(STREAM.as_bytes())).expect("a whole stream");
    let expected = json!({
        "id": "m", "type": "message", "role": "assistant", "model": "claude-x",
        "content": [
            {"type": "text", "text": "Grüezi, a \"parcel\" \u{1f4e6}"},
            {"type": "tool_use", "id": "toolu_1", "name": "track", "input": {"number": 7}},
        ],
        "stop_reason": "tool_use", "stop_sequence": null, "usage": {"input_tokens": 9, "output_tokens": 15},
    });
    assert_eq!(message, stored(&expected));
    assert_eq!(serde_json::from_slice::<Value>(&message.to_json("m")).expect("JSON"), expected);
}

#[test]
fn a_stream_is_whole_from_its_stop_reason_on_and_cut_before() {
    let events: Vec<&str> = STREAM.split_inclusive("\n\n").collect();
    for end in 0..=events.len() {
        let message = fold(&events[..end].concat().into());
        if end + 1 >= events.len() {
            assert!(message.is_ok(), "{end}");
        } else {
            assert_eq!(message, Err(Incomplete::Cut), "{end}");
        }
    }
}

#[test]
fn a_fold_tells_model_and_usage_on_the_way() {
    let mut fold = MessageFold::new();
    assert_eq!((fold.model(), fold.usage()), (None, None));
    fold.push(br#"{"type":"message_start","message":{"model":"claude-x","content":[],"usage":{"input_tokens":9,"output_tokens":1}}}"#);
    assert_eq!(fold.model(), Some("claude-x"));
    assert_eq!(fold.usage().map(|usage| (usage.input, usage.output)), Some((9, 1)));
}

#[test]
fn a_failure_or_nonsense_in_a_stream_is_no_message() {
    let with = |event: &str| fold(&STREAM.replacen("event: ping\ndata: {\"type\": \"ping\"}", event, 1).into());
    let failure =
        with("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"x\"}}");
    assert_eq!(failure, Err(Incomplete::Failure));
    for nonsense in [
        "data: {",
        "data: []",
        "data: {\"no\":\"type\"}",
        "data: {\"type\":\"content_block_delta\",\"index\":7,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}",
        "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"a\"}}",
        "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}",
        "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"\\ud83d\"}}",
        "data: {\"type\":\"message_start\",\"message\":{\"content\":[]}}",
    ] {
        assert_eq!(with(nonsense), Err(Incomplete::Malformed), "{nonsense}");
    }
}

#[test]
fn an_event_of_tomorrow_is_passed_on_and_its_answer_not_stored() {
    for event in [
        "data: {\"type\":\"content_block_verdict\",\"index\":0}",
        "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"compaction_delta\",\"content\":\"a\"}}",
    ] {
        let stream = STREAM.replacen("event: ping\ndata: {\"type\": \"ping\"}", event, 1);
        let message = fold(&stream.into()).expect("a whole stream");
        assert_eq!(message.storable(Layer::Exact), Err("an unknown event"));
    }
}

fn kinds(stream: &[Bytes]) -> (Vec<(Kind, usize)>, Vec<u8>, bool) {
    let mut splitter = splitter(1 << 20);
    let (mut kinds, mut raw) = (Vec::new(), Vec::new());
    for piece in stream {
        splitter.push(piece.clone());
        while let Some(run) = splitter.next_run().expect("short events") {
            match (kinds.last_mut(), run.kind) {
                (Some((Kind::Ordinary, events)), Kind::Ordinary) => *events += run.events as usize,
                _ => kinds.push((run.kind, run.events as usize)),
            }
            raw.extend_from_slice(&run.raw);
        }
    }
    let finished = splitter.all_finished();
    (kinds, raw, finished)
}

#[test]
fn a_splitter_knows_the_end_of_a_messages_stream() {
    let stream = [Bytes::from_static(STREAM.as_bytes())];
    let (seen, raw, finished) = kinds(&stream);
    assert_eq!(seen, [(Kind::Ordinary, 12), (Kind::Finished, 1), (Kind::Done, 1)]);
    assert_eq!(raw, STREAM.as_bytes());
    assert!(finished);
    let cut = STREAM.split("event: message_delta").next().expect("what is before it");
    assert!(!kinds(&[cut.to_owned().into()]).2, "without a stop reason it is cut");
}

#[test]
fn the_kind_of_an_event_is_in_its_name_or_its_data() {
    for (raw, kind) in [
        ("event: error\ndata: {}\n\n", Some(Kind::Error)),
        ("data: {\"type\":\"error\"}\n\n", Some(Kind::Error)),
        ("event: ping\ndata: {\"type\":\"ping\"}\n\n", Some(Kind::Ordinary)),
        ("data: {\"type\":\"message_stop\"}\r\n\r\n", Some(Kind::Done)),
        (
            "data: {\"type\":\"message_delta\",\ndata: \"delta\":{\"stop_reason\":\"end_turn\"}}\n\n",
            Some(Kind::Finished),
        ),
        ("event: message_delta\ndata: {\"delta\":{\"stop_reason\":null}}\n\n", Some(Kind::Ordinary)),
        ("event: tomorrow\ndata: {\"type\":\"tomorrow\"}\n\n", Some(Kind::Ordinary)),
        ("event: message_stop\n\n", None),
        (": ping\n\n", None),
        ("\u{feff}event: error\ndata: {}\n\n", Some(Kind::Error)),
    ] {
        assert_eq!(Classifier::default().classify(raw.as_bytes()), kind, "{raw}");
    }
}

fn texts() -> impl Strategy<Value = String> {
    proptest::collection::vec(
        prop_oneof![Just("a word "), Just("\"\\\n"), Just("Zürich"), Just("\u{1f600}"), Just("\u{7}")],
        1..60,
    )
    .prop_map(|words| words.concat())
}

fn blocks() -> impl Strategy<Value = Value> {
    prop_oneof![
        texts().prop_map(|text| json!({"type": "text", "text": text})),
        (texts(), "[a-z]{0,6}").prop_map(|(text, seal)| json!({"type": "thinking", "thinking": text, "signature": seal})),
        "[a-z]{1,9}".prop_map(|data| json!({"type": "redacted_thinking", "data": data})),
        (texts(), any::<i32>()).prop_map(|(text, n)| {
            json!({"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"text": text, "n": n, "deep": [{"a": null}]}})
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_message_is_the_same_in_both_forms(blocks in proptest::collection::vec(blocks(), 1..6), extra in any::<bool>()) {
        let mut value = message();
        value["content"] = Value::Array(blocks);
        value["stop_reason"] = json!("end_turn");
        if extra {
            value["stop_details"] = Value::Null;
            value.as_object_mut().expect("an object").remove("usage");
        }
        let message = stored(&value);
        let again = fold(&message.to_sse("msg_2")).expect("a whole stream");
        prop_assert_eq!(again.content_digest(), message.content_digest());
    }

    #[test]
    fn every_cut_of_a_messages_stream_gives_the_same_events(cuts in proptest::collection::vec(0..STREAM.len(), 0..8)) {
        let mut cuts = [vec![0, STREAM.len()], cuts].concat();
        cuts.sort_unstable();
        let pieces: Vec<Bytes> = cuts.windows(2).map(|cut| Bytes::from_static(&STREAM.as_bytes()[cut[0]..cut[1]])).collect();
        prop_assert_eq!(kinds(&pieces), kinds(&[Bytes::from_static(STREAM.as_bytes())]));
    }

    #[test]
    fn nothing_that_is_pushed_panics(pieces in proptest::collection::vec(".{0,60}", 0..8), at in 0usize..14) {
        let mut fold = MessageFold::new();
        for event in STREAM.split_inclusive("\n\n").take(at) {
            fold.push(event.split_once("data: ").map_or("", |(_, data)| data.trim_end()).as_bytes());
        }
        for piece in pieces {
            fold.push(piece.as_bytes());
        }
        let _ = fold.finish();
    }
}

#[test]
fn whoever_serves_any_api_serves_messages_too() {
    let request = Request::parse(Api::Messages, &bytes(&ask())).expect("a request");
    assert_eq!((request.api(), request.model(), request.stream()), (Api::Messages, "claude-sonnet-4-5", true));
    assert!(request.include_usage() && request.with(Some("b"), true) == request.with(Some("b"), false));
    let mut fold = Fold::new(request.form(), 1 << 20).expect("it has streams");
    fold.push(Bytes::from_static(STREAM.as_bytes()));
    while fold.next_run().expect("short events").is_some() {}
    assert!(fold.all_finished() && !fold.failed());
    let kept = fold.take_answer().expect("a whole answer");
    let again = Kept::decode(kept.kind(), &kept.encode()).expect("what was encoded");
    assert_eq!((again.kind(), again.digest(), again.model()), (2, kept.digest(), Some("claude-x")));
    assert_eq!(again.finish(), Some("tool_use"));
    let json = again.to_json("7", 0);
    assert!(json.starts_with(b"{\"id\":\"msg_7\""));
    let reading = request.form().read(&json);
    assert_eq!((reading.digest, reading.semantic), (kept.digest(), false));
    assert!(reading.kept.is_some() && reading.usage == kept.usage());
}

#[test]
fn a_failure_inside_a_messages_stream_is_kept_by_nobody() {
    let mut fold = Fold::new(Form { api: Api::Messages, parts: 1 }, 1 << 20).expect("it has streams");
    let error = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"x\"}}\n\n";
    fold.push(Bytes::from(STREAM.split_inclusive("\n\n").take(4).collect::<String>() + error));
    while fold.next_run().expect("short events").is_some() {}
    assert!(fold.failed() && fold.take_answer().is_none());
    assert_eq!(fold.usage().map(|usage| usage.input), Some(9));
}

#[test]
fn a_count_of_tokens_is_kept_as_it_is() {
    let request = Request::parse(Api::CountTokens, &bytes(&ask())).expect("a request");
    assert_eq!((request.stream(), request.semantic_candidate()), (false, Err("operation")));
    let body = b"{ \"input_tokens\": 12 }";
    let kept = request.form().read(body).kept.expect("a count");
    assert_eq!(&kept.to_json("7", 0)[..], body);
    for other in [&b"{}"[..], b"{\"input_tokens\":\"a\"}", b"no"] {
        assert!(request.form().read(other).kept.is_none());
    }
}

#[test]
fn a_request_that_runs_in_a_container_is_not_all_in_its_body() {
    let stateless = |container: &str| {
        let body = format!(r#"{{"model":"m","max_tokens":1,"messages":[{{"role":"user","content":"a"}}]{container}}}"#);
        signet_dialect::Request::parse(signet_dialect::Api::Messages, &body.into()).expect("a good request").stateless()
    };
    assert_eq!(stateless(r#","container":"container_1""#), Err("container"));
    assert_eq!((stateless(""), stateless(r#","container":null"#)), (Ok(()), Ok(())));
}
