//! From a valid configuration to the parts of a gateway.

use super::reload::Reloader;
use anyhow::{Context, Result, anyhow, bail};
use arc_swap::ArcSwap;
use http::{HeaderName, HeaderValue};
use signet_cache::{
    Cache, Embedder, ExactStore, Keyring, Mode, Question, RouteBase, Semantic, SemanticConfig, SharedIndex,
    SharedSearch, Trust, TrustPolicy, UNIT,
};
use signet_config::{
    AuthMode as ConfiguredAuth, Backend, Config, Encoder, LineageMode, OnFull, Questions, SemanticMode, SlowCallers,
    StoreLocation, Way,
};
use signet_http::{LoadLimits, Patience};
use signet_limits::{IpLimiter, Quota};
use signet_lineage::{BreakGlassKey, Gateway, Signer};
use signet_minilm::{MiniLm, Rescoring, source};
use signet_pipeline::{
    AuthMode, Capture, Durability, Judge, Outbox, Pace, Parts, Pipeline, QuestionDraw, QuestionFiles, Recorder,
    RemoteEmbedder, RouteRules, Sampler, Sampling, Settings, TreeView, Voice,
};
use signet_provider::{
    Board, ClientAuth, Fleet, HttpProvider, ModelRoute, ModelTarget, Provider, ProviderConfig, Proxy, Timeouts,
};
use signet_redis::{Config as RedisConfig, RedisExactStore};
use signet_spool::RecordLog;
use signet_store::{Options as StoreOptions, PgVectorIndex, Stores};
use signet_telemetry::Metrics;
use signet_types::{Clock, ModelName, ProviderName, Secret, SystemClock};
use signet_vector::{FlatIndex, StaticEncoder};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Raised when the rules that make cache keys change, so that an old entry is never found under a new meaning.
const POLICY_GENERATION: u64 = 1;

/// Most that is kept of all running streams together, for callers who share them.
const STREAMS_BYTES: usize = 256 << 20;

/// What the whole process shares.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Arc<Metrics>,
    /// What all fleets know of the providers.
    pub(crate) board: Arc<Board>,
}

pub(crate) fn stores(config: &Config) -> Result<Stores> {
    Stores::open(&store_options(config)).map_err(|error| anyhow!(error).context("store.url"))
}

/// The index that all replicas share, where one is configured.
pub(crate) fn shared_index(config: &Config) -> Result<Option<Arc<PgVectorIndex>>> {
    if config.semantic.backend != Backend::Pgvector || config.semantic.mode == SemanticMode::Off {
        return Ok(None);
    }
    let index = PgVectorIndex::open(&store_options(config), config.cache.lookup_timeout);
    Ok(Some(Arc::new(index.map_err(|error| anyhow!(error).context("store.url"))?)))
}

fn store_options(config: &Config) -> StoreOptions {
    let url = match &config.store.location {
        StoreLocation::Sqlite(file) => format!("sqlite://{}", file.display()),
        StoreLocation::Postgres(url) => url.expose().clone(),
    };
    // The configuration has resolved the path already; joining the data folder again would double a relative one.
    let mut options = StoreOptions::new(url, "");
    options.direct_url = config.store.direct_url.as_ref().map(|url| url.expose().clone());
    options
}

pub(crate) fn redis(config: &Config) -> Result<Option<Arc<RedisExactStore>>> {
    let Some(url) = &config.redis else { return Ok(None) };
    let mut redis = RedisConfig::new(url.expose().clone());
    redis.lookup_budget = config.cache.lookup_timeout;
    RedisExactStore::open(redis).map(|store| Some(Arc::new(store))).context("redis.url")
}

/// How long both listeners bear with slow callers.
pub(crate) const fn patience(config: &Config) -> Patience {
    let SlowCallers { head, idle, body, body_rate_min, write } = config.server.slow;
    Patience { head, idle, body, body_rate_min, write }
}

/// A board for all fleets of the process.
pub(crate) fn board() -> Arc<Board> {
    Arc::new(Board::new(Arc::new(SystemClock::new())))
}

