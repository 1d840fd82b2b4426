//! The auditor: does a set of records prove what it claims?
//!
//! Nothing here is shared with the code that writes records, but for the types they are handed over in: leaf, tree,
//! signed bytes and statement are read and computed again, and another library checks the signatures (RFC 8032 with the
//! strict rules of `verify_strict`: no small-order points, no malleable encodings). A bug of the writer is so not repeated
//! by its judge.
//!
//! **What it can tell.** The data alone shows that nothing was changed, removed from the middle, moved or added. That the
//! end of a log is missing shows only against something kept elsewhere: receipts of callers or anchored tree heads. They
//! prove something only if they, and the pinned keys, do not come from the folder that is checked. What was not checked
//! stands in the report.
//!
//! **One cause, one finding.** Behind a record that proves nothing, the roots of its log cannot be told and later heads
//! are not compared; the report says so.
//!
//! **Memory** is bounded by the number of records, not by their size: 210 to 250 bytes each (leaf hash and tree nodes 64,
//! tenant and fingerprint 40, id 24 to 48, and what growing takes), so 2.5 GB for ten million. Any record may be the source of a later answer and
//! any head may be asked for, so a window would leave some of them unchecked.

mod check;
mod end;
mod facts;
mod held;
mod keyring;
mod line;
mod log;
mod nodes;
mod note;
mod pinned;
mod proof;
mod report;
mod strict;

use crate::tlog::NoteKey;
use crate::{Columns, KeySet, Leaf, LogRow, Receipt, Record, TreeHead};
use check::{Checked, Trust};
use end::Declared;
use facts::{Control, Edge, Facts, Response};
use held::Anchor;
use log::{Log, Place};
use report::Findings;
use signet_types::{LineageId, LogId, TenantId};
use std::collections::{BTreeMap, HashSet};

pub use held::TileReader;
pub use keyring::{KeyVerdict, Keyring, KeyringFault, RootPolicy};
pub use line::{read_line, write_line};
pub use note::{Checked as CheckedCheckpoint, Included, NoteFault, checkpoint, notes, proof_file};
pub use pinned::{Pinned, Revoked};
pub use proof::{extends, includes};
pub use report::{Code, Finding, Report};

/// Records whose signatures are checked together.
const BATCH: usize = 512;

/// How strictly, and on how many threads.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// A log whose end nothing pins is a finding, not a remark.
    pub require_anchor: bool,
    /// The data is being written to: a source behind the end of its log is a remark, not a finding.
    pub live: bool,
    /// Threads that check signatures, at least 1.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { require_anchor: false, live: false, threads: 2 }
    }
}

/// What a database stores beside a record; all of it follows from the record.
#[derive(Debug, Clone, Default)]
pub struct Stored {
    /// The index columns.
    pub columns: Option<Columns>,
    /// The payload's hash.
    pub payload_sha256: Option<[u8; 32]>,
    /// The leaf's hash.
    pub leaf_hash: Option<[u8; 32]>,
    /// The payload is gone. What is left of it is its hash, or only that of the leaf.
    pub erased: bool,
    /// There are no columns because an older version, which did not know the record's kind, stored it.
    pub unindexed: bool,
}

impl Stored {
    /// The leaf of `record`; of an erased one, if the hash of its payload is there.
    pub fn leaf(&self, record: &Record) -> Option<Leaf> {
        if self.erased {
            self.payload_sha256.as_ref().map(|digest| Leaf::with_digest(record, digest))
        } else {
            Some(Leaf::of(record))
        }
    }
}

/// Takes records as a stream, in ascending order of seq within each log, and tells at the end what they prove.
#[derive(Debug)]
pub struct Verifier {
    trust: Trust,
    notes: Vec<NoteKey>,
    options: Options,
    batch: Vec<(Record, Stored)>,
    logs: BTreeMap<LogId, Log>,
    ids: HashSet<LineageId>,
    edges: Vec<Answer>,
    receipts: Vec<Receipt>,
    anchors: Vec<Anchor>,
    held: Vec<Anchor>,
    /// Checkpoints that no pinned key signed, and whether they were kept elsewhere.
    unsigned: Vec<(bool, String)>,
    since: Vec<(LogId, u64)>,
    gone: Declared,
    findings: Findings,
    report: Report,
}

/// An answer and the record that it says it stands on.
#[derive(Debug)]
struct Answer {
    log: LogId,
    seq: u64,
    tenant: Option<TenantId>,
    response: Response,
    source: Edge,
}

impl Verifier {
    /// A verifier that trusts `keys` and nothing else.
    pub fn new(keys: &KeySet, options: Options) -> Self {
        Self::trusting(keys.clone().into(), options)
    }

