//! The gateway and its operator commands: load, build, run, drain.

mod commands;
mod serve;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// mimalloc: the request path frees on other threads than it allocates on, and glibc's arenas pay for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(name = "signet", version, about = "A caching, attesting gateway in front of LLM providers")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the gateway.
    Serve(serve::ServeArgs),
    /// Check a configuration file or print the defaults.
    Config {
        #[command(subcommand)]
        command: commands::config::ConfigCommand,
    },
    /// Measure the semantic cache.
    Cache {
        #[command(subcommand)]
        command: commands::cache::CacheCommand,
    },
    /// Get the optional encoder.
    Model {
        #[command(subcommand)]
        command: commands::model::ModelCommand,
    },
    /// Verify and read lineage records, offline.
    Lineage {
        #[command(subcommand)]
        command: commands::lineage::LineageCommand,
    },
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let help = !error.use_stderr();
            drop(error.print());
            return if help { ExitCode::SUCCESS } else { ExitCode::from(exit::USAGE) };
        }
    };
    let code = match cli.command {
        Command::Serve(args) => serve::run(&args),
        Command::Config { command } => commands::config::run(&command),
        Command::Cache { command } => commands::cache::run(&command),
        Command::Model { command } => commands::model::run(&command),
        Command::Lineage { command } => commands::lineage::run(command),
    };
    ExitCode::from(code)
}

/// Exit codes of the contract (BSD sysexits where they fit); `lineage verify` has its own beside these.
pub(crate) mod exit {
    pub(crate) const OK: u8 = 0;
    pub(crate) const FAILURE: u8 = 1;
    pub(crate) const USAGE: u8 = 64;
    pub(crate) const DATA: u8 = 65;
    pub(crate) const NO_INPUT: u8 = 66;
    pub(crate) const LOCKED: u8 = 75;
    pub(crate) const CONFIG: u8 = 78;
}
