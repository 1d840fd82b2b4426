//! A response as its stream of events, in the order in which the vendor sends them.
//!
//! `response.created` and `.in_progress` with the response still empty; for each item its announcement, its parts piece by
//! piece, and the item in full; at the end the response in full. Events are numbered from 0.

use super::item::{emptied, opening, opening_part};
use bytes::Bytes;
use signet_openai::wire::{Json, Member, PIECE, get, next_piece, write_str};

/// `response` is the JSON text of a response object, which may have several lines; an event's data has one.
pub(super) fn render(response: &[u8]) -> Bytes {
    let tree = Json::parse(response).expect("a response was read before");
    let mut stream = Stream { out: Vec::with_capacity(8192), next: 0 };
    let begun = begun(&tree);
    for name in ["response.created", "response.in_progress"] {
        stream.event(name, &[("response", Value::Json(&begun))]);
    }
    for (at, item) in tree.get("output").and_then(Json::as_array).unwrap_or_default().iter().enumerate() {
        stream.item(at as u64, item);
    }
    let last = match tree.get("status").and_then(Json::as_str) {
        Some("incomplete") => "response.incomplete",
        _ => "response.completed",
    };
    stream.event(last, &[("response", Value::Json(&tree))]);
    stream.out.into()
}

/// The response before it says anything.
fn begun<'a>(response: &Json<'a>) -> Json<'a> {
    emptied(response, |key, _| match key {
        "status" => Some(Json::text("in_progress")),
        "output" => Some(Json::Array(Vec::new())),
        "usage" | "completed_at" | "incomplete_details" | "output_text" => Some(Json::Null),
        _ => None,
    })
}

/// A value of an event's field.
#[derive(Clone, Copy)]
enum Value<'v> {
    Number(u64),
    Text(&'v str),
    Json(&'v Json<'v>),
}

type Fields<'v> = [(&'v str, Value<'v>)];

struct Stream {
    out: Vec<u8>,
    /// The next event's number.
    next: u64,
}

impl Stream {
    fn event(&mut self, name: &str, fields: &Fields<'_>) {
        let out = &mut self.out;
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\ndata: {\"type\":");
        write_str(name, out);
        out.extend_from_slice(b",\"sequence_number\":");
        out.extend_from_slice(itoa::Buffer::new().format(self.next).as_bytes());
        for (key, value) in fields {
            out.push(b',');
            write_str(key, out);
            out.push(b':');
            match value {
                Value::Number(number) => out.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes()),
                Value::Text(text) => write_str(text, out),
                Value::Json(json) => json.write(out),
            }
        }
        out.extend_from_slice(b"}\n\n");
        self.next += 1;
    }

    fn item(&mut self, at: u64, item: &Json<'_>) {
        let fields = item.as_object().unwrap_or_default();
        let place = [("output_index", Value::Number(at))];
        let word = |key: &str| get(fields, key).and_then(Json::as_str);
        let within = [("item_id", Value::Text(word("id").unwrap_or_default())), place[0]];
        match word("type") {
            Some("message" | "reasoning" | "function_call") => {
                let opening = opening(item);
                self.event("response.output_item.added", &[place[0], ("item", Value::Json(&opening))]);
            }
            _ => self.event("response.output_item.added", &[place[0], ("item", Value::Json(item))]),
        }
        match word("type") {
            Some("message") => self.parts("content", fields, &within),
            Some("reasoning") => {
                self.parts("summary", fields, &within);
                self.parts("content", fields, &within);
            }
            Some("function_call") => self.arguments(fields, &within),
            _ => {}
        }
        self.event("response.output_item.done", &[place[0], ("item", Value::Json(item))]);
    }

    fn arguments(&mut self, call: &[Member<'_>], within: &Fields<'_>) {
        let word = |key: &str| get(call, key).and_then(Json::as_str).unwrap_or_default();
        let mut rest = word("arguments");
        while let Some(piece) = next_piece(&mut rest, PIECE) {
            let fields = [within, &[("delta", Value::Text(piece))]].concat();
            self.event("response.function_call_arguments.delta", &fields);
        }
        let whole = [("name", Value::Text(word("name"))), ("arguments", Value::Text(word("arguments")))];
        self.event("response.function_call_arguments.done", &[within, &whole].concat());
    }

    fn parts(&mut self, list: &str, item: &[Member<'_>], within: &Fields<'_>) {
        let parts = get(item, list).and_then(Json::as_array).unwrap_or_default();
        let (index, event) = match list {
            "summary" => ("summary_index", "response.reasoning_summary_part"),
            _ => ("content_index", "response.content_part"),
        };
        for (at, part) in parts.iter().enumerate() {
            let within = [within, &[(index, Value::Number(at as u64))]].concat();
            let opening = opening_part(part);
            self.event(&format!("{event}.added"), &[&within[..], &[("part", Value::Json(&opening))]].concat());
            self.said(part, &within);
            self.event(&format!("{event}.done"), &[&within[..], &[("part", Value::Json(part))]].concat());
        }
    }

    /// A part's text in pieces and in full. One with log probabilities stays whole, since they are those of its tokens.
    fn said(&mut self, part: &Json<'_>, within: &Fields<'_>) {
        let (event, key) = match part.get("type").and_then(Json::as_str) {
            Some("output_text") => ("response.output_text", "text"),
            Some("refusal") => ("response.refusal", "refusal"),
            Some("summary_text") => ("response.reasoning_summary_text", "text"),
            Some("reasoning_text") => ("response.reasoning_text", "text"),
            _ => return,
        };
        let none = Json::Array(Vec::new());
        let logprobs = part.get("logprobs").filter(|list| list.as_array().is_some_and(|list| !list.is_empty()));
        let likely = [("logprobs", Value::Json(logprobs.unwrap_or(&none)))];
        let likely: &Fields<'_> = if event == "response.output_text" { &likely } else { &[] };
        let text = part.get(key).and_then(Json::as_str).unwrap_or_default();
        let (mut rest, most) = (text, if logprobs.is_some() { usize::MAX } else { PIECE });
        while let Some(piece) = next_piece(&mut rest, most) {
            self.event(&format!("{event}.delta"), &[within, &[("delta", Value::Text(piece))], likely].concat());
        }
        for (at, annotation) in part.get("annotations").and_then(Json::as_array).unwrap_or_default().iter().enumerate()
        {
            let fields = [("annotation_index", Value::Number(at as u64)), ("annotation", Value::Json(annotation))];
            self.event("response.output_text.annotation.added", &[within, &fields].concat());
        }
        self.event(&format!("{event}.done"), &[within, &[(key, Value::Text(text))], likely].concat());
    }
}
