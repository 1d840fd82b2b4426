//! What is published of the logs' trees: `/v1/lineage/keys` and `/v1/lineage/logs/<log>/` with `checkpoint` and `tile/…` under
//! it, which is the prefix of a log in C2SP tlog-tiles.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use signet_lineage::tlog::Tile;
use signet_pipeline::{TreeView, ViewFault};
use signet_types::LogId;
use std::sync::Arc;

const KEYS: &str = "/v1/lineage/keys";
const LOGS: &str = "/v1/lineage/logs/";
const TEXT: &str = "text/plain; charset=utf-8";
const BYTES: &str = "application/octet-stream";
/// A checkpoint out of a cache would hide the newer one.
const FRESH: &str = "no-store";
/// What has a width in its name never changes, and what has none is full.
const FOR_GOOD: &str = "public, max-age=31536000, immutable";

/// Answers a path of this module.
pub(crate) async fn answer(tree: &Arc<TreeView>, path: &str) -> Response {
    if path == KEYS {
        return found(TEXT, FRESH, tree.keys().into_bytes());
    }
    let asked = path.strip_prefix(LOGS).and_then(|rest| rest.split_once('/'));
    let Some((log, rest)) = asked.and_then(|(log, rest)| Some((log.parse::<LogId>().ok()?, rest))) else {
        return missing();
    };
    let read = match rest {
        "checkpoint" => tree.checkpoint(log).await.map(|note| note.map(|note| found(TEXT, FRESH, note.into_bytes()))),
        entries if entries.starts_with("tile/entries/") => {
            let Ok(tile) = Tile::of_entries(entries) else { return missing() };
            tree.entries(log, tile).await.map(|bytes| bytes.map(|bytes| found(BYTES, FOR_GOOD, bytes)))
        }
        tile => {
            let Ok(tile) = tile.parse() else { return missing() };
            tree.tile(log, tile).await.map(|bytes| bytes.map(|bytes| found(BYTES, FOR_GOOD, bytes)))
        }
    };
    read.map_or_else(|fault| away(&fault), |found| found.unwrap_or_else(missing))
}

fn found(kind: &'static str, keep: &'static str, body: Vec<u8>) -> Response {
    ([(CONTENT_TYPE, kind), (CACHE_CONTROL, keep)], body).into_response()
}

fn missing() -> Response {
    (StatusCode::NOT_FOUND, [(CACHE_CONTROL, FRESH)], "there is no such checkpoint or tile\n").into_response()
}

fn away(fault: &ViewFault) -> Response {
    tracing::warn!(%fault, "a part of a tree cannot be read");
    (StatusCode::SERVICE_UNAVAILABLE, [(CACHE_CONTROL, FRESH)], "it cannot be read now\n").into_response()
}
