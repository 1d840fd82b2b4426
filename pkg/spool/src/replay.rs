//! What the frames of a log add up to, read in order: the tree, the missing records, the requests left open.

use crate::config::{Gap, OpenFault};
use crate::frame::{FLAG_CLEAN, Frame, Hash, Kind};
use crate::recent::Recent;
use crate::segment::Segment;
use signet_lineage::{Columns, DeclaredGap, Leaf, Record, Tree, TreeHead};
use signet_types::{LineageId, LogId};
use std::collections::{HashMap, HashSet};

/// The leaf hash of the empty entry, `SHA-256(0x00)`. It stands in the tree for a record that was lost before any head
/// covered it.
pub(crate) const VOID_LEAF: Hash = [
    0x6e, 0x34, 0x0b, 0x9c, 0xff, 0xb3, 0x7a, 0x98, 0x9c, 0xa5, 0x44, 0xe6, 0xbb, 0x78, 0x0a, 0x2c, 0x78, 0x90, 0x1d,
    0x3f, 0xb3, 0x37, 0x38, 0x76, 0x85, 0x11, 0xa3, 0x06, 0x17, 0xaf, 0xa0, 0x1d,
];

/// Invariant: `tree.size() + since.len() == expected`.
#[derive(Debug)]
pub(crate) struct Replay {
    log: LogId,
    /// A head that the tree must pass through.
    published: Option<TreeHead>,
    /// The last tree that was written down, or taken up again behind damage.
    tree: Tree,
    /// Leaf hashes since; none where the record is missing.
    since: Vec<Option<Hash>>,
    expected: u64,
    /// The end of the segment in hand, where the next one takes over.
    limit: u64,
    pub(crate) gaps: Vec<Gap>,
    pub(crate) live: HashMap<LineageId, Box<[u8]>>,
    /// Requests that were open where records are missing: their own may be among those. An OPEN behind the hole, also one
    /// that a later segment begins with, shows that it is not.
    pub(crate) undecided: HashSet<LineageId>,
    pub(crate) recent: Recent,
    gap_keys: Option<Vec<[u8; 32]>>,
    declared: Vec<DeclaredGap>,
    /// The last frame read ended the log properly.
    pub(crate) clean: bool,
}

impl Replay {
    /// A log that begins with `tree`; what the database holds less than that is missing.
    pub(crate) fn new(
        log: LogId,
        tree: Tree,
        shipped: Option<u64>,
        gap_keys: Option<Vec<[u8; 32]>>,
        published: Option<TreeHead>,
    ) -> Result<Self, OpenFault> {
        let mut replay = Self {
            log,
            published,
            expected: tree.size(),
            tree,
            since: Vec::new(),
            limit: u64::MAX,
            gaps: Vec::new(),
            live: HashMap::new(),
            undecided: HashSet::new(),
            recent: Recent::default(),
            gap_keys,
            declared: Vec::new(),
            clean: false,
        };
        if let Some(from) = shipped {
            replay.note_gap(from, replay.expected);
        }
        passes(replay.published, &replay.tree)?;
        Ok(replay)
    }

    fn note_gap(&mut self, from: u64, below: u64) {
        if from < below {
            tracing::warn!(log = %self.log, first_seq = from, last_seq = below - 1, "lineage records are missing");
            self.undecided.extend(self.live.drain().map(|(id, _)| id));
            self.gaps.push(Gap { first_seq: from, last_seq: below - 1, leaves: Vec::new() });
        }
    }

    fn note_declared(&mut self, record: &Record) {
        let Some(keys) = &self.gap_keys else { return };
        if Columns::read(&record.payload).is_ok_and(|columns| columns.kind == signet_lineage::Kind::Gap) {
            self.declared.extend(keys.iter().find_map(|key| DeclaredGap::read(record, key)));
        }
    }

    /// The first gap that may not be gone over.
    pub(crate) fn undeclared(&self) -> Option<&Gap> {
        let covers = |gap: &Gap| self.declared.iter().any(|told| told.from <= gap.first_seq && gap.last_seq <= told.to);
        self.gaps.iter().find(|gap| self.gap_keys.is_some() && !covers(gap))
    }

    /// The seq behind the last record known of.
    pub(crate) const fn next_seq(&self) -> u64 {
        self.expected
    }

