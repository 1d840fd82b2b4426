//! While no provider answers, the last answer to the very same request may serve; only then, and only where it is allowed.

use crate::gateway::{Gateway, Setup, chat, eventually, mock, streamed};
use crate::keeper::Keeper;
use serde_json::{Value, json};
use signet_mock::{Behaviour, Fault, MockUpstream, answer_text};
use tempfile::TempDir;

const PROMPT: &str = "What is a polder?";

/// A gateway that holds an answer to `PROMPT` whose second is over.
fn with_an_expired_answer(mock: &MockUpstream, data: &TempDir) -> Gateway {
    let gateway = Setup::on(mock).within(data.path()).set("cache.stale_if_error_s", "600").start();
    gateway.chat(&chat(PROMPT), &[("X-Cache-TTL", "1")]).is(200, "MISS");
    eventually("the end of the entry", || {
        let answer = gateway.chat(&chat(PROMPT), &[("Cache-Control", "only-if-cached")]);
        (answer.status == 504).then_some(())
    });
    gateway
}

#[test]
fn an_expired_answer_serves_its_own_request_while_the_provider_fails_and_its_record_says_so() {
    let (mock, data) = (mock(), TempDir::new().expect("a folder"));
    let gateway = with_an_expired_answer(&mock, &data);
    for failure in [Behaviour::status(500), Behaviour::status(529), Behaviour::fault(Fault::CloseBeforeHead)] {
        for request in [chat(PROMPT), streamed(PROMPT)] {
            mock.script([failure.clone()]);
            let answer = gateway.chat(&request, &[]);
            answer.is(200, "STALE");
            let said = if request["stream"] == json!(true) { answer.streamed() } else { answer.said() };
            assert_eq!(said, answer_text(PROMPT));
            let status = answer.need("cache-status");
            assert!(status.starts_with("signet; hit; detail=stale; ttl="), "{status}");
            assert!(answer.need("x-signet-attempts").starts_with('1'), "{}", answer.need("x-signet-attempts"));
            let record = gateway.record(&answer.id())["predicate"].take();
            assert_eq!((&record["cache"]["decision"], &record["usage"]["billed"]), (&json!("stale"), &json!(false)));
            assert_eq!(record["parents"][0]["rel"], "cache_source");
            assert_eq!(record["provider"]["attempts"].as_array().map(Vec::len), Some(1), "{record}");
        }
    }
    drop(gateway.stop());
    let (code, said) = Keeper::of(data.path()).verify(&["--data", data.path().to_str().expect("a name")]);
    assert_eq!(code, 0, "{said}");
}

#[test]
fn a_provider_that_answers_is_asked_and_its_refusals_are_passed_on() {
    let (mock, data) = (mock(), TempDir::new().expect("a folder"));
    let gateway = with_an_expired_answer(&mock, &data);
    for status in [400, 404, 422] {
        mock.script([Behaviour::status(status)]);
        assert_eq!(gateway.chat(&chat(PROMPT), &[]).status, status, "the provider is there");
    }
    gateway.chat(&chat(PROMPT), &[]).is(200, "MISS");
}

#[test]
fn a_caller_who_wants_a_fresh_answer_or_another_question_gets_the_failure() {
    let (mock, data) = (mock(), TempDir::new().expect("a folder"));
    let gateway = with_an_expired_answer(&mock, &data);
    let fresh: [(&str, &str); 5] = [
        ("Cache-Control", "no-cache"),
        ("Cache-Control", "no-store"),
        ("Cache-Control", "max-age=1"),
        ("Cache-Control", "stale-if-error=0"),
        ("X-Cache-Mode", "off"),
    ];
    for header in fresh {
        mock.script([Behaviour::status(500)]);
        assert_eq!(gateway.chat(&chat(PROMPT), &[header]).status, 500, "{header:?}");
    }
    for other in ["What is a polder", "What's a polder?"] {
        mock.script([Behaviour::status(500)]);
        assert_eq!(gateway.chat(&chat(other), &[]).status, 500, "no question is like it: {other}");
    }
}

#[test]
fn a_warm_start_keeps_expired_answers_for_their_window() {
    let (mock, data) = (mock(), TempDir::new().expect("a folder"));
    drop(with_an_expired_answer(&mock, &data).stop());
    let gateway = Setup::on(&mock).within(data.path()).set("cache.stale_if_error_s", "600").start();
    eventually("the durable rows", || {
        mock.script([Behaviour::status(500)]);
        (gateway.chat(&chat(PROMPT), &[]).status == 200).then_some(())
    });
    drop(gateway.stop());
    mock.reset();
    let gateway = Setup::on(&mock).within(data.path()).start();
    mock.script([Behaviour::status(500)]);
    assert_eq!(gateway.chat(&chat(PROMPT), &[]).status, 500, "not without the setting");
    let said: Value = gateway.chat(&chat(PROMPT), &[]).json();
    assert!(said["choices"].is_array());
}

/// The longest lifetime is over twice, so a rule that lives as long as the entries it takes is forgotten if it ever is.
#[test]
fn a_withdrawn_answer_is_not_served_stale_either_however_long_ago_that_was() {
    let (mock, data) = (mock(), TempDir::new().expect("a folder"));
    let setup = Setup::on(&mock).within(data.path()).set("cache.stale_if_error_s", "600");
    let setup = setup.set("cache.ttl_s", "1").set("cache.ttl_max_s", "1");
    let gateway = setup.start();
    let wrong = gateway.chat(&chat(PROMPT), &[]).id();
    let verdict = gateway.post(&format!("/v1/lineage/{wrong}/feedback"), &[], br#"{"cache":"wrong"}"#);
    assert_eq!(verdict.status, 200, "{}", verdict.text());
    for later in ["What is a weir?", "What is a fen?"] {
        gateway.chat(&chat(later), &[]).is(200, "MISS");
        eventually("the end of a lifetime that began later", || {
            let answer = gateway.chat(&chat(later), &[("Cache-Control", "only-if-cached")]);
            (answer.status == 504).then_some(())
        });
    }
    let refused = |gateway: &Gateway| {
        mock.script([Behaviour::status(500)]);
        assert_eq!(gateway.chat(&chat(PROMPT), &[]).status, 500, "it was taken back");
    };
    refused(&gateway);
    drop(gateway.stop());
    let gateway = setup.start();
    eventually("the durable rows", || {
        mock.script([Behaviour::status(500)]);
        (gateway.chat(&chat("What is a fen?"), &[]).status == 200).then_some(())
    });
    refused(&gateway);
}
