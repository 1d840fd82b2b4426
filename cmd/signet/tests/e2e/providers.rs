//! What a provider may answer that must not pass for an answer.

use crate::canned::Canned;
use crate::gateway::{Gateway, Setup, chat, mock, mock_with, streamed, with};
use crate::keeper::Keeper;
use crate::stack::free_address;
use serde_json::{Value, json};
use signet_lineage::Opening;
use signet_mock::{Behaviour, Config, Fault, MockUpstream};
use std::process::Command;
use tempfile::TempDir;

const JSON: &str = "200 OK\r\nContent-Type: application/json";
const ANSWER: &str = r#"{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"A bird."},"finish_reason":"stop"}]}"#;

fn before(canned: &Canned) -> Gateway {
    // The mock is not asked: the first provider's address is this one's.
    Setup::on(&mock()).set("provider.0.base_url", &canned.base_url()).start()
}

fn outcome(gateway: &Gateway, id: &str) -> Value {
    gateway.record(id)["predicate"]["response"]["outcome"].clone()
}

#[test]
fn a_provider_that_redirects_or_changes_the_protocol_has_not_answered() {
    for head in [
        "301 Moved Permanently\r\nLocation: http://elsewhere.example/v1",
        "302 Found\r\nLocation: http://elsewhere.example/v1",
        "304 Not Modified",
        "307 Temporary Redirect\r\nLocation: http://elsewhere.example/v1",
        "308 Permanent Redirect\r\nLocation: http://elsewhere.example/v1",
        "101 Switching Protocols\r\nUpgrade: other",
    ] {
        let canned = Canned::answering(head, "");
        let gateway = before(&canned);
        for request in [chat("What is a rail?"), streamed("What is a rail?")] {
            let answer = gateway.chat(&request, &[]);
            assert_eq!(answer.refusal(502)["type"], "upstream_error", "{head}");
            assert_eq!((answer.header("location"), answer.header("upgrade")), (None, None), "{head}");
            assert_eq!(outcome(&gateway, &answer.id()), "upstream_error", "{head}");
        }
        assert_eq!(canned.calls(), 2, "{head}: nothing was stored, and nobody went where it points");
    }
}

#[test]
fn an_answer_that_comes_packed_is_passed_on_and_kept_as_what_it_says() {
    let mock = mock_with(Behaviour::fault(Fault::Gzip));
    let gateway = Setup::on(&mock).start();
    let whole = gateway.chat(&chat("What is a gadwall?"), &[]);
    whole.is(200, "MISS");
    let stream = gateway.chat(&streamed("What is a smew?"), &[]);
    stream.is(200, "MISS");
    assert!(stream.text().ends_with("data: [DONE]\n\n"), "{}", stream.text());
    for answer in [&whole, &stream] {
        assert_eq!(answer.header("content-encoding"), None);
    }
    let (again, told) = (gateway.chat(&chat("What is a gadwall?"), &[]), gateway.chat(&chat("What is a smew?"), &[]));
    again.is(200, "EXACT");
    told.is(200, "EXACT");
    assert_eq!(again.said(), whole.said());
    assert!(!whole.said().is_empty() && !told.said().is_empty());
    assert_eq!(mock.requests().len(), 2);
}

#[test]
fn what_stands_before_the_answer_is_not_the_answer() {
    let canned = Canned::answering(
        "103 Early Hints\r\nLink: <x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: application/json",
        ANSWER,
    );
    let gateway = before(&canned);
    let answer = gateway.chat(&chat("What is a crake?"), &[]);
    answer.is(200, "MISS");
    assert_eq!((answer.said().as_str(), answer.header("link")), ("A bird.", None));
}

#[test]
fn a_provider_that_refuses_our_own_key_is_our_fault_and_its_words_stay_here() {
    let mock =
        MockUpstream::start(Config { api_key: Some("another".to_owned()), ..Config::default() }).expect("a port");
    let gateway = Setup::on(&mock).start();
    for status in [401, 403] {
        for request in [chat("What is a coot?"), streamed("What is a coot?")] {
            mock.script([Behaviour::status(status)]);
            let answer = gateway.chat(&request, &[]);
            let error = answer.refusal(502);
            assert_eq!((&error["type"], &error["code"]), (&"upstream_error".into(), &"provider_credentials".into()));
            assert!(!answer.text().contains("Mock error"), "{}", answer.text());
            assert_eq!(answer.need("x-should-retry"), "false");
            assert_eq!(outcome(&gateway, &answer.id()), "upstream_error");
        }
    }
    assert_eq!(gateway.chat(&chat("What is a coot?"), &[]).refusal(502)["code"], "provider_credentials");
    assert_eq!(mock.counts().requests, 5, "nothing was stored");
}

