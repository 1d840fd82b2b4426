//! More work than can be done.

use crate::fixture::{Edge, PATIENCE, ask};
use crate::slow::{chat, connect, eventually, limited, until_the_end};
use signet_http::LoadLimits;
use signet_mock::Behaviour;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Sends a head that announces a body which never comes, and returns what is said to that.
async fn head_alone(to: SocketAddr) -> String {
    let mut caller = connect(to).await;
    let head = "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\nExpect: 100-continue\r\n\r\n";
    caller.write_all(head.as_bytes()).await.expect("it reads");
    until_the_end(&mut caller).await
}

async fn whole(to: SocketAddr, request: &str) -> String {
    let mut caller = connect(to).await;
    caller.write_all(request.replacen("\r\n", "\r\nConnection: close\r\n", 1).as_bytes()).await.expect("it reads");
    until_the_end(&mut caller).await
}

fn field<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[tokio::test]
async fn at_ten_times_the_bound_the_admitted_are_served_and_all_others_refused_at_once_and_unread() {
    let edge = Edge::within(LoadLimits { max_inflight: 4, max_lag: Duration::ZERO });
    edge.mock.script([Behaviour { latency_ms: Some(300), times: Some(4), ..Behaviour::default() }]);
    let address = edge.listen(PATIENCE);
    let mut admitted = Vec::new();
    for stream in [true, false, true, false] {
        let body = ask("m", stream).replace("Why?", &format!("Why {}?", admitted.len()));
        let request = chat(&body);
        admitted.push(tokio::spawn(async move { whole(address, &request).await }));
    }
    eventually("four are in", || edge.app.metrics.inflight().get() == 4).await;
    for number in 0..36 {
        let answer = head_alone(address).await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.contains("\"code\":\"overloaded\""), "{answer}");
        assert_eq!(field(&answer, "retry-after"), Some(&*(1 + number % 5).to_string()));
    }
    assert!(whole(address, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").await.starts_with("HTTP/1.1 200 "));
    for answer in admitted {
        let answer = answer.await.expect("no panic");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    }
    eventually("nobody is in", || edge.app.metrics.inflight().get() == 0).await;
    assert_eq!(limited(&edge, "inflight"), Some(36));
    assert_eq!(edge.mock.counts().requests, 4);
    let denied = edge.records().iter().filter(|record| record["response"]["outcome"] == "denied").count();
    assert_eq!(denied, 36, "so few have records of their own");
    assert!(whole(address, &chat(&ask("m", false))).await.starts_with("HTTP/1.1 200 OK\r\n"));
}

/// A lane on a thread of its own, kept busy while it is told to be.
struct BusyLane {
    lane: Handle,
    busy: Arc<AtomicBool>,
    _end: oneshot::Sender<()>,
}

impl BusyLane {
    fn start() -> Self {
        let (end, ended) = oneshot::channel::<()>();
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (lane, busy) = (runtime.handle().clone(), Arc::new(AtomicBool::new(true)));
        let work = busy.clone();
        runtime.spawn(async move {
            loop {
                if work.load(Ordering::Relaxed) {
                    // A long queue, in one piece; not a part of the time between two looks, or each look would be punctual.
                    thread::sleep(Duration::from_millis(70));
                    tokio::task::yield_now().await;
                } else {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        });
        thread::spawn(move || runtime.block_on(ended));
        Self { lane, busy, _end: end }
    }
}

#[tokio::test]
async fn a_lane_that_is_behind_takes_no_new_work_but_tells_its_health_and_comes_back() {
    let edge = Edge::within(LoadLimits { max_inflight: 0, max_lag: Duration::from_millis(10) });
    let lane = BusyLane::start();
    let load = edge.app.load.clone();
    lane.lane.spawn(async move { load.watch().await });
    let address = edge.listen_on(&lane.lane, PATIENCE, None);
    let refused = async {
        loop {
            let answer = whole(address, &chat(&ask("m", false))).await;
            if answer.starts_with("HTTP/1.1 503 ") {
                return answer;
            }
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        }
    };
    let refused = tokio::time::timeout(Duration::from_secs(30), refused).await.expect("it is behind before long");
    assert!(refused.contains("\"code\":\"overloaded\"") && field(&refused, "retry-after").is_some(), "{refused}");
    assert!(limited(&edge, "lag").is_some());
    assert!(whole(address, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").await.starts_with("HTTP/1.1 200 "));
    assert!(head_alone(address).await.starts_with("HTTP/1.1 503 "), "its body is not waited for");
    lane.busy.store(false, Ordering::Relaxed);
    let served = async { while !whole(address, &chat(&ask("m", false))).await.starts_with("HTTP/1.1 200 ") {} };
    tokio::time::timeout(Duration::from_secs(30), served).await.expect("it takes work again");
}
