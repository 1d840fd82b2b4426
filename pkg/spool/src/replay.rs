//! What the frames of a log add up to, read in order: the tree, the missing records, the requests left open.

use crate::config::{Gap, OpenFault};
use crate::frame::{FLAG_CLEAN, Frame, Hash, Kind};
use crate::published::Published;
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

/// Longest gap whose leaf hashes are looked for in tiles, 40 bytes each.
const LONGEST_TOLD: u64 = 1 << 16;

/// Invariant: `tree.size() + since.len() == expected`.
pub(crate) struct Replay {
    log: LogId,
    /// A head that the tree must pass through, and leaf hashes below it.
    published: Published,
    /// The largest head that a readable record behind damage was signed over.
    based: u64,
    /// The last tree that was written down, or taken up again behind damage.
    tree: Tree,
    /// Leaf hashes since; none where the record is missing.
    since: Vec<Option<Hash>>,
    expected: u64,
    /// The end of the segment in hand, where the next one takes over.
    limit: u64,
    pub(crate) gaps: Vec<Gap>,
    pub(crate) live: HashMap<LineageId, Box<[u8]>>,
    /// How far the answers of those had come.
    pub(crate) progress: HashMap<LineageId, u64>,
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
        published: Published,
    ) -> Result<Self, OpenFault> {
        let mut replay = Self {
            log,
            published,
            based: 0,
            expected: tree.size(),
            tree,
            since: Vec::new(),
            limit: u64::MAX,
            gaps: Vec::new(),
            live: HashMap::new(),
            progress: HashMap::new(),
            undecided: HashSet::new(),
            recent: Recent::default(),
            gap_keys,
            declared: Vec::new(),
            clean: false,
        };
        if let Some(from) = shipped {
            replay.note_gap(from, replay.expected);
        }
        passes(replay.published.head(), &replay.tree)?;
        Ok(replay)
    }

    fn note_gap(&mut self, from: u64, below: u64) {
        if from < below {
            tracing::warn!(log = %self.log, first_seq = from, last_seq = below - 1, "lineage records are missing");
            self.undecided.extend(self.live.drain().map(|(id, _)| id));
            self.progress.clear();
            let told = from..below.min(from.saturating_add(LONGEST_TOLD));
            let leaves = told.filter_map(|seq| Some((seq, self.published.leaf(seq)?))).collect();
            self.gaps.push(Gap { first_seq: from, last_seq: below - 1, leaves });
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
            return passes(self.published.head(), tree);
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
                self.progress.remove(&record.id);
                self.undecided.remove(&record.id);
                if !self.gaps.is_empty() {
                    self.based = self.based.max(base_size(&record));
                }
                self.recent.remember(record.id, record.seq);
                self.note_declared(&record);
                segment.note(record.id, record.seq, offset);
            }
            // Beyond the limit: it was written again into the next segment.
            Kind::Close => {}
            Kind::Progress => {
                if self.live.contains_key(&frame.id()) {
                    self.progress.insert(frame.id(), frame.bytes());
                }
            }
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
        let (mut own, mut guessed) = (self.tree.clone(), Vec::new());
        let count = usize::try_from(size - self.tree.size()).expect("within `since`");
        for (seq, leaf) in (self.tree.size()..size).zip(self.since.drain(..count)) {
            let told = seq.checked_sub(first_leaf).and_then(|i| leaves.get(usize::try_from(i).ok()?)).copied();
            if let (None, Some(told), Some(gap)) = (leaf, told, gap_over(&mut self.gaps, seq)) {
                gap.tell(seq, told);
            }
            let leaf = leaf.or_else(|| gap_over(&mut self.gaps, seq)?.leaf(seq));
            own.push(leaf.unwrap_or_else(|| {
                guessed.push(seq);
                VOID_LEAF
            }));
            if guessed.is_empty() {
                passes(self.published.head(), &own)?;
            }
        }
        // An earlier recovery may have put void leaves in their place.
        let fits = own == *written;
        for seq in guessed.iter().filter(|_| fits) {
            gap_over(&mut self.gaps, *seq).expect("a missing leaf is in a gap").tell(*seq, VOID_LEAF);
        }
        if !fits && guessed.is_empty() {
            return Err(OpenFault::Forked { size });
        }
        self.tree = written.clone();
        passes(self.published.head(), &self.tree)
    }

    /// The tree over everything. A record that is missing behind the last tree written down, and that no readable record
    /// was signed over, was in no head that anyone may hold, so a void leaf may stand for it.
    pub(crate) fn finish(&mut self) -> Result<Tree, OpenFault> {
        let published = self.published.head();
        for (seq, leaf) in (self.tree.size()..).zip(std::mem::take(&mut self.since)) {
            let leaf = match leaf {
                Some(leaf) => leaf,
                None => self.missing_leaf(seq)?,
            };
            self.tree.push(leaf);
            passes(published, &self.tree)?;
        }
        Ok(self.tree.clone())
    }

    fn missing_leaf(&mut self, seq: u64) -> Result<Hash, OpenFault> {
        let gap = gap_over(&mut self.gaps, seq).expect("a missing leaf is in a gap");
        if let Some(leaf) = gap.leaf(seq) {
            return Ok(leaf);
        }
        if self.published.head().is_some_and(|head| seq < head.size) {
            let what = "neither the segments nor the tiles hold what the last checkpoint was signed over";
            return Err(OpenFault::Damaged { file: "checkpoint".into(), what });
        }
        if seq >= self.based {
            gap.tell(seq, VOID_LEAF);
        }
        Ok(VOID_LEAF)
    }
}

fn gap_over(gaps: &mut [Gap], seq: u64) -> Option<&mut Gap> {
    gaps.iter_mut().find(|gap| (gap.first_seq..=gap.last_seq).contains(&seq))
}

/// Size of the head that a record was signed over; 0 if its payload is no statement. In canonical JSON these bytes stand
/// in no string: a quotation mark there has a backslash before it.
fn base_size(record: &Record) -> u64 {
    const NAME: &[u8] = b"\"base_size\":";
    let at = record.payload.windows(NAME.len()).position(|part| part == NAME);
    let digits = at.map_or(&[][..], |at| &record.payload[at + NAME.len()..]);
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |size, digit| size.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
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
