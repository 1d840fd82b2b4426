//! A gateway whose log is in memory, with two models: `m` at the mock, `boom` at a provider that panics.

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::{Request, Response};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use signet_cache::{Cache, Keyring};
use signet_http::{App, Current, ErrorFaces, Lane, Load, LoadLimits, Patience, Serving, Tls};
use signet_lineage::{
    CaptureRow, CaptureStore, Columns, Gateway, Leaf, LogRow, Record, RecordStore, ShipFault, Signer,
};
use signet_mock::{Behaviour, Config as MockConfig, MockUpstream};
use signet_pipeline::{AuthMode, Durability, Pace, Parts, Pipeline, Recorder, Settings, Voice, outbox};
use signet_provider::{Board, Call, Fleet, HttpProvider, ModelRoute, Provider, ProviderConfig, Reply, UpstreamError};
use signet_spool::{MemoryLog, RecordLog};
use signet_telemetry::Metrics;
use signet_testkit::{MemoryKeyStore, MemoryNoticeStore};
use signet_types::{Clock, LineageId, LogId, ModelName, ProviderName, SystemClock, TenantId};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// A provider with a bug.
#[derive(Debug)]
struct Bomb(ProviderName);

#[async_trait]
impl Provider for Bomb {
    fn name(&self) -> &ProviderName {
        &self.0
    }

    fn base_url(&self) -> &'static str {
        "http://bomb.example/v1"
    }

    async fn send(&self, call: Call) -> Result<Reply, UpstreamError> {
        panic!("asked for {}", call.api.name())
    }
}

/// A database that is never asked: every record is still in the log.
struct NoRows;

#[async_trait]
impl RecordStore for NoRows {
    async fn register(&self, _: &LogRow) -> Result<LogRow, ShipFault> {
        Err(ShipFault::Unavailable("none".to_owned()))
    }

    async fn ship(&self, _: LogId, _: u32, _: &[Record]) -> Result<u64, ShipFault> {
        Err(ShipFault::Unavailable("none".to_owned()))
    }

    async fn pass_gap(&self, _: LogId, _: u32, _: &Record) -> Result<u64, ShipFault> {
        Err(ShipFault::Unavailable("none".to_owned()))
    }

    async fn find(&self, _: LineageId, _: Option<TenantId>) -> Result<Option<Record>, ShipFault> {
        Ok(None)
    }

    async fn erase(&self, _: &Record) -> Result<bool, ShipFault> {
        Ok(false)
    }

    async fn is_erased(&self, _: LogId, _: u64) -> Result<bool, ShipFault> {
        Ok(false)
    }

    async fn list(&self, _: Option<TenantId>, _: Option<LineageId>, _: u32) -> Result<Vec<Columns>, ShipFault> {
        Ok(Vec::new())
    }

    async fn logs(&self) -> Result<Vec<LogRow>, ShipFault> {
        Ok(Vec::new())
    }

    async fn records(&self, _: LogId, _: u64, _: u32) -> Result<Vec<Record>, ShipFault> {
        Ok(Vec::new())
    }

    async fn leaves(&self, _: LogId, _: u64, _: u32) -> Result<Vec<Leaf>, ShipFault> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl CaptureStore for NoRows {
    async fn put_captures(&self, _: &[Arc<CaptureRow>]) -> Result<(), ShipFault> {
        Ok(())
    }

    async fn capture(&self, _: LineageId) -> Result<Option<Vec<u8>>, ShipFault> {
        Ok(None)
    }

    async fn captures(&self, _: Option<LineageId>, _: u32) -> Result<Vec<(LineageId, Vec<u8>)>, ShipFault> {
        Ok(Vec::new())
    }

    async fn erase_captures(&self, _: [u8; 16], _: u64) -> Result<u64, ShipFault> {
        Ok(0)
    }

    async fn sweep_captures(&self, _: u64) -> Result<u64, ShipFault> {
        Ok(0)
    }
}

pub(crate) const PATIENCE: Patience = Patience {
    head: Duration::from_secs(10),
    idle: Duration::from_secs(75),
    body: Duration::from_secs(30),
    body_rate_min: 1024,
    write: Duration::from_mins(1),
};

pub(crate) struct Edge {
    pub(crate) app: Arc<App>,
    pub(crate) router: Router,
    log: Arc<MemoryLog>,
    pub(crate) mock: MockUpstream,
}

impl Edge {
    /// A gateway that serves.
    pub(crate) fn new() -> Self {
        Self::within(LoadLimits { max_inflight: 0, max_lag: Duration::ZERO })
    }

    /// One that takes on no more than so much.
    pub(crate) fn within(limits: LoadLimits) -> Self {
        let edge = Self::limited(limits);
        let mock = edge.mock.base_url();
        edge.before(&mock)
    }

    /// The same, serving, with its model `m` at this provider.
    pub(crate) fn before(self, provider: &str) -> Self {
        let pipeline = pipeline(&self.app, self.log.clone(), provider);
        self.app.pipeline.set(Arc::new(pipeline));
        self
    }

    /// A gateway that has no tenant secret yet.
    pub(crate) fn starting() -> Self {
        Self::limited(LoadLimits { max_inflight: 0, max_lag: Duration::ZERO })
    }

    fn limited(limits: LoadLimits) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let log = Arc::new(MemoryLog::new(LogId::generate(clock.now_ms()), 1 << 24));
        let metrics = Arc::new(Metrics::new());
        let app = Arc::new(App {
            pipeline: Current::default(),
            tree: None,
            public_tree: false,
            health: Arc::default(),
            metrics: metrics.clone(),
            clock,
            max_body_bytes: 1 << 20,
            load: Arc::new(Load::new(limits, metrics)),
            patience: PATIENCE,
        });
        let behaviour = Behaviour { chunks: Some(6), chunk_ms: Some(20), ..Behaviour::default() };
        let mock = MockUpstream::start(MockConfig { behaviour, ..MockConfig::default() }).expect("a free port");
        Self { router: signet_http::router(app.clone()), app, log, mock }
    }

