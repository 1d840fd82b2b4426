//! Cost of passing streams on and of translating them, for each chunk, and of translating requests and whole answers.

use bytes::{Bytes, BytesMut};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use signet_dialect::messages::{Message, MessageFold, MessagesRequest, splitter};
use signet_dialect::sse::{Classify, Decoder, Splitter, events};
use signet_dialect::{Api, Defaults, Wanted, translate_request, translate_stream, translate_whole};
use std::hint::black_box;

/// Text chunks of a stream; a start and an end come on top.
const CHUNKS: usize = 256;

/// A chat stream in chunks of about 230 bytes; `padded` ones differ in more than their text, as where a provider pads them.
fn chat(padded: bool) -> Vec<Bytes> {
    let chunk = |i: usize, delta: &str, finish: &str| {
        let pad = if padded { format!(",\"obfuscation\":\"{:x}\"", i * 7919) } else { String::new() };
        let head = r#"{"id":"chatcmpl-000000000000000000000000000","object":"chat.completion.chunk","created":1700000000,"model":"gpt-4o-mini-2024-07-18","system_fingerprint":"fp_0000000000""#;
        let choice = format!(r#"{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish}}}"#);
        Bytes::from(format!("data: {head},\"choices\":[{choice}]{pad}}}\n\n"))
    };
    let mut chunks = vec![chunk(0, r#"{"role":"assistant","content":""}"#, "null")];
    chunks.extend((0..CHUNKS).map(|i| chunk(i, &format!(r#"{{"content":" word{i}"}}"#), "null")));
    chunks.push(chunk(1, "{}", "\"stop\""));
    chunks.push(Bytes::from_static(b"data: [DONE]\n\n"));
    chunks
}

fn messages() -> Vec<Bytes> {
    let event = |name: &str, rest: &str| Bytes::from(format!("event: {name}\ndata: {{\"type\":\"{name}\"{rest}}}\n\n"));
    let start = r#","message":{"id":"msg_000000000000000000000000","type":"message","role":"assistant","model":"claude-sonnet-4-5-20250929","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":60,"output_tokens":1}}"#;
    let block = r#","index":0,"content_block":{"type":"text","text":""}"#;
    let mut chunks = vec![event("message_start", start), event("content_block_start", block)];
    let delta = |i: usize| format!(r#","index":0,"delta":{{"type":"text_delta","text":" word{i}"}}"#);
    chunks.extend((0..CHUNKS).map(|i| event("content_block_delta", &delta(i))));
    chunks.push(event("content_block_stop", r#","index":0"#));
    chunks.push(event("message_delta", r#","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":256}"#));
    chunks.push(event("message_stop", ""));
    chunks
}

fn split<C: Classify>(mut splitter: Splitter<C>, pieces: &[Bytes]) -> usize {
    let mut bytes = 0;
    for piece in pieces {
        splitter.push(piece.clone());
        while let Ok(Some(run)) = splitter.next_run() {
            bytes += run.raw.len();
        }
    }
    bytes
}

/// As the pipeline does it: events are read from what arrives, and each is written for the caller.
fn translate(from: Api, to: Api, pieces: &[Bytes]) -> usize {
    let wanted = Wanted { usage: true, created: 1_700_000_000, asked: None };
    let mut translator = translate_stream(from, to, wanted).expect("a pair");
    let (mut decoder, mut out) = (Decoder::new(1 << 20), BytesMut::with_capacity(64 << 10));
    let mut bytes = 0;
    for piece in pieces {
        decoder.push(piece.clone());
        while let Ok(Some(event)) = decoder.next_event() {
            translator.event(&event, &mut out).expect("a sound stream");
        }
        bytes += out.split().len();
    }
    bytes
}

fn per_chunk(c: &mut Criterion) {
    let mut group = c.benchmark_group("per chunk");
    group.throughput(Throughput::Elements(CHUNKS as u64));
    let (plain, padded, other) = (chat(false), chat(true), messages());
    group.bench_function("passthrough chat", |b| {
        b.iter_batched(|| Splitter::new(1 << 20, 1), |splitter| split(splitter, &plain), BatchSize::SmallInput);
    });
    group.bench_function("passthrough messages", |b| {
        b.iter_batched(|| splitter(1 << 20), |splitter| split(splitter, &other), BatchSize::SmallInput);
    });
    group.bench_function("fold messages", |b| {
        b.iter(|| {
            let mut fold = MessageFold::new();
            for piece in &other {
                events(piece).for_each(|data| fold.push(&data));
            }
            fold.finish()
        });
    });
    for (name, from, to, pieces) in [
        ("translate chat to messages", Api::Chat, Api::Messages, &plain),
        ("translate padded chat to messages", Api::Chat, Api::Messages, &padded),
        ("translate messages to chat", Api::Messages, Api::Chat, &other),
    ] {
        group.bench_function(name, |b| b.iter(|| translate(from, to, black_box(pieces))));
    }
    group.finish();
}

fn request(bytes: usize) -> Bytes {
    let text: String = "Thank you, and how long does a delivery take? ".chars().cycle().take(bytes).collect();
    let start = r#"{"model":"m","max_tokens":256,"messages":[{"role":"user","content":"Hello"},{"role":"assistant","content":"Hello!"},{"role":"user","content":""#;
    format!("{start}{text}\"}}]}}").into()
}

fn whole(c: &mut Criterion) {
    let mut group = c.benchmark_group("request");
    let defaults = Defaults::default();
    for (name, bytes) in [("1 KB", 1024), ("200 KB", 200 * 1024)] {
        let body = request(bytes);
        group.bench_function(format!("parse messages {name}"), |b| b.iter(|| MessagesRequest::parse(black_box(&body))));
        group.bench_function(format!("chat to messages {name}"), |b| {
            b.iter(|| translate_request(Api::Chat, Api::Messages, black_box(&body), &defaults));
        });
        group.bench_function(format!("messages to chat {name}"), |b| {
            b.iter(|| translate_request(Api::Messages, Api::Chat, black_box(&body), &defaults));
        });
    }
    group.finish();
    let mut fold = MessageFold::new();
    for piece in messages() {
        events(&piece).for_each(|data| fold.push(&data));
    }
    let message: Message = fold.finish().expect("a whole stream");
    let body = message.to_json("msg_1");
    c.bench_function("answer/messages to SSE", |b| b.iter(|| message.to_sse("msg_1")));
    c.bench_function("answer/messages to chat", |b| {
        b.iter(|| translate_whole(Api::Messages, Api::Chat, Wanted::default(), black_box(&body)));
    });
}

criterion_group!(benches, per_chunk, whole);
criterion_main!(benches);
