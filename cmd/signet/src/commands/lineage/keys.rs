//! `signet lineage keys`.

use super::super::out::say;
use super::source::{Source, stored_logs};
use super::{key_list, keyring};
use crate::commands::admin::AdminArgs;
use crate::exit;
use crate::serve::keys::KeyFile;
use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde::Deserialize;
use signet_lineage::tlog::NoteKey;
use signet_lineage::{PublicKey, Signer};
use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    order: Option<KeysOrder>,
    #[command(flatten)]
    source: Source,
}

#[derive(Subcommand)]
enum KeysOrder {
    /// Let a new key sign records or checkpoints from now on, in a running gateway. Both keys have to be pinned from then on.
    Rotate(RotateArgs),
    /// Print which key signs from which place on, a line each, as the records say.
    List(Source),
    /// Print the line of a file of pinned keys by which what the key signed behind a place counts no more.
    Revoke(key_list::RevokeArgs),
    /// Draft, sign or check a keyring: what offline roots say of which key counts where, for `verify --keyring`.
    #[command(subcommand)]
    Keyring(keyring::KeyringOrder),
}

#[derive(Args)]
struct RotateArgs {
    /// What the new key is to sign: records (`attest`) or checkpoints.
    #[arg(long = "use", value_enum, default_value = "attest")]
    key_use: Use,
    #[command(flatten)]
    admin: AdminArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum Use {
    Attest,
    Checkpoint,
}

pub(super) fn keys(args: &KeysArgs) -> Result<u8> {
    match &args.order {
        None => say(&text(&args.source)?),
        Some(KeysOrder::Rotate(args)) => return rotate(args),
        Some(KeysOrder::List(source)) => return key_list::list(source),
        Some(KeysOrder::Revoke(args)) => return key_list::revoke(args),
        Some(KeysOrder::Keyring(order)) => return keyring::run(order),
    }
    Ok(exit::OK)
}

fn rotate(args: &RotateArgs) -> Result<u8> {
    let what = match args.key_use {
        Use::Attest => "attest",
        Use::Checkpoint => "checkpoint",
    };
    let order = format!("{{\"use\":\"{what}\"}}");
    let (status, body) = args.admin.ask("POST", "/admin/v1/lineage/keys/rotate", order.as_bytes())?;
    if status == 200 {
        say(&format!("{body}\n"));
        return Ok(exit::OK);
    }
    bail!("the gateway says {status}: {}", body.trim())
}

/// The public keys of a folder: those that sign records or did so as PEM, those that sign checkpoints as verifier keys. A key
/// whose rotation is under way is among them: it may sign already.
pub(super) fn text(source: &Source) -> Result<String> {
    let keys = known(source, "lineage.key")?;
    let mut text: String = keys.iter().map(PublicKey::to_pem).collect();
    if source.folder().join("lineage-checkpoint.key").exists() {
        let notes = known(source, "lineage-checkpoint.key")?;
        for (name, public) in names(source, &keys)?.iter().flat_map(|name| notes.iter().map(move |key| (name, *key))) {
            let key = NoteKey::new(name, public).ok_or_else(|| anyhow!("{name} is no key's name"))?;
            text.extend([key.to_string().as_str(), "\n"]);
        }
    }
    Ok(text)
}

fn known(source: &Source, name: &str) -> Result<Vec<PublicKey>> {
    let file = source.folder().join(name);
    let bytes = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
    let signer = Signer::from_pkcs8(&bytes).with_context(|| format!("reading the key in {}", file.display()))?;
    Ok(KeyFile::at(file).known(&signer))
}

#[derive(Deserialize)]
struct Opening {
    predicate: Predicate,
}

#[derive(Deserialize)]
struct Predicate {
    control: Control,
}

#[derive(Deserialize)]
struct Control {
    origin: String,
}

/// The names of the logs that these keys sign: the folder's own, as its first record says, and those of the database. A log
/// in memory is only there.
fn names(source: &Source, keys: &[PublicKey]) -> Result<BTreeSet<String>> {
    let rows = stored_logs(source)?.into_iter().filter(|row| keys.iter().any(|key| row.attest_key == *key.as_bytes()));
    let mut names: BTreeSet<_> = rows.map(|row| format!("{}/{}", row.origin, row.log)).collect();
    if let Some(dir) = source.log_folder() {
        signet_spool::read_records(&dir, 0, |record| {
            let opening = Some(&record).filter(|record| record.seq == 0);
            let opening = opening.and_then(|record| serde_json::from_slice::<Opening>(&record.payload).ok());
            names.extend(opening.map(|opening| format!("{}/{}", opening.predicate.control.origin, record.log)));
            ControlFlow::Break(())
        })?;
    }
    Ok(names)
}
