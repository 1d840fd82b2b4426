//! Connections to providers that cannot be made, or are ended with requests in flight.

use crate::client::Conn;
use crate::gateway::{Setup, chat, eventually, mock};
use crate::stack::{black_hole, free_address};
use serde_json::Value;
use signet_mock::{Config, MockUpstream, answer_text};
use std::collections::BTreeMap;

#[test]
fn a_provider_that_cannot_be_reached_is_told_with_the_cause_and_may_be_asked_again() {
    let (mock, hole) = (mock(), black_hole());
    // One more than DNS allows: it fails without asking a server.
    let nameless = format!("http://{}.invalid/v1", "a".repeat(64));
    for (url, status, cause) in [
        (nameless, 502, "connect_dns"),
        (format!("http://{}/v1", free_address()), 502, "connect_refused"),
        (format!("https://{}/v1", hole.local_addr().expect("bound")), 504, "connect_timeout"),
        (format!("https://{}/v1", mock.addr()), 502, "connect_tls"),
    ] {
        let setup = Setup::on(&mock).set("provider.0.base_url", &url).set("provider.0.connect_timeout_ms", "400");
        let gateway = setup.start();
        let answer = gateway.chat(&chat("What is a loach?"), &[]);
        assert_eq!(answer.refusal(status)["code"], cause, "{url}");
        assert_eq!(answer.need("x-should-retry"), "true", "{url}: nothing was sent");
        let attempt = gateway.record(&answer.id())["predicate"]["provider"]["attempts"][0].take();
        assert_eq!(attempt["reason"], cause, "{url}: {attempt}");
    }
    assert_eq!(mock.counts().requests, 0);
}

/// RFC 9113 §6.8.
#[test]
fn what_was_taken_on_before_a_goaway_is_answered_once_and_the_rest_is_sent_once_more() {
    const EACH: usize = 3;
    let mock = MockUpstream::start(Config { tls: true, h2: true, goaway_at: Some(EACH), ..Config::default() });
    let mock = mock.expect("a port");
    let folder = tempfile::TempDir::new().expect("a folder");
    let trusted = folder.path().join("ca.pem");
    std::fs::write(&trusted, mock.ca_pem().expect("it serves TLS")).expect("a file");
    let gateway = Setup::on(&mock).env("SSL_CERT_FILE", trusted.to_str().expect("plain")).start();
    // Each core that serves has a connection of its own to the provider; the first of them is told to go.
    let cores = std::thread::available_parallelism().expect("a number of cores").get();
    eventually("rest", || (gateway.metric("signet_connections") == 1).then_some(()));
    let prompts: Vec<_> = (0..EACH * cores).map(|n| format!("What is fish {n}?")).collect();
    let begin = |prompt: &String| gateway.begin(&chat(prompt), &[("X-Cache-Mode", "off")]);
    let mut conns: Vec<Conn> = prompts.iter().map(begin).collect();
    let mut again = 0;
    for (conn, prompt) in conns.iter_mut().zip(&prompts) {
        let answer = conn.answer();
        answer.is(200, "BYPASS");
        assert_eq!(answer.said(), answer_text(prompt));
        let attempts = gateway.record(&answer.id())["predicate"]["provider"]["attempts"].take();
        let attempts = attempts.as_array().map(Vec::len).expect("a list");
        assert!(answer.need("x-signet-attempts").starts_with(&attempts.to_string()));
        again += attempts - 1;
    }
    assert_eq!(again, EACH - 1, "all but the first stream were above the last one that was taken on");
    let mut sent: BTreeMap<String, Vec<bool>> = BTreeMap::new();
    for seen in mock.requests() {
        let body: Value = serde_json::from_slice(&seen.body).expect("JSON");
        let prompt = body["messages"][0]["content"].as_str().expect("a prompt").to_owned();
        sent.entry(prompt).or_default().push(seen.finished);
    }
    assert_eq!(sent.len(), prompts.len());
    let twice: Vec<_> = sent.values().filter(|sent| sent.len() == 2).collect();
    assert!(twice.len() == EACH - 1 && twice.iter().all(|sent| **sent == [false, true]), "{sent:?}");
    assert!(sent.values().all(|sent| sent.len() == 2 || **sent == [true][..]), "{sent:?}");
}
