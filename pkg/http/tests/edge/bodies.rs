//! Request bodies that do not come.

use crate::fixture::{Edge, error};
use axum::body::Body;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt};
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::Instant;

type Pieces = BoxStream<'static, Result<Bytes, Infallible>>;

/// So many bytes, so many seconds after what was before.
fn piece(after: u64, bytes: usize) -> Pieces {
    let wait = async move {
        tokio::time::sleep(Duration::from_secs(after)).await;
        Ok(Bytes::from(vec![b' '; bytes]))
    };
    stream::once(wait).boxed()
}

/// The 408 of a body that comes so, and after how many seconds it came.
async fn timed_out(edge: &Edge, pieces: impl Stream<Item = Pieces> + Send + 'static) -> u64 {
    let started = Instant::now();
    let answer = edge.chat(Body::from_stream(pieces.flatten().chain(stream::pending()))).await;
    let after = started.elapsed().as_secs();
    assert_eq!(answer.status(), 408);
    assert_eq!(edge.record(&answer)["response"]["outcome"], "client_abort");
    assert_eq!(error(answer).await["code"], "request_timeout");
    after
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_silent_for_thirty_seconds_is_a_408_with_a_record() {
    let pieces = [piece(1, 60 << 10), piece(29, 1)];
    assert_eq!(timed_out(&Edge::new(), stream::iter(pieces)).await, 1 + 29 + 30);
}

#[tokio::test(start_paused = true)]
async fn a_byte_each_29_seconds_does_not_hold_a_connection() {
    assert_eq!(timed_out(&Edge::new(), stream::iter(0..).map(|_| piece(29, 1))).await, 30);
}

#[tokio::test(start_paused = true)]
async fn a_body_under_the_lowest_rate_ends_and_one_just_over_it_is_read() {
    let edge = Edge::new();
    let slow = stream::iter(0..).map(|_| piece(1, 500));
    // Of its 30 s it uses up 524 / 1024 s a second.
    assert_eq!(timed_out(&edge, slow).await, 57);
    let fast = stream::iter(0..900).map(|_| piece(1, 1100));
    let answer = edge.chat(Body::from_stream(fast.flatten())).await;
    assert_eq!(answer.status(), 400, "it was read whole, and is blank");
}
