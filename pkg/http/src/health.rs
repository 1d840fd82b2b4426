//! What the process says of itself: alive, ready, and what is wrong.

use crate::app::App;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use parking_lot::RwLock;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Faults known at the moment, by component. A fault does not by itself make the process unready: it serves without Redis
/// and without its database. What stands among the `blocks` does.
#[derive(Debug, Default)]
pub struct Health {
    draining: AtomicBool,
    faults: RwLock<BTreeMap<&'static str, String>>,
    blocks: RwLock<BTreeMap<&'static str, String>>,
}

/// The body of `/readyz`.
#[derive(Debug, Serialize)]
pub(crate) struct Readiness {
    status: &'static str,
    faults: BTreeMap<&'static str, String>,
}

impl Health {
    /// From here on the process takes no new work.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Whether it takes no new work.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Notes a component's fault, or that it has none. The text is for operators: it never holds a credential.
    pub fn note(&self, component: &'static str, fault: Option<String>) {
        let mut faults = self.faults.write();
        match fault {
            Some(fault) => drop(faults.insert(component, fault)),
            None => drop(faults.remove(component)),
        }
    }

    /// Notes that the process must not be sent requests, under the status that `/readyz` then shows, or that this is over.
    pub fn block(&self, status: &'static str, why: Option<String>) {
        let mut blocks = self.blocks.write();
        match why {
            Some(why) => drop(blocks.insert(status, why)),
            None => drop(blocks.remove(status)),
        }
    }

    /// Whether any component has a fault.
    pub fn has_faults(&self) -> bool {
        !self.faults.read().is_empty()
    }

    fn readiness(&self, serves: bool, full: bool) -> (StatusCode, Readiness) {
        let blocks = self.blocks.read().clone();
        let status = match (self.is_draining(), serves, blocks.keys().next(), full) {
            (true, ..) => "draining",
            (_, false, ..) => "starting",
            (.., Some(status), _) => status,
            (.., true) => "lineage_full",
            _ => "ready",
        };
        let code = if status == "ready" { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let faults = self.faults.read().clone().into_iter().chain(blocks).collect();
        (code, Readiness { status, faults })
    }
}

/// `GET /healthz`: the process runs.
pub(crate) async fn alive() -> &'static str {
    "ok\n"
}

/// `GET /readyz`: 200 while requests can be served.
pub(crate) async fn ready_app(State(app): State<Arc<App>>) -> (StatusCode, Json<Readiness>) {
    let pipeline = app.pipeline.get();
    let full = pipeline.as_ref().is_some_and(|pipeline| pipeline.recorder().is_refusing());
    let (code, readiness) = app.health.readiness(pipeline.is_some(), full);
    (code, Json(readiness))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_component_is_listed_but_does_not_stop_serving() {
        let health = Health::default();
        health.note("redis", Some("no answer".to_owned()));
        let (code, readiness) = health.readiness(true, false);
        assert_eq!((code, readiness.status), (StatusCode::OK, "ready"));
        assert_eq!(readiness.faults.get("redis").map(String::as_str), Some("no answer"));
        health.note("redis", None);
        assert!(health.readiness(true, false).1.faults.is_empty());
    }

    #[test]
    fn what_blocks_makes_it_unready_with_its_reason_until_it_is_over() {
        let health = Health::default();
        health.block("lineage_gap", Some("seq 3".to_owned()));
        let (code, readiness) = health.readiness(true, false);
        assert_eq!((code, readiness.status), (StatusCode::SERVICE_UNAVAILABLE, "lineage_gap"));
        assert_eq!(readiness.faults.get("lineage_gap").map(String::as_str), Some("seq 3"));
        health.block("lineage_gap", None);
        assert_eq!(health.readiness(true, false).1.status, "ready");
    }

    #[test]
    fn it_is_unready_while_starting_draining_or_full() {
        let health = Health::default();
        assert_eq!(health.readiness(false, false).0, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(health.readiness(true, true).1.status, "lineage_full");
        health.drain();
        assert_eq!(health.readiness(true, false).1.status, "draining");
    }
}
