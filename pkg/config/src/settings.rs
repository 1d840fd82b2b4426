//! The valid configuration.

use ipnet::IpNet;
use sha2::{Digest, Sha256};
use signet_dialect::Api;
use signet_dialect::kinds::Kind;
use signet_types::{ModelName, ProviderName, Secret};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// A configuration without faults. All paths are resolved against the data folder.
#[derive(Debug, Clone)]
pub struct Config {
    /// The folder of everything that must survive a restart.
    pub data_dir: PathBuf,
    /// The listener for callers.
    pub server: Server,
    /// The listener for operators.
    pub admin: Admin,
    /// Who callers are.
    pub auth: Auth,
    /// Where rows live.
    pub store: Store,
    /// A `redis`, `rediss`, `redis+unix`, `unix`, `valkey`, `redis-cluster` or `redis-sentinel` URL. None: no Redis.
    pub redis: Option<Secret<String>>,
    /// Bounds of the cache.
    pub cache: Cache,
    /// Semantic lookups.
    pub semantic: Semantic,
    /// The limit for each address. None: no limit.
    pub limits: Option<Limits>,
    /// The record of every answer.
    pub lineage: Lineage,
    /// At least one, with different names.
    pub providers: Vec<Provider>,
    /// Where models go. Empty: every model name goes to the first provider unchanged.
    pub models: Vec<Model>,
    /// What is allowed but probably not meant; for the log at start.
    pub warnings: Vec<String>,
    /// The files beside the configuration's own whose content it holds: keys and certificates of providers among them.
    pub files: Vec<PathBuf>,
    pub(crate) effective: BTreeMap<String, String>,
    /// SHA-256 of each secret and each file's content, by key. They never leave the process.
    pub(crate) prints: BTreeMap<String, [u8; 32]>,
}

impl Config {
    /// Every setting's key and the value that holds, in the order of keys, without secrets.
    pub fn effective(&self) -> impl Iterator<Item = (&str, &str)> {
        self.effective.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// SHA-256 over the lines of [`Config::effective`], each key and value with its length before it (u64, big endian).
    /// It tells configurations apart in lineage records and changes with no secret.
    pub fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        for part in self.effective().flat_map(|(key, value)| [key, value]) {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }
}

/// `[server]`
#[derive(Debug, Clone)]
pub struct Server {
    /// Where callers connect.
    pub listen: SocketAddr,
    /// Peers whose forwarding headers are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Longest request body.
    pub max_body_bytes: usize,
    /// Longest answer that is buffered for a header receipt.
    pub max_response_bytes: usize,
    /// Longest stream that is passed on, in bytes.
    pub max_stream_bytes: usize,
    /// After so long without an event a stream's caller is sent a sign of life; zero: never.
    pub heartbeat: Duration,
    /// Most of a stream that is kept for callers who share it, in bytes.
    pub stream_buffer_bytes: usize,
    /// How long a caller that reads slowly may hold up those who share its stream.
    pub slow_reader: Duration,
    /// Callers' connections at a time.
    pub max_connections: usize,
    /// Requests served at a time. 0: any number.
    pub max_inflight: u32,
    /// How far behind a lane may be before it takes no new work. Zero: any time.
    pub max_lag: Duration,
    /// The certificate of a TLS listener. None: plain HTTP.
    pub tls: Option<TlsFiles>,
    /// How long slow callers are borne with.
    pub slow: SlowCallers,
    /// How long a shutdown waits for answers in flight.
    pub shutdown_grace: Duration,
    /// Whether the configuration is read again when its file changes.
    pub reload_watch: bool,
    /// How long a start waits for the data folder of a dying predecessor.
    pub lock_wait: Duration,
}

/// Where a listener's certificate is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and those between it and the root, in PEM.
    pub chain: PathBuf,
    /// Its private key, in PEM.
    pub key: PathBuf,
}

/// How long slow callers are borne with, on both listeners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlowCallers {
    /// From the first byte of a head to its last.
    pub head: Duration,
    /// A connection without a request.
    pub idle: Duration,
    /// Silence within a body, and a body in all beyond the time that its bytes have at `body_rate_min`.
    pub body: Duration,
    /// Bytes a second; 0: any.
    pub body_rate_min: u64,
    /// How long a caller may take nothing of its answer.
    pub write: Duration,
}

/// `[admin]`
#[derive(Debug, Clone)]
pub struct Admin {
    /// Where operators connect.
    pub listen: SocketAddr,
    /// The admin token. None: one is generated into the data folder.
    pub token: Option<Secret<String>>,
}

/// `[auth]`
#[derive(Debug, Clone)]
pub struct Auth {
    /// How callers are told apart.
    pub mode: AuthMode,
    /// How long a key is believed while the store is down.
    pub cache_ttl: Duration,
    /// The tenant secret of the deployment. None: made once in the store.
    pub tenant_secret: Option<Secret<[u8; 32]>>,
}

/// How callers are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthMode {
    /// By their own credential, which goes to the provider; with a provider key, all are one local tenant.
    Passthrough,
    /// Not at all.
    Open,
}

