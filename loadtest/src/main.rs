//! `signet-load`: what the gateway adds, measured beside the upstream itself and beside a plain relay.

mod check;
mod client;
mod held;
mod matched;
mod overload;
mod prompts;
mod questions;
mod relay;
mod replay;
mod report;
mod rss;
mod segment;
mod stats;
mod stream;
mod target;
mod wire;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tokio::runtime::{Builder, Runtime};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Load for a gateway in front of `signet-mock`, every answer checked.
#[derive(Parser)]
#[command(version)]
struct Flags {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Send the same traffic to the upstream, the gateway and a relay, in turns, and compare.
    ///
    /// Exit code 1 if any answer failed or was wrong.
    Matched(Box<matched::Flags>),
    /// Offer the gateway multiples of what it can serve, at their times, and show what those it serves have to wait.
    ///
    /// Exit code 1 if any answer was neither right nor a 503 with `Retry-After`.
    Overload(overload::Flags),
    /// Hold streams open and see what each costs the gateway in memory.
    Held(held::Flags),
    /// Run the reference proxy: hyper and hyper-util's pooled client, nothing else.
    Relay(relay::Flags),
    /// Send a fixed mix of questions, repeats and rephrasings and show how many the cache answered.
    ///
    /// Exit code 1 if an answer failed or belongs to another question, or if too few were hits.
    Replay(replay::Flags),
}

fn main() -> anyhow::Result<ExitCode> {
    let success = match Flags::parse().command {
        Command::Matched(flags) => one_thread()?.block_on(matched::run(*flags))?,
        Command::Overload(flags) => one_thread()?.block_on(overload::run(flags))?,
        Command::Replay(flags) => one_thread()?.block_on(replay::run(&flags))?,
        Command::Held(flags) => {
            one_thread()?.block_on(held::run(&flags))?;
            true
        }
        Command::Relay(flags) => {
            Runtime::new()?.block_on(relay::run(flags))?;
            true
        }
    };
    Ok(if success { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The generator keeps to one core.
fn one_thread() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}
