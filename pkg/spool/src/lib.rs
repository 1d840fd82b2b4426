//! The durable local log: frames, group commit, recovery. `std::fs` only; no runtime, no SQL, no HTTP.
//!
//! A record is acknowledged when its frame has been given to the kernel by one `write(2)`. The page cache outlives the
//! process, so `kill -9` loses nothing acknowledged; only a machine that stops can, and only what one fdatasync did not
//! cover yet. There is no file that says how far records were shipped: the database's next seq does, so the two cannot
//! disagree after a crash.
//!
//! # Directory
//!
//! | name | content |
//! |---|---|
//! | `LOCK` | empty; `flock(2)` keeps a second writer out |
//! | `identity` | `SIGNETI1`, version u32 = 1, log id \[16], crc32c u32 of the 28 bytes before |
//! | `seg-<first seq, 20 digits>.lsp` | a segment |
//! | `damaged-<first seq>.lsp` | copy of a segment that was found damaged in the middle |
//! | `old-<log id>/` | a log that was moved aside |
//! | `checkpoint`, `tile/` | what was published of the tree; written by others, moved aside with the log |
//! | `reserve.tmp` | room on the disk for when it is full |
//! | `*.tmp` | a file that never got its name; removed at the next start |
//!
//! All integers are little-endian; crc32c is the Castagnoli polynomial (RFC 3720 §12.1).
//!
//! # Segment
//!
//! ```text
//! header: "SIGNETL1" | version u32 = 1 | header length u32 | log id [16] | epoch u32 | 0 u32 | first seq u64
//!         | boot id [16] | peaks 32 * popcount(first seq) | crc32c u32 of all before | 0 u32
//! frame:  body length u32 | crc32c u32 | type u8 | flags u8 | 0 u16 | seq u64 | body | zeros to a multiple of 8
//! ```
//!
//! The peaks are the RFC 6962 subtree hashes of the tree below the segment, largest first, so that the tree goes on when
//! older segments are gone. A frame's crc32c covers its length and everything from the type to the end of the body, and
//! starts from the crc32c of log id and first seq: bytes of another log or segment never look valid. `seq` is the
//! record's own in a CLOSE and the next one to be given in all others, so that what is lost before any readable frame is
//! known exactly.
//!
//! | type | body |
//! |---|---|
//! | 1 OPEN | id \[16], facts: a request goes upstream |
//! | 2 CLOSE | id \[16], key id \[32], signature \[64], payload: a record |
//! | 4 PROGRESS | id \[16], u64: bytes of the answer that are on their way; streams only, each 256 KiB or 2 s |
//! | 3 GROUP_END | size u64, n u64, n leaf hashes (those before `size`), peaks of the tree of `size`; flag 1: the log was ended properly |
//!
//! A build that does not know a frame's type takes it for damage of no record: it goes to the next frame, whose seq shows
//! that nothing is missing, and keeps a copy of the segment.
//!
//! A segment ends where the next one's first seq begins: a later segment takes over records that an earlier file may have
//! lost (see below). Each begins with the OPENs of all requests in flight and their last PROGRESS, so that orphans are found without older ones.
//! Zeros at the end are room that was preallocated.
//!
//! # Disk errors
//!
//! A file that refused a write or an fdatasync is never used again, because the kernel may drop dirty pages after the
//! first error and report success at the next call. What the disk may not have is still in RAM; it is written to a new
//! segment, which gets its name only once it is synced. If that fails too, the log takes nothing more.
//!
//! # Recovery
//!
//! One streaming pass over all segments. A newest one without a byte in it was never begun, and is removed. Bytes behind the last good frame are cut off. Damage before a good frame is a
//! [`Gap`]; the tree goes on from the next GROUP_END or segment header and is compared with it wherever every leaf is known. Leaf
//! hashes of missing records are told by GROUP_ENDs, and below the last checkpoint by its tiles, which are believed as far as they
//! prove it. For a record that is missing behind all of these, and that no readable record was signed over, stands the leaf hash
//! of the empty entry, `SHA-256(0x00)`: it was in no head that anyone holds. A leaf hash that nobody knows makes the log
//! [`Recovered::untold`]. A request is an orphan only if its OPEN, or a later segment's copy of it, stands behind all
//! holes: else its record may be among the missing.
#![expect(clippy::missing_errors_doc, reason = "each crate-specific error type says when it occurs")]

mod config;
mod files;
mod frame;
mod identity;
mod log;
mod memory;
mod places;
mod published;
mod reader;
mod recent;
mod recover;
mod replay;
mod reserve;
mod scan;
mod segment;
#[cfg(any(test, feature = "test-util"))]
mod sim;
mod spool;
#[cfg(test)]
mod tests;
mod writer;

pub use config::{Config, Gap, OpenFault, Recovered};
pub use files::{Disk, Files, Handle};
pub use log::{LogFault, LogStats, Mark, Opened, RecordLog, Written};
pub use memory::MemoryLog;
pub use reader::{newest_record, read_records};
#[cfg(any(test, feature = "test-util"))]
pub use sim::{Call, SimFiles};
pub use spool::Spool;
