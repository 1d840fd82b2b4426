//! Chat and messages, each said in the other: requests, whole answers, streams, errors.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use serde_json::{Value, json};
use signet_dialect::completions::CompletionsFold;
use signet_dialect::messages::MessageFold;
use signet_dialect::responses::ResponsesFold;
use signet_dialect::{
    Api, Defaults, Fate, RULES, Untranslatable, Wanted, translate_error, translate_request, translate_stream,
    translate_whole,
};
use signet_openai::Accumulator;
use signet_openai::sse::Decoder;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

const PAIRS: [(&str, Api, Api); 6] = [
    ("chat-to-messages", Api::Chat, Api::Messages),
    ("messages-to-chat", Api::Messages, Api::Chat),
    ("responses-to-chat", Api::Responses, Api::Chat),
    ("responses-to-messages", Api::Responses, Api::Messages),
    ("completions-to-chat", Api::Completions, Api::Chat),
    ("completions-to-messages", Api::Completions, Api::Messages),
];

const DEFAULTS: Defaults = Defaults { max_tokens: Some(4096) };

const WANTED: Wanted<'_> = Wanted { usage: true, created: 1_700_000_001, asked: None };

fn folder(pair: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(pair)
}

fn golden(pair: &str, name: &str) -> String {
    std::fs::read_to_string(folder(pair).join(name)).unwrap_or_else(|e| panic!("{pair}/{name}: {e}"))
}

/// The names of the pair's goldens that end with `.{kind}`.
fn goldens(pair: &str, kind: &str) -> Vec<String> {
    let files = std::fs::read_dir(folder(pair)).expect("the folder of a pair");
    let names = files.map(|file| file.expect("a file").file_name().into_string().expect("a plain name"));
    let mut names: Vec<String> = names.filter(|name| name.ends_with(kind)).collect();
    names.sort();
    assert!(!names.is_empty(), "{pair} has goldens of {kind}");
    names
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

fn ask(from: Api, to: Api, body: &Value) -> Result<Value, signet_openai::BadRequest> {
    let body = translate_request(from, to, &body.to_string().into(), &DEFAULTS)?;
    Ok(serde_json::from_slice(&body).expect("a translated body is JSON"))
}

/// A stream that comes in these pieces, translated.
fn stream(from: Api, to: Api, wanted: Wanted<'_>, pieces: &[&[u8]]) -> Result<String, Untranslatable> {
    let mut translator = translate_stream(from, to, wanted).expect("a pair");
    let (mut decoder, mut out) = (Decoder::new(1 << 20), BytesMut::new());
    for piece in pieces {
        decoder.push(Bytes::copy_from_slice(piece));
        while let Some(event) = decoder.next_event().expect("short events") {
            translator.event(&event, &mut out)?;
        }
    }
    translator.end(&mut out);
    translator.end(&mut out);
    Ok(String::from_utf8(out.to_vec()).expect("text"))
}

#[test]
fn requests_are_said_as_the_goldens_say() {
    for (pair, from, to) in PAIRS {
        for name in goldens(pair, ".request.in.json") {
            let said = ask(from, to, &value(&golden(pair, &name))).unwrap_or_else(|e| panic!("{pair}/{name}: {e}"));
            let out = name.replace(".in.", ".out.");
            assert_eq!(said, value(&golden(pair, &out)), "{pair}/{name}");
        }
    }
}

/// The answers in the folder of a pair are those of its provider's API.
#[test]
fn whole_answers_are_said_as_the_goldens_say() {
    for (pair, from, to) in PAIRS {
        for name in goldens(pair, ".answer.in.json") {
            let said = translate_whole(to, from, WANTED, &golden(pair, &name).into());
            let said: Value =
                serde_json::from_slice(&said.unwrap_or_else(|e| panic!("{pair}/{name}: {e}"))).expect("JSON");
            let out = name.replace(".in.", ".out.");
            assert_eq!(said, value(&golden(pair, &out)), "{pair}/{name}");
        }
    }
}

#[test]
fn streams_are_said_as_the_goldens_say() {
    for (pair, from, to) in PAIRS {
        for name in goldens(pair, ".stream.in.txt") {
            let said = stream(to, from, WANTED, &[golden(pair, &name).as_bytes()]);
            let said = said.unwrap_or_else(|e| panic!("{pair}/{name}: {e}"));
            assert_eq!(said, golden(pair, &name.replace(".in.", ".out.")), "{pair}/{name}");
        }
    }
}

/// The pairs that have rules.
fn ruled() -> BTreeSet<(Api, Api)> {
    RULES.iter().map(|rule| (rule.from, rule.to)).collect()
}

fn pair_of(from: Api, to: Api) -> String {
    format!("{}-to-{}", from.name(), to.name())
}

/// A small request of `api` with these fields.
fn small(api: Api, changes: &[&Value]) -> Value {
    let mut body = match api {
        Api::Chat => json!({"model": "m", "messages": [{"role": "user", "content": "Hello"}]}),
        Api::Messages => json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}),
        Api::Responses => json!({"model": "m", "input": "Hello", "store": false}),
        _ => json!({"model": "m", "prompt": "Hello"}),
    };
    for (key, value) in changes.iter().filter_map(|change| change.as_object()).flatten() {
        body[key] = value.clone();
    }
    body
}

