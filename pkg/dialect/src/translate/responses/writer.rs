//! Events in the form of `/v1/responses`.
//!
//! Each block of text is a message, thoughts are a summary of reasoning, a call is a call. The provider's seal over thoughts
//! is told as `encrypted_content`, from where [`super::read`] takes it again. The last event has all of it in full.
//! Ids are made of the provider's, so that the same answer has the same ones.

use super::echo::Echo;
use crate::pivot::{Delta, Opening, RawStr, Stop, Tokens, Trouble};
use crate::translate::{Untranslatable, Wanted, WriteEvents};
use bytes::{BufMut as _, BytesMut};

/// The item that is being told.
#[derive(Debug)]
struct Item {
    /// The block it is made of.
    at: u32,
    kind: Kind,
    /// Escaped.
    id: String,
    /// What was said so far, escaped.
    said: Vec<u8>,
    /// The seal so far, escaped.
    seal: Vec<u8>,
    /// Whether it has been announced: an item of text is only once it says something.
    open: bool,
}

#[derive(Debug)]
enum Kind {
    Text,
    Refusal,
    Thinking,
    /// Its id for the caller and its name, escaped.
    Call(String, String),
}

/// What of an item's part is told by events: their names and fields.
struct Words {
    added: &'static str,
    index: &'static str,
    delta: &'static str,
    done: &'static str,
    part_done: &'static str,
    /// The part's type and the field of its text.
    part: (&'static str, &'static str),
    /// What else the part has.
    tail: &'static str,
    /// What else the events of its text have.
    likely: &'static str,
}

const TEXT: Words = Words {
    added: "response.content_part.added",
    index: "content_index",
    delta: "response.output_text.delta",
    done: "response.output_text.done",
    part_done: "response.content_part.done",
    part: ("output_text", "text"),
    tail: ",\"annotations\":[],\"logprobs\":[]",
    likely: ",\"logprobs\":[]",
};

const REFUSAL: Words = Words {
    delta: "response.refusal.delta",
    done: "response.refusal.done",
    part: ("refusal", "refusal"),
    tail: "",
    likely: "",
    ..TEXT
};

const SUMMARY: Words = Words {
    added: "response.reasoning_summary_part.added",
    index: "summary_index",
    delta: "response.reasoning_summary_text.delta",
    done: "response.reasoning_summary_text.done",
    part_done: "response.reasoning_summary_part.done",
    part: ("summary_text", "text"),
    tail: "",
    likely: "",
};

impl Kind {
    /// The events of its one part; a call has none.
    const fn words(&self) -> Option<&'static Words> {
        match self {
            Self::Text => Some(&TEXT),
            Self::Refusal => Some(&REFUSAL),
            Self::Thinking => Some(&SUMMARY),
            Self::Call(..) => None,
        }
    }

    const fn prefix(&self) -> &'static str {
        match self {
            Self::Text | Self::Refusal => "msg_",
            Self::Thinking => "rs_",
            Self::Call(..) => "fc_",
        }
    }
}

impl Item {
    /// The item's JSON text.
    fn write(&self, done: bool, out: &mut Vec<u8>) {
        let status = if done { "completed" } else { "in_progress" };
        put(out, &["{\"id\":\"", &self.id, "\",\"type\":"]);
        let said = if done { &self.said[..] } else { b"" };
        match (&self.kind, self.kind.words()) {
            (Kind::Call(call, name), _) => {
                put(out, &["\"function_call\",\"status\":\"", status, "\",\"call_id\":\"", call]);
                put(out, &["\",\"name\":\"", name, "\",\"arguments\":\""]);
                out.extend_from_slice(said);
                out.extend_from_slice(b"\"}");
            }
            (Kind::Thinking, words) => {
                out.extend_from_slice(b"\"reasoning\",\"summary\":[");
                if let Some(words) = words.filter(|_| !said.is_empty()) {
                    Self::part(words, said, out);
                }
                out.push(b']');
                if done && !self.seal.is_empty() {
                    out.extend_from_slice(b",\"encrypted_content\":\"");
                    out.extend_from_slice(&self.seal);
                    out.push(b'"');
                }
                out.push(b'}');
            }
            (Kind::Text | Kind::Refusal, words) => {
                put(out, &["\"message\",\"status\":\"", status, "\",\"role\":\"assistant\",\"content\":["]);
                if let Some(words) = words.filter(|_| done) {
                    Self::part(words, said, out);
                }
                out.extend_from_slice(b"]}");
            }
        }
    }

