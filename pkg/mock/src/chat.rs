//! `POST /v1/chat/completions`: the body and the chunks.

use bytes::Bytes;

use crate::answer::Said;
use crate::pen::{Pen, StreamForm};
use crate::template::{fixture, json_string};

fixture!(JSON, Template, "chat.json");
fixture!(TOOL, Template, "chat_tool.json");
fixture!(EVENTS, Events, "chunk.sse");

const STOPS: [&str; 3] = ["stop", "length", "tool_calls"];

pub(crate) fn json(said: &Said<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(640 + said.text.len());
    let template = if said.tool.is_some() { &TOOL } else { &JSON };
    template.fill(&mut out, &[("text", &json_string(&said.text)), ("finish", said.stop(STOPS))], &said.values());
    out
}

pub(crate) fn events(said: &Said<'_>, form: &StreamForm) -> Vec<Bytes> {
    let mut fixed = said.values();
    fixed.push(("usage", if form.usage { ",\"usage\":null" } else { "" }.to_owned()));
    let mut pen = Pen::new(&EVENTS, fixed, form);
    if form.azure {
        pen.event("azure_first", &[]);
    }
    pen.event(if said.tool.is_some() { "tool_open" } else { "role" }, &[]);
    if form.choices_null {
        pen.event("choices_null", &[]);
    }
    let arguments = said.arguments();
    let (name, text) =
        if said.tool.is_some() { ("tool_arguments", arguments.as_str()) } else { ("text", said.text.as_str()) };
    for piece in form.pieces(text) {
        pen.event(name, &[("text", &json_string(piece))]);
    }
    pen.event("finish", &[("finish", said.stop(STOPS))]);
    if form.usage {
        pen.event("usage", &[]);
    }
    if form.done {
        pen.event("done", &[]);
    }
    pen.finish()
}

/// Completions fail with the same event.
pub(crate) fn failure(form: &StreamForm) -> Vec<Bytes> {
    let mut pen = Pen::new(&EVENTS, Vec::new(), form);
    pen.event("error", &[]);
    pen.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::answer::tests::{data, form, said};
    use crate::{chat_body, marker};

    #[test]
    fn the_default_answer_has_the_size_of_a_short_real_one() {
        let prompt = "Why does the sky look blue at noon and red in the evening hours?";
        let events = events(&said(prompt, None), &form(74));
        assert!((500..700).contains(&chat_body("gpt-4o-mini", prompt).len()));
        assert_eq!(events.len(), 75, "74 chunks and the end mark");
        assert!(events[1..73].iter().all(|event| (215..245).contains(&event.len())));
    }

    #[test]
    fn a_tool_call_streams_its_arguments_in_pieces() {
        let said = said("q", Some("look_up"));
        let events = events(&said, &form(6));
        let call = |event: &Bytes| data(event)["choices"][0]["delta"]["tool_calls"][0]["function"].clone();
        let arguments: String =
            events[1..5].iter().map(|e| call(e)["arguments"].as_str().expect("text").to_owned()).collect();
        assert_eq!(call(&events[0])["name"], "look_up");
        assert_eq!(arguments, format!("{{\"marker\":\"{}\"}}", marker("q")));
        assert_eq!(data(&events[5])["choices"][0]["finish_reason"], "tool_calls");
        let body: Value = serde_json::from_slice(&json(&said)).expect("JSON");
        assert_eq!(body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"], arguments);
    }

    #[test]
    fn usage_and_chunks_without_choices_stand_where_a_provider_puts_them() {
        let said = Said { cached: 7, ..said("q", None) };
        let events = events(&said, &StreamForm { usage: true, choices_null: true, azure: true, ..form(4) });
        assert_eq!(data(&events[0])["choices"].as_array().map(Vec::len), Some(0));
        assert!(data(&events[2])["choices"].is_null());
        let usage = data(&events[events.len() - 2]);
        assert_eq!(usage["choices"].as_array().map(Vec::len), Some(0));
        assert_eq!(
            (&usage["usage"]["prompt_tokens"], &usage["usage"]["prompt_tokens_details"]["cached_tokens"]),
            (&8.into(), &7.into())
        );
        assert_eq!(data(&failure(&form(4))[0])["error"]["type"], "server_error");
    }
}
