//! `POST /v1/responses`: output items, and the numbered events in which they come.

use bytes::Bytes;

use crate::answer::Said;
use crate::pen::{Pen, StreamForm};
use crate::template::{fixture, json_string};

fixture!(JSON, Template, "response.json");
fixture!(USAGE, Template, "response_usage.json");
fixture!(MESSAGE, Template, "response_message.json");
fixture!(CALL, Template, "response_call.json");
fixture!(REASONING, Template, "response_reasoning.json");
fixture!(EVENTS, Events, "response.sse");

const STOPS: [&str; 3] = ["completed", "incomplete", "completed"];
const CUT: &str = r#"{"reason":"max_output_tokens"}"#;
const FAILED: &str = r#"{"code":"server_error","message":"The server had an error while processing your request."}"#;

pub(crate) fn json(said: &Said<'_>) -> Vec<u8> {
    response(said, said.stop(STOPS)).into_bytes()
}

pub(crate) fn events(said: &Said<'_>, form: &StreamForm) -> Vec<Bytes> {
    let mut writer = Writer::new(said, form);
    let begun = response(said, "in_progress");
    writer.event("created", &[("response", &begun)]);
    writer.event("in_progress", &[("response", &begun)]);
    if let Some(text) = &said.thinking {
        writer.reasoning(text);
    }
    if said.tool.is_some() {
        writer.call();
    } else {
        writer.message();
    }
    if form.done {
        let status = said.stop(STOPS);
        writer.event(status, &[("response", &response(said, status))]);
    }
    writer.pen.finish()
}

/// Two events: the error, and the response that failed by it.
pub(crate) fn failure(said: &Said<'_>, sent: usize, form: &StreamForm) -> Vec<Bytes> {
    let mut pen = Pen::new(&EVENTS, Vec::new(), form);
    pen.event("error", &[("seq", &sent.to_string())]);
    pen.event("failed", &[("seq", &(sent + 1).to_string()), ("response", &response(said, "failed"))]);
    pen.finish()
}

/// The whole object; before its end it has no output and no usage.
fn response(said: &Said<'_>, status: &str) -> String {
    let ended = matches!(status, "completed" | "incomplete");
    let fixed = fixed(said);
    let (output, usage) = if ended {
        let reasoning = said.thinking.as_deref().map(|text| reasoning(text, &fixed));
        let items: Vec<String> = reasoning.into_iter().chain([last_item(said, &fixed)]).collect();
        (items.join(","), USAGE.filled(&[], &fixed))
    } else {
        (String::new(), "null".to_owned())
    };
    let more = [
        ("status", status),
        ("error", if status == "failed" { FAILED } else { "null" }),
        ("incomplete", if status == "incomplete" { CUT } else { "null" }),
        ("output", &output),
        ("usage", &usage),
        ("previous", &said.previous.map_or_else(|| "null".to_owned(), json_string)),
        ("store", if said.store { "true" } else { "false" }),
    ];
    JSON.filled(&more, &fixed)
}

fn fixed(said: &Said<'_>) -> Vec<(&'static str, String)> {
    let mut fixed = said.values();
    fixed.push(("sealed", if said.sealed { ",\"encrypted_content\":\"gAAAAABmock\"" } else { "" }.to_owned()));
    fixed
}

fn reasoning(text: &str, fixed: &[(&str, String)]) -> String {
    REASONING.filled(&[("text", &json_string(text))], fixed)
}

fn last_item(said: &Said<'_>, fixed: &[(&str, String)]) -> String {
    if said.tool.is_some() {
        return CALL.filled(&[("text", &json_string(&said.arguments()))], fixed);
    }
    MESSAGE.filled(&[("text", &json_string(&said.text)), ("status", said.stop(STOPS))], fixed)
}

/// Numbers the events and the items.
struct Writer<'a> {
    said: &'a Said<'a>,
    form: &'a StreamForm,
    pen: Pen<'a>,
    index: &'static str,
}

impl<'a> Writer<'a> {
    fn new(said: &'a Said<'a>, form: &'a StreamForm) -> Self {
        Self { said, form, pen: Pen::new(&EVENTS, fixed(said), form), index: "0" }
    }

    fn event(&mut self, name: &str, more: &[(&str, &str)]) {
        let seq = self.pen.count().to_string();
        let mut all = vec![("seq", seq.as_str()), ("index", self.index)];
        all.extend_from_slice(more);
        self.pen.event(name, &all);
    }

    fn deltas(&mut self, name: &str, text: &str) {
        for piece in self.form.pieces(text) {
            self.event(name, &[("text", &json_string(piece))]);
        }
    }

    fn reasoning(&mut self, text: &str) {
        self.event("reasoning_added", &[]);
        self.event("summary_added", &[]);
        self.deltas("summary", text);
        let whole = json_string(text);
        self.event("summary_text_done", &[("text", &whole)]);
        self.event("summary_done", &[("text", &whole)]);
        self.event("item_done", &[("item", &reasoning(text, &fixed(self.said)))]);
        self.index = "1";
    }