    fn part(words: &Words, said: &[u8], out: &mut Vec<u8>) {
        put(out, &["{\"type\":\"", words.part.0, "\",\"", words.part.1, "\":\""]);
        out.extend_from_slice(said);
        put(out, &["\"", words.tail, "}"]);
    }
}

/// Writes one stream.
#[derive(Debug)]
pub(crate) struct Writer {
    created: u64,
    echo: Echo,
    id: String,
    model: String,
    item: Option<Item>,
    /// The finished items, with commas between.
    output: Vec<u8>,
    items: u64,
    events: u64,
    usage: Tokens,
    stop: Option<Stop>,
    /// What an event is made in.
    scratch: Vec<u8>,
}

impl Writer {
    pub(crate) fn new(wanted: Wanted<'_>) -> Self {
        Self {
            created: wanted.created,
            echo: Echo::of(wanted.asked),
            id: String::new(),
            model: String::new(),
            item: None,
            output: Vec::new(),
            items: 0,
            events: 0,
            usage: Tokens::default(),
            stop: None,
            scratch: Vec::new(),
        }
    }

    /// One event whose fields `write` appends to `{"type":..,"sequence_number":..`.
    fn event(&mut self, name: &str, out: &mut BytesMut, write: impl FnOnce(&mut Vec<u8>)) {
        let mut event = std::mem::take(&mut self.scratch);
        event.clear();
        put(&mut event, &["event: ", name, "\ndata: {\"type\":\"", name, "\",\"sequence_number\":"]);
        number(&mut event, self.events);
        write(&mut event);
        event.extend_from_slice(b"}\n\n");
        out.put_slice(&event);
        self.events += 1;
        self.scratch = event;
    }

    fn response(&mut self, name: &str, status: &str, output: &[u8], out: &mut BytesMut, error: Option<(&str, &str)>) {
        let mut text = Vec::with_capacity(output.len() + 1024);
        put(&mut text, &["{\"id\":\"resp_", &self.id, "\",\"object\":\"response\",\"created_at\":"]);
        number(&mut text, self.created);
        put(&mut text, &[",\"status\":\"", status, "\",\"error\":"]);
        match error {
            Some((code, message)) => put(&mut text, &["{\"code\":\"", code, "\",\"message\":\"", message, "\"}"]),
            None => text.extend_from_slice(b"null"),
        }
        let reason = match (status, self.stop) {
            ("incomplete", Some(Stop::Length)) => "{\"reason\":\"max_output_tokens\"}",
            ("incomplete", _) => "{\"reason\":\"content_filter\"}",
            _ => "null",
        };
        put(&mut text, &[",\"incomplete_details\":", reason, ",\"model\":\"", &self.model, "\",\"output\":["]);
        text.extend_from_slice(output);
        text.push(b']');
        text.extend_from_slice(self.echo.fields());
        text.extend_from_slice(b",\"usage\":");
        match status {
            "completed" | "incomplete" => usage(&mut text, self.usage),
            _ => text.extend_from_slice(b"null"),
        }
        text.push(b'}');
        self.event(name, out, |event| {
            event.extend_from_slice(b",\"response\":");
            event.extend_from_slice(&text);
        });
    }

    fn start(&mut self, id: RawStr<'_>, model: RawStr<'_>, out: &mut BytesMut) {
        (self.id, self.model) = (id.as_str().to_owned(), model.as_str().to_owned());
        self.response("response.created", "in_progress", b"", out, None);
        self.response("response.in_progress", "in_progress", b"", out, None);
    }

