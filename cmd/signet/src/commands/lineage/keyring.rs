//! `signet lineage keys keyring`: what offline roots say of which key counts where.
//!
//! A keyring is drafted where the log is, carried to each root's own machine to be signed there, and carried back. Nothing
//! here needs a network; `check` says what `verify --keyring` would take.

use super::super::out::say;
use super::key_list;
use super::source::Source;
use crate::commands::admin::AdminArgs;
use crate::exit;
use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Subcommand};
use signet_lineage::verify::{Keyring, Pinned, RootPolicy};
use signet_lineage::{KeySet, KeyUse, KeyringEntry, Signer, draft_keyring, sign_keyring};
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Subcommand)]
pub(super) enum KeyringOrder {
    /// Print a keyring that nobody has signed yet: the keys that the records of a folder or database name, or pinned ones.
    Draft(DraftArgs),
    /// Add the signature of one root to a keyring. Offline: this reads two files and writes the first.
    Sign(SignArgs),
    /// Say what a keyring holds, if enough roots signed it.
    Check(CheckArgs),
    /// Give a signed keyring to a running gateway, and through its store to all replicas, which take it within seconds.
    Publish(PublishArgs),
}

#[derive(Args)]
pub(super) struct DraftArgs {
    /// A file of pinned keys to take them from, such as a gateway's `/v1/lineage/keys`; its keys count in every log.
    #[arg(long)]
    key: Option<PathBuf>,
    /// Must be higher than that of every keyring before.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    version: u64,
    /// A key, by its id or the first digits of it, that is in other hands from a place on: `KEYID:PLACE`.
    #[arg(long)]
    revoke: Vec<String>,
    #[command(flatten)]
    source: Source,
}

#[derive(Args)]
pub(super) struct SignArgs {
    file: PathBuf,
    /// The root's private key, PKCS#8 in DER or PEM, as `openssl genpkey -algorithm ed25519` makes it.
    #[arg(long)]
    root_key: PathBuf,
}

#[derive(Args)]
pub(super) struct PublishArgs {
    file: PathBuf,
    #[command(flatten)]
    admin: AdminArgs,
}

#[derive(Args)]
pub(super) struct CheckArgs {
    file: PathBuf,
    /// The roots' public keys in PEM, and how many of them must have signed; all of them if no number is given.
    #[arg(long, value_name = "FILE[:K]")]
    root: String,
}

pub(super) fn run(order: &KeyringOrder) -> Result<u8> {
    match order {
        KeyringOrder::Draft(args) => say(&String::from_utf8(draft(args)?)?),
        KeyringOrder::Sign(args) => sign(args)?,
        KeyringOrder::Check(args) => say(&text(&Keyring::open(&read(&args.file)?, &roots(&args.root)?)?)),
        KeyringOrder::Publish(args) => publish(args)?,
    }
    Ok(exit::OK)
}

fn publish(args: &PublishArgs) -> Result<()> {
    let (status, body) = args.admin.ask("POST", "/admin/v1/lineage/keyring", &read(&args.file)?)?;
    if status != 200 {
        bail!("the gateway says {status}: {}", body.trim());
    }
    say(&format!("{body}\n"));
    Ok(())
}

fn draft(args: &DraftArgs) -> Result<Vec<u8>> {
    let mut entries = match &args.key {
        Some(file) => pinned(file)?,
        None => named(&args.source)?,
    };
    for order in &args.revoke {
        let (key, place) = order.rsplit_once(':').with_context(|| format!("--revoke {order}: not KEYID:PLACE"))?;
        let place = place.parse().with_context(|| format!("--revoke {order}: no place"))?;
        let ours: Vec<_> = entries.iter_mut().filter(|entry| entry.key.key_id_text().starts_with(key)).collect();
        if ours.first().is_none_or(|first| ours.iter().any(|other| other.key != first.key)) {
            bail!("--revoke {order}: not the id of one key");
        }
        for entry in ours {
            entry.revoked = Some(place);
        }
    }
    let envelope = draft_keyring(args.version, &entries);
    Keyring::unproved(&envelope)?;
    Ok(envelope)
}

