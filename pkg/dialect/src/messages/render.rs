//! A message as the event stream that its provider would have sent: `message_start`, each block as `content_block_start`,
//! deltas and `content_block_stop`, `message_delta` with stop reason and usage, `message_stop`.
//!
//! Fields that nobody here knows stand where readers put them together again: those of the message in `message_start`,
//! those of a block in its `content_block_start`. Long texts come in pieces.

use super::STOP;
use bytes::Bytes;
use signet_openai::wire::{Json, Member, PIECE, get, next_piece, write_str};

/// Fields that are not known before the end, so that they are null at the start.
const AT_THE_END: [&str; 3] = ["stop_reason", "stop_sequence", "stop_details"];

/// Counts that the end tells anew; others stand in the start alone.
const COUNTED: [&str; 6] = [
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
    "output_tokens_details",
    "server_tool_use",
];

/// The stream of the message with this text.
pub(super) fn stream(text: &[u8], id: &str) -> Bytes {
    let message = Json::parse(text).expect("the text was written from a parsed message");
    let fields = message.as_object().expect("a message is an object");
    let mut out = Vec::with_capacity(4096);
    start(fields, id, &mut out);
    for (index, block) in get(fields, "content").and_then(Json::as_array).unwrap_or_default().iter().enumerate() {
        Block { index, text, out: &mut out }.write(block.as_object().unwrap_or_default());
    }
    end(fields, &mut out);
    out.extend_from_slice(STOP);
    out.into()
}

fn start(fields: &[Member<'_>], id: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":");
    write_str(id, out);
    for field in fields {
        out.push(b',');
        match (&*field.key, &field.value) {
            ("content", _) => out.extend_from_slice(b"\"content\":[]"),
            (key, _) if AT_THE_END.contains(&key) => Member::new(key, Json::Null).write(out),
            ("usage", Json::Object(usage)) => {
                out.extend_from_slice(b"\"usage\":");
                write_object(usage.iter().map(|count| Member::new(&*count.key, uncounted(count))), out);
            }
            _ => field.write(out),
        }
    }
    out.extend_from_slice(b"}}\n\n");
}

fn end(fields: &[Member<'_>], out: &mut Vec<u8>) {
    out.extend_from_slice(b"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":");
    write_object(fields.iter().filter(|field| AT_THE_END.contains(&&*field.key)).cloned(), out);
    if let Some(usage) = get(fields, "usage").and_then(Json::as_object) {
        out.extend_from_slice(b",\"usage\":");
        write_object(usage.iter().filter(|count| COUNTED.contains(&&*count.key)).cloned(), out);
    }
    out.extend_from_slice(b"}\n\n");
}

fn write_object<'a>(members: impl Iterator<Item = Member<'a>>, out: &mut Vec<u8>) {
    Json::Object(members.collect()).write(out);
}

struct Block<'o> {
    index: usize,
    /// The message's text.
    text: &'o [u8],
    out: &'o mut Vec<u8>,
}

impl Block<'_> {
    fn write(&mut self, fields: &[Member<'_>]) {
        self.event("content_block_start", "content_block", |out| {
            write_object(fields.iter().map(|field| Member::new(&*field.key, begun(field))), out);
        });
        let text = |key: &str| get(fields, key).and_then(Json::as_str).unwrap_or_default();
        match get(fields, "type").and_then(Json::as_str) {
            Some("text") => self.deltas("text_delta", "text", text("text")),
            Some("thinking") => {
                self.deltas("thinking_delta", "thinking", text("thinking"));
                if !text("signature").is_empty() {
                    self.delta("signature_delta", "signature", text("signature"));
                }
            }
            Some("tool_use") => {
                // As it was written, so that every serving has the same text.
                let input =
                    fields.iter().find(|field| field.key == "input").map(|field| &self.text[field.span.clone()]);
                let input = std::str::from_utf8(input.unwrap_or_default()).expect("JSON is UTF-8");
                self.deltas("input_json_delta", "partial_json", if input == "{}" { "" } else { input });
            }
            _ => {}
        }
        let head = "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":";
        self.out.extend_from_slice(head.as_bytes());
        self.out.extend_from_slice(itoa::Buffer::new().format(self.index).as_bytes());
        self.out.extend_from_slice(b"}\n\n");
    }

    fn deltas(&mut self, kind: &str, key: &str, mut text: &str) {
        while let Some(piece) = next_piece(&mut text, PIECE) {
            self.delta(kind, key, piece);
        }
    }

    fn delta(&mut self, kind: &str, key: &str, piece: &str) {
        self.event("content_block_delta", "delta", |out| {
            out.extend_from_slice(b"{\"type\":\"");
            out.extend_from_slice(kind.as_bytes());
            out.extend_from_slice(b"\",");
            Member::new(key, Json::String(piece.into())).write(out);
            out.push(b'}');
        });
    }

    /// `event: {name}`, whose `key` is what `write` appends.
    fn event(&mut self, name: &str, key: &str, write: impl FnOnce(&mut Vec<u8>)) {
        for piece in ["event: ", name, "\ndata: {\"type\":\"", name, "\",\"index\":"] {
            self.out.extend_from_slice(piece.as_bytes());
        }
        self.out.extend_from_slice(itoa::Buffer::new().format(self.index).as_bytes());
        self.out.extend_from_slice(b",");
        write_str(key, self.out);
        self.out.push(b':');
        write(self.out);
        self.out.extend_from_slice(b"}\n\n");
    }
}

/// A count before there is an answer.
fn uncounted<'a>(count: &Member<'a>) -> Json<'a> {
    if count.key == "output_tokens" { Json::Number("0".into()) } else { count.value.clone() }
}

/// A block's field before its deltas.
fn begun<'a>(field: &Member<'a>) -> Json<'a> {
    match (&*field.key, &field.value) {
        ("text" | "thinking" | "signature", Json::String(_)) => Json::String("".into()),
        ("input", Json::Object(_)) => Json::Object(Vec::new()),
        (_, value) => value.clone(),
    }
}