/// `[store]`
#[derive(Debug, Clone)]
pub struct Store {
    /// The database.
    pub location: StoreLocation,
    /// A Postgres URL for migrations and LISTEN behind a transaction pooler.
    pub direct_url: Option<Secret<String>>,
}

/// Which database.
#[derive(Debug, Clone)]
pub enum StoreLocation {
    /// A file.
    Sqlite(PathBuf),
    /// A `postgres://` URL.
    Postgres(Secret<String>),
}

/// `[cache]`
#[derive(Debug, Clone, Copy)]
pub struct Cache {
    /// Lifetime of an entry unless the caller asks for another; not over `ttl_max`.
    pub ttl: Duration,
    /// Longest lifetime a caller can ask for.
    pub ttl_max: Duration,
    /// Lifetime of the answer to a question whose answer soon changes; zero: not kept.
    pub volatile_ttl: Duration,
    /// How long past its lifetime an exact answer may serve while no provider answers; zero: never.
    pub stale_if_error: Duration,
    /// How long a lookup may take before it is a miss.
    pub lookup_timeout: Duration,
    /// Size of the cache in process.
    pub l1_max_bytes: u64,
    /// Largest entry; not over `l1_max_bytes`.
    pub max_entry_bytes: usize,
    /// Whether entries are also kept in the store for a warm start.
    pub persist: bool,
}

/// `[semantic]`
#[derive(Debug, Clone)]
pub struct Semantic {
    /// Whether similar questions are looked up.
    pub mode: SemanticMode,
    /// Cosine similarity at or over which a neighbour is considered, in `(0, 1]`.
    pub similarity_min: f32,
    /// Where vectors are searched.
    pub backend: Backend,
    /// Questions held in process at most.
    pub max_entries: usize,
    /// Largest share of wrong answers among hits, from 0.0005 to 1.
    pub max_false_share: f64,
    /// Share of hits that are checked, from 0 to 1.
    pub sample_share: f64,
    /// The model that compares answers whose texts differ.
    pub judge: Option<ModelName>,
    /// The lowest similarity that labels may earn; not over `similarity_min`.
    pub similarity_lowest: f32,
    /// What turns text into vectors.
    pub encoder: Encoder,
    /// The sealed log of questions that `signet cache sample` reads. None: no question is kept.
    pub questions: Option<Questions>,
    /// Where the file of [`Encoder::MiniLm`] is.
    pub model_dir: PathBuf,
    /// How long [`Encoder::MiniLm`] may take before the lookup is a miss.
    pub rescore_deadline: Duration,
}

/// Bounds of the sealed log of questions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Questions {
    /// Share of eligible questions that is kept, from 0 to 1.
    pub share: f64,
    /// Most bytes on disk.
    pub max_bytes: u64,
    /// How old a question grows at most.
    pub max_age: Duration,
}

/// Where vectors are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// In process.
    Memory,
    /// In the Postgres of `store.url`, shared by all replicas.
    Pgvector,
}

/// Whether semantic hits are served. The later, the less strict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SemanticMode {
    /// No lookups.
    Off,
    /// Decide and log, but serve the fresh answer.
    Shadow,
    /// Serve.
    On,
}

/// What turns text into vectors.
#[derive(Debug, Clone)]
pub enum Encoder {
    /// The table in the binary.
    Embedded,
    /// The same, and all-MiniLM-L6-v2 for a second look at what it finds.
    MiniLm,
    /// An OpenAI-compatible embeddings endpoint.
    Endpoint {
        /// The base URL; `/embeddings` is appended.
        base_url: Url,
        /// The model to ask for.
        model: ModelName,
        /// Its credential.
        api_key: Option<Secret<String>>,
        /// How long an embedding may take before the lookup is a miss.
        timeout: Duration,
        /// The way there.
        way: Way,
    },
}

/// `[limits]`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests a second for each address, 1 to 1,000,000,000.
    pub ip_rps: u32,
    /// Requests at once for each address, at least 1.
    pub ip_burst: u32,
}

