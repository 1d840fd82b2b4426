//! A new configuration while the process serves, as the admin API asks for it.

use crate::admin::Admin;
use arc_swap::ArcSwapOption;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Serialize;
use signet_pipeline::Pipeline;
use std::fmt;
use std::sync::Arc;

/// The pipeline in force; none until the tenant secret is there. Each request takes it once, and keeps it to its end.
#[derive(Default)]
pub struct Current(ArcSwapOption<Pipeline>);

impl Current {
    /// The pipeline in force.
    pub fn get(&self) -> Option<Arc<Pipeline>> {
        self.0.load_full()
    }

    /// Puts another one in force for requests that begin from now on.
    pub fn set(&self, pipeline: Arc<Pipeline>) {
        self.0.store(Some(pipeline));
    }
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Current").field(&self.0.load().is_some()).finish()
    }
}

/// Which configuration is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Generation {
    /// 1 at the start, one more with each that was taken.
    pub generation: u64,
    /// The digest that records name, hexadecimal.
    pub config_sha256: String,
    /// Why the newest one is not in force; empty where it is.
    pub faults: Vec<String>,
}

/// Takes new configurations.
pub trait Reload: Send + Sync + 'static {
    /// Reads the configuration, and puts it in force where nothing stands against that. Blocks while files are read.
    fn reload(&self) -> Generation;

    /// The one in force.
    fn generation(&self) -> Generation;
}

/// `GET /admin/v1/reload`.
pub(crate) async fn shown(State(admin): State<Admin>) -> Response {
    match &admin.config.reload {
        Some(reload) => Json(reload.generation()).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// `POST /admin/v1/reload`: 422 with all faults where the new configuration is not in force.
pub(crate) async fn asked(State(admin): State<Admin>) -> Response {
    let Some(reload) = admin.config.reload.clone() else { return StatusCode::NOT_FOUND.into_response() };
    match tokio::task::spawn_blocking(move || reload.reload()).await {
        Ok(now) if now.faults.is_empty() => Json(now).into_response(),
        Ok(now) => (StatusCode::UNPROCESSABLE_ENTITY, Json(now)).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
