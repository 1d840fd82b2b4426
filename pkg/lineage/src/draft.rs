//! What a record says, before it has a position. All numbers are integers; money is micro-USD; no prompt, answer, key or
//! address stands here in the clear.

use serde::{Deserialize, Serialize};
use signet_types::{LineageId, LogId, TenantId};
use std::sync::Arc;

/// A keyed hash cut to 16 bytes; equal content gives equal values inside one tenant and key epoch only.
pub type Fingerprint = [u8; 16];
/// A salted commitment: `SHA-256(key | bytes)`.
pub type Commitment = [u8; 32];

/// Everything a record will say except where it stands in the log.
#[derive(Debug, Clone)]
pub struct Draft {
    /// What kind of statement this is.
    pub kind: Kind,
    /// The record's id.
    pub id: LineageId,
    /// W3C trace id, 32 hex digits.
    pub trace_id: Option<String>,
    /// When things happened; informational, never used for ordering.
    pub time: Times,
    /// The process that speaks.
    pub gateway: Arc<Gateway>,
    /// Facts of a request; none for control records.
    pub exchange: Option<Box<Exchange>>,
    /// Facts of a control record, by name; integers and text only.
    pub control: Vec<(&'static str, ControlValue)>,
}

/// The kinds of record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// One HTTP exchange.
    Request,
    /// The first record of a log.
    LogOpen,
    /// The last record of a log that will not be continued.
    LogSeal,
    /// A process took up an existing log.
    Recovery,
    /// Records known to be missing.
    Gap,
    /// Refusals before authentication, folded.
    Denials,
    /// The wall clock jumped.
    Clock,
    /// A caller's verdict on an answer.
    Feedback,
    /// Stored answers were taken back by an operator.
    Purge,
    /// A setting was changed while the gateway ran.
    Config,
    /// A tenant's keys were destroyed, or one record's payload.
    Erasure,
    /// A sampled semantic decision was found right, wrong or undecidable.
    Label,
    /// The log's records or checkpoints are signed by another key from here on.
    KeyRotate,
    /// Records below a seq were dropped by retention.
    Prune,
    /// A sealed payload was opened by an operator.
    Open,
}

impl Kind {
    /// The kind as statements name it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::LogOpen => "log_open",
            Self::LogSeal => "log_seal",
            Self::Recovery => "recovery",
            Self::Gap => "gap",
            Self::Denials => "denials",
            Self::Clock => "clock",
            Self::Feedback => "feedback",
            Self::Purge => "purge",
            Self::Config => "config",
            Self::Erasure => "erasure",
            Self::Label => "label",
            Self::KeyRotate => "key_rotate",
            Self::Prune => "prune",
            Self::Open => "open",
        }
    }
}

/// A value in a control record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum ControlValue {
    /// A count or a sequence number, below 2^53.
    Int(u64),
    /// Yes or no.
    Bool(bool),
    /// ASCII text.
    Text(String),
}

/// Wall-clock labels (milliseconds since the Unix epoch) and monotonic spans (microseconds).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// The request's head had arrived.
    pub received_ms: u64,
    /// The first byte of the answer left.
    pub first_byte_ms: Option<u64>,
    /// The answer ended.
    pub completed_ms: u64,
    /// From the call upstream to its first byte.
    pub upstream_ttfb_us: Option<u64>,
    /// From arrival to end.
    pub total_us: u64,
}

/// The process that writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gateway {
    /// Crate version.
    pub version: String,
    /// SHA-256 of the effective configuration.
    pub config_sha256: [u8; 32],
    /// Random per process.
    pub instance: String,
    /// Durability mode: `memory`, `spool`, `strict`.
    pub durability: String,
}

/// The facts of one HTTP exchange.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// Who asked.
    pub caller: Caller,
    /// The route and its outcome in HTTP's terms.
    pub http: HttpFacts,
    /// The request as received and as sent on.
    pub request: RequestFacts,
    /// Which model was asked for and which one answered.
    pub model: ModelFacts,
    /// The provider that was called, if any was.
    pub provider: Option<ProviderFacts>,
    /// What the cache decided.
    pub cache: CacheFacts,
    /// Records that this answer stands on.
    pub parents: Vec<Parent>,
    /// What the limiter decided.
    pub limit: LimitFacts,
    /// Tokens, where known.
    pub usage: Option<UsageFacts>,
    /// What the caller got.
    pub response: ResponseFacts,
    /// What became of the bodies, on a route that keeps them sealed.
    pub capture: Option<CaptureFacts>,
}

/// What became of the bodies of an answer whose route keeps them sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaptureFacts {
    /// They were sealed and handed over to be stored; SHA-256 of the sealed bytes.
    Sealed([u8; 32]),
    /// They are longer than what is kept.
    TooLarge,
    /// There was no room on the way to the store.
    Dropped,
}

/// Who asked; keyed hashes only.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The tenant.
    pub tenant: TenantId,
    /// `passthrough`, `open`, `none`.
    pub auth: &'static str,
    /// The epoch of the tenant's key.
    pub key_epoch: u32,
    /// The tenant's key, wrapped by the secret, where it could not be kept in the store.
    pub wrapped_key: Option<Vec<u8>>,
}

/// The route and its outcome.
#[derive(Debug, Clone)]
pub struct HttpFacts {
    /// Path template.
    pub route: &'static str,
    /// HTTP status.
    pub status: u16,
    /// Whether the caller asked for a stream.
    pub stream: bool,
    /// The `X-Request-Id` that the caller chose, if it did.
    pub request_id: Option<String>,
}

/// The request.
#[derive(Debug, Clone)]
pub struct RequestFacts {
    /// Commitment to the body as received.
    pub cm: Commitment,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its fingerprint.
    pub fp: Option<Fingerprint>,
    /// `chat`, `embeddings`, `models`.
    pub op: &'static str,
    /// The body as sent upstream, if it was.
    pub forwarded: Option<Forwarded>,
}

