//! `signet lineage keys list` and `revoke`: which key signs from which place on, as the records themselves say. Nothing is
//! proved by this; `verify` proves it.

use super::super::out::say;
use super::source::{Seen, Source, each_stored};
use crate::exit;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde::Deserialize;
use signet_lineage::{KeyUse, PublicKey, Record};
use signet_types::LogId;
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

#[derive(Args)]
pub(super) struct RevokeArgs {
    /// The key's id, or its first digits, as `list` prints it.
    key: String,
    /// How many records of the log stay good: the size of the last checkpoint that others held before the key was stolen.
    #[arg(long)]
    last_good: u64,
    /// The log; needed where the key signs more than one.
    #[arg(long)]
    log: Option<LogId>,
    /// A file of pinned keys to add the line to.
    #[arg(long)]
    into: Option<PathBuf>,
    #[command(flatten)]
    source: Source,
}

/// From where on a key signs in a log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) log: LogId,
    pub(super) usage: KeyUse,
    /// The place of a record is its seq, that of a checkpoint the seq of the last record that it covers.
    pub(super) from: u64,
    pub(super) key: PublicKey,
}

pub(super) fn list(source: &Source) -> Result<u8> {
    let turns = turns(source)?;
    for (at, turn) in turns.iter().enumerate() {
        let until = heir(&turns, at).map_or_else(|| "in force".to_owned(), |heir| format!("below {}", heir.from));
        let Turn { log, usage, from, key } = turn;
        say(&format!("{log} {} {} from {from} {until}\n", usage.as_str(), key.key_id_text()));
    }
    Ok(exit::OK)
}

/// Who takes over from the turn at `at`.
pub(super) fn heir(turns: &[Turn], at: usize) -> Option<&Turn> {
    turns[at + 1..].iter().find(|heir| (heir.log, heir.usage) == (turns[at].log, turns[at].usage))
}

pub(super) fn revoke(args: &RevokeArgs) -> Result<u8> {
    let turns = turns(&args.source)?;
    let named = turns.iter().filter(|turn| turn.key.key_id_text().starts_with(&args.key));
    let named = named.filter(|turn| args.log.is_none_or(|log| log == turn.log));
    let named: BTreeSet<_> = named.map(|turn| (turn.key.key_id_text(), turn.log)).collect();
    let mut named = named.into_iter();
    let (key, log) = match (named.next(), named.next()) {
        (Some(found), None) => found,
        (None, _) => {
            bail!("no record names a key {} there: see `signet lineage keys list`", args.key)
        }
        (Some(_), Some(_)) => {
            bail!("{} is more than one key, or signs more than one log: say more digits, or --log", args.key)
        }
    };
    let line = format!("revoked {key} {log} {}\n", args.last_good);
    if let Some(file) = &args.into {
        let opened = OpenOptions::new().append(true).open(file);
        // On a line of its own, whatever the file ends with.
        let written =
            opened.and_then(|mut file| file.write_all(format!("\n{line}").as_bytes()).and_then(|()| file.sync_all()));
        written.with_context(|| format!("adding to {}", file.display()))?;
    }
    say(&line);
    Ok(exit::OK)
}

/// Every turn that the records name, by log and place.
pub(super) fn turns(source: &Source) -> Result<Vec<Turn>> {
    let (mut turns, mut fault) = (Vec::new(), None);
    each_stored(source, &mut |seen| {
        if let Seen::Unread(log, row) = &seen {
            fault.get_or_insert_with(|| anyhow!("log {log}: {row}"));
        }
        let Seen::Record(record, _) = seen else { return };
        match read(&record) {
            Ok(found) => turns.extend(found),
            Err(error) => fault = fault.take().or(Some(error)),
        }
    })?;
    fault.map_or(Ok(turns), Err)
}

#[derive(Deserialize)]
struct Statement {
    predicate: Predicate,
}

#[derive(Deserialize)]
struct Predicate {
    control: Control,
}

#[derive(Deserialize)]
struct Control {
    #[serde(rename = "use")]
    usage: Option<String>,
    old_key: Option<String>,
    new_key: Option<String>,
    key: Option<String>,
    checkpoint_key: Option<String>,
}

fn read(record: &Record) -> Result<Vec<Turn>> {
    // Most records are of requests, and need not be read for this.
    let about = |kind: &str| std::str::from_utf8(&record.payload).is_ok_and(|text| text.contains(kind));
    if record.seq > 0 && !about("\"kind\":\"key_rotate\"") {
        return Ok(Vec::new());
    }
    let Ok(said) = serde_json::from_slice::<Statement>(&record.payload) else { return Ok(Vec::new()) };
    let control = said.predicate.control;
    let log = record.log;
    let turn = |usage, from, digits: Option<String>| {
        let key = digits
            .map(|digits| PublicKey::from_hex(&digits).ok_or_else(|| anyhow!("log {log} seq {}: no key", record.seq)));
        Ok::<_, anyhow::Error>(key.transpose()?.map(|key| Turn { log, usage, from, key }))
    };
    let found = match control.usage.as_deref() {
        Some("attest") => vec![turn(KeyUse::Attest, record.seq + 1, control.new_key)?],
        Some("checkpoint") => {
            // The first one of a log that is older than checkpoints signs them all.
            let from = control.old_key.map_or(0, |_| record.seq);
            vec![turn(KeyUse::Checkpoint, from, control.new_key)?]
        }
        _ => vec![turn(KeyUse::Attest, 0, control.key)?, turn(KeyUse::Checkpoint, 0, control.checkpoint_key)?],
    };
    Ok(found.into_iter().flatten().collect())
}
