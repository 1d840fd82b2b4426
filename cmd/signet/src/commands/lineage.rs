//! `signet lineage`: the auditor's tool. It takes no lock and changes nothing.

use super::facts::Facts;
use super::out::{complain, say};
use crate::exit;
use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Subcommand};
use signet_lineage::verify::{Options as VerifyOptions, Stored, Verifier};
use signet_lineage::{KeySet, LogRow, Receipt, Record, Signer};
use signet_spool::{Config as SpoolConfig, Spool};
use signet_store::{Options as StoreOptions, Stores};
use signet_types::{LineageId, LogId};
use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const PAGE: u32 = 5_000;
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

#[derive(Subcommand)]
pub(crate) enum LineageCommand {
    /// Check signatures, hashes, contiguity and tree roots; exit 0 only if all holds.
    Verify(VerifyArgs),
    /// Print one record as a DSSE envelope.
    Show(ShowArgs),
    /// List every answer that was served from this one, a line each.
    Children(ShowArgs),
    /// Print the public keys of a data folder, in the form that `verify --key` takes.
    Keys(Source),
    /// Print every record as a DSSE envelope, one JSON object a line, for `verify --export`.
    Export(Source),
}

#[derive(Args)]
pub(crate) struct Source {
    /// A data folder: its database and what is not in it yet; ./signet-data if nothing else is given.
    #[arg(long)]
    data: Option<PathBuf>,
    /// A database, as a postgres:// or sqlite:// URL. With a data folder beside it: and what only its log holds yet.
    #[arg(long)]
    db: Option<String>,
    /// The data folder of the environment.
    #[arg(long, env = "SIGNET_DATA", default_value = "./signet-data", hide = true)]
    default_data: PathBuf,
}

impl Source {
    fn folder(&self) -> &Path {
        self.data.as_ref().unwrap_or(&self.default_data)
    }
}

#[derive(Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    source: Source,
    /// A file of DSSE envelopes, one a line, instead.
    #[arg(long, conflicts_with = "db")]
    export: Option<PathBuf>,
    /// The pinned public keys, PEM; kept where the gateway's operator cannot change them.
    #[arg(long)]
    key: Option<PathBuf>,
    /// Receipts that a client kept, one `Lineage-Receipt` value a line: their records must be there, unchanged.
    #[arg(long)]
    receipts: Option<PathBuf>,
    /// Checkpoints kept elsewhere; not available in this version.
    #[arg(long)]
    anchor: Option<PathBuf>,
    /// Fail where nothing pins the end of a log.
    #[arg(long)]
    require_anchor: bool,
}

#[derive(Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    source: Source,
    /// The Lineage-Id.
    id: String,
}

pub(crate) fn run(command: LineageCommand) -> u8 {
    let done = match command {
        LineageCommand::Verify(args) => verify(&args),
        LineageCommand::Show(args) => show(&args),
        LineageCommand::Children(args) => children(&args),
        LineageCommand::Keys(source) => keys(&source),
        LineageCommand::Export(source) => export(&source),
    };
    done.unwrap_or_else(|error| {
        complain(&format!("signet lineage: {error:#}"));
        exit::FAILURE
    })
}

fn verify(args: &VerifyArgs) -> Result<u8> {
    if args.anchor.is_some() {
        complain("signet lineage verify: --anchor is not available in this version");
        return Ok(exit::USAGE);
    }
    let Some(key) = &args.key else {
        complain("signet lineage verify: --key FILE is needed: a log vouched for by its own folder proves nothing");
        return Ok(exit::USAGE);
    };
    let text = fs::read_to_string(key).with_context(|| format!("reading {}", key.display()))?;
    let keys = KeySet::parse(&text).with_context(|| format!("reading the keys in {}", key.display()))?;
    let options = VerifyOptions { require_anchor: args.require_anchor, ..VerifyOptions::default() };
    let mut verifier = Verifier::new(&keys, options);
    if let Some(file) = &args.receipts {
        for receipt in receipts(file)? {
            verifier.receipt(receipt);
        }
    }
    let mut progress = Progress::new();
    match &args.export {
        Some(file) => each_in_export(file, |record| {
            progress.step();
            verifier.record(record, None);
        })?,
        None => each_stored(&args.source, &mut |seen| match seen {
            Seen::Log(row) => verifier.log(row),
            Seen::Record(record, beside) => {
                progress.step();
                verifier.row(record, *beside);
            }
        })?,
    }
    let report = verifier.finish();
    say(&report.to_string());
    let code = report.exit_code();
    if report.records == 0 {
        say("EMPTY: there is not one record to verify\n");
    }
    say(&format!("{}\n", if code == 0 { "OK".to_owned() } else { format!("FAILED ({code})") }));
    Ok(code)
}

fn receipts(file: &Path) -> Result<Vec<Receipt>> {
    let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| line.parse().with_context(|| format!("in {}: {line:?}", file.display()))).collect()
}

