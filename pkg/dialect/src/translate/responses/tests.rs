//! What the readers of requests and the writers of events of responses and completions do on their own.

use super::{Writer as ResponsesWriter, read};
use crate::completions::CompletionsFold;
use crate::pivot::{Content, Delta, Opening, RawStr, Role, Stop, ThinkingMode, Tokens, Trouble};
use crate::responses::{Response, ResponsesFold};
use crate::translate::completions::{self, Writer as CompletionsWriter};
use crate::translate::{Untranslatable, Wanted, WriteEvents};
use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use serde_json::{Value, json};
use signet_openai::sse::events;
use signet_openai::{Incomplete, Layer};

fn raw(text: &str) -> RawStr<'_> {
    RawStr::between_quotes(text.as_bytes()).expect("escaped")
}

fn start() -> Delta<'static> {
    Delta::Start { id: raw("up-1"), model: raw("m-2026") }
}

fn stop(why: Stop) -> Delta<'static> {
    Delta::Stop { choice: 0, why }
}

fn open(at: u32, what: Opening<'_>) -> Delta<'_> {
    Delta::Open { at, choice: 0, what }
}

fn text(at: u32, text: &str) -> Delta<'_> {
    Delta::Text { at, text: raw(text) }
}

fn written(writer: &mut dyn WriteEvents, deltas: &[Delta<'_>]) -> Result<Bytes, Untranslatable> {
    let mut out = BytesMut::new();
    deltas.iter().try_for_each(|delta| writer.write(*delta, &mut out)).map(|()| out.freeze())
}

fn responses(deltas: &[Delta<'_>]) -> Bytes {
    written(&mut ResponsesWriter::new(Wanted { created: 7, ..Wanted::default() }), deltas).expect("written")
}

fn written_completions(usage: bool, deltas: &[Delta<'_>]) -> Result<Bytes, Untranslatable> {
    written(&mut CompletionsWriter::new(Wanted { usage, created: 7, asked: None }), deltas)
}

fn folded(stream: &Bytes) -> Result<Response, Incomplete> {
    let mut fold = ResponsesFold::new();
    events(stream).for_each(|data| fold.push(&data));
    fold.finish()
}

/// The names of the events, taken from the lines of their own: a text cut within a character is not JSON to every reader.
fn names(stream: &Bytes) -> Vec<String> {
    let text = std::str::from_utf8(stream).expect("text");
    text.lines().filter_map(|line| line.strip_prefix("event: ")).map(|name| name.replace("response.", "")).collect()
}

fn output(stream: &Bytes) -> Value {
    serde_json::from_slice::<Value>(&folded(stream).expect("whole").to_json("id", 1)).expect("JSON")["output"].clone()
}

fn body(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}

#[test]
fn a_text_is_a_message_whose_events_are_in_the_vendors_order() {
    let tokens = Tokens { input: 5, output: 3, cache_read: 1, thinking: Some(2), ..Tokens::default() };
    let deltas = [start(), open(0, Opening::Text), text(0, r"Hi \ud83d"), text(0, r"\ude00"), Delta::Close { at: 0 }];
    let stream = responses(&[&deltas[..], &[stop(Stop::End), Delta::Usage(tokens), Delta::End]].concat());
    assert_eq!(
        names(&stream).join(" "),
        "created in_progress output_item.added content_part.added output_text.delta output_text.delta output_text.done \
         content_part.done output_item.done completed"
    );
    let answer = folded(&stream).expect("whole");
    assert_eq!((answer.content().as_deref(), answer.model()), (Some("Hi \u{1f600}"), "m-2026"));
    assert_eq!(answer.usage().map(|u| (u.input, u.output, u.cached_input, u.reasoning)), Some((5, 3, 1, 2)));
    assert_eq!((answer.storable(Layer::Exact), answer.is_handle()), (Ok(()), false));
}

#[test]
fn calls_and_thoughts_are_items_of_their_own_and_silence_is_none() {
    let call = |id: &'static str| Opening::Call { id: raw(id), name: raw("look") };
    let stream = responses(&[
        start(),
        open(0, Opening::Thinking),
        Delta::Thinking { at: 0, text: raw("So.") },
        Delta::Seal { at: 0, seal: raw("c2Vh") },
        Delta::Seal { at: 0, seal: raw("bA==") },
        Delta::Close { at: 0 },
        open(1, Opening::Sealed(raw("b3BhcXVl"))),
        Delta::Close { at: 1 },
        open(2, Opening::Text),
        text(2, ""),
        Delta::Close { at: 2 },
        open(3, call("call_a")),
        Delta::Arguments { at: 3, json: raw(r#"{\"x\":"#) },
        Delta::Arguments { at: 3, json: raw("1}") },
        Delta::Close { at: 3 },
        open(4, call("call_b")),
        Delta::Close { at: 4 },
        stop(Stop::Calls),
        Delta::End,
    ]);
    assert_eq!(
        output(&stream),
        json!([
            {"id": "rs_up-1_0", "type": "reasoning", "summary": [{"type": "summary_text", "text": "So."}],
                "encrypted_content": "c2VhbA=="},
            {"id": "rs_up-1_1", "type": "reasoning", "summary": [], "encrypted_content": "b3BhcXVl"},
            {"id": "fc_up-1_2", "type": "function_call", "status": "completed", "call_id": "call_a", "name": "look",
                "arguments": "{\"x\":1}"},
            {"id": "fc_up-1_3", "type": "function_call", "status": "completed", "call_id": "call_b", "name": "look",
                "arguments": "{}"},
        ])
    );
    assert_eq!(folded(&stream).expect("whole").storable(Layer::Exact), Ok(()));
}

#[test]
fn a_limit_and_a_filter_make_it_incomplete_and_a_failure_is_told_twice() {
    let said = [start(), open(0, Opening::Text), text(0, "Hi"), Delta::Close { at: 0 }];
    for (why, reason) in [(Stop::Length, "max_output_tokens"), (Stop::Refusal, "content_filter")] {
        let stream = responses(&[&said[..], &[stop(why), Delta::End]].concat());
        assert_eq!(folded(&stream).expect("whole").finish(), Some(reason));
    }
    let failed = Delta::Failed { kind: Trouble::Overloaded, message: raw(r#"too \"busy\""#) };
    let stream = responses(&[&said[..], &[failed]].concat());
    assert_eq!(names(&stream)[8..], ["error", "failed"]);
    assert_eq!(folded(&stream), Err(Incomplete::Failure));
}

#[test]
fn a_second_choice_cannot_be_said_in_a_response() {
    let mut writer = ResponsesWriter::new(Wanted::default());
    let second = Delta::Open { at: 1, choice: 1, what: Opening::Text };
    assert!(written(&mut writer, &[start(), second]).is_err());
}

#[test]
fn what_the_caller_said_is_repeated_on_one_line() {
    let asked = "{\"model\":\"m\",\"input\":\"x\",\"temperature\":0.50,\n\"tools\":[\n{\"type\":\"function\",\"name\":\"f\"}],\
                 \"metadata\":{\"a\":\"b\"},\"user\":\"u\",\"store\":null}";
    let asked = Bytes::copy_from_slice(asked.as_bytes());
    let wanted = Wanted { asked: Some(&asked), ..Wanted::default() };
    let stream = written(&mut ResponsesWriter::new(wanted), &[start(), stop(Stop::End), Delta::End]);
    let last = events(&stream.expect("written")).last().expect("an end");
    let response = serde_json::from_slice::<Value>(&last).expect("JSON")["response"].clone();
    assert_eq!(response["tools"], json!([{"type": "function", "name": "f"}]));
    assert_eq!((&response["metadata"], &response["user"]), (&json!({"a": "b"}), &json!("u")));
    assert_eq!((&response["temperature"], &response["store"]), (&json!(0.5), &json!(false)));
    assert_eq!((&response["top_p"], &response["tool_choice"]), (&json!(null), &json!("auto")));
}

#[test]
fn a_completion_is_the_text_of_each_choice() {
    let second = Delta::Open { at: 2, choice: 1, what: Opening::Text };
    let deltas = [
        start(),
        open(0, Opening::Thinking),
        Delta::Thinking { at: 0, text: raw("hm") },
        Delta::Close { at: 0 },
        open(1, Opening::Text),
        text(1, "on"),
        second,
        text(2, r"\n"),
        text(1, "ce"),
        Delta::Close { at: 1 },
        stop(Stop::End),
        Delta::Close { at: 2 },
        Delta::Stop { choice: 1, why: Stop::Length },
        Delta::Usage(Tokens { input: 4, output: 2, ..Tokens::default() }),
        Delta::End,
    ];
    for usage in [true, false] {
        let stream = written_completions(usage, &deltas).expect("written");
        let mut fold = CompletionsFold::new(2);
        events(&stream).for_each(|data| fold.push(&data));
        assert_eq!(fold.usage().map(|u| (u.input, u.output)), usage.then_some((4, 2)));
        let answer = fold.finish().expect("whole");
        assert_eq!((answer.content().as_deref(), answer.model()), (Some("once"), "m-2026"));
        let said: Value = serde_json::from_slice(&answer.to_json("c", 0)).expect("JSON");
        let reasons = said["choices"].as_array().expect("choices").iter().map(|choice| &choice["finish_reason"]);
        assert!(reasons.eq([&json!("stop"), &json!("length")]));
        assert!(stream.ends_with(b"data: [DONE]\n\n"));
    }
}

#[test]
fn a_completion_that_calls_tools_cannot_be_said_and_a_failure_ends_it() {
    let call = Opening::Call { id: raw("c"), name: raw("look") };
    assert!(written_completions(false, &[start(), open(0, call)]).is_err());
    assert!(written_completions(false, &[start(), stop(Stop::Calls)]).is_err());
    let failed = Delta::Failed { kind: Trouble::RateLimit, message: raw("slow down") };
    let stream = written_completions(false, &[start(), failed]).expect("written");
    let event: Value = serde_json::from_slice(&events(&stream).next().expect("an event")).expect("JSON");
    assert_eq!(event["error"]["type"], json!("rate_limit_error"));
}

#[test]
fn items_of_one_speaker_are_one_turn() {
    let item = |kind: &str, more: &Value| {
        let mut item = more.clone();
        item["type"] = json!(kind);
        item
    };
    let (call, result) =
        (json!({"call_id": "c", "name": "f", "arguments": "{}"}), json!({"call_id": "c", "output": "1"}));
    let asked = body(&json!({"model": "m", "input": [
        {"role": "developer", "content": "Be short."},
        {"role": "user", "content": [{"type": "input_text", "text": "Hi"}, {"type": "input_image", "image_url": "u"}]},
        {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "So."}], "encrypted_content": "s"},
        {"type": "message", "id": "msg", "status": "completed", "role": "assistant",
            "content": [{"type": "output_text", "text": "Wait.", "annotations": []}]},
        item("function_call", &call), item("function_call", &call),
        item("function_call_output", &result), item("function_call_output", &result),
        {"role": "user", "content": "Well?"},
    ]}));
    let ask = read(&asked).expect("a request");
    let turns: Vec<(Role, usize)> = ask.turns.iter().map(|turn| (turn.role, turn.parts.len())).collect();
    assert_eq!(turns, [(Role::User, 2), (Role::Assistant, 4), (Role::User, 2), (Role::User, 1)]);
    assert_eq!((ask.system.len(), &ask.rest), (1, &Vec::<String>::new()));
    let thoughts = &ask.turns[1].parts[0].what;
    assert!(matches!(thoughts, Content::Thinking { text, seal: Some(seal) } if text == "So." && seal == "s"));
}

#[test]
fn what_has_no_counterpart_is_named_by_its_place() {
    for (field, value, path) in [
        ("previous_response_id", json!("resp_0"), "previous_response_id"),
        ("conversation", json!({"id": "c"}), "conversation"),
        ("background", json!(true), "background"),
        ("store", json!(true), "store"),
        ("prompt", json!({"id": "p"}), "prompt"),
        ("truncation", json!("auto"), "truncation"),
        ("top_logprobs", json!(2), "top_logprobs"),
        ("include", json!(["message.output_text.logprobs"]), "include"),
        ("service_tier", json!("flex"), "service_tier"),
        ("something_new", json!(1), "something_new"),
        ("tools", json!([{"type": "web_search"}]), "tools[0].type"),
        ("tools", json!([{"type": "function", "name": "f", "defer_loading": true}]), "tools[0].defer_loading"),
        ("tool_choice", json!({"type": "allowed_tools"}), "tool_choice.type"),
        ("text", json!({"verbosity": "low"}), "text.verbosity"),
        ("text", json!({"format": {"type": "grammar"}}), "text.format.type"),
        ("reasoning", json!({"something": 1}), "reasoning.something"),
        ("input", json!([{"type": "item_reference", "id": "x"}]), "input[0].type"),
        ("input", json!([{"type": "web_search_call", "id": "x"}]), "input[0].type"),
        ("input", json!([{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]), "input[1].role"),
        ("input", json!([{"role": "user", "content": [{"type": "input_audio"}]}]), "input[0].content[0].type"),
        (
            "input",
            json!([{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]),
            "input[0].content[0].file_id",
        ),
        (
            "input",
            json!([{"role": "user", "content": [{"type": "input_image", "image_url": "u", "detail": "low"}]}]),
            "input[0].content[0].detail",
        ),
    ] {
        let mut asked = json!({"model": "m", "input": "Hi"});
        asked[field] = value;
        let asked = body(&asked);
        assert_eq!(read(&asked).expect("a request").rest, [path], "{field}");
    }
    for (field, value) in [
        ("prompt", json!(["a", "b"])),
        ("prompt", json!([1, 2])),
        ("suffix", json!("end")),
        ("best_of", json!(2)),
        ("logprobs", json!(1)),
        ("echo", json!(true)),
        ("something_new", json!(1)),
    ] {
        let mut asked = json!({"model": "m", "prompt": "Hi"});
        asked[field] = value;
        let asked = body(&asked);
        assert_eq!(completions::read(&asked).expect("a request").rest, [field]);
    }
}

#[test]
fn what_changes_no_answer_is_left_out() {
    let asked = body(
        &json!({"model": "m", "input": "Hi", "store": false, "background": false, "truncation": "disabled",
        "previous_response_id": null, "conversation": null, "metadata": {"a": "b"}, "prompt_cache_key": "k",
        "prompt_cache_retention": "24h", "stream_options": {"include_obfuscation": false}, "service_tier": "auto",
        "include": ["reasoning.encrypted_content"], "max_tool_calls": 3, "top_logprobs": 0, "user": "u",
        "text": {"format": {"type": "text"}, "verbosity": "medium"}, "reasoning": {"effort": "none", "summary": "auto"}}),
    );
    let ask = read(&asked).expect("a request");
    assert_eq!(ask.rest, Vec::<String>::new());
    assert_eq!((ask.end_user.as_deref(), ask.thinking.mode), (Some("u"), Some(ThinkingMode::Off)));
    let asked =
        body(&json!({"model": "m", "prompt": ["Hi"], "echo": false, "best_of": 1, "suffix": null, "logprobs": null,
        "stream": true, "stream_options": {"include_usage": true, "include_obfuscation": false}}));
    let ask = completions::read(&asked).expect("a request");
    assert_eq!((ask.rest.len(), ask.usage, ask.sampling.max_tokens.as_deref()), (0, true, Some("16")));
}

/// Blocks as a provider may tell them: what they are and their pieces.
fn blocks() -> impl Strategy<Value = Vec<(u8, Vec<String>)>> {
    prop::collection::vec((0_u8..4, prop::collection::vec(".{0,40}", 0..5)), 0..6)
}

proptest! {
    #[test]
    fn the_last_event_has_what_the_events_before_it_told(blocks in blocks()) {
        let escape = |text: &String| {
            let mut out = Vec::new();
            RawStr::escape(text, &mut out);
            String::from_utf8(out).expect("text")
        };
        let blocks: Vec<(u8, Vec<String>)> =
            blocks.iter().map(|(kind, pieces)| (*kind, pieces.iter().map(escape).collect())).collect();
        let mut deltas = vec![start()];
        for (at, (kind, pieces)) in (0..).zip(&blocks) {
            let call = Opening::Call { id: raw("c"), name: raw("f") };
            deltas.push(open(at, [Opening::Text, Opening::Refusal, Opening::Thinking, call][usize::from(*kind)]));
            deltas.extend(pieces.iter().map(|piece| match kind {
                2 => Delta::Thinking { at, text: raw(piece) },
                3 => Delta::Arguments { at, json: raw(piece) },
                _ => text(at, piece),
            }));
            deltas.push(Delta::Close { at });
        }
        deltas.extend([stop(Stop::End), Delta::End]);
        let stream = responses(&deltas);
        let told: String = events(&stream)
            .filter_map(|data| {
                let event: Value = serde_json::from_slice(&data).expect("JSON");
                event["delta"].as_str().map(str::to_owned)
            })
            .collect();
        let said: String = output(&stream).as_array().expect("items").iter().map(|item| {
            let part = if item["content"].is_null() { &item["summary"][0] } else { &item["content"][0] };
            let texts = [&part["text"], &part["refusal"], &item["arguments"]];
            texts.iter().filter_map(|text| text.as_str()).collect::<String>()
        }).collect();
        prop_assert_eq!(told, said);
        let answer = folded(&stream).expect("whole");
        prop_assert_ne!(answer.storable(Layer::Exact), Err("other items than told"));
        let numbers: Vec<u64> = events(&stream).map(|data| {
            serde_json::from_slice::<Value>(&data).expect("JSON")["sequence_number"].as_u64().expect("a number")
        }).collect();
        prop_assert!(numbers.iter().copied().eq(0..numbers.len() as u64));
    }
}
