//! `signet lineage export`, and reading an export again.
//!
//! An export is one line a record, by log and seq: a DSSE envelope, or what is left of a record whose payload was erased. A
//! bundle is a folder with these lines and what proves them to others:
//!
//! | name | content |
//! |---|---|
//! | `MANIFEST` | SHA-256 and name of every other file, as `sha256sum -c` reads it |
//! | `keys` | what `lineage keys` prints, if the folder has its keys; for information, not to be trusted |
//! | `logs/<log>/records.jsonl` | the log's lines |
//! | `logs/<log>/checkpoints` | the signed checkpoints that were there, one after the other |
//! | `logs/<log>/tile/…` | the tiles of the largest one, computed from the records |

use super::super::out::{complain, say};
use super::keys;
use super::source::{Seen, Source, each_stored};
use crate::exit;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use sha2::{Digest, Sha256};
use signet_lineage::tlog::{Tile, Tiles};
use signet_lineage::verify::{notes, read_line, write_line};
use signet_lineage::{Leaf, Record};
use signet_types::LogId;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

const MANIFEST: &str = "MANIFEST";
const RECORDS: &str = "records.jsonl";
const CHECKPOINTS: &str = "checkpoints";
/// Lines between two guesses of how many there are.
const GUESS_EVERY: u64 = 4_096;

#[derive(Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    source: Source,
    /// Write a folder with the records, checkpoints, tiles and a list of their hashes instead.
    #[arg(long, value_name = "DIR")]
    bundle: Option<PathBuf>,
}

pub(super) fn export(args: &ExportArgs) -> Result<u8> {
    if let Some(folder) = &args.bundle {
        return bundle(&args.source, folder);
    }
    let mut out = BufWriter::new(std::io::stdout().lock());
    let (mut written, mut unread) = (Ok(()), None);
    each_stored(&args.source, &mut |seen| match seen {
        Seen::Record(record, beside) if written.is_ok() => {
            let mut line = write_line(&record, &beside);
            line.push(b'\n');
            written = out.write_all(&line);
        }
        Seen::Pruned(log, below) => say_pruned(log, below),
        Seen::Unread(log, row) => unread = unread.take().or(Some(anyhow!("log {log}: {row}"))),
        _ => {}
    })?;
    // A reader that has enough (`| head`) is no fault.
    drop(written.and_then(|()| out.flush()));
    unread.map_or(Ok(exit::OK), Err)
}

fn say_pruned(log: LogId, below: u64) {
    complain(&format!("signet lineage export: the {below} first records of log {log} were pruned"));
}

pub(super) fn text_of(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).context("a record that is not text")
}

/// One log of a bundle while it is written.
struct Part {
    folder: PathBuf,
    lines: BufWriter<File>,
    leaves: Vec<[u8; 32]>,
    /// The leaves are those of the log's tree: none is missing.
    whole: bool,
}

impl Part {
    fn new(root: &Path, log: LogId) -> Result<Self> {
        let folder = root.join("logs").join(log.to_string());
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let lines = BufWriter::new(File::create(folder.join(RECORDS))?);
        Ok(Self { folder, lines, leaves: Vec::new(), whole: true })
    }

    fn add(&mut self, record: &Record, stored: &signet_lineage::verify::Stored) -> Result<()> {
        self.lines.write_all(&write_line(record, stored))?;
        self.lines.write_all(b"\n")?;
        self.whole &= record.seq == self.leaves.len() as u64;
        let erased = stored.leaf_hash.filter(|_| stored.erased);
        self.leaves.push(erased.unwrap_or_else(|| Leaf::of(record).hash()));
        Ok(())
    }

    /// Writes the tiles of the tree of `size` leaves. Whether it could.
    fn tiles(&self, size: u64) -> Result<bool> {
        let leaves = usize::try_from(size).ok().and_then(|size| self.leaves.get(..size)).filter(|_| self.whole);
        let Some(leaves) = leaves else { return Ok(false) };
        let (mut tiles, mut written) = (Tiles::default(), Ok(()));
        let write = |tile: Tile, hashes: &[[u8; 32]]| -> Result<()> {
            let file = self.folder.join(tile.to_string());
            fs::create_dir_all(file.parent().expect("a tile is in a folder"))?;
            Ok(fs::write(file, hashes.as_flattened())?)
        };
        for leaf in leaves {
            tiles.push(*leaf, |tile, hashes| {
                if written.is_ok() {
                    written = write(tile, hashes);
                }
            });
        }
        written?;
        tiles.partial().try_for_each(|(tile, hashes)| write(tile, hashes))?;
        Ok(true)
    }
}

