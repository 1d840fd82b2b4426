//! Against a real server: what is kept, and what happens when it goes away.

use bytes::Bytes;
use fred::clients::Client;
use fred::interfaces::{ClientLike, KeysInterface};
use fred::types::config::Config as FredConfig;
use signet_cache::{CacheKey, ExactStore, StoreFault};
use signet_redis::{Config, RedisExactStore};
use signet_testkit::contract::unused_key as key;
use signet_testkit::exact_store_contract;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::time::timeout;

const HOUR: Duration = Duration::from_hours(1);
/// Far beyond every budget here; only a hang is longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// What `deploy/services.sh` says about the services. A test without its service fails; it is never skipped.
#[expect(clippy::disallowed_methods, reason = "tests are told where the services are")]
fn told(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run `deploy/services.sh start --dir DIR --redis --fast` and export DIR/services.env")
    })
}

fn name(key: &CacheKey) -> String {
    key.as_bytes().iter().fold("signet:x1:".to_owned(), |name, byte| format!("{name}{byte:02x}"))
}

/// A store with budgets that a busy test machine keeps.
fn open(url: impl Into<String>) -> RedisExactStore {
    let budgets =
        Config { lookup_budget: Duration::from_secs(2), write_budget: Duration::from_secs(2), ..Config::new(url) };
    RedisExactStore::open(budgets).expect("a good URL")
}

/// Waits until the store has its server.
async fn ready(store: &RedisExactStore) {
    let answers = async {
        while store.probe().await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, answers).await.expect("the server answers");
}

async fn connected(url: impl Into<String>) -> RedisExactStore {
    let store = open(url);
    ready(&store).await;
    store
}

async fn shared() -> RedisExactStore {
    connected(told("SIGNET_TEST_REDIS_URL")).await
}

/// The server seen without our code.
async fn raw() -> Client {
    let config = FredConfig::from_url(&told("SIGNET_TEST_REDIS_URL")).expect("a good URL");
    let client = Client::new(config, None, None, None);
    client.init().await.expect("the server answers");
    client
}

/// A server that a test may kill.
struct Server {
    child: Child,
    folder: TempDir,
    port: u16,
}