    /// A verifier that trusts what is pinned and nothing else.
    pub fn trusting(pinned: Pinned, options: Options) -> Self {
        Self {
            trust: Trust::new(&pinned),
            notes: pinned.notes,
            options,
            batch: Vec::with_capacity(BATCH),
            logs: BTreeMap::new(),
            ids: HashSet::new(),
            edges: Vec::new(),
            receipts: Vec::new(),
            anchors: Vec::new(),
            held: Vec::new(),
            unsigned: Vec::new(),
            since: Vec::new(),
            gone: Declared::default(),
            findings: Findings::default(),
            report: Report::default(),
        }
    }

    /// A log that the database knows; it says how many records it stored. Of a database in use it is to be read before
    /// the records are.
    pub fn log(&mut self, row: LogRow) {
        let pinned = self.trust.knows(&row.attest_key);
        log_of(&mut self.logs, row.log).known_as(row, pinned);
    }

    /// The next record, and the index columns stored with it.
    pub fn record(&mut self, record: Record, columns: Option<&Columns>) {
        self.row(record, Stored { columns: columns.cloned(), ..Stored::default() });
    }

    /// The next record, and all that is stored with it.
    pub fn row(&mut self, record: Record, stored: Stored) {
        self.batch.push((record, stored));
        if self.batch.len() >= BATCH {
            self.take_batch();
        }
    }

    /// The next row of a log, which cannot be read as a record; at a seq where one can stand, if it is.
    pub fn unread(&mut self, log: LogId, seq: Option<u64>, message: String) {
        self.take_batch();
        self.report.records += 1;
        let log = log_of(&mut self.logs, log);
        match seq {
            Some(seq) => log.unread(seq, message),
            None => log.report(Code::BadLeaf, None, message),
        }
    }

    /// What is wrong with the data outside of its records.
    pub fn finding(&mut self, code: Code, message: String) {
        self.findings.push(code, None, None, message);
    }

    /// A receipt that a caller kept.
    pub fn receipt(&mut self, receipt: Receipt) {
        self.receipts.push(receipt);
    }

    /// A tree head of a log that was kept elsewhere. Its own signature is the caller's to check.
    pub fn anchor(&mut self, log: LogId, head: TreeHead) {
        self.anchors.push(Anchor { log, origin: None, head, key: None });
    }

    /// The end of the data.
    pub fn finish(self) -> Report {
        self.finish_with(None)
    }

    /// The end of the data, of which `tiles` gives the tiles.
    pub fn finish_with(mut self, tiles: Option<&mut TileReader<'_>>) -> Report {
        self.take_batch();
        for log in self.logs.values_mut() {
            self.report.declared_missing += log.end(&self.gone, &mut self.report.not_checked);
            self.report.unrecorded += log.unrecorded;
            self.report.unindexed += log.unindexed;
            self.report.erased += log.erased.len() as u64;
        }
        self.judge_unsigned();
        self.check_held(tiles);
        self.check_since();
        self.check_kept();
        self.check_edges();
        self.say_what_was_not_checked();
        for mut log in std::mem::take(&mut self.logs).into_values() {
            self.report.logs += u64::from(log.size() > 0);
            log.findings.sort();
            self.report.add(log.findings);
        }
        self.report.add(std::mem::take(&mut self.findings));
        if self.report.records == 0 {
            let mut nothing = Findings::default();
            nothing.push(Code::Empty, None, None, "there is no record to verify".to_owned());
            self.report.add(nothing);
        }
        self.report
    }

    /// Checks the batch's records by themselves, in parallel, then takes them in order.
    fn take_batch(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        if batch.is_empty() {
            return;
        }
        let (trust, share) = (&self.trust, batch.len().div_ceil(self.options.threads.max(1)));
        let one = |(record, stored): &(Record, Stored)| check::check(record, stored, trust);
        let checked: Vec<Checked> = std::thread::scope(|scope| {
            let mut shares = batch.chunks(share);
            let first = shares.next().unwrap_or_default();
            let others: Vec<_> =
                shares.map(|share| scope.spawn(move || share.iter().map(one).collect::<Vec<_>>())).collect();
            let mut checked: Vec<_> = first.iter().map(one).collect();
            for other in others {
                checked.extend(other.join().expect("checking a record does not panic"));
            }
            checked
        });
        self.report.records += checked.len() as u64;
        for record in checked {
            self.take(record);
        }
    }