/// How much work both listeners take on.
pub(crate) const fn load_limits(config: &Config) -> LoadLimits {
    LoadLimits { max_inflight: config.server.max_inflight, max_lag: config.server.max_lag }
}

/// Providers with the digests of all that reaches them.
pub(crate) type Providers = Vec<([u8; 32], Arc<HttpProvider>)>;

/// The configured providers, with the connections of those among `kept` to whom nothing is different.
pub(crate) fn providers(config: &Config, kept: &Providers) -> Result<Providers> {
    let providers = config.providers.iter().enumerate().map(|(at, provider)| {
        let print = config.provider_print(at);
        let before = kept.iter().find(|(before, _)| *before == print).map(|(_, provider)| provider.clone());
        let built = before.map_or_else(|| self::provider(provider), Ok);
        Ok((print, built.with_context(|| format!("provider {}", provider.name))?))
    });
    providers.collect()
}

fn provider(provider: &signet_config::Provider) -> Result<Arc<HttpProvider>> {
    let mut built = ProviderConfig::new(provider.name.clone(), provider.base_url.clone());
    built.api_key.clone_from(&provider.api_key);
    shape(&mut built, provider)?;
    built.timeouts = Timeouts {
        connect: provider.connect_timeout,
        first_byte: provider.first_byte_timeout,
        idle: provider.idle_timeout,
        total: provider.total_timeout,
    };
    Ok(Arc::new(HttpProvider::new(built)?))
}

/// Routes over `providers`.
pub(crate) fn fleet_of(config: &Config, board: Arc<Board>, providers: &Providers) -> Result<Fleet> {
    let named = providers.iter().map(|(_, provider)| provider.clone() as Arc<dyn Provider>).collect();
    Ok(Fleet::new(named, config.models.iter().map(route).collect(), board)?)
}

/// Routes over providers of their own.
pub(crate) fn fleet(config: &Config, board: Arc<Board>) -> Result<Fleet> {
    fleet_of(config, board, &providers(config, &Vec::new())?)
}

fn route(model: &signet_config::Model) -> ModelRoute {
    let target = |target: &signet_config::Target| ModelTarget {
        provider: target.provider.clone(),
        model: target.model.clone(),
        weight: target.weight,
        order: target.order,
    };
    ModelRoute {
        name: model.name.clone(),
        aliases: model.aliases.clone(),
        targets: model.targets.iter().map(target).collect(),
        attempts_max: model.attempts_max,
        retry_wait_max: model.retry_wait_max,
    }
}

/// The kind of a provider, which headers it sees, and the way there.
fn shape(built: &mut ProviderConfig, provider: &signet_config::Provider) -> Result<()> {
    built.kind = provider.kind.clone();
    built.apis.clone_from(&provider.apis);
    built.forward_headers = provider.forward_headers.iter().map(|name| name.parse()).collect::<Result<_, _>>()?;
    go(built, &provider.way)?;
    built.client_auth = provider.client_auth.as_ref().map(|(cert, key)| ClientAuth {
        cert_pem: cert.clone().into_bytes(),
        key_pem: Secret::new(key.expose().clone().into_bytes()),
    });
    built.connection_age_max = provider.connection_age_max;
    built.pool_idle_timeout = provider.pool_idle;
    for (name, value) in &provider.headers {
        let mut value: HeaderValue = value.expose().parse()?;
        value.set_sensitive(true);
        built.headers.insert(name.parse::<HeaderName>()?, value);
    }
    Ok(())
}

/// The way to an endpoint.
pub(crate) fn go(built: &mut ProviderConfig, way: &Way) -> Result<()> {
    built.extra_ca_pem = way.ca_pem.as_ref().map(|pem| pem.clone().into_bytes());
    built.proxy = way.proxy_url.as_ref().map(Proxy::new).transpose()?;
    Ok(())
}

