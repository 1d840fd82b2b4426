//! What can be told of one log: its order, its tree, its losses, and what others keep of it.

use super::check::{self, Checked};
use super::facts::{Control, Facts, Response, Usage};
use super::nodes::Nodes;
use super::report::{Code, Findings};
use crate::{Kind, LogRow, TreeHead};
use signet_types::{LogId, TenantId};

/// The state of one log while its records pass by.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) id: LogId,
    pub(super) row: Option<LogRow>,
    /// The key in its row is pinned.
    pub(super) row_pinned: bool,
    next_seq: u64,
    /// Leaves in the order of their seqs; while none is missing, the tree over them.
    pub(super) nodes: Nodes,
    /// With some missing, the tree once they are known.
    pub(super) whole: Option<Nodes>,
    /// What later checks need of each record present.
    pub(super) seen: Vec<Seen>,
    /// First seq and first index of each stretch without a hole.
    pub(super) runs: Vec<(u64, usize)>,
    pub(super) holes: Vec<(u64, u64)>,
    /// The first record that proves nothing: roots from there on cannot be told.
    pub(super) damaged: Option<u64>,
    pub(super) opened: Option<Opened>,
    /// The keys that sign, each from its seq on.
    pub(super) keys: Vec<(u64, [u8; 32])>,
    /// From which epochs on it promises `strict`, or no more.
    pub(super) modes: Vec<(u32, bool)>,
    /// The keys that sign its checkpoints, as its own signed records name them: each those that cover its seq.
    pub(super) checkpoint_keys: Vec<(u64, [u8; 32])>,
    /// Records of which only the leaf is left.
    pub(super) erased: Vec<u64>,
    /// Records below are gone by age, as a signed record says.
    pub(super) pruned: u64,
    pub(super) unindexed: u64,
    sealed: bool,
    pub(super) epoch: u32,
    pub(super) losses: Vec<Loss>,
    /// The head that was last found to fit.
    fits: Option<TreeHead>,
    /// Heads that do not fit the tree.
    pub(super) faults: Vec<Base>,
    /// Heads behind a hole, which wait for its leaves.
    pub(super) waiting: Vec<Base>,
    pub(super) unrecorded: u64,
    pub(super) pinned: u64,
    pub(super) findings: Findings,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) epoch: u32,
    pub(super) tenant: Option<TenantId>,
    pub(super) response: Response,
    pub(super) erased: bool,
}

#[derive(Debug)]
pub(super) struct Opened {
    pub(super) origin: String,
}

/// Seqs, both included, that a signed record says are gone.
#[derive(Debug)]
pub(super) struct Loss {
    /// Where it is declared.
    pub(super) seq: u64,
    pub(super) epoch: u32,
    pub(super) from: u64,
    pub(super) to: u64,
    /// A `gap` names records that stay missing; a `recovery` gives seqs free to be used again.
    pub(super) gap: bool,
    /// The database had confirmed the records of this `gap`.
    pub(super) by_database: bool,
    /// Named one by one, not only possible.
    pub(super) certain: bool,
    pub(super) leaves: Vec<[u8; 32]>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Base {
    pub(super) seq: u64,
    pub(super) epoch: u32,
    pub(super) head: TreeHead,
}

/// What the data says about a place in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Present(usize),
    Hole,
    Beyond,
}

impl Log {
    pub(super) fn new(id: LogId) -> Self {
        Self {
            id,
            row: None,
            row_pinned: false,
            next_seq: 0,
            nodes: Nodes::default(),
            whole: None,
            seen: Vec::new(),
            runs: Vec::new(),
            holes: Vec::new(),
            damaged: None,
            opened: None,
            keys: Vec::new(),
            modes: Vec::new(),
            checkpoint_keys: Vec::new(),
            erased: Vec::new(),
            pruned: 0,
            unindexed: 0,
            sealed: false,
            epoch: 0,
            losses: Vec::new(),
            fits: None,
            faults: Vec::new(),
            waiting: Vec::new(),
            unrecorded: 0,
            pinned: 0,
            findings: Findings::default(),
        }
    }

    /// `pinned`: the key that the row names is.
    pub(super) fn known_as(&mut self, row: LogRow, pinned: bool) {
        self.row = Some(row);
        self.row_pinned = pinned;
    }

    pub(super) fn size(&self) -> u64 {
        self.seen.len() as u64
    }

    pub(super) fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Nothing of it is there, and no signed record says why.
    pub(super) fn is_missing(&self) -> bool {
        self.size() == 0 && self.pruned == 0
    }

