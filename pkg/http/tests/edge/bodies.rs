//! Request bodies that do not come.

use crate::fixture::{Edge, error};
use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn a_body_that_is_silent_for_thirty_seconds_is_a_408_with_a_record() {
    let edge = Edge::new();
    let started = Instant::now();
    let piece = |text: &'static str| Ok::<_, Infallible>(Bytes::from_static(text.as_bytes()));
    let slow = stream::once(async move {
        tokio::time::sleep(Duration::from_secs(29)).await;
        piece("{\"model\":")
    });
    let answer = edge.chat(Body::from_stream(slow.chain(stream::pending()).boxed())).await;
    assert_eq!((answer.status().as_u16(), started.elapsed().as_secs()), (408, 29 + 30));
    assert_eq!(edge.record(&answer)["response"]["outcome"], "client_abort");
    assert_eq!(error(answer).await["code"], "request_timeout");
}
