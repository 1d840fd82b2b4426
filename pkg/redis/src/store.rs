//! The store: a client on a runtime of its own, a budget and a breaker around every call.

use crate::counters::Counters;
use crate::url::{self, UrlError};
use async_trait::async_trait;
use bytes::Bytes;
use fred::clients::{Client, WithOptions};
use fred::error::{Error, ErrorKind};
use fred::interfaces::{ClientLike, KeysInterface};
use fred::types::config::{ConnectionConfig, Options, ReconnectPolicy, UnresponsiveConfig};
use fred::types::{Builder, Expiration};
use signet_cache::{Breaker, CacheKey, ExactStore, StoreFault};
use std::fmt::Write as _;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

/// The longest life of a value, ten years: Redis refuses what overflows its clock.
const TTL_MAX: Duration = Duration::from_hours(24 * 3650);
/// Commands waiting to be written at most; beyond it the server is not keeping up and a call is a fault.
const QUEUE: usize = 4096;
/// A frame without an answer for so long means that the connection is dead, whatever TCP says.
const UNRESPONSIVE: Duration = Duration::from_secs(1);
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
const BACKOFF_MS: (u32, u32) = (50, 1000);

/// How to reach the server and how long to wait for it.
#[derive(Clone)]
pub struct Config {
    /// `redis`, `rediss`, `redis+unix`, `unix`, `valkey`, `redis-cluster` or `redis-sentinel`.
    pub url: String,
    /// For how long a lookup may take.
    pub lookup_budget: Duration,
    /// For how long storing or removing may take; nobody waits for these.
    pub write_budget: Duration,
}

impl Config {
    /// `url` with lookups of 25 ms and writes of 250 ms at most.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), lookup_budget: Duration::from_millis(25), write_budget: Duration::from_millis(250) }
    }
}

impl std::fmt::Debug for Config {
    /// Without the URL: it may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config").field("lookup_budget", &self.lookup_budget).finish_non_exhaustive()
    }
}

/// Exact answers in Redis, shared by all replicas.
pub struct RedisExactStore {
    client: WithOptions<Client>,
    config: Config,
    breaker: Breaker,
    counters: Counters,
    /// Dropping it ends the runtime.
    _stop: oneshot::Sender<()>,
}

impl std::fmt::Debug for RedisExactStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisExactStore").field("counters", &self.counters).finish_non_exhaustive()
    }
}

impl RedisExactStore {
    /// Opens without waiting for the server, which may be down for now.
    ///
    /// # Errors
    /// Only for a URL that can never work.
    pub fn open(config: Config) -> Result<Self, UrlError> {
        let client = client(&config)?;
        let (stop, stopped) = oneshot::channel();
        run(client.clone(), stopped);
        // The library's own checks beside ours: do not queue while disconnected, never send twice.
        let options = Options { fail_fast: true, max_attempts: Some(1), ..Options::default() };
        let client = client.with_options(&options);
        Ok(Self { client, config, breaker: Breaker::default(), counters: Counters::default(), _stop: stop })
    }

    /// What happened so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Whether the server answers now; for readiness, so it asks even while the breaker is open.
    ///
    /// # Errors
    /// What stands in the way.
    pub async fn probe(&self) -> Result<(), StoreFault> {
        let limit = self.config.write_budget;
        let pong = timeout(limit, self.client.ping::<String>(None)).await.map_err(|_| StoreFault::Timeout(limit))?;
        pong.map(drop).map_err(|e| to_fault(&e, limit))
    }

    /// One call under the breaker and `budget`.
    async fn ask<T>(&self, budget: Duration, call: impl Future<Output = Result<T, Error>>) -> Result<T, StoreFault> {
        if !self.breaker.admits(Instant::now().into_std()) {
            self.counters.refused();
            return Err(StoreFault::Unavailable("not asked: Redis failed repeatedly".to_owned()));
        }
        let done = timeout(budget, call).await.map_err(|_| StoreFault::Timeout(budget));
        let done = done.and_then(|answer| answer.map_err(|e| to_fault(&e, budget)));
        match &done {
            Ok(_) => self.breaker.succeeded(),
            Err(fault) => {
                self.counters.failed(fault);
                if !matches!(fault, StoreFault::Corrupt(_)) {
                    self.breaker.failed(Instant::now().into_std());
                }
            }
        }
        done
    }
}

#[async_trait]
impl ExactStore for RedisExactStore {
    async fn get(&self, key: &CacheKey) -> Result<Option<Bytes>, StoreFault> {
        let call = self.client.get::<Option<Bytes>, _>(name(key));
        let found = self.ask(self.config.lookup_budget, call).await?;
        self.counters.looked_up(found.is_some());
        Ok(found)
    }

