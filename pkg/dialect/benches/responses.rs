//! Cost of responses and completions: reading a stream as it passes, and saying one API's stream in theirs.

use bytes::{Bytes, BytesMut};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use signet_dialect::responses::{Response, ResponsesFold, ResponsesRequest};
use signet_dialect::{Api, Wanted, translate_stream};
use signet_openai::sse::{Decoder, Event, events};
use std::hint::black_box;

/// How many events of a stream are text.
const CHUNKS: u32 = 1000;

fn chat() -> String {
    let chunk = |delta: &str, finish: &str| {
        format!(
            r#"data: {{"id":"chatcmpl-000000000000000000000000000","object":"chat.completion.chunk","created":1700000000,"model":"m-2026-07-18","system_fingerprint":"fp_0000000000","choices":[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish}}}]}}{}"#,
            "\n\n"
        )
    };
    let texts = (0..CHUNKS).map(|i| chunk(&format!(r#"{{"content":" w{i}"}}"#), "null")).collect::<String>();
    let (first, last) = (chunk(r#"{"role":"assistant","content":""}"#, "null"), chunk("{}", "\"stop\""));
    format!("{first}{texts}{last}data: [DONE]\n\n")
}

fn messages() -> String {
    let event = |kind: &str, more: &str| format!("event: {kind}\ndata: {{\"type\":\"{kind}\",{more}}}\n\n");
    let start = event(
        "message_start",
        r#""message":{"id":"msg_1","type":"message","role":"assistant","model":"c","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":1}}"#,
    );
    let open = event("content_block_start", r#""index":0,"content_block":{"type":"text","text":""}"#);
    let text = |i| {
        let delta = format!(r#""index":0,"delta":{{"type":"text_delta","text":" w{i}"}}"#);
        event("content_block_delta", &delta)
    };
    let texts = (0..CHUNKS).map(text).collect::<String>();
    let end = event(
        "message_delta",
        r#""delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":9}"#,
    );
    let (close, stop) =
        (event("content_block_stop", r#""index":0"#), "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
    format!("{start}{open}{texts}{close}{end}{stop}")
}

fn all(stream: &str) -> Vec<Event> {
    let mut decoder = Decoder::new(1 << 20);
    decoder.push(Bytes::copy_from_slice(stream.as_bytes()));
    std::iter::from_fn(|| decoder.next_event().expect("short events")).collect()
}

fn translations(c: &mut Criterion) {
    let mut group = c.benchmark_group("translate a chunk");
    group.throughput(Throughput::Elements(u64::from(CHUNKS)));
    for (from, stream) in [(Api::Chat, chat()), (Api::Messages, messages())] {
        let events = all(&stream);
        for to in [Api::Responses, Api::Completions] {
            group.bench_function(format!("{} to {}", from.name(), to.name()), |b| {
                let new = || {
                    let translator = translate_stream(from, to, Wanted::default()).expect("a pair");
                    (translator, BytesMut::with_capacity(stream.len() * 4))
                };
                b.iter_batched_ref(
                    new,
                    |(translator, out)| {
                        for event in &events {
                            translator.event(event, out).expect("it can be said");
                        }
                        translator.end(out);
                    },
                    BatchSize::LargeInput,
                );
            });
        }
    }
}

fn natives(c: &mut Criterion) {
    let text = "A delivery to the next town takes two to three days. ".repeat(40);
    let body = format!(
        r#"{{"id":"resp_1","object":"response","created_at":1,"status":"completed","error":null,"model":"m","output":[{{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{{"type":"output_text","text":"{text}","annotations":[],"logprobs":[]}}]}}],"store":false,"usage":{{"input_tokens":60,"output_tokens":52}}}}"#
    );
    let answer = Response::from_json(body.as_bytes()).expect("an answer");
    let stream = answer.to_sse("resp_2", 1);
    let mut group = c.benchmark_group("responses");
    group.bench_function("fold a stream of 27 events", |b| {
        b.iter(|| {
            let mut fold = ResponsesFold::new();
            events(&stream).for_each(|data| fold.push(&data));
            fold.finish()
        });
    });
    group.bench_function("from_json", |b| b.iter(|| Response::from_json(black_box(body.as_bytes()))));
    group.bench_function("to_json", |b| b.iter(|| answer.to_json(black_box("resp_2"), 1)));
    group.bench_function("to_sse", |b| b.iter(|| answer.to_sse(black_box("resp_2"), 1)));
    let request = Bytes::from(format!(r#"{{"model":"m","store":false,"input":"{text}"}}"#));
    group.bench_function("parse a request of 2 KB", |b| b.iter(|| ResponsesRequest::parse(black_box(&request))));
}

criterion_group!(benches, translations, natives);
criterion_main!(benches);