pub(crate) fn recorder(config: &Config, common: &Common, log: Arc<dyn RecordLog>, signer: Signer) -> Recorder {
    let voice = Voice {
        origin: config.lineage.origin.clone(),
        gateway: Arc::new(Gateway {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config_sha256: config.digest(),
            instance: super::keys::hex(&super::keys::random()[..8]),
            durability: mode_name(config.lineage.mode).to_owned(),
        }),
        durability: match config.lineage.mode {
            LineageMode::Memory | LineageMode::Spool => Durability::Written,
            LineageMode::Strict => Durability::Synced,
            LineageMode::StrictDb => Durability::Stored,
        },
        degrade: config.lineage.on_full == OnFull::Degrade,
    };
    Recorder::new(log, signer, voice, common.clock.clone(), common.metrics.clone())
}

pub(crate) fn cache(
    config: &Config,
    shared: Option<Arc<RedisExactStore>>,
    index: Option<Arc<PgVectorIndex>>,
    keys: Arc<Keyring>,
    rescoring: Option<Arc<Rescoring>>,
) -> Result<Cache> {
    let shared = shared.map(|store| store as Arc<dyn ExactStore>);
    let search = index.map(|index| SharedSearch::new(index as Arc<dyn SharedIndex>, keys.clone()));
    Ok(Cache::new(exact_settings(config), shared, semantic(config, search, rescoring)?, keys))
}

pub(crate) const fn exact_settings(config: &Config) -> signet_cache::Config {
    signet_cache::Config {
        ttl: config.cache.ttl,
        ttl_max: config.cache.ttl_max,
        volatile_ttl: config.cache.volatile_ttl,
        stale_if_error: config.cache.stale_if_error,
        l1_max_bytes: config.cache.l1_max_bytes,
        max_entry_bytes: config.cache.max_entry_bytes,
    }
}

fn semantic(
    config: &Config,
    search: Option<SharedSearch>,
    rescoring: Option<Arc<Rescoring>>,
) -> Result<Option<Semantic>> {
    let settings = semantic_settings(config);
    if settings.mode == Mode::Off {
        return Ok(None);
    }
    // Builds the word lists now, so that the first request does not.
    drop(Question::read("What is a cache?"));
    let embedder = embedder(config)?;
    let layer = match search {
        Some(search) => Semantic::shared(settings, embedder, search),
        None => Semantic::new(settings, embedder, Arc::new(FlatIndex::new(settings.max_entries))),
    };
    Ok(Some(match rescoring {
        Some(rescoring) => layer.rescored(rescoring),
        None => layer,
    }))
}

/// Where the optional encoder's file is.
pub(crate) fn model_file(config: &Config) -> PathBuf {
    config.semantic.model_dir.join(source::FILE_NAME)
}

/// Scoring by the optional encoder, if it is configured. It has no model yet, but there is a file to load it from.
pub(crate) fn rescoring(config: &Config, deadline: Duration) -> Result<Option<Arc<Rescoring>>> {
    if !matches!(config.semantic.encoder, Encoder::MiniLm) || config.semantic.mode == SemanticMode::Off {
        return Ok(None);
    }
    let file = model_file(config);
    if !file.is_file() {
        bail!("semantic.encoder is \"minilm\", but there is no {}: run `signet model fetch`", file.display());
    }
    Ok(Some(Arc::new(Rescoring::new(deadline))))
}

/// The optional encoder's model.
pub(crate) fn model(file: &Path) -> Result<MiniLm> {
    let read = || Ok::<_, anyhow::Error>(MiniLm::read(&std::fs::read(file)?)?);
    read().with_context(|| format!("{} cannot be used; run `signet model fetch`", file.display()))
}

const fn mode(configured: SemanticMode) -> Mode {
    match configured {
        SemanticMode::Off => Mode::Off,
        SemanticMode::Shadow => Mode::Shadow,
        SemanticMode::On => Mode::On,
    }
}

/// What each configured model allows of the semantic cache.
fn rules(config: &Config) -> HashMap<ModelName, RouteRules> {
    let own = |model: &signet_config::Model| RouteRules {
        mode: mode(model.semantic_mode),
        floor: model.similarity_min,
        capture: model.capture,
        max_tokens_default: model.max_tokens_default,
    };
    config.models.iter().flat_map(|model| model.names().map(|name| (name.clone(), own(model)))).collect()
}