    async fn get_many(&self, keys: &[CacheKey]) -> Result<Vec<Option<Bytes>>, StoreFault> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let names: Vec<String> = keys.iter().map(name).collect();
        let call = async {
            if !self.client.is_clustered() {
                return self.client.mget::<Vec<Option<Bytes>>, _>(names).await;
            }
            // The keys lie in many slots, and no one command may reach for two.
            let mut found = Vec::with_capacity(names.len());
            for name in names {
                found.push(self.client.get(name).await?);
            }
            Ok(found)
        };
        let found = self.ask(self.config.lookup_budget, call).await?;
        if found.len() != keys.len() {
            return Err(StoreFault::Corrupt(format!("{} values for {} keys", found.len(), keys.len())));
        }
        for value in &found {
            self.counters.looked_up(value.is_some());
        }
        Ok(found)
    }

    async fn put(&self, key: &CacheKey, value: Bytes, ttl: Duration) -> Result<(), StoreFault> {
        let call = self.client.set::<(), _, _>(name(key), value, Some(expiry(ttl)), None, false);
        self.ask(self.config.write_budget, call).await?;
        self.counters.written();
        Ok(())
    }

    async fn remove(&self, key: &CacheKey) -> Result<(), StoreFault> {
        let call = self.client.del::<i64, _>(name(key));
        self.ask(self.config.write_budget, call).await?;
        self.counters.written();
        Ok(())
    }
}

/// 74 bytes whatever the prompt, so that no prompt becomes a key.
fn name(key: &CacheKey) -> String {
    let mut name = String::with_capacity(74);
    name.push_str("signet:x1:");
    for byte in key.as_bytes() {
        write!(name, "{byte:02x}").expect("writing to a String cannot fail");
    }
    name
}

/// Always an end, at least a millisecond away: Redis takes 0 for an error and no expiry for "for ever".
fn expiry(ttl: Duration) -> Expiration {
    Expiration::PX(i64::try_from(ttl.min(TTL_MAX).as_millis()).unwrap_or(i64::MAX).max(1))
}

fn to_fault(error: &Error, budget: Duration) -> StoreFault {
    match error.kind() {
        ErrorKind::Timeout => StoreFault::Timeout(budget),
        ErrorKind::Parse | ErrorKind::Protocol | ErrorKind::InvalidArgument | ErrorKind::InvalidCommand => {
            StoreFault::Corrupt(error.details().to_owned())
        }
        // A server's own words ("OOM ...", "WRONGTYPE ...", "READONLY ...") come as Unknown.
        _ if error.details().starts_with("WRONGTYPE") => StoreFault::Corrupt(error.details().to_owned()),
        _ => StoreFault::Unavailable(error.details().to_owned()),
    }
}

fn client(config: &Config) -> Result<Client, UrlError> {
    let mut parsed = url::parse(&config.url)?;
    // The reconnect policy shall apply to the first connection as well.
    parsed.fail_fast = false;
    let connection = ConnectionConfig {
        connection_timeout: CONNECT_LIMIT,
        internal_command_timeout: CONNECT_LIMIT,
        max_command_attempts: 1,
        max_command_buffer_len: QUEUE,
        unresponsive: UnresponsiveConfig { max_timeout: Some(UNRESPONSIVE), interval: UNRESPONSIVE / 5 },
        ..ConnectionConfig::default()
    };
    let mut builder = Builder::from_config(parsed);
    builder.set_connection_config(connection).set_policy(ReconnectPolicy::new_exponential(
        0,
        BACKOFF_MS.0,
        BACKOFF_MS.1,
        2,
    ));
    builder.build().map_err(|e| UrlError::Form(e.kind().to_str()))
}

/// Runs the connection on a thread and runtime of its own: a gateway thread busy with an answer does not delay it, and its
/// decoding does not delay answers. Connecting is tried for ever, also after what the library holds for final, a refused
/// password for instance: operators mend such things while we run.
fn run(client: Client, stopped: oneshot::Receiver<()>) {
    let connecting = async move {
        loop {
            match client.connect().await {
                Ok(Ok(())) => tracing::info!("the Redis connection ended"),
                Ok(Err(error)) => tracing::warn!(kind = error.kind().to_str(), "the Redis connection ended"),
                Err(error) => tracing::error!(%error, "the Redis connection task failed"),
            }
            tokio::time::sleep(Duration::from_millis(u64::from(BACKOFF_MS.1))).await;
        }
    };
    let work = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match runtime {
            Ok(runtime) => runtime.block_on(async {
                tokio::select! {
                    () = connecting => {}
                    _ = stopped => {}
                }
            }),
            Err(error) => tracing::error!(%error, "no runtime for Redis: its layer stays off"),
        }
    };
    if let Err(error) = std::thread::Builder::new().name("signet-redis".to_owned()).spawn(work) {
        tracing::error!(%error, "no thread for Redis: its layer stays off");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_the_same_size() {
        let text = name(&CacheKey::from_bytes([0xab; 32]));
        assert_eq!(text, format!("signet:x1:{}", "ab".repeat(32)));
    }

    #[test]
    fn every_value_has_an_end_that_redis_accepts() {
        let ms = |ttl| match expiry(ttl) {
            Expiration::PX(ms) => ms,
            other => panic!("{other:?}"),
        };
        assert_eq!(ms(Duration::ZERO), 1);
        assert_eq!(ms(Duration::from_micros(1)), 1);
        assert_eq!(ms(Duration::from_hours(1)), 3_600_000);
        assert_eq!(ms(Duration::MAX), 315_360_000_000);
    }
}
