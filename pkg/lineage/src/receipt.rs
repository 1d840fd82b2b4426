//! What a caller keeps: one header line that pins the record of its answer, and with it all records before it.

use crate::{Leaf, Record};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use signet_types::LogId;
use std::fmt;
use std::str::FromStr;

/// The value of `Lineage-Receipt`: `v1;<origin>/<log>;<epoch>;<seq>;<leaf hash in base64url>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Receipt {
    /// The configured origin, without the log.
    pub origin: String,
    /// The writer log.
    pub log: LogId,
    /// The writer's epoch: a seq may be written again by a later one, after a declared loss.
    pub epoch: u32,
    /// The record's place.
    pub seq: u64,
    /// Its RFC 6962 leaf hash.
    pub leaf_hash: [u8; 32],
}

/// Text that is not a receipt, or not the one way to write it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a lineage receipt: `v1;<origin>/<log>;<epoch>;<seq>;<leaf hash>` was expected")]
pub struct ReceiptFault;

impl Receipt {
    /// The receipt for `record`. `origin` is visible ASCII without `;` (see [`Receipt::good_origin`]).
    pub fn of(record: &Record, origin: &str) -> Self {
        let (log, epoch, seq) = (record.log, record.epoch, record.seq);
        Self { origin: origin.to_owned(), log, epoch, seq, leaf_hash: Leaf::of(record).hash() }
    }

    /// Whether `origin` can stand in a receipt, for the check of a configuration.
    pub fn good_origin(origin: &str) -> bool {
        !origin.is_empty() && origin.bytes().all(|b| b.is_ascii_graphic() && b != b';')
    }

    /// Appends the header value.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        let (mut digits, mut leaf) = (itoa::Buffer::new(), [0; 43]);
        let mut form = [0; uuid::fmt::Hyphenated::LENGTH];
        out.reserve(128 + self.origin.len());
        out.extend_from_slice(b"v1;");
        out.extend_from_slice(self.origin.as_bytes());
        out.push(b'/');
        out.extend_from_slice(self.log.as_uuid().hyphenated().encode_lower(&mut form).as_bytes());
        out.push(b';');
        out.extend_from_slice(digits.format(self.epoch).as_bytes());
        out.push(b';');
        out.extend_from_slice(digits.format(self.seq).as_bytes());
        out.push(b';');
        URL_SAFE_NO_PAD.encode_slice(self.leaf_hash, &mut leaf).expect("32 bytes are 43 digits");
        out.extend_from_slice(&leaf);
    }
}

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::new();
        self.write_to(&mut text);
        f.write_str(std::str::from_utf8(&text).expect("an origin and ASCII"))
    }
}

impl FromStr for Receipt {
    type Err = ReceiptFault;

    /// Takes the one form that [`Receipt`] writes and no other: what reads back differently is refused.
    fn from_str(text: &str) -> Result<Self, ReceiptFault> {
        let receipt = read(text).ok_or(ReceiptFault)?;
        (Self::good_origin(&receipt.origin) && receipt.to_string() == text).then_some(receipt).ok_or(ReceiptFault)
    }
}

fn read(text: &str) -> Option<Receipt> {
    let mut parts = text.strip_prefix("v1;")?.split(';');
    let (origin, log) = parts.next()?.rsplit_once('/')?;
    let (epoch, seq, leaf) = (parts.next()?, parts.next()?, parts.next()?);
    let receipt = Receipt {
        origin: origin.to_owned(),
        log: log.parse().ok()?,
        epoch: epoch.parse().ok()?,
        seq: seq.parse().ok()?,
        leaf_hash: URL_SAFE_NO_PAD.decode(leaf).ok()?.try_into().ok()?,
    };
    parts.next().is_none().then_some(receipt)
}