fn bundle(source: &Source, root: &Path) -> Result<u8> {
    if fs::read_dir(root).is_ok_and(|mut entries| entries.next().is_some()) {
        bail!("{} is not empty", root.display());
    }
    fs::create_dir_all(root).with_context(|| format!("making {}", root.display()))?;
    let (mut parts, mut checkpoints) = (BTreeMap::<LogId, Part>::new(), Vec::new());
    let mut done = Ok(());
    each_stored(source, &mut |seen| match seen {
        Seen::Checkpoint(note) => checkpoints.push(note),
        Seen::Pruned(log, below) => say_pruned(log, below),
        Seen::Record(record, beside) if done.is_ok() => {
            let part = match parts.entry(record.log) {
                std::collections::btree_map::Entry::Occupied(part) => Ok(part.into_mut()),
                std::collections::btree_map::Entry::Vacant(free) => {
                    Part::new(root, record.log).map(|part| free.insert(part))
                }
            };
            done = part.and_then(|part| part.add(&record, &beside));
        }
        Seen::Unread(log, row) if done.is_ok() => done = Err(anyhow!("log {log}: {row}")),
        _ => {}
    })?;
    done?;
    for (log, part) in &mut parts {
        part.lines.flush()?;
        let own: BTreeMap<u64, &String> = checkpoints
            .iter()
            .filter_map(|note| named(note).filter(|(of, _)| of == log).map(|(_, size)| (size, note)))
            .collect();
        if let Some(size) = own.last_key_value().map(|(size, _)| *size) {
            let notes: Vec<_> = own.into_values().map(String::as_str).collect();
            fs::write(part.folder.join(CHECKPOINTS), notes.join("\n"))?;
            if !part.tiles(size)? {
                let what = format!("no tiles of log {log}: not all of its first {size} records are there");
                complain(&format!("signet lineage export: {what}"));
            }
        }
    }
    if let Ok(keys) = keys::text(source) {
        fs::write(root.join("keys"), keys)?;
    }
    let mut manifest = String::new();
    for file in files(root)? {
        writeln!(manifest, "{}  {}", sha256_of(&root.join(&file))?, file.display())?;
    }
    fs::write(root.join(MANIFEST), manifest)?;
    say(&format!("{} logs, {}\n", parts.len(), root.display()));
    Ok(exit::OK)
}

/// Which log a checkpoint is of, and of what size.
fn named(note: &str) -> Option<(LogId, u64)> {
    let mut lines = note.lines();
    let log = lines.next()?.rsplit_once('/')?.1.parse().ok()?;
    Some((log, lines.next()?.parse().ok()?))
}

/// Names of all files below `root` in order.
fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let (mut found, mut folders) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).with_context(|| format!("reading {}", root.display()))? {
            let (entry, name) = entry.map(|entry| (entry.file_type(), folder.join(entry.file_name())))?;
            if entry?.is_dir() { folders.push(name) } else { found.push(name) }
        }
    }
    found.sort();
    Ok(found)
}

fn sha256_of(file: &Path) -> Result<String> {
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
    let mut file = File::open(file)?;
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => hash.update(&buffer[..read]),
        }
    }
    let mut text = String::with_capacity(64);
    hash.finalize().iter().try_for_each(|byte| write!(text, "{byte:02x}"))?;
    Ok(text)
}

/// Gives what an export, or a bundle, holds.
pub(super) fn each_in_export(path: &Path, each: &mut dyn FnMut(Seen)) -> Result<()> {
    if !path.is_dir() {
        return each_line(path, 0, each);
    }
    check_manifest(path, each)?;
    let logs: Vec<PathBuf> = files(path)?.into_iter().filter(|file| file.starts_with("logs")).collect();
    for file in logs.iter().filter(|file| file.ends_with(CHECKPOINTS)) {
        for note in notes(&fs::read_to_string(path.join(file))?) {
            each(Seen::Checkpoint(note));
        }
    }
    let mut before = 0;
    for file in logs.iter().filter(|file| file.ends_with(RECORDS)) {
        each_line(&path.join(file), before, &mut |seen| {
            before += u64::from(matches!(seen, Seen::Record(..)));
            each(seen);
        })?;
    }
    Ok(())
}

/// The list of hashes proves nothing, but finds what was damaged on its way.
fn check_manifest(root: &Path, each: &mut dyn FnMut(Seen)) -> Result<()> {
    let text = fs::read_to_string(root.join(MANIFEST)).with_context(|| format!("{} is no bundle", root.display()))?;
    let mut listed = BTreeMap::new();
    for line in text.lines() {
        match line.split_once("  ") {
            Some((hash, name)) => drop(listed.insert(PathBuf::from(name), hash.to_owned())),
            None => each(Seen::Broken(format!("{MANIFEST} holds a line that is not a hash and a name: {line:?}"))),
        }
    }
    for file in files(root)?.into_iter().filter(|file| file.as_os_str() != MANIFEST) {
        match listed.remove(&file) {
            Some(hash) if hash == sha256_of(&root.join(&file))? => {}
            Some(_) => each(Seen::Broken(format!("{} is not the file that {MANIFEST} names", file.display()))),
            None => each(Seen::Broken(format!("{} stands in no line of {MANIFEST}", file.display()))),
        }
    }
    for file in listed.keys() {
        each(Seen::Broken(format!("{} is missing", file.display())));
    }
    Ok(())
}

/// Gives the lines of a file, of which never more than one is in memory here.
fn each_line(file: &Path, before: u64, each: &mut dyn FnMut(Seen)) -> Result<()> {
    let lines = File::open(file).with_context(|| format!("reading {}", file.display()))?;
    let length = lines.metadata()?.len();
    let mut lines = BufReader::with_capacity(1 << 18, lines);
    let (mut line, mut number, mut bytes) = (Vec::new(), 0_u64, 0_u64);
    loop {
        line.clear();
        let read = lines.read_until(b'\n', &mut line).with_context(|| format!("reading {}", file.display()))?;
        if read == 0 {
            return Ok(());
        }
        (number, bytes) = (number + 1, bytes + read as u64);
        if number % GUESS_EVERY == 1 {
            each(Seen::Of(before + (number * length).div_ceil(bytes)));
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        match read_line(text) {
            _ if text.is_empty() => {}
            Ok((record, stored)) => each(Seen::Record(record, Box::new(stored))),
            Err(fault) => each(Seen::Broken(format!("line {number} of {}: {fault}", file.display()))),
        }
    }
}

/// Reads a tile of a bundle.
pub(super) fn tile(root: &Path, log: LogId, tile: Tile) -> Option<Vec<u8>> {
    fs::read(root.join("logs").join(log.to_string()).join(tile.to_string())).ok()
}