impl Server {
    async fn start() -> Self {
        let folder = TempDir::new().expect("a folder");
        let port = free_port().await.port();
        let child = spawn(folder.path(), port, &[]);
        Self { child, folder, port }
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    fn stop(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    fn restart(&mut self, flags: &[&str]) {
        self.child = spawn(self.folder.path(), self.port, flags);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(folder: &Path, port: u16, flags: &[&str]) -> Child {
    Command::new(told("SIGNET_TEST_REDIS_SERVER"))
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
        .arg(folder)
        .args(flags)
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server runs")
}

async fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("bound")
}

exact_store_contract!(tcp, shared().await);
exact_store_contract!(unix_socket, connected(format!("unix://{}", told("SIGNET_TEST_REDIS_SOCKET"))).await);

#[tokio::test]
async fn every_stored_key_has_a_bounded_life() {
    let (store, raw) = (shared().await, raw().await);
    for ttl in [Duration::from_micros(1), Duration::from_mins(1), Duration::MAX] {
        let key = key();
        store.put(&key, Bytes::from_static(b"x"), ttl).await.expect("stored");
        let left: i64 = raw.pttl(name(&key)).await.expect("an answer");
        assert!(left != -1, "{ttl:?}: without an end");
        assert!(left <= 315_360_000_000, "{ttl:?}: {left}");
    }
}

#[tokio::test]
async fn a_key_of_another_type_is_a_fault_and_does_not_open_the_breaker() {
    let (store, raw, taken) = (shared().await, raw().await, key());
    let script = "return redis.call('RPUSH', KEYS[1], 'x')";
    let _: i64 = fred::interfaces::LuaInterface::eval(&raw, script, name(&taken), "").await.expect("stored");
    for _ in 0..10 {
        let found = store.get(&taken).await;
        assert!(matches!(found, Err(StoreFault::Corrupt(_))), "{found:?}");
    }
    assert_eq!(store.get(&key()).await.expect("an answer"), None);
    let _: i64 = raw.del(name(&taken)).await.expect("removed");
}

#[tokio::test]
async fn with_no_server_a_start_does_not_wait_and_every_call_is_a_prompt_fault() {
    let store = RedisExactStore::open(Config::new(format!("redis://{}", free_port().await))).expect("a good URL");
    for _ in 0..200 {
        let found = timeout(PATIENCE, store.get(&key())).await.expect("no hang");
        assert!(matches!(found, Err(StoreFault::Timeout(_) | StoreFault::Unavailable(_))), "{found:?}");
    }
    let counts = store.counters().read();
    assert!(counts.refused > 0, "most were not even tried: {counts:?}");
    assert_eq!(counts.refused + counts.timeouts + counts.unavailable, 200);
    store.probe().await.expect_err("nobody is there");
}

#[tokio::test]
async fn a_server_that_comes_later_is_used_without_a_restart() {
    let mut server = Server::start().await;
    server.stop();
    let store = open(server.url());
    store.get(&key()).await.expect_err("nobody is there");
    server.restart(&[]);
    ready(&store).await;
}

#[tokio::test]
async fn a_password_that_is_mended_later_is_used_without_a_restart() {
    let mut server = Server::start().await;
    ready(&open(server.url())).await;
    server.stop();
    server.restart(&["--requirepass", "another"]);
    let store = open(format!("redis://:ours@127.0.0.1:{}", server.port));
    let found = timeout(PATIENCE, store.get(&key())).await.expect("no hang");
    assert!(matches!(found, Err(StoreFault::Timeout(_) | StoreFault::Unavailable(_))), "{found:?}");
    server.stop();
    server.restart(&["--requirepass", "ours"]);
    ready(&store).await;
}

#[tokio::test]
async fn a_server_that_restarts_is_used_again() {
    let (mut server, key) = (Server::start().await, key());
    let store = connected(server.url()).await;
    store.put(&key, Bytes::from_static(b"x"), HOUR).await.expect("stored");
    for _ in 0..2 {
        server.stop();
        let down = async { while store.get(&key).await.is_ok() {} };
        timeout(PATIENCE, down).await.expect("a fault, not a hang");
        server.restart(&[]);
        let up = async { while store.put(&key, Bytes::from_static(b"y"), HOUR).await.is_err() {} };
        timeout(PATIENCE, up).await.expect("used again");
        assert_eq!(store.get(&key).await.expect("an answer").as_deref(), Some(&b"y"[..]));
    }
}

#[tokio::test]
async fn a_server_that_stops_answering_costs_a_caller_its_budget_and_no_more() {
    let mut server = Server::start().await;
    ready(&open(server.url())).await;
    let brisk = RedisExactStore::open(Config::new(server.url())).expect("a good URL");
    ready(&brisk).await;
    signal(&server.child, "-STOP");
    let found = timeout(PATIENCE, brisk.get(&key())).await.expect("no hang");
    assert!(matches!(found, Err(StoreFault::Timeout(budget)) if budget == Duration::from_millis(25)), "{found:?}");
    let tripped = async {
        while brisk.counters().read().refused == 0 {
            let _ = brisk.get(&key()).await;
        }
    };
    timeout(PATIENCE, tripped).await.expect("the breaker opens");
    signal(&server.child, "-CONT");
    let up = async { while brisk.get(&key()).await.is_err() {} };
    timeout(PATIENCE, up).await.expect("used again");
    server.stop();
}

fn signal(child: &Child, which: &str) {
    let done = Command::new("kill").args([which, &child.id().to_string()]).status().expect("kill runs");
    assert!(done.success());
}

#[tokio::test]
async fn a_peer_that_accepts_and_never_answers_is_a_prompt_fault() {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("redis://{}", silent.local_addr().expect("bound"));
    let store = RedisExactStore::open(Config::new(url)).expect("a good URL");
    for _ in 0..20 {
        let found = timeout(PATIENCE, store.get(&key())).await.expect("no hang");
        assert!(matches!(found, Err(StoreFault::Timeout(_) | StoreFault::Unavailable(_))), "{found:?}");
    }
}

#[tokio::test]
async fn callers_that_give_up_do_not_mix_up_the_answers_of_others() {
    let store = Arc::new(shared().await);
    let keys: Vec<_> = (0..50).map(|_| key()).collect();
    for key in &keys {
        store.put(key, Bytes::copy_from_slice(key.as_bytes()), HOUR).await.expect("stored");
    }
    for round in 0..20 {
        let mut tasks = tokio::task::JoinSet::new();
        for (n, key) in keys.iter().copied().enumerate() {
            let store = store.clone();
            tasks.spawn(async move {
                let limit = if n % 2 == round % 2 { Duration::ZERO } else { PATIENCE };
                if let Ok(found) = timeout(limit, store.get(&key)).await {
                    assert_eq!(found.expect("an answer").as_deref(), Some(&key.as_bytes()[..]));
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.expect("every answer belongs to its key");
        }
    }
}

#[test]
fn the_connection_outlives_the_runtime_that_opened_it() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let store = runtime().block_on(shared());
    assert_eq!(runtime().block_on(store.get(&key())).expect("an answer"), None);
}

#[tokio::test]
async fn many_values_come_at_once_in_the_order_of_their_keys() {
    let store = shared().await;
    let keys = [key(), key(), key()];
    for (at, value) in [(0, "first"), (2, "third")] {
        store.put(&keys[at], Bytes::from_static(value.as_bytes()), HOUR).await.expect("stored");
    }
    let found = store.get_many(&keys).await.expect("found");
    assert_eq!(found, [Some(Bytes::from_static(b"first")), None, Some(Bytes::from_static(b"third"))]);
    assert!(store.get_many(&[]).await.expect("nothing").is_empty());
}
