//! Chat and messages, each said in the other: requests, whole answers, streams, errors.

mod goldens;
mod rules;
mod streams;
mod whole;

use bytes::{Bytes, BytesMut};
use serde_json::Value;
use signet_dialect::{Api, Defaults, Untranslatable, Wanted, translate_request, translate_stream};
use signet_openai::sse::Decoder;
use std::path::PathBuf;

const PAIRS: [(&str, Api, Api); 6] = [
    ("chat-to-messages", Api::Chat, Api::Messages),
    ("messages-to-chat", Api::Messages, Api::Chat),
    ("responses-to-chat", Api::Responses, Api::Chat),
    ("responses-to-messages", Api::Responses, Api::Messages),
    ("completions-to-chat", Api::Completions, Api::Chat),
    ("completions-to-messages", Api::Completions, Api::Messages),
];

const DEFAULTS: Defaults = Defaults { max_tokens: Some(4096) };

const WANTED: Wanted<'_> = Wanted { usage: true, created: 1_700_000_001, asked: None };

fn folder(pair: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(pair)
}

fn golden(pair: &str, name: &str) -> String {
    std::fs::read_to_string(folder(pair).join(name)).unwrap_or_else(|e| panic!("{pair}/{name}: {e}"))
}

/// The names of the pair's goldens that end with `.{kind}`.
fn goldens(pair: &str, kind: &str) -> Vec<String> {
    let files = std::fs::read_dir(folder(pair)).expect("the folder of a pair");
    let names = files.map(|file| file.expect("a file").file_name().into_string().expect("a plain name"));
    let mut names: Vec<String> = names.filter(|name| name.ends_with(kind)).collect();
    names.sort();
    assert!(!names.is_empty(), "{pair} has goldens of {kind}");
    names
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

fn ask(from: Api, to: Api, body: &Value) -> Result<Value, signet_openai::BadRequest> {
    let body = translate_request(from, to, &body.to_string().into(), &DEFAULTS)?;
    Ok(serde_json::from_slice(&body).expect("a translated body is JSON"))
}

/// A stream that comes in these pieces, translated.
fn stream(from: Api, to: Api, wanted: Wanted<'_>, pieces: &[&[u8]]) -> Result<String, Untranslatable> {
    let mut translator = translate_stream(from, to, wanted).expect("a pair");
    let (mut decoder, mut out) = (Decoder::new(1 << 20), BytesMut::new());
    for piece in pieces {
        decoder.push(Bytes::copy_from_slice(piece));
        while let Some(event) = decoder.next_event().expect("short events") {
            translator.event(&event, &mut out)?;
        }
    }
    translator.end(&mut out);
    translator.end(&mut out);
    Ok(String::from_utf8(out.to_vec()).expect("text"))
}