    fn open(&mut self, at: u32, what: Opening<'_>, out: &mut BytesMut) {
        let (kind, seal) = match what {
            Opening::Text => (Kind::Text, RawStr::EMPTY),
            Opening::Refusal => (Kind::Refusal, RawStr::EMPTY),
            Opening::Thinking => (Kind::Thinking, RawStr::EMPTY),
            Opening::Sealed(seal) => (Kind::Thinking, seal),
            Opening::Call { id, name } => (Kind::Call(id.as_str().to_owned(), name.as_str().to_owned()), RawStr::EMPTY),
        };
        let id = format!("{}{}_{}", kind.prefix(), self.id, self.items);
        let (said, seal) = (Vec::new(), seal.as_str().as_bytes().to_vec());
        let eager = matches!(kind, Kind::Call(..));
        let item = Item { at, kind, id, said, seal, open: false };
        self.item = Some(item);
        if eager {
            self.announce(out);
        }
    }

    /// `,"item_id":..,"output_index":..` and, of a part, its index.
    fn place(item: &Item, index: u64, event: &mut Vec<u8>) {
        put(event, &[",\"item_id\":\"", &item.id, "\",\"output_index\":"]);
        number(event, index);
        if let Some(words) = item.kind.words() {
            put(event, &[",\"", words.index, "\":0"]);
        }
    }

    fn announce(&mut self, out: &mut BytesMut) {
        let Some(mut item) = self.item.take() else { return };
        let index = self.items;
        if !std::mem::replace(&mut item.open, true) {
            self.event("response.output_item.added", out, |event| {
                event.extend_from_slice(b",\"output_index\":");
                number(event, index);
                event.extend_from_slice(b",\"item\":");
                item.write(false, event);
            });
        }
        self.item = Some(item);
    }

    fn said(&mut self, at: u32, text: RawStr<'_>, out: &mut BytesMut) -> Result<(), Untranslatable> {
        if text.is_empty() {
            return Ok(());
        }
        self.announce(out);
        let misplaced = Untranslatable("a piece outside of its block");
        let mut item = self.item.take().filter(|item| item.at == at).ok_or(misplaced)?;
        let index = self.items;
        let words = item.kind.words();
        if let Some(words) = words.filter(|_| item.said.is_empty()) {
            self.event(words.added, out, |event| {
                Self::place(&item, index, event);
                event.extend_from_slice(b",\"part\":");
                Item::part(words, b"", event);
            });
        }
        item.said.extend_from_slice(text.as_str().as_bytes());
        let name = words.map_or("response.function_call_arguments.delta", |words| words.delta);
        self.event(name, out, |event| {
            Self::place(&item, index, event);
            put(event, &[",\"delta\":\"", text.as_str(), "\"", words.map_or("", |words| words.likely)]);
        });
        self.item = Some(item);
        Ok(())
    }

    fn seal(&mut self, at: u32, seal: RawStr<'_>) {
        if let Some(item) = self.item.as_mut().filter(|item| item.at == at) {
            item.seal.extend_from_slice(seal.as_str().as_bytes());
        }
    }

