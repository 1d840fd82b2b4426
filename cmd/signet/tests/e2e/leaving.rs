//! Callers who leave while nothing happens, and bodies that are asked for only once they will be read.

use crate::gateway::{CHAT, Gateway, Setup, chat, eventually, mock, streamed};
use serde_json::{Value, json};
use signet_mock::Behaviour;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

/// How the one target stands.
fn target(gateway: &Gateway) -> Value {
    gateway.admin_get("/admin/v1/route/state").json()[0].take()
}

#[test]
fn a_caller_who_leaves_in_the_pause_that_a_provider_asked_for_leaves_a_record_and_nothing_else() {
    let mock = mock();
    let gateway = Setup::on(&mock)
        .set("model.0.name", "m")
        .set("model.0.targets.0.provider", "mock")
        .set("model.0.targets.0.model", "m")
        .set("model.0.retry_wait_max_ms", "120000")
        .start();
    let patient = [("x-stainless-read-timeout", "600")];
    for (n, request) in [(1, chat("What is a rail?")), (2, streamed("What is a crake?"))] {
        mock.script([Behaviour { retry_after: Some("100".to_owned()), ..Behaviour::status(429) }]);
        let conn = gateway.begin(&request, &patient);
        eventually("the pause", || {
            let target = target(&gateway);
            (mock.counts().requests == n && target["limited_ms"].is_u64() && target["in_flight"] == 0).then_some(())
        });
        assert_eq!(gateway.metric("signet_inflight"), 1, "it waits");
        drop(conn);
        eventually("nobody is served", || (gateway.metric("signet_inflight") == 0).then_some(()));
        let outcome = "signet_lineage_records_total{outcome=\"client_abort\"}";
        eventually("its record", || (gateway.metric(outcome) == n).then_some(()));
    }
    let aborted = gateway.record_where(|record| record["predicate"]["response"]["outcome"] == "client_abort");
    assert_eq!(aborted["predicate"]["http"]["status"], 499, "{aborted}");
    // Nothing comes behind them: the next call is the third, and nobody else is asked for it.
    gateway.chat(&chat("What is a coot?"), &[]).is(200, "MISS");
    assert_eq!((mock.counts().requests, &target(&gateway)["in_flight"]), (3, &json!(0)));
}

/// The first line that comes for a head which waits to be told to send its body.
fn first_line(gateway: &Gateway, credential: &str) -> String {
    let mut caller = TcpStream::connect(gateway.addr).expect("it listens");
    let head =
        format!("POST {CHAT} HTTP/1.1\r\nHost: a\r\n{credential}Content-Length: 99\r\nExpect: 100-continue\r\n\r\n");
    caller.write_all(head.as_bytes()).expect("it reads");
    let mut line = String::new();
    BufReader::new(caller).read_line(&mut line).expect("a line");
    line
}

#[test]
fn a_body_is_not_asked_for_where_the_caller_is_refused_for_who_or_how_many_it_is() {
    let mock = mock();
    let gateway = Setup::passthrough(&mock).set("limits.ip_rps", "1").set("limits.ip_burst", "2").start();
    let key = "Authorization: Bearer k\r\n";
    assert!(first_line(&gateway, "").starts_with("HTTP/1.1 401 "));
    assert_eq!(first_line(&gateway, key), "HTTP/1.1 100 Continue\r\n");
    let refused = eventually("a refusal", || Some(first_line(&gateway, key)).filter(|line| !line.contains("100")));
    assert!(refused.starts_with("HTTP/1.1 429 "), "{refused}");
    assert_eq!(mock.counts().requests, 0);
}