/// The turns of keys, as the records say.
fn named(source: &Source) -> Result<Vec<KeyringEntry>> {
    let turns = key_list::turns(source)?;
    let entry = |(at, turn): (usize, &key_list::Turn)| KeyringEntry {
        key: turn.key,
        key_use: turn.usage,
        log: Some(turn.log),
        from: turn.from,
        retired: key_list::heir(&turns, at).map(|heir| heir.from),
        revoked: None,
    };
    Ok(turns.iter().enumerate().map(entry).collect())
}

fn pinned(file: &Path) -> Result<Vec<KeyringEntry>> {
    let text = String::from_utf8(read(file)?).with_context(|| format!("reading {}", file.display()))?;
    let pinned = Pinned::parse(&text).with_context(|| format!("reading the keys in {}", file.display()))?;
    let entry = |key, key_use, log| KeyringEntry { key, key_use, log, from: 0, retired: None, revoked: None };
    let mut entries: Vec<_> = pinned.attest.iter().map(|key| entry(*key, KeyUse::Attest, None)).collect();
    for note in &pinned.notes {
        let log = note.name().rsplit_once('/').and_then(|(_, log)| log.parse().ok());
        let log = log.with_context(|| format!("{} does not end with the id of a log", note.name()))?;
        entries.push(entry(*note.public_key(), KeyUse::Checkpoint, Some(log)));
    }
    for revoked in &pinned.revoked {
        let ours = entries.iter().find(|entry| entry.key.key_id() == revoked.key_id).copied();
        let ours = ours.ok_or_else(|| anyhow!("{}: a key is revoked that is not pinned", file.display()))?;
        entries.push(KeyringEntry { log: Some(revoked.log), revoked: Some(revoked.last_good), ..ours });
    }
    Ok(entries)
}

/// The file is replaced as a whole, so that a machine that stops in between leaves the one before.
fn sign(args: &SignArgs) -> Result<()> {
    let envelope = read(&args.file)?;
    let ring = Keyring::unproved(&envelope).with_context(|| format!("reading {}", args.file.display()))?;
    let root = Signer::from_pkcs8(&read(&args.root_key)?)
        .with_context(|| format!("reading the key in {}", args.root_key.display()))?;
    let mut beside = args.file.clone().into_os_string();
    beside.push(".signed");
    fs::write(&beside, sign_keyring(&envelope, &root)?).with_context(|| format!("writing {}", beside.display()))?;
    fs::rename(&beside, &args.file).with_context(|| format!("replacing {}", args.file.display()))?;
    say(&format!("signed by root {}\n{}", root.public_key().key_id_text(), text(&ring)));
    Ok(())
}

/// What a root agrees to, a line each.
fn text(ring: &Keyring) -> String {
    let line = |entry: &KeyringEntry| {
        let log = entry.log.map_or_else(|| "any log".to_owned(), |log| log.to_string());
        let (key_use, key) = (entry.key_use.as_str(), entry.key.key_id_text());
        let end = |what: &str, at: Option<u64>| at.map_or_else(String::new, |at| format!(" {what} at {at}"));
        let (retired, revoked) = (end("retired", entry.retired), end("revoked", entry.revoked));
        format!("{log} {key_use} {key} from {}{retired}{revoked}\n", entry.from)
    };
    let lines: String = ring.entries.iter().map(line).collect();
    format!("keyring version {}\n{lines}", ring.version)
}

/// The file and the number in `FILE[:K]`.
pub(super) fn root_file(argument: &str) -> (&Path, Option<usize>) {
    let number = argument.rsplit_once(':').and_then(|(file, number)| Some((file, number.parse().ok()?)));
    number.map_or((Path::new(argument), None), |(file, number)| (Path::new(file), Some(number)))
}

/// The roots in `FILE[:K]`.
pub(super) fn roots(argument: &str) -> Result<RootPolicy> {
    let (file, threshold) = root_file(argument);
    let keys = KeySet::parse(&String::from_utf8(read(file)?)?);
    let keys = keys.with_context(|| format!("reading the roots in {}", file.display()))?;
    let count = keys.iter().count();
    match threshold {
        None => Ok(RootPolicy::all(keys)),
        Some(threshold) => RootPolicy::new(keys, threshold)
            .with_context(|| format!("{} holds {count} roots: {threshold} of them cannot be asked", file.display())),
    }
}

fn read(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("reading {}", file.display()))
}
