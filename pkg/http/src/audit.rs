//! What an auditor may read on the admin listener: any tenant's record, and lists of them. Nothing else is behind the
//! auditors' tokens, and nothing here changes anything.

use crate::admin::{Admin, bearer, not_ready};
use axum::extract::{Path, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::{StatusCode, Uri};
use signet_pipeline::{Fault, Page};
use signet_types::{LineageId, TenantId};
use subtle::{Choice, ConstantTimeEq};

/// The page that a query asks for.
///
/// # Errors
/// [`Fault::Invalid`] where it cannot be read.
pub(crate) fn page(uri: &Uri) -> Result<(Page, Option<TenantId>), Fault> {
    let bad = |what, name| Fault::invalid(format!("The query cannot be used: {what}."), Some(name));
    let (mut limit, mut before, mut tenant) = (None, None, None);
    for pair in uri.query().into_iter().flat_map(|query| query.split('&')).filter(|pair| !pair.is_empty()) {
        // Ids and numbers need no escapes.
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let place = match name {
            "limit" => &mut limit,
            "before" => &mut before,
            "tenant" => &mut tenant,
            _ => return Err(bad("it has limit and before at most", "query")),
        };
        if place.replace(value).is_some() {
            return Err(bad("each part of it is given once", "query"));
        }
    }
    let limit = limit.map_or(Some(Page::USUAL), |limit| limit.parse().ok());
    let limit = limit.filter(|limit| (1..=Page::MOST).contains(limit));
    let limit = limit.ok_or_else(|| bad("limit is a number from 1 to 1000", "limit"))?;
    let before = before.map(str::parse::<LineageId>).transpose();
    let before = before.map_err(|_| bad("before is the id of a record", "before"))?;
    let tenant = tenant.map(str::parse::<TenantId>).transpose();
    let tenant = tenant.map_err(|_| bad("tenant is one as records name it", "tenant"))?;
    Ok((Page { before, limit }, tenant))
}

/// Lets auditors in, and operators.
pub(crate) async fn may_audit(State(admin): State<Admin>, request: Request, next: Next) -> Response {
    let sent = bearer(request.headers()).as_bytes();
    let auditors = admin.config.auditors.iter().map(|token| token.expose().as_bytes().ct_eq(sent));
    let operator = admin.config.token.expose().as_bytes().ct_eq(sent);
    if bool::from(auditors.fold(operator, |known: Choice, same| known | same)) {
        return next.run(request).await;
    }
    (StatusCode::UNAUTHORIZED, "an auditor's token is needed\n").into_response()
}

/// `GET /v1/lineage?tenant=&limit=&before=`
pub(crate) async fn list(State(admin): State<Admin>, uri: Uri) -> Response {
    let Some(pipeline) = admin.app.pipeline.get() else { return not_ready() };
    match page(&uri) {
        Ok((page, tenant)) => answer(pipeline.audit_list(tenant, page).await),
        Err(fault) => answer(Err(fault)),
    }
}

/// `GET /v1/lineage/{id}`
pub(crate) async fn show(State(admin): State<Admin>, Path(id): Path<String>) -> Response {
    let Some(pipeline) = admin.app.pipeline.get() else { return not_ready() };
    answer(pipeline.audit(&id).await)
}

fn answer(read: Result<bytes::Bytes, Fault>) -> Response {
    let status = match read {
        Ok(body) => return ([(CONTENT_TYPE, "application/json")], body).into_response(),
        Err(Fault::UnknownRecord) => StatusCode::NOT_FOUND,
        Err(Fault::Invalid { .. }) => StatusCode::BAD_REQUEST,
        Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, "it cannot be read\n").into_response()
}
