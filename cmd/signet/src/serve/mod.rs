//! `signet serve`: load, build, run, drain.

pub(crate) mod build;
mod certificate;
mod files;
mod folder;
mod index;
pub(crate) mod keys;
mod lanes;
mod listen;
mod log;
mod process;
mod reload;
pub(crate) mod rest;
mod ring;
mod run;
mod tree;
mod work;

use crate::commands::out::complain;
use crate::exit;
use clap::Args;
use reload::Source;
use signet_config::Overrides;
use signet_telemetry::LogFormat;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct ServeArgs {
    /// The configuration file; none: embedded, with one data folder and no services.
    #[arg(long)]
    config: Option<PathBuf>,
    /// Overrides `server.listen`.
    #[arg(long)]
    listen: Option<String>,
    /// The data folder.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Start a `strict` log although records in it are damaged; the gap is signed. Only for that start.
    #[arg(long)]
    accept_gap: bool,
    /// Log lines as JSON.
    #[arg(long)]
    log_json: bool,
    /// Log filter, such as `info,signet_http=debug`.
    #[arg(long, default_value = "info", env = "SIGNET_LOG")]
    log: String,
}

/// Why serving ended, as an exit code.
pub(crate) fn run(args: &ServeArgs) -> u8 {
    signet_telemetry::init(&args.log, if args.log_json { LogFormat::Json } else { LogFormat::Text });
    let source = Source { file: args.config.clone(), overrides: overrides(args) };
    let config = match source.read() {
        Ok(config) => config,
        Err(problems) => {
            complain(&problems.to_string());
            return exit::CONFIG;
        }
    };
    match run::serve(config, source, args.accept_gap) {
        Ok(()) => exit::OK,
        Err(stop) => {
            complain(&format!("signet serve: {:#}", stop.cause));
            stop.code
        }
    }
}

fn overrides(args: &ServeArgs) -> Overrides {
    let overrides = Overrides::default();
    let overrides = args.data.iter().fold(overrides, |overrides, folder| overrides.data_dir(folder.clone()));
    args.listen.iter().fold(overrides, |overrides, address| overrides.set("server.listen", address))
}

/// A start or run that ended with a fault, and the exit code that says whose it is.
pub(crate) struct Stop {
    code: u8,
    cause: anyhow::Error,
}

impl Stop {
    fn config(cause: anyhow::Error) -> Self {
        Self { code: exit::CONFIG, cause }
    }

    fn locked(cause: anyhow::Error) -> Self {
        Self { code: exit::LOCKED, cause }
    }
}

impl From<anyhow::Error> for Stop {
    fn from(cause: anyhow::Error) -> Self {
        Self { code: exit::FAILURE, cause }
    }
}
