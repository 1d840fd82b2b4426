//! The APIs beside chat, as their vendors' clients see them.

use serde_json::Value;

use crate::support::{PROMPT, body, drain, json, mock, send, text};
use signet_mock::{Config, MockUpstream, answer_text};

const VERSION: &str = "anthropic-version: 2023-06-01\r\n";
const STREAM: &str = ",\"stream\":true";

/// Each API that streams: path, headers, body with a place for more fields, its last event, its error event.
const APIS: [(&str, &str, &str, &str, &str); 4] = [
    (
        "/v1/chat/completions",
        "",
        r#"{"model":"m","messages":[{"role":"user","content":"P"}]M}"#,
        "data: [DONE]",
        "data: {\"error\":",
    ),
    ("/v1/completions", "", r#"{"model":"m","prompt":"P"M}"#, "data: [DONE]", "data: {\"error\":"),
    ("/v1/responses", "", r#"{"model":"m","input":"P"M}"#, "event: response.completed", "event: error"),
    (
        "/v1/messages",
        VERSION,
        r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"P"}]M}"#,
        "event: message_stop",
        "event: error",
    ),
];

fn post(mock: &MockUpstream, path: &str, headers: &str, body: &str) -> (Vec<u8>, std::io::Result<()>) {
    drain(&mut send(mock, &format!("POST {path}"), &format!("Connection: close\r\n{headers}"), body))
}

fn asked(template: &str, more: &str) -> String {
    template.replace("\"P\"", &format!("\"{PROMPT}\"")).replace("M}", &format!("{more}}}"))
}

fn events(answer: &[u8]) -> Vec<String> {
    let body = String::from_utf8(body(answer)).expect("UTF-8");
    body.split_terminator("\n\n").map(str::to_owned).collect()
}

#[test]
fn every_api_gives_the_same_words_and_streams_to_its_own_end() {
    for (path, headers, template, last, _) in APIS {
        let mock = mock();
        let (answer, _) = post(&mock, path, headers, &asked(template, ""));
        let escaped = serde_json::to_string(&answer_text(PROMPT)).expect("a string");
        assert!(String::from_utf8_lossy(&body(&answer)).contains(&escaped), "{path}");
        let (streamed, end) = post(&mock, path, headers, &asked(template, STREAM));
        end.expect("a clean close");
        assert!(String::from_utf8_lossy(&streamed).contains("content-type: text/event-stream"), "{path}");
        let events = events(&streamed);
        assert!(events.len() > 72 && events.last().is_some_and(|event| event.starts_with(last)), "{path}: {events:?}");
        assert_eq!(mock.counts().by_path[path], 2);
    }
}

#[test]
fn every_api_can_be_cut_failed_and_left_without_its_end() {
    for (path, headers, template, last, error) in APIS {
        let ask = |fault: &str| {
            post(&mock(), path, &format!("{headers}x-mock-fault: {fault}\r\n"), &asked(template, STREAM)).0
        };
        let cut = ask("cut-after=5");
        assert!(!cut.ends_with(b"0\r\n\r\n"), "{path}");
        assert_eq!(cut.windows(5).filter(|w| w == b"data:").count(), 5, "{path}");
        let failed = events(&ask("error-event=5"));
        assert!(failed[5].starts_with(error) && failed.len() <= 7, "{path}: {failed:?}");
        let endless = events(&ask("no-done"));
        assert!(endless.iter().all(|event| !event.starts_with(last)), "{path}");
        let awkward = String::from_utf8(body(&ask("split-utf8"))).expect("UTF-8");
        assert!(awkward.ends_with("\r\n\r\n") && !awkward.replace("\r\n", "").contains('\n'), "{path}");
        assert!(body(&ask("brotli")).starts_with(&[0x0C]), "{path}");
    }
}

#[test]
fn a_message_needs_its_version_and_its_limit_and_is_refused_in_anthropics_shape() {
    let mock = mock();
    let ask = |headers: &str, body: &str| {
        text(&mut send(&mock, "POST /v1/messages", &format!("Connection: close\r\n{headers}"), body))
    };
    let message = asked(APIS[3].2, "");
    let refused = ask("", &message);
    assert!(refused.starts_with("HTTP/1.1 400") && refused.contains("\r\nrequest-id: req_mock_1\r\n"));
    assert_eq!(json(&refused)["error"]["message"], "anthropic-version: header is required");
    assert_eq!(
        json(&ask(VERSION, &message.replace("\"max_tokens\":9,", "")))["error"]["type"],
        "invalid_request_error"
    );
    let overloaded = ask(&format!("{VERSION}x-mock-status: 529\r\n"), &message);
    assert!(overloaded.starts_with("HTTP/1.1 529"));
    assert_eq!(
        (&json(&overloaded)["type"], &json(&overloaded)["error"]["type"]),
        (&"error".into(), &"overloaded_error".into())
    );
}

