//! The log writer: structured events on standard error; the access log is at debug.

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Installs the process-wide subscriber. `filter` names targets and levels, such as `info,signet_http=debug`; an unreadable
/// one falls back to `info`. A second call changes nothing.
pub fn init(filter: &str, format: LogFormat) {
    let filter = filter.parse().unwrap_or_else(|_| Targets::new().with_default(LevelFilter::INFO));
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    let _already_set = tracing_subscriber::registry().with(lines.with_filter(filter)).try_init();
}
