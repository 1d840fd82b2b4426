//! `POST /v1/completions`, the legacy form: a choice for each prompt.

use std::iter::once;

use bytes::Bytes;

use crate::answer::Said;
use crate::pen::{Pen, StreamForm};
use crate::template::{fixture, json_string};

fixture!(JSON, Template, "completion.json");
fixture!(CHOICE, Template, "completion_choice.json");
fixture!(EVENTS, Events, "completion.sse");

const STOPS: [&str; 3] = ["stop", "length", "stop"];

pub(crate) fn json(said: &Said<'_>) -> Vec<u8> {
    let finish = said.stop(STOPS);
    let choice = |(index, text): (usize, &String)| {
        let (text, index) = (json_string(text), index.to_string());
        CHOICE.filled(&[("text", &text), ("index", &index), ("finish", finish)], &[])
    };
    let choices: Vec<String> = texts(said).enumerate().map(choice).collect();
    JSON.filled(&[("choices", &choices.join(","))], &said.values()).into_bytes()
}

pub(crate) fn events(said: &Said<'_>, form: &StreamForm) -> Vec<Bytes> {
    let mut fixed = said.values();
    fixed.push(("usage", if form.usage { ",\"usage\":null" } else { "" }.to_owned()));
    let mut pen = Pen::new(&EVENTS, fixed, form);
    for (index, text) in texts(said).enumerate() {
        let index = index.to_string();
        for piece in form.pieces(text) {
            pen.event("text", &[("text", &json_string(piece)), ("index", &index)]);
        }
        pen.event("finish", &[("index", &index), ("finish", said.stop(STOPS))]);
    }
    if form.usage {
        pen.event("usage", &[]);
    }
    if form.done {
        pen.event("done", &[]);
    }
    pen.finish()
}

fn texts<'s>(said: &'s Said<'_>) -> impl Iterator<Item = &'s String> {
    once(&said.text).chain(&said.others)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{data, form};
    use crate::marker;

    fn said() -> Said<'static> {
        Said { text: "ab".into(), others: vec!["c".into()], ..Said::nothing("m", "p") }
    }

    #[test]
    fn the_body_is_the_vendors_to_the_byte() {
        let id = marker("p");
        let expected = format!(
            r#"{{"id":"cmpl-{id}","object":"text_completion","created":1700000000,"model":"m","choices":[{{"text":"ab","index":0,"logprobs":null,"finish_reason":"stop"}},{{"text":"c","index":1,"logprobs":null,"finish_reason":"stop"}}],"usage":{{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}}}"#
        );
        assert_eq!(String::from_utf8(json(&said())).expect("UTF-8"), expected);
    }

    #[test]
    fn every_prompt_is_streamed_under_its_index_and_usage_comes_last() {
        let events = events(&Said { length: true, ..said() }, &StreamForm { usage: true, ..form(4) });
        let all: Vec<_> = events[..events.len() - 2].iter().map(|event| data(event)["choices"][0].clone()).collect();
        let seen: Vec<_> = all.iter().map(|c| (c["index"].as_u64(), c["text"].as_str())).collect();
        let at = |index, text| (Some(index), Some(text));
        assert_eq!(seen, [at(0, "a"), at(0, "b"), at(0, ""), at(1, ""), at(1, "c"), at(1, "")]);
        assert_eq!((&all[1]["finish_reason"], &all[2]["finish_reason"]), (&().into(), &"length".into()));
        assert_eq!(data(&events[6])["usage"]["total_tokens"], 3);
        assert_eq!(events[7], "data: [DONE]\n\n");
    }
}
