//! Requests before the gateway can serve, and after it has stopped to.

use crate::fixture::{Edge, ask, error, header};

#[tokio::test]
async fn before_it_is_ready_a_refusal_carries_the_callers_request_id_and_no_promise_of_a_record() {
    let edge = Edge::starting();
    let answer = edge.chat(ask("m", false)).await;
    assert_eq!(answer.status(), 503);
    assert_eq!(header(&answer, "x-request-id"), Some("mine-1"));
    assert_eq!((header(&answer, "lineage-id"), header(&answer, "x-should-retry")), (None, Some("true")));
    assert_eq!(header(&answer, "retry-after"), Some("1"));
    assert!(header(&answer, "retry-after-ms").is_some_and(|ms| ms.parse::<u64>().is_ok_and(|ms| ms >= 1000)));
    assert_eq!(error(answer).await["code"], "not_ready");
}

#[tokio::test]
async fn while_it_drains_a_refusal_has_a_record() {
    let edge = Edge::new();
    edge.app.health.drain();
    let answer = edge.chat(ask("m", false)).await;
    assert_eq!((answer.status().as_u16(), header(&answer, "x-request-id")), (503, Some("mine-1")));
    assert_eq!(edge.record(&answer)["http"]["status"], 503);
    assert_eq!(error(answer).await["code"], "not_ready");
}
