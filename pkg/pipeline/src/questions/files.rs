//! The files of the question log: lines appended to small files, of which the oldest are removed whole.
//!
//! Nothing is remembered between calls, so that an operator may remove the files at any time and a restart goes on where
//! the last life ended. A line that a crash cut short is passed over by the reader and closed by the next writer. What a
//! file's name says (the time of its first line) is what its age is measured by.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde::{Deserialize, Serialize};
use signet_types::TenantId;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Files that the bounds are split over: so much of a bound goes at a time.
const PARTS: u64 = 16;
const SUFFIX: &str = ".jsonl";

/// The log's folder and bounds.
#[derive(Debug, Clone)]
pub struct QuestionFiles {
    dir: PathBuf,
    max_bytes: u64,
    max_age_ms: u64,
}

/// One line: whose it is, when it was asked (milliseconds since the Unix epoch), and the rest sealed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Whose it is.
    pub tenant: TenantId,
    /// When it was written.
    pub at_ms: u64,
    /// An [`super::AskedQuestion`], sealed with the tenant's key.
    pub sealed: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
struct Written {
    tenant: String,
    at_ms: u64,
    sealed: String,
}

#[derive(Debug, Clone)]
struct Part {
    path: PathBuf,
    since_ms: u64,
    bytes: u64,
}

impl Line {
    fn to_text(&self) -> String {
        let sealed = STANDARD_NO_PAD.encode(&self.sealed);
        let written = Written { tenant: self.tenant.to_string(), at_ms: self.at_ms, sealed };
        serde_json::to_string(&written).expect("texts and numbers become JSON") + "\n"
    }

    fn parse(text: &str) -> Option<Self> {
        let written: Written = serde_json::from_str(text).ok()?;
        let sealed = STANDARD_NO_PAD.decode(written.sealed).ok()?;
        Some(Self { tenant: written.tenant.parse().ok()?, at_ms: written.at_ms, sealed })
    }
}

impl QuestionFiles {
    /// The log in `dir`, which is made when the first line comes. Together its files never hold more than `max_bytes`, and
    /// no line is kept for longer than `max_age`.
    pub fn new(dir: impl Into<PathBuf>, max_bytes: u64, max_age: Duration) -> Self {
        let max_age_ms = u64::try_from(max_age.as_millis()).unwrap_or(u64::MAX);
        Self { dir: dir.into(), max_bytes, max_age_ms }
    }

    /// Removes what has grown too old, then appends. How many lines were longer than a sixteenth of the bound and left out.
    ///
    /// # Errors
    /// The folder cannot be written to. A part of the lines may have been written.
    pub fn append(&self, now_ms: u64, lines: &[Line]) -> io::Result<u64> {
        let mut parts = self.parts()?;
        self.remove_old(&mut parts, now_ms)?;
        let mut left_out = 0;
        for line in lines {
            let text = line.to_text();
            // A line break may have to close what a crash cut short.
            let bytes = text.len() as u64 + 1;
            if bytes > self.max_bytes / PARTS {
                left_out += 1;
                continue;
            }
            self.make_room(&mut parts, bytes, now_ms)?;
            let last = parts.last_mut().expect("there is room in the last one");
            last.bytes += write(&last.path, text.as_bytes())?;
        }
        Ok(left_out)
    }

    fn remove_old(&self, parts: &mut Vec<Part>, now_ms: u64) -> io::Result<()> {
        let old = parts.iter().take_while(|part| now_ms.saturating_sub(part.since_ms) >= self.max_age_ms).count();
        parts.drain(..old).try_for_each(|part| remove(&part.path))
    }

    /// Makes the last part one that takes `bytes` more, and removes the first ones until all is within the bound.
    fn make_room(&self, parts: &mut Vec<Part>, bytes: u64, now_ms: u64) -> io::Result<()> {
        let takes = |part: &Part| {
            let young = now_ms.saturating_sub(part.since_ms) < self.max_age_ms.div_ceil(PARTS);
            young && part.bytes + bytes <= self.max_bytes / PARTS
        };
        if !parts.last().is_some_and(takes) {
            let since_ms = parts.last().map_or(now_ms, |last| now_ms.max(last.since_ms + 1));
            parts.push(Part { path: self.dir.join(format!("{since_ms:016}{SUFFIX}")), since_ms, bytes: 0 });
        }
        let total: u64 = parts.iter().map(|part| part.bytes).sum();
        let mut over = (total + bytes).saturating_sub(self.max_bytes);
        while over > 0 && parts.len() > 1 {
            let first = parts.remove(0);
            remove(&first.path)?;
            over = over.saturating_sub(first.bytes);
        }
        Ok(())
    }

    /// Every line that can be read and is not too old, oldest first, and the number of those that cannot be read.
    ///
    /// # Errors
    /// The files cannot be read.
    pub fn read(&self, now_ms: u64, each: &mut dyn FnMut(Line)) -> io::Result<u64> {
        let mut damaged = 0;
        for part in self.parts()? {
            let mut from = match File::open(&part.path) {
                Ok(file) => BufReader::new(file),
                // Removed by the gateway since it was listed.
                Err(gone) if gone.kind() == ErrorKind::NotFound => continue,
                Err(fault) => return Err(fault),
            };
            let mut text = Vec::new();
            while from.read_until(b'\n', &mut text)? > 0 {
                match std::str::from_utf8(&text).ok().and_then(Line::parse) {
                    Some(line) if now_ms.saturating_sub(line.at_ms) < self.max_age_ms => each(line),
                    Some(_) => {}
                    None => damaged += 1,
                }
                text.clear();
            }
        }
        Ok(damaged)
    }

    /// Removes every line; how many files there were.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn erase(&self) -> io::Result<usize> {
        let parts = self.parts()?;
        parts.iter().try_for_each(|part| remove(&part.path))?;
        Ok(parts.len())
    }

    /// Oldest first; none where there is no folder.
    fn parts(&self) -> io::Result<Vec<Part>> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(none) if none.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(fault) => return Err(fault),
        };
        let mut parts = Vec::new();
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(SUFFIX));
            let Some(since_ms) = name.and_then(|name| name.parse().ok()) else { continue };
            let Ok(known) = fs::metadata(&path) else { continue };
            parts.push(Part { path, since_ms, bytes: known.len() });
        }
        parts.sort_by_key(|part| part.since_ms);
        Ok(parts)
    }
}

/// Appends a line, after a line break if the last one has none. How many bytes it took.
fn write(path: &Path, text: &[u8]) -> io::Result<u64> {
    if let Some(dir) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    let mut file = OpenOptions::new().create(true).read(true).append(true).mode(0o600).open(path)?;
    let whole = if ends_a_line(&mut file)? { text.to_vec() } else { [b"\n", text].concat() };
    file.write_all(&whole)?;
    Ok(whole.len() as u64)
}

fn ends_a_line(file: &mut File) -> io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(true);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(fault) if fault.kind() != ErrorKind::NotFound => Err(fault),
        _ => Ok(()),
    }
}