    fn take(&mut self, record: Checked) {
        let (id, seq) = (record.log, record.seq);
        let log = log_of(&mut self.logs, id);
        let Some(facts) = log.take(record) else { return };
        if !self.ids.insert(facts.id()) {
            log.report(Code::Dup, seq, format!("the id {} is there twice", facts.id()));
        }
        let Facts { parents, response, columns, control, .. } = facts;
        match control {
            Control::Erasure { log, seq } => drop(self.gone.erasures.insert((log, seq))),
            Control::Prune { log, below, peaks } => self.gone.prune(log, below, peaks),
            _ => {}
        }
        for source in parents {
            let answer = Answer { log: id, seq, tenant: columns.tenant, response, source };
            // Most sources have passed already; the rest waits for the end.
            match self.logs.get(&answer.source.log).map(|log| log.place(answer.source.seq)) {
                Some(Place::Present(_)) => self.check_edge(&answer),
                _ => self.edges.push(answer),
            }
        }
    }

    /// Follows one edge to a record that is present.
    fn check_edge(&mut self, answer: &Answer) {
        let (source, log) = (&answer.source, &self.logs[&answer.source.log]);
        let Place::Present(at) = log.place(source.seq) else { return };
        let seen = log.seen(at);
        let differ =
            |a: Response, b: Response| a.key_epoch == b.key_epoch && a.fp.zip(b.fp).is_some_and(|(a, b)| a != b);
        let wrong = if source.log == answer.log && source.seq >= answer.seq {
            "names a source that is not older"
        } else if *log.leaf(at) != source.leaf_hash {
            "names a source that differs from the record there"
        } else if seen.erased {
            // The leaf is the one that the answer names; whose it was and what it said is gone.
            self.report.edges += 1;
            return;
        } else if seen.tenant.is_none() || seen.tenant != answer.tenant {
            "names a source of another tenant"
        } else if differ(source.response, seen.response) || differ(source.response, answer.response) {
            "is not the answer of its source"
        } else {
            self.report.edges += 1;
            return;
        };
        let text = format!("{wrong}: log {} seq {}", source.log, source.seq);
        log_of(&mut self.logs, answer.log).report(Code::LineageBroken, answer.seq, text);
    }

    fn check_edges(&mut self) {
        let mut elsewhere = 0_u64;
        for answer in std::mem::take(&mut self.edges) {
            let source = &answer.source;
            let log = self.logs.get(&source.log).filter(|log| !log.is_missing());
            match log.map(|log| log.place(source.seq)) {
                None => elsewhere += 1,
                Some(Place::Beyond) if self.options.live => elsewhere += 1,
                Some(Place::Hole) if log.is_some_and(|log| source.seq < log.pruned) => elsewhere += 1,
                Some(Place::Present(_)) => self.check_edge(&answer),
                Some(Place::Hole | Place::Beyond) => {
                    let text = format!("names a source that is not there: log {} seq {}", source.log, source.seq);
                    log_of(&mut self.logs, answer.log).report(Code::LineageBroken, answer.seq, text);
                }
            }
        }
        if elsewhere > 0 {
            self.report.not_checked.push(format!("{elsewhere} sources outside of this data"));
        }
    }

    fn check_kept(&mut self) {
        for receipt in std::mem::take(&mut self.receipts) {
            let log = log_of(&mut self.logs, receipt.log);
            if log.is_missing() {
                log.report(Code::MissingLog, receipt.seq, "a kept receipt names this log, nothing of it is there");
            } else {
                self.report.pins += u64::from(log.receipt(&receipt, &mut self.report.not_checked));
            }
        }
        for Anchor { log: id, origin, head, key } in std::mem::take(&mut self.anchors) {
            let log = log_of(&mut self.logs, id);
            if !log.lets_sign("an anchor", key, head.size) {
                continue;
            }
            if log.is_missing() {
                log.report(Code::MissingLog, None, "an anchor names this log, nothing of it is there");
            } else {
                let found = log.anchor("an anchor", (origin.as_deref(), &head), &mut self.report.not_checked);
                self.report.pins += u64::from(found);
            }
        }
    }

    fn say_what_was_not_checked(&mut self) {
        let lines = &mut self.report.not_checked;
        let pinned = self.logs.values().any(|log| log.pinned > 0);
        if !pinned {
            lines.push("truncation".to_owned());
        }
        for (id, log) in self.logs.iter_mut().filter(|(_, log)| log.size() > 0) {
            match log.pinned {
                0 if pinned => lines.push(format!("truncation of log {id}")),
                size if size > 0 && size < log.next_seq() => {
                    lines.push(format!("truncation of log {id} behind seq {}", size - 1));
                }
                _ => {}
            }
            if log.pinned == 0 && self.options.require_anchor {
                log.report(Code::Unanchored, None, "nothing kept elsewhere pins the end of this log");
            }
        }
        lines.push("whether a whole log is missing that no row, receipt or anchor names".to_owned());
        lines.push(
            "whether bodies are those that were committed to (that takes the bodies and their openings)".to_owned(),
        );
    }
}

fn log_of(logs: &mut BTreeMap<LogId, Log>, id: LogId) -> &mut Log {
    logs.entry(id).or_insert_with(|| Log::new(id))
}
