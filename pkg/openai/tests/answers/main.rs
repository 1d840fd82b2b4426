//! Answers: put together from streams, stored once, served in both forms.

mod folds;
mod kept;
mod properties;
mod replays;

use bytes::Bytes;
use serde_json::{Value, json};
use signet_openai::sse::events;
use signet_openai::{Accumulator, Answer, Incomplete};

fn answer(body: &Value) -> Answer {
    let n = body["choices"].as_array().expect("choices").len();
    Answer::from_json(body.to_string().as_bytes(), u32::try_from(n).expect("few")).expect("a complete answer")
}

fn base() -> Value {
    json!({
        "id": "chatcmpl-old", "object": "chat.completion", "created": 1, "model": "m-2024",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Paris.", "refusal": null, "annotations": []},
            "logprobs": null, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11,
            "prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens_details": {"reasoning_tokens": 1}},
        "service_tier": "default", "system_fingerprint": "fp_1", "citations": ["https://a"],
    })
}

/// `base` with this message and finish reason.
fn saying(message: Value, finish: &str) -> Value {
    let mut body = base();
    body["choices"][0]["message"] = message;
    body["choices"][0]["finish_reason"] = json!(finish);
    body
}

fn accumulate(n: u32, chunks: &[Value]) -> Result<Answer, Incomplete> {
    let mut accumulator = Accumulator::new(n);
    for chunk in chunks {
        accumulator.push(chunk.to_string().as_bytes());
    }
    accumulator.finish()
}

/// A chunk of choice 0.
#[expect(clippy::needless_pass_by_value, reason = "callers pass literals")]
fn delta(delta: Value) -> Value {
    json!({"id": "c", "object": "chat.completion.chunk", "created": 5, "model": "m", "choices": [
        {"index": 0, "delta": delta, "finish_reason": null}]})
}

fn finish(index: u32, reason: &str) -> Value {
    json!({"id": "c", "model": "m", "choices": [{"index": index, "delta": {}, "finish_reason": reason}]})
}

fn message(answer: &Answer) -> Value {
    served(answer)["choices"][0]["message"].clone()
}

fn served(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.to_json("chatcmpl-new", 7)).expect("JSON")
}

fn replay(answer: &Answer, n: u32) -> Answer {
    let mut accumulator = Accumulator::new(n);
    events(&answer.to_sse("chatcmpl-new", 7, true)).for_each(|data| accumulator.push(&data));
    accumulator.finish().expect("a replay is complete")
}

fn chunks(answer: &Answer, include_usage: bool) -> Vec<Value> {
    let stream = answer.to_sse("chatcmpl-new", 7, include_usage);
    let mut data: Vec<Bytes> = events(&stream).collect();
    assert_eq!(data.pop().expect("an end"), "[DONE]");
    data.iter().map(|data| serde_json::from_slice(data).expect("JSON")).collect()
}
