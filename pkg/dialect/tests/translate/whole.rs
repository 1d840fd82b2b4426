//! Whole answers and errors.

use super::{PAIRS, WANTED, golden, goldens, stream};
use bytes::Bytes;
use serde_json::{Value, json};
use signet_dialect::completions::CompletionsFold;
use signet_dialect::messages::MessageFold;
use signet_dialect::responses::ResponsesFold;
use signet_dialect::{Api, translate_error, translate_whole};
use signet_openai::Accumulator;

/// The whole answer that a stream of `api` makes.
fn folded(api: Api, stream: &str) -> Bytes {
    let events = signet_openai::sse::events(&Bytes::copy_from_slice(stream.as_bytes())).collect::<Vec<_>>();
    match api {
        Api::Chat => {
            let mut fold = Accumulator::new(1);
            for data in &events {
                fold.push(data);
            }
            fold.finish().expect("a whole stream").to_json("id", WANTED.created)
        }
        Api::Responses => {
            let mut fold = ResponsesFold::new();
            for data in &events {
                fold.push(data);
            }
            fold.finish().expect("a whole stream").to_json("resp_id", WANTED.created)
        }
        Api::Completions => {
            let mut fold = CompletionsFold::new(1);
            for data in &events {
                fold.push(data);
            }
            fold.finish().expect("a whole stream").to_json("cmpl-id", WANTED.created)
        }
        _ => {
            let mut fold = MessageFold::new();
            for data in &events {
                fold.push(data);
            }
            fold.finish().expect("a whole stream").to_json("id")
        }
    }
}

#[test]
fn a_whole_answer_says_what_its_stream_would_have_said() {
    for (pair, from, to) in PAIRS {
        for name in goldens(pair, ".stream.in.txt").into_iter().filter(|name| !name.starts_with("failure")) {
            let upstream = golden(pair, &name);
            let streamed = stream(to, from, WANTED, &[upstream.as_bytes()]).expect("a stream");
            let whole = translate_whole(to, from, WANTED, &folded(to, &upstream)).expect("a whole answer");
            // The ids of a response's items are made of the provider's.
            let streamed = streamed.replace("chatcmpl-1", "id").replace("msg_1", "id");
            assert_eq!(whole, folded(from, &streamed), "{pair}/{name}");
        }
    }
}

#[test]
fn what_is_no_answer_is_not_translated() {
    for (from, to, body) in [
        (Api::Chat, Api::Messages, "no"),
        (Api::Chat, Api::Messages, "{}"),
        (Api::Chat, Api::Messages, r#"{"choices":[{"message":{"content":"a"},"finish_reason":null}]}"#),
        (Api::Messages, Api::Chat, r#"{"content":[],"stop_reason":null}"#),
        (Api::Messages, Api::Chat, r#"{"type":"error","error":{}}"#),
        (Api::Chat, Api::Embeddings, "{}"),
    ] {
        assert!(translate_whole(from, to, WANTED, &Bytes::copy_from_slice(body.as_bytes())).is_err(), "{body}");
    }
}

#[test]
fn errors_keep_their_message_and_get_the_callers_shape() {
    let openai =
        |kind: &str, code: Value| json!({"error": {"message": "Why", "type": kind, "param": null, "code": code}});
    let anthropic = |kind: &str| json!({"type": "error", "error": {"type": kind, "message": "Why"}});
    for (status, kind, expected, body) in [
        (400, "invalid_request_error", 400, openai("invalid_request_error", Value::Null)),
        (401, "authentication_error", 401, openai("invalid_request_error", json!("invalid_api_key"))),
        (403, "permission_error", 403, openai("invalid_request_error", json!("insufficient_permissions"))),
        (404, "not_found_error", 404, openai("invalid_request_error", json!("model_not_found"))),
        (413, "request_too_large", 413, openai("invalid_request_error", json!("request_too_large"))),
        (429, "rate_limit_error", 429, openai("rate_limit_error", json!("rate_limit_exceeded"))),
        (504, "timeout_error", 504, openai("server_error", json!("timeout"))),
        (529, "overloaded_error", 503, openai("server_error", json!("server_overloaded"))),
        (500, "api_error", 500, openai("server_error", Value::Null)),
        (429, "an_error_of_tomorrow", 429, openai("rate_limit_error", json!("rate_limit_exceeded"))),
    ] {
        let (said, text) = translate_error(Api::Messages, Api::Chat, status, anthropic(kind).to_string().as_bytes());
        assert_eq!((said, serde_json::from_slice::<Value>(&text).expect("JSON")), (expected, body), "{kind}");
    }
    for (status, kind, code, expected) in [
        (400, "invalid_request_error", Value::Null, "invalid_request_error"),
        (401, "invalid_request_error", json!("invalid_api_key"), "authentication_error"),
        (404, "invalid_request_error", json!("model_not_found"), "not_found_error"),
        (429, "insufficient_quota", json!("insufficient_quota"), "rate_limit_error"),
        (429, "requests", json!("rate_limit_exceeded"), "rate_limit_error"),
        (503, "server_error", Value::Null, "overloaded_error"),
        (500, "server_error", Value::Null, "api_error"),
    ] {
        let (said, text) = translate_error(Api::Chat, Api::Messages, status, openai(kind, code).to_string().as_bytes());
        let text: Value = serde_json::from_slice(&text).expect("JSON");
        assert_eq!((said, text), (status, anthropic(expected)), "{kind}");
    }
    let (_, text) = translate_error(Api::Chat, Api::Messages, 502, b"<html>");
    assert!(String::from_utf8_lossy(&text).contains("The provider answered with status 502."));
    let same = translate_error(Api::Chat, Api::Responses, 529, b"<html>");
    assert_eq!(same, (529, Bytes::from_static(b"<html>")), "one vendor's errors are the same in its APIs");
}

#[test]
fn a_message_whose_blocks_have_another_order_than_a_chat_messages_fields_is_said_whole() {
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "sea"}});
    let (text, thinking) = (
        |text: &str| json!({"type": "text", "text": text}),
        |text: &str| json!({"type": "thinking", "thinking": text, "signature": "s"}),
    );
    let blocks = json!([text("First. "), thinking("hm"), call, text("Then.")]);
    let usage = json!({"input_tokens": 3, "output_tokens": 5});
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": blocks,
                         "stop_reason": "tool_use", "stop_sequence": null, "usage": usage});
    let chat = translate_whole(Api::Messages, Api::Chat, WANTED, &message.to_string().into()).expect("it can be said");
    let chat: Value = serde_json::from_slice(&chat).expect("JSON");
    let said = &chat["choices"][0]["message"];
    assert_eq!((&said["content"], &said["reasoning_content"]), (&json!("First. Then."), &json!("hm")));
    assert_eq!(said["tool_calls"][0]["function"], json!({"name": "look", "arguments": r#"{"at":"sea"}"#}));
}
