//! From rows to values, once for both databases: their row types differ, their columns do not.

use crate::fault::Fault;
use crate::pack::Unpacker;
use signet_cache::{Finding, Notice, Tier};
use signet_types::LogId;
use std::collections::HashMap;
use uuid::Uuid;

/// The columns that make a record, in the order in which [`readers`] takes them.
macro_rules! record_columns {
    () => {
        "id, log_id, epoch, seq, payload, key_id, sig, enc"
    };
}

/// Those beside it.
macro_rules! copied_columns {
    () => {
        ", leaf_hash, kind, ts_ms, tenant, model, cache, status, tok_in, tok_out, parent_log, parent_seq"
    };
}

/// The columns of an entry.
macro_rules! entry_columns {
    () => {
        "id, key, partition, tenant, created_ms, expires_ms, sealed, appeared"
    };
}

/// The columns of a notice.
macro_rules! notice_columns {
    () => {
        "kind, source, tenant, model, namespace, stored_by_ms, appeared"
    };
}

/// The columns of a label.
macro_rules! label_columns {
    () => {
        "of, model, encoder, generation, verdict, evidence, score_e6, weight_e6, at_ms, appeared, tier"
    };
}

/// The columns of a mark.
macro_rules! mark_columns {
    () => {
        "model, encoder, generation, upto, bound_e9, sum_samples_e12, sum_all_e12, samples_ago, all_ago"
    };
}

/// How the payloads of each writer are unpacked.
pub(crate) type Writers = HashMap<i32, Unpacker>;

/// What there is in a row of `lineage_record` and in no other.
#[derive(Debug, Default)]
pub(crate) struct Slim<'r> {
    pub(crate) writer: i32,
    pub(crate) kind: i16,
    pub(crate) cache: Option<i16>,
    /// The head of the leaf hash.
    pub(crate) leaf: i64,
    /// Log and seq, or nothing.
    pub(crate) parent: &'r [u8],
}

impl Slim<'_> {
    pub(crate) fn parent(&self) -> Result<Option<(LogId, u64)>, Fault> {
        match (self.parent.first_chunk(), self.parent.last_chunk()) {
            (None, None) if self.parent.is_empty() => Ok(None),
            (Some(log), Some(seq)) if self.parent.len() == 24 => {
                Ok(Some((LogId::from_bytes(*log), u64::from_be_bytes(*seq))))
            }
            _ => Err(Fault::Corrupt(format!("a parent of {} bytes", self.parent.len()))),
        }
    }
}

/// How an operator's order stands in the columns of verdict and evidence.
pub(crate) const RESET: (&str, &str) = ("reset", "operator");

/// Verdict, evidence, score, weight and tier of a finding.
pub(crate) fn finding_columns(finding: &Finding) -> (&'static str, &'static str, i64, i64, Option<&'static str>) {
    match finding {
        Finding::Reset => (RESET.0, RESET.1, 0, 0, None),
        Finding::Label(label) => {
            let (score, weight) = (i64::from(label.score_e6), i64::from(label.weight_e6));
            (label.verdict.as_str(), label.evidence.as_str(), score, weight, label.tier.map(Tier::as_str))
        }
    }
}

/// A notice as its columns.
#[derive(Debug, Default)]
pub(crate) struct NoticeRow {
    pub(crate) kind: &'static str,
    pub(crate) source: Option<Uuid>,
    pub(crate) tenant: Option<Vec<u8>>,
    pub(crate) model: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) stored_by_ms: u64,
}

impl NoticeRow {
    pub(crate) const WITHDRAW: &'static str = "withdraw";
    pub(crate) const ERASE: &'static str = "erase";
    pub(crate) const SEMANTIC_OFF: &'static str = "semantic_off";
    pub(crate) const SEMANTIC_ON: &'static str = "semantic_on";

