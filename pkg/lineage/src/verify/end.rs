//! What can be told of a log only when all of it has passed: losses, heads over them, and what others keep of it.

use super::log::{Base, Log, Loss, Place};
use super::nodes::Nodes;
use super::report::Code;
use crate::{Receipt, TreeHead};
use signet_types::LogId;
use std::collections::{BTreeMap, HashSet};

/// What signed records of any log say is gone.
#[derive(Debug, Default)]
pub(super) struct Declared {
    /// Records whose payloads were erased.
    pub(super) erasures: HashSet<(LogId, u64)>,
    /// Logs that were pruned, below which seq, and the subtree roots over what is gone.
    pub(super) prunes: BTreeMap<LogId, (u64, Vec<[u8; 32]>)>,
}

impl Declared {
    /// Of several prunes of one log the furthest counts. One that does not hold a root for each bit of its seq says
    /// nothing of the tree, and so excuses nothing.
    pub(super) fn prune(&mut self, log: LogId, below: u64, peaks: Vec<[u8; 32]>) {
        let whole = peaks.len() == below.count_ones() as usize;
        if whole && self.prunes.get(&log).is_none_or(|(before, _)| *before < below) {
            self.prunes.insert(log, (below, peaks));
        }
    }
}

impl Log {
    /// Judges the log's own row, holes and heads. Returns how many records are missing and declared so.
    pub(super) fn end(&mut self, gone: &Declared, not_checked: &mut Vec<String>) -> u64 {
        self.prune_to(gone.prunes.get(&self.id).map_or(0, |(below, _)| *below));
        self.check_row();
        self.check_erased(gone);
        if self.losses.iter().any(|loss| loss.certain && !self.believed(loss)) {
            self.report(Code::Truncated, None, "a log that promises `strict` declares acknowledged records lost");
        }
        let declared = self.check_holes();
        self.rebuild(gone);
        self.check_waiting();
        self.check_faults();
        let known = self.known_to();
        if known < self.next_seq() {
            not_checked.push(format!("tree heads of log {} behind seq {known}", self.id));
        }
        if self.pruned > 0 {
            not_checked.push(format!("the {} records of log {} that were pruned", self.pruned, self.id));
        }
        declared
    }

    fn check_row(&mut self) {
        let Some(row) = self.row.clone() else { return };
        let next = self.next_seq();
        if self.is_missing() && row.next_seq > 0 {
            self.report(Code::MissingLog, None, format!("none of its {} records is there", row.next_seq));
        } else if row.next_seq > next {
            self.report(Code::Truncated, next, format!("records up to seq {} were stored", row.next_seq - 1));
        }
        let Some(opened) = &self.opened else { return };
        // A process makes its log known before its records are there, and the rotation that let its key in may be among them.
        let to_come = self.row_pinned && row.epoch > self.epoch;
        let own = to_come || self.keys.iter().any(|(_, key)| *key == row.attest_key);
        let columns = [("attest_key", own), ("origin", row.origin == opened.origin)];
        for (column, _) in columns.into_iter().filter(|(_, same)| !same) {
            self.report(Code::IndexMismatch, None, format!("{column} of the log's row is not what its log_open says"));
        }
    }

    /// An erasure leaves the leaf, so that the tree over it can still be told.
    fn check_erased(&mut self, gone: &Declared) {
        let id = self.id;
        let allowed = |seq: &u64| gone.erasures.contains(&(id, *seq));
        let (allowed, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.erased).into_iter().partition(allowed);
        self.erased = allowed;
        for seq in others {
            self.report(Code::ErasedUnauth, seq, "the payload is gone and no signed record says so");
        }
    }

    fn check_holes(&mut self) -> u64 {
        let mut declared = 0;
        let kept = self.holes.iter().map(|&(from, to)| (from.max(self.pruned), to)).filter(|(from, to)| from <= to);
        for (from, to) in kept.collect::<Vec<_>>() {
            if let Some(missing) = self.undeclared(from, to) {
                self.report(Code::Gap, missing, format!("missing: seq {missing} to {to}"));
            } else {
                declared += to - from + 1;
                if self.losses.iter().any(|loss| loss.by_database && loss.from <= to && from <= loss.to) {
                    let what = format!("the database lost seq {from} to {to}, which it had confirmed");
                    self.report(Code::DbRegression, from, what);
                }
            }
        }
        declared
    }

    /// The first seq of `from..=to` that no signed record behind it declares missing. What a `recovery` set free is
    /// written again from its own seq on, so neither kind can excuse a hole behind itself.
    fn undeclared(&self, from: u64, to: u64) -> Option<u64> {
        let mut next = from;
        while next <= to {
            let losses = self.losses.iter().filter(|loss| loss.certain && self.believed(loss));
            let ranges = losses.map(|loss| loss.from..loss.seq.min(loss.to.saturating_add(1)));
            let covered = ranges.filter(|range| range.contains(&next)).map(|range| range.end - 1).max();
            match covered {
                Some(covered) => next = covered.checked_add(1)?,
                None => return Some(next),
            }
        }
        None
    }

