//! What a record says, as the operator's commands show it. The statement is the truth; nothing here proves anything.

use serde::Deserialize;
use signet_lineage::Record;
use signet_types::LineageId;

/// The parts of a request's statement that explain an answer.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) kind: String,
    pub(super) cache: CacheFacts,
    pub(super) parents: Vec<Parent>,
    pub(super) tenant: Option<String>,
    pub(super) status: u16,
    pub(super) route: String,
    pub(super) request_id: Option<String>,
    pub(super) model: String,
    received_ms: u64,
}

/// What the cache decided, as it decided it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct CacheFacts {
    #[serde(default)]
    pub(super) decision: String,
    pub(super) tier: Option<String>,
    pub(super) score_e6: Option<u64>,
    pub(super) floor_e6: Option<u64>,
    pub(super) refused_by: Option<String>,
    pub(super) ineligible: Option<String>,
    pub(super) encoder: Option<String>,
    pub(super) age_ms: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Parent {
    pub(super) id: LineageId,
    pub(super) rel: String,
}

#[derive(Deserialize)]
struct Statement {
    predicate: Predicate,
}

#[derive(Deserialize)]
struct Predicate {
    kind: String,
    #[serde(default)]
    cache: CacheFacts,
    #[serde(default)]
    parents: Vec<Parent>,
    caller: Option<Caller>,
    http: Option<Http>,
    model: Option<Model>,
    time: Time,
}

#[derive(Deserialize)]
struct Caller {
    tenant: String,
}

#[derive(Deserialize)]
struct Http {
    status: u16,
    route: String,
    request_id: Option<String>,
}

#[derive(Deserialize)]
struct Model {
    asked: String,
}

#[derive(Deserialize)]
struct Time {
    received_ms: u64,
}

impl Facts {
    pub(super) fn read(record: &Record) -> serde_json::Result<Self> {
        let Predicate { kind, cache, parents, caller, http, model, time } =
            serde_json::from_slice::<Statement>(&record.payload)?.predicate;
        let http = http.unwrap_or(Http { status: 0, route: String::new(), request_id: None });
        Ok(Self {
            kind,
            cache,
            parents,
            tenant: caller.map(|caller| caller.tenant),
            status: http.status,
            route: http.route,
            request_id: http.request_id,
            model: model.map(|model| model.asked).unwrap_or_default(),
            received_ms: time.received_ms,
        })
    }

    /// When the request came: seconds since the Unix epoch, with milliseconds.
    pub(super) fn at(&self) -> String {
        format!("{}.{:03}", self.received_ms / 1000, self.received_ms % 1000)
    }
}
