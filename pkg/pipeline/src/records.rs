//! A caller's own records, and the merged model list.

use crate::exchange::{Ending, Exchange, operations};
use crate::fault::Fault;
use crate::head::Head;
use crate::pipeline::Pipeline;
use crate::reply::{self, Reply, ReplyBody};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method};
use serde_json::value::RawValue;
use signet_dialect::Api;
use signet_lineage::{Columns, Kind, Receipt, Record, ShipFault};
use signet_openai::ModelList;
use signet_provider::{Ask, filter_request_headers};
use signet_types::{LineageId, TenantId};
use std::sync::Arc;

const MODELS_MAX: usize = 8 << 20;

#[expect(clippy::needless_pass_by_value, reason = "made for map_err")]
fn away(fault: ShipFault) -> Fault {
    tracing::warn!(%fault, "a record cannot be looked up");
    Fault::NotReady("the record store is away")
}

#[derive(serde::Serialize)]
struct Shown<'a> {
    id: String,
    receipt: String,
    envelope: &'a RawValue,
    /// That the record is in its log's tree (C2SP tlog-proof); none until a checkpoint covers it.
    proof: Option<String>,
}

impl Pipeline {
    /// `GET /v1/lineage/{id}`: the caller's own record, as soon as its answer has ended; another tenant's does not exist.
    pub async fn lineage(self: &Arc<Self>, head: &Head, id: &str) -> Reply {
        let mut exchange = self.begin(operations::LINEAGE, head);
        let body = self.show(&mut exchange, head, id).await;
        self.answer_json(exchange, head, body)
    }

    async fn show(&self, exchange: &mut Exchange, head: &Head, id: &str) -> Result<Bytes, Fault> {
        self.admit(exchange, head)?;
        self.identify(exchange, head).await?;
        let id: LineageId = id.parse().map_err(|_| Fault::UnknownRecord)?;
        let record = self.find(id).await?.filter(|record| self.may_see(record, exchange.keys().tenant));
        self.shown(&record.ok_or(Fault::UnknownRecord)?).await
    }

    /// Any tenant's record, for an auditor.
    ///
    /// # Errors
    /// [`Fault::UnknownRecord`], or [`Fault::NotReady`] where the store is away.
    pub async fn audit(&self, id: &str) -> Result<Bytes, Fault> {
        let id: LineageId = id.parse().map_err(|_| Fault::UnknownRecord)?;
        self.shown(&self.find(id).await?.ok_or(Fault::UnknownRecord)?).await
    }

    async fn shown(&self, record: &Arc<Record>) -> Result<Bytes, Fault> {
        let envelope = String::from_utf8(record.to_envelope_json()).map_err(|error| Fault::Internal(error.into()))?;
        let envelope = RawValue::from_string(envelope).map_err(|error| Fault::Internal(error.into()))?;
        let receipt = Receipt::of(record, &self.parts.recorder.voice().origin).to_string();
        let proof = match &self.parts.tree {
            Some(tree) => tree.proof(record).await,
            None => None,
        };
        let shown = Shown { id: record.id.to_string(), receipt, envelope: &envelope, proof };
        serde_json::to_vec(&shown).map(Bytes::from).map_err(|error| Fault::Internal(error.into()))
    }

    pub(crate) async fn find(&self, id: LineageId) -> Result<Option<Arc<Record>>, Fault> {
        let log = self.parts.recorder.log();
        if let Some(recent) = log.find(id) {
            // A segment that is still retained holds what was erased in the store.
            if recent.seq >= log.stats().shipped_seq {
                return Ok(Some(recent));
            }
            let erased = self.parts.records.is_erased(recent.log, recent.seq).await.map_err(away)?;
            return Ok(Some(recent).filter(|_| !erased));
        }
        let found = self.parts.records.find(id, None).await;
        found.map(|record| record.map(Arc::new)).map_err(away)
    }