    /// The same gateway on a socket.
    pub(crate) fn listen(&self, patience: Patience) -> SocketAddr {
        self.listen_on(&Handle::current(), patience, None)
    }

    /// The same, with the lane's own runtime, and over TLS.
    pub(crate) fn listen_on(&self, lane: &Handle, patience: Patience, tls: Option<Arc<Tls>>) -> SocketAddr {
        let listener = signet_http::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
        let address = listener.local_addr().expect("bound");
        let lanes = vec![Lane::new(lane.clone(), self.router.clone())];
        let serving = Serving { lanes, room: None, tls, patience, metrics: self.app.metrics.clone() };
        tokio::spawn(signet_http::serve(listener, serving, CancellationToken::new(), Duration::ZERO));
        address
    }

    /// The predicates of all records that are there.
    pub(crate) fn records(&self) -> Vec<Value> {
        let records = self.log.read_from(0, 10_000, 1 << 26).expect("a log that can be read");
        records.iter().map(|record| predicate(record)).collect()
    }

    /// Sends a chat request with this body.
    pub(crate) async fn chat(&self, body: impl Into<Body>) -> Response<Body> {
        let request = Request::post("/v1/chat/completions").header("x-request-id", "mine-1");
        let mut request = request.body(body.into()).expect("a good request");
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 9))));
        self.router.clone().oneshot(request).await.expect("a router cannot fail")
    }

    /// The predicate of the record that an answer names.
    pub(crate) fn record(&self, answer: &Response<Body>) -> Value {
        let id = header(answer, "lineage-id").expect("an answer with a record").parse().expect("an id");
        let record = self.log.find(id).expect("the record is in the log");
        predicate(&record)
    }
}

fn predicate(record: &Record) -> Value {
    let mut statement: Value = serde_json::from_slice(&record.payload).expect("a payload is JSON");
    statement["predicate"].take()
}

pub(crate) fn ask(model: &str, stream: bool) -> String {
    json!({"model": model, "stream": stream, "messages": [{"role": "user", "content": "Why?"}]}).to_string()
}

pub(crate) fn header<'a>(answer: &'a Response<Body>, name: &str) -> Option<&'a str> {
    answer.headers().get(name).map(|value| value.to_str().expect("plain text"))
}

/// The `error` object of a refusal.
pub(crate) async fn error(answer: Response<Body>) -> Value {
    let body = answer.into_body().collect().await.expect("a whole body").to_bytes();
    let mut whole: Value = serde_json::from_slice(&body).expect("JSON");
    whole["error"].take()
}

fn pipeline(app: &App, log: Arc<MemoryLog>, provider: &str) -> Pipeline {
    let keys = Arc::new(Keyring::new(Arc::new(MemoryKeyStore::default()), [7; 32]));
    let hour = Duration::from_hours(1);
    let bounds = signet_cache::Config {
        ttl: hour,
        ttl_max: hour,
        volatile_ttl: hour,
        stale_if_error: Duration::ZERO,
        l1_max_bytes: 1 << 20,
        max_entry_bytes: 1 << 16,
    };
    let (clock, metrics) = (app.clock.clone(), app.metrics.clone());
    Pipeline::new(Parts {
        settings: Settings {
            auth: AuthMode::Open,
            trusted_proxies: Vec::new(),
            max_response_bytes: 1 << 20,
            max_stream_bytes: 1 << 26,
            heartbeat: Duration::ZERO,
            pace: Pace { buffer_bytes: 1 << 20, total_bytes: 1 << 20, slow_after: hour },
            wait_max: hour,
            usage_unasked: Arc::default(),
            models: Vec::new(),
            rules: std::collections::HashMap::new(),
            policy_generation: 1,
        },
        cache: Arc::new(Cache::new(bounds, None, None, keys.clone())),
        keys,
        fleet: Arc::new(fleet(provider)),
        recorder: Arc::new(Recorder::new(log, Signer::generate(), voice(), clock.clone(), metrics.clone())),
        records: Arc::new(NoRows),
        limiter: None,
        outbox: Arc::new(outbox(None, None, None, clock.clone(), metrics.clone()).0),
        notices: Arc::new(MemoryNoticeStore::default()),
        tree: None,
        sampler: None,
        questions: None,
        captures: Arc::new(NoRows),
        capture: None,
        faces: Arc::new(ErrorFaces),
        clock,
        metrics,
    })
}

fn fleet(provider: &str) -> Fleet {
    let name = |text: &str| -> ProviderName { text.parse().expect("a name") };
    let model = |text: &str| -> ModelName { text.parse().expect("a name") };
    let config = ProviderConfig::new(name("mock"), provider.parse().expect("a URL"));
    let real = HttpProvider::new(config).expect("a good configuration");
    let route = |of: &str, at: &str| ModelRoute::in_order(model(of), [(name(at), model(of))]);
    let providers: Vec<Arc<dyn Provider>> = vec![Arc::new(real), Arc::new(Bomb(name("bomb")))];
    let board = Arc::new(Board::new(Arc::new(SystemClock::new())));
    Fleet::new(providers, vec![route("m", "mock"), route("boom", "bomb")], board).expect("a good fleet")
}

fn voice() -> Voice {
    Voice {
        origin: "test.example/signet".to_owned(),
        gateway: Arc::new(Gateway {
            version: "0".to_owned(),
            config_sha256: [0; 32],
            instance: "test".to_owned(),
            durability: "memory".to_owned(),
        }),
        durability: Durability::Written,
        degrade: false,
    }
}
