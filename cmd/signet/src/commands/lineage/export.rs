//! `signet lineage export`, and reading an export again.

use super::super::out::say;
use super::source::{Seen, Source, each_stored};
use crate::exit;
use anyhow::{Context, Result};
use signet_lineage::Record;
use std::fs;
use std::path::Path;

pub(super) fn export(source: &Source) -> Result<u8> {
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

pub(super) fn text_of(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).context("a record that is not text")
}

pub(super) fn each_in_export(file: &Path, mut each: impl FnMut(Record)) -> Result<()> {
    let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let record = Record::from_envelope_json(line.as_bytes());
        each(record.with_context(|| format!("line {} of {}", number + 1, file.display()))?);
    }
    Ok(())
}