/// `path` without the places in its arrays.
fn general(path: &str) -> String {
    let pieces = path.split('[').map(|piece| piece.split_once(']').map_or(piece, |(_, behind)| behind));
    pieces.collect::<Vec<_>>().join("[]")
}

#[test]
fn what_cannot_be_said_is_refused_by_name_and_every_line_of_the_list_is_true() {
    for (from, to) in ruled() {
        let pair = pair_of(from, to);
        let mut seen = BTreeSet::new();
        for golden in value(&golden(&pair, "refused.json")).as_array().expect("a list") {
            let param = golden["param"].as_str().expect("a param");
            let refusal = ask(from, to, &small(from, &[&golden["change"]])).expect_err(param);
            assert_eq!(refusal.param.as_deref(), Some(param), "{pair}: {refusal}");
            assert_eq!(refusal.code, Some("unsupported_value"), "{pair}: {param}");
            let rule = RULES.iter().find_map(|rule| match rule.fate {
                Fate::Refused(why) if (rule.from, rule.to) == (from, to) && rule.field == general(param) => Some(why),
                _ => None,
            });
            let why = rule.unwrap_or_else(|| panic!("{pair}: {param} is in no line"));
            assert!(refusal.message.contains(why), "{refusal}");
            seen.insert(general(param));
        }
        for rule in RULES.iter().filter(|rule| (rule.from, rule.to) == (from, to)) {
            if let Fate::Refused(_) = rule.fate {
                assert!(seen.contains(rule.field), "{pair}: no golden for {}", rule.field);
            }
        }
    }
}

#[test]
fn a_hint_changes_nothing_and_every_one_is_in_the_list() {
    for (from, to) in ruled() {
        let pair = pair_of(from, to);
        let mut seen = BTreeSet::new();
        for golden in value(&golden(&pair, "hints.json")).as_array().expect("a list") {
            let (base, change) = (&golden["base"], &golden["change"]);
            let without = ask(from, to, &small(from, &[base])).expect("a request");
            assert_eq!(ask(from, to, &small(from, &[base, change])).expect("a hint"), without, "{pair}: {change}");
            seen.insert(golden["field"].as_str().expect("a field").to_owned());
        }
        let hints =
            RULES.iter().filter(|rule| (rule.from, rule.to) == (from, to) && matches!(rule.fate, Fate::Hint(_)));
        assert_eq!(seen, hints.map(|rule| rule.field.to_owned()).collect(), "{pair}");
    }
}

