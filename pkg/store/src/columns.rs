//! A record with what the database can be searched by. The payload stays the truth; a column is a hint that `verify` compares.

use serde::Deserialize;
use serde::de::value::{Error, StrDeserializer};
use signet_lineage::{Columns, Kind, Leaf, Record};
use std::sync::Arc;

const MS_PER_DAY: u64 = 86_400_000;
/// The kind of a payload that is no statement of ours.
const UNREAD: &str = "unread";

/// `enc` of a row that holds the signed bytes themselves.
pub(crate) const PLAIN: i16 = 0;
/// `enc` of a row that holds them packed without constants (crate::pack), as an earlier version did.
pub(crate) const PACKED_ALONE: i16 = 2;
/// `enc` of a row that holds them packed (crate::pack).
pub(crate) const PACKED: i16 = 3;
/// `enc` of a row whose payload is gone; what stands there is the payload's SHA-256, so that the leaf can still be told.
pub(crate) const ERASED: i16 = 9;
/// Kinds in the order of their numbers, from 1; only ever added to. 0 is [`UNREAD`].
const KINDS: [Kind; 15] = [
    Kind::Request,
    Kind::LogOpen,
    Kind::LogSeal,
    Kind::Recovery,
    Kind::Gap,
    Kind::Denials,
    Kind::Clock,
    Kind::Feedback,
    Kind::Purge,
    Kind::Config,
    Kind::Erasure,
    Kind::Label,
    Kind::KeyRotate,
    Kind::Prune,
    Kind::Open,
];
/// Cache decisions in the order of their numbers, from 1; only ever added to. 0 is [`OTHER`].
const DECISIONS: [&str; 8] = ["miss", "hit_exact", "hit_semantic", "coalesced", "bypass", "refresh", "none", "stale"];
/// What stands for a decision that has no number.
const OTHER: &str = "";
/// What stands for a count that needs more than the four bytes of its column.
const MANY: u64 = i32::MAX.unsigned_abs() as u64;

/// Kinds that the first version did not know: its shipper filed them as [`UNREAD`], without any column, and in no `lineage_record`.
const LATER: [Kind; 3] = [Kind::KeyRotate, Kind::Prune, Kind::Open];

/// One row to insert.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) record: Record,
    pub(crate) leaf_hash: [u8; 32],
    /// None if the payload cannot be read. It is shipped all the same, or nothing behind it would be.
    pub(crate) columns: Option<Columns>,
    /// What stands for the payload, where the database packs it and it can be packed.
    pub(crate) packed: Option<Vec<u8>>,
    /// What it was packed with.
    pub(crate) constants: Arc<[u8]>,
}

impl Row {
    pub(crate) fn of(record: &Record) -> Self {
        let columns = Columns::read(&record.payload).ok();
        Self { leaf_hash: Leaf::of(record).hash(), columns, record: record.clone(), packed: None, constants: [].into() }
    }

    /// What is stored for the payload.
    pub(crate) fn payload(&self) -> &[u8] {
        self.shortened().unwrap_or(&self.record.payload)
    }

    /// How it is stored.
    pub(crate) fn enc(&self) -> i16 {
        if self.shortened().is_some() { PACKED } else { PLAIN }
    }

    /// What stands for the payload. The database itself reads what a `prune` says.
    fn shortened(&self) -> Option<&[u8]> {
        let plain = self.columns.as_ref().is_some_and(|columns| columns.kind == Kind::Prune);
        self.packed.as_deref().filter(|_| !plain)
    }

    /// The signed time, else that in the id. Milliseconds since the Unix epoch.
    pub(crate) fn ts_ms(&self) -> u64 {
        self.columns.as_ref().map_or_else(|| self.record.id.unix_ms(), |columns| columns.ts_ms)
    }

    /// Days since the Unix epoch.
    pub(crate) fn day(&self) -> i32 {
        i32::try_from(self.ts_ms() / MS_PER_DAY).unwrap_or(i32::MAX / 2)
    }

    pub(crate) fn kind(&self) -> &'static str {
        self.columns.as_ref().map_or(UNREAD, |columns| columns.kind.as_str())
    }

    /// Its number.
    pub(crate) fn kind_number(&self) -> i16 {
        let kind = self.columns.as_ref().map(|columns| columns.kind);
        kind.map_or(0, |kind| number(KINDS.iter().position(|known| *known == kind)))
    }

    /// That of the cache's decision.
    pub(crate) fn cache_number(&self) -> Option<i16> {
        self.column(|columns| columns.cache.as_deref().map(decision_number))
    }

    /// One of the optional columns.
    pub(crate) fn column<'r, T>(&'r self, part: impl Fn(&'r Columns) -> Option<T>) -> Option<T> {
        self.columns.as_ref().and_then(part)
    }
}

