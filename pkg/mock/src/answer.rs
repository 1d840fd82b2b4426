//! What the mock says to a prompt: a pure function, so that a client can compute what it should have been told.

use std::sync::LazyLock;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::template::{Template, json_string};

const ECHO_BYTES: usize = 64;

macro_rules! fixture {
    ($name:ident, $file:literal) => {
        static $name: LazyLock<Template> = LazyLock::new(|| Template::parse(include_str!(concat!("fixtures/", $file))));
    };
}
fixture!(CHAT, "chat.json");
fixture!(CHAT_TOOL, "chat_tool.json");
fixture!(ROLE, "chunk_role.sse");
fixture!(TEXT, "chunk_text.sse");
fixture!(FINISH, "chunk_finish.sse");
fixture!(CHOICES_NULL, "chunk_choices_null.sse");
fixture!(USAGE, "chunk_usage.sse");
fixture!(TOOL_OPEN, "chunk_tool_open.sse");
fixture!(TOOL_ARGUMENTS, "chunk_tool_arguments.sse");
fixture!(STREAM_ERROR, "chunk_error.sse");
fixture!(DONE, "done.sse");
fixture!(ERROR, "error.json");

/// What identifies a prompt: the first 16 hex digits of its SHA-256, easily had from any language.
pub fn marker(prompt: &str) -> String {
    let digest = Sha256::digest(prompt.as_bytes());
    digest
        .iter()
        .take(8)
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|d| char::from(b"0123456789abcdef"[usize::from(d)]))
        .collect()
}

/// The assistant text for a prompt (the text of the last user message), equal in JSON and streamed answers.
pub fn answer_text(prompt: &str) -> String {
    let echo = &prompt[..prompt.floor_char_boundary(ECHO_BYTES)];
    let marker = marker(prompt);
    format!("Mock answer [{marker}] to: {echo} -- the same words for the same question, made of literal bytes.")
}

/// The exact body of a plain JSON chat answer to a prompt when no behaviour changes it.
pub fn chat_body(model: &str, prompt: &str) -> Vec<u8> {
    Chat { model, prompt, text: answer_text(prompt), finish: "stop", tool: None }.json()
}

/// One chat answer before it is written in either form.
pub(crate) struct Chat<'a> {
    pub(crate) model: &'a str,
    pub(crate) prompt: &'a str,
    pub(crate) text: String,
    pub(crate) finish: &'a str,
    /// Answer with a call of this function instead of text.
    pub(crate) tool: Option<&'a str>,
}

/// How a chat answer is cut into events.
pub(crate) struct StreamForm {
    /// Events before `[DONE]`, role and finish included, the usage chunk not.
    pub(crate) chunks: usize,
    pub(crate) usage: bool,
    pub(crate) choices_null: bool,
    /// An error event after this many events ends the stream.
    pub(crate) error_after: Option<usize>,
    pub(crate) done: bool,
    pub(crate) line_end: &'static str,
}

impl Chat<'_> {
    pub(crate) fn json(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(640 + self.text.len());
        let template = if self.tool.is_some() { &CHAT_TOOL } else { &CHAT };
        self.write(&mut out, template, &self.text, "");
        out
    }

    /// The events of a streamed answer, all slices of one buffer.
    pub(crate) fn events(&self, form: &StreamForm) -> Vec<Bytes> {
        let mut pen =
            Pen { out: Vec::with_capacity((form.chunks + 3) * 256 + self.text.len()), ends: Vec::new(), form };
        let usage = if form.usage { ",\"usage\":null" } else { "" };
        let opening = if self.tool.is_some() { &TOOL_OPEN } else { &ROLE };
        pen.event(|out| self.write(out, opening, "", usage));
        if form.choices_null {
            pen.event(|out| self.write(out, &CHOICES_NULL, "", usage));
        }
        let arguments = format!("{{\"marker\":\"{}\"}}", marker(self.prompt));
        let (template, text) = match self.tool {
            Some(_) => (&TOOL_ARGUMENTS, arguments.as_str()),
            None => (&TEXT, self.text.as_str()),
        };
        self.pieces(&mut pen, template, text, usage);
        pen.event(|out| self.write(out, &FINISH, "", usage));
        if form.usage {
            pen.event(|out| self.write(out, &USAGE, "", ""));
        }
        if form.done {
            pen.event(|out| DONE.fill(out, &[]));
        }
        pen.finish()
    }

    fn pieces(&self, pen: &mut Pen<'_>, template: &Template, text: &str, usage: &str) {
        let count = pen.form.chunks.saturating_sub(2).max(1);
        let mut writer = Writer::new(self, usage);
        let mut from = 0;
        for i in 1..=count {
            let to = text.floor_char_boundary(text.len() * i / count);
            pen.event(|out| writer.write(out, template, &text[from..to]));
            from = to;
        }
    }

    fn write(&self, out: &mut Vec<u8>, template: &Template, text: &str, usage: &str) {
        Writer::new(self, usage).write(out, template, text);
    }
}

/// The values that do not change from event to event.
struct Writer<'a> {
    id: String,
    model: String,
    tool: String,
    finish: &'a str,
    usage: &'a str,
    tokens: [String; 3],
}

impl<'a> Writer<'a> {
    fn new(chat: &'a Chat<'_>, usage: &'a str) -> Self {
        let (asked, said) = (tokens(chat.prompt), tokens(&chat.text));
        Self {
            id: marker(chat.prompt),
            model: json_string(chat.model),
            tool: chat.tool.map(json_string).unwrap_or_default(),
            finish: if chat.tool.is_some() { "tool_calls" } else { chat.finish },
            usage,
            tokens: [asked, said, asked + said].map(|n| n.to_string()),
        }
    }