#[test]
fn a_field_that_nobody_knows_is_refused_wherever_it_stands() {
    for (from, to, change, param) in [
        (Api::Chat, Api::Messages, json!({"tomorrow": 1}), "tomorrow"),
        (Api::Chat, Api::Messages, json!({"tomorrow": null}), "tomorrow"),
        (
            Api::Chat,
            Api::Messages,
            json!({"messages": [{"role": "user", "content": "a", "tomorrow": 1}]}),
            "messages[0].tomorrow",
        ),
        (Api::Chat, Api::Messages, json!({"stream_options": {"tomorrow": 1}}), "stream_options.tomorrow"),
        (Api::Messages, Api::Chat, json!({"tomorrow": 1}), "tomorrow"),
        (Api::Messages, Api::Chat, json!({"tool_choice": {"type": "auto", "tomorrow": 1}}), "tool_choice.tomorrow"),
        (
            Api::Messages,
            Api::Chat,
            json!({"system": [{"type": "text", "text": "a", "tomorrow": 1}]}),
            "system[0].tomorrow",
        ),
        (Api::Messages, Api::Chat, json!({"output_format": {"type": "json_schema"}}), "output_format"),
    ] {
        let refusal = ask(from, to, &small(from, &[&change])).expect_err(param);
        assert_eq!((refusal.param.as_deref(), refusal.code), (Some(param), Some("unsupported_value")));
    }
}