    pub(crate) fn of(notice: &Notice) -> Self {
        match notice {
            Notice::Withdraw(rule) => Self {
                kind: Self::WITHDRAW,
                source: rule.source.map(|source| source.as_uuid()),
                tenant: rule.tenant.map(|tenant| tenant.as_bytes().to_vec()),
                model: rule.model.clone(),
                namespace: rule.namespace.clone(),
                stored_by_ms: rule.stored_by_ms,
            },
            Notice::Erase { tenant, stored_by_ms } => Self {
                kind: Self::ERASE,
                tenant: Some(tenant.as_bytes().to_vec()),
                stored_by_ms: *stored_by_ms,
                ..Self::default()
            },
            Notice::Semantic { off } => {
                Self { kind: if *off { Self::SEMANTIC_OFF } else { Self::SEMANTIC_ON }, ..Self::default() }
            }
        }
    }
}

/// Functions that read a row of type `$row`, whose column `enc` is a `$enc`. `$slim` gives what else there is in a row of
/// `lineage_record`: see [`Slim`].
macro_rules! readers {
    ($row:ty, $enc:ty, $slim:expr) => {
        use crate::columns::{
            ERASED, PACKED, PACKED_ALONE, PLAIN, decision_word, is_later, kind_word, stored_kind, widen,
        };
        use crate::fault::{Fault, StoredRow, Unreadable, left_out, to_array, to_epoch, to_u64};
        use crate::pack::unpack_alone;
        use crate::readers::{NoticeRow, RESET, Slim, Writers};
        use signet_cache::{
            CacheKey, EntryRow, Evidence, Finding, Label, LabelRow, Mark, Notice, RouteId, Tier, Verdict, Withdrawal,
        };
        use signet_lineage::verify::Stored;
        use signet_lineage::{Columns, Leaf, LogRow, Record};
        use signet_types::{EntryId, LineageId, LogId, TenantId};
        use sqlx::Row as _;
        use uuid::Uuid;

        /// `epoch, next_seq`.
        pub(super) fn to_fence(row: &$row) -> Result<(u32, u64), Fault> {
            Ok((to_epoch(row.try_get(0)?)?, to_u64(row.try_get(1)?)?))
        }

        /// `log_id, origin, epoch, next_seq, attest_key`.
        pub(super) fn to_log(row: &$row) -> Result<LogRow, Fault> {
            Ok(LogRow {
                log: LogId::from_bytes(row.try_get::<Uuid, _>(0)?.into_bytes()),
                origin: row.try_get(1)?,
                epoch: to_epoch(row.try_get(2)?)?,
                next_seq: to_u64(row.try_get(3)?)?,
                attest_key: to_array("attest_key", row.try_get(4)?)?,
            })
        }

        #[expect(clippy::cast_possible_truncation, reason = "rows are in the order of these numbers, however large")]
        fn unreadable(row: &$row, fault: &Fault) -> Unreadable {
            // SQLite holds any number wherever it is put.
            let seq = row.try_get(3).ok().or_else(|| row.try_get::<f64, _>(3).ok().map(|seq| seq.floor() as i64));
            Unreadable { seq, why: fault.to_string() }
        }

        /// The records of these rows; of a row that cannot be read there is none, which costs no other.
        pub(super) fn to_records(rows: &[$row], writers: &Writers) -> Vec<Record> {
            let read = |row| to_record(row, writers).map_err(|fault| unreadable(row, &fault));
            rows.iter().map(read).filter_map(left_out).collect()
        }

        /// As [`to_stored`], each row by itself.
        pub(super) fn to_rows(rows: &[$row], writers: &Writers) -> Vec<StoredRow> {
            rows.iter().map(|row| to_stored(row, writers).map_err(|fault| unreadable(row, &fault))).collect()
        }

        /// What can be searched of each row, but of those that cannot be read.
        pub(super) fn to_list(rows: &[$row]) -> Vec<Columns> {
            let read = |row| to_columns(row).map_err(|fault| unreadable(row, &fault));
            rows.iter().map(read).filter_map(left_out).flatten().collect()
        }

        /// `record_columns`.
        pub(super) fn to_record(row: &$row, writers: &Writers) -> Result<Record, Fault> {
            let payload: &[u8] = row.try_get(4)?;
            match i16::try_from(row.try_get::<$enc, _>(7)?).unwrap_or(i16::MAX) {
                PLAIN => with_payload(row, payload),
                PACKED_ALONE => with_payload(row, &unpack_alone(payload).ok_or_else(not_packed)?),
                PACKED => {
                    let writer = slim(row)?.and_then(|slim| writers.get(&slim.writer));
                    with_payload(row, &writer.and_then(|writer| writer.unpack(payload)).ok_or_else(not_packed)?)
                }
                enc => Err(Fault::Corrupt(format!("a payload of encoding {enc}, which is not known"))),
            }
        }

        fn not_packed() -> Fault {
            Fault::Corrupt("a payload that does not unpack".to_owned())
        }

        pub(super) fn slim(row: &$row) -> Result<Option<Slim<'_>>, Fault> {
            let slim: fn(&$row) -> Result<Option<Slim<'_>>, sqlx::Error> = $slim;
            Ok(slim(row)?)
        }

        /// The words for what was decided: kind and cache.
        fn words(row: &$row) -> Result<(&str, Option<&str>), Fault> {
            Ok(match slim(row)? {
                Some(slim) => (kind_word(slim.kind), slim.cache.map(decision_word)),
                None => (row.try_get(9)?, row.try_get(13)?),
            })
        }

        fn with_payload(row: &$row, payload: &[u8]) -> Result<Record, Fault> {
            Ok(Record {
                id: LineageId::from_bytes(row.try_get::<Uuid, _>(0)?.into_bytes()),
                log: LogId::from_bytes(row.try_get::<Uuid, _>(1)?.into_bytes()),
                epoch: to_epoch(row.try_get(2)?)?,
                seq: to_u64(row.try_get(3)?)?,
                payload: payload.into(),
                key_id: to_array("key_id", row.try_get(5)?)?,
                sig: to_array("sig", row.try_get(6)?)?,
            })
        }

        /// `record_columns`, then `leaf_hash, kind, ts_ms, tenant, model, cache, status, tok_in, tok_out, parent_log,
        /// parent_seq`.
        fn to_stored(row: &$row, writers: &Writers) -> Result<(Record, Stored), Fault> {
            let payload: Option<&[u8]> = row.try_get(4)?;
            let payload_sha256 = match (payload, i16::try_from(row.try_get::<$enc, _>(7)?).unwrap_or(i16::MAX)) {
                (None, _) => Some(None),
                (Some(_), PLAIN | PACKED | PACKED_ALONE) => None,
                (Some(digest), ERASED) => Some(Some(to_array("payload", digest)?)),
                // Refused below.
                (Some(_), _) => None,
            };
            if let Some(payload_sha256) = payload_sha256 {
                let leaf_hash = Some(leaf_hash(row, None)?);
                let erased = Stored { erased: true, payload_sha256, leaf_hash, ..Stored::default() };
                return Ok((with_payload(row, &[])?, erased));
            }
            let record = to_record(row, writers)?;
            let leaf_hash = Some(leaf_hash(row, Some(&record))?);
            let (text, _) = words(row)?;
            if slim(row)?.is_none() && is_later(text, &record.payload) && has_no_columns(row) {
                return Ok((record, Stored { unindexed: true, leaf_hash, ..Stored::default() }));
            }
            let kind = stored_kind(text, &record.payload);
            let mut columns = kind.map(|kind| columns(row, kind, record.id)).transpose()?;
            if let Some(columns) = columns.as_mut().filter(|_| slim(row).is_ok_and(|slim| slim.is_some())) {
                widen(columns, &record.payload);
            }
            Ok((record, Stored { columns, leaf_hash, ..Stored::default() }))
        }

        /// The leaf hash that stands beside a record. Where only its head does, that is put into what the rest of the row says.
        fn leaf_hash(row: &$row, record: Option<&Record>) -> Result<[u8; 32], Fault> {
            let slim = slim(row)?;
            let mut hash = match record {
                Some(record) if slim.is_some() => Leaf::of(record).hash(),
                _ => to_array("leaf_hash", row.try_get(8)?)?,
            };
            if let Some(slim) = slim {
                hash[..8].copy_from_slice(&slim.leaf.to_be_bytes());
            }
            Ok(hash)
        }

        /// The columns of [`to_stored`]; none of a kind that is not known.
        fn to_columns(row: &$row) -> Result<Option<Columns>, Fault> {
            let id = LineageId::from_bytes(row.try_get::<Uuid, _>(0)?.into_bytes());
            stored_kind(words(row)?.0, &[]).map(|kind| columns(row, kind, id)).transpose()
        }

        /// Of the columns that a shipper fills from the statement, none is.
        fn has_no_columns(row: &$row) -> bool {
            use sqlx::ValueRef as _;
            (11..=18).all(|at| row.try_get_raw(at).is_ok_and(|value| value.is_null()))
        }

        fn columns(row: &$row, kind: signet_lineage::Kind, id: LineageId) -> Result<Columns, Fault> {
            let tenant: Option<&[u8]> = row.try_get(11)?;
            let parent = match slim(row)? {
                Some(slim) => slim.parent()?,
                None => {
                    let parent = row.try_get::<Option<Uuid>, _>(17)?.zip(row.try_get::<Option<i64>, _>(18)?);
                    let read =
                        |(log, seq): (Uuid, i64)| Ok::<_, Fault>((LogId::from_bytes(log.into_bytes()), to_u64(seq)?));
                    parent.map(read).transpose()?
                }
            };
            let number = |at: usize| row.try_get::<Option<i64>, _>(at)?.map(to_u64).transpose();
            Ok(Columns {
                kind,
                ts_ms: to_u64(row.try_get(10)?)?,
                id,
                tenant: tenant.map(|bytes| to_array("tenant", bytes)).transpose()?.map(TenantId::from_bytes),
                model: row.try_get(12)?,
                cache: words(row)?.1.map(str::to_owned),
                status: row.try_get::<Option<i32>, _>(14)?.map(|status| u16::try_from(status).unwrap_or(u16::MAX)),
                tok_in: number(15)?,
                tok_out: number(16)?,
                parent,
            })
        }

        /// `entry_columns`, without the last.
        pub(super) fn to_entry(row: &$row) -> Result<EntryRow, Fault> {
            Ok(EntryRow {
                id: EntryId::from_bytes(row.try_get::<Uuid, _>(0)?.into_bytes()),
                key: CacheKey::from_bytes(to_array("key", row.try_get(1)?)?),
                partition: to_array("partition", row.try_get(2)?)?,
                tenant: TenantId::from_bytes(to_array("tenant", row.try_get(3)?)?),
                created_ms: to_u64(row.try_get(4)?)?,
                expires_ms: to_u64(row.try_get(5)?)?,
                sealed: row.try_get(6)?,
            })
        }

        /// `notice_columns`, without the last.
        fn to_notice(row: &$row) -> Result<Notice, Fault> {
            let kind: String = row.try_get(0)?;
            let tenant: Option<&[u8]> = row.try_get(2)?;
            match kind.as_str() {
                NoticeRow::WITHDRAW => Ok(Notice::Withdraw(Withdrawal {
                    source: row.try_get::<Option<Uuid>, _>(1)?.map(|id| LineageId::from_bytes(id.into_bytes())),
                    tenant: tenant.map(|bytes| to_array("tenant", bytes)).transpose()?.map(TenantId::from_bytes),
                    model: row.try_get(3)?,
                    namespace: row.try_get(4)?,
                    stored_by_ms: to_u64(row.try_get(5)?)?,
                })),
                NoticeRow::ERASE => Ok(Notice::Erase {
                    tenant: TenantId::from_bytes(to_array("tenant", tenant.unwrap_or_default())?),
                    stored_by_ms: to_u64(row.try_get(5)?)?,
                }),
                NoticeRow::SEMANTIC_OFF => Ok(Notice::Semantic { off: true }),
                NoticeRow::SEMANTIC_ON => Ok(Notice::Semantic { off: false }),
                // A later version's. What it takes back is not known, so nobody may go on as if nothing were.
                other => Err(Fault::Corrupt(format!("a notice of the unknown kind {other}"))),
            }
        }

        /// The notices, and the cursor behind them.
        pub(super) fn to_notices(rows: &[$row], cursor: u64) -> Result<(Vec<Notice>, u64), Fault> {
            let behind = rows.last().map(|row| to_u64(row.try_get(6)?)).transpose()?.unwrap_or(cursor);
            Ok((rows.iter().map(to_notice).collect::<Result<_, _>>()?, behind))
        }

        /// `label_columns`, without the number.
        fn to_label(row: &$row) -> Result<LabelRow, Fault> {
            let (verdict, evidence): (&str, &str) = (row.try_get(4)?, row.try_get(5)?);
            let small = |at: usize| Ok::<_, Fault>(u32::try_from(row.try_get::<i64, _>(at)?).unwrap_or(u32::MAX));
            let finding = if verdict == RESET.0 {
                Finding::Reset
            } else {
                // A later version's word: passing it over could loosen a route.
                let unread = |word: &str| Fault::Corrupt(format!("a label with the unknown word {word}"));
                Finding::Label(Label {
                    verdict: Verdict::named(verdict).ok_or_else(|| unread(verdict))?,
                    evidence: Evidence::named(evidence).ok_or_else(|| unread(evidence))?,
                    score_e6: small(6)?,
                    weight_e6: small(7)?,
                    // A label counts whatever tier it is of.
                    tier: row.try_get::<Option<&str>, _>(10)?.and_then(Tier::named),
                })
            };
            let (model, encoder, generation) = (row.try_get(1)?, row.try_get(2)?, to_u64(row.try_get(3)?)?);
            Ok(LabelRow {
                of: LineageId::from_bytes(row.try_get::<Uuid, _>(0)?.into_bytes()),
                route: RouteId { model, encoder, generation },
                finding,
                at_ms: to_u64(row.try_get(8)?)?,
            })
        }

        /// The labels with their numbers, and the cursor behind them.
        pub(super) fn to_labels(rows: &[$row], cursor: u64) -> Result<(Vec<(u64, LabelRow)>, u64), Fault> {
            let numbered = |row: &$row| Ok::<_, Fault>((to_u64(row.try_get(9)?)?, to_label(row)?));
            let labels: Vec<_> = rows.iter().map(numbered).collect::<Result<_, _>>()?;
            let behind = labels.last().map_or(cursor, |(number, _)| *number);
            Ok((labels, behind))
        }

        /// `mark_columns`.
        pub(super) fn to_mark(row: &$row) -> Result<(RouteId, Mark), Fault> {
            let ago = |at: usize| row.try_get::<Option<i64>, _>(at)?.map(to_u64).transpose();
            let route =
                RouteId { model: row.try_get(0)?, encoder: row.try_get(1)?, generation: to_u64(row.try_get(2)?)? };
            let mark = Mark {
                upto: to_u64(row.try_get(3)?)?,
                bound_e9: to_u64(row.try_get(4)?)?,
                sums_e12: [row.try_get(5)?, row.try_get(6)?],
                alarmed_ago: [ago(7)?, ago(8)?],
            };
            Ok((route, mark))
        }

        /// The entries, and the cursor behind them.
        pub(super) fn to_entries(rows: &[$row], cursor: u64) -> Result<(Vec<EntryRow>, u64), Fault> {
            let behind = rows.last().map(|row| to_u64(row.try_get(7)?)).transpose()?.unwrap_or(cursor);
            Ok((rows.iter().map(to_entry).collect::<Result<_, _>>()?, behind))
        }
    };
}

pub(crate) use {copied_columns, entry_columns, label_columns, mark_columns, notice_columns, readers, record_columns};