    /// Takes the records below `seq` for rightly gone: even all of them, and the log ends there then.
    pub(super) fn prune_to(&mut self, seq: u64) {
        self.pruned = seq;
        if seq > self.next_seq {
            self.holes.push((self.next_seq, seq - 1));
            self.next_seq = seq;
        }
    }

    pub(super) fn report(&mut self, code: Code, seq: impl Into<Option<u64>>, message: impl Into<String>) {
        self.findings.push(code, self.id, seq, message.into());
    }

    /// Takes the next record. Returns its facts if they count.
    pub(super) fn take(&mut self, record: Checked) -> Option<Facts> {
        let Checked { seq, epoch, leaf, key, facts, erased, unindexed, findings, .. } = record;
        let whole = findings.is_empty();
        for (code, message) in findings {
            self.report(code, seq, message);
        }
        if seq < self.next_seq {
            self.again(seq, &leaf, facts.is_some());
            return None;
        }
        self.advance(seq);
        self.unindexed += u64::from(unindexed);
        let facts = facts.filter(|facts| self.owns(seq, key, facts));
        let mut seen = Seen { epoch, tenant: None, response: Response::default(), erased };
        if erased && whole {
            self.erased.push(seq);
        } else if let Some(facts) = &facts {
            self.order(seq, facts);
            self.base(seq, facts);
            self.act(seq, facts);
            seen = Seen { epoch: facts.epoch, tenant: facts.columns.tenant, response: facts.response, erased };
        } else {
            self.damaged = self.damaged.or(Some(seq));
        }
        self.nodes.push(leaf);
        self.seen.push(seen);
        facts
    }

    /// Takes a row that holds no record: like one that proves nothing.
    pub(super) fn unread(&mut self, seq: u64, message: String) {
        self.report(Code::BadLeaf, seq, message);
        if seq < self.next_seq {
            return;
        }
        self.advance(seq);
        self.damaged = self.damaged.or(Some(seq));
        self.nodes.push([0; 32]);
        self.seen.push(Seen { epoch: self.epoch, tenant: None, response: Response::default(), erased: false });
    }

    /// A second row for a seq that has passed.
    fn again(&mut self, seq: u64, leaf: &[u8; 32], proved: bool) {
        match self.place(seq) {
            Place::Present(at) if self.leaf(at) == leaf => self.report(Code::Dup, seq, "the record is there twice"),
            Place::Present(_) if proved => self.report(Code::Fork, seq, "two signed records for one seq"),
            Place::Present(_) => {}
            Place::Hole | Place::Beyond => self.report(Code::Gap, seq, "the record is out of order"),
        }
    }

    fn advance(&mut self, seq: u64) {
        if seq > self.next_seq {
            self.holes.push((self.next_seq, seq - 1));
        }
        if seq > self.next_seq || self.runs.is_empty() {
            self.runs.push((seq, self.seen.len()));
        }
        self.next_seq = seq.saturating_add(1);
    }

    /// Whether the record is signed by the key that the log's first record names, or the last rotation before it.
    fn owns(&mut self, seq: u64, key: Option<[u8; 32]>, facts: &Facts) -> bool {
        if let (0, Control::Open { key, checkpoint, origin, strict }) = (seq, &facts.control) {
            self.checkpoint_keys.extend(checkpoint.map(|key| (0, key)));
            self.opened = Some(Opened { origin: origin.clone() });
            self.modes.push((facts.epoch, *strict));
            self.keys.push((0, *key));
        }
        let own = self.keys.last().is_none_or(|(_, current)| Some(*current) == key);
        if !own {
            self.report(Code::UnknownKey, seq, "signed by a pinned key that is not this log's own");
        }
        own
    }

    fn order(&mut self, seq: u64, facts: &Facts) {
        let behind_hole = self.runs.last().is_some_and(|run| run.0 == seq);
        match (&facts.control, seq) {
            (Control::Open { .. }, 1..) => self.report(Code::Fork, seq, "a second log_open"),
            (Control::Open { .. }, 0) | (_, 1..) => {}
            (_, 0) => self.report(Code::Gap, seq, "the log does not begin with its log_open"),
        }
        if self.sealed {
            self.report(Code::Fork, seq, "a record behind log_seal");
        }
        if facts.epoch < self.epoch {
            self.report(Code::Fork, seq, "the epoch falls");
        }
        let begins = facts.epoch > self.epoch && !behind_hole;
        if begins && !matches!(facts.control, Control::Recovery { .. }) {
            self.report(Code::Gap, seq, format!("epoch {} begins without its recovery record", facts.epoch));
        }
        self.epoch = self.epoch.max(facts.epoch);
    }

