//! The reserve: a file that holds room on the disk. When the disk is full it becomes the segment in which requests in flight
//! end and the log still says what happened; new requests are refused from then on, until there is a reserve again.

use crate::files::{Files, Handle};
use crate::spool::Shared;
use std::io;
use std::sync::Arc;

/// Its name ends as that of a file that a start removes: what the log holds never depends on it.
pub(crate) const NAME: &str = "reserve.tmp";
/// Its size. Requests in flight have room in the open segment already, so this is for statements about the log.
pub(crate) const BYTES: u64 = 4 << 20;

/// The room that is kept for when there is no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reserve {
    /// The file is there.
    Kept,
    /// The disk has room, and no file could be made for another reason.
    None,
    /// The disk was full when a segment or a reserve was wanted.
    Spent,
}

/// Whether the disk, or what we may use of it, is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Makes a new file of the reserve, with these bytes in it.
pub(crate) fn spend(files: &dyn Files, name: &str, bytes: &[u8]) -> io::Result<Arc<dyn Handle>> {
    files.rename(NAME, name)?;
    let file = files.open(name)?;
    file.write_at(bytes, 0)?;
    file.sync()?;
    Ok(file)
}

impl Shared {
    /// Makes a reserve if there is none; whether the disk is full.
    pub(crate) fn keep_reserve(&self) -> bool {
        let (reserve, size) = {
            let writer = self.writer.lock();
            (writer.reserve, BYTES.min(writer.config.segment_bytes))
        };
        if reserve == Reserve::Kept {
            return false;
        }
        let made = match self.files.create(NAME).and_then(|file| file.preallocate(size)) {
            Ok(()) => Reserve::Kept,
            Err(e) => {
                drop(self.files.unlink(NAME));
                if reserve != Reserve::Spent {
                    tracing::warn!(log = %self.log, error = %e, "no room can be kept for when the disk is full");
                }
                if is_full(&e) { Reserve::Spent } else { reserve }
            }
        };
        self.writer.lock().reserve = made;
        made == Reserve::Spent
    }
}
