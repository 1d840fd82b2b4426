//! What a verification found, and what it could not look at.

use signet_types::LogId;
use std::fmt;

/// Findings kept by text for each log; further ones are counted.
const KEPT: usize = 200;

/// What is wrong. The number is the exit code of `signet lineage verify`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Code {
    /// A signature does not fit its payload.
    BadSig = 10,
    /// A payload is not the one that was stored, not canonical, or not a statement of ours.
    BadLeaf = 11,
    /// A record was signed over a history other than the one at hand.
    RootMismatch = 12,
    /// Two histories: a kept receipt or anchor, or a second record for a seq, contradicts the data.
    Fork = 13,
    /// Records are missing and no signed record says so.
    Gap = 14,
    /// A record or an id is there twice.
    Dup = 15,
    /// The end of a log is missing.
    Truncated = 16,
    /// All of a log is missing.
    MissingLog = 17,
    /// Signed by a key that is not pinned, or not by the log's own.
    UnknownKey = 18,
    /// Signed by a key at a place where it was no longer valid.
    RevokedKey = 19,
    /// A record stands in a log that it was not signed for.
    WrongLog = 20,
    /// A payload is gone and no signed record says so.
    ErasedUnauth = 21,
    /// A column differs from what was signed.
    IndexMismatch = 22,
    /// An answer names a source that does not exist, differs, or belongs to someone else.
    LineageBroken = 23,
    /// The database lost records that it had confirmed, and the log cannot give them again.
    DbRegression = 24,
    /// A kept receipt's record was lost, and the log declares that loss.
    LostDeclared = 30,
    /// Nothing pins the end of a log, and it was asked for.
    Unanchored = 31,
    /// There is nothing to verify.
    Empty = 32,
}

impl Code {
    /// The name as the report prints it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BadSig => "BAD_SIG",
            Self::BadLeaf => "BAD_LEAF",
            Self::RootMismatch => "ROOT_MISMATCH",
            Self::Fork => "FORK",
            Self::Gap => "GAP",
            Self::Dup => "DUP",
            Self::Truncated => "TRUNCATED",
            Self::MissingLog => "MISSING_LOG",
            Self::UnknownKey => "UNKNOWN_KEY",
            Self::RevokedKey => "REVOKED_KEY",
            Self::WrongLog => "WRONG_LOG",
            Self::ErasedUnauth => "ERASED_UNAUTH",
            Self::IndexMismatch => "INDEX_MISMATCH",
            Self::LineageBroken => "LINEAGE_BROKEN",
            Self::DbRegression => "DB_REGRESSION",
            Self::LostDeclared => "LOST_DECLARED",
            Self::Unanchored => "UNANCHORED",
            Self::Empty => "EMPTY",
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The log concerned.
    pub log: Option<LogId>,
    /// The record concerned.
    pub seq: Option<u64>,
    /// What is wrong.
    pub code: Code,
    /// The same for a reader.
    pub message: String,
}

/// The outcome of a verification; the same input gives the same report.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Records looked at.
    pub records: u64,
    /// Logs that had records.
    pub logs: u64,
    /// Receipts and anchors found in the data as they were kept.
    pub pins: u64,
    /// Edges to source records that were followed.
    pub edges: u64,
    /// Seqs that are missing and declared so by a signed record.
    pub declared_missing: u64,
    /// Answers that the gateway says it gave without a record, because the log was full.
    pub unrecorded: u64,
    /// Payloads that are gone, as signed records say.
    pub erased: u64,
    /// Records that a database holds without columns, as an older version stored them.
    pub unindexed: u64,
    /// Checkpoints of the data itself that agree with its records.
    pub checkpoints: u64,
    /// Tiles that hold the hashes computed from the records.
    pub tiles: u64,
    /// What is wrong, by log and seq.
    pub findings: Vec<Finding>,
    /// Findings beyond those kept by text.
    pub more: u64,
    /// What this verification could not tell.
    pub not_checked: Vec<String>,
    worst: Option<Code>,
}

impl Report {
    /// 0 if all that was checked holds; else the lowest code found, and 32 whenever there was nothing to verify.
    pub fn exit_code(&self) -> u8 {
        if self.records == 0 {
            return Code::Empty as u8;
        }
        self.worst.map_or(0, |code| code as u8)
    }

    pub(super) fn add(&mut self, findings: Findings) {
        self.worst = self.worst.into_iter().chain(findings.worst).min();
        self.findings.extend(findings.kept);
        self.more += findings.more;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "checked: {} records in {} logs, {} source edges", self.records, self.logs, self.edges)?;
        writeln!(f, "checked: {} kept receipts and anchors found unchanged", self.pins)?;
        if self.checkpoints > 0 {
            let (checkpoints, tiles) = (self.checkpoints, self.tiles);
            writeln!(f, "checked: {checkpoints} checkpoints and {tiles} tiles of the data agree with its records")?;
        }
        for finding in &self.findings {
            write!(f, "{}:", finding.code.name())?;
            finding.log.map_or(Ok(()), |log| write!(f, " log {log}"))?;
            finding.seq.map_or(Ok(()), |seq| write!(f, " seq {seq}"))?;
            writeln!(f, " {}", finding.message)?;
        }
        if self.more > 0 {
            writeln!(f, "and {} more", self.more)?;
        }
        if self.declared_missing > 0 {
            writeln!(f, "declared: {} records are missing, as signed records say", self.declared_missing)?;
        }
        if self.unrecorded > 0 {
            writeln!(f, "declared: {} answers were given without a record", self.unrecorded)?;
        }
        if self.erased > 0 {
            writeln!(f, "ERASED_OK: {} payloads are gone, as signed records say; their leaves are there", self.erased)?;
        }
        if self.unindexed > 0 {
            writeln!(f, "not indexed: {} records, which an older version stored", self.unindexed)?;
        }
        self.not_checked.iter().try_for_each(|what| writeln!(f, "not checked: {what}"))
    }
}

/// Findings on their way into a report.
#[derive(Debug, Default)]
pub(super) struct Findings {
    kept: Vec<Finding>,
    more: u64,
    worst: Option<Code>,
}

impl Findings {
    pub(super) fn push(
        &mut self,
        code: Code,
        log: impl Into<Option<LogId>>,
        seq: impl Into<Option<u64>>,
        message: String,
    ) {
        self.worst = self.worst.into_iter().chain([code]).min();
        if self.kept.len() < KEPT {
            self.kept.push(Finding { log: log.into(), seq: seq.into(), code, message });
        } else {
            self.more += 1;
        }
    }

    pub(super) fn sort(&mut self) {
        self.kept.sort();
    }
}
