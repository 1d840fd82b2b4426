//! A bug in a handler is one caller's 500.

use crate::fixture::{Edge, ask, error, header};
use http_body_util::BodyExt;

#[tokio::test]
async fn a_panic_is_a_500_with_a_record_and_a_metric_and_other_streams_go_on() {
    let edge = Edge::new();
    let mut flowing = edge.chat(ask("m", true)).await;
    assert_eq!(flowing.status(), 200);
    let mut text = Vec::new();
    text.extend(flowing.body_mut().frame().await.expect("a frame").expect("no fault").into_data().expect("data"));
    assert!(!String::from_utf8_lossy(&text).contains("[DONE]"), "the stream is under way");
    for stream in [false, true] {
        let answer = edge.chat(ask("boom", stream)).await;
        assert_eq!(answer.status(), 500);
        assert_eq!(header(&answer, "x-request-id"), Some("mine-1"));
        let record = edge.record(&answer);
        assert_eq!(
            (&record["http"]["status"], &record["response"]["outcome"]),
            (&500.into(), &"internal_error".into())
        );
        let error = error(answer).await;
        assert_eq!((&error["type"], &error["code"]), (&"server_error".into(), &"internal_error".into()));
        assert!(!error.to_string().contains("asked for"), "the panic's own words stay here: {error}");
    }
    text.extend(flowing.into_body().collect().await.expect("a whole stream").to_bytes());
    assert!(String::from_utf8_lossy(&text).ends_with("data: [DONE]\n\n"));
    let metrics = edge.app.metrics.encode();
    assert!(metrics.contains("signet_panics_total 2"), "{metrics}");
    assert!(metrics.contains("signet_lineage_records_total{outcome=\"internal_error\"} 2"), "{metrics}");
}

#[tokio::test]
async fn callers_who_share_a_call_that_panics_each_get_their_500_and_their_record() {
    let edge = Edge::new();
    let (one, two) = tokio::join!(edge.chat(ask("boom", false)), edge.chat(ask("boom", false)));
    assert_ne!(header(&one, "lineage-id"), header(&two, "lineage-id"));
    for answer in [one, two] {
        assert_eq!(answer.status(), 500);
        assert_eq!(edge.record(&answer)["response"]["outcome"], "internal_error");
    }
}