/// `[lineage]`
#[derive(Debug, Clone)]
pub struct Lineage {
    /// What a record survives.
    pub mode: LineageMode,
    /// Folder of the log.
    pub dir: PathBuf,
    /// Name of the log's operator; a signed note's key name, so without spaces and plus signs.
    pub origin: String,
    /// What happens when no record can be taken.
    pub on_full: OnFull,
    /// Most bytes of the log on disk.
    pub spool_max_bytes: u64,
    /// Most bytes of segments that are kept after they were shipped.
    pub retain_bytes: u64,
    /// Days that records are kept in the store beside today; 0: for ever.
    pub retain_days: u32,
    /// The Ed25519 key. None: generated into the data folder.
    pub key_file: Option<PathBuf>,
    /// The Ed25519 key of checkpoints. None: generated into the data folder.
    pub checkpoint_key_file: Option<PathBuf>,
    /// The offline roots that sign keyrings, in PEM. None: no keyring is taken.
    pub root_file: Option<PathBuf>,
    /// How many of them must agree. None: all.
    pub root_threshold: Option<usize>,
    /// A keyring to look at, beside those in the store.
    pub keyring_file: Option<PathBuf>,
    /// A checkpoint is signed this often, if the log grew.
    pub checkpoint_every: Duration,
    /// And whenever it grew by so many records.
    pub checkpoint_every_leaves: u64,
    /// Where checkpoints are taken to.
    pub anchors: Vec<AnchorPlace>,
    /// How often, if the log grew.
    pub anchor_every: Duration,
    /// Who holds one of these tokens may read every record on the admin listener, and nothing else there.
    pub auditor_tokens: Vec<Secret<String>>,
    /// Whether everyone may read checkpoints, tiles and public keys.
    pub public: bool,
    /// The X25519 public key for which bodies are sealed. None: no model keeps any.
    pub break_glass_key_file: Option<PathBuf>,
    /// The largest bodies that are kept, request and response together.
    pub capture_max_bytes: usize,
    /// For how many days they are kept.
    pub capture_days: u64,
}

/// How an endpoint is reached.
#[derive(Debug, Clone, Default)]
pub struct Way {
    /// Roots trusted beside the system's, PEM.
    pub ca_pem: Option<String>,
    /// The `http` URL of the proxy on the way there, which may hold credentials.
    pub proxy_url: Option<Secret<String>>,
}

/// `[[lineage.anchor]]`
#[derive(Debug, Clone)]
pub enum AnchorPlace {
    /// A file to append to.
    File(PathBuf),
    /// An endpoint that takes a POST.
    Http {
        /// `http` or `https`, without credentials, query and fragment.
        url: Url,
        /// Its bearer token.
        token: Option<Secret<String>>,
        /// The way there.
        way: Way,
    },
}

/// What a lineage record survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineageMode {
    /// Nothing: records are lost with the process.
    Memory,
    /// A crash of the process.
    Spool,
    /// A power cut.
    Strict,
    /// The loss of the machine: the database has it too.
    StrictDb,
}

/// What happens to requests while the log is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFull {
    /// They are refused with 503.
    Reject,
    /// They are served, counted, and the gap is signed.
    Degrade,
}

/// `[[provider]]`
#[derive(Debug, Clone)]
pub struct Provider {
    /// Its name, different from all others.
    pub name: ProviderName,
    /// Where its APIs are, and what it reads.
    pub kind: Arc<dyn Kind>,
    /// The APIs it has. None: those of its kind.
    pub apis: Option<Vec<Api>>,
    /// Callers' headers that it sees beside those of its kind; lower case.
    pub forward_headers: Vec<String>,
    /// Headers that it is always sent, in the order of their names; lower case.
    pub headers: Vec<(String, Secret<String>)>,
    /// `http` or `https`, without credentials, query and fragment.
    pub base_url: Url,
    /// The credential that replaces the caller's. None: the caller's own is passed on.
    pub api_key: Option<Secret<String>>,
    /// The way there.
    pub way: Way,
    /// The certificate chain to show and its key, PEM.
    pub client_auth: Option<(String, Secret<String>)>,
    /// How long a connection takes new requests.
    pub connection_age_max: Duration,
    /// How long a connection rests before it is closed.
    pub pool_idle: Duration,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long the first byte may take.
    pub first_byte_timeout: Duration,
    /// How long it may be silent in the middle of an answer.
    pub idle_timeout: Duration,
    /// How long an answer may take in all; not under any of the others.
    pub total_timeout: Duration,
    /// Ask streams for usage.
    pub inject_usage: bool,
}

/// `[[model]]`
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// The name callers use, different from all others.
    pub name: ModelName,
    /// Other names for the same, different from all others too.
    pub aliases: Vec<ModelName>,
    /// Where it goes; at least one.
    pub targets: Vec<Target>,
    /// Most requests that go upstream for one of a caller's.
    pub attempts_max: u32,
    /// Longest that a provider's `Retry-After` is waited for.
    pub retry_wait_max: Duration,
    /// The limit of tokens for a provider whose API needs one, where the caller gave none.
    pub max_tokens_default: Option<u32>,
    /// Whether similar questions are looked up for it; no less strict than for all.
    pub semantic_mode: SemanticMode,
    /// Its own floor; not under that for all. None: that for all.
    pub similarity_min: Option<f32>,
    /// Its own bound on the share of wrong answers among hits; not over that for all.
    pub max_false_share: f64,
    /// Whether the bodies of its answers are kept, sealed.
    pub capture: bool,
}

/// One place a model can go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// A configured provider.
    pub provider: ProviderName,
    /// The model's name there.
    pub model: ModelName,
    /// Its share among the targets of the same order.
    pub weight: u32,
    /// Lower ones are asked first; those of one order share the requests.
    pub order: u32,
}

impl Model {
    /// All names that callers may use for it.
    pub fn names(&self) -> impl Iterator<Item = &ModelName> {
        std::iter::once(&self.name).chain(&self.aliases)
    }
}
