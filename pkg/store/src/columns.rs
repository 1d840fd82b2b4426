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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_are_what_the_statement_says() {
        let statement = br#"{"predicate":{"cache":{"decision":"hit_exact"},
            "caller":{"auth":"open","tenant":"000102030405060708090a0b0c0d0e0f"},"http":{"status":200},"kind":"request",
            "model":{"asked":"small","served":"small-1"},"time":{"completed_ms":86400001},"usage":{"in":3,"out":4},
            "parents":[{"log_id":"01010101-0101-0101-0101-010101010101","seq":9,"rel":"cache_source"}]}}"#;
        let read = Columns::read(statement).expect("a statement");
        let wanted = Columns {
            ts_ms: 86_400_001,
            kind: "request".to_owned(),
            tenant: Some(std::array::from_fn(|i| u8::try_from(i).expect("small"))),
            model: Some("small-1".to_owned()),
            cache: Some("hit_exact".to_owned()),
            status: Some(200),
            tok_in: Some(3),
            tok_out: Some(4),
            parent_log: Some(Uuid::from_bytes([1; 16])),
            parent_seq: Some(9),
        };
        assert_eq!(read, wanted);
    }

    #[test]
    fn a_control_record_has_only_a_kind_and_a_time() {
        let read =
            Columns::read(br#"{"predicate":{"kind":"log_open","time":{"completed_ms":5}}}"#).expect("a statement");
        assert_eq!(read, Columns { ts_ms: 5, kind: "log_open".to_owned(), ..Columns::default() });
    }

    #[test]
    fn a_tenant_that_is_not_sixteen_bytes_of_hex_is_none() {
        for odd in ["", "+0102030405060708090a0b0c0d0e0f0", "00", "zz0102030405060708090a0b0c0d0e0f"] {
            assert_eq!(sixteen(odd), None, "{odd}");
        }
    }
}
