//! What operators see: the log subscriber and the metrics. Tenants, prompts and keys are never labels.

mod logs;
mod metrics;

pub use logs::{LogFormat, init};
pub use metrics::{Metrics, Step};
pub use prometheus_client::metrics::gauge::Gauge;
