//! What is kept of completions and responses, by way of what every API has in common.

use bytes::Bytes;
use serde_json::{Value, json};
use signet_dialect::{Api, Fold, Kept, Layer, Request};

const REQUESTS: [(Api, &str); 2] = [
    (Api::Completions, r#"{"model":"m","prompt":["a","b"],"stream":true}"#),
    (Api::Responses, r#"{"model":"m","input":"a","store":false,"stream":true}"#),
];

fn request(api: Api, body: &str) -> Request {
    Request::parse(api, &Bytes::copy_from_slice(body.as_bytes())).expect("a request")
}

fn value(body: &[u8]) -> Value {
    serde_json::from_slice(body).expect("JSON")
}

fn answer(api: Api) -> Value {
    let choice = |index: u64| json!({"index": index, "text": "x y", "logprobs": null, "finish_reason": "stop"});
    match api {
        Api::Completions => json!({"id": "c", "object": "text_completion", "created": 1, "model": "m-1",
            "choices": [choice(0), choice(1)], "usage": {"prompt_tokens": 2, "completion_tokens": 4}}),
        _ => {
            json!({"id": "r", "object": "response", "created_at": 1, "status": "completed", "error": null, "model": "m-1",
            "store": false, "output": [{"id": "msg", "type": "message", "status": "completed", "role": "assistant",
                "content": [{"type": "output_text", "text": "x y", "annotations": []}]}],
            "usage": {"input_tokens": 2, "output_tokens": 4}})
        }
    }
}

#[test]
fn a_kept_answer_is_the_same_from_json_from_its_stream_and_from_the_store() {
    for (api, body) in REQUESTS {
        let request = request(api, body);
        assert_eq!((request.api(), request.stream()), (api, true));
        let read = request.form().read(answer(api).to_string().as_bytes());
        let kept = read.storable().unwrap_or_else(|| panic!("{api:?} is kept")).clone();
        assert_eq!((read.served.as_deref(), read.usage.map(|u| (u.input, u.output))), (Some("m-1"), Some((2, 4))));
        let mut fold = Fold::new(request.form(), 1 << 20).expect("it has streams");
        fold.push(kept.to_sse("u", 7, true));
        let runs: Vec<Bytes> = std::iter::from_fn(|| fold.next_run().expect("short")).map(|run| run.raw).collect();
        assert_eq!(runs.concat(), kept.to_sse("u", 7, true), "{api:?}");
        let folded = fold.take_answer().expect("a whole answer");
        let stored = Kept::decode(kept.kind(), &kept.encode()).expect("stored");
        for other in [folded, stored] {
            assert_eq!((other.digest(), other.storable(Layer::Exact)), (kept.digest(), Ok(())), "{api:?}");
            assert_eq!(value(&other.to_json("u", 7)), value(&kept.to_json("u", 7)), "{api:?}");
        }
    }
}

#[test]
fn the_kinds_of_stored_answers_are_those_of_every_release() {
    let kinds = REQUESTS.map(|(api, body)| {
        let kept = request(api, body).form().read(answer(api).to_string().as_bytes()).kept.expect("an answer");
        kept.kind()
    });
    assert_eq!(kinds, [3, 4]);
    assert!(kinds.iter().all(|kind| Kept::is_kind(*kind)));
}

#[test]
fn only_a_request_that_rests_on_the_providers_state_is_not_stateless() {
    for (api, body) in REQUESTS {
        assert_eq!(request(api, body).stateless(), Ok(()));
    }
    let resting = request(Api::Responses, r#"{"model":"m","input":"a","previous_response_id":"resp_0"}"#);
    assert_eq!(resting.stateless(), Err("a previous response"));
}
