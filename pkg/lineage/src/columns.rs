//! The few facts of a statement that the database keeps in columns of their own, to be searched by. They are a convenience:
//! verification compares them with the signed bytes.

use crate::{Kind, hex};
use serde::{Deserialize, Deserializer, de::Error as _};
use signet_types::{LineageId, LogId, TenantId};

/// Index columns of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    /// What kind of statement it is.
    pub kind: Kind,
    /// When it was completed, milliseconds since the Unix epoch, as signed (not clamped).
    pub ts_ms: u64,
    /// The record's id.
    pub id: LineageId,
    /// Whose answer it was; none for control records.
    pub tenant: Option<TenantId>,
    /// The model sent upstream, else the one asked for; none if the name holds a NUL, which Postgres cannot store.
    pub model: Option<String>,
    /// What the cache decided.
    pub cache: Option<String>,
    /// HTTP status; 0 where the answer was interrupted, none for control records.
    pub status: Option<u16>,
    /// Prompt tokens, where known.
    pub tok_in: Option<u64>,
    /// Completion tokens, where known.
    pub tok_out: Option<u64>,
    /// Log and seq of the first parent.
    pub parent: Option<(LogId, u64)>,
}

/// A payload that is not a statement of ours.
#[derive(Debug, thiserror::Error)]
#[error("not a lineage statement: {0}")]
pub struct ColumnsFault(#[from] serde_json::Error);

impl Columns {
    /// The columns of a payload. Nothing is proved by this.
    ///
    /// # Errors
    /// The payload lacks a field that every statement has.
    pub fn read(payload: &[u8]) -> Result<Self, ColumnsFault> {
        let p = serde_json::from_slice::<Statement>(payload)?.predicate;
        Ok(Self {
            kind: p.kind,
            ts_ms: p.time.completed_ms,
            id: p.id,
            tenant: p.caller.map(|caller| TenantId::from_bytes(caller.tenant)),
            model: p.model.map(|model| model.routed.unwrap_or(model.asked)).filter(|name| !name.contains('\0')),
            cache: p.cache.map(|cache| cache.decision),
            status: p.http.map(|http| http.status),
            tok_in: p.usage.as_ref().map(|usage| usage.input),
            tok_out: p.usage.as_ref().map(|usage| usage.output),
            parent: p.parents.first().map(|parent| (parent.log_id, parent.seq)),
        })
    }
}

#[derive(Deserialize)]
struct Statement {
    predicate: Predicate,
}

#[derive(Deserialize)]
struct Predicate {
    kind: Kind,
    id: LineageId,
    time: Time,
    caller: Option<Caller>,
    model: Option<Model>,
    cache: Option<Cache>,
    http: Option<Http>,
    usage: Option<Usage>,
    #[serde(default)]
    parents: Vec<Parent>,
}

#[derive(Deserialize)]
struct Time {
    completed_ms: u64,
}

#[derive(Deserialize)]
struct Caller {
    #[serde(deserialize_with = "hex16")]
    tenant: [u8; 16],
}

#[derive(Deserialize)]
struct Model {
    asked: String,
    routed: Option<String>,
}

#[derive(Deserialize)]
struct Cache {
    decision: String,
}

#[derive(Deserialize)]
struct Http {
    status: u16,
}

#[derive(Deserialize)]
struct Usage {
    #[serde(rename = "in")]
    input: u64,
    #[serde(rename = "out")]
    output: u64,
}

#[derive(Deserialize)]
struct Parent {
    log_id: LogId,
    seq: u64,
}

fn hex16<'de, D: Deserializer<'de>>(from: D) -> Result<[u8; 16], D::Error> {
    let text = <&str>::deserialize(from)?;
    hex::array(text).ok_or_else(|| D::Error::custom("32 lowercase hexadecimal digits expected"))
}
