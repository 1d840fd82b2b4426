//! What the database can be searched by, read from the signed payload. The payload stays the truth; a column is a hint.

use serde::Deserialize;
use signet_lineage::{Leaf, Record};
use uuid::Uuid;

const MS_PER_DAY: u64 = 86_400_000;

/// One row to insert.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) record: Record,
    pub(crate) leaf_hash: [u8; 32],
    pub(crate) columns: Columns,
}

impl Row {
    pub(crate) fn of(record: &Record) -> Self {
        let columns = Columns::read(&record.payload).unwrap_or_else(|| Columns::unread(record));
        Self { leaf_hash: Leaf::of(record).hash(), columns, record: record.clone() }
    }

    /// Days since the Unix epoch.
    pub(crate) fn day(&self) -> i32 {
        i32::try_from(self.columns.ts_ms / MS_PER_DAY).unwrap_or(i32::MAX / 2)
    }
}

/// The searchable facts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Columns {
    pub(crate) ts_ms: u64,
    pub(crate) kind: String,
    pub(crate) tenant: Option<[u8; 16]>,
    pub(crate) model: Option<String>,
    pub(crate) cache: Option<String>,
    pub(crate) status: Option<i32>,
    pub(crate) tok_in: Option<i64>,
    pub(crate) tok_out: Option<i64>,
    pub(crate) parent_log: Option<Uuid>,
    pub(crate) parent_seq: Option<i64>,
}

impl Columns {
    /// The facts in a statement; none if it is no statement of a known shape.
    pub(crate) fn read(payload: &[u8]) -> Option<Self> {
        let p = serde_json::from_slice::<Statement>(payload).ok()?.predicate;
        let parent = p.parents.first();
        Some(Self {
            ts_ms: p.time.completed_ms,
            // Postgres refuses NUL in text; a provider could put one into a model name and so stop the shipping for good.
            kind: p.kind.replace('\0', ""),
            tenant: p.caller.and_then(|c| sixteen(&c.tenant)),
            model: p.model.map(|m| m.served.unwrap_or(m.asked)).filter(|m| !m.contains('\0')),
            cache: p.cache.map(|c| c.decision).filter(|d| !d.contains('\0')),
            status: p.http.map(|h| h.status),
            tok_in: p.usage.as_ref().map(|u| u.input),
            tok_out: p.usage.as_ref().map(|u| u.output),
            parent_log: parent.map(|p| p.log_id),
            parent_seq: parent.map(|p| p.seq),
        })
    }

    /// For a payload that cannot be read: shipped all the same, under the time in its id, or nothing behind it would be.
    fn unread(record: &Record) -> Self {
        Self { ts_ms: record.id.unix_ms(), kind: "unread".to_owned(), ..Self::default() }
    }
}

fn sixteen(hex: &str) -> Option<[u8; 16]> {
    let plain = hex.len() == 32 && hex.bytes().all(|b| b.is_ascii_hexdigit());
    plain.then(|| u128::from_str_radix(hex, 16).ok().map(u128::to_be_bytes)).flatten()
}

#[derive(Deserialize)]
struct Statement {
    predicate: Predicate,
}

#[derive(Deserialize)]
struct Predicate {
    kind: String,
    time: Times,
    caller: Option<Caller>,
    model: Option<Model>,
    cache: Option<Cache>,
    http: Option<Http>,
    usage: Option<Usage>,
    #[serde(default)]
    parents: Vec<Parent>,
}

#[derive(Deserialize)]
struct Times {
    completed_ms: u64,
}

#[derive(Deserialize)]
struct Caller {
    tenant: String,
}

#[derive(Deserialize)]
struct Model {
    asked: String,
    served: Option<String>,
}

#[derive(Deserialize)]
struct Cache {
    decision: String,
}

#[derive(Deserialize)]
struct Http {
    status: i32,
}

#[derive(Deserialize)]
struct Usage {
    #[serde(rename = "in")]
    input: i64,
    #[serde(rename = "out")]
    output: i64,
}

#[derive(Deserialize)]
struct Parent {
    log_id: Uuid,
    seq: i64,
}