    /// Compares the head that the record was signed over with the tree, or keeps it until the tree is known.
    fn base(&mut self, seq: u64, facts: &Facts) {
        let base = Base { seq, epoch: facts.epoch, head: facts.base };
        if base.head.size > seq {
            self.report(Code::RootMismatch, seq, "signed over more records than stand before it");
        } else if self.damaged.is_some() || self.fits == Some(base.head) {
            // The cause is reported, or the same head was found to fit for a record before.
        } else if !self.holes.is_empty() {
            self.waiting.push(base);
        } else if self.nodes.root_at(base.head.size) == Some(base.head.root) {
            self.fits = Some(base.head);
        } else {
            self.faults.push(base);
        }
    }

    fn act(&mut self, seq: u64, facts: &Facts) {
        let epoch = facts.epoch;
        match &facts.control {
            Control::Recovery { lost, tail, strict } => {
                self.modes.extend(strict.map(|strict| (epoch, strict)));
                let named = lost.map(|(from, to)| (from, to, true));
                let possible = tail.map(|from| (from, u64::MAX, false));
                for (from, to, certain) in named.into_iter().chain(possible) {
                    self.losses.push(Loss {
                        seq,
                        epoch,
                        from,
                        to,
                        gap: false,
                        certain,
                        leaves: Vec::new(),
                        by_database: false,
                    });
                }
            }
            Control::Gap { from, to, leaves, by_database } => {
                let (from, to, leaves, by_database) = (*from, *to, leaves.clone(), *by_database);
                self.losses.push(Loss { seq, epoch, from, to, gap: true, certain: true, leaves, by_database });
            }
            Control::Unrecorded { count } => self.unrecorded = self.unrecorded.saturating_add(*count),
            Control::Rotate { usage, old, new, proof } => self.rotate(seq, *usage, (old.as_ref(), new), proof),
            // A log speaks of others too: erasures and prunes are gathered over all of them.
            Control::Erasure { .. } | Control::Prune { .. } | Control::Open { .. } | Control::None => {}
        }
        self.sealed |= facts.columns.kind == Kind::LogSeal;
    }

    /// A key takes over behind this record, if it says so itself. Of a log whose name is not there that cannot be told.
    fn rotate(&mut self, seq: u64, usage: Usage, (old, new): (Option<&[u8; 32]>, &[u8; 32]), proof: &[u8; 64]) {
        let origin = self.opened.as_ref().map(|opened| &opened.origin).or(self.row.as_ref().map(|row| &row.origin));
        let name = origin.map(|origin| format!("{origin}/{}", self.id));
        let current = self.keys.last().map(|(_, key)| key);
        if name.is_some_and(|name| !check::takes_over(&name, usage, old, new, proof)) {
            self.report(Code::BadSig, seq, "the key that takes over did not sign the rotation");
        } else if usage == Usage::Checkpoint {
            // Where the first record is not there, the one before is named here; a log without one signs all with the first.
            if self.checkpoint_keys.is_empty() {
                self.checkpoint_keys.push((0, *old.unwrap_or(new)));
            }
            self.checkpoint_keys.push((seq, *new));
        } else if current.is_some_and(|current| old != Some(current)) {
            self.report(Code::UnknownKey, seq, "a rotation away from a key that did not sign here");
        } else {
            self.keys.push((seq + 1, *new));
        }
    }

    pub(super) fn place(&self, seq: u64) -> Place {
        let after = self.runs.partition_point(|run| run.0 <= seq);
        let Some(&(first_seq, first_index)) = after.checked_sub(1).and_then(|at| self.runs.get(at)) else {
            return if seq < self.next_seq { Place::Hole } else { Place::Beyond };
        };
        let end = self.runs.get(after).map_or(self.seen.len(), |next| next.1);
        let index = usize::try_from(seq - first_seq).ok().and_then(|past| first_index.checked_add(past));
        match index {
            Some(index) if index < end => Place::Present(index),
            _ if seq < self.next_seq => Place::Hole,
            _ => Place::Beyond,
        }
    }

    pub(super) fn leaf(&self, at: usize) -> &[u8; 32] {
        &self.nodes.leaves()[at]
    }

    pub(super) fn seen(&self, at: usize) -> &Seen {
        &self.seen[at]
    }
}
