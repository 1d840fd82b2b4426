//! `signet config`: what a configuration file says, without starting anything.

use super::out::{complain, say};
use crate::exit;
use clap::Subcommand;
use signet_config::{Config, DEFAULT_TEXT, Overrides, ProcessEnv};
use std::path::PathBuf;

#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Report all faults of a file at once; exit 78 if there are any.
    Check {
        /// The file.
        file: PathBuf,
    },
    /// Print a complete commented file with the defaults.
    Default,
}

pub(crate) fn run(command: &ConfigCommand) -> u8 {
    match command {
        ConfigCommand::Default => {
            say(DEFAULT_TEXT);
            exit::OK
        }
        ConfigCommand::Check { file } => match Config::load(Some(file), &ProcessEnv, Overrides::default()) {
            Ok(_) => {
                say("the configuration is good\n");
                exit::OK
            }
            Err(problems) => {
                complain(&problems.to_string());
                exit::CONFIG
            }
        },
    }
}
