//! `signet lineage verify`.

use super::super::out::{complain, say};
use super::export::each_in_export;
use super::source::{Seen, Source, each_stored};
use crate::exit;
use anyhow::{Context, Result};
use clap::Args;
use signet_lineage::verify::{Options as VerifyOptions, Verifier};
use signet_lineage::{KeySet, Receipt};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const PROGRESS_EVERY: Duration = Duration::from_secs(2);

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

pub(super) fn verify(args: &VerifyArgs) -> Result<u8> {
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