#[test]
fn thinking_usage_and_stop_reasons_come_when_headers_say_so() {
    let headers = format!(
        "{VERSION}x-mock-thinking: 1\r\nx-mock-stop: pause_turn\r\nx-mock-cached-tokens: 100\r\nx-mock-cache-write-tokens: 20\r\n"
    );
    let answer: Value =
        serde_json::from_slice(&body(&post(&mock(), "/v1/messages", &headers, &asked(APIS[3].2, "")).0)).expect("JSON");
    assert_eq!((&answer["content"][0]["type"], &answer["stop_reason"]), (&"thinking".into(), &"pause_turn".into()));
    let usage = &answer["usage"];
    assert_eq!((&usage["cache_read_input_tokens"], &usage["cache_creation_input_tokens"]), (&100.into(), &20.into()));
    let reasoned = post(&mock(), "/v1/responses", "", &asked(APIS[2].2, r#","reasoning":{"effort":"low"}"#)).0;
    let reasoned: Value = serde_json::from_slice(&body(&reasoned)).expect("JSON");
    assert_eq!(
        (&reasoned["output"][0]["type"], &reasoned["output"][1]["type"]),
        (&"reasoning".into(), &"message".into())
    );
}

#[test]
fn a_tool_is_called_once_and_its_result_is_answered_with_text() {
    let mock = mock();
    let ask = |messages: &str| {
        let body_text = format!(
            r#"{{"model":"m","max_tokens":9,"messages":[{messages}],"tools":[{{"name":"look_up","input_schema":{{}}}}]}}"#
        );
        serde_json::from_slice::<Value>(&body(&post(&mock, "/v1/messages", VERSION, &body_text).0)).expect("JSON")
    };
    let question = r#"{"role":"user","content":"use the tool"}"#;
    let call = ask(question);
    assert_eq!((&call["content"][0]["name"], &call["stop_reason"]), (&"look_up".into(), &"tool_use".into()));
    let result = format!(
        r#"{question},{{"role":"assistant","content":[]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t","content":"4"}}]}}"#
    );
    assert_eq!(ask(&result)["content"][0]["text"], answer_text("use the tool"));
}

#[test]
fn azure_answers_at_its_own_paths_for_the_deployment() {
    let mock = mock();
    let chat = asked(APIS[0].2, STREAM);
    let dated = "/openai/deployments/d-1/chat/completions?api-version=2024-10-21";
    let answer = post(&mock, dated, "api-key: k\r\n", &chat.replace("\"model\":\"m\",", "")).0;
    assert!(String::from_utf8_lossy(&answer).contains("\r\napim-request-id: req_mock_1\r\n"));
    let streamed = events(&answer);
    assert!(streamed[0].contains("prompt_filter_results") && streamed[1].contains("\"model\":\"d-1\""));
    assert!(events(&post(&mock, "/openai/v1/chat/completions", "", &chat).0)[1].contains("\"model\":\"m\""));
    let undated = post(&mock, "/openai/deployments/d-1/chat/completions", "", &chat).0;
    assert_eq!(serde_json::from_slice::<Value>(&body(&undated)).expect("JSON")["error"]["code"], "404");
    let seen = &mock.requests()[0];
    assert_eq!((&*seen.path, &*seen.query), ("/openai/deployments/d-1/chat/completions", "api-version=2024-10-21"));
}

#[test]
fn each_vendor_is_asked_for_its_key_in_its_own_header() {
    let guarded =
        MockUpstream::start(Config { api_key: Some("k-1".into()), ..Config::default() }).expect("a free port");
    let status = |headers: &str| {
        post(&guarded, "/v1/messages", &format!("{VERSION}{headers}"), &asked(APIS[3].2, "")).0[9..12].to_vec()
    };
    assert_eq!([status("x-api-key: k-1\r\n"), status("api-key: k-1\r\n")], [b"200", b"401"]);
}

#[test]
fn tokens_are_counted_and_models_listed_in_anthropics_shape() {
    let mock = mock();
    let counted = post(
        &mock,
        "/v1/messages/count_tokens?beta=true",
        VERSION,
        &asked(APIS[3].2, "").replace("\"max_tokens\":9,", ""),
    )
    .0;
    assert_eq!(body(&counted), format!("{{\"input_tokens\":{}}}", PROMPT.len() / 4 + 1).into_bytes());
    assert_eq!(mock.requests()[0].query, "beta=true");
    let models = json(&text(&mut send(&mock, "GET /v1/models", &format!("Connection: close\r\n{VERSION}"), "")));
    assert_eq!((&models["has_more"], &models["data"][0]["type"]), (&false.into(), &"model".into()));
}
