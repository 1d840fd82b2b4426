//! Cost of reading requests, passing streams on and serving stored answers.

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use signet_openai::sse::Splitter;
use signet_openai::{Accumulator, Answer, ChatRequest, Embeddings, EmbeddingsRequest};
use std::fmt::Write as _;
use std::hint::black_box;

fn request(bytes: usize) -> Bytes {
    let start = r#"{"model":"gpt-4o-mini","temperature":0.2,"max_tokens":256,"stream":false,"user":"u-1","messages":[{"role":"system","content":"You are the help desk of a shop. Be short.\nNever guess."},{"role":"user","content":"Hello, where can I see my order?"},{"role":"assistant","content":"Under \"Orders\" in your account."},{"role":"user","content":""#;
    let end = r#""}]}"#;
    let filler = "Thank you, and how long does a delivery to the next town take? ";
    let text: String = filler.chars().cycle().take(bytes.saturating_sub(start.len() + end.len())).collect();
    format!("{start}{text}{end}").into()
}

/// 74 chunks of 228 bytes, the last two a finish and `[DONE]`.
fn stream() -> Vec<Bytes> {
    let chunk = |i: usize| {
        let mut text = format!(
            r#"data: {{"id":"chatcmpl-000000000000000000000000000","object":"chat.completion.chunk","created":1700000000,"model":"gpt-4o-mini-2024-07-18","system_fingerprint":"fp_0000000000","choices":[{{"index":0,"delta":{{"content":" w{i}"#
        );
        let end = "\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n";
        while text.len() + end.len() < 228 {
            let _ = text.write_char('x');
        }
        Bytes::from(text + end)
    };
    let mut chunks: Vec<Bytes> = (0..72).map(chunk).collect();
    chunks.push(Bytes::from_static(
        b"data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    ));
    chunks.push(Bytes::from_static(b"data: [DONE]\n\n"));
    chunks
}

fn answer() -> Answer {
    let text = "A delivery to the next town takes two to three days. ".repeat(4);
    let body = format!(
        r#"{{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"gpt-4o-mini-2024-07-18","choices":[{{"index":0,"message":{{"role":"assistant","content":"{text}","refusal":null,"annotations":[]}},"logprobs":null,"finish_reason":"stop"}}],"usage":{{"prompt_tokens":60,"completion_tokens":52,"total_tokens":112,"prompt_tokens_details":{{"cached_tokens":0,"audio_tokens":0}}}},"service_tier":"default","system_fingerprint":"fp_0000000000"}}"#
    );
    Answer::from_json(body.as_bytes(), 1).expect("a complete answer")
}

fn requests(c: &mut Criterion) {
    let mut group = c.benchmark_group("request");
    for (name, bytes) in [("1 KB", 1024), ("200 KB", 200 * 1024)] {
        let body = request(bytes);
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(format!("parse {name}"), |b| b.iter(|| ChatRequest::parse(black_box(&body))));
    }
    group.finish();
    let parsed = ChatRequest::parse(&request(1024)).expect("a request");
    c.bench_function("request/with model and usage", |b| b.iter(|| parsed.with(Some("other"), true)));
}

fn split(mut splitter: Splitter, pieces: &[Bytes]) -> usize {
    let mut bytes = 0;
    for piece in pieces {
        splitter.push(piece.clone());
        while let Ok(Some(run)) = splitter.next_run() {
            bytes += run.raw.len();
        }
    }
    bytes
}

fn streams(c: &mut Criterion) {
    let mut group = c.benchmark_group("stream");
    let chunks = stream();
    let whole = [Bytes::from(chunks.concat())];
    let new = || Splitter::new(1 << 20, 1);
    group.bench_function("split 74 chunks", |b| b.iter_batched(new, |s| split(s, &chunks), BatchSize::SmallInput));
    group.bench_function("split 74 chunks at once", |b| {
        b.iter_batched(new, |s| split(s, &whole), BatchSize::SmallInput);
    });
    group.bench_function("accumulate 74 chunks", |b| {
        b.iter(|| {
            let mut accumulator = Accumulator::new(1);
            signet_openai::sse::events(&whole[0]).for_each(|data| accumulator.push(&data));
            accumulator.finish()
        });
    });
}

fn answers(c: &mut Criterion) {
    let mut group = c.benchmark_group("answer");
    let answer = answer();
    let json = answer.to_json("chatcmpl-2", 1);
    let stored = answer.encode();
    group.bench_function("from_json", |b| b.iter(|| Answer::from_json(black_box(&json), 1)));
    group.bench_function("to_json", |b| b.iter(|| answer.to_json(black_box("chatcmpl-2"), 1_700_000_001)));
    group.bench_function("to_sse", |b| b.iter(|| answer.to_sse(black_box("chatcmpl-2"), 1_700_000_001, true)));
    group.bench_function("decode", |b| b.iter(|| Answer::decode(black_box(&stored))));
}

/// A batch of 64 texts whose vectors have 1,536 numbers: taken apart into what each is for the cache, and put together out of
/// stored vectors, with a fresh answer to half of it or without. Beside that what a batch costs that is not taken apart.
fn batches(c: &mut Criterion) {
    let texts: Vec<String> =
        (0..64).map(|i| format!("\"Paragraph {i} of the manual. {}\"", "Text. ".repeat(60))).collect();
    let body = Bytes::from(format!("{{\"model\":\"e\",\"input\":[{}]}}", texts.join(",")));
    let vector = format!("[{}]", vec!["-0.012345678"; 1_536].join(","));
    let answer = |of: usize| Embeddings::join("e", &vec![vector.as_bytes(); of], None).to_json().clone();
    let (one, half, all) = (answer(1), answer(32), answer(64));
    let read = |body: &Bytes, of| Embeddings::from_json(body, of).expect("an answer");
    let stored = |of: usize| (0..of).map(|_| read(&one, 1)).collect::<Vec<_>>();
    let joined = |answers: &[Embeddings]| {
        let vectors: Vec<&[u8]> = answers.iter().flat_map(|answer| (0..64).map_while(|i| answer.vector(i))).collect();
        Embeddings::join("e", &vectors, None)
    };
    let mut group = c.benchmark_group("batch of 64");
    group.bench_function("parse the request", |b| b.iter(|| EmbeddingsRequest::parse(black_box(&body))));
    let request = EmbeddingsRequest::parse(&body).expect("a request");
    group.bench_function("take apart", |b| {
        b.iter(|| {
            let batch = request.batch();
            (0..batch.len()).map(|i| EmbeddingsRequest::parse(&batch.alone(i)).is_ok()).filter(|good| *good).count()
        });
    });
    group.bench_function("read a fresh answer", |b| b.iter(|| read(black_box(&all), 64)));
    group.bench_function("join, all stored", |b| b.iter(|| joined(&stored(64))));
    group.bench_function("join, half stored", |b| {
        b.iter(|| {
            let mut answers = stored(32);
            answers.push(read(black_box(&half), 32));
            joined(&answers)
        });
    });
    group.finish();
}

criterion_group!(benches, requests, streams, answers, batches);
criterion_main!(benches);
