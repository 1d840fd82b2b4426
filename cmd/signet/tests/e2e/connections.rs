//! The bound on callers' connections.

use crate::bad_input::sent_whole;
use crate::client::Conn;
use crate::gateway::{Gateway, Setup, chat, eventually, mock};

/// A connection that the gateway has taken and keeps open, once there is room for it.
fn held(gateway: &Gateway) -> Conn {
    eventually("a place", || {
        let mut conn = Conn::open(gateway.addr);
        conn.send("GET", "/healthz", &[], b"");
        (conn.answer().status == 200).then_some(conn)
    })
}

#[test]
fn a_connection_too_many_is_told_so_and_counted_and_a_closed_one_makes_room() {
    let mock = mock();
    let gateway = Setup::on(&mock).set("server.max_connections", "2").start();
    let (first, mut second) = (held(&gateway), held(&gateway));
    let name = "signet_limited_total{dimension=\"connections\"}";
    let before = gateway.metric(name);
    let refused = gateway.chat(&chat("What is a quay?"), &[("X-Request-Id", "mine-1")]);
    let error = refused.refusal(503);
    assert_eq!((&error["type"], &error["code"]), (&"server_error".into(), &"overloaded".into()));
    assert_eq!((refused.need("retry-after"), refused.need("x-should-retry")), ("1", "true"));
    assert_eq!((refused.need("x-request-id"), refused.need("connection")), ("mine-1", "close"));
    // A caller that sends all before it looks sees it too.
    let framing = format!("Content-Length: {}\r\n", 3 << 20);
    sent_whole(gateway.addr, &framing, &[vec![b'x'; 3 << 20]]).refusal(503);
    assert_eq!(gateway.metric(name), before + 2);
    second.send("GET", "/healthz", &[], b"");
    assert_eq!(second.answer().status, 200, "those who are in stay in");
    drop(first);
    let mut third = held(&gateway);
    third.send("GET", &format!("/v1/lineage/{}", refused.id()), &[], b"");
    assert_eq!(third.answer().status, 200, "the refusal has its record");
    assert_eq!(mock.counts().requests, 0);
}
