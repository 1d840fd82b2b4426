//! Callers that are slower than any network, with limits as an operator may set them.

use crate::client::Conn;
use crate::gateway::{CHAT, Setup, eventually, mock, records};
use serde_json::Value;

fn outcomes(data: &std::path::Path) -> Vec<Value> {
    let outcomes = records(data).into_iter().map(|mut record| record["predicate"]["response"]["outcome"].take());
    outcomes.filter(|outcome| !outcome.is_null()).collect()
}

#[test]
fn heads_bodies_and_connections_that_do_not_come_to_an_end_are_ended_and_only_a_body_has_a_record() {
    let mock = mock();
    let setup = ["head_timeout_ms", "body_timeout_ms"]
        .into_iter()
        .fold(Setup::on(&mock), |setup, key| setup.set(&format!("server.{key}"), "200"));
    let gateway = setup.start();
    let mut head = Conn::open(gateway.addr);
    head.write(b"POST /v1/chat").expect("it reads");
    let mut body = Conn::open(gateway.addr);
    body.write(format!("POST {CHAT} HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{{").as_bytes()).expect("it reads");
    let refused = body.answer();
    assert_eq!(refused.refusal(408)["code"], "request_timeout");
    assert!(body.head().is_err(), "and the connection ends");
    assert!(head.head().is_err(), "without a word");
    assert_eq!(gateway.metric("signet_limited_total{dimension=\"slow_head\"}"), 1);
    eventually("the connection of this question alone", || (gateway.metric("signet_connections") == 1).then_some(()));
    assert_eq!(outcomes(&gateway.data), ["client_abort"]);
}
