//! The rate limit of each address.

use crate::client::Answer;
use crate::gateway::{Gateway, Setup, chat, eventually, mock};
use signet_mock::MockUpstream;

/// One request a second, two at once.
fn strict(mock: &MockUpstream) -> Setup {
    Setup::on(mock).set("limits.ip_rps", "1").set("limits.ip_burst", "2")
}

fn from(gateway: &Gateway, forwarded: &str) -> Answer {
    gateway.chat(&chat("What is a weir?"), &[("X-Forwarded-For", forwarded)])
}

#[test]
fn too_many_requests_are_refused_in_openais_shape_with_an_honest_wait() {
    let mock = mock();
    let gateway = strict(&mock).start();
    let answers: Vec<_> = (0..5).map(|_| gateway.chat(&chat("What is a weir?"), &[])).collect();
    assert_eq!(answers[..2].iter().map(|answer| answer.status).collect::<Vec<_>>(), [200, 200]);
    let refused = answers.iter().find(|answer| answer.status == 429).expect("a refusal");
    let error = refused.refusal(429);
    assert_eq!((&error["type"], &error["code"]), (&"rate_limit_error".into(), &"rate_limit_exceeded".into()));
    let (seconds, millis) = (refused.need("retry-after").to_owned(), refused.need("retry-after-ms").to_owned());
    let (seconds, millis): (u64, u64) = (seconds.parse().expect("seconds"), millis.parse().expect("ms"));
    assert!((1..=1).contains(&seconds) && (1..=1100).contains(&millis), "{seconds} s, {millis} ms");
    assert_eq!(refused.need("x-should-retry"), "true");
    assert_eq!(mock.counts().requests, 1);
    assert_eq!(gateway.metric("signet_limited_total{dimension=\"ip\"}"), answers.len() as u64 - 2);
    eventually("the next token", || (gateway.chat(&chat("What is a weir?"), &[]).status == 200).then_some(()));
}

#[test]
fn a_forged_address_neither_escapes_the_limit_nor_locks_its_owner_out() {
    let mock = mock();
    let gateway = strict(&mock).start();
    let statuses: Vec<_> = (0..10).map(|n| from(&gateway, &format!("203.0.113.{n}")).status).collect();
    assert!(statuses.iter().filter(|status| **status == 429).count() >= 7, "{statuses:?}");
    assert!(gateway.log().contains("trusted_proxies"), "the operator is told once: {}", gateway.log());
}

#[test]
fn behind_a_trusted_proxy_each_caller_has_its_own_bucket() {
    let mock = mock();
    let gateway = strict(&mock).set("server.trusted_proxies", "127.0.0.0/8, 10.0.0.0/8").start();
    let exhaust = |address: &str| (0..6).map(|_| from(&gateway, address).status).any(|status| status == 429);
    assert!(exhaust("203.0.113.1"));
    assert_eq!(from(&gateway, "203.0.113.2").status, 200);
    // What stands to the left of the first untrusted address is the caller's own invention.
    assert!(exhaust("198.51.100.9"));
    let forged: Vec<_> =
        (0..6).map(|n| from(&gateway, &format!("192.0.2.{n}, 198.51.100.9, 10.1.2.3")).status).collect();
    assert!(forged.iter().filter(|status| **status == 429).count() >= 4, "{forged:?}");
    // One /64 is one caller; a v4-mapped address is the v4 address.
    assert!(exhaust("2001:db8:1:2::1"));
    assert_eq!(from(&gateway, "2001:db8:1:2:ffff::9").status, 429);
    assert_eq!(from(&gateway, "2001:db8:1:3::1").status, 200);
    assert!(exhaust("203.0.113.77"));
    assert_eq!(from(&gateway, "::ffff:203.0.113.77").status, 429);
}

#[test]
fn health_is_never_limited_and_everything_else_is() {
    let mock = mock();
    let gateway = strict(&mock).start();
    for _ in 0..50 {
        assert_eq!((gateway.get("/healthz").status, gateway.get("/readyz").status), (200, 200));
    }
    let statuses: Vec<_> = ["/v1/models", "/v1/lineage/x", "/nothing", "/v1/models", "/v1/lineage/x", "/nothing"]
        .iter()
        .map(|path| gateway.get(path).status)
        .collect();
    assert!(statuses[3..].iter().all(|status| *status == 429), "{statuses:?}");
}

#[test]
fn a_refusal_reaches_a_caller_that_sends_all_of_its_body_first() {
    let mock = mock();
    let gateway = strict(&mock).start();
    let body = chat(&"long ".repeat(600_000)).to_string().into_bytes();
    let framing = format!("Content-Length: {}\r\n", body.len());
    let refused = eventually("a refusal", || {
        let answer = crate::bad_input::sent_whole(gateway.addr, &framing, std::slice::from_ref(&body));
        (answer.status != 200).then_some(answer)
    });
    assert_eq!(refused.refusal(429)["code"], "rate_limit_exceeded");
    let open = Setup::passthrough(&mock).start();
    crate::bad_input::sent_whole(open.addr, &framing, &[body]).refusal(401);
}
