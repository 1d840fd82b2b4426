//! Streams that cannot be said in the other API, or only in part.

use super::{PAIRS, WANTED, golden, goldens, stream};
use signet_dialect::{Api, Untranslatable, Wanted};

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
