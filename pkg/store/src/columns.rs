//! A record with what the database can be searched by. The payload stays the truth; a column is a hint that `verify` compares.

use serde::Deserialize;
use serde::de::value::{Error, StrDeserializer};
use signet_lineage::{Columns, Kind, Leaf, Record};

const MS_PER_DAY: u64 = 86_400_000;
/// The kind of a payload that is no statement of ours.
const UNREAD: &str = "unread";

/// `enc` of a row that holds the signed bytes themselves.
pub(crate) const PLAIN: i16 = 0;
/// `enc` of a row that holds them packed (crate::pack).
pub(crate) const PACKED: i16 = 2;
/// `enc` of a row whose payload is gone; what stands there is the payload's SHA-256, so that the leaf can still be told.
pub(crate) const ERASED: i16 = 9;
/// Kinds that the first version did not know: its shipper filed them as [`UNREAD`], without any column.
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
}

impl Row {
    pub(crate) fn of(record: &Record) -> Self {
        let columns = Columns::read(&record.payload).ok();
        Self { leaf_hash: Leaf::of(record).hash(), columns, record: record.clone(), packed: None }
    }

    /// What is stored for the payload.
    pub(crate) fn payload(&self) -> &[u8] {
        self.packed.as_deref().unwrap_or(&self.record.payload)
    }

    /// How it is stored.
    pub(crate) fn enc(&self) -> i16 {
        if self.packed.is_some() { PACKED } else { PLAIN }
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

    /// One of the optional columns.
    pub(crate) fn column<'r, T>(&'r self, part: impl Fn(&'r Columns) -> Option<T>) -> Option<T> {
        self.columns.as_ref().and_then(part)
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
