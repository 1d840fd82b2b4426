//! Sealed bodies against the records that name them. They are no part of the tree: one that is missing is a remark, since it may
//! be gone by age, by order, or on its way; one that differs was changed by somebody.

use super::source::{Source, with_stores};
use anyhow::Result;
use sha2::{Digest, Sha256};
use signet_lineage::Record;
use signet_lineage::verify::{Code, Verifier};
use signet_types::LineageId;
use std::collections::HashMap;

/// At most so many at once: each may be as large as `lineage.capture_max_bytes` allows.
const PAGE: u32 = 16;
/// How a canonical statement names them. In a text of somebody's choice the quotes would stand behind backslashes.
const NAMED: &str = "\"capture\":{\"sha256\":\"";

/// The SHA-256 of the sealed bodies that a record names.
pub(super) fn named(record: &Record) -> Option<[u8; 32]> {
    let text = std::str::from_utf8(&record.payload).ok()?;
    let digits = text.get(text.find(NAMED)? + NAMED.len()..)?.get(..64)?;
    let mut digest = [0; 32];
    for (byte, pair) in digest.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(digest)
}

/// What the records of a source name.
#[derive(Default)]
pub(super) struct Sealed(HashMap<LineageId, [u8; 32]>);

impl Sealed {
    pub(super) fn note(&mut self, record: &Record) {
        self.0.extend(named(record).map(|digest| (record.id, digest)));
    }

    /// Compares with what is stored, where there is a source that stores; what is left to be said.
    pub(super) fn compare(mut self, source: Option<&Source>, verifier: &mut Verifier) -> Option<String> {
        let all = self.0.len();
        if all == 0 {
            return None;
        }
        let Some(source) = source else {
            return Some(format!("sealed bodies: an export holds none of the {all} that its records name"));
        };
        if let Err(fault) = self.look(source, verifier) {
            return Some(format!("sealed bodies: {fault:#}"));
        }
        let missing = self.0.len();
        let why = "gone by age or order, lost on their way, or not stored yet";
        (missing > 0).then(|| format!("sealed bodies: {missing} of the {all} that records name are not there: {why}"))
    }

    fn look(&mut self, source: &Source, verifier: &mut Verifier) -> Result<()> {
        with_stores(source, async |stores| {
            let mut after = None;
            loop {
                let page = stores.captures.captures(after, PAGE).await?;
                let Some((last, _)) = page.last() else { return Ok(()) };
                after = Some(*last);
                for (id, sealed) in page {
                    if self.0.remove(&id).is_some_and(|digest| digest != <[u8; 32]>::from(Sha256::digest(&sealed))) {
                        let what = format!("the sealed bodies of {id} are not those that its record names");
                        verifier.finding(Code::IndexMismatch, what);
                    }
                }
            }
        })
        .map(drop)
    }
}