    /// A tenant sees its own records, and those of refusals before anyone was known: they say nothing of a caller, and
    /// who holds the id was given it with the refusal.
    fn may_see(&self, record: &Record, tenant: TenantId) -> bool {
        let Ok(columns) = Columns::read(&record.payload) else { return false };
        match columns.tenant {
            Some(owner) => owner == tenant || owner == self.nobody.tenant,
            None => columns.kind == Kind::Denials,
        }
    }

    /// Whether the record is this tenant's own.
    pub(crate) fn belongs_to(record: &Record, tenant: TenantId) -> bool {
        let owner = Columns::read(&record.payload).ok().and_then(|columns| columns.tenant);
        owner == Some(tenant)
    }

    /// `GET /v1/models`: the configured models, or else the union of what the providers list.
    pub async fn models(self: &Arc<Self>, head: &Head) -> Reply {
        let mut exchange = self.begin(operations::MODELS, head);
        let list = self.list_models(&mut exchange, head).await;
        self.answer_json(exchange, head, list.map(|list| list.to_json()))
    }

    /// `GET /v1/models/{id}`: what that list says of one of them.
    pub async fn model(self: &Arc<Self>, head: &Head, id: &str) -> Reply {
        let mut exchange = self.begin(operations::MODELS, head);
        let list = self.list_models(&mut exchange, head).await;
        let unknown = || Fault::UnknownModel { model: id.to_owned() };
        self.answer_json(exchange, head, list.and_then(|list| list.one(id).ok_or_else(unknown)))
    }

    async fn list_models(&self, exchange: &mut Exchange, head: &Head) -> Result<ModelList, Fault> {
        self.admit(exchange, head)?;
        let authorization = self.identify(exchange, head).await?;
        let configured = &self.parts.settings.models;
        if !configured.is_empty() {
            let mut list = ModelList::default();
            for model in configured {
                list.push(model, "signet", 0);
            }
            return Ok(list);
        }
        let ask = Ask {
            method: Method::GET,
            api: Api::Models,
            query: None,
            headers: filter_request_headers(&head.headers),
            authorization,
            deadline: None,
            patience: None,
            affinity: None,
            trail: Arc::default(),
        };
        let mut merged: Option<ModelList> = None;
        let mut last = None;
        for (provider, answer) in self.parts.fleet.models(&ask, MODELS_MAX).await {
            match answer {
                Ok((status, body)) if status.as_u16() == 200 => match ModelList::parse(&body) {
                    Ok(found) => merged = Some(merged.take().unwrap_or_default().merge(found)),
                    Err(error) => tracing::warn!(%provider, %error, "a model list was left out"),
                },
                Ok((status, _)) => tracing::warn!(%provider, %status, "a provider lists no models"),
                Err(error) => last = Some(Fault::Upstream { provider, error: Arc::new(error) }),
            }
        }
        match (merged, last) {
            (Some(union), _) => Ok(union),
            (None, Some(fault)) => Err(fault),
            (None, None) => Err(Fault::NotReady("no provider lists its models")),
        }
    }

    pub(crate) fn answer_json(&self, mut exchange: Exchange, head: &Head, body: Result<Bytes, Fault>) -> Reply {
        let body = match body {
            Ok(body) => body,
            Err(fault) => return self.refuse(exchange, head, &fault),
        };
        let mut headers = HeaderMap::with_capacity(12);
        reply::common(&mut headers, &exchange, head.request_id.as_str(), false);
        reply::fixed(&mut headers, CONTENT_TYPE, "application/json");
        match exchange.close(&Ending::whole(200, &body)) {
            Ok(attested) => {
                reply::receipt(&mut headers, attested.as_ref());
                Reply { status: 200, headers, body: ReplyBody::Whole(body) }
            }
            Err(fault) => self.refuse(exchange, head, &fault),
        }
    }

    /// An answer to a URL or method that does not exist here; recorded like any other.
    pub fn unknown(self: &Arc<Self>, head: &Head, fault: &Fault) -> Reply {
        let mut exchange = self.begin(operations::UNKNOWN, head);
        match self.admit(&mut exchange, head) {
            Ok(()) => self.refuse(exchange, head, fault),
            Err(limited) => self.refuse(exchange, head, &limited),
        }
    }
}