fn show(args: &ShowArgs) -> Result<u8> {
    let id: LineageId = args.id.parse().map_err(|_| anyhow!("{:?} is not a Lineage-Id", args.id))?;
    let mut found = None;
    each_stored(&args.source, &mut |seen| {
        if let Seen::Record(record, _) = seen
            && record.id == id
        {
            found = Some(record);
        }
    })?;
    let Some(record) = found else {
        complain(&format!("signet lineage show: there is no record {id}"));
        return Ok(exit::FAILURE);
    };
    say(&format!("{}\n{}\n", text_of(record.to_envelope_json())?, text_of(record.payload.to_vec())?));
    Ok(exit::OK)
}

/// Everyone who was served from an answer, wherever it stands in a chain: a hit on an entry that another record filled.
fn children(args: &ShowArgs) -> Result<u8> {
    let id: LineageId = args.id.parse().map_err(|_| anyhow!("{:?} is not a Lineage-Id", args.id))?;
    let mut found = 0_u64;
    each_stored(&args.source, &mut |seen| {
        let Seen::Record(record, _) = seen else { return };
        let Ok(facts) = Facts::read(&record) else { return };
        for parent in facts.parents.iter().filter(|parent| parent.id == id) {
            found += 1;
            let tenant = facts.tenant.as_deref().unwrap_or("-");
            say(&format!("{} {} {} tenant {tenant} status {}\n", record.id, parent.rel, facts.at(), facts.status));
        }
    })?;
    complain(&format!("{found} answers were served from {id}"));
    Ok(exit::OK)
}

fn export(source: &Source) -> Result<u8> {
    let mut failed = None;
    each_stored(source, &mut |seen| {
        if let Seen::Record(record, _) = seen {
            match text_of(record.to_envelope_json()) {
                Ok(line) => say(&format!("{line}\n")),
                Err(error) => failed = Some(error),
            }
        }
    })?;
    failed.map_or(Ok(exit::OK), Err)
}

fn keys(source: &Source) -> Result<u8> {
    let file = source.folder().join("lineage.key");
    let bytes = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
    let signer = Signer::from_pkcs8(&bytes).with_context(|| format!("reading the key in {}", file.display()))?;
    say(&signer.public_key().to_pem());
    Ok(exit::OK)
}

fn text_of(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).context("a record that is not text")
}

/// What a source holds.
pub(super) enum Seen {
    Log(LogRow),
    /// A record, and the copies of its fields that a database keeps beside it.
    Record(Record, Box<Stored>),
}

/// Gives every record of a source, log by log in order: shipped rows first, then what the folder's own log holds beyond
/// them.
pub(super) fn each_stored(source: &Source, each: &mut dyn FnMut(Seen)) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let folder = if source.db.is_some() { source.data.as_deref() } else { Some(source.folder()) };
    let url = source.db.clone().unwrap_or_else(|| "sqlite://signet.db".to_owned());
    let database = source.db.is_some() || source.folder().join("signet.db").exists();
    let spool = folder.map(|folder| folder.join("lineage")).filter(|dir| dir.exists());
    if !database && spool.is_none() {
        bail!("{} holds no lineage", source.folder().display());
    }
    let mut next: BTreeMap<LogId, u64> = BTreeMap::new();
    if database {
        let stores = {
            let _inside = runtime.enter();
            Stores::open_read_only(&StoreOptions::new(url, source.folder()))?
        };
        if runtime.block_on(stores.has_schema())? {
            runtime.block_on(each_row(&stores, &mut next, each))?;
        } else {
            // Nothing was ever shipped to it, or it was replaced: what the log holds must stand by itself.
            complain(
                "signet lineage: the database holds no lineage tables; what the data folder's log holds is all there is",
            );
        }
    }
    if let Some(dir) = spool {
        let log = Spool::peek(&SpoolConfig::new(&dir))?;
        let from = log.and_then(|log| next.get(&log).copied()).unwrap_or(0);
        signet_spool::read_records(&dir, from, |record| {
            each(Seen::Record(record, Box::default()));
            ControlFlow::Continue(())
        })?;
    }
    Ok(())
}

async fn each_row(stores: &Stores, next: &mut BTreeMap<LogId, u64>, each: &mut dyn FnMut(Seen)) -> Result<()> {
    for row in stores.records.logs().await? {
        let log = row.log;
        each(Seen::Log(row));
        let mut from = 0;
        loop {
            let page = stores.stored(log, from, PAGE).await?;
            let Some((last, _)) = page.last() else { break };
            from = last.seq + 1;
            for (record, beside) in page {
                each(Seen::Record(record, Box::new(beside)));
            }
        }
        next.insert(log, from);
    }
    Ok(())
}

fn each_in_export(file: &Path, mut each: impl FnMut(Record)) -> Result<()> {
    let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let record = Record::from_envelope_json(line.as_bytes());
        each(record.with_context(|| format!("line {} of {}", number + 1, file.display()))?);
    }
    Ok(())
}

/// Says on standard error how far a long run is.
struct Progress {
    started: Instant,
    told: Instant,
    records: u64,
}

impl Progress {
    fn new() -> Self {
        let now = Instant::now();
        Self { started: now, told: now, records: 0 }
    }

    fn step(&mut self) {
        self.records += 1;
        if self.records.is_multiple_of(1024) && self.told.elapsed() >= PROGRESS_EVERY {
            self.told = Instant::now();
            let rate = self.records as f64 / self.started.elapsed().as_secs_f64();
            complain(&format!("{} records read, {rate:.0} a second", self.records));
        }
    }
}