fn number(position: Option<usize>) -> i16 {
    position.and_then(|at| i16::try_from(at + 1).ok()).unwrap_or(0)
}

fn decision_number(word: &str) -> i16 {
    number(DECISIONS.iter().position(|known| *known == word))
}

/// A count as its column of four bytes holds it.
pub(crate) fn bounded(count: u64) -> i32 {
    i32::try_from(count.min(MANY)).unwrap_or(i32::MAX)
}

fn numbered<T: Copy>(words: &[T], number: i16) -> Option<T> {
    usize::try_from(number).ok()?.checked_sub(1).and_then(|at| words.get(at).copied())
}

/// The word for a kind's number.
pub(crate) fn kind_word(number: i16) -> &'static str {
    match numbered(&KINDS, number) {
        Some(kind) => kind.as_str(),
        None if number == 0 => UNREAD,
        None => "made up",
    }
}

/// The word for the number of a decision.
pub(crate) fn decision_word(number: i16) -> &'static str {
    numbered(&DECISIONS, number).unwrap_or(if number == 0 { OTHER } else { "made up" })
}

/// Puts the signed value in the place of one that its column cannot hold, if the column says just that.
pub(crate) fn widen(stored: &mut Columns, payload: &[u8]) {
    let narrow = stored.cache.as_deref() == Some(OTHER) || [stored.tok_in, stored.tok_out].contains(&Some(MANY));
    let Some(signed) = narrow.then(|| Columns::read(payload).ok()).flatten() else { return };
    if stored.cache.as_deref() == Some(OTHER) && signed.cache.as_deref().is_some_and(|word| decision_number(word) == 0)
    {
        stored.cache = signed.cache;
    }
    for (stored, signed) in [(&mut stored.tok_in, signed.tok_in), (&mut stored.tok_out, signed.tok_out)] {
        if *stored == Some(MANY) && signed > Some(MANY) {
            *stored = signed;
        }
    }
}

/// The kind in a stored row, none for a payload that could not be read. A word without a meaning was not signed by us: it is
/// shown as a kind that differs from the signed one, so that a comparison finds it.
pub(crate) fn stored_kind(text: &str, payload: &[u8]) -> Option<Kind> {
    let known = Kind::deserialize(StrDeserializer::<Error>::new(text)).ok();
    known.or_else(|| {
        let signed = Columns::read(payload).ok()?.kind;
        Some(if signed == Kind::Gap { Kind::Clock } else { Kind::Gap })
    })
}

/// Whether this row may stand without columns because its shipper was older than its writer.
pub(crate) fn is_later(kind: &str, payload: &[u8]) -> bool {
    kind == UNREAD && Columns::read(payload).is_ok_and(|signed| LATER.contains(&signed.kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use signet_types::{LineageId, LogId};

    fn row(payload: &str) -> Row {
        Row::of(&Record {
            id: LineageId::generate(3 * MS_PER_DAY + 5),
            log: LogId::from_bytes([1; 16]),
            epoch: 1,
            seq: 0,
            payload: payload.as_bytes().into(),
            key_id: [3; 32],
            sig: [4; 64],
        })
    }

    const OPENED: &str = r#"{"predicate":{"id":"01010101-0101-7101-8101-010101010101","kind":"log_open",
        "time":{"completed_ms":86400001}}}"#;

    #[test]
    fn a_statement_is_filed_under_its_signed_time() {
        let row = row(OPENED);
        assert_eq!((row.kind(), row.ts_ms(), row.day()), ("log_open", 86_400_001, 1));
        assert_eq!(row.column(|columns| columns.tenant), None);
    }

    #[test]
    fn what_cannot_be_read_is_filed_under_the_time_in_its_id() {
        let row = row("{");
        assert_eq!((row.kind(), row.ts_ms(), row.day()), (UNREAD, 3 * MS_PER_DAY + 5, 3));
    }

    #[test]
    fn only_a_kind_that_an_older_shipper_could_not_know_may_be_unread() {
        let later = OPENED.replace("log_open", "key_rotate");
        assert!(is_later(UNREAD, later.as_bytes()));
        assert!(!is_later(UNREAD, OPENED.as_bytes()) && !is_later("key_rotate", later.as_bytes()));
        assert!(!is_later(UNREAD, b"{"));
    }

    #[test]
    fn a_kind_that_was_made_up_differs_from_the_signed_one() {
        assert_eq!(stored_kind("log_open", OPENED.as_bytes()), Some(Kind::LogOpen));
        assert_eq!(stored_kind("made up", OPENED.as_bytes()), Some(Kind::Gap));
        assert_eq!(stored_kind(UNREAD, b"{"), None);
        assert_ne!(stored_kind(UNREAD, OPENED.as_bytes()), Some(Kind::LogOpen));
    }
}
