//! Callers who leave, wherever their request is at the time.

use crate::fixture::{Edge, PATIENCE, With, ask};
use crate::long::{HEAD, Peer, piece, send};
use crate::slow::{chat, connect, eventually, until_the_end};
use async_trait::async_trait;
use bytes::Bytes;
use signet_cache::{CacheKey, ExactStore, StoreFault};
use signet_mock::{Behaviour, Fault};
use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

async fn begun(to: SocketAddr, stream: bool) -> TcpStream {
    let mut caller = connect(to).await;
    caller.write_all(chat(&ask("m", stream)).as_bytes()).await.expect("it reads");
    caller
}

/// That `callers` have left records, and nothing else of them is left.
async fn nothing_is_left_of(edge: &Edge, callers: usize) {
    eventually("records", || edge.records().len() == callers).await;
    eventually("rest", || edge.is_at_rest()).await;
    assert!(edge.records().iter().all(|record| record["response"]["outcome"] == "client_abort"));
}

/// No time passes on this clock but what somebody waits for.
#[tokio::test(start_paused = true)]
async fn when_the_last_caller_leaves_the_provider_sees_it_within_a_second_in_both_modes() {
    for (stream, callers) in [(false, 1), (false, 3), (true, 1), (true, 3)] {
        let peer = Peer::new().await;
        let edge = peer.edge(Duration::ZERO, Duration::from_mins(10));
        let address = edge.listen(PATIENCE);
        let mut last = begun(address, stream).await;
        let mut wire = peer.asked().await;
        let mut others = Vec::new();
        for _ in 1..callers {
            others.push(begun(address, stream).await);
        }
        eventually("all wait", || edge.app.metrics.inflight().get() == callers).await;
        if stream {
            send(&mut wire, &format!("{HEAD}{}{}", piece(0), piece(1))).await;
            let mut heard = Vec::new();
            while !String::from_utf8_lossy(&heard).contains("\"1 \"") {
                assert_ne!(last.read_buf(&mut heard).await.expect("it flows"), 0);
            }
        }
        drop(others);
        let shared = usize::try_from(callers).expect("a few") - 1;
        eventually("the others' records", || edge.records().len() == shared).await;
        assert!(wire.try_read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
        let left = Instant::now();
        drop(last);
        assert!(!matches!(wire.read(&mut [0]).await, Ok(1..)));
        assert!(left.elapsed() < Duration::from_secs(1), "{:?}", left.elapsed());
        nothing_is_left_of(&edge, shared + 1).await;
    }
}

/// To a server it looks the same as the end of both sides.
#[tokio::test]
async fn a_caller_that_ends_its_sending_side_while_it_waits_has_left() {
    let edge = Edge::new();
    let address = edge.listen(PATIENCE);
    for (number, stream) in [false, true].into_iter().enumerate() {
        edge.mock.script([Behaviour::fault(Fault::Hang)]);
        let mut caller = begun(address, stream).await;
        eventually("the call", || edge.mock.counts().requests == number as u64 + 1).await;
        caller.shutdown().await.expect("an open socket");
        assert_eq!(until_the_end(&mut caller).await, "");
        eventually("its end", || edge.mock.counts().cancelled == number as u64 + 1).await;
        nothing_is_left_of(&edge, number + 1).await;
    }
}

/// A store that does not answer a second question.
#[derive(Default)]
struct Stuck {
    asked: AtomicUsize,
    waiting: AtomicUsize,
}

struct Waiting<'s>(&'s Stuck);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl ExactStore for Stuck {
    async fn get(&self, _: &CacheKey) -> Result<Option<Bytes>, StoreFault> {
        if self.asked.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
            return Ok(None);
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let _waiting = Waiting(self);
        pending().await
    }

    async fn put(&self, _: &CacheKey, _: Bytes, _: Duration) -> Result<(), StoreFault> {
        Ok(())
    }

    async fn remove(&self, _: &CacheKey) -> Result<(), StoreFault> {
        Ok(())
    }
}

#[tokio::test]
async fn a_caller_who_leaves_while_an_expired_answer_is_looked_for_leaves_a_record_and_nothing_else() {
    let store = Arc::new(Stuck::default());
    let (shared, stale_if_error) = (store.clone(), Duration::from_mins(10));
    let edge = Edge::with(With { shared: Some(shared), stale_if_error, ..With::default() });
    let address = edge.listen(PATIENCE);
    for (number, stream) in [false, true].into_iter().enumerate() {
        edge.mock.script([Behaviour::status(500)]);
        let caller = begun(address, stream).await;
        eventually("the second look", || store.waiting.load(Ordering::SeqCst) == 1).await;
        drop(caller);
        nothing_is_left_of(&edge, number + 1).await;
        assert_eq!(store.waiting.load(Ordering::SeqCst), 0, "the look is over too");
    }
    assert_eq!((edge.mock.counts().requests, edge.mock.counts().cancelled), (2, 0));
}
