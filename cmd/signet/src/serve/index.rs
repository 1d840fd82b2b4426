//! The shared index of a start: made in the background, and a fault of the operator's if it cannot be made here.

use super::Stop;
use anyhow::anyhow;
use signet_http::Health;
use signet_store::{PgVectorIndex, UnusableIndex};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

const RETRY: Duration = Duration::from_secs(1);
/// How long a start waits to hear that the index cannot be made; for a database that is away it does not wait longer.
const ASK: Duration = Duration::from_secs(2);

type Outcome = Result<(), UnusableIndex>;

/// Makes the index once the schema is there, and tells the first outcome. Whatever stands in the way is tried again: a server
/// comes back, an operator installs the extension. Until then every search is a miss.
pub(crate) async fn make(
    index: Arc<PgVectorIndex>,
    health: Arc<Health>,
    migrated: CancellationToken,
    tell: oneshot::Sender<Outcome>,
) {
    migrated.cancelled().await;
    let mut tell = Some(tell);
    loop {
        let outcome = index.prepare().await;
        health.note("semantic_index", outcome.as_ref().err().map(ToString::to_string));
        let done = outcome.is_ok();
        match (outcome, tell.take()) {
            (Err(UnusableIndex::Away(fault)), held) => {
                tracing::debug!(%fault, "the shared index is not made yet");
                tell = held;
            }
            (outcome, Some(tell)) => drop(tell.send(outcome)),
            (_, None) => {}
        }
        if done {
            return;
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Waits a moment for the first outcome, so that a start that can never work as configured ends at once.
pub(crate) async fn heard(told: oneshot::Receiver<Outcome>) -> Result<(), Stop> {
    match tokio::time::timeout(ASK, told).await {
        Ok(Ok(Err(fault))) => Err(Stop::config(anyhow!(fault).context("semantic.backend"))),
        _ => Ok(()),
    }
}