/// A body as it was sent on, or as it came.
#[derive(Debug, Clone, Copy)]
pub struct Forwarded {
    /// Commitment to it.
    pub cm: Commitment,
    /// Its length in bytes.
    pub bytes: u64,
    /// Whether it differs from what stood on our other side.
    pub changed: bool,
}

/// Model names.
#[derive(Debug, Clone)]
pub struct ModelFacts {
    /// As asked for.
    pub asked: String,
    /// As sent upstream.
    pub routed: Option<String>,
    /// As the provider says it answered.
    pub served: Option<String>,
}

/// The provider called.
#[derive(Debug, Clone)]
pub struct ProviderFacts {
    /// Configured name.
    pub name: String,
    /// Scheme, host and port; no path, no credentials.
    pub endpoint: String,
    /// Fingerprint of the provider's request id.
    pub request_id: Option<Fingerprint>,
    /// Every attempt, in order.
    pub attempts: Vec<AttemptFacts>,
}

/// One attempt upstream.
#[derive(Debug, Clone)]
pub struct AttemptFacts {
    /// Configured provider.
    pub provider: String,
    /// Model as sent.
    pub model: String,
    /// Status, 0 where none came.
    pub status: u16,
    /// How long it took.
    pub ms: u64,
    /// What went wrong, where no status came.
    pub reason: Option<&'static str>,
    /// The pause before it, in milliseconds, where the provider had asked for one.
    pub wait_ms: Option<u64>,
}

/// What the cache decided, as it decided it.
#[derive(Debug, Clone, Default)]
pub struct CacheFacts {
    /// `miss`, `hit_exact`, `hit_semantic`, `coalesced`, `bypass`, `refresh`, `stale`, `none`.
    pub decision: &'static str,
    /// Fingerprint of the cache key.
    pub key_fp: Option<Fingerprint>,
    /// `exact`, `same-words`, `vector`.
    pub tier: Option<&'static str>,
    /// Similarity in millionths.
    pub score_e6: Option<u64>,
    /// The floor in force, in millionths.
    pub floor_e6: Option<u64>,
    /// The gate that refused the best candidate.
    pub refused_by: Option<&'static str>,
    /// Why the question was not eligible for the semantic cache.
    pub ineligible: Option<&'static str>,
    /// Encoder identity.
    pub encoder: Option<String>,
    /// Age of the entry served.
    pub age_ms: Option<u64>,
    /// Lifetime of the entry served or stored.
    pub ttl_ms: Option<u64>,
    /// How many records the answer stands on, where that is more than it names.
    pub sources: Option<u64>,
}

/// An edge of the lineage graph.
#[derive(Debug, Clone)]
pub struct Parent {
    /// What the other record is to this one.
    pub rel: Relation,
    /// Its log.
    pub log: LogId,
    /// Its epoch.
    pub epoch: u32,
    /// Its place.
    pub seq: u64,
    /// Its id.
    pub id: LineageId,
    /// Its leaf hash.
    pub leaf_hash: [u8; 32],
    /// Fingerprint of its response under the key epoch below.
    pub response_fp: Option<Fingerprint>,
    /// Epoch of the tenant key that made the fingerprint.
    pub key_epoch: u32,
}

/// What a parent is to its child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// The answer came from the entry that this record filled.
    CacheSource,
    /// The answer is the one that this record's upstream call brought.
    CoalescedLeader,
}

impl Relation {
    /// The relation as statements name it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CacheSource => "cache_source",
            Self::CoalescedLeader => "coalesced_leader",
        }
    }
}

/// What the limiter decided.
#[derive(Debug, Clone, Copy)]
pub struct LimitFacts {
    /// `allow`, `deny`, `off`.
    pub decision: &'static str,
    /// Wait until the next admission, when denied.
    pub retry_after_ms: Option<u64>,
}

/// Tokens as the provider counted them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageFacts {
    /// Prompt tokens.
    pub input: u64,
    /// Completion tokens, reasoning included.
    pub output: u64,
    /// Prompt tokens that the provider had cached.
    pub cached_input: u64,
    /// Reasoning tokens, part of `output`.
    pub reasoning: u64,
    /// Whether the provider did this work for this request (false on a hit).
    pub billed: bool,
}

/// What the caller got.
#[derive(Debug, Clone)]
pub struct ResponseFacts {
    /// Commitment to the body as sent.
    pub cm: Commitment,
    /// Its length in bytes.
    pub bytes: u64,
    /// Fingerprint of the canonical answer (not of the bytes: a replay has a new id).
    pub fp: Option<Fingerprint>,
    /// Stream events sent; 0 for JSON.
    pub chunks: u64,
    /// The first choice's finish reason.
    pub finish: Option<String>,
    /// How it ended.
    pub outcome: Outcome,
    /// The provider's body, where it was read.
    pub upstream: Option<Forwarded>,
}

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Whole.
    Complete,
    /// The caller left.
    ClientAbort,
    /// The provider failed or cut the answer.
    UpstreamError,
    /// A time limit ended it.
    Timeout,
    /// Refused by a rule of ours.
    Denied,
    /// The request could not be understood.
    Invalid,
    /// A fault of ours.
    InternalError,
    /// The process died before the end; written at recovery.
    Interrupted,
}

impl Outcome {
    /// The outcome as statements name it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::ClientAbort => "client_abort",
            Self::UpstreamError => "upstream_error",
            Self::Timeout => "timeout",
            Self::Denied => "denied",
            Self::Invalid => "invalid",
            Self::InternalError => "internal_error",
            Self::Interrupted => "interrupted",
        }
    }
}
