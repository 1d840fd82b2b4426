//! Logs that were set aside: what the database has not got of them is shipped in the background.

use signet_http::Health;
use signet_lineage::{LogRow, RecordStore};
use signet_pipeline::{Rest, ship_rest};
use signet_types::LogId;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const RETRY: Duration = Duration::from_secs(2);

/// The logs in a log's folder that were set aside, and where they are.
pub(crate) fn set_aside(dir: &Path) -> io::Result<Vec<(LogId, PathBuf)>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix("old-"));
        found.extend(name.and_then(|name| name.parse().ok()).map(|log| (log, path.clone())));
    }
    found.sort();
    Ok(found)
}

/// Ships them one after the other, as often as it takes; `row` has the origin and the key of this process.
pub(crate) async fn ship_all(dir: PathBuf, row: LogRow, store: Arc<dyn RecordStore>, health: Arc<Health>) {
    let logs = set_aside(&dir).unwrap_or_else(|error| {
        tracing::error!(%error, "logs that were set aside cannot be looked for");
        Vec::new()
    });
    let mut left_behind = Vec::new();
    for (log, path) in logs {
        let row = LogRow { log, ..row.clone() };
        match ship_one(&path, &row, &*store).await {
            Rest::Shipped(0) => {}
            Rest::Shipped(records) => tracing::warn!(%log, records, "shipped what a log held that was set aside"),
            Rest::Left(records, why) => {
                tracing::error!(%log, records, why, "records of a log that was set aside are not in the database");
                left_behind.push(format!("{records} records in {} are not in the database: {why}", path.display()));
            }
        }
    }
    health.note("lineage_set_aside", Some(left_behind.join("; ")).filter(|what| !what.is_empty()));
}

async fn ship_one(path: &Path, row: &LogRow, store: &dyn RecordStore) -> Rest {
    let mut told = false;
    loop {
        match ship_rest(path, row, store).await {
            Ok(rest) => return rest,
            Err(fault) if !told => {
                told = true;
                tracing::warn!(log = %row.log, %fault, "a log that was set aside is not shipped yet");
            }
            Err(_) => {}
        }
        tokio::time::sleep(RETRY).await;
    }
}
