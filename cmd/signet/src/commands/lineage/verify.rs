//! `signet lineage verify`.

use super::super::out::{complain, say};
use super::super::progress::Progress;
use super::export::{each_in_export, tile};
use super::keyring::{root_file, roots};
use super::reconcile::Usage;
use super::sealed::Sealed;
use super::source::{Seen, Source, ahead, each_stored};
use super::tenants::tenant_keys;
use crate::exit;
use anyhow::{Context, Result, bail};
use clap::Args;
use signet_lineage::Receipt;
use signet_lineage::tlog::Tile;
use signet_lineage::verify::{Code, Keyring, Options as VerifyOptions, Pinned, Report, Verifier, notes};
use signet_types::LogId;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    source: Source,
    /// A file of DSSE envelopes, one a line, or a bundle, instead.
    #[arg(long, conflicts_with = "db")]
    export: Option<PathBuf>,
    /// The pinned public keys: PEM for records, `name+id+base64` for checkpoints; kept where the operator cannot change them.
    #[arg(long)]
    key: Option<PathBuf>,
    /// Instead of pinned keys: a keyring that offline roots signed.
    #[arg(long, requires = "root", conflicts_with = "key")]
    keyring: Option<PathBuf>,
    /// The roots' public keys in PEM, and how many of them must have signed; all of them if no number is given.
    #[arg(long, value_name = "FILE[:K]", requires = "keyring")]
    root: Option<String>,
    /// Receipts that a client kept, one `Lineage-Receipt` value a line: their records must be there, unchanged.
    #[arg(long)]
    receipts: Option<PathBuf>,
    /// Signed checkpoints that were kept elsewhere, one after the other; may be given several times.
    #[arg(long)]
    anchor: Vec<PathBuf>,
    /// Signed checkpoints that earlier runs ended with: signatures before them are not checked again.
    #[arg(long, value_name = "ANCHOR")]
    since: Option<PathBuf>,
    /// Fail where nothing pins the end of a log.
    #[arg(long)]
    require_anchor: bool,
    /// What a provider says it did, as CSV with the columns provider, model, day, requests, input_tokens, output_tokens
    /// and, if it has them, request_id.
    #[arg(long, value_name = "CSV")]
    reconcile: Option<PathBuf>,
}

pub(super) fn verify(args: &VerifyArgs) -> Result<u8> {
    if args.key.is_none() && args.keyring.is_none() {
        complain(
            "signet lineage verify: --key FILE, or --keyring FILE --root FILE, is needed: a log vouched for by its own \
             folder proves nothing",
        );
        return Ok(exit::USAGE);
    }
    if let Some(inside) = from_inside(args) {
        let inside = inside.display();
        complain(&format!("signet lineage verify: {inside} lies in what is verified, and so proves nothing"));
        return Ok(exit::USAGE);
    }
    let pinned = pinned(args)?;
    let options = VerifyOptions {
        require_anchor: args.require_anchor,
        live: args.export.is_none() && args.source.is_live(),
        threads: std::thread::available_parallelism().map_or(2, Into::into),
    };
    let mut verifier = Verifier::trusting(pinned, options);
    told(args, &mut verifier)?;
    let mut usage = args.reconcile.as_deref().map(Usage::read).transpose()?;
    let mut sealed = Sealed::default();
    let aside = look(args, &mut verifier, usage.as_mut(), &mut sealed)?;
    let unsealed = sealed.compare(args.export.is_none().then_some(&args.source), &mut verifier);
    if let Some(usage) = usage {
        let strangers = match tenant_keys(&args.source, &usage)? {
            Some(keys) => usage.strangers(&keys),
            None => Vec::new(),
        };
        for (missing, line) in usage.differences().into_iter().chain(strangers) {
            say(&format!("reconcile: {line}\n"));
            if missing {
                verifier.finding(Code::Gap, format!("a provider counts requests that have no record: {line}"));
            }
        }
    }
    let mut report = verifier.finish_with(Some(&mut |log, tile| tile_of(args, log, tile)));
    report.not_checked.extend(unsealed);
    report.not_checked.extend(aside);
    Ok(say_report(&report))
}