    fn close(&mut self, at: u32, out: &mut BytesMut) {
        if self.item.as_ref().is_some_and(|item| item.at == at && !item.seal.is_empty()) {
            self.announce(out);
        }
        let Some(item) = self.item.take().filter(|item| item.at == at && item.open) else { return };
        let index = self.items;
        match item.kind.words() {
            Some(words) if !item.said.is_empty() => {
                self.event(words.done, out, |event| {
                    Self::place(&item, index, event);
                    put(event, &[",\"", words.part.1, "\":\""]);
                    event.extend_from_slice(&item.said);
                    put(event, &["\"", words.likely]);
                });
                self.event(words.part_done, out, |event| {
                    Self::place(&item, index, event);
                    event.extend_from_slice(b",\"part\":");
                    Item::part(words, &item.said, event);
                });
            }
            _ => {}
        }
        if let Kind::Call(_, name) = &item.kind {
            self.event("response.function_call_arguments.done", out, |event| {
                Self::place(&item, index, event);
                put(event, &[",\"name\":\"", name, "\",\"arguments\":\""]);
                event.extend_from_slice(&item.said);
                event.push(b'"');
            });
        }
        if !self.output.is_empty() {
            self.output.push(b',');
        }
        let start = self.output.len();
        item.write(true, &mut self.output);
        let text = self.output[start..].to_vec();
        self.event("response.output_item.done", out, |event| {
            event.extend_from_slice(b",\"output_index\":");
            number(event, index);
            event.extend_from_slice(b",\"item\":");
            event.extend_from_slice(&text);
        });
        self.items += 1;
    }

    fn end(&mut self, out: &mut BytesMut) {
        let output = std::mem::take(&mut self.output);
        let (name, status) = match self.stop {
            Some(Stop::Length | Stop::Refusal) => ("response.incomplete", "incomplete"),
            _ => ("response.completed", "completed"),
        };
        self.response(name, status, &output, out, None);
    }

    fn failed(&mut self, kind: Trouble, message: RawStr<'_>, out: &mut BytesMut) {
        let code = match kind {
            Trouble::RateLimit => "rate_limit_exceeded",
            Trouble::Invalid | Trouble::TooLarge => "invalid_prompt",
            _ => "server_error",
        };
        self.event("error", out, |event| {
            put(event, &[",\"code\":\"", code, "\",\"message\":\"", message.as_str(), "\",\"param\":null"]);
        });
        let output = std::mem::take(&mut self.output);
        self.response("response.failed", "failed", &output, out, Some((code, message.as_str())));
    }
}

impl WriteEvents for Writer {
    fn write(&mut self, delta: Delta<'_>, out: &mut BytesMut) -> Result<(), Untranslatable> {
        match delta {
            Delta::Start { id, model } => self.start(id, model, out),
            Delta::Open { choice: 1.., .. } => return Err(Untranslatable("a second choice")),
            Delta::Open { at, what, .. } => self.open(at, what, out),
            Delta::Text { at, text } | Delta::Thinking { at, text } => self.said(at, text, out)?,
            Delta::Arguments { at, json } => self.said(at, json, out)?,
            Delta::Seal { at, seal } => self.seal(at, seal),
            Delta::Close { at } => {
                // A call without arguments is one with an object without members: its reader parses the text.
                if self.item.as_ref().is_some_and(|item| item.said.is_empty() && matches!(item.kind, Kind::Call(..))) {
                    self.said(at, RawStr::NO_ARGUMENTS, out)?;
                }
                self.close(at, out);
            }
            Delta::Stop { why, .. } => self.stop = Some(why),
            Delta::Usage(tokens) => self.usage = tokens,
            Delta::Failed { kind, message } => self.failed(kind, message, out),
            Delta::Idle => {}
            Delta::End => self.end(out),
        }
        Ok(())
    }
}

fn put(out: &mut Vec<u8>, pieces: &[&str]) {
    for piece in pieces {
        out.extend_from_slice(piece.as_bytes());
    }
}

fn number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn usage(out: &mut Vec<u8>, tokens: Tokens) {
    let Tokens { input, output, cache_read, cache_written, thinking } = tokens;
    let (thinking, total) = (thinking.unwrap_or(0), input.saturating_add(output));
    let text = format!(
        "{{\"input_tokens\":{input},\"input_tokens_details\":{{\"cached_tokens\":{cache_read},\
         \"cache_write_tokens\":{cache_written}}},\
         \"output_tokens\":{output},\"output_tokens_details\":{{\"reasoning_tokens\":{thinking}}},\
         \"total_tokens\":{total}}}"
    );
    out.extend_from_slice(text.as_bytes());
}