    fn write(&mut self, out: &mut Vec<u8>, template: &Template, text: &str) {
        let values = [
            ("id", self.id.as_str()),
            ("model", &self.model),
            ("text", &json_string(text)),
            ("usage", self.usage),
            ("finish", self.finish),
            ("tool", &self.tool),
            ("prompt_tokens", &self.tokens[0]),
            ("completion_tokens", &self.tokens[1]),
            ("total_tokens", &self.tokens[2]),
        ];
        template.fill(out, &values);
    }
}

/// Writes events one after the other and remembers where each ends.
struct Pen<'a> {
    out: Vec<u8>,
    ends: Vec<usize>,
    form: &'a StreamForm,
}

impl Pen<'_> {
    fn event(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        match self.form.error_after {
            Some(limit) if self.ends.len() > limit => return,
            Some(limit) if self.ends.len() == limit => STREAM_ERROR.fill(&mut self.out, &[]),
            _ => write(&mut self.out),
        }
        self.out.extend_from_slice(self.form.line_end.as_bytes());
        self.out.extend_from_slice(self.form.line_end.as_bytes());
        self.ends.push(self.out.len());
    }

    fn finish(self) -> Vec<Bytes> {
        let all = Bytes::from(self.out);
        let mut from = 0;
        self.ends.into_iter().map(|to| all.slice(std::mem::replace(&mut from, to)..to)).collect()
    }
}

/// Four bytes a token is the usual rule of thumb; a mock needs it only to be stable and above zero.
pub(crate) fn tokens(text: &str) -> usize {
    text.len() / 4 + 1
}

/// An error body in the provider's shape; `param` and `code` are JSON null where not given.
pub(crate) fn error_body(message: &str, kind: &str, param: Option<&str>, code: Option<&str>) -> Vec<u8> {
    let or_null = |value: Option<&str>| value.map_or_else(|| "null".to_owned(), json_string);
    let (message, param, code) = (json_string(message), or_null(param), or_null(code));
    let mut out = Vec::with_capacity(160);
    ERROR.fill(&mut out, &[("message", &message), ("type", kind), ("param", &param), ("code", &code)]);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn form(chunks: usize) -> StreamForm {
        StreamForm { chunks, usage: false, choices_null: false, error_after: None, done: true, line_end: "\n" }
    }

    fn chat<'a>(prompt: &'a str, tool: Option<&'a str>) -> Chat<'a> {
        Chat { model: "gpt-4o-mini", prompt, text: answer_text(prompt), finish: "stop", tool }
    }

    fn data(event: &Bytes) -> Value {
        let text = std::str::from_utf8(event).expect("events are UTF-8");
        serde_json::from_str(text.trim().strip_prefix("data: ").expect("an event has data")).expect("data is JSON")
    }

    proptest! {
        #[test]
        fn a_stream_says_what_the_json_answer_says(prompt in any::<String>(), chunks in 1usize..200) {
            let chat = chat(&prompt, None);
            let body: Value = serde_json::from_slice(&chat.json()).expect("the body is JSON");
            let events = chat.events(&form(chunks));
            let said: String = events[..events.len() - 1]
                .iter()
                .filter_map(|event| data(event)["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
                .collect();
            prop_assert_eq!(body["choices"][0]["message"]["content"].as_str(), Some(said.as_str()));
            prop_assert!(said.contains(&marker(&prompt)));
        }
    }

    #[test]
    fn the_default_answer_has_the_size_of_a_short_real_one() {
        let prompt = "Why does the sky look blue at noon and red in the evening hours?";
        let events = chat(prompt, None).events(&form(74));
        assert!((500..700).contains(&chat_body("gpt-4o-mini", prompt).len()));
        assert_eq!(events.len(), 75, "74 chunks and the end mark");
        assert!(events[1..73].iter().all(|event| (215..245).contains(&event.len())));
    }

    #[test]
    fn a_tool_call_streams_its_arguments_in_pieces() {
        let events = chat("q", Some("look_up")).events(&form(6));
        let opening = data(&events[0]);
        let arguments: String = events[1..5]
            .iter()
            .map(|e| {
                data(e)["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"]
                    .as_str()
                    .expect("text")
                    .to_owned()
            })
            .collect();
        assert_eq!(opening["choices"][0]["delta"]["tool_calls"][0]["function"]["name"], "look_up");
        assert_eq!(arguments, format!("{{\"marker\":\"{}\"}}", marker("q")));
        assert_eq!(data(&events[5])["choices"][0]["finish_reason"], "tool_calls");
        let body: Value = serde_json::from_slice(&chat("q", Some("look_up")).json()).expect("JSON");
        assert_eq!(body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"], arguments);
    }

    #[test]
    fn usage_choices_null_and_error_events_stand_where_a_provider_puts_them() {
        let events = chat("q", None).events(&StreamForm { usage: true, choices_null: true, ..form(4) });
        assert!(data(&events[1])["choices"].is_null());
        let usage = data(&events[events.len() - 2]);
        assert_eq!(usage["choices"].as_array().map(Vec::len), Some(0));
        assert!(usage["usage"]["total_tokens"].as_u64() > Some(0));
        let failed = chat("q", None).events(&StreamForm { error_after: Some(2), ..form(10) });
        assert_eq!(failed.len(), 3);
        assert_eq!(data(&failed[2])["error"]["type"], "server_error");
    }
}