#[test]
fn a_request_that_is_wrong_in_its_own_api_is_refused_too() {
    let call = |arguments: &str| {
        let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}});
        json!({"messages": [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": ""}]})
    };
    let arguments = "messages[0].tool_calls[0].function.arguments";
    for (from, to, change, param, code) in [
        (Api::Chat, Api::Messages, call("{"), arguments, "invalid_value"),
        (Api::Chat, Api::Messages, call("[1]"), arguments, "invalid_value"),
        (Api::Chat, Api::Messages, json!({"max_tokens": 1, "max_completion_tokens": 2}), "max_tokens", "invalid_value"),
        (Api::Chat, Api::Messages, json!({"stop": 1}), "stop", "invalid_type"),
        (Api::Chat, Api::Messages, json!({"messages": null}), "messages", "missing_required_parameter"),
        (Api::Messages, Api::Chat, json!({"max_tokens": null}), "max_tokens", "missing_required_parameter"),
        (Api::Messages, Api::Chat, json!({"system": 1}), "system", "invalid_type"),
    ] {
        let refusal = ask(from, to, &small(from, &[&change])).expect_err(param);
        assert_eq!((refusal.param.as_deref(), refusal.code), (Some(param), Some(code)), "{change}");
    }
    let body = Bytes::from(small(Api::Chat, &[]).to_string());
    let refusal = translate_request(Api::Chat, Api::Messages, &body, &Defaults::default()).expect_err("no limit");
    assert_eq!(refusal.param.as_deref(), Some("max_completion_tokens"));
    let duplicate = Bytes::from_static(br#"{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"a","url":"b"}}]}]}"#);
    let refusal = translate_request(Api::Chat, Api::Messages, &duplicate, &DEFAULTS).expect_err("a duplicate");
    assert_eq!(refusal.param.as_deref(), Some("messages[0].content[0].image_url.url"));
    assert_eq!(refusal.code, Some("duplicate_key"));
}

#[test]
fn pairs_without_a_translation_are_refused_by_the_model() {
    let body = Bytes::from(small(Api::Chat, &[]).to_string());
    for (from, to) in [(Api::Chat, Api::Responses), (Api::Messages, Api::Completions), (Api::Embeddings, Api::Chat)] {
        let refusal = translate_request(from, to, &body, &DEFAULTS).expect_err("no pair");
        assert_eq!((refusal.param.as_deref(), refusal.code), (Some("model"), Some("unsupported_for_model")));
        assert!(translate_stream(to, from, WANTED).is_none());
    }
    assert!(translate_stream(Api::Chat, Api::Chat, WANTED).is_none(), "the same API needs none");
}

#[test]
fn usage_is_told_to_a_chat_caller_only_if_asked_for() {
    let upstream = golden("chat-to-messages", "no-stop-event.stream.in.txt");
    let without = Wanted { usage: false, ..WANTED };
    let said = stream(Api::Messages, Api::Chat, without, &[upstream.as_bytes()]).expect("a stream");
    assert!(!said.contains("usage") && said.ends_with("data: [DONE]\n\n"), "{said}");
}

/// Chunks of a chat stream with these deltas, and a finish reason.
fn chunks(deltas: &[&str], finish: &str) -> String {
    let chunk = |delta: &str, finish: &str| {
        format!(
            "data: {{\"id\":\"c\",\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
        )
    };
    let deltas = deltas.iter().map(|delta| chunk(delta, "null")).collect::<String>();
    deltas + &chunk("{}", finish)
}

#[test]
fn what_a_chat_stream_cannot_say_to_a_messages_caller_ends_it() {
    let call = |index: u32, id: &str| {
        format!(r#"{{"tool_calls":[{{"index":{index},"id":"{id}","function":{{"name":"f","arguments":""}}}}]}}"#)
    };
    let more = |index: u32| format!(r#"{{"tool_calls":[{{"index":{index},"function":{{"arguments":"1"}}}}]}}"#);
    let (first, second) = (call(0, "a"), call(1, "b"));
    let (nameless, idless) = (first.replace("\"f\"", "null"), first.replace("\"a\"", "null"));
    for (deltas, finish, why) in [
        (vec![&*first, &second, &more(0)], "\"tool_calls\"", "tool calls are interleaved"),
        (vec![&*first, r#"{"content":"x"}"#, &more(0)], "\"tool_calls\"", "a tool call is interleaved with text"),
        (vec![&*first, &call(0, "b")], "\"tool_calls\"", "two tool calls share an index"),
        (vec![&*nameless], "\"tool_calls\"", "a tool call has no id or no name"),
        (vec![&*idless], "\"tool_calls\"", "a tool call has no id or no name"),
        (vec![r#"{"audio":{"id":"a"}}"#], "\"stop\"", "a chunk holds what is not known"),
        (vec![r#"{"annotations":[{}]}"#], "\"stop\"", "a chunk holds what is not known"),
        (vec![], "\"function_call\"", "a finish reason is not known"),
    ] {
        let said = stream(Api::Chat, Api::Messages, WANTED, &[chunks(&deltas, finish).as_bytes()]);
        assert_eq!(said, Err(Untranslatable(why)));
    }
    let two = chunks(&[r#"{"content":"x"}"#], "\"stop\"").replace("\"index\":0", "\"index\":1");
    let said = stream(Api::Chat, Api::Messages, WANTED, &[two.as_bytes()]);
    assert_eq!(said, Err(Untranslatable("there are several choices")));
    let said = stream(Api::Chat, Api::Messages, WANTED, &[b"data: {\n\n"]);
    assert_eq!(said, Err(Untranslatable("a chunk is not JSON")));
}

#[test]
fn a_call_without_an_index_goes_on_until_another_id_comes() {
    let call = |id: &str, arguments: &str| {
        format!(r#"{{"tool_calls":[{{"id":{id},"function":{{"name":"f","arguments":"{arguments}"}}}}]}}"#)
    };
    let deltas = [call("\"a\"", "{"), call("null", "}"), call("\"a\"", " "), call("\"b\"", "{}")];
    let deltas: Vec<&str> = deltas.iter().map(String::as_str).collect();
    let said =
        stream(Api::Chat, Api::Messages, WANTED, &[chunks(&deltas, "\"tool_calls\"").as_bytes()]).expect("calls");
    assert_eq!(said.matches("content_block_start\"").count(), 2, "{said}");
    assert_eq!(said.matches("input_json_delta").count(), 4, "{said}");
}

#[test]
fn reasoning_that_a_server_says_twice_is_said_once() {
    let deltas = [r#"{"reasoning_content":"a","reasoning":"a"}"#, r#"{"reasoning":"b","reasoning_details":[{}]}"#];
    let said = stream(Api::Chat, Api::Messages, WANTED, &[chunks(&deltas, "\"stop\"").as_bytes()]).expect("a stream");
    assert_eq!(said.matches("thinking_delta").count(), 2, "{said}");
}

#[test]
fn a_chunk_that_is_like_the_one_before_but_for_its_end_is_read_whole() {
    let text = chunks(&[r#"{"content":"a"}"#, r#"{"content":"b"}"#], "\"stop\"");
    let expected = stream(Api::Chat, Api::Messages, WANTED, &[text.as_bytes()]).expect("a stream");
    let (texts, _) = text.rsplit_once("data: ").expect("a last chunk");
    let (first, last) = texts.split_at(texts.rfind("data: ").expect("two chunks"));
    let both = first.to_owned() + &last.replace("\"finish_reason\":null", "\"finish_reason\":\"stop\"");
    assert_eq!(stream(Api::Chat, Api::Messages, WANTED, &[both.as_bytes()]).expect("a stream"), expected);
}

#[test]
fn padding_says_nothing_wherever_it_stands() {
    let plain = chunks(&[r#"{"content":"a"}"#, r#"{"content":"b\"c"}"#, r#"{"content":"d"}"#], "\"stop\"");
    let expected = stream(Api::Chat, Api::Messages, WANTED, &[plain.as_bytes()]).expect("a stream");
    let count = std::cell::Cell::new(0);
    let pad = || {
        count.set(count.get() + 1);
        format!("\"obfuscation\":\"{}\"", "p\\\"".repeat(count.get()))
    };
    let behind: String =
        plain.split_inclusive("\n\n").map(|event| event.replace("}]}\n", &format!("}}],{}}}\n", pad()))).collect();
    let before: String =
        plain.split_inclusive("\n\n").map(|event| event.replace("{\"id\"", &format!("{{{},\"id\"", pad()))).collect();
    for padded in [behind, before] {
        assert_eq!(padded.matches("obfuscation").count(), 4);
        assert_eq!(stream(Api::Chat, Api::Messages, WANTED, &[padded.as_bytes()]).expect("a stream"), expected);
    }
}

#[test]
fn what_stands_behind_padding_is_read() {
    let texts = chunks(&[r#"{"content":"a"}"#, r#"{"content":"b"}"#, r#"{"content":"c"}"#], "\"stop\"");
    let padded = texts.replace("}]}\n", "}],\"obfuscation\":\"p\",\"usage\":null}\n");
    let counted = padded.replacen("\"usage\":null", "\"usage\":{\"prompt_tokens\":3}", 3).replacen(
        "{\"prompt_tokens\":3}",
        "null",
        2,
    );
    let said = stream(Api::Chat, Api::Messages, WANTED, &[counted.as_bytes()]).expect("a stream");
    assert!(said.contains("\"input_tokens\":3"), "{said}");
}

#[test]
fn half_a_character_passes_with_its_other_half() {
    let deltas = [r#"{"content":"a"}"#, r#"{"content":"\ud83d"}"#, r#"{"content":"\ude00"}"#];
    let said = stream(Api::Chat, Api::Messages, WANTED, &[chunks(&deltas, "\"stop\"").as_bytes()]).expect("a stream");
    assert!(said.contains(r#""text":"\ud83d""#) && said.contains(r#""text":"\ude00""#), "{said}");
}

#[test]
fn what_a_messages_stream_cannot_say_to_a_chat_caller_ends_it() {
    let stream_of = |event: &str| {
        let start = r#"{"type":"message_start","message":{"id":"m","model":"c","content":[]}}"#;
        let text = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
        [start, text, event].map(|event| format!("data: {event}\n\n")).concat()
    };
    for (event, why) in [
        (
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"server_tool_use"}}"#,
            "a block is not known",
        ),
        (
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"","citations":[{}]}}"#,
            "there are citations",
        ),
        (
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{}}}"#,
            "there are citations",
        ),
        (r#"{"type":"content_block_delta","index":0,"delta":{"type":"compaction_delta"}}"#, "a delta is not known"),
        (r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta"}}"#, "an event is malformed"),
        (r#"{"type":"content_block_delta","index":3,"delta":{"type":"text_delta","text":"a"}}"#, "blocks overlap"),
        (r#"{"type":"message_start","message":{"content":[]}}"#, "an event is malformed"),
        (r#"{"type":"message_delta","delta":{"stop_reason":"pause_turn"}}"#, "a turn was paused"),
        (r#"{"type":"message_delta","delta":{"stop_reason":"tomorrow"}}"#, "a stop reason is not known"),
        (r#"{"type":"tomorrow"}"#, "an event is not known"),
        ("[]", "an event is malformed"),
    ] {
        let said = stream(Api::Messages, Api::Chat, WANTED, &[stream_of(event).as_bytes()]);
        assert_eq!(said, Err(Untranslatable(why)), "{event}");
    }
}

#[test]
fn a_stream_that_was_cut_gets_no_end() {
    for (pair, from, to) in PAIRS {
        for name in goldens(pair, ".stream.in.txt") {
            let whole = golden(pair, &name);
            let events: Vec<&str> = whole.split_inclusive("\n\n").collect();
            let finish = |event: &&str| event.contains("\"stop_reason\":\"") || event.contains("\"finish_reason\":\"");
            let finish = events.iter().position(finish).unwrap_or(events.len() - 1);
            for end in 0..finish {
                let said = stream(to, from, WANTED, &[events[..end].concat().as_bytes()]).expect("a part");
                let ended = ["[DONE]", "message_stop", "response.completed"].iter().any(|end| said.contains(end));
                assert!(!ended, "{pair}/{name} at {end}: {said}");
            }
        }
    }
}

#[test]
fn a_last_event_of_an_answer_without_its_beginning_or_end_is_no_silent_end() {
    let event = |kind: &str, rest: &str| format!("event: {kind}\ndata: {{\"type\":\"{kind}\"{rest}}}\n\n");
    let start = event("message_start", ",\"message\":{\"content\":[]}");
    let text = event("content_block_start", ",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"a\"}");
    let stop = event("message_delta", ",\"delta\":{\"stop_reason\":\"end_turn\"}");
    let end = event("message_stop", "");
    let chunk = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";
    let done = "data: [DONE]\n\n";
    let whole = [&start[..], &text, &stop, &end].concat();
    assert!(stream(Api::Messages, Api::Chat, WANTED, &[whole.as_bytes()]).expect("whole").ends_with(done));
    for (from, to, events) in [
        (Api::Chat, Api::Messages, [chunk, done].concat()),
        (Api::Chat, Api::Messages, done.to_owned()),
        (Api::Messages, Api::Chat, [&start[..], &text, &end].concat()),
        (Api::Messages, Api::Chat, [&text[..], &stop, &end].concat()),
    ] {
        let said = stream(from, to, WANTED, &[events.as_bytes()]);
        assert!(said.is_err(), "{events}: {said:?}");
    }
}

/// The whole answer that a stream of `api` makes.
fn folded(api: Api, stream: &str) -> Bytes {
    let events = signet_openai::sse::events(&Bytes::copy_from_slice(stream.as_bytes())).collect::<Vec<_>>();
    match api {
        Api::Chat => {
            let mut fold = Accumulator::new(1);
            for data in &events {
                fold.push(data);
            }
            fold.finish().expect("a whole stream").to_json("id", WANTED.created)
        }
        Api::Responses => {
            let mut fold = ResponsesFold::new();
            for data in &events {
                fold.push(data);
            }
            fold.finish().expect("a whole stream").to_json("resp_id", WANTED.created)
        }
        Api::Completions => {
            let mut fold = CompletionsFold::new(1);
            for data in &events {
                fold.push(data);
            }
            fold.finish().expect("a whole stream").to_json("cmpl-id", WANTED.created)
        }
        _ => {
            let mut fold = MessageFold::new();
            for data in &events {
                fold.push(data);
            }
            fold.finish().expect("a whole stream").to_json("id")
        }
    }
}

#[test]
fn a_whole_answer_says_what_its_stream_would_have_said() {
    for (pair, from, to) in PAIRS {
        for name in goldens(pair, ".stream.in.txt").into_iter().filter(|name| !name.starts_with("failure")) {
            let upstream = golden(pair, &name);
            let streamed = stream(to, from, WANTED, &[upstream.as_bytes()]).expect("a stream");
            let whole = translate_whole(to, from, WANTED, &folded(to, &upstream)).expect("a whole answer");
            // The ids of a response's items are made of the provider's.
            let streamed = streamed.replace("chatcmpl-1", "id").replace("msg_1", "id");
            assert_eq!(whole, folded(from, &streamed), "{pair}/{name}");
        }
    }
}

#[test]
fn what_is_no_answer_is_not_translated() {
    for (from, to, body) in [
        (Api::Chat, Api::Messages, "no"),
        (Api::Chat, Api::Messages, "{}"),
        (Api::Chat, Api::Messages, r#"{"choices":[{"message":{"content":"a"},"finish_reason":null}]}"#),
        (Api::Messages, Api::Chat, r#"{"content":[],"stop_reason":null}"#),
        (Api::Messages, Api::Chat, r#"{"type":"error","error":{}}"#),
        (Api::Chat, Api::Embeddings, "{}"),
    ] {
        assert!(translate_whole(from, to, WANTED, &Bytes::copy_from_slice(body.as_bytes())).is_err(), "{body}");
    }
}

#[test]
fn errors_keep_their_message_and_get_the_callers_shape() {
    let openai =
        |kind: &str, code: Value| json!({"error": {"message": "Why", "type": kind, "param": null, "code": code}});
    let anthropic = |kind: &str| json!({"type": "error", "error": {"type": kind, "message": "Why"}});
    for (status, kind, expected, body) in [
        (400, "invalid_request_error", 400, openai("invalid_request_error", Value::Null)),
        (401, "authentication_error", 401, openai("invalid_request_error", json!("invalid_api_key"))),
        (403, "permission_error", 403, openai("invalid_request_error", json!("insufficient_permissions"))),
        (404, "not_found_error", 404, openai("invalid_request_error", json!("model_not_found"))),
        (413, "request_too_large", 413, openai("invalid_request_error", json!("request_too_large"))),
        (429, "rate_limit_error", 429, openai("rate_limit_error", json!("rate_limit_exceeded"))),
        (504, "timeout_error", 504, openai("server_error", json!("timeout"))),
        (529, "overloaded_error", 503, openai("server_error", json!("server_overloaded"))),
        (500, "api_error", 500, openai("server_error", Value::Null)),
        (429, "an_error_of_tomorrow", 429, openai("rate_limit_error", json!("rate_limit_exceeded"))),
    ] {
        let (said, text) = translate_error(Api::Messages, Api::Chat, status, anthropic(kind).to_string().as_bytes());
        assert_eq!((said, serde_json::from_slice::<Value>(&text).expect("JSON")), (expected, body), "{kind}");
    }
    for (status, kind, code, expected) in [
        (400, "invalid_request_error", Value::Null, "invalid_request_error"),
        (401, "invalid_request_error", json!("invalid_api_key"), "authentication_error"),
        (404, "invalid_request_error", json!("model_not_found"), "not_found_error"),
        (429, "insufficient_quota", json!("insufficient_quota"), "rate_limit_error"),
        (429, "requests", json!("rate_limit_exceeded"), "rate_limit_error"),
        (503, "server_error", Value::Null, "overloaded_error"),
        (500, "server_error", Value::Null, "api_error"),
    ] {
        let (said, text) = translate_error(Api::Chat, Api::Messages, status, openai(kind, code).to_string().as_bytes());
        let text: Value = serde_json::from_slice(&text).expect("JSON");
        assert_eq!((said, text), (status, anthropic(expected)), "{kind}");
    }
    let (_, text) = translate_error(Api::Chat, Api::Messages, 502, b"<html>");
    assert!(String::from_utf8_lossy(&text).contains("The provider answered with status 502."));
    let same = translate_error(Api::Chat, Api::Responses, 529, b"<html>");
    assert_eq!(same, (529, Bytes::from_static(b"<html>")), "one vendor's errors are the same in its APIs");
}

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/dialects.md");

#[test]
fn the_documents_tables_are_the_codes_own_list() {
    let document = std::fs::read_to_string(DOCUMENT).expect("docs/dialects.md");
    for (from, to) in ruled() {
        let mut table = "| Field | What becomes of it |\n|---|---|\n".to_owned();
        for rule in RULES.iter().filter(|rule| (rule.from, rule.to) == (from, to)) {
            let fate = match rule.fate {
                Fate::Mapped(to) => to.to_owned(),
                Fate::Hint(values) => format!("hint, left out: {values}"),
                Fate::Refused(why) => format!("**400**: {why}"),
            };
            let _ = writeln!(table, "| `{}` | {fate} |", rule.field);
        }
        assert!(document.contains(&table), "docs/dialects.md lacks the table of {}:\n{table}", pair_of(from, to));
    }
}

/// The rows of the document's table with this heading.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let document = std::fs::read_to_string(DOCUMENT).expect("docs/dialects.md");
    let table = document.split_once(heading).unwrap_or_else(|| panic!("{heading}")).1;
    let lines =
        table.lines().skip(1).skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect();
    let rows: Vec<Vec<String>> = lines.skip(2).map(cells).collect();
    assert!(!rows.is_empty(), "{heading} has rows");
    rows
}

#[test]
fn the_documents_stop_reasons_are_what_is_said() {
    let answer = |pair: &str, name: &str| value(&golden(pair, name));
    for row in rows("| From messages | To chat |") {
        let mut message = answer("chat-to-messages", "text.answer.in.json");
        message["stop_reason"] = json!(row[0]);
        match translate_whole(Api::Messages, Api::Chat, WANTED, &message.to_string().into()) {
            Ok(said) => {
                let said: Value = serde_json::from_slice(&said).expect("JSON");
                assert_eq!(said["choices"][0]["finish_reason"], json!(row[1]), "{row:?}");
            }
            Err(_) => assert!(row[1].starts_with("502"), "{row:?}"),
        }
    }
    for row in rows("| From chat | To messages |") {
        let mut completion = answer("messages-to-chat", "text.answer.in.json");
        completion["choices"][0]["finish_reason"] = json!(row[0]);
        match translate_whole(Api::Chat, Api::Messages, WANTED, &completion.to_string().into()) {
            Ok(said) => {
                let said: Value = serde_json::from_slice(&said).expect("JSON");
                assert_eq!(said["stop_reason"], json!(row[1].split(',').next()), "{row:?}");
            }
            Err(_) => assert!(row[1].starts_with("502"), "{row:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_translated_stream_does_not_depend_on_where_the_bytes_were_cut(cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..9)) {
        for (pair, from, to) in PAIRS {
            for name in goldens(pair, ".stream.in.txt") {
                let whole = golden(pair, &name);
                let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(whole.len())).chain([0, whole.len()]).collect();
                at.sort_unstable();
                let pieces: Vec<&[u8]> = at.windows(2).map(|cut| &whole.as_bytes()[cut[0]..cut[1]]).collect();
                let said = stream(to, from, WANTED, &pieces).expect("a stream");
                prop_assert_eq!(said, golden(pair, &name.replace(".in.", ".out.")));
            }
        }
    }

    #[test]
    fn nothing_that_comes_in_panics(noise in ".{0,80}", at in any::<prop::sample::Index>(), len in 0usize..9) {
        for (pair, from, to) in PAIRS {
            for name in goldens(pair, ".in.json").into_iter().chain(goldens(pair, ".in.txt")) {
                let mut text = golden(pair, &name);
                let mut start = at.index(text.len());
                while !text.is_char_boundary(start) {
                    start -= 1;
                }
                let end = text.ceil_char_boundary((start + len).min(text.len()));
                text.replace_range(start..end, &noise);
                let body = Bytes::from(text);
                let _ = translate_request(from, to, &body, &DEFAULTS);
                let _ = translate_whole(to, from, WANTED, &body);
                let _ = stream(to, from, WANTED, &[&body]);
                let _ = translate_error(to, from, 500, &body);
            }
        }
    }
}