/// What is trusted: a file of pinned keys, or what enough roots signed.
fn pinned(args: &VerifyArgs) -> Result<Pinned> {
    if let (Some(file), Some(root)) = (&args.keyring, &args.root) {
        let envelope = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
        let ring = Keyring::open(&envelope, &roots(root)?);
        return Ok(ring.with_context(|| format!("reading the keyring in {}", file.display()))?.into());
    }
    let key = args.key.as_deref().context("--key is needed")?;
    Pinned::parse(&read(key)?).with_context(|| format!("reading the keys in {}", key.display()))
}

/// Hands over what was kept elsewhere.
fn told(args: &VerifyArgs, verifier: &mut Verifier) -> Result<()> {
    if let Some(file) = &args.receipts {
        receipts(file)?.into_iter().for_each(|receipt| verifier.receipt(receipt));
    }
    for file in &args.anchor {
        // Every one of them is looked at.
        if kept(file)?.iter().filter(|note| verifier.kept(note)).count() == 0 {
            bail!("{} holds no checkpoint", file.display());
        }
    }
    if let Some(file) = &args.since {
        let notes = kept(file)?;
        if notes.is_empty() {
            bail!("{} holds no checkpoint", file.display());
        }
        for note in notes {
            verifier.since(&note).with_context(|| format!("reading {}", file.display()))?;
        }
    }
    Ok(())
}

/// Hands over the records; what is there beside them and cannot be judged.
fn look(
    args: &VerifyArgs,
    verifier: &mut Verifier,
    mut usage: Option<&mut Usage>,
    sealed: &mut Sealed,
) -> Result<Vec<String>> {
    let (mut progress, mut done, mut of, mut aside) = (Progress::new("records"), 0, None, Vec::new());
    let each = |seen| match seen {
        Seen::Log(row) => verifier.log(row),
        Seen::Of(records) => of = Some(records),
        // What its own signed records say of that counts.
        Seen::Pruned(..) => {}
        Seen::Checkpoint(note) => verifier.held(&note),
        Seen::Unread(log, row) => {
            verifier.unread(log, row.seq.and_then(|seq| u64::try_from(seq).ok()), row.to_string());
        }
        Seen::Broken(what) => verifier.finding(Code::BadLeaf, what),
        Seen::Stray(log) => {
            verifier.finding(Code::MissingLog, format!("there are records of {log}, which the database does not list"));
        }
        Seen::Aside(what) => aside.push(what),
        Seen::Record(record, beside) => {
            done += 1;
            progress.step(done, of);
            if let Some(usage) = &mut usage {
                usage.count(&record);
            }
            if !beside.erased {
                sealed.note(&record);
            }
            verifier.row(record, *beside);
        }
    };
    match &args.export {
        Some(path) => ahead(|give| each_in_export(path, give), each),
        None => ahead(|give| each_stored(&args.source, give), each),
    }?;
    Ok(aside)
}

fn tile_of(args: &VerifyArgs, log: LogId, which: Tile) -> Option<Vec<u8>> {
    match &args.export {
        Some(root) => tile(root, log, which),
        None => fs::read(args.source.log_folder()?.join(which.to_string())).ok(),
    }
}

fn say_report(report: &Report) -> u8 {
    say(&report.to_string());
    let code = report.exit_code();
    if report.records == 0 {
        say("EMPTY: there is not one record to verify\n");
    }
    say(&format!("{}\n", if code == 0 { "OK".to_owned() } else { format!("FAILED ({code})") }));
    code
}

/// A file that should come from elsewhere and comes from the folder that it is to judge.
fn from_inside(args: &VerifyArgs) -> Option<PathBuf> {
    let judged = args.export.as_deref().filter(|path| path.is_dir()).unwrap_or_else(|| args.source.folder());
    let judged = fs::canonicalize(judged).ok()?;
    let root = args.root.as_deref().map(|root| root_file(root).0.to_owned());
    let files =
        [&args.key, &args.keyring, &root, &args.receipts, &args.since].into_iter().flatten().chain(&args.anchor);
    files.into_iter().find(|file| fs::canonicalize(file).is_ok_and(|file| file.starts_with(&judged))).cloned()
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))
}

fn kept(file: &Path) -> Result<Vec<String>> {
    Ok(notes(&read(file)?))
}

fn receipts(file: &Path) -> Result<Vec<Receipt>> {
    let text = read(file)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| line.parse().with_context(|| format!("in {}: {line:?}", file.display()))).collect()
}