    /// Enters a segment that begins with `tree`; the next one begins with seq `limit`.
    pub(crate) fn enter(&mut self, tree: &Tree, limit: u64) -> Result<(), OpenFault> {
        self.limit = limit;
        self.clean = false;
        if self.expected < tree.size() {
            self.note_gap(self.expected, tree.size());
            self.expected = tree.size();
            self.since.clear();
            self.tree = tree.clone();
            return passes(self.published, tree);
        }
        self.settle(&[], tree)
    }

    /// Takes a frame in, which stands at `offset` of `segment`.
    pub(crate) fn take(&mut self, frame: &Frame<'_>, segment: &mut Segment, offset: u64) -> Result<(), OpenFault> {
        self.clean = frame.flags & FLAG_CLEAN != 0;
        self.miss_up_to(frame.seq.min(self.limit));
        match frame.kind {
            Kind::Open => {
                self.undecided.remove(&frame.id());
                self.live.insert(frame.id(), frame.facts().into());
            }
            Kind::Close if frame.seq == self.expected && frame.seq < self.limit => {
                let record = frame.record(self.log, segment.epoch);
                self.since.push(Some(Leaf::of(&record).hash()));
                self.expected += 1;
                self.live.remove(&record.id);
                self.undecided.remove(&record.id);
                self.recent.remember(record.id, record.seq);
                self.note_declared(&record);
                segment.note(record.id, record.seq, offset);
            }
            // Beyond the limit: it was written again into the next segment.
            Kind::Close => {}
            Kind::GroupEnd => {
                let (leaves, tree) = frame.group().ok_or(OpenFault::Forked { size: frame.seq })?;
                if (self.tree.size()..=self.expected).contains(&tree.size()) {
                    self.settle(&leaves, &tree)?;
                }
            }
        }
        Ok(())
    }

    /// Every frame says which seq comes next, so the records lost before it are known exactly.
    fn miss_up_to(&mut self, seq: u64) {
        self.note_gap(self.expected, seq);
        while self.expected < seq {
            self.since.push(None);
            self.expected += 1;
        }
    }

    /// Compares with the tree that was written down and goes on from it.
    fn settle(&mut self, leaves: &[Hash], written: &Tree) -> Result<(), OpenFault> {
        let size = written.size();
        let first_leaf = size - leaves.len() as u64;
        let mut own = Some(self.tree.clone());
        let count = usize::try_from(size - self.tree.size()).expect("within `since`");
        for (seq, leaf) in (self.tree.size()..size).zip(self.since.drain(..count)) {
            let told = seq.checked_sub(first_leaf).and_then(|i| leaves.get(usize::try_from(i).ok()?)).copied();
            if let (None, Some(told)) = (leaf, told)
                && let Some(gap) = self.gaps.iter_mut().find(|g| (g.first_seq..=g.last_seq).contains(&seq))
            {
                gap.leaves.push((seq, told));
            }
            match (leaf.or(told), &mut own) {
                (Some(leaf), Some(tree)) => {
                    tree.push(leaf);
                    passes(self.published, tree)?;
                }
                _ => own = None,
            }
        }
        if own.is_some_and(|own| own != *written) {
            return Err(OpenFault::Forked { size });
        }
        self.tree = written.clone();
        passes(self.published, &self.tree)
    }

    /// The tree over everything. A record that is missing behind the last tree written down was in no head that anyone
    /// may hold, so a void leaf may stand for it.
    pub(crate) fn finish(&mut self) -> Result<Tree, OpenFault> {
        for (seq, leaf) in (self.tree.size()..).zip(std::mem::take(&mut self.since)) {
            let leaf = leaf.unwrap_or_else(|| {
                let leaf = VOID_LEAF;
                let gap = self.gaps.iter_mut().find(|g| (g.first_seq..=g.last_seq).contains(&seq));
                gap.expect("a missing leaf is in a gap").leaves.push((seq, leaf));
                leaf
            });
            self.tree.push(leaf);
            passes(self.published, &self.tree)?;
        }
        Ok(self.tree.clone())
    }
}

/// Whether the tree, at the size of the published head, is the published one.
fn passes(published: Option<TreeHead>, tree: &Tree) -> Result<(), OpenFault> {
    match published {
        Some(head) if head.size == tree.size() && head.root != tree.root() => {
            Err(OpenFault::Forked { size: head.size })
        }
        _ => Ok(()),
    }
}