#[test]
fn a_stream_in_which_the_provider_reports_an_error_is_neither_complete_nor_stored() {
    let chunk = r#"data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"A bird."},"finish_reason":"stop"}]}"#;
    for error in
        [r#"{"error":{"message":"The model failed.","type":"server_error"}}"#, r#"{"message":"The model failed."}"#]
    {
        // All looks well but for this one event.
        let text = format!("{chunk}\n\nevent: error\ndata: {error}\n\ndata: [DONE]\n\n");
        let canned = Canned::answering("200 OK\r\nContent-Type: text/event-stream", text.clone().leak());
        let gateway = before(&canned);
        for call in 1..=2 {
            let answer = gateway.chat(&streamed("What is a snipe?"), &[]);
            answer.is(200, "MISS");
            assert_eq!(answer.text(), text, "what came is passed on");
            assert_eq!(outcome(&gateway, &answer.id()), "upstream_error");
            assert_eq!(canned.calls(), call);
        }
    }
}

#[test]
fn the_record_of_a_fallback_names_the_attempts_in_order_and_the_model_that_answered() {
    let (mock, data) = (mock(), TempDir::new().expect("a folder"));
    let gone = free_address();
    let gateway = Setup::on(&mock)
        .within(data.path())
        .set("provider.1.name", "gone")
        .set("provider.1.base_url", &format!("http://{gone}/v1"))
        .set("provider.1.api_key_env", "MOCK_KEY")
        .set("model.0.name", "m")
        .set("model.0.targets.0.provider", "gone")
        .set("model.0.targets.0.model", "first")
        .set("model.0.targets.1.provider", "mock")
        .set("model.0.targets.1.model", "second")
        .start();
    for request in [chat("What is a rail?"), streamed("What is a crake?"), chat("What is a rail?")] {
        let answer = gateway.chat(&request, &[]);
        assert_eq!(answer.status, 200);
        let said = gateway.record(&answer.id())["predicate"].take();
        if said["cache"]["decision"] == "hit_exact" {
            assert!(said["provider"].is_null() && said["parents"][0]["rel"] == "cache_source", "{said}");
            continue;
        }
        let attempts = said["provider"]["attempts"].as_array().expect("a list");
        let order: Vec<_> = attempts.iter().map(|it| (it["model"].as_str(), it["status"].as_u64())).collect();
        assert_eq!(order, [(Some("first"), Some(0)), (Some("second"), Some(200))]);
        assert_eq!(
            (said["model"]["routed"].as_str(), said["provider"]["name"].as_str()),
            (Some("second"), Some("mock"))
        );
    }
    drop(gateway.stop());
    Keeper::of(data.path()).accepts(data.path());
}

#[test]
fn the_record_commits_to_the_body_that_the_provider_who_answered_was_sent() {
    let mock = mock();
    let gateway = Setup::on(&mock)
        .set("provider.1.name", "gone")
        .set("provider.1.base_url", &format!("http://{}/v1", free_address()))
        .set("provider.1.api_key_env", "MOCK_KEY")
        .set("model.0.name", "m")
        .set("model.0.targets.0.provider", "gone")
        .set("model.0.targets.0.model", "first")
        .set("model.0.targets.1.provider", "mock")
        .set("model.0.targets.1.model", "second")
        .start();
    for (call, request) in [chat("What is a rail?"), streamed("What is a crake?")].iter().enumerate() {
        let answer = gateway.chat(request, &[]);
        answer.is(200, "MISS");
        let sent = mock.requests().remove(call).body;
        assert!(sent.windows(8).any(|part| part == b"\"second\""), "{}", String::from_utf8_lossy(&sent));
        let forwarded = gateway.record(&answer.id())["predicate"]["request"]["forwarded"].take();
        let opening: Opening = answer.need("lineage-opening").parse().expect("an opening");
        let committed = opening.commitment_key("forwarded").commit(&sent);
        let hex: String = committed.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
        assert_eq!((&forwarded["changed"], &forwarded["cm"]), (&Value::from(true), &Value::from(hex)));
    }
}

#[test]
fn usage_is_asked_for_where_the_provider_takes_it_whatever_another_one_takes() {
    let (plain, asked) = (mock(), mock());
    let gateway = Setup::on(&plain)
        .set("provider.0.inject_usage", "false")
        .set("provider.1.name", "second")
        .set("provider.1.base_url", &asked.base_url())
        .set("provider.1.api_key_env", "MOCK_KEY")
        .set("model.0.name", "m")
        .set("model.0.targets.0.provider", "mock")
        .set("model.0.targets.0.model", "m")
        .set("model.1.name", "n")
        .set("model.1.targets.0.provider", "second")
        .set("model.1.targets.0.model", "m")
        .start();
    for (model, mock, told) in [("m", &plain, false), ("n", &asked, true)] {
        let answer = gateway.chat(&with(streamed("What is a rail?"), json!({"model": model})), &[]);
        answer.is(200, "MISS");
        assert!(!answer.text().contains("\"usage\":{"), "the caller did not ask: {}", answer.text());
        let sent = String::from_utf8(mock.requests().remove(0).body.to_vec()).expect("text");
        assert_eq!(sent.contains("include_usage"), told, "{sent}");
        assert_eq!(gateway.record(&answer.id())["predicate"]["usage"].is_object(), told);
    }
}

#[test]
fn a_providers_own_request_ids_are_in_the_record_for_who_has_the_tenants_keys() {
    let (mock, data) = (mock(), TempDir::new().expect("a folder"));
    let gateway = Setup::on(&mock).within(data.path()).start();
    let requests = [chat("What is a rail?"), streamed("What is a crake?"), chat("What is a coot?")];
    let answers: Vec<_> = requests.iter().map(|request| gateway.chat(request, &[])).collect();
    let ids: Vec<_> = answers.iter().map(|answer| answer.need("x-upstream-request-id").to_owned()).collect();
    let records: Vec<_> = answers.iter().map(|answer| gateway.record(&answer.id())["predicate"].take()).collect();
    for (record, id) in records.iter().zip(&ids) {
        assert_eq!(record["provider"]["request_id"].as_str().map(str::len), Some(32));
        assert!(!record.to_string().contains(id.as_str()), "in clear nowhere");
    }
    drop(gateway.stop());
    let keeper = Keeper::of(data.path());
    let seconds = records[0]["time"]["completed_ms"].as_u64().expect("a time") / 1000;
    let day =
        Command::new("date").args(["-u", "+%F", "-d"]).arg(format!("@{seconds}")).output().expect("it runs").stdout;
    let day = String::from_utf8(day).expect("text");
    let verify = |ids: &[String]| {
        let line = |(id, record): (&String, &Value)| {
            let count = |name: &str| record["usage"][name].as_u64().unwrap_or_default();
            format!("mock,m,{},1,{},{},{id}\n", day.trim(), count("in"), count("out"))
        };
        let lines: String = ids.iter().zip(&records).map(line).collect();
        let head = "provider,model,day,requests,input_tokens,output_tokens,request_id\n";
        let file = keeper.key().with_file_name("usage.csv");
        std::fs::write(&file, format!("{head}{lines}")).expect("a file");
        let (data, file) = (data.path().to_str().expect("a name"), file.to_str().expect("a name").to_owned());
        keeper.verify(&["--data", data, "--reconcile", &file])
    };
    let (code, said) = verify(&ids);
    assert!(code == 0 && !said.contains("reconcile:"), "{code}: {said}");
    // As many as before, but one that the gateway wrote no record of.
    let mut other = ids.clone();
    "req_unseen".clone_into(&mut other[1]);
    let (code, said) = verify(&other);
    assert!(code == 14 && said.contains("no record holds the request ids req_unseen"), "{code}: {said}");
    std::fs::remove_file(data.path().join("tenant.secret")).expect("removed");
    let (code, said) = verify(&other);
    assert!(code == 0 && said.contains("not checked: request ids"), "{code}: {said}");
}

#[test]
fn a_providers_request_id_is_taken_under_either_of_its_names_and_none_is_made_up() {
    for (head, there) in [("200 OK\r\nContent-Type: application/json\r\nrequest-id: req_1", true), (JSON, false)] {
        let gateway = before(&Canned::answering(head, ANSWER));
        let answer = gateway.chat(&chat("What is a rail?"), &[]);
        let provider = gateway.record(&answer.id())["predicate"]["provider"].take();
        assert_eq!(provider["request_id"].is_string(), there, "{provider}");
        assert!(provider["attempts"].is_array());
    }
}

#[test]
fn names_of_a_provider_are_kept_as_far_as_names_go() {
    let long = "é".repeat(1 << 20);
    let answer = format!(
        r#"{{"id":"x","object":"chat.completion","created":1,"model":"{long}","choices":[{{"index":0,"message":{{"role":"assistant","content":"Yes."}},"finish_reason":"{long}"}}]}}"#
    );
    let canned = Canned::answering("200 OK\r\nContent-Type: application/json", answer.leak());
    let gateway = before(&canned);
    let answer = gateway.chat(&chat("Is it?"), &[]);
    assert_eq!(answer.status, 200);
    let kept = gateway.record(answer.need("lineage-id"));
    for name in ["/predicate/model/served", "/predicate/response/finish"] {
        assert_eq!(kept.pointer(name).and_then(|name| name.as_str()).map(str::len), Some(512), "{name}");
    }
}
