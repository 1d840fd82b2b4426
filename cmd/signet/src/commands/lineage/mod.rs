//! `signet lineage`: the auditor's tool. It takes no lock and changes nothing.

mod checkpoint;
mod erase;
mod export;
mod key_list;
mod keyring;
mod keys;
mod open;
mod prune;
mod reconcile;
mod sealed;
mod show;
mod source;
mod tenants;
mod verify;

pub(super) use source::{Source, each_stored};

use super::admin::AdminArgs;
use super::out::complain;
use crate::exit;
use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum LineageCommand {
    /// Check signatures, hashes, contiguity and tree roots; exit 0 only if all holds.
    Verify(verify::VerifyArgs),
    /// Print one record as a DSSE envelope.
    Show(show::ShowArgs),
    /// List every answer that was served from this one, a line each.
    Children(show::ShowArgs),
    /// Print the public keys of a data folder, in the form that `verify --key` takes; or rotate, list or revoke them.
    Keys(keys::KeysArgs),
    /// Print the newest checkpoint of each log, in the form of an anchor file.
    Checkpoint(Source),
    /// Remove the payload of one record, in a running gateway: its leaf and every proof stay.
    Erase(erase::EraseArgs),
    /// Print the sealed request and response of one answer, with the offline key; a running gateway signs first that it was done.
    Open(open::OpenArgs),
    /// Drop records that are older than `lineage.retain_days`, in a running gateway: now, and not within the hour.
    Prune(AdminArgs),
    /// Print every record as a DSSE envelope, one JSON object a line, for `verify --export`; or write a bundle of all that
    /// proves them.
    Export(export::ExportArgs),
}

pub(crate) fn run(command: LineageCommand) -> u8 {
    let done = match command {
        LineageCommand::Verify(args) => verify::verify(&args),
        LineageCommand::Show(args) => show::show(&args),
        LineageCommand::Children(args) => show::children(&args),
        LineageCommand::Keys(args) => keys::keys(&args),
        LineageCommand::Checkpoint(source) => checkpoint::checkpoint(&source),
        LineageCommand::Erase(args) => erase::erase(&args),
        LineageCommand::Open(args) => open::open(&args),
        LineageCommand::Prune(admin) => prune::prune(&admin),
        LineageCommand::Export(args) => export::export(&args),
    };
    done.unwrap_or_else(|error| {
        complain(&format!("signet lineage: {error:#}"));
        exit::FAILURE
    })
}