    /// With holes, the tree over all leaves again, as far as `gap` records tell the missing ones.
    fn rebuild(&mut self, gone: &Declared) {
        if self.holes.is_empty() {
            return;
        }
        let peaks = gone.prunes.get(&self.id);
        let mut whole = peaks.map_or_else(Nodes::default, |(below, peaks)| Nodes::behind(*below, peaks));
        let ends = self.runs.iter().skip(1).map(|run| run.1).chain([self.seen.len()]);
        'runs: for (&(first_seq, first), end) in self.runs.iter().zip(ends) {
            for seq in whole.size()..first_seq {
                match self.lost_leaf(seq) {
                    Some(leaf) => whole.push(leaf),
                    None => break 'runs,
                }
            }
            // Records below a prune that are still there are in its roots already.
            let there = usize::try_from(self.pruned.saturating_sub(first_seq)).unwrap_or(usize::MAX).min(end - first);
            self.nodes.leaves()[first + there..end].iter().for_each(|leaf| whole.push(*leaf));
        }
        self.whole = Some(whole);
    }

    fn lost_leaf(&self, seq: u64) -> Option<[u8; 32]> {
        let of = |loss: &Loss| loss.leaves.get(usize::try_from(seq.checked_sub(loss.from)?).ok()?).copied();
        self.losses.iter().filter(|loss| seq <= loss.to).find_map(of)
    }

    /// Roots over at most this many leaves can be told.
    pub(super) fn known_to(&self) -> u64 {
        self.tree().size().min(self.damaged.unwrap_or(u64::MAX))
    }

    pub(super) fn tree(&self) -> &Nodes {
        self.whole.as_ref().unwrap_or(&self.nodes)
    }

    pub(super) fn root_at(&self, size: u64) -> Option<[u8; 32]> {
        self.tree().root_at(size).filter(|_| size <= self.known_to())
    }

    fn check_waiting(&mut self) {
        for base in std::mem::take(&mut self.waiting) {
            if self.root_at(base.head.size).is_some_and(|root| root != base.head.root) {
                self.faults.push(base);
            }
        }
    }

    /// A head over what did not survive is excused by the signed loss that a later epoch declares, and by nothing else.
    fn check_faults(&mut self) {
        let faults = std::mem::take(&mut self.faults);
        let excused = |base: &&Base| {
            let covers = |loss: &Loss| loss.epoch > base.epoch && loss.from < base.head.size && self.believed(loss);
            self.losses.iter().any(covers)
        };
        let wrong: Vec<Base> = faults.iter().filter(|base| !excused(base)).copied().collect();
        if let Some(first) = wrong.first() {
            let (size, behind) = (first.head.size, wrong.len() - 1);
            let text = format!("signed over another history of the first {size} records; so are {behind} more");
            self.report(Code::RootMismatch, first.seq, text);
        }
    }

    /// Where the epoch before promised `strict`, a lost tail excuses nothing: else it could hide a deletion.
    fn believed(&self, loss: &Loss) -> bool {
        let before = self.modes.iter().rev().find(|(epoch, _)| *epoch < loss.epoch);
        loss.gap || !before.is_some_and(|(_, strict)| *strict)
    }

    /// Looks for the record of a receipt that a caller kept. Returns whether it is there, unchanged.
    pub(super) fn receipt(&mut self, kept: &Receipt, not_checked: &mut Vec<String>) -> bool {
        let seq = kept.seq;
        if self.opened.as_ref().is_some_and(|opened| opened.origin != kept.origin) {
            self.report(Code::WrongLog, seq, format!("a kept receipt names the origin {}", kept.origin));
            return false;
        }
        let place = self.place(seq);
        if let Place::Present(at) = place
            && *self.leaf(at) == kept.leaf_hash
            && self.seen(at).epoch == kept.epoch
        {
            self.pinned = self.pinned.max(seq + 1);
            return true;
        }
        let declares = |loss: &Loss| {
            let freed = !loss.gap && loss.epoch > kept.epoch;
            (loss.from..=loss.to).contains(&seq) && self.believed(loss) && (freed || (loss.gap && place == Place::Hole))
        };
        if place == Place::Hole && seq < self.pruned {
            not_checked.push(format!("a kept receipt of log {} seq {seq}, which was pruned", self.id));
            return false;
        }
        let (code, text) = match place {
            _ if self.losses.iter().any(declares) => {
                (Code::LostDeclared, "a kept receipt's record was lost, as declared")
            }
            Place::Present(_) => (Code::Fork, "the record is not the one that a kept receipt names"),
            Place::Hole => (Code::Gap, "the record that a kept receipt names is missing"),
            Place::Beyond => (Code::Truncated, "the log ends before the record that a kept receipt names"),
        };
        self.report(code, seq, text);
        false
    }

    /// Compares a tree head, kept under `origin` as `what`. Returns whether the log still holds it.
    pub(super) fn anchor(
        &mut self,
        what: &str,
        (origin, head): (Option<&str>, &TreeHead),
        not_checked: &mut Vec<String>,
    ) -> bool {
        if let Some(origin) = origin
            && self.opened.as_ref().is_some_and(|opened| opened.origin != origin)
        {
            self.report(Code::WrongLog, None, format!("{what} names the origin {origin}"));
            return false;
        }
        if head.size > self.next_seq() {
            self.report(Code::Truncated, self.next_seq(), format!("{what} was taken at size {}", head.size));
            return false;
        }
        match self.root_at(head.size) {
            Some(root) if root == head.root => {
                self.pinned = self.pinned.max(head.size);
                true
            }
            Some(_) => {
                self.report(Code::Fork, None, format!("the first {} records are not those of {what}", head.size));
                false
            }
            None => {
                let (id, size) = (self.id, head.size);
                not_checked.push(format!("{what} of log {id} at size {size}: records before it are not there"));
                false
            }
        }
    }
}
