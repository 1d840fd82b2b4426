//! Where a request would go, and how the targets stand: for operators, and for the metrics.

use crate::admin::{Admin, bad, not_ready, read};
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;
use signet_dialect::Api;
use signet_pipeline::{ExplainAsk, Fault, Pipeline};
use signet_telemetry::Metrics;
use signet_types::TenantId;
use std::collections::BTreeMap;

/// A request as somebody might send it; a model alone will do.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// `chat` where it is left out.
    api: Option<String>,
    model: Option<String>,
    body: Option<Box<RawValue>>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    query: Option<String>,
    tenant: Option<String>,
}

impl Asked {
    fn read(self) -> Result<ExplainAsk, String> {
        let api = self.api.as_deref().unwrap_or("chat");
        let api = asked().find(|known| known.name() == api).ok_or_else(|| no_api(api))?;
        let tenant = self.tenant.map(|tenant| tenant.parse::<TenantId>().map_err(|error| format!("tenant: {error}")));
        let header = |(name, value): (&String, &String)| {
            let pair = (name.parse::<HeaderName>().ok()?, HeaderValue::from_str(value).ok()?);
            Some(pair)
        };
        let headers = self.headers.iter().map(header).collect::<Option<HeaderMap>>();
        Ok(ExplainAsk {
            api,
            model: self.model,
            body: self.body.map(|body| Bytes::from(body.get().to_owned())),
            headers: headers.ok_or("headers: a name or a value cannot stand in a header")?,
            query: self.query.filter(|query| !query.is_empty()),
            tenant: tenant.transpose()?,
        })
    }
}

/// The APIs whose requests go to a target; a list of models goes to all providers.
fn asked() -> impl Iterator<Item = Api> {
    Api::ALL.into_iter().filter(|api| *api != Api::Models)
}

fn no_api(name: &str) -> String {
    format!("api: {name:?} is none of {}", asked().map(Api::name).collect::<Vec<_>>().join(", "))
}

/// `POST /admin/v1/route/explain`: a dry run.
pub(crate) async fn explain(State(admin): State<Admin>, body: Bytes) -> Response {
    let asked: Asked = match read(&body) {
        Ok(asked) => asked,
        Err(refusal) => return refusal,
    };
    let Some(pipeline) = admin.app.pipeline.get() else { return not_ready() };
    let asked = match asked.read() {
        Ok(asked) => asked,
        Err(fault) => return bad(&fault),
    };
    match pipeline.explain(&asked) {
        Ok(explained) => Json(explained).into_response(),
        Err(fault @ Fault::UnknownModel { .. }) => (StatusCode::NOT_FOUND, format!("{fault}\n")).into_response(),
        Err(fault) => bad(&fault),
    }
}

/// `GET /admin/v1/route/state`.
pub(crate) async fn state(State(admin): State<Admin>) -> Response {
    match admin.app.pipeline.get() {
        Some(pipeline) => Json(pipeline.targets()).into_response(),
        None => not_ready(),
    }
}

/// Brings the metrics up to date.
pub(crate) fn measure(pipeline: &Pipeline, metrics: &Metrics) {
    for target in pipeline.targets() {
        metrics.circuit(&target.provider, &target.model, target.circuit);
        for (reason, count) in target.retries {
            metrics.retries(&target.provider, &target.model, reason, count);
        }
    }
}
