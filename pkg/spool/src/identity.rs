//! The file that says which log a directory holds, and moving a log aside.
//!
//! `identity` is 32 bytes: magic `SIGNETI1`, version u32, log id, CRC-32C of what precedes it.

use crate::config::OpenFault;
use crate::files::Files;
use crate::frame::{has_suffix, segment_first_seq};
use crate::scan::read_full;
use signet_types::LogId;
use std::io;

pub(crate) const NAME: &str = "identity";
/// What others keep in the directory: the signed checkpoint and the directory of tiles.
const CHECKPOINT: &str = "checkpoint";
const TILES: &str = "tile";
const MAGIC: &[u8; 8] = b"SIGNETI1";
const VERSION: u32 = 1;
const LEN: usize = 32;

fn damaged(what: &'static str) -> OpenFault {
    OpenFault::Damaged { file: NAME.into(), what }
}

/// The log's id; none if there is no identity.
pub(crate) fn read(files: &dyn Files) -> Result<Option<LogId>, OpenFault> {
    let file = match files.open(NAME) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let mut bytes = [0; LEN + 1];
    if read_full(&*file, &mut bytes, 0)? != LEN || &bytes[..8] != MAGIC {
        return Err(damaged("it does not look like an identity"));
    }
    if crc32c::crc32c(&bytes[..28]).to_le_bytes() != bytes[28..32] {
        return Err(damaged("its checksum is wrong"));
    }
    if bytes[8..12] != VERSION.to_le_bytes() {
        return Err(damaged("its version is unknown; a newer Signet wrote it"));
    }
    Ok(Some(LogId::from_bytes(bytes[12..28].try_into().expect("16 bytes"))))
}

/// Writes the identity of a new log; durable when it has its name.
pub(crate) fn create(files: &dyn Files, log: LogId) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(LEN);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(log.as_bytes());
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    let file = files.create("identity.tmp")?;
    file.write_at(&bytes, 0)?;
    file.sync()?;
    files.rename("identity.tmp", NAME)?;
    files.sync_dir("")
}

/// Moves a log's files into `old-<log id>/`, oldest segment first and the identity last, so that an interrupted move
/// leaves a directory that is still behind the database, never one that looks new.
pub(crate) fn move_aside(files: &dyn Files, now_ms: u64) -> io::Result<()> {
    let mut names = files.list()?;
    names.retain(|n| n == NAME || n == CHECKPOINT || has_suffix(n, ".lsp"));
    if names.is_empty() {
        return Ok(());
    }
    let aside = match read(files) {
        Ok(Some(log)) => format!("old-{log}"),
        _ => format!("old-unknown-{now_ms}"),
    };
    // What was published goes last: without an identity it belongs to no log, and is left out of account.
    names.sort_by_key(|n| (n == CHECKPOINT, n == NAME, segment_first_seq(n)));
    files.make_dir(&aside)?;
    for name in &names {
        files.rename(name, &format!("{aside}/{name}"))?;
    }
    match files.rename(TILES, &format!("{aside}/{TILES}")) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    files.sync_dir(&aside)?;
    files.sync_dir("")?;
    tracing::warn!(aside, files = names.len(), "moved an old lineage log aside");
    Ok(())
}