pub(crate) const fn semantic_settings(config: &Config) -> SemanticConfig {
    let mode = mode(config.semantic.mode);
    SemanticConfig { mode, floor: config.semantic.similarity_min, max_entries: config.semantic.max_entries }
}

pub(crate) fn embedder(config: &Config) -> Result<Arc<dyn Embedder>> {
    match &config.semantic.encoder {
        Encoder::Embedded | Encoder::MiniLm => Ok(Arc::new(StaticEncoder::embedded())),
        Encoder::Endpoint { base_url, model, api_key, timeout, way } => {
            let name = "semantic-embedder".parse().expect("a good name");
            let mut built = ProviderConfig::new(name, base_url.clone());
            built.api_key.clone_from(api_key);
            go(&mut built, way).context("semantic.embedder")?;
            let provider = HttpProvider::new(built).context("semantic.embedder")?;
            Ok(Arc::new(RemoteEmbedder::new(Arc::new(provider), model.clone(), *timeout)))
        }
    }
}

pub(crate) const fn mode_name(mode: LineageMode) -> &'static str {
    match mode {
        LineageMode::Memory => "memory",
        LineageMode::Spool => "spool",
        LineageMode::Strict => "strict",
        LineageMode::StrictDb => "strict+db",
    }
}

/// Everything that a pipeline needs and that was built before.
pub(crate) struct Built {
    pub(crate) cache: Arc<Cache>,
    pub(crate) keys: Arc<Keyring>,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) stores: Stores,
    pub(crate) outbox: Outbox,
    pub(crate) sampler: Option<Arc<Sampler>>,
    pub(crate) tree: Arc<TreeView>,
    pub(crate) questions: Option<Arc<QuestionDraw>>,
    pub(crate) capture: Option<Arc<Capture>>,
}

/// The key for which bodies are sealed. Where there is one, models may begin to keep them while the process runs.
pub(crate) fn break_glass_key(config: &Config) -> Result<Option<BreakGlassKey>> {
    let Some(file) = &config.lineage.break_glass_key_file else { return Ok(None) };
    let read = || Ok::<_, anyhow::Error>(BreakGlassKey::from_pem(&std::fs::read_to_string(file)?)?);
    read().map(Some).with_context(|| format!("lineage.break_glass_key_file = {}", file.display()))
}

/// Sampling, where there is a semantic layer. Its own fleet: connections belong to the runtime that made them.
pub(crate) fn sampling(
    config: &Config,
    common: &Common,
    cache: &Cache,
    recorder: &Arc<Recorder>,
    stores: &Stores,
    reloader: &Reloader,
) -> Result<Option<Sampling>> {
    let Some(layer) = cache.semantic() else { return Ok(None) };
    let semantic = &config.semantic;
    let trust = Trust::new(base(config), layer.encoder(), POLICY_GENERATION).with_own(bases(config));
    let trust = Arc::new(trust);
    reloader.trusting(trust.clone());
    let judge = match &semantic.judge {
        Some(model) => {
            let fleet = Arc::new(ArcSwap::from_pointee(fleet(config, common.board.clone())?));
            reloader.judging(fleet.clone());
            Some(Judge::new(fleet, model.clone()))
        }
        None => None,
    };
    Ok(Some(Sampling {
        trust,
        share: semantic.sample_share,
        floor: semantic.similarity_min,
        store: stores.labels.clone(),
        judge,
        recorder: recorder.clone(),
        clock: common.clock.clone(),
        metrics: common.metrics.clone(),
    }))
}

/// Where the trust in all models begins.
fn base(config: &Config) -> RouteBase {
    let semantic = &config.semantic;
    let policy = TrustPolicy {
        max_false_share: semantic.max_false_share,
        floor_e6: millionths(semantic.similarity_min),
        lowest_e6: millionths(semantic.similarity_lowest),
    };
    RouteBase { policy, mode: mode(semantic.mode) }
}