    fn message(&mut self) {
        let said = self.said;
        self.event("message_added", &[]);
        self.event("part_added", &[]);
        self.deltas("text", &said.text);
        let whole = json_string(&said.text);
        self.event("text_done", &[("text", &whole)]);
        self.event("part_done", &[("text", &whole)]);
        self.event("item_done", &[("item", &last_item(said, &fixed(said)))]);
    }

    fn call(&mut self) {
        let arguments = self.said.arguments();
        self.event("call_added", &[]);
        self.deltas("arguments", &arguments);
        self.event("arguments_done", &[("text", &json_string(&arguments))]);
        self.event("item_done", &[("item", &last_item(self.said, &fixed(self.said)))]);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::answer::tests::{data, form, name, said};
    use crate::marker;

    fn body(said: &Said<'_>) -> Value {
        serde_json::from_slice(&json(said)).expect("JSON")
    }

    #[test]
    fn the_body_is_the_vendors_to_the_byte() {
        let said = Said { text: "ab".into(), previous: Some("resp_1"), store: false, ..Said::nothing("m", "p") };
        let id = marker("p");
        let expected = format!(
            r#"{{"id":"resp_{id}","object":"response","created_at":1700000000,"status":"completed","background":false,"error":null,"incomplete_details":null,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"model":"m","output":[{{"id":"msg_{id}","type":"message","status":"completed","content":[{{"type":"output_text","annotations":[],"logprobs":[],"text":"ab"}}],"role":"assistant"}}],"parallel_tool_calls":true,"previous_response_id":"resp_1","prompt_cache_key":null,"reasoning":{{"effort":null,"summary":null}},"safety_identifier":null,"service_tier":"default","store":false,"temperature":1.0,"text":{{"format":{{"type":"text"}},"verbosity":"medium"}},"tool_choice":"auto","tools":[],"top_logprobs":0,"top_p":1.0,"truncation":"disabled","usage":{{"input_tokens":1,"input_tokens_details":{{"cached_tokens":0}},"output_tokens":1,"output_tokens_details":{{"reasoning_tokens":0}},"total_tokens":2}},"user":null,"metadata":{{}}}}"#
        );
        assert_eq!(String::from_utf8(json(&said)).expect("UTF-8"), expected);
    }

    #[test]
    fn every_event_has_its_number_and_the_last_holds_the_whole_answer() {
        let said = Said { thinking: Some("hm".into()), ..said("q", None) };
        let events = events(&said, &form(4));
        for (at, event) in events.iter().enumerate() {
            let data = data(event);
            assert_eq!((data["sequence_number"].as_u64(), &data["type"]), (Some(at as u64), &name(event).into()));
        }
        let names: Vec<String> = events.iter().map(|event| name(event).replace("response.", "")).collect();
        let expected = "created in_progress output_item.added reasoning_summary_part.added \
            reasoning_summary_text.delta reasoning_summary_text.delta reasoning_summary_text.done \
            reasoning_summary_part.done output_item.done output_item.added content_part.added output_text.delta \
            output_text.delta output_text.done content_part.done output_item.done completed";
        assert_eq!(names.join(" "), expected);
        let last = data(events.last().expect("events"));
        assert_eq!(last["response"], body(&said));
        assert_eq!(
            last["response"]["output"],
            serde_json::json!([data(&events[8])["item"], data(&events[15])["item"]])
        );
    }

    #[test]
    fn a_function_call_streams_its_arguments_in_pieces() {
        let said = said("q", Some("look_up"));
        let events = events(&said, &form(4));
        let pieces: String =
            [3, 4].map(|at: usize| data(&events[at])["delta"].as_str().expect("text").to_owned()).concat();
        assert_eq!(Value::from(pieces), body(&said)["output"][0]["arguments"]);
        assert_eq!(data(&events[2])["item"]["name"], "look_up");
    }

    #[test]
    fn an_answer_cut_by_length_is_incomplete_and_a_failed_one_says_why() {
        let cut = Said { length: true, sealed: true, thinking: Some("hm".into()), ..said("q", None) };
        let last = data(events(&cut, &form(3)).last().expect("events"));
        assert_eq!((&last["type"], &last["response"]["status"]), (&"response.incomplete".into(), &"incomplete".into()));
        assert_eq!(last["response"]["incomplete_details"]["reason"], "max_output_tokens");
        assert!(last["response"]["output"][0]["encrypted_content"].is_string());
        let failed = failure(&cut, 3, &form(3));
        assert_eq!((&data(&failed[0])["type"], &data(&failed[0])["sequence_number"]), (&"error".into(), &3.into()));
        assert_eq!(data(&failed[1])["response"]["error"]["code"], "server_error");
    }
}
