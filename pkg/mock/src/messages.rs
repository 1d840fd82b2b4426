//! Anthropic's `POST /v1/messages`: content blocks, and the events in which they come.

use bytes::Bytes;

use crate::answer::{Said, tokens};
use crate::pen::{Pen, StreamForm};
use crate::template::{fixture, json_string};

fixture!(JSON, Template, "message.json");
fixture!(TEXT, Template, "message_text.json");
fixture!(THINKING, Template, "message_thinking.json");
fixture!(TOOL, Template, "message_tool.json");
fixture!(EVENTS, Events, "message.sse");
fixture!(COUNT, Template, "count_tokens.json");

const STOPS: [&str; 3] = ["end_turn", "max_tokens", "tool_use"];
/// What a `stop_sequence` answer says it stopped at.
const STOP_SEQUENCE: &str = "\"END\"";

pub(crate) fn json(said: &Said<'_>) -> Vec<u8> {
    let fixed = values(said);
    let thinking = said.thinking.as_deref().map(|text| THINKING.filled(&[("text", &json_string(text))], &fixed));
    let last = match said.tool {
        Some(_) => TOOL.filled(&[], &fixed),
        None => TEXT.filled(&[("text", &json_string(&said.text))], &fixed),
    };
    let content: Vec<String> = thinking.into_iter().chain([last]).collect();
    JSON.filled(&[("content", &content.join(","))], &fixed).into_bytes()
}

pub(crate) fn events(said: &Said<'_>, form: &StreamForm) -> Vec<Bytes> {
    let mut pen = Pen::new(&EVENTS, values(said), form);
    pen.event("message_start", &[]);
    let mut index = "0";
    if let Some(text) = &said.thinking {
        pen.event("start_thinking", &[("index", index)]);
        pen.event("ping", &[]);
        for piece in form.pieces(text) {
            pen.event("thinking", &[("index", index), ("text", &json_string(piece))]);
        }
        pen.event("signature", &[("index", index)]);
        pen.event("stop", &[("index", index)]);
        index = "1";
    }
    let arguments = said.arguments();
    let (start, delta, text) = match said.tool {
        Some(_) => ("start_tool", "input", arguments.as_str()),
        None => ("start_text", "text", said.text.as_str()),
    };
    pen.event(start, &[("index", index)]);
    if said.thinking.is_none() {
        pen.event("ping", &[]);
    }
    for piece in form.pieces(text) {
        pen.event(delta, &[("index", index), ("text", &json_string(piece))]);
    }
    pen.event("stop", &[("index", index)]);
    pen.event("message_delta", &[]);
    if form.done {
        pen.event("message_stop", &[]);
    }
    pen.finish()
}

pub(crate) fn failure(form: &StreamForm) -> Vec<Bytes> {
    let mut pen = Pen::new(&EVENTS, Vec::new(), form);
    pen.event("error", &[]);
    pen.finish()
}

pub(crate) fn count(prompt: &str) -> Vec<u8> {
    COUNT.filled(&[("input", &tokens(prompt).to_string())], &[]).into_bytes()
}

fn values(said: &Said<'_>) -> Vec<(&'static str, String)> {
    let stop = said.stop(STOPS);
    let sequence = if stop == "stop_sequence" { STOP_SEQUENCE } else { "null" };
    let mut values = said.values();
    values.extend([("stop", stop.to_owned()), ("stop_sequence", sequence.to_owned())]);
    values
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::answer::tests::{data, form, name, said};
    use crate::marker;

    fn names(events: &[Bytes]) -> Vec<String> {
        events.iter().map(name).collect()
    }

    #[test]
    fn the_body_is_the_vendors_to_the_byte() {
        let said = Said { text: "ab".into(), cached: 5, written: 2, ..Said::nothing("claude", "p") };
        let id = marker("p");
        let expected = format!(
            r#"{{"model":"claude","id":"msg_{id}","type":"message","role":"assistant","content":[{{"type":"text","text":"ab"}}],"stop_reason":"end_turn","stop_sequence":null,"usage":{{"input_tokens":1,"cache_creation_input_tokens":2,"cache_read_input_tokens":5,"cache_creation":{{"ephemeral_5m_input_tokens":2,"ephemeral_1h_input_tokens":0}},"output_tokens":1,"service_tier":"standard"}}}}"#
        );
        assert_eq!(String::from_utf8(json(&said)).expect("UTF-8"), expected);
        assert_eq!(count("eight by"), b"{\"input_tokens\":3}");
    }

    #[test]
    fn a_text_stream_is_the_vendors_to_the_byte() {
        let said = Said { text: "ab".into(), ..Said::nothing("claude", "p") };
        let all = String::from_utf8(events(&said, &form(4)).concat()).expect("UTF-8");
        let (start, rest) = all.split_once("\n\n").expect("a first event");
        assert!(start.starts_with("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{"));
        let expected = "event: content_block_start\n\
            data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}           }\n\n\
            event: ping\ndata: {\"type\": \"ping\"}\n\n\
            event: content_block_delta\n\
            data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n\
            event: content_block_delta\n\
            data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"b\"}}\n\n\
            event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0         }\n\n\
            event: message_delta\n\
            data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":{\"input_tokens\":1,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0,\"output_tokens\":1}    }\n\n\
            event: message_stop\ndata: {\"type\":\"message_stop\"           }\n\n";
        assert_eq!(rest, expected);
    }

    #[test]
    fn thinking_is_signed_and_closed_before_the_tool_is_called() {
        let said = Said { thinking: Some("hm".into()), ..said("q", Some("look_up")) };
        let events = events(&said, &form(3));
        let delta = "content_block_delta";
        assert_eq!(
            names(&events),
            [
                "message_start",
                "content_block_start",
                "ping",
                delta,
                delta,
                "content_block_stop",
                "content_block_start",
                delta,
                "content_block_stop",
                "message_delta",
                "message_stop"
            ]
        );
        let seen = [3, 4, 7].map(|at: usize| data(&events[at])["delta"]["type"].clone());
        assert_eq!(seen, ["thinking_delta", "signature_delta", "input_json_delta"]);
        assert_eq!(data(&events[6])["content_block"]["name"], "look_up");
        assert_eq!(
            (&data(&events[7])["index"], &data(&events[9])["delta"]["stop_reason"]),
            (&1.into(), &"tool_use".into())
        );
        let body: Value = serde_json::from_slice(&json(&said)).expect("JSON");
        assert_eq!(
            (&body["content"][0]["thinking"], &body["content"][1]["input"]["marker"]),
            (&"hm".into(), &marker("q").into())
        );
        assert_eq!(body["content"][0]["signature"], data(&events[4])["delta"]["signature"]);
    }

    #[test]
    fn stop_reasons_and_the_in_band_error_are_the_vendors_words() {
        let stopped = |said: Said<'_>| serde_json::from_slice::<Value>(&json(&said)).expect("JSON");
        assert_eq!(stopped(Said { length: true, ..said("q", None) })["stop_reason"], "max_tokens");
        assert_eq!(stopped(Said { stop: Some("stop_sequence"), ..said("q", None) })["stop_sequence"], "END");
        assert_eq!(stopped(Said { stop: Some("refusal"), ..said("q", None) })["stop_reason"], "refusal");
        assert_eq!(data(&failure(&form(3))[0])["error"]["type"], "overloaded_error");
    }
}