/// Where the trust in each configured model begins, by all of its names.
pub(crate) fn bases(config: &Config) -> HashMap<String, RouteBase> {
    let TrustPolicy { floor_e6, lowest_e6, .. } = base(config).policy;
    let own = |model: &signet_config::Model| {
        let floor = model.similarity_min.map(millionths);
        let policy = TrustPolicy {
            max_false_share: model.max_false_share,
            floor_e6: floor.unwrap_or(floor_e6),
            lowest_e6: floor.unwrap_or(lowest_e6),
        };
        RouteBase { policy, mode: mode(model.semantic_mode) }
    };
    let named = |model| signet_config::Model::names(model).map(move |name| (name.as_str().to_owned(), own(model)));
    config.models.iter().flat_map(named).collect()
}

/// The log of questions in the data folder, whether it is filled or not.
pub(crate) fn question_files(config: &Config) -> QuestionFiles {
    let bounds = config.semantic.questions.unwrap_or(Questions { share: 0.0, max_bytes: 0, max_age: Duration::MAX });
    QuestionFiles::new(config.data_dir.join("questions"), bounds.max_bytes, bounds.max_age)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a similarity is in (0, 1]")]
fn millionths(similarity: f32) -> u32 {
    (f64::from(similarity) * f64::from(UNIT)).round() as u32
}

/// Limits, switches, and what each model allows.
pub(crate) fn settings(config: &Config) -> Settings {
    let own_key = config.providers.iter().any(|provider| provider.api_key.is_some());
    Settings {
        auth: match config.auth.mode {
            ConfiguredAuth::Open => AuthMode::Open,
            ConfiguredAuth::Passthrough if own_key => AuthMode::Local,
            ConfiguredAuth::Passthrough => AuthMode::Passthrough,
        },
        trusted_proxies: config.server.trusted_proxies.clone(),
        max_response_bytes: config.server.max_response_bytes,
        max_stream_bytes: config.server.max_stream_bytes as u64,
        heartbeat: config.server.heartbeat,
        pace: Pace {
            buffer_bytes: config.server.stream_buffer_bytes,
            total_bytes: STREAMS_BYTES,
            slow_after: config.server.slow_reader,
        },
        wait_max: config.providers.iter().map(|provider| provider.total_timeout).max().unwrap_or_default(),
        usage_unasked: Arc::new(usage_unasked(config)),
        models: config
            .models
            .iter()
            .flat_map(signet_config::Model::names)
            .map(|name| name.as_str().to_owned())
            .collect(),
        rules: rules(config),
        policy_generation: POLICY_GENERATION,
    }
}

pub(crate) fn pipeline(config: &Config, common: &Common, built: Built) -> Result<Pipeline> {
    Ok(Pipeline::new(Parts {
        settings: settings(config),
        cache: built.cache,
        keys: built.keys,
        fleet: Arc::new(fleet(config, common.board.clone())?),
        recorder: built.recorder,
        records: built.stores.records,
        limiter: limiter(config)?,
        outbox: Arc::new(built.outbox),
        notices: built.stores.notices,
        tree: Some(built.tree),
        sampler: built.sampler,
        questions: built.questions,
        captures: built.stores.captures,
        capture: built.capture,
        faces: Arc::new(signet_http::ErrorFaces),
        clock: common.clock.clone(),
        metrics: common.metrics.clone(),
    }))
}

fn usage_unasked(config: &Config) -> HashSet<ProviderName> {
    let unasked = config.providers.iter().filter(|provider| !provider.inject_usage);
    unasked.map(|provider| provider.name.clone()).collect()
}

fn limiter(config: &Config) -> Result<Option<Arc<IpLimiter>>> {
    let Some(limits) = &config.limits else { return Ok(None) };
    let quota = Quota::new(limits.ip_rps, limits.ip_burst).context("limits")?;
    tracing::info!(%quota, "limiting each address");
    Ok(Some(Arc::new(IpLimiter::new(quota, IpLimiter::DEFAULT_MAX_KEYS))))
}
