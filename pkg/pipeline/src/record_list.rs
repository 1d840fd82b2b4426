//! Lists of records: what may be searched of them, not the records themselves.

use crate::exchange::operations;
use crate::fault::Fault;
use crate::head::Head;
use crate::pipeline::Pipeline;
use crate::reply::Reply;
use bytes::Bytes;
use serde::Serialize;
use signet_lineage::Columns;
use signet_types::{LineageId, TenantId};
use std::sync::Arc;

/// What is not shipped yet is listed too, up to so much of it.
const UNSHIPPED: (usize, usize) = (4096, 16 << 20);

/// A part of a list, newest first by the time in the ids.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    /// Only what has a lower id: the `next` of the page before.
    pub before: Option<LineageId>,
    /// At most so many, 1 to [`Page::MOST`].
    pub limit: u32,
}

impl Page {
    /// How many if nothing is said.
    pub const USUAL: u32 = 100;
    /// The longest page.
    pub const MOST: u32 = 1000;
}

#[derive(Serialize)]
struct Listed {
    data: Vec<Line>,
    /// `before` of the next page; none behind the last.
    next: Option<LineageId>,
}

#[derive(Serialize)]
struct Line {
    id: LineageId,
    kind: &'static str,
    completed_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    model: Option<String>,
    status: Option<u16>,
    cache: Option<String>,
    tok_in: Option<u64>,
    tok_out: Option<u64>,
}

impl Pipeline {
    /// `GET /v1/lineage`: the caller's own records.
    pub async fn lineage_list(self: &Arc<Self>, head: &Head, page: Result<Page, Fault>) -> Reply {
        let mut exchange = self.begin(operations::LINEAGES, head);
        let body = async {
            self.admit(&mut exchange, head)?;
            self.identify(&mut exchange, head).await?;
            let own = self.columns(Some(exchange.keys().tenant), page?).await?;
            to_json(own, false)
        };
        let body = body.await;
        self.answer_json(exchange, head, body)
    }

    /// A tenant's records, or everyone's, for an auditor.
    ///
    /// # Errors
    /// [`Fault::NotReady`] where the store is away.
    pub async fn audit_list(&self, tenant: Option<TenantId>, page: Page) -> Result<Bytes, Fault> {
        to_json((self.columns(tenant, page).await?.0, page), true)
    }

    async fn columns(&self, tenant: Option<TenantId>, page: Page) -> Result<(Vec<Columns>, Page), Fault> {
        let log = self.parts.recorder.log();
        // Read first: what is shipped meanwhile is in the store by then.
        let unshipped = log.read_from(log.stats().shipped_seq, UNSHIPPED.0, UNSHIPPED.1).map_err(|fault| {
            tracing::warn!(%fault, "records cannot be listed");
            Fault::NotReady("the log cannot be read")
        })?;
        let stored = self.parts.records.list(tenant, page.before, page.limit).await;
        let mut all = stored.map_err(|fault| {
            tracing::warn!(%fault, "records cannot be listed");
            Fault::NotReady("the record store is away")
        })?;
        let fresh = unshipped.iter().filter_map(|record| Columns::read(&record.payload).ok());
        let fits = |columns: &Columns| {
            (tenant.is_none() || columns.tenant == tenant) && page.before.is_none_or(|before| columns.id < before)
        };
        all.extend(fresh.filter(fits));
        all.sort_by_key(|columns| std::cmp::Reverse(columns.id));
        all.dedup_by_key(|columns| columns.id);
        all.truncate(page.limit as usize);
        Ok((all, page))
    }
}

fn to_json((columns, page): (Vec<Columns>, Page), with_tenant: bool) -> Result<Bytes, Fault> {
    let full = columns.len() >= page.limit as usize;
    let next = columns.last().map(|columns| columns.id).filter(|_| full);
    let line = |columns: Columns| Line {
        id: columns.id,
        kind: columns.kind.as_str(),
        completed_ms: columns.ts_ms,
        tenant: columns.tenant.filter(|_| with_tenant).map(|tenant| tenant.to_string()),
        model: columns.model,
        status: columns.status,
        cache: columns.cache,
        tok_in: columns.tok_in,
        tok_out: columns.tok_out,
    };
    let listed = Listed { data: columns.into_iter().map(line).collect(), next };
    serde_json::to_vec(&listed).map(Bytes::from).map_err(|error| Fault::Internal(error.into()))
}
