//! `signet config`: what a configuration file says, without starting anything.

use super::out::{complain, say};
use crate::exit;
use clap::Subcommand;
use signet_config::{Config, DEFAULT_TEXT, Overrides, ProcessEnv, import_litellm, read_file};
use std::path::{Path, PathBuf};

#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Report all faults of a file at once; exit 78 if there are any.
    Check {
        /// The file.
        file: PathBuf,
    },
    /// Turn a `LiteLLM` proxy's configuration (YAML) into providers and models of ours, on standard output. What cannot be
    /// expressed is named on standard error; exit 78 if nothing can be used.
    Import {
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
        ConfigCommand::Import { file } => import(file),
        ConfigCommand::Check { file } => match Config::load(Some(file), &ProcessEnv, Overrides::default()) {
            Ok(_) => {
                say("the configuration is good\n");
                exit::OK
            }
            Err(problems) => {
                complain(&problems.to_string());
                if has_ending(file, &["yaml", "yml"]) {
                    complain(
                        "this looks like YAML; `signet config import` turns a LiteLLM configuration into one of ours",
                    );
                }
                exit::CONFIG
            }
        },
    }
}

fn import(file: &Path) -> u8 {
    let read = read_file(file).map_err(|error| error.to_string());
    let text = read.and_then(|bytes| String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned()));
    match text.and_then(|text| import_litellm(&text)) {
        Ok(imported) => {
            for note in &imported.notes {
                complain(note);
            }
            say(&imported.text);
            if imported.models == 0 { exit::CONFIG } else { exit::OK }
        }
        Err(fault) => {
            complain(&format!("{}: {fault}", file.display()));
            if has_ending(file, &["toml"]) {
                complain("import reads LiteLLM's YAML; `signet config check` checks a file of ours");
            }
            exit::CONFIG
        }
    }
}

fn has_ending(file: &Path, endings: &[&str]) -> bool {
    file.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| endings.contains(&ending))
}
